//! Faults that the same harness must detect: the forms without any protection, and the library's
//! handling switched off part by part. Each runs in a process of its own.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_support::processes::passes_in_own_process;

    if let Some(name) = std::env::args()
        .nth(1)
        .filter(|name| !name.starts_with('-'))
    {
        signal_faults::run(&name);
        return;
    }
    // Runs all of them, also after one has failed.
    let run = |control: &signal_faults::Control| passes_in_own_process(control.name);
    let passed: Vec<bool> = signal_faults::CONTROLS.iter().map(run).collect();
    if passed.contains(&false) {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("controls of signal forms: do not apply, for sequences are not built so here");
}

/// The controls: one without a fault, and one for each part of what protects the forms.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod signal_faults {
    use atomseq::internals::signal_controls;
    use verify_every_instruction::scenario::{Check, Scenario, Words};
    use verify_every_instruction::signals::checker::Checker;
    use verify_every_instruction::signals::registry::Memory;
    use verify_every_instruction::signals::rows::Row;
    use verify_every_instruction::signals::{deliver, rows};
    use verify_support::code::table::Program;

    /// A part that is switched off, and the operations in which the harness must notice that.
    pub struct Control {
        /// Its name.
        pub name: &'static str,
        /// How the signals are handled.
        handling: Handling,
        /// Whether the harness must find a violation in each operation, in the order of
        /// [`OPERATIONS`].
        found: [bool; 3],
    }

    enum Handling {
        /// By the library, without these parts.
        Without(u32),
        /// By handlers that do not use the library.
        Plain,
    }

    /// Every control.
    pub const CONTROLS: &[Control] = &[
        Control {
            name: "nothing-is-off",
            handling: Handling::Without(0),
            found: [false, false, true],
        },
        Control {
            name: "no-restart",
            handling: Handling::Without(signal_controls::RESTART),
            found: [true, false, true],
        },
        Control {
            name: "no-rollforward",
            handling: Handling::Without(signal_controls::ROLLFORWARD),
            found: [false, true, true],
        },
        // A signal that interrupts a delivery's own code is detected nevertheless, which is why
        // that is off as well. The last handler to run is that of the signal that found the
        // sequence incomplete: it still restarts it.
        Control {
            name: "no-covering-mask",
            handling: Handling::Without(signal_controls::COVERING_MASK | signal_controls::NESTED),
            found: [false, true, true],
        },
        Control {
            name: "no-widening",
            handling: Handling::Without(signal_controls::WIDENING),
            found: [true, true, true],
        },
        Control {
            name: "plain-handlers",
            handling: Handling::Plain,
            found: [true, true, true],
        },
    ];

    atomseq::sequence! {
        /// Replaces a word by one that shows how often it was changed.
        unsafe fn mix(word: Word) {
            let old = load(word);
            commit(word, (old << 1) ^ 5);
        }

        /// Exchanges two words, and changes both.
        unsafe fn exchange(one: Word, other: Word) {
            let first = load(one);
            let second = load(other);
            store(one, second + 1);
            store(other, first + 3);
        }
    }

    type Two = Memory<2>;

    #[inline(never)]
    fn mix_restarting(memory: &Two) -> Words {
        // SAFETY: a word that only this sequence changes.
        unsafe { mix::restarting(memory.at(0)) };
        vec![]
    }

    #[inline(never)]
    fn exchange_rolling(memory: &Two) -> Words {
        // SAFETY: two words that only this sequence changes.
        unsafe { exchange::rolling(memory.at(0), memory.at(1)) };
        vec![]
    }

    #[inline(never)]
    fn run_unprotected(memory: &Two) -> Words {
        exchange_unprotected(memory.at(0), memory.at(1));
        vec![]
    }

    /// Only the sequence: where no table lists it, this function stands for it.
    #[inline(never)]
    fn exchange_unprotected(one: usize, other: usize) {
        // SAFETY: two words that only this sequence changes. Interference by handlers is what the
        // test looks for, and they find two words in any case.
        unsafe { exchange::unprotected(one, other) };
    }

    type Named = (&'static str, fn(&Two) -> Words);

    /// Each is interrupted by itself.
    const OPERATIONS: [Named; 3] = [
        ("mix_restarting", mix_restarting),
        ("exchange_rolling", exchange_rolling),
        ("exchange_unprotected", run_unprotected),
    ];

    fn fresh() -> Two {
        Memory::holding([10, 20])
    }

    /// Runs a control; ends the process with an error if it is not detected, or something else is.
    pub fn run(name: &str) {
        let control = CONTROLS
            .iter()
            .find(|control| control.name == name)
            .expect("a control");
        match control.handling {
            Handling::Without(parts) => {
                // SAFETY: this process exists to show what happens then; nothing that it shares is
                // a pointer.
                unsafe { signal_controls::set(parts) };
                deliver::install_managed();
            }
            Handling::Plain => deliver::install_unmanaged(),
        }
        let program = Program::this();
        let mut wrong = false;
        for ((operation, call), expected) in OPERATIONS.into_iter().zip(control.found) {
            let row = row_of(&program, operation);
            let mut checker = Checker::new(vec![row], false);
            checker.check(&Scenario {
                name: operation.to_string(),
                fresh,
                operation: call,
                interferences: interferences(operation),
                whole: true,
                signal_safe: true,
                content: Two::words,
                total: Two::words,
            });
            let found = checker
                .violations
                .iter()
                .any(|text| text.contains("is none of"));
            let (hit, all) = checker.pairs();
            println!(
                "control {name}, {operation}: {hit} of {all} instructions met signals, {} violations in {} runs",
                checker.violations.len(),
                checker.runs
            );
            if found != expected || hit == 0 {
                wrong = true;
                checker
                    .violations
                    .iter()
                    .for_each(|violation| println!("  {violation}"));
            }
        }
        if wrong {
            std::process::exit(1);
        }
    }

    fn interferences(operation: &str) -> &'static [Named] {
        let index = OPERATIONS.iter().position(|(name, _)| *name == operation);
        match index.expect("an operation") {
            0 => &[("a change", mix_restarting)],
            1 => &[("an exchange", exchange_rolling)],
            _ => &[("an exchange", run_unprotected)],
        }
    }

    /// Returns the row of a function, or the function itself where there is no row.
    fn row_of(program: &Program, function: &str) -> Row {
        let is_it = |row: &Row| row.name.ends_with(function);
        rows::of(program)
            .into_iter()
            .find(is_it)
            .unwrap_or_else(|| rows::of_function(program, function))
    }
}
