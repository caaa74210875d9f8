//! What a mask is in machine code: inlined, on thread-local words at a constant place, no call and
//! no atomic instruction unless a signal waits.
//!
//! `BLESS=1 cargo test --release -p verify-binary --test mask` writes the golden file anew.

#![cfg(all(atomseq_sections, target_arch = "x86_64", not(debug_assertions)))]

use verify_binary::executable::Executable;
use verify_binary::{listing, rules};

/// One addition inside a mask.
#[unsafe(export_name = "signal_masked_add")]
#[inline(never)]
pub fn masked_add(word: &mut usize, amount: usize) {
    let _masked = atomseq::signal::mask();
    *word += amount;
}

#[test]
fn a_mask_is_eight_instructions() {
    let mut word = 1;
    masked_add(&mut word, 2);
    assert_eq!(word, 3);
    let executable = Executable::this();
    let function = executable
        .function("signal_masked_add")
        .expect("kept by its name");
    let place = function.place.clone();
    let code = executable.instructions(place.clone());
    assert!(!code.iter().any(rules::is_atomic));
    let mut lines = listing::function(&executable, place, &[]);
    // Where the thread's words lie depends on what else in the program is thread-local.
    for line in &mut lines {
        if let Some((before, _)) = line.split_once(", 0xFFFFFFFFFFFF") {
            *line = format!("{before}, thread_block");
        }
    }
    let fast: Vec<_> = lines
        .iter()
        .filter(|line| !line.ends_with(':'))
        .take_while(|line| line.trim() != "ret")
        .collect();
    // Where the thread's words are, three to begin, one to add, five to end.
    assert_eq!(fast.len(), 1 + 3 + 1 + 5, "{fast:#?}");
    assert!(!fast.iter().any(|line| line.contains("call")), "{fast:#?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/signal/mask.txt");
    if std::env::var_os("BLESS").is_some() {
        let text = format!("; {}\n{}\n", env!("COMPILER"), lines.join("\n"));
        std::fs::write(path, text).expect("golden files can be written");
    }
    let golden = std::fs::read_to_string(path).expect("a golden file");
    let (compiler, golden) = golden.split_once('\n').expect("a line for the compiler");
    if compiler.trim_start_matches("; ") == env!("COMPILER") {
        assert_eq!(
            golden.lines().collect::<Vec<_>>(),
            lines,
            "if it should differ, run with BLESS=1"
        );
    }
}
