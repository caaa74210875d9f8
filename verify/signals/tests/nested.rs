//! Signals that cannot be blocked, and what they observe when they interrupt another signal's
//! delivery or a handler that runs in the middle of a sequence.
#![cfg(atomseq_sections)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::local::Map;
use atomseq::signal::{self, Event, Interrupted, Options};
use verify_signals::{
    add_second_to_first, add_to_three, clear_log, install_over, log, logged, lowest,
};
use verify_support::jump;
use verify_support::pages::{Page, mask};
use verify_support::processes::{code_of, in_fresh_process};
use verify_support::signals::put_back;
use verify_support::signals::{
    change_mask, install, install_plainly, install_with, is_blocked, kernel_mask, raise,
};
use verify_support::this_test;

/// Those that a test can send without causing them itself.
const UNMASKABLE: [i32; 6] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The unmaskable signal that the test sends.
static UNMASKED: AtomicI32 = AtomicI32::new(0);
static PAGE: OnceLock<Page> = OnceLock::new();

fn page() -> &'static Page {
    PAGE.get_or_init(Page::new)
}

/// Returns the words that sequences work on; the second one lies on the faulting page.
fn words() -> [usize; 3] {
    // SAFETY: three words of the page, which no other thread changes.
    unsafe { page().words(1).cast::<[usize; 3]>().read_volatile() }
}

/// Logs the signal, what the library reports as interrupted, and the words if they are accessible.
fn look(event: &mut Event<'_>) {
    log(event.signal() as usize);
    log(match event.interrupted() {
        Interrupted::Plain => 0,
        Interrupted::Restarted => 1,
        Interrupted::RolledForward => 2,
        _ => 3,
    });
    if event.interrupted() != Interrupted::Inside {
        words().into_iter().for_each(log);
    }
}

/// The number of faults, and what their handler does on the first and the second.
static FAULTS: AtomicUsize = AtomicUsize::new(0);
static HANDLERS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Installed as by a library that does not use atomseq.
extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let handler = HANDLERS[FAULTS.fetch_add(1, SeqCst)].load(SeqCst);
    // SAFETY: stored by `run`; the context's set is its handler's.
    unsafe {
        let handler: fn(&mut libc::sigset_t) = std::mem::transmute(handler);
        handler(&mut *mask(context));
    }
}

/// Runs the sequence, which faults at its second word. `first` handles the fault in the sequence,
/// `second` one in the clone that runs the rest of it. Returns what the handlers logged.
fn run(first: fn(&mut libc::sigset_t), second: fn(&mut libc::sigset_t)) -> Vec<usize> {
    FAULTS.store(0, SeqCst);
    clear_log();
    for (place, handler) in HANDLERS.iter().zip([first, second]) {
        place.store(handler as *const () as usize, SeqCst);
    }
    // SAFETY: three words of the page.
    unsafe {
        page().release();
        page().words(1).write_bytes(0, 3);
        page().interrupt(0);
        add_to_three::rolling(page().words(1) as usize, 99);
    }
    logged()
}

fn unblock(set: &mut libc::sigset_t, signal: i32) {
    // SAFETY: a set of a context.
    unsafe { libc::sigdelset(set, signal) };
}

/// Unblocks the signal that is already pending.
fn let_in(set: &mut libc::sigset_t) {
    unblock(set, libc::SIGHUP);
}

/// Unblocks both signals and lets the sequence continue.
fn let_both_in(set: &mut libc::sigset_t) {
    page().release();
    unblock(set, libc::SIGHUP);
    unblock(set, UNMASKED.load(SeqCst));
}

/// Sends a signal that the handler blocks: it arrives when the handler returns.
fn send_for_later(_: &mut libc::sigset_t) {
    page().release();
    let signal = UNMASKED.load(SeqCst);
    change_mask(libc::SIG_BLOCK, &[signal]);
    raise(signal);
}

fn send_now(_: &mut libc::sigset_t) {
    page().release();
    raise(UNMASKED.load(SeqCst));
}

fn never(_: &mut libc::sigset_t) {
    unreachable!("one fault only");
}

/// Installs the handlers for each signal and runs `check`.
fn for_each(check: impl Fn(usize)) {
    install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
    for signal in UNMASKABLE {
        UNMASKED.store(signal, SeqCst);
        // The kernel delivers SIGHUP before SIGABRT if both are pending.
        install(libc::SIGHUP, look);
        install(signal, look);
        check(signal as usize);
        assert!(!is_blocked(libc::SIGHUP) && !is_blocked(signal));
        signal::uninstall(signal).expect("installed");
    }
}

const HUP: usize = libc::SIGHUP as usize;

/// Blocks signals and sends them.
fn hold(signals: &[i32]) {
    change_mask(libc::SIG_BLOCK, signals);
    signals.iter().copied().for_each(raise);
}

/// Whichever signal the kernel delivers first, the other one arrives at the first instruction of
/// its delivery.
fn both_at_once() -> Vec<usize> {
    hold(&[libc::SIGHUP, UNMASKED.load(SeqCst)]);
    run(let_both_in, never)
}

/// Once for each of the six signals, as in every test that calls `for_each`.
#[test]
fn both_at_once_find_the_sequence_done() {
    in_fresh_process(this_test!(), || {
        for_each(|signal| {
            assert_eq!(
                both_at_once(),
                [signal, 2, 1, 1, 1, HUP, 0, 1, 1, 1],
                "the signal that cannot be deferred is handled first"
            );
        });
    });
}

#[test]
fn control_without_noticing_deliveries_one_finds_it_half_done() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::NESTED) };
        UNMASKED.store(libc::SIGABRT, SeqCst);
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install(libc::SIGHUP, look);
        install(libc::SIGABRT, look);
        let abort = libc::SIGABRT as usize;
        assert_eq!(both_at_once()[..5], [abort, 0, 1, 0, 0]);
    });
}

/// A map of one entry.
type One = Map<usize, usize, 1>;

/// The key and value of that entry.
const KEY: usize = 7;
const STORED: usize = 42;

/// Returns a map whose third word is the entry's key and whose fourth word, on the faulting page,
/// is its value.
fn map() -> &'static One {
    let map = page().words(3).cast::<One>();
    // SAFETY: zeros are an empty map; one thread and its handlers use it, as a map is meant to be
    // used.
    unsafe { &*map }
}

/// Logs the signal, what the library reports as interrupted, and the key's value in the map, or
/// 1000 if the key is absent.
fn find(event: &mut Event<'_>) {
    log(event.signal() as usize);
    log(match event.interrupted() {
        Interrupted::Plain => 0,
        Interrupted::RolledForward => 2,
        _ => 3,
    });
    log(map().get(KEY).unwrap_or(1000));
}

/// Inserts the entry. Both signals arrive when the key is stored and the value is not. Returns what
/// their handlers logged.
fn put_and_interrupt(put: fn(&One)) -> Vec<usize> {
    FAULTS.store(0, SeqCst);
    clear_log();
    HANDLERS[0].store(let_both_in as fn(&mut libc::sigset_t) as usize, SeqCst);
    HANDLERS[1].store(never as fn(&mut libc::sigset_t) as usize, SeqCst);
    page().release();
    // SAFETY: the words of the map, which nothing uses now.
    unsafe { page().words(3).write_bytes(0, size_of::<One>() / 8) };
    hold(&[libc::SIGHUP, UNMASKED.load(SeqCst)]);
    page().interrupt_store(0);
    put(map());
    assert_eq!(FAULTS.load(SeqCst), 1);
    assert_eq!(map().get(KEY), Some(STORED));
    logged()
}

const PUTS: [fn(&One); 2] = [
    |map| assert_eq!(map.insert(KEY, STORED).ok(), Some(None)),
    |map| assert!(map.add(KEY, STORED).is_ok()),
];

/// Twice for each signal.
#[test]
fn both_at_once_find_in_a_map_what_was_stored() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        for signal in UNMASKABLE {
            UNMASKED.store(signal, SeqCst);
            install(libc::SIGHUP, find);
            install(signal, find);
            for put in PUTS {
                assert_eq!(
                    put_and_interrupt(put),
                    [signal as usize, 2, STORED, HUP, 0, STORED]
                );
            }
            signal::uninstall(signal).expect("installed");
        }
    });
}

#[test]
fn control_without_noticing_deliveries_one_finds_in_a_map_what_was_never_stored() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::NESTED) };
        UNMASKED.store(libc::SIGABRT, SeqCst);
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install(libc::SIGHUP, find);
        install(libc::SIGABRT, find);
        for put in PUTS {
            assert_eq!(put_and_interrupt(put)[..3], [libc::SIGABRT as usize, 0, 0]);
        }
    });
}

/// In the clone: the unmaskable signal is deferred to the end of the clone, and its handler runs
/// before the other one's.
#[test]
fn in_the_clone_it_waits_for_the_sequence() {
    in_fresh_process(this_test!(), || {
        for_each(|signal| {
            hold(&[libc::SIGHUP]);
            assert_eq!(
                run(let_in, send_for_later),
                [signal, 0, 1, 1, 1, HUP, 2, 1, 1, 1]
            );
        });
    });
}

/// A library restores the entry that it found, over which another was installed meanwhile. The
/// handler below that entry is called, also for a signal that was deferred.
#[test]
fn what_has_waited_is_handled_as_the_entry_says_that_it_came_by() {
    in_fresh_process(this_test!(), || {
        const TRAP: i32 = libc::SIGTRAP;
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install_plainly(TRAP, lowest, 0, &[]);
        // Adopts the lowest handler; `repair` the one over it, by another entry.
        install(libc::SIGHUP, look);
        let first = install_over::<0>(TRAP);
        signal::repair();
        raise(TRAP);
        assert_eq!(logged(), [1000, 2000]);
        put_back(TRAP, &first);
        UNMASKED.store(TRAP, SeqCst);
        hold(&[libc::SIGHUP]);
        assert_eq!(run(let_in, send_for_later), [2000, HUP, 2, 1, 1, 1]);
    });
}

#[test]
fn in_the_handler_of_a_fault_in_the_clone_it_is_told_that_it_is_inside() {
    in_fresh_process(this_test!(), || {
        for_each(|signal| {
            hold(&[libc::SIGHUP]);
            assert_eq!(run(let_in, send_now), [signal, 3, HUP, 2, 1, 1, 1]);
        });
    });
}

#[test]
fn in_the_handler_of_a_fault_in_the_sequence_it_is_told_that_it_is_inside() {
    in_fresh_process(this_test!(), || {
        for_each(|signal| {
            assert_eq!(run(send_now, never), [signal, 3]);
            clear_log();
            raise(signal as i32);
            assert_eq!(
                logged(),
                [signal, 0, 1, 1, 1],
                "its handler ran exactly once"
            );
        });
    });
}

/// The fault's handler blocks nothing beyond what the interrupted code has blocked: only its return
/// ends it.
#[test]
fn after_the_handler_of_a_fault_has_returned_nothing_is_inside() {
    in_fresh_process(this_test!(), || {
        install_with(
            libc::SIGSEGV,
            |_| page().release(),
            Options::new().no_defer(),
        );
        install(libc::SIGABRT, look);
        install(libc::SIGHUP, |_| raise(libc::SIGABRT));
        page().interrupt(0);
        // SAFETY: three words of the page.
        unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
        let abort = libc::SIGABRT as usize;
        // From a deeper stack than the fault's.
        signal::with_kernel_mask(|| raise(libc::SIGABRT));
        raise(libc::SIGHUP);
        assert_eq!(logged(), [abort, 0, 1, 1, 1, abort, 0, 1, 1, 1]);
    });
}

/// A signal that can be blocked is deferred to the end of a sequence that has faulted, whatever the
/// fault's handler unblocks.
#[test]
fn a_handler_in_the_middle_of_a_sequence_lets_nothing_in() {
    in_fresh_process(this_test!(), || {
        install_with(
            libc::SIGSEGV,
            |event| {
                look(event);
                page().release();
                raise(libc::SIGHUP);
                log(1000);
            },
            Options::new().nesting(),
        );
        install(libc::SIGHUP, look);
        page().interrupt(0);
        // SAFETY: three words of the page.
        unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
        let fault = libc::SIGSEGV as usize;
        // It arrives at the faulting instruction when that handler returns.
        assert_eq!(logged(), [fault, 3, 1000, HUP, 2, 1, 1, 1]);
    });
}

/// The fault's handler unblocks a signal, for a time limit or for its own faults. Other signals
/// that it has blocked still show that it runs, also where the thread had blocked the managed ones
/// before. The C library's own signals stay unblocked, because other threads wait for them.
#[test]
fn a_handler_in_the_middle_of_a_sequence_may_unblock_a_signal() {
    in_fresh_process(this_test!(), || {
        fn fault(event: &mut Event<'_>) {
            change_mask(libc::SIG_UNBLOCK, &[UNMASKED.load(SeqCst)]);
            raise(libc::SIGABRT);
            log(event.signal() as usize);
            let reserved = kernel_mask() >> 31 & 3;
            log(reserved as usize);
            page().release();
        }
        install(libc::SIGHUP, look);
        install(libc::SIGABRT, look);
        change_mask(libc::SIG_BLOCK, &[libc::SIGHUP]);
        for options in [Options::new(), Options::new().no_defer()] {
            for unblocked in [libc::SIGSEGV, libc::SIGALRM] {
                install_with(libc::SIGSEGV, fault, options);
                UNMASKED.store(unblocked, SeqCst);
                clear_log();
                page().interrupt(0);
                // SAFETY: three words of the page.
                unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
                let (abort, fault) = (libc::SIGABRT as usize, libc::SIGSEGV as usize);
                assert_eq!(logged(), [abort, 3, fault, 0]);
            }
        }
        clear_log();
        raise(libc::SIGABRT);
        assert_eq!(
            logged()[..2],
            [libc::SIGABRT as usize, 0],
            "its handlers ran exactly once"
        );
    });
}

/// The C library's signals are not blocked where the clone faults either, although the delivery
/// that runs the clone has blocked them.
#[test]
fn the_handler_of_a_fault_in_the_clone_lets_the_c_library_s_signals_in() {
    in_fresh_process(this_test!(), || {
        fn note_mask(_: &mut libc::sigset_t) {
            log((kernel_mask() >> 31 & 3) as usize);
            page().release();
        }
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install(libc::SIGHUP, look);
        hold(&[libc::SIGHUP]);
        assert_eq!(run(let_in, note_mask), [0, HUP, 2, 1, 1, 1]);
    });
}

/// A sequence that a fault's handler has left by a jump is over: later deliveries do not report it.
#[test]
fn nothing_is_left_of_a_sequence_that_was_left_by_a_jump() {
    in_fresh_process(this_test!(), || {
        fn jump_back(_: &mut libc::sigset_t) {
            // SAFETY: `with_target` waits, and the frames between have nothing to drop.
            unsafe { jump::back() };
        }
        extern "C" fn in_the_sequence() {
            run(jump_back, never);
        }
        extern "C" fn in_the_clone() {
            run(let_in, jump_back);
        }
        for_each(|signal| {
            jump::with_target(in_the_sequence);
            page().release();
            raise(signal as i32);
            assert_eq!(logged(), [signal, 0, 1, 0, 0]);
            hold(&[libc::SIGHUP]);
            jump::with_target(in_the_clone);
            page().release();
            change_mask(libc::SIG_UNBLOCK, &[libc::SIGHUP]);
            // The abandoned delivery has not run its handler. The next one runs it.
            raise(signal as i32);
            let mut signals: Vec<usize> = logged().chunks(5).map(|entry| entry[0]).collect();
            signals.sort_unstable();
            assert_eq!(signals, [HUP, signal]);
            assert!(logged().chunks(5).all(|entry| entry[1..] == [0, 1, 0, 0]));
        });
    });
}

/// The fault's handler asks for no signal to be blocked. The signals that are blocked nevertheless
/// show that it was left.
#[test]
fn nothing_is_inside_after_a_jump_out_of_a_handler_that_blocks_nothing() {
    in_fresh_process(this_test!(), || {
        extern "C" fn fault() {
            page().interrupt(0);
            // SAFETY: three words of the page.
            unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
        }
        #[inline(never)]
        fn deeper(levels: usize) {
            let stack = std::hint::black_box([0u64; 512]);
            match levels {
                0 => raise(libc::SIGABRT),
                _ => deeper(levels - 1),
            }
            std::hint::black_box(&stack);
        }
        install_with(
            libc::SIGSEGV,
            // SAFETY: `with_target` waits, and the frames between have nothing to drop.
            |_| unsafe { jump::back() },
            Options::new().no_defer(),
        );
        install(libc::SIGABRT, look);
        jump::with_target(fault);
        page().release();
        deeper(20);
        assert_eq!(logged()[..2], [libc::SIGABRT as usize, 0]);
    });
}

/// The kernel reports a hardware memory error to a thread at any instruction, so no instruction of
/// a sequence has faulted. (An emulator of another architecture takes the report for a fault of its
/// own.)
#[test]
#[cfg(target_arch = "x86_64")]
fn a_broken_page_that_is_reported_late_is_no_fault_of_the_sequence() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install(libc::SIGHUP, look);
        install(libc::SIGBUS, look);
        UNMASKED.store(libc::SIGBUS, SeqCst);
        change_mask(libc::SIG_BLOCK, &[libc::SIGBUS]);
        verify_support::signals::queue_with_code(libc::SIGBUS, libc::BUS_MCEERR_AO);
        let bus = libc::SIGBUS as usize;
        assert_eq!(run(let_both_in, never), [bus, 2, 1, 1, 1]);
    });
}

/// A signal arrives at the first instruction of a fault's delivery. The sequence cannot be run to
/// its end, because it would repeat the fault, whose signal is blocked. (An emulator takes this
/// report for a fault of its own as well.)
#[test]
#[cfg(target_arch = "x86_64")]
fn before_the_delivery_of_a_fault_it_is_told_that_it_is_inside() {
    in_fresh_process(this_test!(), || {
        // The kernel calls the fault's entry first, and then interrupts that.
        fn send_both(_: &mut libc::sigset_t) {
            verify_support::signals::queue_with_code(libc::SIGSEGV, 2);
            hold(&[UNMASKED.load(SeqCst)]);
        }
        fn release(_: &mut libc::sigset_t) {
            page().release();
        }
        for_each(|signal| assert_eq!(run(send_both, release), [signal, 3], "{signal}"));
    });
}

/// Signals that wait for a delivery are the parent's alone, as pending signals are.
#[test]
fn a_child_gets_no_signal_that_waits_for_a_delivery() {
    in_fresh_process(this_test!(), || {
        static CHILD: AtomicI32 = AtomicI32::new(-1);
        fn send_both_for_later(_: &mut libc::sigset_t) {
            page().release();
            hold(&[libc::SIGABRT, libc::SIGBUS]);
        }
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install(libc::SIGHUP, |_| {});
        install(libc::SIGABRT, |event| {
            look(event);
            // SAFETY: the child only ends.
            CHILD.store(unsafe { libc::fork() }, SeqCst);
        });
        install(libc::SIGBUS, look);
        hold(&[libc::SIGHUP]);
        let handled: Vec<usize> = run(let_in, send_both_for_later)
            .chunks(5)
            .map(|entry| entry[0])
            .collect();
        let child = CHILD.load(SeqCst);
        if child == 0 {
            let is_right = handled == [libc::SIGABRT as usize];
            // SAFETY: ends the child.
            unsafe { libc::_exit(if is_right { 0 } else { 1 }) };
        }
        assert_eq!(handled, [libc::SIGABRT as usize, libc::SIGBUS as usize]);
        assert_eq!(code_of(child), 0);
    });
}

/// A signal that a mask defers does not complete the sequence that it interrupts. A signal that no
/// mask defers does.
#[test]
fn in_a_mask_the_sequence_is_whole_before_what_no_mask_holds_back() {
    in_fresh_process(this_test!(), || {
        for_each(|signal| {
            hold(&[libc::SIGHUP, signal as i32]);
            let guard = signal::mask();
            assert_eq!(run_masked(), [signal, 2, 1, 1, 1]);
            drop(guard);
            assert_eq!(logged()[5..], [HUP, 0, 1, 1, 1]);
        });
    });
    fn run_masked() -> Vec<usize> {
        run(let_both_in, never)
    }
}

/// To signals that interrupt the delivery that restarts it, a restarting sequence has not begun.
#[test]
fn a_restarting_sequence_starts_again_after_both() {
    in_fresh_process(this_test!(), || {
        fn add_ten(event: &mut Event<'_>) {
            log(event.signal() as usize);
            // SAFETY: a word of the page.
            unsafe { *page().words(1) += 10 };
        }
        extern "C" fn let_in(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: the context's set.
            let_both_in(unsafe { &mut *mask(context) });
        }
        install_plainly(libc::SIGSEGV, let_in, 0, &[]);
        for signal in UNMASKABLE {
            UNMASKED.store(signal, SeqCst);
            install(libc::SIGHUP, add_ten);
            install(signal, add_ten);
            clear_log();
            // SAFETY: two words of the page.
            unsafe {
                page().release();
                page().words(1).write_bytes(0, 2);
                *page().words(1).add(1) = 1;
                hold(&[libc::SIGHUP, signal]);
                page().interrupt(0);
                assert_eq!(
                    add_second_to_first::restarting(page().words(1) as usize),
                    20
                );
                assert_eq!(*page().words(1), 21);
            }
            assert_eq!(logged(), [signal as usize, HUP]);
            signal::uninstall(signal).expect("installed");
        }
    });
}
