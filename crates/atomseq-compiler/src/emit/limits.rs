//! What fits a processor: how many instructions run between two interruptions, and how many
//! registers one `asm!` may name. Both are known only after a sequence is emitted.

use syn::{Error, Result};

use super::{Assembly, ConstantOperand, Leaving};
use crate::forms::Form;
use crate::ir::Sequence;

/// How many machine instructions may stand between `start` and `end`. A section that is longer than
/// the time between two interruptions would restart indefinitely; and a handler decodes at most so
/// many before it rolls a sequence forward.
pub const LONGEST: usize = 32;

/// The general registers that rustc can give to one `asm!` on x86-64: sixteen without rsp, rbp,
/// rbx.
pub const REGISTERS_X86_64: usize = 13;
/// The same on AArch64: thirty-one without x18, x19, x29 and two to spare.
pub const REGISTERS_AARCH64: usize = 26;

/// Refuses a sequence that is too long, or that needs more registers than there are.
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
                 two interruptions; move work before or after the sequence",
                assembly.instructions
            ),
        ));
    }
    let status_registers = usize::from(Leaving::of(sequence) == Leaving::Status);
    let fixed_registers = assembly.fixed.len();
    // `rseq`, and with a slot `area` (x86-64) or `stride` (AArch64).
    let place_registers = match form {
        Form::OnCpu => 1 + usize::from(sequence.slots().next().is_some()),
        Form::Signal(_) => 0,
    };
    let parameters = (0..sequence.parameters.len())
        .filter(|index| assembly.reads_parameter(*index))
        .count();
    let is_register = |operand: &&ConstantOperand| matches!(operand, ConstantOperand::Register(_));
    let constants = assembly.constants.iter().filter(is_register).count();
    let registers = parameters
        + constants
        + assembly.temporaries
        + place_registers
        + status_registers
        + fixed_registers;
    if registers > available {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "too many words at once: {registers} registers are needed on {architecture}, which has \
                 {available}; load words later, or pass fewer parameters"
            ),
        ));
    }
    Ok(())
}
