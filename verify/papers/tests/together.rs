//! The schemes of rollforward and page faults in one process, and signals that the program ignores,
//! blocks, or gives for what they cannot do.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::Event;
use atomseq_papers::paging::{self, Error, Means, Region};
use atomseq_papers::rollforward::{self, Designated, DynFault, DynJump, HybJump, Scheme};
use atomseq_papers::statistics;
use verify_papers::queue::{append, fill, node, queue, remove};
use verify_support::processes::{end_in, in_fresh_process};
use verify_support::signals::{change_mask, queue_with_code, raise};
use verify_support::this_test;
use verify_support::timers::Timer;

const SIGNAL: i32 = libc::SIGUSR1;
static FAULTS: AtomicUsize = AtomicUsize::new(0);

fn nothing(_: &mut Event<'_>) {}

fn wait() {
    FAULTS.fetch_add(1, SeqCst);
}

fn install() {
    // SAFETY: the handler does nothing.
    unsafe { rollforward::install(SIGNAL, 0, nothing) }.unwrap();
    statistics::count(true);
}

/// Runs sequences until some were rolled forward.
fn roll<S: Scheme>() {
    end_in(60);
    fill(0);
    let _timer = Timer::start(SIGNAL, std::time::Duration::from_micros(200)).unwrap();
    let rolled = || statistics::rollforwards(S::KIND).unwrap();
    let before = rolled();
    while rolled() < before + 3 {
        for _ in 0..1000 {
            // SAFETY: the words of a queue and of a node that is not in it.
            unsafe {
                append::by::<S>(queue(), node(0));
                remove::by::<S>(queue());
            }
        }
    }
}

fn touch() {
    // SAFETY: `wait` adds to a word.
    let region = unsafe { Region::map_by(Means::Protection, 1, wait) }.unwrap();
    let before = FAULTS.load(SeqCst);
    // SAFETY: a word of the region.
    unsafe { (region.address(0) as *mut usize).write_volatile(1) };
    assert_eq!(FAULTS.load(SeqCst), before + 1);
}

#[test]
fn regions_leave_the_faults_of_rollforwards() {
    in_fresh_process(this_test!(), || {
        install();
        paging::start(libc::SIGUSR2).unwrap();
        roll::<DynFault>();
        touch();
    });
}

#[test]
fn rollforwards_leave_the_faults_of_regions() {
    in_fresh_process(this_test!(), || {
        paging::start(libc::SIGUSR2).unwrap();
        install();
        touch();
        roll::<DynFault>();
    });
}

#[test]
fn ignored_signals_stay_ignored() {
    in_fresh_process(this_test!(), || {
        for signal in [libc::SIGTRAP, libc::SIGSEGV] {
            // SAFETY: no function.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        install();
        raise(libc::SIGTRAP);
        raise(libc::SIGSEGV);
    });
}

/// The kernel reports it wherever the process is.
#[test]
fn memory_that_goes_bad_elsewhere_stays_ignored() {
    in_fresh_process(this_test!(), || {
        // SAFETY: no function.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_IGN) };
        paging::start(SIGNAL).unwrap();
        queue_with_code(libc::SIGBUS, libc::BUS_MCEERR_AO);
    });
}

#[test]
fn a_thread_that_blocks_faults_is_rolled_forward() {
    in_fresh_process(this_test!(), || {
        install();
        change_mask(libc::SIG_BLOCK, &[libc::SIGSEGV, libc::SIGTRAP]);
        roll::<DynFault>();
        roll::<Designated>();
        let blocked = change_mask(libc::SIG_BLOCK, &[]);
        for signal in [libc::SIGSEGV, libc::SIGTRAP] {
            assert!(verify_support::signals::holds(&blocked, signal));
        }
    });
}

#[test]
fn gates_are_not_opened_by_what_nothing_holds_back_or_the_kernel_discards() {
    in_fresh_process(this_test!(), || {
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGABRT,
            libc::SIGCONT,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
            40,
            0,
        ] {
            assert!(matches!(paging::start(signal), Err(Error::Handler(_))));
        }
        paging::start(libc::SIGUSR1).unwrap();
    });
}

// qemu-user has no seccomp.
#[cfg(target_arch = "x86_64")]
#[test]
fn gates_need_the_system_call_that_opens_them() {
    in_fresh_process(this_test!(), || {
        verify_support::sandbox::refuse_all(&[libc::SYS_tgkill]);
        let error = paging::start(libc::SIGUSR1).unwrap_err();
        assert!(matches!(error, Error::Refused { call: "tgkill", .. }));
    });
}

atomseq_papers::sequence! {
    /// Stores to three words.
    unsafe fn store_all(first: Word, second: Word, third: Word) {
        store(first, 1);
        store(second, 2);
        store(third, 3);
    }
}

static OTHER: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Runs the sequence. One copy of its code: the same landmark.
#[inline(never)]
fn store_to<S: Scheme>([first, second, third]: [usize; 3]) {
    // SAFETY: the callers' words, which only this thread changes.
    unsafe { store_all::by::<S>(first, second, third) };
}

/// In the handler of the first fault, sends the signal for which the sequence is rolled forward; in
/// that of the second, which is in the rollforward, runs a sequence.
fn wait_in_sequences<S: Scheme>() {
    match FAULTS.fetch_add(1, SeqCst) {
        0 => raise(SIGNAL),
        1 => store_to::<S>([0, 8, 16].map(|at| OTHER.as_ptr().expose_provenance() + at)),
        _ => {}
    }
}

fn sequences_in_a_fault_of_a_rollforward<S: Scheme>() {
    install();
    paging::start(libc::SIGUSR2).unwrap();
    // SAFETY: `wait_in_sequences` adds to a word, sends a signal and runs a sequence.
    let region = unsafe { Region::map_by(Means::Protection, 2, wait_in_sequences::<S>) }.unwrap();
    let word = AtomicUsize::new(0);
    let first = word.as_ptr().expose_provenance();
    let [second, third] = [0, 1].map(|page| region.address(page));
    store_to::<S>([first, second, third]);
    assert_eq!(statistics::rollforwards(S::KIND), Some(1));
    assert_eq!(FAULTS.load(SeqCst), 2);
    let others = OTHER.each_ref().map(|word| word.load(SeqCst));
    assert_eq!(others, [1, 2, 3]);
    // SAFETY: words of the region.
    let stored = [second, third].map(|word| unsafe { (word as *const usize).read_volatile() });
    assert_eq!((word.load(SeqCst), stored), (1, [2, 3]));
    // The schemes work as before.
    roll::<S>();
}

#[test]
fn a_fault_in_a_rollforward_may_run_sequences() {
    in_fresh_process(
        this_test!(),
        sequences_in_a_fault_of_a_rollforward::<DynJump>,
    );
}

#[test]
fn a_fault_in_a_rollforward_may_run_sequences_of_dyn_fault() {
    in_fresh_process(
        this_test!(),
        sequences_in_a_fault_of_a_rollforward::<DynFault>,
    );
}

#[test]
fn a_fault_in_a_rollforward_may_run_sequences_of_hyb_jump() {
    in_fresh_process(
        this_test!(),
        sequences_in_a_fault_of_a_rollforward::<HybJump>,
    );
}

#[test]
fn a_fault_in_a_rollforward_may_run_designated_sequences() {
    in_fresh_process(
        this_test!(),
        sequences_in_a_fault_of_a_rollforward::<Designated>,
    );
}
