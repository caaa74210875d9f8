//! A sequence's lines as functions for GNU as: operands are replaced as rustc would replace them.
//!
//! ```text
//! u64 name(const u64 *arguments, u64 *temporaries, u64 rseq)
//!      x0 = arguments, x1 = where the temporaries go, x2 = the offset of struct rseq
//!      returns 0 after the commit, then the exits from 1, then aborted, closed
//! name_abort(…)
//!      the same, entered at the abort address
//! ```
//!
//! A form against signal handlers takes no `rseq`, is never aborted or closed, and is one function.
//! Inside a scheme of M94 the third argument is the address of the thread's words.

use std::collections::HashMap;
use std::fmt::Write;
use std::rc::Rc;

use atomseq_compiler::emit::schemes::{self, Scheme};
use atomseq_compiler::emit::{aarch64, Assembly, ConstantOperand, Leaving, Line, NamedWords};
use atomseq_compiler::forms::Form;
use atomseq_compiler::ir::Sequence;

/// The registers for operands, behind the three arguments; x18 is the platform's, x29 the frame's.
const POOL: std::ops::RangeInclusive<usize> = 3..=28;

/// The bytes from slot to slot.
const STRIDE: usize = 128;

/// The level of every sequence in a scheme of M94.
pub const LEVEL: u32 = 7;

/// The emitted form, and a value for each of its constants.
pub struct Emitted {
    pub form: Form,
    pub sequence: Rc<Sequence>,
    pub assembly: Assembly,
    pub constants: Vec<i64>,
    named_words: NamedWords,
}

impl Emitted {
    pub fn new(
        sequence: Rc<Sequence>,
        form: Form,
        value: impl Fn(&ConstantOperand) -> i64,
    ) -> Emitted {
        let emit = |named_words| {
            let assembly = aarch64::emit_with(&sequence, form, named_words);
            let constants: Vec<i64> = assembly.constants.iter().map(&value).collect();
            (assembly, constants, named_words)
        };
        let small = emit(NamedWords::Immediates);
        // As rustc chooses.
        let mut operands = small.0.constants.iter().zip(&small.1);
        let fits = |(operand, value): (&ConstantOperand, &i64)| {
            !matches!(operand, ConstantOperand::Immediate(_)) || (0..=65_535).contains(value)
        };
        let (assembly, constants, named_words) = match operands.all(fits) {
            true => small,
            false => emit(NamedWords::Registers),
        };
        Emitted {
            form,
            sequence,
            assembly,
            constants,
            named_words,
        }
    }

    /// Emits the same sequence with the same constants in another form.
    pub fn again(&self, form: Form) -> Emitted {
        Emitted {
            form,
            sequence: Rc::clone(&self.sequence),
            assembly: aarch64::emit_with(&self.sequence, form, self.named_words),
            constants: self.constants.clone(),
            named_words: self.named_words,
        }
    }

    /// Emits the same sequence with the same constants inside a scheme of M94.
    pub fn by(&self, scheme: Scheme) -> Emitted {
        Emitted {
            form: self.form,
            sequence: Rc::clone(&self.sequence),
            assembly: schemes::aarch64(&self.sequence, scheme, self.named_words),
            constants: self.constants.clone(),
            named_words: self.named_words,
        }
    }

    /// Whether the way out is in the status register.
    fn has_status(&self) -> bool {
        self.assembly.names("status")
    }

    /// Assigns a register to each operand, by number.
    fn operands(&self) -> HashMap<String, String> {
        let fixed: Vec<_> = self
            .assembly
            .fixed
            .iter()
            .map(|register| register[1..].parse())
            .collect();
        let mut pool = POOL.filter(|register| *register != 18 && !fixed.contains(&Ok(*register)));
        let mut next = || {
            pool.next()
                .expect("the compiler counts registers")
                .to_string()
        };
        let mut operands = HashMap::new();
        if self.form == Form::OnCpu {
            operands.extend([("rseq".to_string(), next()), ("stride".to_string(), next())]);
        }
        for index in 0..self.sequence.parameters.len() {
            operands.insert(format!("a{index}"), next());
        }
        for index in 0..self.assembly.temporaries {
            operands.insert(format!("t{index}"), next());
        }
        for (index, constant) in self.assembly.constants.iter().enumerate() {
            if matches!(constant, ConstantOperand::Register(_)) {
                operands.insert(format!("c{index}"), next());
            }
        }
        if self.assembly.names("word") {
            operands.insert("word".to_string(), next());
        }
        operands.insert("status".to_string(), next());
        operands
    }

    /// Returns the template with its operands replaced; labels of Rust blocks begin with `.L` and
    /// the name.
    pub fn template(&self, name: &str) -> String {
        let registers = self.operands();
        let mut text = String::new();
        for line in &self.assembly.lines {
            let line = match line {
                Line::Text(text) => text.clone(),
                Line::Acquire(operands) => format!("ldar {operands}"),
                // Both ways are tried, in turn by something that does not change.
                Line::Interlocked { lse, .. } if name.len().is_multiple_of(2) => lse.clone(),
                Line::Interlocked { exclusive, .. } => exclusive.clone(),
            };
            let mut rest = line.as_str();
            text.push_str(if rest.ends_with(':') { "" } else { "    " });
            while let Some((before, after)) = rest.split_once('{') {
                let (operand, after) = after.split_once('}').expect("braces come in pairs");
                text.push_str(before);
                let (operand, size) = operand.split_once(':').unwrap_or((operand, "x"));
                if let Some(register) = registers.get(operand) {
                    write!(text, "{size}{register}").unwrap();
                } else if let Some(index) = operand
                    .strip_prefix('c')
                    .and_then(|index| index.parse::<usize>().ok())
                {
                    write!(text, "{}", self.constants[index]).unwrap();
                } else if operand == "level" {
                    write!(text, "{LEVEL}").unwrap();
                } else {
                    write!(text, ".L{name}_{operand}").unwrap();
                }
                rest = after;
            }
            writeln!(text, "{rest}").unwrap();
        }
        text
    }

    /// Returns the registers that a restart may find overwritten, as a set of bits.
    pub fn scratch(&self) -> u64 {
        let registers = self.operands();
        (0..self.assembly.temporaries)
            .map(|index| {
                1u64 << registers[&format!("t{index}")]
                    .parse::<u32>()
                    .expect("a number")
            })
            .sum()
    }

    /// Returns a function that enters at the beginning; for the `on_cpu` form a second one that
    /// enters at the abort address.
    pub fn functions(&self, name: &str) -> String {
        let registers = self.operands();
        let mut text = String::new();
        let exits = self.sequence.exits.len();
        let on_cpu = self.form == Form::OnCpu;
        let ways_in = [(name.to_string(), false), (format!("{name}_abort"), true)];
        for (name, aborted) in ways_in.into_iter().take(1 + usize::from(on_cpu)) {
            let mut line = |line: String| writeln!(text, "{line}").unwrap();
            line(format!(".section .text.{name},\"ax\",@progbits\n.global {name}\n.type {name}, %function\n{name}:"));
            line("    stp x29, x30, [sp, #-96]!\n    stp x19, x20, [sp, #16]\n    stp x21, x22, [sp, #32]".into());
            line("    stp x23, x24, [sp, #48]\n    stp x25, x26, [sp, #64]\n    stp x27, x28, [sp, #80]".into());
            if on_cpu {
                line(format!("    mov x{}, x2", registers["rseq"]));
                line(format!("    mov x{}, #{STRIDE}", registers["stride"]));
            }
            if let Some(word) = registers.get("word") {
                line(format!("    mov x{word}, x2"));
            }
            for index in 0..self.sequence.parameters.len() {
                line(format!(
                    "    ldr x{}, [x0, #{}]",
                    registers[&format!("a{index}")],
                    8 * index
                ));
            }
            for (index, value) in self.constants.iter().enumerate() {
                let Some(register) = registers.get(&format!("c{index}")) else {
                    continue;
                };
                for (shift, mnemonic) in [(0, "movz"), (16, "movk"), (32, "movk"), (48, "movk")] {
                    let bits = (*value as u64 >> shift) & 0xffff;
                    line(format!("    {mnemonic} x{register}, #{bits}, lsl #{shift}"));
                }
            }
            if aborted {
                line("    b 53f".into());
            }
            line(self.template(&name));
            let arrived = |code: usize| format!("    mov x0, #{code}\n    b .L{name}_done");
            match Leaving::of(&self.sequence) {
                _ if self.has_status() => line(format!("    mov w0, w{}", registers["status"])),
                Leaving::Status | Leaving::Labels => {
                    line(arrived(0));
                    for exit in 0..exits {
                        line(format!(".L{name}_exit{exit}:\n{}", arrived(exit + 1)));
                    }
                    line(format!(".L{name}_aborted:\n{}", arrived(exits + 1)));
                    line(format!(".L{name}_closed:\n{}", arrived(exits + 2)));
                }
            }
            line(format!(".L{name}_done:"));
            for index in 0..self.assembly.temporaries {
                line(format!(
                    "    str x{}, [x1, #{}]",
                    registers[&format!("t{index}")],
                    8 * index
                ));
            }
            line("    ldp x19, x20, [sp, #16]\n    ldp x21, x22, [sp, #32]\n    ldp x23, x24, [sp, #48]".into());
            line("    ldp x25, x26, [sp, #64]\n    ldp x27, x28, [sp, #80]\n    ldp x29, x30, [sp], #96\n    ret".into());
        }
        text
    }
}
