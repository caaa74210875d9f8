//! Deferred signals are delivered: those that queueing again would lose, and those in sandboxes
//! that refuse to queue or to send signals. (qemu-user has no seccomp.)
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls as controls;
use atomseq::signal::{self, Event, Interrupted, Options, mask};
use verify_signals::{add_to_three, clear_log, log, logged};
use verify_support::jump;
use verify_support::pages::{Page, install_fault_handler};
use verify_support::processes::{in_child, in_fresh_process};
use verify_support::sandbox;
use verify_support::signals::{
    change_mask, install, install_plainly, install_with, is_blocked, is_pending, limit_queue,
    queue, queue_of_timer, raise, set, wait_for_handler,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const STOP: i32 = libc::SIGTSTP;
const CONTINUE: i32 = libc::SIGCONT;

/// Logs the signal, or the value sent with it.
fn note(event: &mut Event<'_>) {
    match event.info().si_code {
        libc::SI_QUEUE => log(1000 + event.value()),
        _ => log(event.signal() as usize),
    }
}

/// Queues again the signal that the filter trapped, immediately after `CONTINUE` arrives.
extern "C" fn continue_first(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !SENT.swap(true, SeqCst) {
        raise(CONTINUE);
    }
    queue_trapped(context);
}

/// Makes the trapped system call, which queues a signal.
fn queue_trapped(context: *mut libc::c_void) {
    const NAMES: [i32; 4] = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10];
    // SAFETY: the kernel's context of a system call, which is made with the same arguments.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let [a, b, c, d] = NAMES.map(|name| registers[name as usize]);
        let result = libc::syscall(libc::SYS_rt_tgsigqueueinfo, a, b, c, d, 0, PASSWORD);
        registers[libc::REG_RAX as usize] = result;
    }
}

static SENT: AtomicBool = AtomicBool::new(false);
const PASSWORD: i64 = 0x5052;

/// Defers `STOP`. `CONTINUE` is sent before `STOP` is queued again or, if it is not queued,
/// afterwards.
fn continued_while_a_stop_is_deferred() -> Vec<usize> {
    install_plainly(libc::SIGSYS, continue_first, 0, &[]);
    install(STOP, note);
    install(CONTINUE, note);
    sandbox::trap(libc::SYS_rt_tgsigqueueinfo, PASSWORD as u32);
    let guard = mask();
    raise(STOP);
    if !SENT.swap(true, SeqCst) {
        raise(CONTINUE);
    }
    assert_eq!(logged(), []);
    drop(guard);
    assert!(!is_blocked(STOP) && !is_blocked(CONTINUE) && !signal::is_masked());
    logged()
}

#[test]
fn a_deferred_stop_signal_discards_no_later_continue() {
    in_fresh_process(this_test!(), || {
        assert_eq!(continued_while_a_stop_is_deferred(), [CONTINUE as usize]);
        assert_eq!(signal::statistics().kept, 1);
    });
}

#[test]
fn control_queued_again_it_does() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { controls::set(controls::KEEPING) };
        assert_eq!(continued_while_a_stop_is_deferred(), [STOP as usize]);
    });
}

/// Defers a timer's signal. The timer expires before the signal is queued again or, if it is not
/// queued, afterwards. Returns the number of expirations that the handler received.
fn expirations_of_a_timer_in_a_mask() -> usize {
    extern "C" fn expire_first(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        expire();
        queue_trapped(context);
    }
    fn expire() {
        if !SENT.swap(true, SeqCst) {
            queue_of_timer(ONE, 6, PASSWORD as u32);
        }
    }
    fn count(event: &mut Event<'_>) {
        log(1 + event.overrun() as usize);
    }
    install_plainly(libc::SIGSYS, expire_first, 0, &[]);
    install(ONE, count);
    change_mask(libc::SIG_BLOCK, &[ONE]);
    queue_of_timer(ONE, 41, 0);
    sandbox::trap(libc::SYS_rt_tgsigqueueinfo, PASSWORD as u32);
    let guard = mask();
    change_mask(libc::SIG_UNBLOCK, &[ONE]);
    expire();
    assert_eq!(logged(), []);
    drop(guard);
    assert!(!is_blocked(ONE) && !signal::is_masked());
    logged().iter().sum()
}

#[test]
fn no_expiration_of_a_timer_is_lost_in_a_mask() {
    in_fresh_process(this_test!(), || {
        assert_eq!(expirations_of_a_timer_in_a_mask(), 42 + 7);
        assert_eq!(signal::statistics().kept, 1);
    });
}

#[test]
fn control_queued_again_it_is() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { controls::set(controls::KEEPING) };
        assert_eq!(expirations_of_a_timer_in_a_mask(), 7);
    });
}

/// The thread keeps a timer's signal, and queues it to the kernel before a call that waits. The
/// timer expires in the middle of that: after the library asked for the thread's number, which it
/// must do before it asks what is pending.
#[test]
fn no_expiration_of_a_timer_is_lost_while_a_kept_one_is_queued() {
    static TO_SEND: AtomicBool = AtomicBool::new(false);
    extern "C" fn expire_first(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        if TO_SEND.swap(false, SeqCst) {
            queue_of_timer(ONE, 2, PASSWORD as u32);
        }
        // SAFETY: the kernel's context of a system call, which is made again.
        unsafe {
            let number = libc::syscall(libc::SYS_gettid, 0, 0, 0, 0, 0, PASSWORD);
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            registers[libc::REG_RAX as usize] = number;
        }
    }
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSYS, expire_first, 0, &[]);
        install(ONE, |event| log(event.overrun() as usize));
        let guard = mask();
        queue_of_timer(ONE, 1, 0);
        sandbox::trap(libc::SYS_gettid, PASSWORD as u32);
        TO_SEND.store(true, SeqCst);
        signal::with_kernel_mask(|| assert!(is_pending(ONE)));
        assert!(!TO_SEND.load(SeqCst), "nothing was queued");
        drop(guard);
        let mut overruns = logged();
        overruns.sort_unstable();
        assert_eq!(overruns, [1, 2]);
        assert_eq!(signal::statistics().kept, 1);
    });
}

/// A signal that the thread keeps is not queued beside one of the same number before a call that
/// waits.
#[test]
fn nor_before_a_call_that_waits_for_it() {
    in_fresh_process(this_test!(), || {
        fn count(event: &mut Event<'_>) {
            log(1 + event.overrun() as usize);
        }
        install(ONE, count);
        for expires_again in [false, true] {
            clear_log();
            let guard = mask();
            queue_of_timer(ONE, 41, 0);
            if expires_again {
                queue_of_timer(ONE, 6, 0);
            }
            signal::with_kernel_mask(|| {
                assert!(is_pending(ONE));
                // SAFETY: an initialised set.
                assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
            });
            drop(guard);
            let expected = if expires_again { 42 + 7 } else { 42 };
            assert_eq!(logged().iter().sum::<usize>(), expected);
        }
    });
}

#[test]
fn of_stop_and_continue_the_later_one_comes_as_with_the_kernel_s_mask() {
    in_fresh_process(this_test!(), || {
        let all = [STOP, CONTINUE, libc::SIGTTIN, libc::SIGTTOU];
        for signal in all {
            install(signal, note);
        }
        let sent = |signals: &[i32]| signals.iter().for_each(|&signal| raise(signal));
        let (mut compared, mut both) = (0, 0);
        for first in all {
            for second in all {
                for third in all {
                    let signals = [first, second, third];
                    clear_log();
                    signal::with_kernel_mask(|| sent(&signals));
                    let expected = logged();
                    clear_log();
                    let guard = mask();
                    sent(&signals);
                    assert_eq!(logged(), []);
                    drop(guard);
                    let mut came = logged();
                    came.sort_unstable();
                    let mut sorted = expected.clone();
                    sorted.sort_unstable();
                    // A `CONTINUE` that another stop signal discards leaves no trace, so the first
                    // stop signal arrives as well. In both cases the last signal to arrive is a
                    // stop signal.
                    if came != sorted {
                        assert_eq!(second, CONTINUE, "{signals:?}");
                        assert_eq!(
                            (sorted, expected),
                            (vec![third as usize], vec![third as usize])
                        );
                        assert!(came.len() == 2 && !came.contains(&(CONTINUE as usize)));
                        both += 1;
                    }
                    compared += 1;
                }
            }
        }
        assert_eq!((compared, both), (64, 6));
    });
}

#[test]
fn a_kept_signal_s_handler_is_called_as_by_the_kernel() {
    in_fresh_process(this_test!(), || {
        static EVENT: AtomicUsize = AtomicUsize::new(0);
        fn look(event: &mut Event<'_>) {
            assert_eq!(event.interrupted(), Interrupted::Plain);
            assert_eq!(event.info().si_code, libc::SI_TKILL);
            assert!(event.program_counter() != 0 && event.program_counter() == event.original_pc());
            assert!(is_blocked(STOP) && is_blocked(ONE) && is_blocked(libc::SIGHUP));
            EVENT.store(event.context() as usize, SeqCst);
            log(STOP as usize);
            raise(ONE);
            // A mask of the handler's own.
            drop(mask());
            // SAFETY: the context's mask, which the thread resumes with.
            unsafe {
                libc::sigaddset(verify_support::pages::mask(event.context()), libc::SIGWINCH)
            };
        }
        install_with(STOP, look, Options::new().blocking(libc::SIGHUP));
        install(ONE, note);
        let guard = mask();
        raise(STOP);
        drop(guard);
        assert_ne!(EVENT.load(SeqCst), 0);
        assert_eq!(logged(), [STOP as usize, ONE as usize]);
        assert!(
            is_blocked(libc::SIGWINCH),
            "the handler blocked it in the context"
        );
        assert!(!is_blocked(STOP) && !is_blocked(ONE) && !is_blocked(libc::SIGHUP));
    });
}

/// Makes the thread keep two signals. The handler of the first one jumps.
fn jump_out_of_the_first_of_two(jump: signal::Handler) {
    extern "C" fn keep_two() {
        let guard = mask();
        raise(STOP);
        // The second signal was not blocked together with the first: the thread keeps it, too.
        install(libc::SIGTTIN, note);
        raise(libc::SIGTTIN);
        drop(guard);
    }
    install(STOP, jump);
    jump::with_target(keep_two);
}

/// The second signal is delivered at the end of the next mask, or of a gate in which that mask
/// ended.
#[test]
fn what_a_jump_has_left_comes_with_the_end_of_a_gate() {
    fn jump(_: &mut Event<'_>) {
        // SAFETY: the guard is being dropped, and has no more to do.
        unsafe { jump::back() };
    }
    in_fresh_process(this_test!(), || {
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        jump_out_of_the_first_of_two(jump);
        assert_eq!(logged(), []);
        let guard = mask();
        let held = area.close_gate(0);
        drop(guard);
        assert_eq!(logged(), []);
        drop(held);
        assert_eq!(logged(), [libc::SIGTTIN as usize]);
        assert!(!is_blocked(STOP) && !is_blocked(libc::SIGTTIN) && !signal::is_masked());
    });
}

/// The library's own jump returns the signal to the kernel, so that it also interrupts waits: it
/// arrives when the jump restores the mask.
#[test]
fn what_the_library_s_own_jump_has_left_comes_at_once() {
    fn jump(_: &mut Event<'_>) {
        // SAFETY: `with_target` runs, and the frames between have nothing to drop.
        unsafe { signal::siglongjmp(jump::environment(), 1) };
    }
    in_fresh_process(this_test!(), || {
        jump_out_of_the_first_of_two(jump);
        assert_eq!(logged(), [libc::SIGTTIN as usize]);
        assert!(!is_blocked(STOP) && !is_blocked(libc::SIGTTIN) && !signal::is_masked());
    });
}

/// A guard also ends its mask inside `with_kernel_mask`, beside a signal that the thread has kept
/// since a wait there.
#[test]
fn a_guard_that_is_dropped_beside_a_kept_signal_ends_its_mask() {
    static EXPIRES_AGAIN: AtomicBool = AtomicBool::new(false);
    fn tick(_: &mut Event<'_>) {
        if EXPIRES_AGAIN.swap(false, SeqCst) {
            queue_of_timer(ONE, 0, 0);
        }
        log(1);
    }
    in_fresh_process(this_test!(), || {
        install(ONE, tick);
        for drops_inside in [true, false] {
            clear_log();
            let mut guard = Some(mask());
            queue_of_timer(ONE, 0, 0);
            queue_of_timer(ONE, 0, 0);
            EXPIRES_AGAIN.store(true, SeqCst);
            signal::with_kernel_mask(|| {
                // SAFETY: an initialised set.
                assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
                drop(guard.take_if(|_| drops_inside));
                assert!(!signal::is_masked());
                let inner = mask();
                assert!(signal::is_masked());
                drop(inner);
                assert!(!signal::is_masked());
            });
            assert_eq!(signal::is_masked(), !drops_inside);
            drop(guard);
            assert!(!signal::is_masked());
            assert_eq!(logged(), [1, 1, 1]);
        }
    });
}

/// Two timers send one signal number, and the thread keeps one of the signals: each interrupts a
/// wait, inside `with_kernel_mask` as well.
#[test]
fn what_is_kept_inside_ends_a_wait_of_its_own() {
    static PAGE: OnceLock<Page> = OnceLock::new();
    fn wait_twice(_: &mut Event<'_>) {
        change_mask(libc::SIG_UNBLOCK, &[ONE]);
        let guard = mask();
        queue_of_timer(ONE, 1, 0);
        queue_of_timer(ONE, 2, 0);
        signal::with_kernel_mask(|| {
            (0..2).for_each(|_| wait_for_handler());
        });
        drop(guard);
        PAGE.get().expect("a page").release();
    }
    fn count(event: &mut Event<'_>) {
        assert_eq!(event.interrupted(), Interrupted::Inside);
        log(event.overrun() as usize);
    }
    in_fresh_process(this_test!(), || {
        let page = PAGE.get_or_init(Page::new);
        install(libc::SIGSEGV, wait_twice);
        install(ONE, count);
        page.interrupt(0);
        // SAFETY: three words of the page, the second of which faults.
        unsafe { add_to_three::rolling(page.words(1) as usize, 99) };
        let mut logged = logged();
        logged.sort_unstable();
        assert_eq!(logged, [1, 2]);
    });
}

/// A handler in the middle of a sequence unblocks a signal and defers it by a mask of its own. The
/// deferred signal's handler learns that it runs inside an incomplete sequence, whether the kernel
/// or the thread itself delivers it, at the end of the mask or of a gate.
#[test]
fn deferred_signals_that_come_inside_learn_it() {
    static PAGE: OnceLock<Page> = OnceLock::new();
    static AREA: OnceLock<atomseq::percpu::Area> = OnceLock::new();
    static IN_A_GATE: AtomicBool = AtomicBool::new(false);
    fn defer_one(event: &mut Event<'_>) {
        assert_eq!(event.interrupted(), Interrupted::Inside);
        change_mask(libc::SIG_UNBLOCK, &[STOP, ONE]);
        let guard = mask();
        // The thread keeps it. That blocks the other one, which stays pending in the kernel.
        raise(STOP);
        raise(ONE);
        let held = IN_A_GATE
            .load(SeqCst)
            .then(|| AREA.get().expect("an area").close_gate(0));
        drop(guard);
        drop(held);
        PAGE.get().expect("a page").release();
    }
    fn is_inside(event: &mut Event<'_>) {
        log(usize::from(event.interrupted() == Interrupted::Inside));
    }
    in_fresh_process(this_test!(), || {
        let page = PAGE.get_or_init(Page::new);
        AREA.get_or_init(|| atomseq::percpu::Area::try_new(64).expect("memory"));
        install(libc::SIGSEGV, defer_one);
        install(STOP, is_inside);
        install(ONE, is_inside);
        for in_a_gate in [false, true] {
            IN_A_GATE.store(in_a_gate, SeqCst);
            clear_log();
            page.interrupt(0);
            // SAFETY: three words of the page, the second of which faults.
            unsafe { add_to_three::rolling(page.words(1) as usize, 99) };
            assert_eq!(logged(), [1, 1]);
            // With no sequence underneath, they learn that as well.
            clear_log();
            let guard = mask();
            raise(STOP);
            drop(guard);
            assert_eq!(logged(), [0]);
        }
    });
}

#[test]
fn a_kept_signal_waits_for_the_end_of_a_gate_and_for_the_kernel_s_mask() {
    in_fresh_process(this_test!(), || {
        let area = atomseq::percpu::Area::try_new(64).expect("memory");
        install(STOP, note);
        let guard = mask();
        raise(STOP);
        let held = area.close_gate(0);
        drop(guard);
        assert_eq!(logged(), []);
        drop(held);
        assert_eq!(logged(), [STOP as usize]);
        assert!(!is_blocked(STOP) && !signal::is_masked());
        // Calls that wait for signals find it pending.
        let guard = mask();
        raise(STOP);
        assert!(!is_pending(STOP));
        signal::with_kernel_mask(|| {
            assert!(is_pending(STOP));
            // SAFETY: an initialised set.
            assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
            assert_eq!(logged(), [STOP as usize; 2]);
        });
        // A child has none of its parent's signals.
        raise(STOP);
        in_child(|| {
            drop(guard);
            assert_eq!(logged(), [STOP as usize; 2]);
        });
        // The closure dropped the parent's guard.
        assert_eq!(logged(), [STOP as usize; 3]);
    });
}

#[test]
fn a_kept_signal_whose_handler_was_removed_is_handled_by_what_is_restored() {
    in_fresh_process(this_test!(), || {
        extern "C" fn earlier(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            log(1);
        }
        install_plainly(STOP, earlier, 0, &[]);
        install(STOP, note);
        let guard = mask();
        raise(STOP);
        signal::uninstall(STOP).expect("uninstalled");
        drop(guard);
        assert_eq!(logged(), [1]);
        assert!(!is_blocked(STOP));
    });
}

/// Defers a standard signal and real-time signals with values in a sandbox that refuses `calls`.
fn deferred_without(calls: &[i64]) {
    let real_time = libc::SIGRTMIN() + 3;
    install(ONE, note);
    install(real_time, note);
    for (value, signal) in [(1, ONE), (2, real_time), (3, real_time)] {
        change_mask(libc::SIG_BLOCK, &[signal]);
        queue(signal, value);
    }
    sandbox::refuse_all(calls);
    // One after the other: the first to arrive is deferred, and that blocks the rest.
    for signal in [ONE, real_time, real_time] {
        let guard = mask();
        change_mask(libc::SIG_UNBLOCK, &[signal]);
        let before = logged();
        change_mask(libc::SIG_BLOCK, &[]);
        assert_eq!(logged(), before);
        drop(guard);
    }
    assert!(!is_blocked(ONE) && !is_blocked(real_time));
}

#[test]
fn a_sandbox_without_rt_tgsigqueueinfo_loses_nothing() {
    in_fresh_process(this_test!(), || {
        deferred_without(&[libc::SYS_rt_tgsigqueueinfo]);
        let mut values = logged();
        values.sort_unstable();
        assert_eq!(values, [1001, 1002, 1003]);
        let statistics = signal::statistics();
        assert_eq!((statistics.kept, statistics.lost_signals), (0, 0));
        assert_eq!(statistics.lost_information, 0);
        assert!(statistics.refused > 0);
    });
}

/// The kernel does not report whether a signal queued to it is still pending: it is delivered once.
#[test]
fn nor_does_one_that_refuses_to_tell_what_is_pending_double_any() {
    in_fresh_process(this_test!(), || {
        deferred_without(&[libc::SYS_rt_tgsigqueueinfo, libc::SYS_rt_sigpending]);
        let mut values = logged();
        values.sort_unstable();
        assert_eq!(values, [1001, 1002, 1003]);
        let statistics = signal::statistics();
        assert_eq!((statistics.kept, statistics.lost_signals), (0, 0));
    });
}

/// In such a sandbox the thread keeps, until the mask's end, signals that the kernel might discard
/// or merge.
#[test]
fn one_that_refuses_to_tell_what_is_pending_loses_nothing_in_a_kernel_mask() {
    fn note_or_count(event: &mut Event<'_>) {
        match event.info().si_code {
            libc::SI_TIMER => log(1 + event.overrun() as usize),
            _ => log(1000 * event.signal() as usize),
        }
    }
    in_fresh_process(this_test!(), || {
        for signal in [ONE, STOP, CONTINUE] {
            install(signal, note_or_count);
        }
        sandbox::refuse_all(&[libc::SYS_rt_sigpending]);
        let guard = mask();
        queue_of_timer(ONE, 3, 0);
        queue_of_timer(ONE, 0, 0);
        signal::with_kernel_mask(|| ());
        drop(guard);
        assert_eq!(logged().iter().sum::<usize>(), 4 + 1);
        clear_log();
        let guard = mask();
        raise(STOP);
        raise(CONTINUE);
        signal::with_kernel_mask(|| ());
        drop(guard);
        assert!(logged().contains(&(1000 * CONTINUE as usize)));
        assert_eq!(signal::statistics().lost_signals, 0);
    });
}

/// The same for a signal for which the queue has no room: it keeps its record.
#[test]
fn nor_does_it_lose_the_record_of_one_without_room() {
    let real_time = libc::SIGRTMIN() + 3;
    in_fresh_process(this_test!(), || {
        install(real_time, note);
        change_mask(libc::SIG_BLOCK, &[real_time]);
        queue(real_time, 1);
        limit_queue(0);
        sandbox::refuse_all(&[libc::SYS_rt_sigpending]);
        let guard = mask();
        change_mask(libc::SIG_UNBLOCK, &[real_time]);
        signal::with_kernel_mask(|| ());
        drop(guard);
        assert_eq!(logged(), [1001]);
        assert_eq!(signal::statistics().lost_information, 0);
    });
}

#[test]
fn nor_does_one_without_tgkill() {
    in_fresh_process(this_test!(), || {
        deferred_without(&[libc::SYS_rt_tgsigqueueinfo, libc::SYS_tgkill]);
        let mut values = logged();
        values.sort_unstable();
        assert_eq!(values, [1001, 1002, 1003]);
        let statistics = signal::statistics();
        assert!(statistics.kept > 0 && statistics.refused > 0);
        assert_eq!(
            (statistics.lost_signals, statistics.lost_information),
            (0, 0)
        );
    });
}

#[test]
fn control_what_is_neither_sent_nor_kept_is_lost() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { controls::set(controls::SENDING) };
        deferred_without(&[libc::SYS_rt_tgsigqueueinfo]);
        assert!(logged().len() < 3, "{:?}", logged());
    });
}

/// A signal that cannot be queued while a rollforward is in progress, because it became managed
/// after the rollforward began.
#[test]
fn a_signal_that_is_held_back_in_such_a_sandbox_comes_after_the_rollforward() {
    in_fresh_process(this_test!(), || {
        const TWO: i32 = libc::SIGUSR2;
        static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
        /// The first fault unblocks `ONE`, for which a rollforward begins. The second fault, in
        /// that rollforward, unblocks `TWO`.
        extern "C" fn let_in(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            static CALLS: AtomicUsize = AtomicUsize::new(0);
            let context_mask = verify_support::pages::mask(context);
            match CALLS.fetch_add(1, SeqCst) {
                // SAFETY: the context's set.
                0 => unsafe {
                    libc::sigdelset(context_mask, ONE);
                },
                _ => {
                    change_mask(libc::SIG_UNBLOCK, &[TWO]);
                    PAGE.get().expect("made").release();
                }
            }
        }
        install_fault_handler();
        install_plainly(libc::SIGSEGV, let_in, 0, &[]);
        install(ONE, note);
        install(TWO, note);
        change_mask(libc::SIG_BLOCK, &[ONE, TWO]);
        raise(ONE);
        raise(TWO);
        sandbox::refuse_all(&[libc::SYS_rt_tgsigqueueinfo, libc::SYS_tgkill]);
        let page = PAGE.get_or_init(Page::new);
        let words = page.words(1);
        page.interrupt_again(0, 2);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words as usize, 99) };
        change_mask(libc::SIG_UNBLOCK, &[ONE, TWO]);
        drop(mask());
        let mut came = logged();
        came.sort_unstable();
        assert_eq!(came, [ONE as usize, TWO as usize]);
        assert_eq!(signal::statistics().lost_signals, 0);
    });
}

/// Some system calls raise `SIGSYS`, whose handler emulates them. No delivery makes a second such
/// call before that handler runs, which would kill the process; and deliveries of other signals
/// continue when their calls are refused. Returns the signals in order of arrival.
fn with_emulated_masks(install_emulator: fn()) -> Vec<usize> {
    const PASSWORD: u32 = 0x5053;
    install_emulator();
    install(ONE, note);
    sandbox::trap(libc::SYS_rt_sigprocmask, PASSWORD);
    // SAFETY: asks for nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, 0, 8, 0, 0) };
    // SAFETY: a signal to this thread.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), ONE) };
    logged()
}

#[test]
fn no_system_call_comes_before_the_handler_of_one_that_is_emulated() {
    in_fresh_process(this_test!(), || {
        extern "C" fn refuse(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            log(1000);
            // SAFETY: the kernel's context of a system call.
            unsafe {
                let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
                registers[libc::REG_RAX as usize] = -i64::from(libc::EPERM);
            }
        }
        let came = with_emulated_masks(|| _ = install_plainly(libc::SIGSYS, refuse, 0, &[]));
        assert_eq!(came, [1000, 1000, ONE as usize]);
    });
}

#[test]
fn nor_before_one_that_is_installed_here() {
    in_fresh_process(this_test!(), || {
        let came = with_emulated_masks(|| install(libc::SIGSYS, |_| log(1000)));
        assert_eq!(came, [1000, 1000, ONE as usize]);
    });
}

/// A kept signal's handler runs at the mask's end and may use masks itself: what it defers stays
/// deferred.
#[test]
fn the_handler_of_a_kept_signal_may_have_masks() {
    in_fresh_process(this_test!(), || {
        fn with_masks(event: &mut Event<'_>) {
            raise(ONE);
            drop(mask());
            signal::with_kernel_mask(|| drop(mask()));
            assert!(is_blocked(ONE));
            assert_eq!(logged(), []);
            note(event);
        }
        install(ONE, note);
        install(STOP, with_masks);
        // Twice: the second round starts with the mask that the first one restored.
        for _ in 0..2 {
            clear_log();
            let guard = mask();
            raise(STOP);
            drop(guard);
            assert_eq!(logged(), [STOP as usize, ONE as usize]);
            assert!(!is_blocked(ONE) && !signal::is_masked());
        }
    });
}
