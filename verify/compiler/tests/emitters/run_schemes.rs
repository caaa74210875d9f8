//! Sequences inside the schemes of M94 run under qemu and are interrupted, once at each instruction
//! between the start and the end. The driver does what a handler does: it finds the sequence as the
//! scheme says, rolls it forward, and must regain control. The result and the memory are then those
//! of a call without an interruption.

use verify_compiler::random;
use verify_compiler::SEEDS;

use super::assembly::LEVEL;
use super::run::{answers, emit, emulate};
use super::run_signal::{cases, is_right, requests, Subject};
use super::tools;
use atomseq_compiler::emit::schemes::Scheme;
use atomseq_compiler::forms::{Form, Protection};

/// How many sequences run by each scheme.
const SEQUENCES: usize = 120;

/// What the driver says of a call: it was interrupted where it is no sequence yet, or rolled
/// forward.
const OUTSIDE: u64 = 1;
const ROLLED: u64 = 2;

#[derive(Default)]
struct Counts {
    calls: usize,
    rolled: usize,
    wrong: usize,
    first: Option<String>,
}

#[test]
fn rolled_forward_anywhere_the_result_is_the_same() {
    if !tools::are_there(&[tools::ASSEMBLER, tools::COMPILER, tools::EMULATOR]) {
        return;
    }
    for scheme in Scheme::ALL {
        let subjects = subjects(scheme, SEQUENCES);
        let counts = try_all("scheme", scheme, &subjects, str::to_string).unwrap();
        if let Some(first) = counts.first {
            panic!(
                "{scheme:?}: {} of {} calls went wrong: {first}",
                counts.wrong, counts.calls
            );
        }
        println!(
            "{scheme:?}: {} calls, {} rolled forward",
            counts.calls, counts.rolled
        );
        assert!(counts.rolled > 1000);
    }
}

/// The negative control: ends that do not return to the handler, and a start that is not where the
/// landmark says.
#[test]
fn a_wrong_end_is_noticed() {
    if !tools::are_there(&[tools::ASSEMBLER, tools::COMPILER, tools::EMULATOR]) {
        return;
    }
    for (scheme, right, wrong) in [
        (Scheme::DynJump, "    br x17", "    nop"),
        (Scheme::DynJump, "    str xzr, [", "    ldr xzr, ["),
        (Scheme::DynFault, "    ldr x17, [x17]", "    mov x17, xzr"),
        (Scheme::HybJump, "    br x17", "    nop"),
        (Scheme::HybJump, ".long 7", ".long 6"),
        (Scheme::Designated, "(52b - 51b)", "(52b - 51b - 4)"),
    ] {
        let subjects = subjects(scheme, 20);
        let spoil = |text: &str| {
            assert!(text.contains(right), "no sequence has `{right}`");
            text.replace(right, wrong)
        };
        match try_all("scheme-wrong", scheme, &subjects, spoil) {
            Ok(counts) => {
                assert!(
                    counts.wrong > 0,
                    "{scheme:?}: `{wrong}` for `{right}` made no difference"
                );
                println!(
                    "{scheme:?}, `{wrong}`: {} of {} calls",
                    counts.wrong, counts.calls
                );
            }
            // Wrong code may jump anywhere and write there.
            Err(failed) => println!("{scheme:?}, `{wrong}`: {failed}"),
        }
    }
}

fn subjects(scheme: Scheme, max: usize) -> Vec<Subject> {
    let programs = SEEDS.iter().map(|seed| random::generate(*seed));
    let rolling = programs.filter(|program| program.is_against_handlers());
    let subjects = rolling.map(|program| {
        let emitted = emit(&program, Form::Signal(Protection::None)).by(scheme);
        Subject {
            emitted,
            name: format!("{}_scheme", program.name),
            program,
        }
    });
    // A sequence of one instruction is complete before it can be interrupted inside.
    let several = subjects.filter(|subject| subject.emitted.assembly.instructions > 1);
    several.take(max).collect()
}

/// Assembles, links, runs and compares; `spoil` may change the assembly.
fn try_all(
    test: &str,
    scheme: Scheme,
    subjects: &[Subject],
    spoil: impl Fn(&str) -> String,
) -> Result<Counts, String> {
    let functions = subjects.iter().map(|subject| {
        let text = subject.emitted.functions(&subject.name);
        // The label of the start, for the driver.
        text.replacen("\n51:\n", &format!("\n51:\n{}_start:\n", subject.name), 1)
    });
    let mut text = spoil(&functions.collect::<String>());
    text.push_str(".section .data.rel.ro,\"aw\"\n.balign 8\n.global sequences, count, scheme, level\nsequences:\n");
    for Subject { name, .. } in subjects {
        text.push_str(&format!("    .quad {name}, {name}_start\n"));
    }
    text.push_str(&format!("count: .quad {}\n", subjects.len()));
    text.push_str(&format!(
        "scheme: .quad {}\nlevel: .quad {LEVEL}\n",
        scheme as u64
    ));
    let driver = tools::link(&format!("{test}-{scheme:?}"), &text, "driver_schemes.c");
    let cases = cases(subjects);
    let output = emulate(&driver, requests(&cases))?;
    let mut counts = Counts::default();
    for (case, (words, arena)) in cases.iter().zip(answers(&output)) {
        let subject = &subjects[case.subject];
        counts.calls += 1;
        counts.rolled += usize::from(words[1] == ROLLED);
        // An early return may leave the instruction behind it.
        let is_found = words[1] != OUTSIDE;
        if !is_found || !is_right(case, subject, &words, arena) {
            counts.wrong += 1;
            counts.first.get_or_insert_with(|| {
                let code = subject.emitted.template(&subject.name);
                let (at, text) = (case.at, subject.program.text());
                format!("{}, at {at:?}, {}\n{text}\n{code}", subject.name, words[1])
            });
        }
    }
    assert_eq!(counts.calls, cases.len(), "the driver answers every case");
    Ok(counts)
}
