//! Verifies from the machine code alone that a row of the table is what the compiler emits.
//!
//! M94, section 2.3.1, proposes to inspect a sequence before it is rolled forward: without backward
//! jumps and calls it is certain to end. The compiler already rejects such sequences. This module
//! checks what the assembler and the linker made of them, and what other programs have changed
//! since. It knows the instructions that the emitters write, and refuses all others. Each row is
//! inspected before it enters the table. A breakpoint hides an instruction; a sequence that has one
//! is accepted without further inspection.

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", test))]
mod x86_64;

use core::fmt;

use super::table::{Clone, Row};

/// The maximum number of instructions in a sequence. The compiler has the same limit.
const MAX_INSTRUCTIONS: usize = 32;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    /// Its length in bytes.
    bytes: usize,
    /// The target of a branch, taken if its condition holds.
    branch: Option<Branch>,
}

/// A conditional branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Branch {
    /// The target, relative to the instruction.
    offset: isize,
    /// The instruction's bits without the target.
    rest: u32,
}

/// The instructions of an architecture.
struct Machine {
    /// Decodes the first instruction of some code. `None` if the emitters do not write it.
    decode: fn(&[u8]) -> Option<Instruction>,
    /// The length of the longest instruction, in bytes.
    longest: usize,
    /// The instructions that return from a clone to the handler that runs it.
    back: &'static [u8],
    /// Returns whether a breakpoint covers the instruction that contains this offset. The code
    /// starts with an instruction.
    is_breakpoint: fn(&[u8], usize) -> bool,
}

impl Machine {
    /// Returns whether the first difference between this code and the expected code is a
    /// breakpoint.
    fn has_breakpoint(&self, code: &[u8], expected: &[u8]) -> bool {
        let mut pairs = code.iter().zip(expected);
        let differing = pairs.position(|(byte, expected)| byte != expected);
        differing.is_some_and(|at| (self.is_breakpoint)(code, at))
    }
}

#[cfg(target_arch = "x86_64")]
const NATIVE: &Machine = &x86_64::MACHINE;
#[cfg(target_arch = "aarch64")]
const NATIVE: &Machine = &aarch64::MACHINE;

/// Why a row was refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The address of the fault.
    pub at: usize,
    /// The fault.
    pub why: Why,
}

/// The faults of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The row ends before it starts, or is longer than the maximum number of instructions.
    Extent,
    /// An instruction that the compiler does not emit: a call, a jump, a system call, …
    Instruction,
    /// More instructions than a sequence may have.
    TooLong,
    /// A branch whose target is inside the sequence.
    BranchInside,
    /// The clone differs from the sequence.
    CloneDiffers,
    /// The clone's limit is not the end of its last end.
    CloneLimit,
    /// The clone, or one of its branches, does not lead to the instructions that return to the
    /// handler.
    NoWayBack,
    /// A landing does not say where the sequence continues.
    Landing,
    /// A debugger, or the kernel for a tracer, has placed a breakpoint over an instruction, which
    /// is therefore unknown. Nothing is wrong with the row.
    Breakpoint,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::Extent => "ends before it starts, or is too long",
            Why::Instruction => "has an instruction that `sequence!` does not emit",
            Why::TooLong => "has more than 32 instructions",
            Why::BranchInside => "has a branch that does not leave it",
            Why::CloneDiffers => "has a clone that differs from it",
            Why::CloneLimit => "has a clone with a wrong limit",
            Why::NoWayBack => "has a clone that does not return",
            Why::Landing => "has a clone that continues at a wrong place",
            Why::Breakpoint => {
                return write!(
                    f,
                    "a sequence has a breakpoint, at {:#x}: remove it to have the sequence inspected",
                    self.at
                );
            }
        };
        write!(
            f,
            "a sequence {why}, at {:#x}: rebuild the object that holds it with one version of atomseq",
            self.at
        )
    }
}

/// Inspects a row, and returns the number of instructions of its sequence.
///
/// # Errors
///
/// The first fault of the row.
///
/// # Safety
///
/// The row's addresses are those of loaded and readable code.
pub unsafe fn inspect(row: &Row) -> Result<usize, Refused> {
    // SAFETY: the caller guarantees that the row's addresses are those of loaded and readable code.
    unsafe { inspect_as(NATIVE, row) }
}

/// Decodes the first instruction of some code. Returns its length in bytes, and for a branch the
/// distance from the instruction to the target. `None` if the emitters do not write it.
#[cfg(feature = "unstable-internals")]
pub fn decode(code: &[u8]) -> Option<(usize, Option<isize>)> {
    let Instruction { bytes, branch } = (NATIVE.decode)(code)?;
    Some((bytes, branch.map(|branch| branch.offset)))
}

/// Returns whether the addresses of a row and its clone are plausible. Does not access the code.
pub(super) fn is_possible(row: &Row) -> bool {
    extents(NATIVE, row).is_ok()
}

fn extents(machine: &Machine, row: &Row) -> Result<(), Refused> {
    let longest = MAX_INSTRUCTIONS * machine.longest;
    let bytes = |start: usize, end: usize| end.checked_sub(start);
    let length = bytes(row.start, row.end).filter(|length| *length <= longest);
    let Some(length) = length else {
        return Err(Refused {
            at: row.start,
            why: Why::Extent,
        });
    };
    let Some(clone) = row.clone else {
        return Ok(());
    };
    // A sequence has at most as many ends as ways out.
    let max = longest + (MAX_INSTRUCTIONS + 1) * (machine.back.len() + 4);
    match bytes(clone.start, clone.limit).is_some_and(|bytes| (length..=max).contains(&bytes)) {
        true => Ok(()),
        false => Err(Refused {
            at: clone.start,
            why: Why::CloneLimit,
        }),
    }
}

/// Inspects a row with the instructions of an architecture.
///
/// # Safety
///
/// The row's addresses are those of loaded and readable code.
unsafe fn inspect_as(machine: &Machine, row: &Row) -> Result<usize, Refused> {
    let refuse = |at, why| Err(Refused { at, why });
    extents(machine, row)?;
    let length = row.end - row.start;
    // SAFETY: the caller guarantees readable code, and `extents` has found a length that a sequence
    // may have.
    let code = unsafe { core::slice::from_raw_parts(row.start as *const u8, length) };
    // SAFETY: the caller guarantees readable code, and `extents` has found a length that a clone
    // may have.
    let cloned = |clone| unsafe { Cloned::new(machine, row, clone) };
    let clone = row.clone.map(cloned);
    let (mut offset, mut count, mut branches) = (0, 0, 0);
    while offset < length {
        let at = row.start + offset;
        let Some(instruction) = (machine.decode)(&code[offset..]) else {
            return match (machine.is_breakpoint)(&code[offset..], 0) {
                true => refuse(at, Why::Breakpoint),
                false => refuse(at, Why::Instruction),
            };
        };
        if count == MAX_INSTRUCTIONS {
            return refuse(at, Why::TooLong);
        }
        if let Some(branch) = instruction.branch {
            let target = at.wrapping_add_signed(branch.offset);
            if (row.start..=row.end).contains(&target) {
                return refuse(at, Why::BranchInside);
            }
            branches += 1;
        }
        if let Some(clone) = &clone {
            clone.compare(offset, &code[offset..], instruction, branches)?;
        }
        offset += instruction.bytes;
        count += 1;
    }
    if let Some(clone) = &clone {
        clone.ends(row.end, branches)?;
    }
    Ok(count)
}

/// A clone, and where its sequence lies.
struct Cloned<'a> {
    machine: &'a Machine,
    start: usize,
    /// The addresses where the sequence starts and ends.
    original: (usize, usize),
    /// The bytes of its instructions and ends.
    code: &'a [u8],
}

impl Cloned<'_> {
    /// Creates it for a row whose [`extents`] are valid.
    ///
    /// # Safety
    ///
    /// The row's addresses are those of loaded and readable code.
    unsafe fn new<'a>(machine: &'a Machine, row: &Row, clone: Clone) -> Cloned<'a> {
        let bytes = clone.limit - clone.start;
        Cloned {
            machine,
            start: clone.start,
            original: (row.start, row.end),
            // SAFETY: the caller guarantees readable code, and `extents` has found a length that a
            // clone may have.
            code: unsafe { core::slice::from_raw_parts(clone.start as *const u8, bytes) },
        }
    }

    fn refuse<T>(&self, offset: usize, why: Why) -> Result<T, Refused> {
        Err(Refused {
            at: self.start + offset,
            why,
        })
    }

    /// Checks that the clone has the same instruction at `offset`. For a branch, checks that the
    /// clone's one leads to an end whose landing is the target of the original's. `number` counts
    /// branches from 1.
    fn compare(
        &self,
        offset: usize,
        code: &[u8],
        instruction: Instruction,
        number: usize,
    ) -> Result<(), Refused> {
        let bytes = instruction.bytes;
        let Some(own) = self.code.get(offset..offset + bytes) else {
            return self.refuse(offset, Why::CloneDiffers);
        };
        let Some(branch) = instruction.branch else {
            return match own == &code[..bytes] {
                true => Ok(()),
                false if self.machine.has_breakpoint(own, code) => {
                    self.refuse(offset, Why::Breakpoint)
                }
                false => self.refuse(offset, Why::CloneDiffers),
            };
        };
        let own = match (self.machine.decode)(own) {
            Some(Instruction {
                branch: Some(own), ..
            }) if own.rest == branch.rest => own,
            _ if self.machine.has_breakpoint(own, code) => {
                return self.refuse(offset, Why::Breakpoint);
            }
            _ => return self.refuse(offset, Why::CloneDiffers),
        };
        let length = self.original.1 - self.original.0;
        let own_end = length + number * self.end_bytes();
        if offset.wrapping_add_signed(own.offset) != own_end {
            return self.refuse(offset, Why::NoWayBack);
        }
        let exit = (self.original.0 + offset).wrapping_add_signed(branch.offset);
        self.end_leads(own_end, exit)
    }

    fn end_bytes(&self) -> usize {
        self.machine.back.len() + 4
    }

    fn end_leads(&self, offset: usize, to: usize) -> Result<(), Refused> {
        let place = offset + self.machine.back.len();
        match self.code.get(offset..place) {
            Some(back) if back == self.machine.back => {}
            Some(back) if self.machine.has_breakpoint(back, self.machine.back) => {
                return self.refuse(offset, Why::Breakpoint);
            }
            _ => return self.refuse(offset, Why::NoWayBack),
        }
        let Some(Ok(landing)) = self.code.get(place..place + 4).map(TryInto::try_into) else {
            return self.refuse(offset, Why::NoWayBack);
        };
        let landing = i32::from_le_bytes(landing) as isize;
        match (self.start + place).wrapping_add_signed(landing) == to {
            true => Ok(()),
            false => self.refuse(offset, Why::Landing),
        }
    }

    /// Checks the end after the last instruction, which lands at the sequence's end, and that only
    /// the ends of the branches follow it.
    fn ends(&self, end: usize, branches: usize) -> Result<(), Refused> {
        let length = self.original.1 - self.original.0;
        self.end_leads(length, end)?;
        let limit = length + (1 + branches) * self.end_bytes();
        match self.code.len() == limit {
            true => Ok(()),
            false => self.refuse(limit, Why::CloneLimit),
        }
    }
}
