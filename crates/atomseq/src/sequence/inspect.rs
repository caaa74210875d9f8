//! Whether a row of the table is what the compiler emits, told from the machine code alone.
//!
//! M94 2.3.1 proposes to inspect a sequence before it is rolled forward: no backward jump, no call,
//! so that it ends. The compiler refuses such sequences already; this looks at what the assembler
//! and the linker made of them, and at what other programs have changed since. It knows the
//! instructions that the emitters write, and refuses all else. Each row is inspected before it is
//! taken into the table. A breakpoint hides an instruction; a sequence that has one is taken as it
//! is.

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", test))]
mod x86_64;

use core::fmt;

use super::table::{Clone, Row};

/// The most instructions in a sequence; as in the compiler.
const LONGEST: usize = 32;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    /// How long it is.
    bytes: usize,
    /// Where it leads, if its condition holds.
    branch: Option<Branch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Branch {
    /// Relative to the instruction.
    offset: isize,
    /// The instruction without that.
    rest: u32,
}

/// What an architecture's instructions look like.
struct Machine {
    /// The first instruction of this code, if the emitters write such a one.
    decode: fn(&[u8]) -> Option<Instruction>,
    /// The longest instruction.
    longest: usize,
    /// What leads from a clone back to the handler that runs it.
    back: &'static [u8],
    /// Does a breakpoint lie over the instruction that this place belongs to? The code starts with
    /// an instruction.
    is_breakpoint: fn(&[u8], usize) -> bool,
}

impl Machine {
    /// Is all that keeps this code from being what it should be a breakpoint over an instruction of
    /// it?
    fn is_broken_into(&self, code: &[u8], expected: &[u8]) -> bool {
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
    /// The address.
    pub at: usize,
    /// What is wrong there.
    pub why: Why,
}

/// What can be wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It ends before it starts, or is longer than its instructions could be.
    Extent,
    /// No instruction that the compiler emits: a call, a jump, a system call, …
    Instruction,
    /// More instructions than a sequence may have.
    TooLong,
    /// A branch that does not leave the sequence.
    BranchInside,
    /// The clone differs from the sequence.
    CloneDiffers,
    /// The clone's limit is not where its ends end.
    CloneLimit,
    /// No way back where the clone ends, or where one of its branches leads.
    NoWayBack,
    /// The end does not say where the sequence goes on.
    Landing,
    /// A debugger, or the kernel for a tracer, has put a breakpoint over an instruction: what lies
    /// under it is not to be seen. Nothing is wrong with the row.
    Breakpoint,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::Extent => "ends before it starts, or is too long",
            Why::Instruction => "holds an instruction that `sequence!` does not emit",
            Why::TooLong => "has more than 32 instructions",
            Why::BranchInside => "has a branch that does not leave it",
            Why::CloneDiffers => "has a clone that is different",
            Why::CloneLimit => "has a clone with another limit",
            Why::NoWayBack => "has a clone that does not come back",
            Why::Landing => "has a clone that goes on at another place",
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

/// How many instructions the sequence of this row has.
///
/// # Errors
///
/// What is wrong with the row.
///
/// # Safety
///
/// The row's addresses are those of loaded code that may be read.
pub unsafe fn inspect(row: &Row) -> Result<usize, Refused> {
    // SAFETY: the caller's promise.
    unsafe { inspect_as(NATIVE, row) }
}

/// Could a sequence begin and end as this row says, and its clone? Looks at nothing that is there.
pub(super) fn is_possible(row: &Row) -> bool {
    extents(NATIVE, row).is_ok()
}

fn extents(machine: &Machine, row: &Row) -> Result<(), Refused> {
    let longest = LONGEST * machine.longest;
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
    // As many ends as there can be ways out.
    let most = longest + (LONGEST + 1) * (machine.back.len() + 4);
    match bytes(clone.start, clone.limit).is_some_and(|bytes| (length..=most).contains(&bytes)) {
        true => Ok(()),
        false => Err(Refused {
            at: clone.start,
            why: Why::CloneLimit,
        }),
    }
}

/// # Safety
///
/// As for [`inspect`].
unsafe fn inspect_as(machine: &Machine, row: &Row) -> Result<usize, Refused> {
    let refuse = |at, why| Err(Refused { at, why });
    extents(machine, row)?;
    let length = row.end - row.start;
    // SAFETY: the caller's promise, of a length that a sequence may have.
    let code = unsafe { core::slice::from_raw_parts(row.start as *const u8, length) };
    // SAFETY: the same, of the clone.
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
        if count == LONGEST {
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

/// A clone beside its sequence.
struct Cloned<'a> {
    machine: &'a Machine,
    start: usize,
    /// Where the sequence starts and ends.
    original: (usize, usize),
    /// Instructions and ends.
    code: &'a [u8],
}

impl Cloned<'_> {
    /// Of a row whose [`extents`] can be.
    ///
    /// # Safety
    ///
    /// As for [`inspect`].
    unsafe fn new<'a>(machine: &'a Machine, row: &Row, clone: Clone) -> Cloned<'a> {
        let bytes = clone.limit - clone.start;
        Cloned {
            machine,
            start: clone.start,
            original: (row.start, row.end),
            // SAFETY: the caller's promise, of a length that a clone may have.
            code: unsafe { core::slice::from_raw_parts(clone.start as *const u8, bytes) },
        }
    }

    fn refuse<T>(&self, offset: usize, why: Why) -> Result<T, Refused> {
        Err(Refused {
            at: self.start + offset,
            why,
        })
    }

    /// The same instruction, or a branch that leads to the end for where the original's leads;
    /// `number` counts branches from 1.
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
                false if self.machine.is_broken_into(own, code) => {
                    self.refuse(offset, Why::Breakpoint)
                }
                false => self.refuse(offset, Why::CloneDiffers),
            };
        };
        let own = match (self.machine.decode)(own) {
            Some(Instruction {
                branch: Some(own), ..
            }) if own.rest == branch.rest => own,
            _ if self.machine.is_broken_into(own, code) => {
                return self.refuse(offset, Why::Breakpoint);
            }
            _ => return self.refuse(offset, Why::CloneDiffers),
        };
        let length = self.original.1 - self.original.0;
        let its_end = length + number * self.end_bytes();
        if offset.wrapping_add_signed(own.offset) != its_end {
            return self.refuse(offset, Why::NoWayBack);
        }
        let exit = (self.original.0 + offset).wrapping_add_signed(branch.offset);
        self.end_leads(its_end, exit)
    }

    fn end_bytes(&self) -> usize {
        self.machine.back.len() + 4
    }

    fn end_leads(&self, offset: usize, to: usize) -> Result<(), Refused> {
        let place = offset + self.machine.back.len();
        match self.code.get(offset..place) {
            Some(back) if back == self.machine.back => {}
            Some(back) if self.machine.is_broken_into(back, self.machine.back) => {
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

    /// After the last instruction, an end that leads to the original's end; after it those of the
    /// branches, and nothing else.
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
