//! M94's schemes of rollforward under a timer, on every architecture with sections. Under qemu's
//! user mode a signal arrives between blocks of code, which hold whole sequences, unless each block
//! is one instruction: `QEMU_SINGLESTEP=1`.
#![cfg(atomseq_sections)]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use atomseq::signal::Event;
use atomseq_papers::rollforward::{self, Designated, DynFault, DynJump, HybJump, Scheme};
use atomseq_papers::statistics;
use verify_papers::queue::{append, fill, node, queue, remove, state};
use verify_support::processes::{end_in, in_fresh_process};
use verify_support::this_test;
use verify_support::timers::Timer;

/// How long a thread runs between two signals: an emulator needs longer to handle one.
const PERIOD: Duration = match cfg!(target_arch = "x86_64") {
    true => Duration::from_micros(100),
    false => Duration::from_millis(10),
};

/// How often a sequence is rolled forward.
const ROLLFORWARDS: u64 = 50;

static TORN: AtomicUsize = AtomicUsize::new(0);
static DELIVERIES: AtomicUsize = AtomicUsize::new(0);

/// Looks at the queue, and changes it by sequences of the same scheme.
fn interfere<S: Scheme>(_: &mut Event<'_>) {
    TORN.fetch_add(usize::from(state().is_none()), Relaxed);
    // SAFETY: the words of a queue and of a node that only handlers put there, which this thread
    // alone uses.
    unsafe {
        append::by::<S>(queue(), node(3));
        while remove::by::<S>(queue()).is_some_and(|found| found != node(3)) {}
    }
    DELIVERIES.fetch_add(1, Relaxed);
}

fn storm<S: Scheme>() {
    end_in(300);
    // SAFETY: the handler changes the queue by sequences that are atomic against it.
    unsafe { rollforward::install(libc::SIGUSR1, 0, interfere::<S>) }.expect("a handler");
    statistics::count(true);
    fill(0);
    let timer = Timer::start(libc::SIGUSR1, PERIOD).expect("a timer");
    let rolled = || statistics::rollforwards(S::KIND).expect("counting is on");
    let mut rounds = 0_u64;
    while rolled() < ROLLFORWARDS {
        for _ in 0..1000 {
            // SAFETY: the words of a queue and of a node that is not in it: the handler empties the
            // queue, and this thread takes what it has put there.
            unsafe {
                append::by::<S>(queue(), node(0));
                remove::by::<S>(queue());
            }
            rounds += 1;
        }
    }
    drop(timer);
    println!(
        "{:?}: {} of {} signals rolled a sequence forward, {rounds} rounds",
        S::KIND,
        rolled(),
        DELIVERIES.load(Relaxed)
    );
    assert_eq!(
        TORN.load(Relaxed),
        0,
        "{:?}: a handler saw a torn queue",
        S::KIND
    );
    assert!(state().is_some());
}

#[test]
fn dyn_jump_in_a_storm() {
    in_fresh_process(this_test!(), storm::<DynJump>);
}

#[test]
fn dyn_fault_in_a_storm() {
    in_fresh_process(this_test!(), storm::<DynFault>);
}

#[test]
fn hyb_jump_in_a_storm() {
    in_fresh_process(this_test!(), storm::<HybJump>);
}

#[test]
fn designated_in_a_storm() {
    in_fresh_process(this_test!(), storm::<Designated>);
}

/// An inspection that another thread's rewriting meets reads an instruction as a whole. (On x86-64
/// the rewriting changes one byte.)
#[cfg(target_arch = "aarch64")]
#[test]
fn an_instruction_is_read_as_a_whole() {
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::thread;

    // add x0, x0, x1, or ldr x0, [x0]: most mixtures of their bytes are neither. Then br x17, and
    // the level before the end.
    const EITHER: [u32; 2] = [0x8b01_0000, 0xf940_0000];
    static CODE: [AtomicU32; 4] = [const { AtomicU32::new(0x8b01_0000) }; 4];
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    CODE[2].store(0xd61f_0220, Relaxed);
    let writer = thread::spawn(|| {
        while !IS_OVER.load(Relaxed) {
            EITHER.iter().for_each(|code| CODE[1].store(*code, Relaxed));
        }
    });
    let start = CODE.as_ptr().expose_provenance();
    // SAFETY: words that can be read, in place of instructions.
    let is_read = || unsafe { rollforward::is_safe(start + 4, start + 16) };
    let read = (0..100_000).filter(|_| is_read()).count();
    IS_OVER.store(true, Relaxed);
    writer.join().expect("the writer");
    assert_eq!(read, 100_000);
}
