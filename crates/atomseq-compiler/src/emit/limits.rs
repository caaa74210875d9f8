//! Limits.

use syn::{Error, Result};

use super::{Assembly, Leaving};
use crate::forms::Form;
use crate::ir::Sequence;

/// The most machine instructions between start and end.
pub const LONGEST: usize = 32;

/// General registers rustc can hand to one `asm!`.
pub const REGISTERS_X86_64: usize = 13;
pub const REGISTERS_AARCH64: usize = 26;

/// Refuses what no processor could run between two interruptions, or no register file hold.
pub fn check(
    sequence: &Sequence,
    form: Form,
    assembly: &Assembly,
    architecture: &str,
    available: usize,
) -> Result<()> {
    if let Some(beyond) = assembly.beyond_longest {
        return Err(Error::new(
            beyond,
            format!(
                "too long: {} instructions on {architecture}, and at most {LONGEST} run between \
                 interruptions; move work before or after the sequence",
                assembly.instructions
            ),
        ));
    }
    let status_registers = usize::from(Leaving::of(sequence) == Leaving::Status);
    let fixed_registers = assembly.fixed.len();
    // One leads to struct rseq; a slot has an area, or a stride.
    let place_registers = match form {
        Form::OnCpu => 1 + usize::from(sequence.slots().next().is_some()),
        Form::Signal(_) => 0,
    };
    let parameters = (0..sequence.parameters.len())
        .filter(|index| assembly.reads_parameter(*index))
        .count();
    let registers =
        parameters + assembly.temporaries + place_registers + status_registers + fixed_registers;
    if registers > available {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "too many words at once: {registers} registers needed on {architecture}, and at most \
                 {available} are there"
            ),
        ));
    }
    Ok(())
}
