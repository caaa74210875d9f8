//! The forms against signal handlers run under qemu and are interrupted, once at each instruction
//! of each call. A restart begins anew with its temporaries overwritten; a rollforward continues in
//! the clone. Either way the result and the memory must be those of a call without an interruption.

use verify_compiler::inputs;
use verify_compiler::oracle::{self, Memory};
use verify_compiler::random::{self, Program};
use verify_compiler::SEEDS;

use super::assembly::Emitted;
use super::run::{
    answers, emit, emulate, memory, value, ARENA, ARENA_BYTES, BULK, MAX_ARGUMENTS, SLOTS,
};
use super::tools;
use atomseq_compiler::forms::{Form, Protection};

/// How many inputs each form is called on, for each of its instructions.
const ROUNDS: usize = 6;

/// One form of one sequence.
pub struct Subject {
    pub program: Program,
    pub emitted: Emitted,
    pub name: String,
}

pub struct Case {
    pub subject: usize,
    /// The instruction that is interrupted, if any.
    pub at: Option<usize>,
    arguments: Vec<u64>,
    before: Memory,
}

#[derive(Default)]
struct Counts {
    calls: usize,
    restarted: usize,
    rolled: usize,
    wrong: usize,
    first: Option<String>,
}

#[test]
fn interrupted_anywhere_the_result_is_the_same() {
    if !tools::are_there(&[tools::ASSEMBLER, tools::COMPILER, tools::EMULATOR]) {
        return;
    }
    let subjects = subjects(usize::MAX);
    let counts = try_all("signal", &subjects, str::to_string).unwrap();
    if let Some(first) = counts.first {
        panic!(
            "{} of {} calls went wrong: {first}",
            counts.wrong, counts.calls
        );
    }
    println!(
        "{} forms, {} calls: {} restarted, {} rolled forward",
        subjects.len(),
        counts.calls,
        counts.restarted,
        counts.rolled
    );
    let enough = 10 * SEEDS.len();
    assert!(counts.restarted > enough && counts.rolled > enough);
}

/// The negative control: errors in what only an interruption reaches.
#[test]
fn a_wrong_clone_or_row_is_noticed() {
    if !tools::are_there(&[tools::ASSEMBLER, tools::COMPILER, tools::EMULATOR]) {
        return;
    }
    let subjects = subjects(60);
    let in_clones = |text: &str, right: &str, wrong: &str| {
        let mut spoilt = String::new();
        for (number, part) in text.split(".text.atomseq_clone").enumerate() {
            match number {
                0 => spoilt.push_str(part),
                _ => {
                    let (clone, rest) = part.split_once(".popsection").expect("a clone ends");
                    assert!(clone.contains(".long"), "a clone says where to go on");
                    let clone = clone.replace(right, wrong);
                    spoilt.push_str(&format!(".text.atomseq_clone{clone}.popsection{rest}"));
                }
            }
        }
        assert!(text != spoilt, "no clone has `{right}`");
        spoilt
    };
    type Spoil<'a> = &'a dyn Fn(&str) -> String;
    let controls: [(&str, Spoil<'_>); 4] = [
        ("a clone that loads where it should store", &|text| {
            in_clones(text, "    str ", "    ldr ")
        }),
        ("a clone that goes on at the start", &|text| {
            in_clones(text, ".long 52b - .", ".long 51b - .")
        }),
        ("a clone whose exits lead to the end", &|text| {
            in_clones(text, ".long 60b - .", ".long 52b - .")
        }),
        ("a restart at the second instruction", &|text| {
            // A row without a clone is that of a restart.
            text.replace(
                ".long 51b - .\n    .long 52b - .\n    .long 0",
                ".long 51b - . + 4\n    .long 52b - .\n    .long 0",
            )
        }),
    ];
    for (number, (what, spoil)) in controls.into_iter().enumerate() {
        match try_all(&format!("signal-wrong-{number}"), &subjects, spoil) {
            Ok(counts) => {
                assert!(counts.wrong > 0, "{what} made no difference");
                println!("{what}: {} of {} calls", counts.wrong, counts.calls);
            }
            // Wrong code may jump anywhere and write there.
            Err(failed) => println!("{what}: {failed}"),
        }
    }
}

fn subjects(max: usize) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for seed in SEEDS {
        let program = random::generate(*seed);
        for (there, protection, name) in [
            (program.is_restarted(), Protection::Restart, "restarting"),
            (
                program.is_against_handlers(),
                Protection::Rollforward,
                "rolling",
            ),
        ] {
            if !there || subjects.len() == max {
                continue;
            }
            let emitted = emit(&program, Form::Signal(protection));
            // A sequence without an instruction has no row, and no place to be interrupted at.
            if emitted.assembly.instructions > 0 {
                subjects.push(Subject {
                    emitted,
                    name: format!("{}_{name}", program.name),
                    program: program.clone(),
                });
            }
        }
    }
    subjects
}

pub fn cases(subjects: &[Subject]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (subject, of) in subjects.iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(subject as u64);
        for _ in 0..ROUNDS {
            let arguments = inputs::arguments(&mut random, &of.program, SLOTS, BULK);
            let before = inputs::memory(&mut random, &of.program, SLOTS, BULK);
            // Not before the first instruction, where the call is as if it had not begun.
            for at in std::iter::once(None).chain((1..of.emitted.assembly.instructions).map(Some)) {
                cases.push(Case {
                    subject,
                    at,
                    arguments: arguments.clone(),
                    before: before.clone(),
                });
            }
        }
    }
    cases
}

/// Assembles, links, runs and compares; `spoil` may change the assembly.
fn try_all(
    test: &str,
    subjects: &[Subject],
    spoil: impl Fn(&str) -> String,
) -> Result<Counts, String> {
    let functions = subjects
        .iter()
        .map(|subject| subject.emitted.functions(&subject.name));
    let mut text = spoil(&functions.collect::<String>());
    text.push_str(".section .data.rel.ro,\"aw\"\n.balign 8\n.global sequences\nsequences:\n");
    for subject in subjects {
        let scratch = subject.emitted.scratch();
        text.push_str(&format!("    .quad {}, {scratch}\n", subject.name));
    }
    let driver = tools::link(test, &text, "driver_signal.c");
    let cases = cases(subjects);
    let output = emulate(&driver, requests(&cases))?;
    let mut counts = Counts::default();
    for (case, (words, arena)) in cases.iter().zip(answers(&output)) {
        let subject = &subjects[case.subject];
        counts.calls += 1;
        match subject.emitted.form {
            Form::Signal(Protection::Restart) => counts.restarted += words[1] as usize,
            _ => counts.rolled += words[1] as usize,
        }
        if !is_right(case, subject, &words, arena) {
            counts.wrong += 1;
            counts.first.get_or_insert_with(|| {
                let code = subject.emitted.template(&subject.name);
                let (at, text) = (case.at, subject.program.text());
                format!(
                    "{}, interrupted at {at:?}\n{text}\non {:x?}\n{code}",
                    subject.name, case.arguments
                )
            });
        }
    }
    assert_eq!(counts.calls, cases.len(), "the driver answers every case");
    Ok(counts)
}

pub fn is_right(case: &Case, subject: &Subject, words: &[u64], arena: &[u8]) -> bool {
    let mut after = case.before.clone();
    let expected = oracle::run(&subject.program, &case.arguments, &mut after, 0);
    let left = words[0] as usize;
    left <= subject.emitted.sequence.exits.len()
        && value(&subject.emitted, left, &case.arguments, &words[2..]) == expected
        && memory(arena, &case.before) == after
}

pub fn requests(cases: &[Case]) -> Vec<u8> {
    let mut input = Vec::new();
    for case in cases {
        let mut word = |word: u64| input.extend_from_slice(&word.to_le_bytes());
        word(case.subject as u64);
        word(case.at.map_or(u64::MAX, |at| at as u64));
        for index in 0..MAX_ARGUMENTS {
            word(case.arguments.get(index).copied().unwrap_or(0));
        }
        let mut arena = vec![0u8; ARENA_BYTES];
        for (address, bytes) in &case.before.stretches {
            let from = (address - ARENA) as usize;
            arena[from..from + bytes.len()].copy_from_slice(bytes);
        }
        input.extend_from_slice(&arena);
    }
    input
}
