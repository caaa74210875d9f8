//! Sequences with one fault each, which the same harness must detect; and one without, which it
//! must accept.
//!
//! Written by hand, because `sequence!` refuses them. Their descriptors lie in a section of their
//! own.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_every_instruction::checker::Checker;
    use verify_every_instruction::scenario::{Check, Scenario};
    use verify_support::code::sections_run;
    use verify_support::code::table::Program;

    if !sections_run("controls") {
        return;
    }
    let mut wrong = false;
    for control in faulty::CONTROLS {
        let windows = Program::this()
            .windows(faulty::SECTION)
            .into_iter()
            .filter(|window| window.name.ends_with(control.symbol))
            .collect();
        let mut checker = Checker::new(windows);
        assert_eq!(checker.windows().len(), 1, "{}", control.symbol);
        // Instructions that no scenario has reached are reported.
        let missed = checker.missed();
        let all = checker.windows()[0].boundaries.len();
        assert!(missed.len() > all && missed.iter().all(|text| text.contains(control.symbol)));
        checker.check(&Scenario {
            name: control.symbol.to_string(),
            fresh: faulty::fresh,
            operation: control.operation,
            interferences: &[("an addition", faulty::add_correctly)],
            whole: true,
            signal_safe: true,
            content: faulty::content,
            total: faulty::total,
        });
        let (hit, all) = checker.pairs();
        let count = checker.violations.len();
        let found = match control.violation {
            None => count == 0,
            Some(text) => checker.violations.iter().any(|found| found.contains(text)),
        };
        println!(
            "control {}: {hit} of {all} instructions interrupted, {count} violations in {} runs{}",
            control.symbol,
            checker.runs,
            if found { "" } else { ": WRONG" }
        );
        if !found || hit != all {
            wrong = true;
            for violation in &checker.violations {
                println!("  {violation}");
            }
        }
    }
    if wrong {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("controls: does not apply, for sections are not built here");
}

/// A counter of one word a CPU, written by hand: correct once, and wrong in each of the ways that
/// the harness exists to detect.
///
/// ```text
/// value = 0
/// 49:     arm
/// 51:     slot = this CPU's               start
/// if the gate is closed, leave
/// value = load slot.value
/// 55:     value += amount
/// 56:     store slot.value = value        the commit
/// 57:     (no operation, of two bytes)
/// 58:
/// 53:     slot = this CPU's               abort; so that a fault is a wrong sum, never a wild store
/// goto 49
/// ```
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod faulty {
    use std::arch::asm;

    use atomseq::percpu::Area;
    use verify_every_instruction::scenario::{Operation, Words};

    /// The section of the descriptors.
    pub const SECTION: &str = "verify_controls";

    /// A sequence, and what the harness must report of it.
    pub struct Control {
        /// The function's name.
        pub symbol: &'static str,
        /// Adds one.
        pub operation: Operation<Area>,
        /// A part of a violation that must be found; `None`: it is correct.
        pub violation: Option<&'static str>,
    }

    /// Every control.
    pub const CONTROLS: &[Control] = &[
        control("add_correctly", add_correctly, None),
        control(
            "add_without_restart",
            add_without_restart,
            Some("is neither"),
        ),
        control(
            "add_in_a_window_too_long",
            add_in_a_window_too_long,
            Some("is neither"),
        ),
        control(
            "add_in_a_window_too_short",
            add_in_a_window_too_short,
            Some("is neither"),
        ),
        control(
            "add_unarmed",
            add_unarmed,
            Some("the kernel restarted it: false"),
        ),
        control(
            "add_without_gate",
            add_without_gate,
            Some("behind a closed gate"),
        ),
    ];

    const fn control(
        symbol: &'static str,
        operation: Operation<Area>,
        violation: Option<&'static str>,
    ) -> Control {
        Control {
            symbol,
            operation,
            violation,
        }
    }

    /// Makes an area.
    pub fn fresh() -> Area {
        Area::try_new(0).expect("there is memory for one area")
    }

    /// Returns the count of every CPU.
    pub fn content(area: &Area) -> Words {
        (0..area.cpus())
            .map(|cpu| area.peek(cpu, Area::FIRST_WORD) as u64)
            .collect()
    }

    /// Returns the sum.
    pub fn total(area: &Area) -> Words {
        vec![content(area).into_iter().sum()]
    }

    fn add_slowly(area: &Area) {
        area.on_slow_path(|held| {
            let value = (held.address() + Area::FIRST_WORD) as *mut u64;
            // SAFETY: a word of the slot whose gate is held.
            unsafe { value.write(value.read() + 1) }
        });
    }

    macro_rules! counter {
        ($name:ident, arm: $arm:literal, gate: [$($gate:literal)*], start: $start:literal, end: $end:literal, abort: $abort:literal) => {
            #[inline(never)]
            #[doc = concat!("Starts at ", $start, ", ends at ", $end, ", aborts to ", $abort, ".")]
            pub fn $name(area: &Area) -> Words {
                // SAFETY: reads and writes slots of this area only; whatever the fault, the store
                // goes to one of them.
                unsafe {
                    asm!(
                        "xor {value:e}, {value:e}",
                        "49:",
                        "lea {scratch}, [rip + 50f]",
                        $arm,
                        "51:",
                        "movsxd {slot}, dword ptr fs:[{rseq} + 4]",
                        "imul {slot}, {stride}",
                        "add {slot}, {base}",
                        $($gate,)*
                        "mov {value}, qword ptr [{slot} + 8]",
                        "55:",
                        "add {value}, 1",
                        "56:",
                        "mov qword ptr [{slot} + 8], {value}",
                        "57:",
                        "xchg ax, ax",
                        "58:",
                        ".pushsection .text.unlikely.verify_controls, \"ax\", @progbits",
                        ".byte 0x0f, 0xb9, 0x3d",
                        ".long 0x53053053",
                        "53:",
                        "movsxd {slot}, dword ptr fs:[{rseq} + 4]",
                        "imul {slot}, {stride}",
                        "add {slot}, {base}",
                        concat!("jmp ", $abort, "b"),
                        "59:",
                        "jmp {closed}",
                        ".popsection",
                        ".pushsection verify_controls, \"awR\", @progbits",
                        ".balign 32",
                        "50:",
                        ".long 0, 0",
                        concat!(".quad ", $start, "b, ", $end, "b - ", $start, "b, 53b"),
                        ".popsection",
                        rseq = in(reg) atomseq::internals::rseq_offset(),
                        base = in(reg) area.slots().base(),
                        stride = in(reg) area.slots().stride(),
                        slot = out(reg) _,
                        value = out(reg) _,
                        scratch = out(reg) _,
                        closed = label { add_slowly(area) },
                        options(nostack),
                    )
                }
                vec![]
            }
        };
    }

    counter!(add_correctly, arm: "mov qword ptr fs:[{rseq} + 8], {scratch}",
        gate: ["cmp dword ptr [{slot}], 0" "jne 59f"], start: "51", end: "57", abort: "49");
    // Continues with the value that it loaded before the interruption.
    counter!(add_without_restart, arm: "mov qword ptr fs:[{rseq} + 8], {scratch}",
        gate: ["cmp dword ptr [{slot}], 0" "jne 59f"], start: "51", end: "57", abort: "55");
    // Restarts although it has committed.
    counter!(add_in_a_window_too_long, arm: "mov qword ptr fs:[{rseq} + 8], {scratch}",
        gate: ["cmp dword ptr [{slot}], 0" "jne 59f"], start: "51", end: "58", abort: "49");
    // Does not restart although it has not committed.
    counter!(add_in_a_window_too_short, arm: "mov qword ptr fs:[{rseq} + 8], {scratch}",
        gate: ["cmp dword ptr [{slot}], 0" "jne 59f"], start: "51", end: "56", abort: "49");
    // Does not register with the kernel.
    counter!(add_unarmed, arm: "nop",
        gate: ["cmp dword ptr [{slot}], 0" "jne 59f"], start: "51", end: "57", abort: "49");
    // Does not check whether another thread holds the slot's gate.
    counter!(add_without_gate, arm: "mov qword ptr fs:[{rseq} + 8], {scratch}",
        gate: [], start: "51", end: "57", abort: "49");
}
