//! The assembled object file, read back: what the kernel demands of a section, what a restart
//! demands of its instructions, and a barrier between a claim and a store on every path.
//! Instructions are recognized by their bits, so that nothing is shared with the emitter.
//!
//! For each descriptor in `__rseq_cs`:
//!
//! 1. Version and flags are 0, the abort address lies outside, and the signature precedes it.
//! 2. The section begins right behind the store that arms it, and its last instruction is a store.
//! 3. Inside nothing calls, returns or branches backwards, but for a copy and a compare-and-swap,
//!    which count as one instruction each. A branch leads out, or with a claim to the commit.
//! 4. There are at most 32 instructions and one claim, and on every path `dmb ishst` between the
//!    claim and the first store behind it.

use std::collections::HashSet;
use std::rc::Rc;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use verify_compiler::random;
use verify_compiler::SEEDS;

use super::assembly::Emitted;
use super::{library, tools};
use atomseq_compiler::emit::{ConstantOperand, LONGEST};
use atomseq_compiler::forms::Form;
use atomseq_compiler::forms::Forms;

const DESCRIPTOR_BYTES: usize = 32;
const SIGNATURE: u32 = 0xd428_bc00;

/// Values for the operands of a template.
#[derive(Clone, Copy, PartialEq)]
enum Extreme {
    Smallest,
    /// The largest that instructions hold.
    Largest,
    /// For words, the largest there is.
    Beyond,
}

fn extreme(operand: &ConstantOperand, extreme: Extreme) -> i64 {
    match (operand, extreme) {
        (ConstantOperand::Immediate(_), Extreme::Largest) => 65_535,
        (ConstantOperand::Immediate(_), Extreme::Smallest) => 0,
        (ConstantOperand::Immediate(_) | ConstantOperand::Register(_), _) => -1,
        (ConstantOperand::Offset(..), Extreme::Smallest) => -256,
        (ConstantOperand::Offset(_, bytes), _) => 4095 * i64::from(*bytes),
    }
}

/// Returns the library's sequences and the random ones, each with the smallest constants, with the
/// largest that instructions hold, and with larger ones.
pub fn all(form: Form) -> Vec<(String, Emitted)> {
    let random = SEEDS.iter().map(|seed| {
        let program = random::generate(*seed);
        let sequence = library::sequence(&program.text());
        (program.name, sequence)
    });
    let mut all = Vec::new();
    for (name, sequence) in library::sequences().into_iter().chain(random) {
        if !Forms::of(&sequence).assembled().any(|there| there == form) {
            continue;
        }
        let sequence = Rc::new(sequence);
        for (suffix, values) in [
            ("smallest", Extreme::Smallest),
            ("largest", Extreme::Largest),
            ("beyond", Extreme::Beyond),
        ] {
            let sequence = Rc::clone(&sequence);
            let emitted = Emitted::new(sequence, form, |operand| extreme(operand, values));
            all.push((format!("{name}_{suffix}"), emitted));
        }
    }
    all
}

#[test]
fn sections_are_as_the_kernel_and_a_restart_need_them() {
    if !tools::are_there(&[tools::ASSEMBLER]) {
        return;
    }
    let all = all(Form::OnCpu);
    let text: String = all
        .iter()
        .map(|(name, emitted)| emitted.functions(name))
        .collect();
    let file = tools::assemble(&tools::directory("inspect"), &text);
    let data = std::fs::read(file).expect("just written");
    let file = object::File::parse(&*data).expect("an ELF file");
    let descriptors = file
        .section_by_name("__rseq_cs")
        .expect("there are sections");
    let bytes = descriptors.data().expect("not compressed");
    // Each sequence is there twice: to be entered at the start, and at the abort address.
    assert_eq!(
        bytes.len(),
        2 * all.len() * DESCRIPTOR_BYTES,
        "a descriptor a sequence"
    );
    let pointers = file
        .section_by_name("__rseq_cs_ptr_array")
        .expect("debuggers look here");
    assert_eq!(pointers.size() as usize, 2 * all.len() * 8);
    for section in [&descriptors, &pointers] {
        let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            panic!("ELF has such flags");
        };
        assert_ne!(
            sh_flags.0 & 0x20_0000,
            0,
            "the linker must retain {:?}",
            section.name()
        );
    }
    let relocations: Vec<_> = descriptors.relocations().collect();
    let target = |at: usize| -> (object::SectionIndex, u64) {
        let (_, relocation) = relocations
            .iter()
            .find(|(offset, _)| *offset == at as u64)
            .expect("an address is filled in by the linker");
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            panic!("addresses are symbols");
        };
        let symbol = file.symbol_by_index(symbol).expect("of this file");
        let section = symbol.section_index().expect("code");
        (
            section,
            symbol.address().wrapping_add_signed(relocation.addend()),
        )
    };
    let (mut sections, mut instructions) = (0, 0);
    for at in (0..bytes.len()).step_by(DESCRIPTOR_BYTES) {
        let word = |offset: usize| {
            u64::from_le_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap())
        };
        assert_eq!(word(0), 0, "version 0, flags 0");
        let ((code, start), length, (abort_code, abort)) =
            (target(at + 8), word(16), target(at + 24));
        assert_eq!(code, abort_code, "both in the same function");
        let section = file.section_by_index(code).expect("of this file");
        let data = section.data().expect("not compressed");
        let instruction =
            |at: u64| u32::from_le_bytes(data[at as usize..at as usize + 4].try_into().unwrap());
        let (end, name) = (
            start + length,
            section.name().expect("it has one").to_string(),
        );
        assert!(
            abort < start || abort >= end,
            "{name}: the abort address lies outside"
        );
        assert_eq!(
            instruction(abort - 4),
            SIGNATURE,
            "{name}: the signature before it"
        );
        assert!(
            is_arming_store(instruction(start - 4)),
            "{name}: it starts right after it is armed"
        );
        assert!(
            is_store(instruction(end - 4)),
            "{name}: its last instruction is the commit"
        );
        instructions += check(&name, start, end, instruction);
        sections += 1;
    }
    println!("{sections} sections, {instructions} instructions");
}

/// Checks the inside of a section; returns the number of its instructions.
fn check(name: &str, start: u64, end: u64, instruction: impl Fn(u64) -> u32) -> usize {
    let (mut at, mut count, mut claims) = (start, 0, 0);
    while at < end {
        count += 1;
        // ldaxr; cmp; b.ne; stxr; cbnz: a compare-and-swap.
        if exchanges(at, &instruction) {
            claims += 1;
            at += 4 * EXCHANGE;
            continue;
        }
        claims += u64::from(is_casa(instruction(at)));
        // mov; b; ldr; str; subs; b.pl: the copy, one step of a restart.
        if copies(at, end, &instruction) {
            at += 4 * COPY;
            continue;
        }
        let word = instruction(at);
        assert!(
            !leaves_for_good(word),
            "{name}: {word:#x} at {at:#x} calls or returns"
        );
        if let Some(to) = branch(word, at) {
            // A way out through the commit: nothing but the commit is left, which releases the
            // claim.
            let gives_back = || {
                claims == 1
                    && (to..end - 4).step_by(4).all(|at| {
                        let word = instruction(at);
                        !is_store(word) && branch(word, at).is_none()
                    })
            };
            assert!(
                to >= end || to > at && gives_back(),
                "{name}: {word:#x} at {at:#x} branches to {to:#x}, not out and forward"
            );
        }
        at += 4;
    }
    assert!(claims <= 1, "{name}: {claims} times something is claimed");
    if let Some(at) = unordered_store(start, end, &instruction) {
        panic!("{name}: a path leads from the claim to the store at {at:#x} without `dmb ishst`");
    }
    assert!(count <= LONGEST, "{name}: {count} instructions");
    count
}

/// Returns the first store that a path reaches from the compare-and-swap without `dmb ishst`:
/// another CPU could see it before the claim.
fn unordered_store(start: u64, end: u64, instruction: impl Fn(u64) -> u32) -> Option<u64> {
    const DMB_ISHST: u32 = 0xd503_3abf;
    // Whether such a path leads to this instruction. Branches lead forward, so one pass sees all
    // paths.
    let mut unordered = false;
    let mut reached = HashSet::new();
    let mut at = start;
    while at < end {
        unordered |= reached.contains(&at);
        if exchanges(at, &instruction) {
            unordered = true;
            at += 4 * EXCHANGE;
            continue;
        }
        let word = instruction(at);
        unordered |= is_casa(word);
        unordered &= word != DMB_ISHST;
        if unordered && is_store(word) {
            return Some(at);
        }
        if let Some(to) = branch(word, at).filter(|_| unordered) {
            reached.insert(to);
        }
        at += 4;
    }
    None
}

/// The negative control: a barrier is missing, or one path leaves it out.
#[test]
fn a_store_before_its_claim_is_noticed() {
    const CASA: u32 = 0xc8e1_7c40;
    const DMB: u32 = 0xd503_3abf;
    const STR: u32 = 0xf900_0041;
    // cbz x1, to the fourth instruction from here.
    const CBZ: u32 = 0xb400_0081;
    let found =
        |words: &[u32]| unordered_store(0, 4 * words.len() as u64, |at| words[at as usize / 4]);
    assert_eq!(found(&[CASA, DMB, STR, STR]), None);
    assert_eq!(found(&[CASA, DMB, CBZ, STR, STR, STR, STR]), None);
    assert_eq!(found(&[STR, CASA]), None);
    assert_eq!(found(&[CASA, STR]), Some(4));
    assert_eq!(found(&[CASA, CBZ, DMB, STR, STR, STR]), Some(20));
}

const COPY: u64 = 6;
const EXCHANGE: u64 = 5;

/// Whether a compare-and-swap of exclusive accesses begins here: ldaxr; cmp; b.ne; stxr; cbnz.
fn exchanges(at: u64, instruction: impl Fn(u64) -> u32) -> bool {
    instruction(at) & 0xffff_fc00 == 0xc85f_fc00
        && branch(instruction(at + 8), at + 8) == Some(at + 4 * EXCHANGE)
        && instruction(at + 12) & 0xffe0_fc00 == 0xc800_7c00
        && branch(instruction(at + 16), at + 16) == Some(at)
}

/// Whether it is `casa x, x, [x]`.
fn is_casa(word: u32) -> bool {
    word & 0xffe0_fc00 == 0xc8e0_7c00
}

/// Whether a copy begins here: mov; b; ldr; str; subs; b.pl.
fn copies(at: u64, end: u64, instruction: impl Fn(u64) -> u32) -> bool {
    at + 4 * COPY <= end
        && branch(instruction(at + 4), at + 4) == Some(at + 16)
        && instruction(at + 8) & 0xffe0_fc00 == 0xf860_7800
        && instruction(at + 12) & 0xffe0_fc00 == 0xf820_7800
        && instruction(at + 16) & 0xffff_fc00 == 0xf100_0400
        && branch(instruction(at + 20), at + 20) == Some(at + 8)
}

/// Returns where a direct branch leads.
pub fn branch(word: u32, at: u64) -> Option<u64> {
    let field =
        |bits: u32, from: u32| i64::from((word << (32 - from - bits)) as i32 >> (32 - bits));
    let words = match word {
        _ if word & 0xfc00_0000 == 0x1400_0000 => field(26, 0),
        _ if word & 0xff00_0010 == 0x5400_0000 => field(19, 5),
        _ if word & 0x7e00_0000 == 0x3400_0000 => field(19, 5),
        _ if word & 0x7e00_0000 == 0x3600_0000 => field(14, 5),
        _ => return None,
    };
    Some(at.wrapping_add_signed(4 * words))
}

/// Whether it is a call, an indirect branch, a return, or an exception.
pub fn leaves_for_good(word: u32) -> bool {
    word & 0xfc00_0000 == 0x9400_0000
        || word & 0xfe00_0000 == 0xd600_0000
        || word & 0xff00_0000 == 0xd400_0000
}

/// Whether it is `str` with an offset or without, `stur` or `stlr`, of a word or a half.
pub fn is_store(word: u32) -> bool {
    word & 0xbfc0_0000 == 0xb900_0000
        || word & 0xbfe0_0c00 == 0xb800_0000
        || word & 0xbfff_fc00 == 0x889f_fc00
}

/// Whether it is `str x, [x, #8]`, to the place of the descriptor in `struct rseq`.
fn is_arming_store(word: u32) -> bool {
    word & 0xffff_fc00 == 0xf900_0400
}
