//! What the ring of one producer and one consumer is in machine code: no atomic instruction, no
//! fence and no call.

#![cfg(all(atomseq_sections, target_arch = "x86_64", not(debug_assertions)))]

use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::nonblocking::spsc::{Consumer, Producer, Ring};
use iced_x86::{FlowControl, Instruction, Mnemonic};
use verify_binary::executable::Executable;
use verify_binary::rules;

/// Puts an element in.
#[unsafe(export_name = "isolated_push")]
#[inline(never)]
pub fn push(producer: &mut Producer<'_, [usize; 3]>, element: [usize; 3]) -> bool {
    producer.push(element).is_ok()
}

/// Takes one out.
#[unsafe(export_name = "isolated_pop")]
#[inline(never)]
pub fn pop(consumer: &mut Consumer<'_, [usize; 3]>) -> Option<[usize; 3]> {
    consumer.pop()
}

/// The control: what must be found.
#[unsafe(export_name = "synchronized_push")]
#[inline(never)]
pub fn synchronized(count: &AtomicUsize) -> usize {
    count.fetch_add(1, Ordering::Relaxed)
}

/// What synchronizes: an atomic instruction, a fence, or a call, which could do anything.
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
