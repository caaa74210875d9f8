//! k-CAS takes its descriptors as the thread that it is told to be: where a sandbox keeps that back, and where it changes in the middle.
#![cfg(atomseq_sections)]

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use atomseq::dcas::{Change, Domain, Word};
use atomseq::internals::knows_who_has_ended;
use verify_linux::{Answer, Circumstances, Refusal, When, exit_code, in_fresh_process, refuse};

/// Changes two words that nobody else knows, so many times.
fn count(times: u64) {
    let words = Domain::wide([0, 0].map(Word::new));
    let [a, b] = &*words;
    for value in 0..times {
        let next = value + 1;
        let both = [Change::of(a, value, next), Change::of(b, value, next)];
        let changed = words.exchange_all(&both);
        changed.expect("nobody else changes them");
        assert_eq!(words.snapshot([a, b]).0, [next; 2]);
    }
}

/// Runs `check` in a child, which must come to its end without a panic.
fn in_child(check: impl FnOnce() + std::panic::UnwindSafe) {
    // SAFETY: the child calls only what it may: atomseq, system calls, and new threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        end(catch_unwind(check).is_ok());
    }
    assert_eq!(exit_code(child), Some(0), "None: it hung or crashed");
}

/// Ends this process without the test harness's help.
fn end(is_well: bool) -> ! {
    // SAFETY: as it says.
    unsafe { libc::_exit(if is_well { 0 } else { 1 }) }
}

/// Threads that cannot be told apart, by sandboxes set up before the first operation or after it, are not at home in one block.
#[test]
fn threads_without_numbers_are_kept_apart() {
    let check = || {
        let refusals = [
            (libc::SYS_gettid, Answer::Error(libc::EPERM)),
            (libc::SYS_gettid, Answer::Error(0)),
            (libc::SYS_getpid, Answer::Error(libc::EPERM)),
            (libc::SYS_tgkill, Answer::Error(libc::EPERM)),
        ];
        for (refusal, is_late) in refusals.map(|it| [(it, false), (it, true)]).concat() {
            in_child(move || {
                if is_late {
                    count(1);
                    assert!(knows_who_has_ended());
                }
                let ((call, answer), when) = (refusal, When::Always);
                refuse(&Refusal { call, answer, when }).expect("a filter");
                thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(|| count(300_000)))));
                let knows = is_late && call == libc::SYS_tgkill;
                assert_eq!(knows_who_has_ended(), knows, "{call}, {is_late}");
            });
        }
    };
    let name = "threads_without_numbers_are_kept_apart";
    in_fresh_process(name, Circumstances::default(), check);
}

/// A handler comes while its thread looks for a home, and forks. In the child it finds a home itself, as somebody else than the
/// thread that it then returns to.
#[test]
fn a_child_of_a_handler_goes_on_with_a_search() {
    static FORKED: AtomicI32 = AtomicI32::new(0);
    static CHILD: AtomicI32 = AtomicI32::new(0);
    extern "C" fn handler(_: i32) {
        if FORKED.swap(1, Ordering::Relaxed) == 0 {
            // SAFETY: as in `in_child`.
            match unsafe { libc::fork() } {
                0 => count(3),
                child => CHILD.store(child, Ordering::Relaxed),
            }
        }
    }
    let check = || {
        let (at_home, is_at_home) = channel();
        let (ends, end_it) = channel::<()>();
        let other = thread::spawn(move || {
            count(1);
            at_home.send(()).unwrap();
            end_it.recv().unwrap_err();
        });
        is_at_home.recv().unwrap();
        // SAFETY: the handler lives as long as the program. Its system calls are trapped, too.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = handler as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_NODEFER;
            assert_eq!(
                libc::sigaction(libc::SIGSYS, &action, core::ptr::null_mut()),
                0
            );
        }
        let searching = thread::spawn(|| {
            assert!(knows_who_has_ended());
            let (call, answer, when) = (libc::SYS_tgkill, Answer::Trap, When::Always);
            refuse(&Refusal { call, answer, when }).expect("a filter");
            let is_well = catch_unwind(|| count(3)).is_ok();
            match CHILD.load(Ordering::Relaxed) {
                0 => end(is_well && FORKED.load(Ordering::Relaxed) == 1),
                child => assert_eq!(exit_code(child), Some(0), "None: it hung or crashed"),
            }
            assert!(is_well);
        });
        searching.join().unwrap();
        drop(ends);
        other.join().unwrap();
    };
    let name = "a_child_of_a_handler_goes_on_with_a_search";
    in_fresh_process(name, Circumstances::default(), check);
}
