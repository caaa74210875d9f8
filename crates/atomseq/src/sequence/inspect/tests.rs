//! Every fault is refused, each one by itself.

use super::{Machine, Refused, Why, aarch64, inspect_as, x86_64};
use crate::sequence::table::{Clone, Row};

/// A sequence and its clone, in one block of memory, laid out as the emitters do.
struct Laid {
    bytes: Vec<u8>,
    /// The offsets of the row's four addresses.
    row: [usize; 4],
}

impl Laid {
    fn inspect(&self, machine: &Machine) -> Result<usize, Why> {
        let [start, end, clone, limit] =
            self.row.map(|offset| self.bytes.as_ptr() as usize + offset);
        let clone = Some(Clone {
            start: clone,
            limit,
        });
        for clone in [None, clone] {
            let row = Row { start, end, clone };
            // SAFETY: the row's addresses lie within `bytes`.
            let result = unsafe { inspect_as(machine, &row) };
            if clone.is_some() || result.is_err() {
                return result.map_err(|Refused { why, .. }| why);
            }
        }
        unreachable!("the second has a clone")
    }
}

/// The instructions of an architecture for these tests.
struct Samples {
    machine: &'static Machine,
    /// A load.
    load: &'static [u8],
    /// A store.
    store: &'static [u8],
    /// A branch from the first offset to the second.
    branch: fn(usize, usize) -> Vec<u8>,
    /// The breakpoints of debuggers and the kernel.
    breakpoints: &'static [&'static [u8]],
    /// Instructions with a literal that the emitters write.
    literals: &'static [(&'static str, &'static [u8])],
    /// Instructions that no sequence has.
    refused: &'static [(&'static str, &'static [u8])],
}

const X86_64: Samples = Samples {
    machine: &x86_64::MACHINE,
    load: &[0x48, 0x8b, 0x07],
    store: &[0x48, 0x89, 0x47, 0x08],
    branch: |at, to| {
        let mut bytes = vec![0x0f, 0x84];
        bytes.extend((to as i32 - at as i32 - 6).to_le_bytes());
        bytes
    },
    breakpoints: &[&[0xcc]],
    literals: &[
        ("a mask", &[0x48, 0x83, 0xe0, 0x07]),
        ("a page more", &[0x48, 0x05, 0x00, 0x10, 0x00, 0x00]),
        ("a page less", &[0x48, 0x81, 0xeb, 0x00, 0x10, 0x00, 0x00]),
        ("the smaller word", &[0x48, 0x0f, 0x42, 0xc1]),
        ("the larger word", &[0x48, 0x0f, 0x47, 0xc1]),
        ("all bits inverted", &[0x48, 0x83, 0xf0, 0xff]),
    ],
    refused: &[
        ("call", &[0xe8, 0, 0, 0, 0]),
        ("call by a register", &[0xff, 0xd0]),
        ("jump by a register", &[0xff, 0xe0]),
        ("jump by memory", &[0xff, 0x27]),
        ("jump", &[0xe9, 0, 0, 0, 0]),
        ("short jump", &[0xeb, 0x00]),
        ("short branch", &[0x74, 0x00]),
        ("loop", &[0xe2, 0xfe]),
        ("return", &[0xc3]),
        ("syscall", &[0x0f, 0x05]),
        ("interrupt", &[0xcd, 0x80]),
        ("breakpoint", &[0xcc]),
        ("trap", &[0x0f, 0x0b]),
        ("push", &[0x50]),
        ("pop", &[0x58]),
        ("leave", &[0xc9]),
        ("exchange", &[0x48, 0x87, 0x07]),
        ("lock add", &[0xf0, 0x48, 0x01, 0x07]),
        ("rep movs", &[0xf3, 0x48, 0xa5]),
        ("through a segment", &[0x64, 0x48, 0x8b, 0x07]),
        ("by its own address", &[0x48, 0x8b, 0x05, 0, 0, 0, 0]),
        (
            "by an absolute address",
            &[0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
        ),
        ("the stack pointer", &[0x48, 0x89, 0xc4]),
        ("through the stack pointer", &[0x48, 0x8b, 0x04, 0x24]),
        ("stack pointer by an immediate", &[0x48, 0x83, 0xc4, 0x08]),
        ("stack pointer set", &[0xbc, 0, 0, 0, 0]),
        ("add with carry", &[0x48, 0x83, 0xd0, 0x08]),
        ("divide", &[0x48, 0xf7, 0xf1]),
        ("move if above or equal", &[0x48, 0x0f, 0x43, 0xc1]),
        ("rotate", &[0x48, 0xc1, 0xc0, 0x08]),
        ("sixteen bits", &[0x66, 0x8b, 0x07]),
        ("eight bits", &[0x8a, 0x07]),
        ("a vector", &[0x0f, 0x28, 0x07]),
        ("not all there", &[0x48, 0x8b]),
    ],
};

const AARCH64: Samples = Samples {
    machine: &aarch64::MACHINE,
    load: &0xf940_0001u32.to_le_bytes(),
    store: &0xf900_0401u32.to_le_bytes(),
    branch: |at, to| {
        let words = (to as i32 - at as i32) / 4;
        (0xb400_0001 | (words as u32 & 0x7_ffff) << 5)
            .to_le_bytes()
            .into()
    },
    // Of debuggers, and of uprobes.
    breakpoints: &[&[0x00, 0x00, 0x20, 0xd4], &[0xa0, 0x00, 0x20, 0xd4]],
    literals: &[
        ("the smallest mask", &0x9240_0041u32.to_le_bytes()),
        ("a mask", &0x9240_0841u32.to_le_bytes()),
        ("the largest mask", &0x9240_f821u32.to_le_bytes()),
        ("a page more", &0x9140_0421u32.to_le_bytes()),
        ("4,095 pages more", &0x917f_fc21u32.to_le_bytes()),
        ("a page less", &0xd140_0421u32.to_le_bytes()),
        ("the smaller word", &0x9a82_3020u32.to_le_bytes()),
        ("the larger word", &0x9a82_8020u32.to_le_bytes()),
        ("all bits inverted", &0xaa21_03e2u32.to_le_bytes()),
    ],
    refused: &[
        ("bl", &0x9400_0000u32.to_le_bytes()),
        ("blr", &0xd63f_0020u32.to_le_bytes()),
        ("br", &0xd61f_0020u32.to_le_bytes()),
        ("b", &0x1400_0000u32.to_le_bytes()),
        ("ret", &0xd65f_03c0u32.to_le_bytes()),
        ("svc", &0xd400_0001u32.to_le_bytes()),
        ("brk", &0xd420_0000u32.to_le_bytes()),
        ("udf", &0u32.to_le_bytes()),
        ("tbz", &0x3600_0001u32.to_le_bytes()),
        ("b.mi", &0x5400_0004u32.to_le_bytes()),
        ("ldxr", &0xc85f_7c01u32.to_le_bytes()),
        ("stxr", &0xc802_7c01u32.to_le_bytes()),
        ("ldadd", &0xf820_0001u32.to_le_bytes()),
        ("ldp", &0xa940_0001u32.to_le_bytes()),
        ("ldr through sp", &0xf940_03e1u32.to_le_bytes()),
        ("ldr with write-back", &0xf840_8401u32.to_le_bytes()),
        ("ldr of a literal", &0x5800_0001u32.to_le_bytes()),
        ("adr", &0x1000_0001u32.to_le_bytes()),
        ("add to sp", &0x9100_43ffu32.to_le_bytes()),
        ("sub from sp", &0xd100_43e1u32.to_le_bytes()),
        ("add of pages to sp", &0x9140_043fu32.to_le_bytes()),
        ("add of pages from sp", &0x9140_07e1u32.to_le_bytes()),
        ("sub of pages to sp", &0xd140_043fu32.to_le_bytes()),
        ("sub of pages from sp", &0xd140_07e1u32.to_le_bytes()),
        ("and to sp", &0x9240_083fu32.to_le_bytes()),
        ("and of xzr", &0x9240_0be1u32.to_le_bytes()),
        (
            "and with bits that start higher",
            &0x927f_0421u32.to_le_bytes(),
        ),
        ("and with bits that repeat", &0x9200_0421u32.to_le_bytes()),
        (
            "and with an immediate that is none",
            &0x9240_fc21u32.to_le_bytes(),
        ),
        ("orr with ones", &0xb240_0841u32.to_le_bytes()),
        ("mrs", &0xd53b_d041u32.to_le_bytes()),
        ("sbfm", &0x9340_0001u32.to_le_bytes()),
        ("ubfx", &0xd341_0401u32.to_le_bytes()),
        ("udiv", &0x9ac0_0801u32.to_le_bytes()),
        ("csel by eq", &0x9a82_0020u32.to_le_bytes()),
        ("orn of two", &0xaa21_0041u32.to_le_bytes()),
        ("not all there", &[0x01, 0x00]),
    ],
};

const ALL: [&Samples; 2] = [&X86_64, &AARCH64];

impl Samples {
    /// Lays out a load, a branch to an exit, `between` and a store, and the same again as a clone
    /// with ends.
    fn lay(&self, between: &[u8]) -> Laid {
        let each = self.machine.back.len() + 4;
        let branch = (self.branch)(0, 0).len();
        let length = self.load.len() + branch + between.len() + self.store.len();
        let (start, end, exit) = (16, 16 + length, 16 + length + 8);
        let clone = exit + 16;
        let mut bytes = vec![0x90; start];
        let copy = |bytes: &mut Vec<u8>, to: usize| {
            bytes.extend(self.load);
            bytes.extend((self.branch)(bytes.len(), to));
            bytes.extend(between);
            bytes.extend(self.store);
        };
        copy(&mut bytes, exit);
        bytes.resize(clone, 0x90);
        copy(&mut bytes, clone + length + each);
        for landing in [end, exit] {
            bytes.extend(self.machine.back);
            let offset = landing as i32 - bytes.len() as i32;
            bytes.extend(offset.to_le_bytes());
        }
        let limit = bytes.len();
        bytes.extend([0x90; 32]);
        Laid {
            bytes,
            row: [start, end, clone, limit],
        }
    }
}

#[test]
fn emitted_instructions_pass() {
    for samples in ALL {
        assert_eq!(samples.lay(&[]).inspect(samples.machine), Ok(3));
        let many = samples.load.repeat(29);
        assert_eq!(samples.lay(&many).inspect(samples.machine), Ok(32));
    }
}

/// On some machines, masks and offsets of whole pages have instructions of their own. 15
/// instructions, with those of `min`, `max` and `!`.
#[test]
fn instructions_with_a_literal_pass() {
    for samples in ALL {
        for (what, bytes) in samples.literals {
            let inspected = samples.lay(bytes).inspect(samples.machine);
            assert_eq!(inspected, Ok(4), "{what}");
        }
    }
}

#[test]
fn too_many_instructions_are_refused() {
    for samples in ALL {
        let many = samples.load.repeat(30);
        let why = samples.lay(&many).inspect(samples.machine);
        assert!(matches!(why, Err(Why::TooLong | Why::Extent)), "{why:?}");
    }
}

#[test]
fn other_instructions_are_refused() {
    for samples in ALL {
        for (what, bytes) in samples.refused {
            let why = samples.lay(bytes).inspect(samples.machine);
            assert!(why.is_err(), "{what} passes");
            // Bytes that decode as the start of another instruction would fail at a later place.
            let alone = (samples.machine.decode)(bytes);
            assert_eq!(alone, None, "{what}");
        }
    }
}

/// Linkers fill the gaps between functions with the byte that a debugger uses as a breakpoint.
#[test]
fn padding_is_not_a_breakpoint() {
    let why = inspect_changed(&X86_64, |laid| {
        let place = laid.row[0];
        laid.bytes[place..place + 3].fill(0xcc);
    });
    assert_eq!(why, Err(Why::Instruction));
}

#[test]
fn branches_inside_are_refused() {
    for samples in ALL {
        let before = samples.load.len() + (samples.branch)(0, 0).len();
        let last = before + (samples.branch)(0, 0).len();
        for to in [
            0,
            samples.load.len(),
            before,
            last,
            last + samples.store.len(),
        ] {
            let branch = (samples.branch)(before, to);
            let why = samples.lay(&branch).inspect(samples.machine);
            assert_eq!(why, Err(Why::BranchInside), "to {to}");
        }
    }
}

/// Lays out a sequence, changes it, and inspects it.
fn inspect_changed(samples: &Samples, change: impl FnOnce(&mut Laid)) -> Result<usize, Why> {
    let mut laid = samples.lay(&[]);
    change(&mut laid);
    laid.inspect(samples.machine)
}

#[test]
fn wrong_rows_are_refused() {
    for samples in ALL {
        assert_eq!(
            inspect_changed(samples, |laid| laid.row.swap(0, 1)),
            Err(Why::Extent)
        );
        assert_eq!(
            inspect_changed(samples, |laid| laid.row[1] -= 1),
            Err(Why::Instruction)
        );
        let longer = samples.machine.longest * 32 + 1;
        assert_eq!(
            inspect_changed(samples, |laid| laid.row[1] = laid.row[0] + longer),
            Err(Why::Extent)
        );
        // The row ends after the branch: the bytes of the store do not return to the handler.
        let shorter = inspect_changed(samples, |laid| laid.row[1] -= samples.store.len());
        assert_eq!(shorter, Err(Why::NoWayBack));
    }
}

#[test]
fn wrong_clones_are_refused() {
    for samples in ALL {
        let length = samples.lay(&[]).row[1] - samples.lay(&[]).row[0];
        let each = samples.machine.back.len() + 4;
        let branch = samples.load.len();
        let clone = |laid: &Laid| laid.row[2];
        // Changes a register, a condition, and a store into a load.
        for at in [0, branch, length - samples.store.len()] {
            let changed = if at == branch {
                samples.machine.longest == 15
            } else {
                false
            };
            let bit = if changed { at + 1 } else { at };
            let why = inspect_changed(samples, |laid| {
                let place = clone(laid) + bit;
                laid.bytes[place] ^= 1;
            });
            assert_eq!(why, Err(Why::CloneDiffers), "at {at}");
        }
        let missing = |at: usize| {
            inspect_changed(samples, |laid| {
                let place = clone(laid) + at;
                laid.bytes[place] ^= 0x80;
            })
        };
        assert_eq!(missing(length), Err(Why::NoWayBack), "at the end");
        assert_eq!(missing(length + each), Err(Why::NoWayBack), "of the exit");
        for at in [length, length + each] {
            let place = at + samples.machine.back.len();
            let why = inspect_changed(samples, |laid| {
                let place = clone(laid) + place;
                laid.bytes[place] = laid.bytes[place].wrapping_sub(4);
            });
            assert_eq!(why, Err(Why::Landing), "of the end at {at}");
        }
        assert_eq!(
            inspect_changed(samples, |laid| laid.row[3] += each),
            Err(Why::CloneLimit)
        );
        assert_eq!(
            inspect_changed(samples, |laid| laid.row[3] -= each),
            Err(Why::NoWayBack)
        );
        assert_eq!(
            inspect_changed(samples, |laid| laid.row[3] = laid.row[2]),
            Err(Why::CloneLimit)
        );
        assert_eq!(
            inspect_changed(samples, |laid| laid.row[3] += 4096),
            Err(Why::CloneLimit)
        );
        // The clone lacks its first instruction, or starts four bytes early.
        let shifted = inspect_changed(samples, |laid| laid.row[2] += samples.load.len());
        assert_eq!(shifted, Err(Why::CloneDiffers));
        let shifted = inspect_changed(samples, |laid| laid.row[2] -= 4);
        assert_eq!(shifted, Err(Why::CloneDiffers));
        // A branch leads to the wrong end, that of the last instruction.
        let wrong = inspect_changed(samples, |laid| {
            let at = clone(laid) + branch;
            let bytes = (samples.branch)(at, clone(laid) + length);
            laid.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        });
        assert_eq!(wrong, Err(Why::NoWayBack));
    }
}

/// A breakpoint over any instruction of the sequence, its clone or the return to the handler is
/// reported as such. Other bytes there are not. 36 breakpoints, and as many others.
#[test]
fn a_breakpoint_over_any_instruction_is_reported() {
    for samples in ALL {
        let branch = samples.load.len();
        let store = branch + (samples.branch)(0, 0).len();
        let end = store + samples.store.len();
        let each = samples.machine.back.len() + 4;
        let steps = samples.machine.back.len().min(4);
        let back = (0..samples.machine.back.len()).step_by(steps);
        let ways = back.flat_map(|at| [end + at, end + each + at]);
        let in_clone: Vec<usize> = [0, branch, store].into_iter().chain(ways).collect();
        let places = [0, branch, store].map(|at| (0, at));
        let clones = in_clone.into_iter().map(|at| (2, at));
        for (row, at) in places.into_iter().chain(clones) {
            let planted = |bytes: &[u8]| {
                inspect_changed(samples, |laid| {
                    let place = laid.row[row] + at;
                    laid.bytes[place..place + bytes.len()].copy_from_slice(bytes);
                })
            };
            for breakpoint in samples.breakpoints {
                let found = planted(breakpoint);
                assert_eq!(found, Err(Why::Breakpoint), "at {at} of address {row}");
                let mut other = breakpoint.to_vec();
                if let Some(last) = other.last_mut() {
                    *last ^= 1;
                }
                let found = planted(&other);
                assert!(
                    found.is_err() && found != Err(Why::Breakpoint),
                    "{found:?} at {at} of address {row}"
                );
            }
        }
    }
}

/// A refusal says where the fault is, and what to do.
#[test]
fn a_refusal_says_what_to_do() {
    let refused = Refused {
        at: 0x1234,
        why: Why::Instruction,
    };
    let text = refused.to_string();
    assert!(
        text.contains("0x1234") && text.contains("rebuild"),
        "{text}"
    );
}
