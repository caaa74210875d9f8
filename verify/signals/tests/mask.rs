//! The user-level mask: which signals it defers, when they are delivered, and what its end
//! unblocks.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use atomseq::signal::{self, Event, mask};
use verify_signals::{clear_log, log, logged};
use verify_support::processes::{in_child, in_fresh_process};
use verify_support::signals::{
    FAULTS, change_mask, install, install_plainly, is_blocked, queue, raise, set,
};
use verify_support::this_test;

/// Logs the signal, or the value sent with it.
fn note(event: &mut Event<'_>) {
    if event.info().si_code == libc::SI_QUEUE {
        log(1000 + event.value());
    } else {
        log(event.signal() as usize);
    }
}

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;

#[test]
fn a_signal_waits_for_the_outermost_guard_in_any_order_of_dropping() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            clear_log();
            let mut guards = [Some(mask()), Some(mask()), Some(mask())];
            raise(ONE);
            for (dropped, &index) in order.iter().enumerate() {
                assert!(signal::is_masked());
                assert_eq!(logged(), [], "after {dropped} of {order:?}");
                drop(guards[index].take());
            }
            assert!(!signal::is_masked());
            assert_eq!(logged(), [ONE as usize]);
            assert!(!is_blocked(ONE));
        }
    });
}

#[test]
fn without_a_signal_nothing_changes() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        drop(mask());
        let guard = mask();
        assert_eq!(
            is_blocked(ONE),
            cfg!(not(atomseq_sections)),
            "the kernel's mask is left alone"
        );
        drop(guard);
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_without_deferral_the_handler_runs_inside_the_mask() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe {
            atomseq::internals::signal_controls::set(atomseq::internals::signal_controls::DEFERRAL)
        };
        install(ONE, note);
        let guard = mask();
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
        drop(guard);
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_without_unblocking_the_signal_waits_for_ever() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe {
            atomseq::internals::signal_controls::set(
                atomseq::internals::signal_controls::UNBLOCKING,
            )
        };
        install(ONE, note);
        let guard = mask();
        raise(ONE);
        drop(guard);
        assert_eq!(logged(), []);
        assert!(is_blocked(ONE));
    });
}

#[test]
fn the_end_unblocks_only_what_was_added() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        install(TWO, note);
        change_mask(libc::SIG_BLOCK, &[TWO, libc::SIGWINCH]);
        let guard = mask();
        raise(ONE);
        raise(TWO);
        drop(guard);
        assert_eq!(logged(), [ONE as usize]);
        assert!(
            is_blocked(TWO) && is_blocked(libc::SIGWINCH),
            "the program's own"
        );
        assert!(!is_blocked(ONE));
        change_mask(libc::SIG_UNBLOCK, &[TWO]);
        assert_eq!(logged(), [ONE as usize, TWO as usize]);
    });
}

#[test]
fn every_queued_signal_comes_with_its_value() {
    in_fresh_process(this_test!(), || {
        let signal = libc::SIGRTMIN() + 3;
        install(signal, note);
        let guard = mask();
        for value in 0..8 {
            queue(signal, value);
        }
        assert_eq!(logged(), []);
        drop(guard);
        let mut values = logged();
        // The first to arrive was queued again and so comes last: the documented limit on order.
        values.sort_unstable();
        assert_eq!(values, (1000..1008).collect::<Vec<_>>());
    });
}

#[test]
fn a_panic_ends_the_masks_that_it_unwinds() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let outer = mask();
        let caught = std::panic::catch_unwind(|| {
            let _inner = mask();
            raise(ONE);
            panic!("on purpose");
        });
        assert!(caught.is_err());
        assert_eq!(logged(), [], "one mask is left");
        drop(outer);
        assert_eq!(logged(), [ONE as usize]);
        assert!(!signal::is_masked());
    });
}

#[test]
fn a_handler_may_have_masks_and_send_signals() {
    in_fresh_process(this_test!(), || {
        fn with_mask(event: &mut Event<'_>) {
            log(event.signal() as usize);
            let guard = mask();
            raise(TWO);
            log(0);
            drop(guard);
            log(1);
        }
        install(ONE, with_mask);
        install(TWO, note);
        let guard = mask();
        raise(ONE);
        drop(guard);
        assert_eq!(
            logged(),
            [ONE as usize, 0, 1, TWO as usize],
            "TWO is blocked while ONE's handler runs"
        );
        assert!(!is_blocked(ONE) && !is_blocked(TWO));
    });
}

#[test]
fn a_handler_of_someone_else_that_interrupts_a_mask_may_have_masks() {
    in_fresh_process(this_test!(), || {
        extern "C" fn foreign(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            let guard = mask();
            log(0);
            drop(guard);
        }
        install_plainly(libc::SIGWINCH, foreign, 0, &[]);
        install(ONE, note);
        let guard = mask();
        raise(ONE);
        // On portable builds the mask holds every signal back.
        raise(libc::SIGWINCH);
        let inside = logged();
        assert_eq!(
            inside,
            if cfg!(not(atomseq_sections)) {
                vec![]
            } else {
                vec![0]
            }
        );
        drop(guard);
        let mut all = logged();
        all.sort_unstable();
        assert_eq!(all, [0, ONE as usize]);
        assert!(!is_blocked(ONE));
    });
}

#[test]
fn faults_and_abort_are_not_held_back() {
    in_fresh_process(this_test!(), || {
        for signal in FAULTS.into_iter().chain([libc::SIGABRT]) {
            clear_log();
            install(signal, note);
            let guard = mask();
            raise(ONE_THAT_IS_MANAGED);
            raise(signal);
            assert_eq!(logged(), [signal as usize]);
            assert!(!is_blocked(signal));
            drop(guard);
        }
    });
}

/// Ignored by default, so it needs no handler.
const ONE_THAT_IS_MANAGED: i32 = libc::SIGURG;

#[cfg(atomseq_sections)]
#[test]
fn what_is_deferred_never_blocks_faults() {
    in_fresh_process(this_test!(), || {
        for signal in [ONE, libc::SIGSEGV, libc::SIGFPE, libc::SIGABRT] {
            install(signal, note);
        }
        let guard = mask();
        raise(ONE);
        assert!(is_blocked(ONE));
        for signal in [libc::SIGSEGV, libc::SIGFPE, libc::SIGABRT, libc::SIGILL] {
            assert!(!is_blocked(signal));
        }
        drop(guard);
    });
}

#[test]
fn calls_that_wait_for_signals_work_with_the_kernel_s_mask() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        install(TWO, note);
        let guard = mask();
        raise(ONE);
        // sigsuspend: the handler runs inside.
        signal::with_kernel_mask(|| {
            assert!(!signal::is_masked());
            assert!(is_blocked(ONE) && is_blocked(TWO));
            // SAFETY: an initialised set.
            assert_eq!(unsafe { libc::sigsuspend(&set(&[TWO])) }, -1);
            assert_eq!(logged(), [ONE as usize]);
        });
        assert!(signal::is_masked());
        // ppoll: the same.
        raise(TWO);
        signal::with_kernel_mask(|| {
            // SAFETY: no descriptors, no time limit, an initialised set.
            let result =
                unsafe { libc::ppoll(std::ptr::null_mut(), 0, std::ptr::null(), &set(&[])) };
            assert_eq!(result, -1);
        });
        assert_eq!(logged(), [ONE as usize, TWO as usize]);
        // sigwait and signalfd: no handler runs.
        raise(ONE);
        signal::with_kernel_mask(|| {
            let mut taken = 0;
            // SAFETY: an initialised set, and a place for the number.
            assert_eq!(unsafe { libc::sigwait(&set(&[ONE]), &mut taken) }, 0);
            assert_eq!(taken, ONE);
            raise(TWO);
            // SAFETY: an initialised set; the record is read whole.
            unsafe {
                let descriptor = libc::signalfd(-1, &set(&[TWO]), 0);
                let mut record: libc::signalfd_siginfo = std::mem::zeroed();
                let size = size_of_val(&record);
                assert_eq!(
                    libc::read(descriptor, (&raw mut record).cast(), size),
                    size as isize
                );
                assert_eq!(record.ssi_signo, TWO as u32);
            }
        });
        drop(guard);
        assert_eq!(logged(), [ONE as usize, TWO as usize]);
        assert!(!is_blocked(ONE) && !is_blocked(TWO));
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_without_the_kernel_s_mask_a_wait_is_interrupted_and_the_handler_still_waits() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        change_mask(libc::SIG_BLOCK, &[ONE]);
        raise(ONE);
        let guard = mask();
        // SAFETY: an initialised set.
        assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
        assert_eq!(
            logged(),
            [],
            "the wait is over, and the handler has not run"
        );
        drop(guard);
    });
}

#[test]
fn the_kernel_s_mask_is_put_back_by_a_panic_and_survives_guards_that_end_inside() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let guard = mask();
        let caught = std::panic::catch_unwind(|| signal::with_kernel_mask(|| panic!("on purpose")));
        assert!(caught.is_err());
        assert!(signal::is_masked());
        raise(ONE);
        assert_eq!(logged(), []);
        signal::with_kernel_mask(|| {
            let inner = mask();
            assert!(signal::is_masked());
            drop(inner);
            assert_eq!(logged(), []);
        });
        drop(guard);
        assert_eq!(logged(), [ONE as usize]);
        // It blocks outside of masks as well.
        signal::with_kernel_mask(|| {
            raise(ONE);
            assert_eq!(logged(), [ONE as usize]);
        });
        assert_eq!(logged(), [ONE as usize; 2]);
        assert!(!is_blocked(ONE));
    });
}

#[cfg(atomseq_sections)]
#[test]
fn a_guard_may_be_dropped_and_another_forgotten_with_the_kernel_s_mask() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let guard = mask();
        raise(ONE);
        signal::with_kernel_mask(|| drop(guard));
        assert!(!signal::is_masked());
        assert_eq!(logged(), [ONE as usize]);
        assert!(!is_blocked(ONE));
        let kept = signal::with_kernel_mask(mask);
        assert!(signal::is_masked());
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
        drop(kept);
        assert_eq!(logged(), [ONE as usize; 2]);
    });
}

#[test]
fn a_signal_put_off_becomes_this_thread_s_and_is_lost_only_with_a_forgotten_guard() {
    in_fresh_process(this_test!(), || {
        static THREAD: AtomicI32 = AtomicI32::new(0);
        fn who(_: &mut Event<'_>) {
            // SAFETY: no arguments.
            THREAD.store(unsafe { libc::gettid() }, SeqCst);
            log(1);
        }
        install(ONE, who);
        // A process of one thread: the test's own process has one more, which would get the signal.
        in_child(|| {
            change_mask(libc::SIG_BLOCK, &[ONE]);
            let run = |forget: bool| {
                std::thread::spawn(move || {
                    change_mask(libc::SIG_UNBLOCK, &[ONE]);
                    let guard = mask();
                    // SAFETY: a signal to the process, which this thread alone has unblocked.
                    unsafe { libc::kill(libc::getpid(), ONE) };
                    if forget {
                        std::mem::forget(guard);
                    }
                    // SAFETY: no arguments.
                    unsafe { libc::gettid() }
                })
                .join()
                .expect("the thread returns")
            };
            let thread = run(false);
            assert_eq!((logged().len(), THREAD.load(SeqCst)), (1, thread));
            run(true);
            change_mask(libc::SIG_UNBLOCK, &[ONE]);
            // On portable builds it is still pending for the process.
            assert_eq!(
                logged().len(),
                if cfg!(not(atomseq_sections)) { 2 } else { 1 }
            );
        });
    });
}

/// Its handler is uninstalled between the deferral that has blocked it and the thread's start.
#[test]
fn a_thread_inherits_no_signal_as_blocked_that_is_no_longer_managed() {
    in_fresh_process(this_test!(), || {
        let see = || (is_blocked(ONE), is_blocked(TWO), is_blocked(libc::SIGWINCH));
        change_mask(libc::SIG_BLOCK, &[libc::SIGWINCH]);
        install(ONE, note);
        // The thread's function is created before the uninstallation and after it.
        for made_after in [false, true] {
            clear_log();
            install(TWO, note);
            let guard = mask();
            let before = signal::inheriting(see);
            raise(ONE);
            signal::uninstall(TWO).expect("uninstalled");
            let thread = match made_after {
                false => std::thread::spawn(before),
                true => std::thread::spawn(signal::inheriting(see)),
            };
            assert_eq!(
                thread.join().expect("the thread returns"),
                (false, false, true)
            );
            drop(guard);
            assert_eq!(logged(), [ONE as usize]);
            assert!(!is_blocked(TWO));
        }
    });
}

#[test]
fn a_thread_started_inside_a_mask_inherits_the_program_s_mask() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        change_mask(libc::SIG_BLOCK, &[libc::SIGWINCH]);
        let guard = mask();
        raise(ONE);
        let see = || {
            (
                is_blocked(ONE),
                is_blocked(libc::SIGWINCH),
                signal::is_masked(),
            )
        };
        let inheriting = std::thread::spawn(signal::inheriting(see));
        assert_eq!(
            inheriting.join().expect("the thread returns"),
            (false, true, false)
        );
        let plain = std::thread::spawn(see);
        assert_eq!(
            plain.join().expect("the thread returns"),
            (true, true, false),
            "the control"
        );
        drop(guard);
        assert_eq!(logged(), [ONE as usize]);
    });
}

/// A thread that holds a gate runs no handlers, however masks begin and end meanwhile.
#[test]
fn a_mask_that_ends_while_a_gate_is_held_ends_with_it() {
    in_fresh_process(this_test!(), || {
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(ONE, note);
        let guard = mask();
        raise(ONE);
        let held = area.close_gate(0);
        drop(guard);
        assert_eq!(logged(), [], "the gate is held");
        let another = mask();
        drop(another);
        assert_eq!(logged(), []);
        drop(held);
        assert_eq!(logged(), [ONE as usize]);
        assert!(!is_blocked(ONE) && !signal::is_masked());
        // The same with a kernel mask.
        let held = signal::with_kernel_mask(|| area.close_gate(0));
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
        drop(held);
        assert_eq!(logged(), [ONE as usize; 2]);
        assert!(!is_blocked(ONE));
        // And in the order of scopes, with a signal that is already deferred.
        let guard = mask();
        raise(ONE);
        drop(area.close_gate(0));
        assert_eq!(logged(), [ONE as usize; 2]);
        drop(guard);
        assert_eq!(logged(), [ONE as usize; 3]);
        assert!(!is_blocked(ONE));
    });
}

#[test]
fn a_mask_that_begins_while_a_gate_is_held_outlives_it() {
    in_fresh_process(this_test!(), || {
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(ONE, note);
        let held = area.close_gate(0);
        let guard = mask();
        raise(ONE);
        drop(held);
        assert_eq!(logged(), []);
        drop(guard);
        assert_eq!(logged(), [ONE as usize]);
        assert!(!is_blocked(ONE) && !is_blocked(libc::SIGSEGV));
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_without_regard_for_gates_the_handler_runs_while_one_is_held() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe {
            atomseq::internals::signal_controls::set(atomseq::internals::signal_controls::GATES)
        };
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(ONE, note);
        let guard = mask();
        raise(ONE);
        let held = area.close_gate(0);
        drop(guard);
        assert_eq!(logged(), [ONE as usize]);
        drop(held);
    });
}

/// A gate's guard may be dropped inside `with_kernel_mask`: the signals that this blocks stay
/// blocked until it ends, and until a mask around it ends.
#[test]
fn a_gate_that_is_opened_inside_a_kernel_mask_lets_no_handler_in() {
    in_fresh_process(this_test!(), || {
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(ONE, note);
        for is_masked in [true, false] {
            clear_log();
            let guard = is_masked.then(mask);
            let held = area.close_gate(0);
            signal::with_kernel_mask(|| {
                drop(held);
                assert!(is_blocked(ONE));
                assert!(!is_blocked(libc::SIGSEGV));
                // Portable builds block every signal that a mask may defer.
                let blocks_all = cfg!(not(atomseq_sections));
                assert_eq!(is_blocked(libc::SIGWINCH), blocks_all);
                raise(ONE);
                assert_eq!(logged(), [], "inside");
            });
            assert_eq!(logged().is_empty(), is_masked);
            assert!(is_masked || !is_blocked(ONE));
            drop(guard);
            assert_eq!(logged(), [ONE as usize]);
            assert!(!is_blocked(ONE));
            // It may be dropped afterwards, too.
            clear_log();
            let guard = is_masked.then(mask);
            let held = area.close_gate(0);
            signal::with_kernel_mask(|| raise(ONE));
            assert_eq!(logged(), [], "the gate is held");
            drop(held);
            assert_eq!(logged().is_empty(), is_masked);
            drop(guard);
            assert_eq!(logged(), [ONE as usize]);
            assert!(!is_blocked(ONE));
        }
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_without_regard_for_gates_the_handler_runs_inside_a_kernel_mask() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe {
            atomseq::internals::signal_controls::set(atomseq::internals::signal_controls::GATES)
        };
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(ONE, note);
        let _guard = mask();
        let held = area.close_gate(0);
        signal::with_kernel_mask(|| {
            drop(held);
            raise(ONE);
            assert_eq!(logged(), [ONE as usize]);
        });
    });
}

/// A thread creates and drops guards of masks and of gates in every order, with one signal sent in
/// one of the gaps: 31,104 runs.
#[test]
fn gates_and_masks_in_any_order_around_kernel_masks() {
    use atomseq::percpu::{Area, GateGuard};
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Mask,
        Unmask,
        Close,
        Open,
        Enter,
        Leave,
    }
    const ACTS: [Act; 6] = [
        Act::Mask,
        Act::Unmask,
        Act::Close,
        Act::Open,
        Act::Enter,
        Act::Leave,
    ];
    const LENGTH: usize = 5;
    struct State<'a> {
        areas: &'a [Area; LENGTH],
        gates: Vec<GateGuard<'a>>,
        guards: Vec<signal::Masked>,
        counted: Counted,
        /// Whether the signal was sent, and whether its handler must have run.
        sent: bool,
        handled: bool,
    }
    impl State<'_> {
        fn check(&mut self, done: &dyn std::fmt::Debug) {
            let is_inside = self.counted.0.len() > 1;
            let is_closed = !self.gates.is_empty();
            self.handled |= self.sent && !is_inside && !is_closed && !self.counted.is_masked();
            assert_eq!(logged().len(), usize::from(self.handled), "{done:?}");
            assert!(!is_inside && !is_closed || is_blocked(ONE), "{done:?}");
            assert_eq!(is_blocked(libc::SIGSEGV), is_closed, "{done:?}");
            assert_eq!(signal::is_masked(), self.counted.is_masked(), "{done:?}");
        }
    }
    /// Like `follow`, with the number of the act before which the signal is sent.
    fn follow_all(acts: &[Act], mut at: usize, sent_at: usize, state: &mut State<'_>) -> usize {
        while at < acts.len() {
            let done = (acts, at, sent_at);
            if at == sent_at && !state.sent {
                state.sent = true;
                raise(ONE);
                state.check(&done);
            }
            at += 1;
            match done.0[done.1] {
                Act::Mask => {
                    state.guards.push(mask());
                    state.counted.begin();
                }
                Act::Unmask if state.guards.is_empty() => {}
                Act::Unmask => {
                    drop(state.guards.remove(0));
                    state.counted.end();
                }
                Act::Close => {
                    let areas = state.areas;
                    let is_free = |area: &&Area| {
                        let is_it = |gate: &GateGuard<'_>| std::ptr::eq(gate.area(), *area);
                        !state.gates.iter().any(is_it)
                    };
                    let free = areas.iter().find(is_free).expect("one for each act");
                    state.gates.push(free.close_gate(0));
                }
                Act::Open if state.gates.is_empty() => {}
                Act::Open => drop(state.gates.remove(0)),
                Act::Enter => {
                    state.counted.0.push(0);
                    at = signal::with_kernel_mask(|| {
                        state.check(&done);
                        follow_all(acts, at, sent_at, state)
                    });
                    state.counted.leave();
                }
                Act::Leave if state.counted.0.len() > 1 => return at,
                Act::Leave => {}
            }
            state.check(&done);
        }
        at
    }
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let areas = [(); LENGTH].map(|()| Area::try_new(64).expect("memory"));
        for number in 0..ACTS.len().pow(LENGTH as u32) {
            let mut rest = number;
            let acts = [(); LENGTH].map(|()| {
                let act = ACTS[rest % ACTS.len()];
                rest /= ACTS.len();
                act
            });
            for sent_at in 1..LENGTH {
                clear_log();
                let mut state = State {
                    areas: &areas,
                    gates: Vec::new(),
                    guards: Vec::new(),
                    counted: Counted(vec![0]),
                    sent: false,
                    handled: false,
                };
                follow_all(&acts, 0, sent_at, &mut state);
                let State { gates, guards, .. } = state;
                drop((gates, guards));
                assert_eq!(logged(), [ONE as usize], "{acts:?}, {sent_at}");
                assert!(!signal::is_masked() && !is_blocked(ONE));
                assert!(!is_blocked(libc::SIGSEGV));
            }
        }
    });
}

/// A thread started with `inheriting` has the program's blocked signals, even if `inheriting` was
/// called while a gate was held.
#[test]
fn a_thread_function_made_while_a_gate_is_held_inherits_the_program_s_mask() {
    in_fresh_process(this_test!(), || {
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(ONE, note);
        change_mask(libc::SIG_BLOCK, &[libc::SIGWINCH]);
        let see = || [ONE, libc::SIGWINCH, libc::SIGTERM, libc::SIGSEGV].map(is_blocked);
        let right = [false, true, false, false];
        let guard = mask();
        let held = area.close_gate(0);
        let own = signal::own_mask();
        assert!(verify_support::signals::holds(&own, libc::SIGWINCH));
        assert!(!verify_support::signals::holds(&own, libc::SIGTERM));
        let [under, later] = [(); 2].map(|()| signal::inheriting(see));
        let under = std::thread::spawn(under);
        drop(held);
        raise(ONE);
        let later = std::thread::spawn(later);
        assert_eq!(under.join().expect("the thread returns"), right);
        assert_eq!(later.join().expect("the thread returns"), right);
        drop(guard);
        assert_eq!(logged(), [ONE as usize]);
    });
}

/// A thread's operations on guards, and around them.
#[derive(Clone, Copy)]
enum Step {
    Begin,
    EndOldest,
    EndNewest,
    EnterKernelMask,
    LeaveKernelMask,
}

const STEPS: [Step; 5] = [
    Step::Begin,
    Step::EndOldest,
    Step::EndNewest,
    Step::EnterKernelMask,
    Step::LeaveKernelMask,
];

/// The expected counts of masks: outside of every `with_kernel_mask`, and inside of each.
struct Counted(Vec<usize>);

impl Counted {
    fn begin(&mut self) {
        *self.0.last_mut().expect("the outermost one") += 1;
    }

    /// Ends a mask of the innermost level that has any.
    fn end(&mut self) {
        let level = self.0.iter_mut().rev().find(|level| **level > 0);
        *level.expect("there is a guard") -= 1;
    }

    fn leave(&mut self) {
        let inner = self.0.pop().expect("entered");
        *self.0.last_mut().expect("the outermost one") += inner;
    }

    fn is_masked(&self) -> bool {
        self.0.last().is_some_and(|level| *level > 0)
    }
}

/// Follows the steps up to the end of the current `with_kernel_mask`; returns the remaining ones.
fn follow<'a>(
    mut steps: &'a [Step],
    guards: &mut Vec<signal::Masked>,
    counted: &mut Counted,
) -> &'a [Step] {
    while let Some((step, rest)) = steps.split_first() {
        steps = rest;
        match step {
            Step::Begin => {
                guards.push(mask());
                counted.begin();
            }
            Step::EndOldest | Step::EndNewest if guards.is_empty() => {}
            Step::EndOldest => {
                drop(guards.remove(0));
                counted.end();
            }
            Step::EndNewest => {
                drop(guards.pop());
                counted.end();
            }
            Step::EnterKernelMask => {
                counted.0.push(0);
                steps = signal::with_kernel_mask(|| follow(rest, guards, counted));
                counted.leave();
            }
            Step::LeaveKernelMask if counted.0.len() > 1 => return steps,
            Step::LeaveKernelMask => {}
        }
        assert_eq!(signal::is_masked(), counted.is_masked());
        assert!(counted.0.len() == 1 || is_blocked(ONE));
    }
    steps
}

/// Guards that are made and dropped in every order inside and outside of `with_kernel_mask`, which
/// is nested too, with a signal sent in one of the gaps: 12,500 runs.
#[test]
fn guards_in_any_order_around_kernel_masks() {
    const LENGTH: usize = 5;
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        for number in 0..STEPS.len().pow(LENGTH as u32) {
            let mut rest = number;
            let steps = [(); LENGTH].map(|()| {
                let step = STEPS[rest % STEPS.len()];
                rest /= STEPS.len();
                step
            });
            for sent in 0..LENGTH - 1 {
                clear_log();
                let mut guards = Vec::new();
                let mut counted = Counted(vec![0]);
                let inside = follow(&steps[..sent], &mut guards, &mut counted);
                assert!(inside.is_empty());
                let is_masked = counted.is_masked();
                raise(ONE);
                assert_eq!(logged().len(), usize::from(!is_masked));
                follow(&steps[sent..], &mut guards, &mut counted);
                drop(guards);
                assert_eq!(logged(), [ONE as usize], "handled exactly once");
                assert!(!signal::is_masked() && !is_blocked(ONE));
            }
        }
    });
}

/// A mask whose only guard was dropped inside ends there: a signal that `f` unblocks arrives
/// immediately.
#[test]
fn a_guard_that_is_dropped_inside_a_kernel_mask_no_longer_holds_anything_back() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let guard = mask();
        signal::with_kernel_mask(|| {
            drop(guard);
            assert!(!signal::is_masked());
            raise(ONE);
            assert_eq!(logged(), []);
            // SAFETY: waits with no signal blocked; one is pending.
            unsafe { libc::sigsuspend(&set(&[])) };
            assert_eq!(logged(), [ONE as usize]);
            let inner = mask();
            assert!(signal::is_masked());
            drop(inner);
            assert!(!signal::is_masked());
        });
        assert!(!signal::is_masked() && !is_blocked(ONE));
    });
}

/// A handler that no mask defers ends the mask of the thread that it interrupts: the thread
/// continues without it.
#[cfg(atomseq_sections)]
#[test]
fn a_guard_that_a_handler_drops_leaves_nothing_blocked() {
    in_fresh_process(this_test!(), || {
        std::thread_local!(static GUARD: std::cell::Cell<Option<signal::Masked>> = const { std::cell::Cell::new(None) });
        // The thread keeps the second one itself.
        let waiting = [ONE, libc::SIGCONT];
        waiting.into_iter().for_each(|signal| install(signal, note));
        install(libc::SIGABRT, |event| {
            drop(GUARD.take());
            note(event);
        });
        for signal in [ONE, ONE, libc::SIGCONT, libc::SIGCONT, ONE] {
            clear_log();
            GUARD.set(Some(mask()));
            raise(signal);
            raise(libc::SIGABRT);
            assert!(!signal::is_masked());
            assert_eq!(logged(), [signal as usize, libc::SIGABRT as usize]);
            assert!(waiting.into_iter().all(|signal| !is_blocked(signal)));
        }
    });
}

/// Single-steps the thread like a debugger, but from inside: a trap at each instruction of the end
/// of a mask, and of the beginning of a kernel mask. The trap's handler has a mask, which must not
/// be taken for the thread's.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
#[test]
fn a_trap_at_any_instruction_may_have_masks() {
    use std::sync::atomic::AtomicBool;
    static IN_TRAP: AtomicBool = AtomicBool::new(false);
    fn trap(_: &mut Event<'_>) {
        IN_TRAP.store(true, SeqCst);
        drop(mask());
        IN_TRAP.store(false, SeqCst);
    }
    fn note_if_outside(event: &mut Event<'_>) {
        assert!(!IN_TRAP.load(SeqCst));
        note(event);
    }
    #[inline(always)]
    fn step(on: bool) {
        // SAFETY: changes the trap flag; each trap is handled.
        unsafe {
            match on {
                true => std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq"),
                false => std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq"),
            }
        }
    }
    in_fresh_process(this_test!(), || {
        install(libc::SIGTRAP, trap);
        install(ONE, note_if_outside);
        let guard = mask();
        raise(ONE);
        step(true);
        let is_right = signal::with_kernel_mask(|| {
            step(false);
            is_blocked(ONE) && logged().is_empty()
        });
        assert!(is_right, "the kernel's mask is open");
        step(true);
        drop(guard);
        step(false);
        assert_eq!(logged(), [ONE as usize]);
        assert!(!is_blocked(ONE) && !signal::is_masked());
    });
}

/// A signal that the program has blocked, and that a call unblocks for a while, is the program's
/// again when the mask ends.
#[cfg(atomseq_sections)]
#[test]
fn what_a_waiting_call_lets_into_a_mask_stays_blocked_as_the_program_wants() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        // The previous end of a mask has unblocked it.
        let guard = mask();
        raise(ONE);
        drop(guard);
        clear_log();
        change_mask(libc::SIG_BLOCK, &[ONE]);
        raise(ONE);
        let guard = mask();
        // SAFETY: waits with no signal blocked; one is pending.
        unsafe { libc::sigsuspend(&set(&[])) };
        assert_eq!(logged(), []);
        drop(guard);
        assert!(is_blocked(ONE), "the program has blocked it");
        assert_eq!(logged(), []);
        change_mask(libc::SIG_UNBLOCK, &[ONE]);
        assert_eq!(logged(), [ONE as usize]);
    });
}

/// The handler of a signal that no mask blocks may have masks of its own, whatever instruction of
/// the thread's masks it interrupts. Signals that stay blocked afterwards are detected at once.
#[test]
fn a_handler_that_is_never_blocked_leaves_no_signal_blocked() {
    static RUNS: AtomicI32 = AtomicI32::new(0);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    // Without the protection, about one in some thousand leaves everything blocked.
    const TRAPS: i32 = 60_000;
    // On a busy machine there are fewer.
    const TIME: Duration = Duration::from_secs(20);
    in_fresh_process(this_test!(), || {
        let begin = Instant::now();
        install(ONE, note);
        install(libc::SIGTRAP, |_| {
            drop(mask());
            RUNS.fetch_add(1, SeqCst);
        });
        // SAFETY: returns this thread's handle.
        let this = unsafe { libc::pthread_self() } as usize;
        let sender = std::thread::spawn(move || {
            for run in (0..TRAPS).take_while(|_| begin.elapsed() < TIME) {
                // SAFETY: the thread joins this one before it exits.
                unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGTRAP) };
                let mut spins = 0;
                while RUNS.load(SeqCst) <= run {
                    spins += 1;
                    match spins % 1_000 {
                        0 => std::thread::yield_now(),
                        _ => std::hint::spin_loop(),
                    }
                }
            }
            IS_OVER.store(true, SeqCst);
        });
        while !IS_OVER.load(SeqCst) {
            (0..16).for_each(|_| drop(mask()));
            assert!(!is_blocked(ONE), "after {} traps", RUNS.load(SeqCst));
        }
        sender.join().expect("no panic");
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
    });
}

/// A gate that is opened in a handler inside a mask does not open the handler's own signal.
#[test]
fn a_gate_in_a_handler_does_not_let_its_signal_in_again() {
    static DEPTH: AtomicI32 = AtomicI32::new(0);
    static RUNS: AtomicI32 = AtomicI32::new(0);
    static AREA: std::sync::OnceLock<atomseq::percpu::Area> = std::sync::OnceLock::new();
    in_fresh_process(this_test!(), || {
        let area = AREA.get_or_init(|| atomseq::percpu::Area::try_new(64).expect("memory"));
        assert!(area.cpus() > 0);
        install(libc::SIGTRAP, |_| {
            assert_eq!(DEPTH.fetch_add(1, SeqCst), 0, "nested");
            drop(AREA.get().expect("set before").close_gate(0));
            if RUNS.fetch_add(1, SeqCst) == 0 {
                raise(libc::SIGTRAP);
            }
            DEPTH.fetch_sub(1, SeqCst);
        });
        let guard = mask();
        raise(libc::SIGTRAP);
        drop(guard);
        assert_eq!(RUNS.load(SeqCst), 2);
    });
}
