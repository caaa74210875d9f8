//! The machine code that is inlined into callers. A mask is a few instructions on thread-local
//! words at a constant address, without a call or an atomic instruction unless a signal is
//! deferred; the ring of one producer and one consumer has no atomic instruction, no fence and no
//! call.
//!
//! `BLESS=1 cargo test --release -p verify-binary --test inlined` rewrites the golden file.
#![cfg(all(atomseq_sections, target_arch = "x86_64", not(debug_assertions)))]

use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::nonblocking::spsc::{Consumer, Producer, Ring};
use iced_x86::{FlowControl, Instruction, Mnemonic};
use verify_binary::executable::Executable;
use verify_binary::golden::{Golden, compiler, is_blessing};
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
    // The address of the thread's words depends on the program's other thread-locals.
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
    // One instruction for the address of the thread's words, three to begin, one to add, five to
    // end.
    assert_eq!(fast.len(), 1 + 3 + 1 + 5, "{fast:#?}");
    assert!(!fast.iter().any(|line| line.contains("call")), "{fast:#?}");
    let mut file = Golden::read("signals");
    if is_blessing() {
        file.bless("mask", &format!("{}\n{}\n", compiler(), lines.join("\n")));
    }
    let golden = file.listing("mask").expect("a listing");
    let (made_by, golden) = golden.split_once('\n').expect("a line for the compiler");
    if made_by == compiler() {
        assert_eq!(
            golden.lines().collect::<Vec<_>>(),
            lines,
            "if it should differ, run with BLESS=1"
        );
    }
}

/// Pushes an element.
#[unsafe(export_name = "isolated_push")]
#[inline(never)]
pub fn push(producer: &mut Producer<'_, [usize; 3]>, element: [usize; 3]) -> bool {
    producer.push(element).is_ok()
}

/// Pops an element.
#[unsafe(export_name = "isolated_pop")]
#[inline(never)]
pub fn pop(consumer: &mut Consumer<'_, [usize; 3]>) -> Option<[usize; 3]> {
    consumer.pop()
}

/// The control, which must be detected.
#[unsafe(export_name = "synchronized_push")]
#[inline(never)]
pub fn synchronized(count: &AtomicUsize) -> usize {
    count.fetch_add(1, Ordering::Relaxed)
}

/// Returns whether the instruction synchronizes: an atomic instruction, a fence, or a call, which
/// could do either.
fn synchronizes(instruction: &Instruction) -> bool {
    let is_fence = matches!(
        instruction.mnemonic(),
        Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Sfence | Mnemonic::Cpuid
    );
    let calls = matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::IndirectBranch
    );
    rules::is_atomic(instruction) || is_fence || calls
}

#[test]
fn neither_end_synchronizes() {
    let mut ring = Ring::with_capacity(2);
    let (mut producer, mut consumer) = ring.split();
    assert!(push(&mut producer, [1, 2, 3]));
    assert_eq!(pop(&mut consumer), Some([1, 2, 3]));
    assert_eq!(synchronized(&AtomicUsize::new(1)), 1);
    let executable = Executable::this();
    let found = |name: &str| {
        let function = executable.function(name).expect("kept by its name");
        let code = executable.instructions(function.place.clone());
        assert!(code.len() > 1, "{name} has instructions");
        code.iter().any(synchronizes)
    };
    assert!(!found("isolated_push") && !found("isolated_pop"));
    assert!(found("synchronized_push"), "the control is not found");
}
