//! Deferred signals and their records when the kernel's queue has no room for them.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls as controls;
use atomseq::signal::{self, Event, Options, mask};
use verify_signals::{clear_log, log, logged};
use verify_support::processes::{code_of_child, in_fresh_process};
use verify_support::signals::{
    change_mask, install, install_with, is_blocked, is_pending, limit_queue, queue, queue_of_kill,
    queue_of_timer, raise, set, wait_for_handler,
};
use verify_support::this_test;

/// Logs the signal, or the value sent with it.
fn note(event: &mut Event<'_>) {
    match event.info().si_code {
        libc::SI_QUEUE => log(1000 + event.value()),
        libc::SI_TIMER => log(2000 + event.overrun() as usize),
        _ => log(event.signal() as usize),
    }
}

fn real_time() -> i32 {
    libc::SIGRTMIN() + 3
}

/// Runs `f` in a mask that has deferred the first of the signals that `send` sends, while the queue
/// is full.
fn deferred_with_a_full_queue<R>(send: impl FnOnce(), f: impl FnOnce() -> R) -> R {
    // Sent while blocked, so that the queue can be filled before they arrive.
    change_mask(libc::SIG_BLOCK, &[real_time()]);
    send();
    limit_queue(0);
    let guard = mask();
    change_mask(libc::SIG_UNBLOCK, &[real_time()]);
    assert_eq!(logged(), []);
    assert_eq!(signal::statistics().deferrals, 1);
    let result = f();
    drop(guard);
    assert!(!is_blocked(real_time()) && !signal::is_masked());
    result
}

/// Checks that nothing deferred is left: a signal sent now is delivered unchanged.
fn assert_nothing_is_left() {
    let before = logged().len();
    limit_queue(libc::RLIM_INFINITY);
    raise(real_time());
    assert_eq!(logged()[before..], [real_time() as usize]);
    drop(mask());
    assert_eq!(logged().len(), before + 1);
}

#[test]
fn a_record_without_room_in_the_queue_is_kept() {
    in_fresh_process(this_test!(), || {
        install(real_time(), note);
        deferred_with_a_full_queue(|| queue(real_time(), 7), || ());
        assert_eq!(logged(), [1007]);
        assert_eq!(signal::statistics().lost_information, 0);
        assert_nothing_is_left();
    });
}

#[test]
fn control_without_the_kept_record_only_the_number_comes() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { controls::set(controls::SAVING) };
        install(real_time(), note);
        deferred_with_a_full_queue(|| queue(real_time(), 7), || ());
        assert_eq!(logged(), [real_time() as usize]);
        assert_eq!(signal::statistics().lost_information, 1);
    });
}

/// Others of its number are behind it in the queue. The kernel delivers the last one and then
/// clears the number.
fn several_with_a_full_queue(send_first: fn(i32)) -> Vec<usize> {
    install(real_time(), note);
    let send = || {
        send_first(real_time());
        (2..5).for_each(|value| queue(real_time(), value));
    };
    deferred_with_a_full_queue(send, || ());
    let mut came = logged();
    came.sort_unstable();
    came
}

#[test]
fn a_real_time_signal_without_room_comes_as_well_as_those_behind_it() {
    in_fresh_process(this_test!(), || {
        let came = several_with_a_full_queue(|signal| queue(signal, 1));
        assert_eq!(came, [1001, 1002, 1003, 1004]);
        let statistics = signal::statistics();
        assert_eq!(
            (statistics.lost_information, statistics.lost_signals),
            (0, 0)
        );
        assert_nothing_is_left();
    });
}

#[test]
fn so_does_one_of_kill_of_which_the_kernel_would_drop_the_record() {
    in_fresh_process(this_test!(), || {
        let came = several_with_a_full_queue(queue_of_kill);
        assert_eq!(came, [real_time() as usize, 1002, 1003, 1004]);
        assert_nothing_is_left();
    });
}

#[test]
fn control_the_kernel_s_note_of_a_number_is_lost_with_others_behind_it() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { controls::set(controls::SAVING) };
        let came = several_with_a_full_queue(|signal| queue(signal, 1));
        assert_eq!(came, [1002, 1003, 1004]);
    });
}

/// A call that waits for signals receives one for which the queue has no room.
fn waited_for_with_a_full_queue(send_later: impl FnOnce()) -> Vec<usize> {
    install(real_time(), note);
    let send = || queue(real_time(), 1);
    deferred_with_a_full_queue(send, || {
        signal::with_kernel_mask(|| {
            assert!(is_pending(real_time()));
            send_later();
            // SAFETY: an initialised set.
            assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
        });
    });
    let mut came = logged();
    came.sort_unstable();
    came
}

#[test]
fn a_real_time_signal_without_room_ends_waits() {
    in_fresh_process(this_test!(), || {
        assert_eq!(waited_for_with_a_full_queue(|| ()), [1001]);
        assert_nothing_is_left();
    });
}

/// A signal that a wait has consumed is not delivered again, with or without another signal.
#[test]
fn one_that_a_wait_has_taken_is_not_delivered_again() {
    in_fresh_process(this_test!(), || {
        install(real_time(), note);
        let send = || queue(real_time(), 1);
        deferred_with_a_full_queue(send, || signal::with_kernel_mask(wait_for_one));
        assert_eq!(logged(), []);
        assert_eq!(signal::statistics().lost_information, 1);
        limit_queue(libc::RLIM_INFINITY);
        queue(real_time(), 2);
        assert_eq!(logged(), [1002]);
        assert_nothing_is_left();
    });
}

/// Waits for a signal and returns the value sent with it.
fn wait_for_one() -> usize {
    let (mut info, wanted) = (std::mem::MaybeUninit::uninit(), set(&[real_time()]));
    // SAFETY: fills in a record, in which the value is a word.
    unsafe {
        assert_eq!(libc::sigwaitinfo(&wanted, info.as_mut_ptr()), real_time());
        info.assume_init().si_value().sival_ptr.addr()
    }
}

/// The kernel delivers a later signal instead.
#[test]
fn one_that_was_queued_later_does_not_hide_it() {
    in_fresh_process(this_test!(), || {
        let came = waited_for_with_a_full_queue(|| {
            limit_queue(libc::RLIM_INFINITY);
            queue(real_time(), 2);
        });
        assert_eq!(came, [1001, 1002]);
        assert_nothing_is_left();
    });
}

#[test]
fn beside_others_that_end_the_wait_it_comes_with_the_mask_s_end() {
    in_fresh_process(this_test!(), || {
        install(real_time(), note);
        let send = || (1..3).for_each(|value| queue(real_time(), value));
        deferred_with_a_full_queue(send, || {
            signal::with_kernel_mask(|| {
                assert_eq!(wait_for_one(), 2);
                assert_eq!(logged(), []);
            });
        });
        assert_eq!(logged(), [1001]);
        assert_nothing_is_left();
    });
}

/// Queues a signal with a value to the process, all of whose threads have it blocked.
fn queue_to_process(signal: i32, value: usize) {
    let value = libc::sigval {
        sival_ptr: std::ptr::without_provenance_mut(value),
    };
    // SAFETY: a number and a word.
    assert_eq!(unsafe { libc::sigqueue(libc::getpid(), signal, value) }, 0);
    assert!(is_pending(signal));
}

/// Runs `check` in a process without another thread that could receive a signal sent to the
/// process.
fn alone_in_fresh_process(test: &'static str, check: impl Fn()) {
    in_fresh_process(test, || {
        let code = code_of_child(|| {
            check();
            0
        });
        assert_eq!(code, 0);
    });
}

/// Lets another thread consume what is pending for the process. The caller has the signal blocked.
fn let_another_thread_take(signal: i32) {
    let taking = || {
        change_mask(libc::SIG_UNBLOCK, &[signal]);
    };
    std::thread::scope(|scope| scope.spawn(taking).join().expect("it ends"));
}

/// Returns how many waits are interrupted by a deferred signal of `kill` and one sent to the
/// process, which another thread may consume first.
fn waits_beside_one_of_the_process(is_taken_by_another: bool) -> usize {
    install(real_time(), note);
    let guard = mask();
    queue_of_kill(real_time());
    queue_to_process(real_time(), 2);
    let waits = signal::with_kernel_mask(|| {
        if is_taken_by_another {
            let_another_thread_take(real_time());
        }
        let mut waits = 0;
        while is_pending(real_time()) {
            wait_for_one();
            waits += 1;
        }
        waits
    });
    drop(guard);
    waits
}

#[test]
fn one_of_kill_ends_a_wait_when_another_thread_takes_that_of_the_process() {
    alone_in_fresh_process(this_test!(), || {
        assert_eq!(waits_beside_one_of_the_process(true), 1);
        assert_eq!(logged(), [1002]);
        assert_nothing_is_left();
    });
}

#[test]
fn one_of_kill_and_one_of_the_process_end_two_waits() {
    alone_in_fresh_process(this_test!(), || {
        assert_eq!(waits_beside_one_of_the_process(false), 2);
        assert_eq!(logged(), []);
        assert_nothing_is_left();
    });
}

/// The kernel would drop it if the other signal were the thread's, which the thread cannot find
/// out: a documented limit. The signal is not lost.
#[test]
fn a_timer_s_beside_one_of_the_process_comes_with_the_mask_s_end() {
    alone_in_fresh_process(this_test!(), || {
        install(TIMER, note);
        let guard = mask();
        queue_of_timer(TIMER, 1, 0);
        queue_to_process(TIMER, 2);
        signal::with_kernel_mask(|| {
            let_another_thread_take(TIMER);
            assert!(!is_pending(TIMER));
        });
        drop(guard);
        assert_eq!(logged(), [1002, 2001]);
    });
}

/// Two timers with one signal number: each interrupts a wait.
#[test]
fn a_timer_s_beside_another_one_ends_a_wait_of_its_own() {
    in_fresh_process(this_test!(), || {
        install(TIMER, note);
        let guard = mask();
        queue_of_timer(TIMER, 1, 0);
        queue_of_timer(TIMER, 2, 0);
        signal::with_kernel_mask(|| {
            (0..2).for_each(|_| wait_for_handler());
        });
        drop(guard);
        let mut logged = logged();
        logged.sort_unstable();
        assert_eq!(logged, [2001, 2002]);
    });
}

/// With no room in the queue, the kernel would merge it with the other signal: it is delivered at
/// the mask's end.
#[test]
fn one_of_kill_without_room_beside_another_comes_with_the_mask_s_end() {
    in_fresh_process(this_test!(), || {
        install(real_time(), note);
        let send = || {
            queue_of_kill(real_time());
            queue(real_time(), 2);
        };
        deferred_with_a_full_queue(send, || {
            signal::with_kernel_mask(|| assert_eq!(wait_for_one(), 2));
        });
        assert_eq!(logged(), [real_time() as usize]);
        assert_nothing_is_left();
    });
}

/// Delivering the last signal of the thread's queue clears the number of one that had no room. One
/// sent to the process is pending, but another thread consumes it.
#[test]
fn one_without_room_does_not_rely_on_one_of_the_process() {
    alone_in_fresh_process(this_test!(), || {
        install(real_time(), note);
        let send = || queue(real_time(), 1);
        deferred_with_a_full_queue(send, || {
            signal::with_kernel_mask(|| {
                limit_queue(libc::RLIM_INFINITY);
                queue(real_time(), 2);
                queue_to_process(real_time(), 3);
                // SAFETY: an initialised set.
                assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
                assert_eq!(logged(), [1002]);
                let_another_thread_take(real_time());
                assert_eq!(logged(), [1002, 1003]);
            });
        });
        assert_eq!(logged(), [1002, 1003, 1001]);
        assert_eq!(signal::statistics().lost_information, 0);
        assert_nothing_is_left();
    });
}

/// A handler on the alternate stack stays there: the last delivery from the queue finds the number
/// that the kernel has cleared.
#[test]
fn on_the_alternate_stack_it_comes_there() {
    in_fresh_process(this_test!(), || {
        static LOWEST: AtomicUsize = AtomicUsize::new(0);
        const SIZE: usize = 1 << 20;
        fn on_it(event: &mut Event<'_>) {
            let here = (&raw const event).addr();
            assert!((LOWEST.load(SeqCst)..LOWEST.load(SeqCst) + SIZE).contains(&here));
            note(event);
        }
        let memory = Box::leak(vec![0u8; SIZE].into_boxed_slice());
        LOWEST.store(memory.as_ptr().addr(), SeqCst);
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: SIZE,
        };
        // SAFETY: memory that is never freed.
        let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
        assert_eq!(result, 0);
        let options = Options::new().on_alternate_stack(16 << 10);
        install_with(real_time(), on_it, options);
        let send = || (1..3).for_each(|value| queue(real_time(), value));
        deferred_with_a_full_queue(send, || ());
        assert_eq!(logged(), [1002, 1001]);
        assert_nothing_is_left();
    });
}

/// A signal to send; its index in the order of sending is its value or its overruns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    Timer,
    Value,
    ValueOfOther,
    Kill,
    Raised,
}

const SENT: [Sent; 5] = [
    Sent::Timer,
    Sent::Value,
    Sent::ValueOfOther,
    Sent::Kill,
    Sent::Raised,
];
const TIMER: i32 = libc::SIGUSR1;

impl Sent {
    fn send(self, place: usize) {
        match self {
            Sent::Timer => queue_of_timer(TIMER, place as i32, 0),
            Sent::Value => queue(real_time(), place),
            Sent::ValueOfOther => queue(real_time() + 1, place),
            Sent::Kill => queue_of_kill(real_time()),
            Sent::Raised => raise(real_time()),
        }
    }

    /// Returns what its handler logs.
    fn logs(self, place: usize) -> usize {
        match self {
            Sent::Timer => 2000 + place,
            Sent::Value | Sent::ValueOfOther => 1000 + place,
            Sent::Kill | Sent::Raised => real_time() as usize,
        }
    }
}

/// Returns every order of up to `length` signals.
fn orders(length: usize) -> Vec<Vec<Sent>> {
    let mut orders = vec![vec![]];
    let mut from = 0;
    for _ in 0..length {
        let to = orders.len();
        for index in from..to {
            orders.extend(SENT.map(|sent| [&orders[index][..], &[sent]].concat()));
        }
        from = to;
    }
    orders
}

/// Signals that are sent before a mask defers the first of them, with or without room left in the
/// queue, and after that, in the mask or inside a kernel mask. Compares the signals delivered with
/// the signals expected: all, except that the kernel drops a standard signal if one is pending.
#[derive(Debug)]
struct Run {
    before: Vec<Sent>,
    after: Vec<Sent>,
    is_full: bool,
    is_inside: bool,
}

impl Run {
    fn expected(&self) -> Vec<usize> {
        let mut expected = Vec::new();
        let mut is_timer_pending = false;
        let all = self.before.iter().chain(&self.after).enumerate();
        for (place, &sent) in all {
            if place == self.before.len() && !self.is_inside {
                // The timer's signal with the lowest number has been deferred.
                is_timer_pending = false;
            }
            if sent != Sent::Timer || !is_timer_pending {
                expected.push(sent.logs(place));
            }
            // The first signal that arrives inside the mask is deferred.
            let is_deferred = place == 0 && self.before.is_empty() && !self.is_inside;
            is_timer_pending |= sent == Sent::Timer && !is_deferred;
        }
        expected.sort_unstable();
        expected
    }

    fn came(&self) -> Vec<usize> {
        let all = [TIMER, real_time(), real_time() + 1];
        let places = self.before.len()..;
        let send_after = || {
            limit_queue(libc::RLIM_INFINITY);
            let after = places.zip(&self.after);
            after.for_each(|(place, sent)| sent.send(place));
        };
        clear_log();
        change_mask(libc::SIG_BLOCK, &all);
        let before = self.before.iter().enumerate();
        before.for_each(|(place, sent)| sent.send(place));
        if self.is_full {
            limit_queue(0);
        }
        let guard = mask();
        change_mask(libc::SIG_UNBLOCK, &all);
        match self.is_inside {
            false => send_after(),
            true => signal::with_kernel_mask(|| {
                send_after();
                if !(self.before.is_empty() && self.after.is_empty()) {
                    // SAFETY: an initialised set.
                    assert_eq!(unsafe { libc::sigsuspend(&set(&[])) }, -1);
                }
            }),
        }
        drop(guard);
        assert!(!signal::is_masked() && !all.into_iter().any(is_blocked));
        let mut came = logged();
        drop(mask());
        assert_eq!(logged(), came);
        came.sort_unstable();
        came
    }
}

/// Returns all runs, except those in which the kernel receives a signal of `kill` or of a timer
/// with the queue full: it drops the record without an error, a documented limit.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for before in orders(3) {
        for after in orders(2) {
            for (is_full, is_inside) in [(false, false), (false, true), (true, false), (true, true)]
            {
                let drops = |sent: &Sent| matches!(sent, Sent::Kill | Sent::Timer);
                if !(is_full && is_inside && before.iter().any(drops)) {
                    let (before, after) = (before.clone(), after.clone());
                    runs.push(Run {
                        before,
                        after,
                        is_full,
                        is_inside,
                    });
                }
            }
        }
    }
    runs
}

fn install_for_runs() {
    for signal in [TIMER, real_time(), real_time() + 1] {
        install(signal, note);
    }
}

#[test]
fn whatever_is_sent_comes_once_with_its_record() {
    in_fresh_process(this_test!(), || {
        install_for_runs();
        let runs = runs();
        for run in &runs {
            assert_eq!(run.came(), run.expected(), "{run:?}");
        }
        assert_eq!(runs.len(), 15_748);
    });
}

#[test]
fn control_of_what_is_queued_again_some_is_lost() {
    in_fresh_process(this_test!(), || {
        install_for_runs();
        for off in [controls::SAVING, controls::KEEPING] {
            // SAFETY: this test expects what follows.
            unsafe { controls::set(off) };
            assert!(runs().iter().any(|run| run.came() != run.expected()));
        }
    });
}
