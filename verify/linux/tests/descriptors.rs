//! k-CAS uses the descriptors of the thread that the kernel reports: where a sandbox withholds the
//! thread's number, and where the number changes in the middle. And it finds descriptors where
//! there is no memory for new ones.
#![cfg(atomseq_sections)]

use std::panic::catch_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use atomseq::dcas::{Cell, Change, Domain, Mechanism};
use atomseq::internals::knows_who_has_ended;
use atomseq::nonblocking::{LinkedStack, List};
use verify_support::processes::{
    Circumstances, exit, exit_code, fork, in_child, in_fresh_process_under,
};
use verify_support::sandbox::{Answer, Refusal, When, refuse};
use verify_support::signals::install_short;
use verify_support::this_test;

/// Changes two words that no other thread uses, this many times.
fn count(times: u64) {
    let words = Domain::wide([0, 0].map(Cell::new));
    let [a, b] = &*words;
    for value in 0..times {
        let next = value + 1;
        let both = [Change::of(a, value, next), Change::of(b, value, next)];
        let changed = words.compare_exchange_all(&both);
        changed.expect("no other thread changes them");
        assert_eq!(words.load_all([a, b]), [next; 2]);
    }
}

/// Threads that cannot be distinguished, because of sandboxes set up before or after the first
/// operation, do not share a home block. Eight processes of three threads, each of which makes
/// 300,000 changes.
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
    in_fresh_process_under(this_test!(), Circumstances::default(), check);
}

/// A handler interrupts its thread's search for a home block, and forks. In the child it finds a
/// home itself, under another number than the thread to which it then returns.
#[test]
fn a_child_of_a_handler_goes_on_with_a_search() {
    static FORKED: AtomicI32 = AtomicI32::new(0);
    static CHILD: AtomicI32 = AtomicI32::new(0);
    extern "C" fn handler(_: i32) {
        if FORKED.swap(1, Ordering::Relaxed) == 0 {
            match fork() {
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
        // Its system calls are trapped, too.
        install_short(libc::SIGSYS, handler, libc::SA_NODEFER);
        let searching = thread::spawn(|| {
            assert!(knows_who_has_ended());
            let (call, answer, when) = (libc::SYS_tgkill, Answer::Trap, When::Always);
            refuse(&Refusal { call, answer, when }).expect("a filter");
            let is_well = catch_unwind(|| count(3)).is_ok();
            match CHILD.load(Ordering::Relaxed) {
                0 => exit(i32::from(!(is_well && FORKED.load(Ordering::Relaxed) == 1))),
                child => assert_eq!(exit_code(child), Some(0), "None: it hung or crashed"),
            }
            assert!(is_well);
        });
        searching.join().unwrap();
        drop(ends);
        other.join().unwrap();
    };
    in_fresh_process_under(this_test!(), Circumstances::default(), check);
}

/// Threads that find no memory for a descriptor make their changes nevertheless, whether they take
/// values out of structures, drop these, or change words of their own. Twice eight threads, which
/// take 500 values out of either structure and make 2,000 changes each, and one that drops two
/// structures of 100 values.
#[test]
fn threads_without_memory_make_their_changes() {
    const THREADS: u64 = 8;
    const EACH: u64 = 500;
    let check = || {
        for knows in [true, false] {
            in_child(move || {
                let stack = LinkedStack::<u64>::forced(Mechanism::Kcas);
                let list = List::<u64>::forced(Mechanism::Kcas);
                for value in (0..THREADS * EACH).rev() {
                    stack.push(value).expect("memory");
                    list.try_insert(value, ()).expect("memory");
                }
                if !knows {
                    let (call, answer, when) =
                        (libc::SYS_tgkill, Answer::Error(libc::EPERM), When::Always);
                    refuse(&Refusal { call, answer, when }).expect("a filter");
                }
                let all_are_ready = &Barrier::new(THREADS as usize);
                let (stack, list) = (&stack, &list);
                thread::scope(|scope| {
                    for thread in 0..THREADS {
                        scope.spawn(move || {
                            // All threads have their stacks before the memory runs out for one of
                            // them.
                            all_are_ready.wait();
                            let (call, answer, when) =
                                (libc::SYS_mmap, Answer::Error(libc::ENOMEM), When::Always);
                            refuse(&Refusal { call, answer, when }).expect("a filter");
                            for step in 0..EACH {
                                assert!(stack.pop().is_some());
                                let key = thread * EACH + step;
                                assert_eq!(list.remove(&key), Ok(Some(())));
                            }
                            count(2_000);
                        });
                    }
                });
                assert!(stack.is_empty() && list.is_empty());
            });
        }
        // A thread without memory drops two structures completely.
        in_child(|| {
            let stack: LinkedStack<u64> = LinkedStack::forced(Mechanism::Kcas);
            let list: List<u64> = List::forced(Mechanism::Kcas);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for value in 0..100 {
                        stack.push(value).expect("memory");
                        list.try_insert(value, ()).expect("memory");
                    }
                });
            });
            let (call, answer, when) = (libc::SYS_mmap, Answer::Error(libc::ENOMEM), When::Always);
            refuse(&Refusal { call, answer, when }).expect("a filter");
            drop((stack, list));
        });
    };
    in_fresh_process_under(this_test!(), Circumstances::default(), check);
}
