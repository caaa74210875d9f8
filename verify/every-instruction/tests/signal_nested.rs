//! Lets signals that cannot be blocked arrive at each instruction of another signal's delivery,
//! which has interrupted a sequence: their handlers find it complete, or not begun. Without the
//! protection, the same harness finds it incomplete.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod nested {
    use atomseq::internals::signal_controls;
    use verify_every_instruction::conclude;
    use verify_every_instruction::scenario::{Scenario, Words};
    use verify_every_instruction::signals::nested::{self, Order};
    use verify_every_instruction::signals::registry::Memory;
    use verify_every_instruction::signals::{Findings, deliver};

    type Three = Memory<3>;

    verify_every_instruction::change_three_words!();
    verify_every_instruction::sum_three_words!();

    #[inline(never)]
    fn change_rolling(memory: &Three) -> Words {
        // SAFETY: three words that nothing else changes but these sequences.
        unsafe { change::rolling(memory.at(0)) };
        vec![]
    }

    #[inline(never)]
    fn sum_restarting(memory: &Three) -> Words {
        // SAFETY: three words that nothing but these sequences changes.
        vec![unsafe { sum::restarting(memory.at(0)) } as u64]
    }

    fn change_masked(memory: &Three) -> Words {
        let _masked = atomseq::signal::mask();
        change_rolling(memory)
    }

    fn sum_masked(memory: &Three) -> Words {
        let _masked = atomseq::signal::mask();
        sum_restarting(memory)
    }

    /// A handler's interference: records the words that it finds.
    fn double(memory: &Three) -> Words {
        let before = memory.words();
        for index in 0..3 {
            memory.set(index, memory.word(index) * 2);
        }
        before
    }

    fn add(memory: &Three) -> Words {
        let before = memory.words();
        for index in 0..3 {
            memory.set(index, memory.word(index) + 100);
        }
        before
    }

    fn operation_first(parts: &[Part]) -> bool {
        parts[0] == Part::Operation
    }

    fn operation_last(parts: &[Part]) -> bool {
        parts[2] == Part::Operation
    }

    /// The mask defers the first signal.
    fn first_last(parts: &[Part]) -> bool {
        parts[2] == Part::First(0)
    }

    fn operation_then_first_last(parts: &[Part]) -> bool {
        operation_first(parts) && first_last(parts)
    }

    use verify_every_instruction::signals::nested::Part;

    type Named = (&'static str, fn(&Three) -> Words, Order);

    const OPERATIONS: [Named; 4] = [
        ("a rolling sequence", change_rolling, operation_first),
        ("a restarting sequence", sum_restarting, operation_last),
        (
            "a rolling sequence in a mask",
            change_masked,
            operation_then_first_last,
        ),
        ("a restarting sequence in a mask", sum_masked, first_last),
    ];

    fn check(deliveries: &mut Findings, operation: Named) {
        let (name, call, order) = operation;
        let scenario = Scenario {
            name: name.to_string(),
            fresh: || Memory::holding([10, 20, 30]),
            operation: call,
            interferences: &[("doubling", double), ("adding", add)],
            whole: true,
            signal_safe: true,
            content: Three::words,
            total: Three::words,
        };
        nested::check(deliveries, &scenario, order);
    }

    const CONTROL: &str = "without-noticing-deliveries";

    fn control() {
        // SAFETY: this process exists to show what happens then; nothing that is shared is a
        // pointer.
        unsafe { signal_controls::set(signal_controls::NESTED) };
        deliver::install_unmaskable();
        let mut deliveries = Findings::of_this_program();
        check(&mut deliveries, OPERATIONS[0]);
        println!(
            "control {CONTROL}: {} violations in {} runs",
            deliveries.violations.len(),
            deliveries.runs
        );
        assert!(!deliveries.violations.is_empty());
    }

    pub fn main() {
        if std::env::args().any(|argument| argument == CONTROL) {
            return control();
        }
        deliver::install_unmaskable();
        let mut deliveries = Findings::of_this_program();
        for operation in OPERATIONS {
            check(&mut deliveries, operation);
        }
        println!(
            "signals in deliveries: {} instructions of deliveries met signals, in {} runs; {} violations",
            deliveries.places,
            deliveries.runs,
            deliveries.violations.len()
        );
        conclude(&deliveries.violations, &[CONTROL]);
    }
}

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    nested::main();
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("signals in deliveries: do not apply, for sequences are not built so here");
}
