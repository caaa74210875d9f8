//! Forks: a child continues where its parent was, and finds no gate closed by a thread that it does
//! not have.
#![cfg(atomseq_sections)]

use atomseq::dcas::{Cell, Change, Domain, Mechanism};
use atomseq::internals::{
    SignalsBlocked, cpu_id, current_cpu, has_ended, membarrier_rseq, start, thread_name,
};
use atomseq::percpu::{Area, Counter};
use atomseq::status::Reason;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use verify_support::cpus::pin;
use verify_support::processes::{
    Circumstances, exit, exit_code, fork, holds_in_child_of, in_fresh_process_under, raw_fork,
};
use verify_support::sandbox::{Answer, Refusal, When, refuse};
use verify_support::{number_from_env, this_test};

/// Runs `check` in a child of the first process of a PID namespace, where the child of a fork can
/// have this process's number.
fn in_first_process(check: impl FnOnce()) {
    holds_in_child_of(fork, || {
        // SAFETY: affects the calling process's later children only.
        let new_numbers = || unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
        if !new_numbers() {
            eprintln!("does not apply, for PID namespaces are refused here");
            return true;
        }
        holds_in_child_of(fork, || {
            assert_eq!(std::process::id(), 1);
            check();
            true
        });
        true
    });
}

/// Numbers the next children of this thread in a new namespace. Afterwards it can start no thread.
fn number_children_anew() {
    // SAFETY: affects the calling thread only.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
}

/// The usual circumstances; a kernel that does not wipe memory in children, and reports so; and one
/// that only claims to wipe it.
fn with_and_without_wiping() -> [Circumstances; 3] {
    let without = |errno| Circumstances {
        refused: vec![Refusal {
            call: libc::SYS_madvise,
            answer: Answer::Error(errno),
            when: When::Always,
        }],
        ..Circumstances::default()
    };
    [Circumstances::default(), without(libc::EPERM), without(0)]
}

/// Waits until another thread has set it.
fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Forks while another thread's start-up waits in a sandbox's handler.
fn forks_in_the_middle_of_start_up(in_new_namespace: bool) {
    static MIDDLE: AtomicBool = AtomicBool::new(false);
    static FORKED: AtomicBool = AtomicBool::new(false);
    extern "C" fn answer(_: i32) {
        MIDDLE.store(true, Ordering::Release);
        await_flag(&FORKED);
    }
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            // SAFETY: the handler uses an atomic and sleeps.
            unsafe { libc::signal(libc::SIGSYS, answer as extern "C" fn(i32) as _) };
            refuse(&Refusal {
                call: libc::SYS_uname,
                answer: Answer::Trap,
                when: When::Always,
            })
            .expect("a filter for this thread");
            _ = start();
        });
        await_flag(&MIDDLE);
        if in_new_namespace {
            number_children_anew();
        }
        let own = std::process::id();
        holds_in_child_of(fork, || {
            assert_eq!(own == std::process::id(), in_new_namespace);
            start().is_active()
        });
        FORKED.store(true, Ordering::Release);
        starter.join().unwrap();
    });
}

/// A child decides anew, also where the kernel wipes nothing and reports so. (Where it only claims
/// to wipe, the child waits.)
#[test]
fn a_child_of_a_stopped_start_up_decides_itself() {
    let [usual, without, _] = with_and_without_wiping();
    for circumstances in [usual, without] {
        in_fresh_process_under(this_test!(), circumstances, || {
            holds_in_child_of(fork, || {
                forks_in_the_middle_of_start_up(false);
                true
            });
        });
    }
}

/// The fork is the deciding thread's own, in a sandbox's handler: both processes continue the
/// start-up.
#[test]
fn a_handler_may_fork_inside_start_up() {
    static CHILD: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn answer(_: i32) {
        let is_inside = || atomseq::status().reason() == Some(Reason::StartingUp);
        assert!(is_inside());
        CHILD.store(fork(), Ordering::Relaxed);
        assert!(is_inside() && Area::try_new(0).is_err());
    }
    let test = this_test!();
    in_fresh_process_under(test, Circumstances::default(), || {
        // SAFETY: the handler asks atomseq, and forks.
        unsafe { libc::signal(libc::SIGSYS, answer as extern "C" fn(i32) as _) };
        refuse(&Refusal {
            call: libc::SYS_uname,
            answer: Answer::Trap,
            when: When::Always,
        })
        .expect("a filter");
        let is_active = start().is_active();
        let counter = Counter::new();
        counter.increment();
        let works = is_active && counter.sum() == 1;
        match CHILD.load(Ordering::Relaxed) {
            // SAFETY: ends the child without the test harness's help.
            0 => unsafe { libc::_exit(if works { 0 } else { 1 }) },
            child => assert_eq!((exit_code(child), works), (Some(0), true)),
        }
    });
}

/// The child has its parent's number.
#[test]
fn a_child_with_its_parents_number_decides_itself() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        in_first_process(|| forks_in_the_middle_of_start_up(true))
    });
}

/// A thread for which no fork waits any longer has closed a gate. In the child, a handler that runs
/// before atomseq's finds it.
#[test]
fn an_older_handler_of_a_child_with_its_parents_number_finds_no_gate_closed() {
    static AREA: LazyLock<Area> = LazyLock::new(|| Area::try_new(0).unwrap());
    static FORKING: AtomicBool = AtomicBool::new(false);
    static CLOSED: AtomicBool = AtomicBool::new(false);
    static FORKED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn prepare() {
        FORKING.store(true, Ordering::Release);
        await_flag(&CLOSED);
    }
    unsafe extern "C" fn parent() {
        FORKED.store(true, Ordering::Release);
    }
    unsafe extern "C" fn child() {
        drop(AREA.close_gate(0));
    }
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        in_first_process(|| {
            // SAFETY: the handlers live as long as the program.
            unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
            LazyLock::force(&AREA);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    await_flag(&FORKING);
                    let held = AREA.close_gate(0);
                    CLOSED.store(true, Ordering::Release);
                    await_flag(&FORKED);
                    drop(held);
                });
                number_children_anew();
                holds_in_child_of(fork, || std::process::id() == 1);
            });
        });
    });
}

/// A child of a raw fork counts none of its parent's other threads, and counts its own thread only
/// where the parent had counted it.
#[test]
fn a_child_of_a_raw_fork_waits_for_no_thread_of_its_parent() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        atomseq::status();
        let [inside, done] = [AtomicBool::new(false), AtomicBool::new(false)];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let quiet = SignalsBlocked::enter();
                inside.store(true, Ordering::Release);
                await_flag(&done);
                drop(quiet);
            });
            await_flag(&inside);
            for quietly in [false, true] {
                let quiet = quietly.then(SignalsBlocked::enter);
                holds_in_child_of(raw_fork, || {
                    drop(quiet);
                    holds_in_child_of(fork, || true);
                    drop(SignalsBlocked::enter());
                    holds_in_child_of(fork, || true);
                    true
                });
            }
            done.store(true, Ordering::Release);
        });
    });
}

#[test]
fn a_child_goes_on_as_its_parent_did() {
    for tunables in ["", "glibc.pthread.rseq=0"] {
        let circumstances = Circumstances {
            environment: vec![("GLIBC_TUNABLES", tunables)],
            ..Circumstances::default()
        };
        in_fresh_process_under(this_test!(), circumstances, || {
            // The harness's other thread may have started atomseq up; this one may still have to
            // register.
            let status = atomseq::status();
            assert!(status.gates_active(), "{status}");
            holds_in_child_of(fork, || {
                let pinned = pin();
                let same = core::ptr::eq(status, start());
                membarrier_rseq(pinned as usize);
                drop(SignalsBlocked::enter());
                same && (cpu_id(), current_cpu() as i32) == (pinned, pinned)
            });
            holds_in_child_of(fork, || {
                // A child of a child.
                holds_in_child_of(fork, || cpu_id() >= 0);
                true
            });
        });
    }
}

/// Forks this many times, or for 15 seconds, while threads repeatedly close a gate. Returns how
/// many children found it closed.
///
/// A closer waits only a few milliseconds for a fork, and a busy machine may make a fork longer
/// than that. A gate that was closed after such a wait does not count.
fn forks_among_closers(forks: usize, fork: fn() -> i32) -> usize {
    static GATE: AtomicU32 = AtomicU32::new(0);
    // Less than what a closer waits before it continues uncounted.
    let prompt = Duration::from_millis(1);
    let stop = AtomicBool::new(false);
    let mut closed = 0;
    let mut hung = false;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let before = Instant::now();
                    let quiet = SignalsBlocked::enter();
                    let closed = u32::from(before.elapsed() < prompt);
                    GATE.fetch_add(closed, Ordering::Relaxed);
                    for _ in 0..2_000 {
                        core::hint::spin_loop();
                    }
                    GATE.fetch_sub(closed, Ordering::Relaxed);
                    drop(quiet);
                }
            });
        }
        let start = Instant::now();
        let mut forked = 0;
        while forked < forks && start.elapsed() < Duration::from_secs(15) {
            forked += 1;
            let child = fork();
            if child == 0 {
                let found = GATE.load(Ordering::Relaxed);
                if found == 0 {
                    drop(SignalsBlocked::enter());
                }
                exit(i32::from(found != 0));
            }
            match exit_code(child) {
                Some(code) => closed += code as usize,
                None => {
                    hung = true;
                    break;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!hung, "a child hung or crashed");
    closed
}

/// A hundred forks, or as many as the variable `ATOMSEQ_FORKS` says. The control below finds a
/// closed gate among the first fifty.
#[test]
fn a_child_finds_every_gate_open() {
    let forks = number_from_env("ATOMSEQ_FORKS", 100);
    for circumstances in with_and_without_wiping() {
        in_fresh_process_under(this_test!(), circumstances, || {
            atomseq::status();
            assert_eq!(forks_among_closers(forks, fork), 0);
        });
    }
}

/// A thread inside a quiet region enters again while a fork waits for it, like an operation that
/// needs a full structure's slow path while it holds a gate.
#[test]
fn a_thread_inside_may_enter_again() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        atomseq::status();
        let forking = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let quiet = SignalsBlocked::enter();
            let forker = scope.spawn(|| {
                forking.store(true, Ordering::Release);
                holds_in_child_of(fork, || {
                    drop(SignalsBlocked::enter());
                    true
                });
            });
            while !forking.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            // Lets the fork begin to wait.
            std::thread::sleep(Duration::from_millis(50));
            drop(SignalsBlocked::enter());
            assert!(!forker.is_finished(), "the fork did not wait");
            drop(quiet);
            forker.join().unwrap();
        });
    });
}

/// The control: with forks of which atomseq receives no notice, the same test finds closed gates.
#[test]
fn a_child_of_a_raw_fork_may_find_a_gate_closed() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        atomseq::status();
        let closed = (0..20).any(|_| forks_among_closers(50, raw_fork) > 0);
        assert!(closed, "a thousand raw forks, and no gate was ever closed");
    });
}

/// A program's own atfork handlers run after atomseq's prepare handler and before its parent and
/// child handlers. A thread that closed a gate there would wait for itself if it was counted.
#[test]
fn atfork_handlers_may_close_gates() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn handler() {
        drop(SignalsBlocked::enter());
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        for before_start_up in [true, false] {
            if !before_start_up {
                atomseq::status();
            }
            // SAFETY: the handlers live as long as the program.
            let result =
                unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) };
            assert_eq!(result, 0);
        }
        // Blocked signals would survive an alarm: another thread ends this process if it hangs.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(20));
            std::process::abort();
        });
        holds_in_child_of(fork, || CALLED.load(Ordering::Relaxed) == 4);
        assert_eq!(
            CALLED.load(Ordering::Relaxed),
            4,
            "prepare and parent, of two"
        );
        // And threads in quiet regions are counted again afterwards.
        holds_in_child_of(fork, || true);
        drop(SignalsBlocked::enter());
    });
}

/// A library's recursive lock is held around forks. One thread holds it and forks while another
/// thread's fork waits for it.
#[test]
fn a_thread_may_fork_while_it_holds_what_another_fork_waits_for() {
    static mut LOCK: libc::pthread_mutex_t = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static TAKING: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn take() {
        TAKING.fetch_add(1, Ordering::Release);
        // SAFETY: a lock that lives as long as the program.
        unsafe { libc::pthread_mutex_lock(&raw mut LOCK) };
        drop(SignalsBlocked::enter());
    }
    unsafe extern "C" fn give() {
        // SAFETY: locked by this thread.
        unsafe { libc::pthread_mutex_unlock(&raw mut LOCK) };
    }
    unsafe extern "C" fn renew() {
        // The C library lets only the thread that locked it unlock it, and knows threads by number.
        // SAFETY: the child has no other thread.
        unsafe { LOCK = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };
    }
    for circumstances in with_and_without_wiping() {
        in_fresh_process_under(this_test!(), circumstances, || {
            // Registered first, `take` runs after atomseq's handler.
            // SAFETY: the handlers live as long as the program.
            let result = unsafe { libc::pthread_atfork(Some(take), Some(give), Some(renew)) };
            assert_eq!(result, 0);
            atomseq::status();
            // Blocked signals would survive an alarm: another thread ends this process if it hangs.
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_secs(20));
                std::process::abort();
            });
            let fork_and_close = || {
                holds_in_child_of(fork, || {
                    drop(SignalsBlocked::enter());
                    holds_in_child_of(fork, || true);
                    true
                });
            };
            for _ in 0..5 {
                std::thread::scope(|scope| {
                    // SAFETY: as in `take`.
                    unsafe { libc::pthread_mutex_lock(&raw mut LOCK) };
                    let before = TAKING.load(Ordering::Relaxed);
                    let other = scope.spawn(fork_and_close);
                    while TAKING.load(Ordering::Acquire) == before {
                        std::thread::yield_now();
                    }
                    fork_and_close();
                    drop(SignalsBlocked::enter());
                    assert!(!other.is_finished(), "the other fork did not wait");
                    // SAFETY: locked above.
                    unsafe { libc::pthread_mutex_unlock(&raw mut LOCK) };
                    other.join().unwrap();
                });
            }
        });
    }
}

/// An atfork handler makes a raw fork. Its child continues the outer fork, as its parent does. Then
/// both fork, and close gates.
#[test]
fn a_child_of_a_raw_fork_inside_a_fork_may_fork() {
    static ARMED: AtomicBool = AtomicBool::new(false);
    static INNER: AtomicI32 = AtomicI32::new(-1);
    unsafe extern "C" fn handler() {
        if ARMED.swap(false, Ordering::Relaxed) {
            INNER.store(raw_fork(), Ordering::Relaxed);
        }
    }
    let test = this_test!();
    for circumstances in with_and_without_wiping() {
        in_fresh_process_under(test, circumstances, || {
            // Registered first, it runs after atomseq's.
            // SAFETY: the handler lives as long as the program.
            let result = unsafe { libc::pthread_atfork(Some(handler), None, None) };
            assert_eq!(result, 0);
            atomseq::status();
            ARMED.store(true, Ordering::Relaxed);
            holds_in_child_of(fork, || true);
            let inner = INNER.load(Ordering::Relaxed);
            drop(SignalsBlocked::enter());
            holds_in_child_of(fork, || true);
            match inner {
                // SAFETY: ends the child without the test harness's help.
                0 => unsafe { libc::_exit(0) },
                child => assert_eq!(exit_code(child), Some(0)),
            }
        });
    }
}

#[test]
fn forks_from_several_threads_at_once() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        atomseq::status();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    (0..100).for_each(|_| {
                        holds_in_child_of(fork, || {
                            drop(SignalsBlocked::enter());
                            true
                        })
                    })
                });
            }
            scope.spawn(|| (0..20_000).for_each(|_| drop(SignalsBlocked::enter())));
        });
    });
}

/// Another thread forks in the middle of start-up: the child decides anew.
#[test]
fn a_child_forked_during_start_up_decides_itself() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        for round in 0..60u64 {
            // A process in which atomseq has not been started.
            holds_in_child_of(fork, || {
                std::thread::scope(|scope| {
                    let starter = scope.spawn(|| start().is_active());
                    std::thread::sleep(Duration::from_micros(round * 10));
                    holds_in_child_of(fork, || start().is_active());
                    starter.join().unwrap_or(false)
                })
            });
        }
    });
}

/// In a child all of its parent's threads appear to have exited. One of them continues, under a new
/// number, and keeps what it owns.
#[test]
fn no_thread_of_a_parent_is_reported_as_exited() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        atomseq::status();
        let name = thread_name().unwrap();
        for fork in [fork, raw_fork] {
            holds_in_child_of(fork, || {
                let own = thread_name().unwrap();
                holds_in_child_of(fork, || !has_ended(name) && !has_ended(own));
                // The control: exited threads of its own are reported.
                let other = std::thread::spawn(thread_name).join().unwrap().unwrap();
                while !has_ended(other) {
                    std::thread::yield_now();
                }
                own != name && !has_ended(name)
            });
        }
    });
}

/// Two words on one page together with their lock and log, so that a child has them as they were at
/// one time.
#[repr(align(4096))]
struct OnePage(Domain<[Cell; 2]>);

const SUM: u64 = 1_000_000;

impl OnePage {
    /// Moves an amount between the two words, in a direction that alternates.
    fn transfer(&self, amount: u64) {
        let [a, b] = &*self.0;
        loop {
            let ([left, right], version) = self.0.snapshot([a, b]);
            assert_eq!(left + right, SUM);
            let (left_then, right_then) = match left.checked_sub(amount) {
                Some(rest) => (rest, right + amount),
                None => (SUM, 0),
            };
            let done = match amount % 2 {
                0 => self
                    .0
                    .store_pair_if(version, (a, left_then), (b, right_then)),
                _ => self.0.compare_exchange_pair(
                    Change::of(a, left, left_then),
                    Change::of(b, right, right_then),
                ),
            };
            if done.is_ok() {
                return;
            }
        }
    }
}

/// Children of a process whose threads are in the middle of changes: a thread that finds a partial
/// update there rolls it back, or completes it.
#[test]
fn a_child_goes_on_with_what_threads_had_half_done() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
            let page = OnePage(Domain::forced([Cell::new(SUM), Cell::new(0)], mechanism));
            let page = Box::new(page);
            let [a, b] = &*page.0;
            // One partial update for certain.
            // SAFETY: the domain stays where it is.
            unsafe { page.0.abandon(Change::of(a, SUM, 1), Change::of(b, 0, 2)) };
            holds_in_child_of(fork, || {
                page.transfer(1);
                page.0.load_all([a, b]) == [SUM - 1, 1]
            });
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for amount in [2, 3, 5] {
                    let (page, stop) = (&page, &stop);
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            page.transfer(amount);
                        }
                    });
                }
                for _ in 0..100 {
                    holds_in_child_of(fork, || {
                        (0..100).for_each(|amount| page.transfer(amount));
                        true
                    });
                }
                stop.store(true, Ordering::Relaxed);
            });
            page.transfer(1);
        }
    });
}
