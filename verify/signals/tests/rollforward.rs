//! Rollforward: a rolling sequence that a signal interrupts runs to its end first.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(atomseq_portable)
))]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{Event, Interrupted};
use verify_signals::fresh::in_fresh_process;
use verify_signals::interrupt::{Page, install_fault_handler};
use verify_signals::sequences::add_to_three;
use verify_signals::signals::{install, is_blocked};
use verify_signals::this_test;

static WORDS: AtomicUsize = AtomicUsize::new(0);
static SEEN: [AtomicUsize; 3] = [const { AtomicUsize::new(usize::MAX) }; 3];
static HOW: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Notes the words as it finds them, and adds ten to each.
fn look(event: &mut Event<'_>) {
    HOW[match event.interrupted() {
        Interrupted::Plain => 0,
        Interrupted::Restarted => 1,
        Interrupted::RolledForward => 2,
        _ => 3,
    }]
    .fetch_add(1, SeqCst);
    let words = WORDS.load(SeqCst) as *mut usize;
    for (index, seen) in SEEN.iter().enumerate() {
        // SAFETY: the test's three words, which no one else changes meanwhile.
        unsafe {
            let word = words.add(index);
            seen.store(word.read_volatile(), SeqCst);
            word.write_volatile(word.read_volatile() + 10);
        }
    }
}

fn seen() -> [usize; 3] {
    SEEN.each_ref().map(|word| word.load(SeqCst))
}

fn how() -> [usize; 4] {
    HOW.each_ref().map(|word| word.load(SeqCst))
}

/// Interrupts at the store to the word with this index, which was loaded before.
fn interrupt_at(index: usize, stop: usize) -> [usize; 3] {
    install_fault_handler();
    install(libc::SIGUSR1, look);
    let page = Page::new();
    let words = page.words(index);
    WORDS.store(words as usize, SeqCst);
    page.interrupt_store(libc::SIGUSR1);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, stop) };
    assert!(!is_blocked(libc::SIGUSR1), "the thread's mask is as it was");
    // SAFETY: as above.
    unsafe { [words.read(), words.add(1).read(), words.add(2).read()] }
}

#[test]
fn the_handler_runs_after_the_sequence() {
    in_fresh_process(this_test!(), || {
        assert_eq!(interrupt_at(1, 99), [11, 11, 11]);
        assert_eq!(seen(), [1, 1, 1], "all three stores were done");
        assert_eq!(how(), [0, 0, 1, 0]);
        let statistics = atomseq::signal::statistics();
        assert_eq!((statistics.deliveries, statistics.rollforwards), (1, 1));
    });
}

#[test]
fn control_without_rollforward_the_handler_sees_it_half_done() {
    in_fresh_process(this_test!(), || {
        use atomseq::internals::signal_controls::{ROLLFORWARD, set};
        // SAFETY: this test expects what follows.
        unsafe { set(ROLLFORWARD) };
        assert_eq!(
            interrupt_at(1, 99),
            [11, 1, 11],
            "what the handler added to the second is lost"
        );
        assert_eq!(seen(), [1, 0, 0]);
    });
}
