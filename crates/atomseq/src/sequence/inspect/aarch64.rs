//! The AArch64 instructions that `emit/aarch64` writes.

use super::{Branch, Instruction, Machine};

pub const MACHINE: Machine = Machine {
    decode,
    longest: 4,
    // adr x16, . + 16; str x16, [sp, #8]; ldr x16, [sp]; ret x16
    back: &[
        0x90, 0x00, 0x00, 0x10, 0xf0, 0x07, 0x00, 0xf9, 0xf0, 0x03, 0x40, 0xf9, 0x00, 0x02, 0x5f,
        0xd6,
    ],
    is_breakpoint: |code, at| {
        // brk with any number
        let word = code.get(at / 4 * 4..).and_then(|code| code.first_chunk());
        word.is_some_and(|word| u32::from_le_bytes(*word) & 0xffe0_001f == 0xd420_0000)
    },
};

/// The bits that matter, and their values.
const PLAIN: &[(u32, u32)] = &[
    (0xbfc0_0000, 0xb940_0000), // ldr, of 4 or 8 bytes, at an unsigned offset
    (0xbfc0_0000, 0xb900_0000), // str
    (0xbfe0_0c00, 0xb840_0000), // ldur
    (0xbfe0_0c00, 0xb800_0000), // stur
    (0xffff_fc00, 0xc8df_fc00), // ldar
    (0xffff_fc00, 0xf8bf_c000), // ldapr
    (0xffff_fc00, 0xc89f_fc00), // stlr
    (0xff80_0000, 0x9100_0000), // add x, x, #, also of pages
    (0xff80_0000, 0xd100_0000), // sub x, x, #
    (0xffc0_001f, 0xf100_001f), // cmp x, #
    (0xffe0_fc00, 0x8b00_0000), // add
    (0xffe0_fc00, 0xcb00_0000), // sub
    (0xffe0_fc1f, 0xeb00_001f), // cmp
    (0xffe0_fc00, 0x9b00_7c00), // mul
    (0xffe0_fc00, 0x8a00_0000), // and
    (0xffe0_fc00, 0xaa00_0000), // orr
    (0xffe0_fc00, 0xca00_0000), // eor
    (0xffe0_fc00, 0x9ac0_2000), // lsl by a register
    (0xffe0_fc00, 0x9ac0_2400), // lsr by a register
    (0xffe0_fc00, 0x9a80_3000), // csel lo
    (0xffe0_fc00, 0x9a80_8000), // csel hi
    (0xffe0_ffe0, 0xaa20_03e0), // mvn
    (0xff80_0000, 0xd280_0000), // movz
    (0xff80_0000, 0x9280_0000), // movn
    (0xff80_0000, 0xf280_0000), // movk
];

/// The entries whose register 31 in bits 5 to 9 would be the stack pointer.
const WITH_BASE: std::ops::Range<usize> = 0..10;

/// cbz and cbnz, of 8 bytes.
const COMPARE_AND_BRANCH: u32 = 0xb400_0000;
/// b.cond
const CONDITIONAL: u32 = 0x5400_0000;
/// eq, ne, hs, lo, hi, ls
const CONDITIONS: [u32; 6] = [0, 1, 2, 3, 8, 9];

fn decode(code: &[u8]) -> Option<Instruction> {
    let word = u32::from_le_bytes(code.get(..4)?.try_into().ok()?);
    let conditional = word & 0xff00_0010 == CONDITIONAL && CONDITIONS.contains(&(word & 0xf));
    let branch = (conditional || word & 0xfe00_0000 == COMPARE_AND_BRANCH).then(|| {
        // A signed offset of nineteen bits, in instructions.
        let offset = ((word << 8) as i32 >> 13) as isize * 4;
        let rest = word & !0x00ff_ffe0;
        Branch { offset, rest }
    });
    let known = branch.is_some() || is_plain(word) || is_shift(word) || is_mask(word);
    known.then_some(Instruction { bytes: 4, branch })
}

fn is_plain(word: u32) -> bool {
    let kind = PLAIN.iter().position(|(mask, bits)| word & mask == *bits);
    let base = word >> 5 & 31;
    kind.is_some_and(|kind| !WITH_BASE.contains(&kind) || base != 31)
        // add and sub with an immediate can write the stack pointer.
        && (word & 0xbf80_0000 != 0x9100_0000 || word & 31 != 31)
}

/// lsl and lsr by an immediate, two of the forms of ubfm.
fn is_shift(word: u32) -> bool {
    let (first, last) = (word >> 16 & 63, word >> 10 & 63);
    word & 0xffc0_0000 == 0xd340_0000 && (last == 63 || first == last + 1)
}

/// and with a mask of ones from the lowest bit on. A mask of all ones cannot be encoded.
fn is_mask(word: u32) -> bool {
    let (last, from, to) = (word >> 10 & 63, word >> 5 & 31, word & 31);
    word & 0xffff_0000 == 0x9240_0000 && last != 63 && from != 31 && to != 31
}
