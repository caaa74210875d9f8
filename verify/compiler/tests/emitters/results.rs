//! A result that an early return takes through the commit is intact behind it: no instruction
//! between the label where these ways out join and the end overwrites its register. Nothing runs
//! here, so many more sequences are checked than rustc compiles.

use verify_compiler::random;
use verify_support::number_from_env;

use super::library;
use atomseq_compiler::emit::{aarch64, label, x86_64, Assembly, Line, Place};
use atomseq_compiler::forms::Form;
use atomseq_compiler::ir::Sequence;

/// The number of random sequences: 12,000 are the full length.
const SEEDS: &str = "ATOMSEQ_RESULT_SEEDS";

fn text(line: &Line) -> &str {
    match line {
        Line::Text(text) | Line::Acquire(text) => text,
        Line::Interlocked { exclusive, .. } => exclusive,
    }
}

/// Returns the temporary that an instruction writes. In both syntaxes it is the first operand, but
/// for stores, barriers and comparisons.
fn written(line: &str) -> Option<usize> {
    const WRITE_NONE: [&str; 4] = ["str", "stlr", "dmb", "cmp"];
    let (mnemonic, operands) = line.split_once(' ')?;
    let digits = operands.strip_prefix("{t")?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit())?;
    let number = digits[..end].parse().ok()?;
    (!WRITE_NONE.contains(&mnemonic)).then_some(number)
}

/// Returns how many results pass through the commit, and a line that overwrites one of them, if
/// there is one.
fn pass_through(sequence: &Sequence, assembly: &Assembly) -> (usize, Option<String>) {
    let is = |wanted: usize| {
        let wanted = format!("{wanted}:");
        move |line: &Line| text(line) == wanted
    };
    let Some(meet) = assembly.lines.iter().position(is(label::COMMIT)) else {
        return (0, None);
    };
    let end = assembly
        .lines
        .iter()
        .position(is(label::END))
        .expect("an end");
    let mut results = Vec::new();
    for (exit, places) in sequence.exits.iter().zip(&assembly.results) {
        if exit.commit.is_some() {
            results.extend(places.iter().filter_map(|place| match place {
                Place::Temporary(index) => Some(*index),
                _ => None,
            }));
        }
    }
    let overwrites = |line: &&Line| written(text(line)).is_some_and(|at| results.contains(&at));
    let line = assembly.lines[meet..end].iter().find(overwrites);
    (results.len(), line.map(|line| text(line).to_string()))
}

#[test]
fn results_live_through_the_commit() {
    let seeds = number_from_env(SEEDS, 1_000);
    // One in three is of a sequence with a compare-and-swap.
    let random = (0..seeds).map(|seed| {
        let text = random::generate(seed).text();
        let sequence = library::sequence(&text);
        (text, sequence)
    });
    let mut results = 0;
    for (name, sequence) in library::sequences().into_iter().chain(random) {
        if !sequence.leaves_by_commit() {
            continue;
        }
        for emit in [x86_64::emit, aarch64::emit] {
            let assembly = emit(&sequence, Form::OnCpu);
            let (passed, overwritten) = pass_through(&sequence, &assembly);
            results += passed;
            if let Some(line) = overwritten {
                panic!("`{line}` overwrites a result of\n{name}");
            }
        }
    }
    println!("{results} results pass through a commit");
    assert!(results as u64 > seeds / 3);
}

/// The negative control: the scratch register of the commit is replaced by that of the result.
#[test]
fn an_overwritten_result_is_noticed() {
    let sequence = library::sequence(
        "unsafe fn f(slot: Slot, a: Word) -> Word {
            'abort: { return 7 }
            if cas(slot + 8, 0, 1) != 0 { return 8 }
            let result = load(a);
            if result < 10 { commit(slot + 8, 0x100000000); return result }
            commit(slot + 8, 0x100000000);
            result
        }",
    );
    for emit in [x86_64::emit, aarch64::emit] {
        let mut assembly = emit(&sequence, Form::OnCpu);
        assert_eq!(pass_through(&sequence, &assembly), (1, None));
        let Place::Temporary(result) = assembly.results[1][0] else {
            panic!("it was loaded");
        };
        let meet = assembly.lines.iter().position(|line| text(line) == "49:");
        let own = written(text(&assembly.lines[meet.unwrap() + 1])).expect("a large constant");
        for line in &mut assembly.lines {
            if let Line::Text(text) = line {
                *text = text.replace(&format!("{{t{own}}}"), &format!("{{t{result}}}"));
            }
        }
        assert!(pass_through(&sequence, &assembly).1.is_some());
    }
}
