//! x86-64, Intel syntax.
//!
//! Operands: `a0…` parameters, `t0…` temporaries, `c0…` constants, `area` a slot's area, with its
//! stride at `stride` and its base at `base`, `rseq` the offset of struct rseq from the thread
//! pointer (fs), `status`; the slot's own register takes its place, for no address is as small as a
//! status. Two-address instructions take over the register of an operand that dies; a load used once by the next step
//! becomes its memory operand; `load p; add; commit p` becomes one `add` to memory.

use super::super::ir::*;
use super::indexing::Indexed;
use super::registers::Registers;
use super::{Assembly, Builder, Leaving, Line, Place, aborted_status, label};

/// Emits the `on_cpu` form.
pub fn on_cpu(sequence: &Sequence) -> Assembly {
    let indexed = Indexed::all(sequence);
    let mut emitter = Emitter {
        sequence,
        leaving: Leaving::of(sequence),
        out: Builder::default(),
        registers: Registers::new(sequence, &indexed),
        indexed,
        fixed: None,
        status: "{status:e}".to_string(),
        results: Vec::new(),
    };
    let slot = sequence.slots().next().map(|(register, _)| register);
    let telling = slot.filter(|_| emitter.leaving == Leaving::Status);
    if let Some(slot) = telling {
        emitter.registers.keep(slot);
    }
    emitter.arm(telling.is_none());
    emitter.out.start();
    emitter.slots();
    emitter.steps();
    emitter.out.end();
    emitter.out_of_line();
    emitter.out.descriptor();
    let last = sequence
        .end
        .result
        .iter()
        .map(|operand| emitter.registers.place(operand))
        .collect();
    emitter.results.push(last);
    let telling = telling.map(|slot| emitter.registers.place(&Operand::Register(slot)));
    let mut assembly =
        emitter
            .out
            .finish(emitter.registers.count(), emitter.fixed, emitter.results);
    if let Some(Place::Temporary(slot)) = telling {
        assembly.telling = Some(slot);
    }
    assembly
}

struct Emitter<'a> {
    sequence: &'a Sequence,
    indexed: Indexed<'a>,
    leaving: Leaving,
    out: Builder,
    registers: Registers,
    fixed: Option<&'static str>,
    /// What out-of-line code says how the section was left in.
    status: String,
    results: Vec<Vec<Place>>,
}

impl Emitter<'_> {
    fn arm(&mut self, needs_status: bool) {
        if self.leaving == Leaving::Status && needs_status {
            self.out.instruction("xor {status:e}, {status:e}");
        }
        let scratch = self.registers.scratch();
        // The descriptor follows in the template, in its own section.
        self.out.instruction(format!(
            "lea {{t{scratch}}}, [rip + {}f]",
            label::DESCRIPTOR
        ));
        self.out
            .instruction(format!("mov qword ptr fs:[{{rseq}} + 8], {{t{scratch}}}"));
        self.registers.release(scratch);
    }

    fn slots(&mut self) {
        let closed = match self.leaving {
            Leaving::Labels => "{closed}".to_string(),
            Leaving::Status => format!("{}f", label::CLOSED),
        };
        let sequence = self.sequence;
        for (register, _) in sequence.slots() {
            let slot = self.registers.define(register);
            if self.leaving == Leaving::Status {
                self.status = self.registers.name_with(register, ":e");
            }
            self.out
                .instruction(format!("movsxd {slot}, dword ptr fs:[{{rseq}} + 4]"));
            // Memory operands: two instructions and a register less than words loaded before.
            self.out
                .instruction(format!("imul {slot}, qword ptr [{{area}} + {{stride}}]"));
            self.out
                .instruction(format!("add {slot}, qword ptr [{{area}} + {{base}}]"));
            self.out.instruction(format!("cmp dword ptr [{slot}], 0"));
            self.out.instruction(format!("jne {closed}"));
        }
    }

    fn steps(&mut self) {
        let mut index = 0;
        while index < self.indexed.steps.len() {
            // What was folded into one instruction ends its step together.
            index += if self.update_in_memory(index) {
                3
            } else if self.with_memory_operand(index) {
                2
            } else {
                self.step(index);
                1
            };
            self.registers.end_of_step(index - 1);
            self.out.end_of_step(self.indexed.steps[index - 1]);
        }
    }

    /// `load p; op; commit p` at the end, the words used nowhere else: one instruction.
    fn update_in_memory(&mut self, index: usize) -> bool {
        let [load, binary, commit] = match self.indexed.steps.get(index..index + 3) {
            Some([load, binary, commit]) => [&load.kind, &binary.kind, &commit.kind],
            _ => return false,
        };
        let StepKind::Load {
            to: loaded,
            from,
            width: Width::Word,
            ..
        } = load
        else {
            return false;
        };
        let StepKind::Binary {
            to: updated,
            operator,
            a: Operand::Register(a),
            b,
        } = binary
        else {
            return false;
        };
        let StepKind::Store {
            kind: StoreKind::Commit,
            to,
            value,
            width: Width::Word,
            ..
        } = commit
        else {
            return false;
        };
        let Some(mnemonic) = mnemonic(*operator) else {
            return false;
        };
        let (a, b) = match operator.commutes() && b.register() == Some(*loaded) {
            true => (b.register(), &Operand::Register(*a)),
            false => (Some(*a), b),
        };
        let matches = to.key() == from.key()
            && a == Some(*loaded)
            && value.register() == Some(*updated)
            && b.register() != Some(*loaded)
            && self.registers.used_once(*loaded)
            && self.registers.used_once(*updated);
        if !matches || self.multiply(*operator) {
            return false;
        }
        let (b, scratch) = self.source(b);
        let memory = self.memory(from, 8);
        self.out
            .instruction(format!("{mnemonic} qword ptr {memory}, {b}"));
        self.give_back(scratch);
        true
    }

    fn multiply(&self, operator: BinaryOperator) -> bool {
        operator == BinaryOperator::Multiply
    }

    /// A load used once, by the next step, as an operand that may stand in memory.
    fn with_memory_operand(&mut self, index: usize) -> bool {
        let [load, next] = match self.indexed.steps.get(index..index + 2) {
            Some([load, next]) => [&load.kind, &next.kind],
            _ => return false,
        };
        let StepKind::Load {
            to: loaded,
            from,
            width: Width::Word,
            ..
        } = load
        else {
            return false;
        };
        if !self.registers.used_once(*loaded) {
            return false;
        }
        match next {
            StepKind::Exit {
                comparison,
                a: Operand::Register(a),
                b,
                exit,
            } => {
                if b.register() == Some(*loaded) {
                    let a = self.registers.name(*a);
                    let memory = self.memory(from, 8);
                    self.out.instruction(format!("cmp {a}, qword ptr {memory}"));
                } else if a == loaded {
                    let (b, scratch) = self.source(b);
                    let memory = self.memory(from, 8);
                    self.out.instruction(format!("cmp qword ptr {memory}, {b}"));
                    self.give_back(scratch);
                } else {
                    return false;
                }
                self.leave(*comparison, *exit);
                true
            }
            StepKind::Binary { to, operator, a, b } => {
                let (a, b) = match operator.commutes() && a.register() == Some(*loaded) {
                    true => (b, a),
                    false => (a, b),
                };
                let (Some(a), Some(mnemonic)) = (a.register(), mnemonic(*operator)) else {
                    return false;
                };
                if b.register() != Some(*loaded) {
                    return false;
                }
                let memory = self.memory(from, 8);
                let to = self.copy_or_replace(a, *to, index + 1);
                self.out
                    .instruction(format!("{mnemonic} {to}, qword ptr {memory}"));
                true
            }
            _ => false,
        }
    }

    fn step(&mut self, index: usize) {
        let step = self.indexed.steps[index];
        match &step.kind {
            StepKind::Load {
                to, from, width, ..
            } => {
                // x86-64 orders loads after loads: every load is an acquire.
                let bytes = width.bytes();
                let memory = self.memory(from, bytes);
                self.registers.define(*to);
                let (to, size) = self.sized(*to, *width);
                self.out
                    .instruction(format!("mov {to}, {size} ptr {memory}"));
            }
            StepKind::Cpu { to } => {
                let to = self.registers.define(*to);
                self.out
                    .instruction(format!("movsxd {to}, dword ptr fs:[{{rseq}} + 4]"));
            }
            StepKind::Binary { to, operator, a, b } => self.binary(index, *to, *operator, a, b),
            StepKind::Exit {
                comparison,
                a,
                b,
                exit,
            } => {
                let (a_name, a_scratch) = self.in_register(a);
                match b {
                    Operand::Constant(Constant { value: Some(0), .. }) => {
                        let is_zero_test =
                            matches!(comparison, Comparison::Equal | Comparison::NotEqual);
                        if !is_zero_test || !self.tells_zero(&a_name) {
                            self.out.instruction(format!("test {a_name}, {a_name}"));
                        }
                    }
                    _ => {
                        let (b, scratch) = self.source(b);
                        self.out.instruction(format!("cmp {a_name}, {b}"));
                        self.give_back(scratch);
                    }
                }
                self.give_back(a_scratch);
                self.leave(*comparison, *exit);
            }
            StepKind::Store {
                to, value, width, ..
            } => {
                // x86-64 orders stores after loads and stores: every store is a release.
                let (value, scratch) = match value {
                    Operand::Register(register) => (self.sized(*register, *width).0, None),
                    Operand::Constant(Constant {
                        value: Some(value), ..
                    }) if *width == Width::Half => ((*value as u32 as i32).to_string(), None),
                    Operand::Constant(_) => self.source(value),
                };
                let memory = self.memory(to, width.bytes());
                let size = size(*width);
                self.out
                    .instruction(format!("mov {size} ptr {memory}, {value}"));
                self.give_back(scratch);
            }
            StepKind::Copy { to, from, words } => self.copy(index, *to, *from, words),
        }
    }

    /// Does the zero flag tell of this register already? It does after the instruction that computed it.
    fn tells_zero(&self, name: &str) -> bool {
        let computes = |mnemonic: &&str| {
            let begin = format!("{mnemonic} {name}, ");
            matches!(self.out.last(), Some(Line::Text(text)) if text.starts_with(&begin))
        };
        ["add", "sub", "and", "or", "xor"].iter().any(computes)
    }

    fn binary(
        &mut self,
        index: usize,
        to: Register,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
    ) {
        use BinaryOperator::*;
        match (operator, a, b) {
            (Minimum, Operand::Register(a), b) => {
                // to = b; if a < b, to = a. `to` is neither a nor b.
                let a = self.registers.name(*a);
                let (b, scratch) = self.source(b);
                let to = self.registers.define(to);
                self.out.instruction(format!("cmp {a}, {b}"));
                self.out.instruction(format!("mov {to}, {b}"));
                self.out.instruction(format!("cmovb {to}, {a}"));
                self.give_back(scratch);
            }
            (Add, Operand::Register(x), Operand::Register(y))
                if !self.registers.dies(*x, index) && !self.registers.dies(*y, index) =>
            {
                let (x, y) = (self.registers.name(*x), self.registers.name(*y));
                let to = self.registers.define(to);
                self.out.instruction(format!("lea {to}, [{x} + {y}]"));
            }
            (Add | Subtract, Operand::Register(x), Operand::Constant(constant))
                if !self.registers.dies(*x, index) =>
            {
                let offset = match (operator, constant.value) {
                    (Add, None) => self.out.immediate(constant),
                    (Add, Some(value)) if fits(value) => (value as i64).to_string(),
                    (Subtract, Some(value)) if fits(value.wrapping_neg()) => {
                        (value.wrapping_neg() as i64).to_string()
                    }
                    // Too large; or named, and rustc prints it without its sign: subtract it.
                    _ => return self.two_address(index, to, operator, a, b),
                };
                let x = self.registers.name(*x);
                let to = self.registers.define(to);
                self.out.instruction(format!("lea {to}, [{x} + {offset}]"));
            }
            (Multiply, Operand::Register(x), Operand::Constant(constant))
                if constant.value.is_none_or(fits) =>
            {
                let x = self.registers.name(*x);
                let constant = self.out.immediate(constant);
                let to = self.registers.define(to);
                self.out.instruction(format!("imul {to}, {x}, {constant}"));
            }
            (ShiftLeft | ShiftRight, a, b) => {
                let mnemonic = if operator == ShiftLeft { "shl" } else { "shr" };
                let count = match b {
                    Operand::Constant(Constant {
                        value: Some(value), ..
                    }) => (value & 63).to_string(),
                    b => {
                        // A count in a register is a count in cl.
                        let (b, scratch) = self.source(b);
                        self.fixed = Some("rcx");
                        self.out.instruction(format!("mov rcx, {b}"));
                        self.give_back(scratch);
                        "cl".to_string()
                    }
                };
                let to = match a {
                    Operand::Register(a) => self.copy_or_replace(*a, to, index),
                    Operand::Constant(a) => self.constant_into(a, to),
                };
                self.out.instruction(format!("{mnemonic} {to}, {count}"));
            }
            _ => self.two_address(index, to, operator, a, b),
        }
    }

    /// `to = a; to op= b`, without the first if `a` (or, commuting, `b`) dies here.
    fn two_address(
        &mut self,
        index: usize,
        to: Register,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
    ) {
        let (mut a, mut b) = (a, b);
        if let (Operand::Register(x), Operand::Register(y)) = (a, b) {
            if operator.commutes()
                && !self.registers.dies(*x, index)
                && self.registers.dies(*y, index)
            {
                (a, b) = (b, a);
            }
        }
        // Named before `to` may take over the register of `a`.
        let (source, scratch) = self.source(b);
        let to = match a {
            Operand::Register(a) => self.copy_or_replace(*a, to, index),
            Operand::Constant(a) => self.constant_into(a, to),
        };
        let mnemonic = mnemonic(operator).expect("shifts and minimum are emitted elsewhere");
        self.out.instruction(format!("{mnemonic} {to}, {source}"));
        self.give_back(scratch);
    }

    fn copy_or_replace(&mut self, from: Register, to: Register, index: usize) -> String {
        if self.registers.dies(from, index) {
            return self.registers.replace(from, to);
        }
        let from = self.registers.name(from);
        let to = self.registers.define(to);
        self.out.instruction(format!("mov {to}, {from}"));
        to
    }

    fn constant_into(&mut self, constant: &Constant, to: Register) -> String {
        let constant = self.out.immediate(constant);
        let to = self.registers.define(to);
        self.out.instruction(format!("mov {to}, {constant}"));
        to
    }

    fn copy(&mut self, step: usize, to: Register, from: Register, words: &Operand) {
        // A count that nobody needs afterwards becomes the index.
        let counted = words
            .register()
            .filter(|words| self.registers.dies(*words, step) && ![to, from].contains(words));
        let (to, from) = (self.registers.name(to), self.registers.name(from));
        let (index, index_scratch) = match counted {
            Some(words) => (self.registers.name(words), None),
            None => {
                let (words, words_scratch) = self.source(words);
                let index = self.registers.scratch();
                self.out.instruction(format!("mov {{t{index}}}, {words}"));
                self.give_back(words_scratch);
                (format!("{{t{index}}}"), Some(index))
            }
        };
        let word = self.registers.scratch();
        self.out.as_one(|out| {
            // Downwards from the last word; nothing at all for no words.
            out.instruction(format!("jmp {}f", label::COPY_TEST));
            out.directive(format!("{}:", label::COPY));
            out.instruction(format!("mov {{t{word}}}, qword ptr [{from} + 8*{index}]"));
            out.instruction(format!("mov qword ptr [{to} + 8*{index}], {{t{word}}}"));
            out.directive(format!("{}:", label::COPY_TEST));
            out.instruction(format!("sub {index}, 1"));
            out.instruction(format!("jns {}b", label::COPY));
        });
        self.registers.release(word);
        self.give_back(index_scratch);
    }

    /// Branches out of the section if the comparison holds.
    fn leave(&mut self, comparison: Comparison, exit: usize) {
        let condition = match comparison {
            Comparison::Equal => "e",
            Comparison::NotEqual => "ne",
            Comparison::Less => "b",
            Comparison::LessOrEqual => "be",
            Comparison::Greater => "a",
            Comparison::GreaterOrEqual => "ae",
        };
        let target = match self.leaving {
            Leaving::Labels => format!("{{exit{exit}}}"),
            Leaving::Status => format!("{}f", label::EXIT + exit),
        };
        self.out.instruction(format!("j{condition} {target}"));
        let result = &self.sequence.exits[exit].result;
        self.results.push(
            result
                .iter()
                .map(|operand| self.registers.place(operand))
                .collect(),
        );
    }

    /// What is reached only when something happened, kept away from the fast path.
    fn out_of_line(&mut self) {
        self.out
            .directive(".pushsection .text.unlikely.atomseq, \"ax\", @progbits");
        // ud1 edi, [rip + signature]: the four bytes before the abort address are the signature.
        self.out.directive(".byte 0x0f, 0xb9, 0x3d");
        self.out.directive(".long 0x53053053");
        self.out.directive(format!("{}:", label::ABORT));
        match self.leaving {
            Leaving::Labels => self.out.instruction("jmp {aborted}"),
            Leaving::Status => {
                let aborted = aborted_status(self.sequence);
                let register = self.status.clone();
                let mut arrive = |at: Option<usize>, status: usize| {
                    if let Some(at) = at {
                        self.out.directive(format!("{at}:"));
                    }
                    self.out.instruction(format!("mov {register}, {status}"));
                    self.out.instruction(format!("jmp {}b", label::END));
                };
                arrive(None, aborted);
                arrive(Some(label::CLOSED), aborted + 1);
                for exit in 0..self.sequence.exits.len() {
                    arrive(Some(label::EXIT + exit), exit + 1);
                }
            }
        }
        self.out.directive(".popsection");
    }

    fn memory(&mut self, address: &Address, bytes: u32) -> String {
        let base = match self.indexed.sum(address.base) {
            None => self.registers.name(address.base),
            Some((base, index)) => {
                let (base, index) = (self.registers.name(base), self.registers.name(index));
                format!("{base} + {index}")
            }
        };
        match self.out.offset(&address.offset, bytes) {
            None => format!("[{base}]"),
            Some(offset) => format!("[{base} + {offset}]"),
        }
    }

    /// A register or an immediate; a scratch register for a constant too large.
    fn source(&mut self, operand: &Operand) -> (String, Option<usize>) {
        match operand {
            Operand::Constant(constant) if constant.value.is_none_or(fits) => {
                (self.out.immediate(constant), None)
            }
            other => self.in_register(other),
        }
    }

    fn in_register(&mut self, operand: &Operand) -> (String, Option<usize>) {
        match operand {
            Operand::Register(register) => (self.registers.name(*register), None),
            Operand::Constant(constant) => {
                let constant = self.out.immediate(constant);
                let scratch = self.registers.scratch();
                self.out
                    .instruction(format!("mov {{t{scratch}}}, {constant}"));
                (format!("{{t{scratch}}}"), Some(scratch))
            }
        }
    }

    fn give_back(&mut self, scratch: Option<usize>) {
        if let Some(scratch) = scratch {
            self.registers.release(scratch);
        }
    }

    fn sized(&self, register: Register, width: Width) -> (String, &'static str) {
        match width {
            Width::Word => (self.registers.name(register), size(width)),
            Width::Half => (self.registers.name_with(register, ":e"), size(width)),
        }
    }
}

fn mnemonic(operator: BinaryOperator) -> Option<&'static str> {
    match operator {
        BinaryOperator::Add => Some("add"),
        BinaryOperator::Subtract => Some("sub"),
        BinaryOperator::Multiply => Some("imul"),
        BinaryOperator::And => Some("and"),
        BinaryOperator::Or => Some("or"),
        BinaryOperator::Xor => Some("xor"),
        BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight | BinaryOperator::Minimum => None,
    }
}

/// Does a literal fit a sign-extended 32-bit immediate?
fn fits(value: u64) -> bool {
    i32::try_from(value as i64).is_ok()
}

fn size(width: Width) -> &'static str {
    match width {
        Width::Word => "qword",
        Width::Half => "dword",
    }
}
