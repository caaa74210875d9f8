//! Rollforward: a rolling sequence that a signal interrupts is run to its end before the handler.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::internals::table;
use atomseq::signal::{self, Event, Interrupted, Options};
use verify_signals::add_to_three;
use verify_support::jump;
use verify_support::pages::{Page, install_fault_handler, mask, program_counter};
use verify_support::processes::{
    Written, code_of, in_child, in_fresh_process, killed_in_fresh_process,
};
use verify_support::signals::{
    change_mask, install, install_plainly, install_with, is_blocked, raise,
};
use verify_support::this_test;

static WORDS: AtomicUsize = AtomicUsize::new(0);
static SEEN: [AtomicUsize; 3] = [const { AtomicUsize::new(usize::MAX) }; 3];
static HOW: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Records the words as it finds them, and adds ten to each.
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
        // SAFETY: the test's three words; no other thread changes them.
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

/// Interrupts at the store to the word with this index, which the sequence has already loaded.
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
    three(words)
}

/// Returns the three words.
fn three(words: *mut usize) -> [usize; 3] {
    // SAFETY: three words of a test's.
    unsafe { words.cast::<[usize; 3]>().read() }
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
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::ROLLFORWARD) };
        assert_eq!(
            interrupt_at(1, 99),
            [11, 1, 11],
            "what the handler added to the second is lost"
        );
        assert_eq!(seen(), [1, 0, 0]);
    });
}

#[test]
fn at_every_store() {
    in_fresh_process(this_test!(), || {
        for index in 0..3 {
            assert_eq!(interrupt_at(index, 99), [11, 11, 11]);
            assert_eq!(seen(), [1, 1, 1], "at {index}");
            assert_eq!(how(), [0, 0, index + 1, 0]);
        }
    });
}

#[test]
fn an_early_return_taken_in_the_clone_is_a_return_of_the_original() {
    in_fresh_process(this_test!(), || {
        install_fault_handler();
        install(libc::SIGUSR1, look);
        let page = Page::new();
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        page.interrupt(libc::SIGUSR1);
        // SAFETY: three words of the test's; the second is 0, which is where it stops.
        let result = unsafe { add_to_three::rolling(words as usize, 0) };
        assert_eq!((result, seen(), how()), (0, [1, 0, 0], [0, 0, 1, 0]));
        assert_eq!(three(words), [11, 10, 10]);
        assert!(!is_blocked(libc::SIGUSR1));
    });
}

/// Interrupts at the second word while the program blocks `signals`, and checks that they stay
/// blocked.
fn with_blocked(signals: &[i32]) {
    change_mask(libc::SIG_BLOCK, signals);
    assert_eq!(interrupt_at(1, 99), [11, 11, 11]);
    assert_eq!(seen(), [1, 1, 1]);
    for &signal in signals {
        assert!(is_blocked(signal));
    }
}

#[test]
fn what_the_program_has_blocked_stays_blocked() {
    in_fresh_process(this_test!(), || with_blocked(&[libc::SIGILL, libc::SIGHUP]));
}

#[test]
fn the_handler_runs_under_the_mask_it_asked_for() {
    in_fresh_process(this_test!(), || {
        static BLOCKED: [AtomicUsize; 3] = [const { AtomicUsize::new(9) }; 3];
        fn ask(event: &mut Event<'_>) {
            look(event);
            for (blocked, signal) in
                BLOCKED
                    .iter()
                    .zip([libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP])
            {
                blocked.store(usize::from(is_blocked(signal)), SeqCst);
            }
        }
        install_fault_handler();
        install(libc::SIGUSR2, look);
        let page = Page::new();
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        for (options, expected) in [
            (Options::new(), [1, 1, 0]),
            (Options::new().nesting(), [1, 0, 0]),
            (Options::new().no_defer(), [0, 1, 0]),
            (Options::new().nesting().no_defer(), [0, 0, 0]),
            (Options::new().blocking(libc::SIGHUP), [1, 1, 1]),
        ] {
            install_with(libc::SIGUSR1, ask, options);
            page.interrupt(libc::SIGUSR1);
            let before = how();
            // SAFETY: three words of the test's.
            unsafe { add_to_three::rolling(words as usize, usize::MAX) };
            assert_eq!(how()[2], before[2] + 1);
            assert_eq!(
                BLOCKED.each_ref().map(|blocked| blocked.load(SeqCst)),
                expected,
                "{options:?}"
            );
            for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP] {
                assert!(!is_blocked(signal));
            }
        }
    });
}

/// A second page and a second set of words, for sequences in handlers.
static INNER: std::sync::OnceLock<Page> = std::sync::OnceLock::new();

#[test]
fn a_handler_that_uses_sequences_is_rolled_forward_itself() {
    in_fresh_process(this_test!(), || {
        fn outer(event: &mut Event<'_>) {
            look(event);
            let inner = INNER.get().expect("made").words(1);
            WORDS.store(inner as usize, SeqCst);
            INNER.get().expect("made").interrupt(libc::SIGUSR2);
            // SAFETY: three words of the test's.
            unsafe { add_to_three::rolling(inner as usize, 99) };
            // What the inner handler has seen.
            assert_eq!(seen(), [1, 1, 1]);
        }
        install_fault_handler();
        install_with(libc::SIGUSR1, outer, Options::new().nesting());
        install(libc::SIGUSR2, look);
        INNER.get_or_init(Page::new);
        let page = Page::new();
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        page.interrupt(libc::SIGUSR1);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words as usize, 99) };
        assert_eq!(how(), [0, 0, 2, 0]);
        assert_eq!(three(words), [11, 11, 11]);
        assert_eq!(signal::statistics().rollforwards, 2);
        assert!(!is_blocked(libc::SIGUSR1) && !is_blocked(libc::SIGUSR2));
    });
}

#[test]
fn a_signal_during_a_rollforward_comes_after_it() {
    in_fresh_process(this_test!(), || {
        extern "C" fn send_another(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            static FAULTS: AtomicUsize = AtomicUsize::new(0);
            // The first fault is in the original: unblocks USR1. The second one is in the clone.
            if FAULTS.fetch_add(1, SeqCst) == 0 {
                // SAFETY: the context's set.
                unsafe { libc::sigdelset(mask(context), libc::SIGUSR1) };
            } else {
                raise(libc::SIGUSR2);
                INNER.get().expect("made").release();
            }
        }
        install_plainly(libc::SIGSEGV, send_another, 0, &[]);
        install(libc::SIGUSR1, look);
        install(libc::SIGUSR2, look);
        change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        raise(libc::SIGUSR1);
        let page = INNER.get_or_init(Page::new);
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        page.interrupt(0);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words as usize, 99) };
        assert_eq!(
            how(),
            [1, 0, 1, 0],
            "the second one interrupts no sequence any more"
        );
        assert_eq!(seen(), [11, 11, 11], "its handler ran second");
        assert_eq!(signal::statistics().faults, 1);
    });
}

/// The delivery has the signal blocked.
#[test]
fn a_signal_that_becomes_managed_during_a_rollforward_comes_after_it() {
    in_fresh_process(this_test!(), || becomes_managed_during_a_rollforward(0));
}

/// It arrives in the clone, as in a delivery whose entry was called by a handler of others, and is
/// deferred.
#[test]
fn control_with_less_blocked_it_is_deferred() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::FOREIGN) };
        becomes_managed_during_a_rollforward(1);
    });
}

fn becomes_managed_during_a_rollforward(deferrals: u64) {
    extern "C" fn let_in(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        static FAULTS: AtomicUsize = AtomicUsize::new(0);
        if FAULTS.fetch_add(1, SeqCst) == 0 {
            // SAFETY: the context's set.
            unsafe { libc::sigdelset(mask(context), libc::SIGUSR1) };
        } else {
            // The fault did not interrupt an allocator, so its handler may do this.
            change_mask(libc::SIG_BLOCK, &[libc::SIGUSR2]);
            install(libc::SIGUSR2, look);
            raise(libc::SIGUSR2);
            INNER.get().expect("made").release();
        }
    }
    install_plainly(libc::SIGSEGV, let_in, 0, &[]);
    install(libc::SIGUSR1, look);
    change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    raise(libc::SIGUSR1);
    let page = INNER.get_or_init(Page::new);
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(0);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    assert_eq!(how(), [1, 0, 1, 0]);
    assert_eq!(signal::statistics().deferrals, deferrals);
    assert_eq!(seen(), [11, 11, 11], "its handler ran second");
    assert!(!is_blocked(libc::SIGUSR1) && !is_blocked(libc::SIGUSR2));
}

/// The program counters that a fault's handler received.
static PLACES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static PLACED: AtomicUsize = AtomicUsize::new(0);

/// Unblocks USR1 at the first fault, in the original; calls `second` at the second fault, in the
/// clone.
fn fault_in_the_clone(second: extern "C" fn(*mut libc::c_void)) -> [usize; 3] {
    static SECOND: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let place = PLACED.fetch_add(1, SeqCst);
        // SAFETY: the kernel's context, or what atomseq made of it.
        PLACES[place.min(1)].store(unsafe { *program_counter(context) }, SeqCst);
        if place == 0 {
            // SAFETY: the context's set.
            unsafe { libc::sigdelset(mask(context), libc::SIGUSR1) };
        } else {
            // SAFETY: stored below.
            let second: extern "C" fn(*mut libc::c_void) =
                unsafe { std::mem::transmute(SECOND.load(SeqCst)) };
            second(context);
        }
    }
    SECOND.store(second as *const () as usize, SeqCst);
    install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
    install(libc::SIGUSR1, look);
    change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    raise(libc::SIGUSR1);
    let page = INNER.get_or_init(Page::new);
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(0);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    three(words)
}

extern "C" fn repair(_context: *mut libc::c_void) {
    INNER.get().expect("made").release();
}

#[test]
fn a_fault_in_the_clone_is_reported_in_the_original_and_then_the_clone_goes_on() {
    in_fresh_process(this_test!(), || {
        assert_eq!(fault_in_the_clone(repair), [11, 11, 11]);
        assert_eq!((seen(), how()), ([1, 1, 1], [0, 0, 1, 0]));
        let places = PLACES.each_ref().map(|place| place.load(SeqCst));
        assert_eq!(
            places[0], places[1],
            "the same instruction, as the handler sees it"
        );
        assert!(table::find(places[1]).is_some());
    });
}

#[test]
fn control_without_mapping_it_is_reported_in_the_clone() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::MAPPING) };
        fault_in_the_clone(repair);
        let places = PLACES.each_ref().map(|place| place.load(SeqCst));
        assert!(table::find(places[1]).is_none() && table::find_clone(places[1]).is_some());
        // The conversion that a handler which uses atomseq can make.
        assert_eq!(signal::original_pc(places[1]), places[0]);
        assert_eq!(signal::original_pc(places[0]), places[0]);
    });
}

#[test]
fn a_fault_s_handler_that_goes_elsewhere_leaves_the_sequence_and_the_signal_is_delivered() {
    in_fresh_process(this_test!(), || {
        extern "C" fn leave(context: *mut libc::c_void) {
            INNER.get().expect("made").release();
            // SAFETY: the kernel's context. The new address is the end of the sequence, where every
            // register is as the compiler expects it.
            unsafe {
                let pc = program_counter(context);
                *pc = table::find(*pc).expect("reported in the original").end;
            }
        }
        assert_eq!(
            fault_in_the_clone(leave),
            [11, 10, 10],
            "the rest of the sequence was not done"
        );
        assert_eq!((seen(), how()), ([1, 0, 0], [1, 0, 0, 0]));
        assert!(!is_blocked(libc::SIGUSR1));
        assert_eq!(rolled_forward_again(), [1, 1, 1]);
    });
}

/// Runs another rollforward: nothing is left of an earlier one. Returns its words.
fn rolled_forward_again() -> [usize; 3] {
    install_fault_handler();
    signal::repair();
    let page = Page::new();
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(libc::SIGUSR1);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    assert!(!is_blocked(libc::SIGUSR1));
    seen()
}

/// Jumps out of a fault's handler in a clone.
fn jump_out(second: extern "C" fn(*mut libc::c_void)) {
    static SECOND: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn body() {
        // SAFETY: stored below.
        fault_in_the_clone(unsafe {
            std::mem::transmute::<usize, extern "C" fn(*mut libc::c_void)>(SECOND.load(SeqCst))
        });
        unreachable!("the handler jumps out");
    }
    SECOND.store(second as *const () as usize, SeqCst);
    jump::with_target(body);
    INNER.get().expect("made").release();
}

#[test]
fn siglongjmp_out_of_a_clone_delivers_the_signal_that_waited() {
    in_fresh_process(this_test!(), || {
        extern "C" fn jump(_: *mut libc::c_void) {
            repair(std::ptr::null_mut());
            // SAFETY: `with_target` is still there; between are only frames without anything to
            // drop.
            unsafe { signal::siglongjmp(jump::environment(), 1) };
        }
        jump_out(jump);
        assert_eq!((seen(), how()), ([1, 0, 0], [1, 0, 0, 0]));
        assert!(!is_blocked(libc::SIGUSR1));
        assert_eq!(rolled_forward_again(), [1, 1, 1]);
    });
}

#[test]
fn control_a_plain_jump_leaves_the_signal_waiting_for_ever() {
    in_fresh_process(this_test!(), || {
        extern "C" fn jump(_: *mut libc::c_void) {
            repair(std::ptr::null_mut());
            // SAFETY: `with_target` is still there, and no frame in between has anything to drop;
            // that the rollforward is left in progress is what this test checks.
            unsafe { jump::back() };
        }
        jump_out(jump);
        assert_eq!(how(), [0; 4]);
        // It can still be abandoned explicitly.
        assert!(signal::abandon_rollforward());
        assert!(!signal::abandon_rollforward());
        assert_eq!(how(), [1, 0, 0, 0]);
    });
}

#[test]
fn a_fault_in_the_sequence_itself_passes_straight_through() {
    in_fresh_process(this_test!(), || {
        fn on_fault(event: &mut Event<'_>) {
            look_at(event);
            INNER.get().expect("made").release();
        }
        fn look_at(event: &mut Event<'_>) {
            HOW[usize::from(event.interrupted() == Interrupted::Inside)].fetch_add(1, SeqCst);
            assert!(table::find(event.original_pc()).is_some());
        }
        install(libc::SIGSEGV, on_fault);
        let page = INNER.get_or_init(Page::new);
        let words = page.words(1);
        page.interrupt(0);
        let guard = signal::mask();
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words as usize, 99) };
        drop(guard);
        assert_eq!(how()[1], 1);
        assert_eq!(three(words), [1, 1, 1]);
    });
}

#[test]
fn a_clone_that_only_faults_is_given_up_with_a_report() {
    let report = in_fresh_process(this_test!(), || {
        signal::set_rollforward_limit(std::time::Duration::from_millis(20));
        install_fault_handler();
        install(libc::SIGUSR1, give_way);
        fn give_way(event: &mut Event<'_>) {
            look_elsewhere(event);
            INNER.get().expect("made").release();
        }
        let page = INNER.get_or_init(Page::new);
        let words = page.words(1);
        let started = std::time::Instant::now();
        page.interrupt_again(libc::SIGUSR1, i32::MAX);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words as usize, 99) };
        assert!(started.elapsed() >= std::time::Duration::from_millis(20));
        assert_eq!(
            how(),
            [0, 0, 0, 1],
            "the handler learns that it runs inside"
        );
        assert_eq!(three(words), [1, 1, 1], "the sequence went on");
        let statistics = signal::statistics();
        assert_eq!((statistics.abandoned, statistics.rollforwards), (1, 0));
        assert!(statistics.faults > 1);
        assert!(!is_blocked(libc::SIGUSR1));
    });
    if let Some(Written { errors, .. }) = report {
        assert!(
            errors.contains("kept faulting for over 20 ms and was abandoned; signal 10"),
            "{errors}"
        );
    }
}

fn look_elsewhere(event: &mut Event<'_>) {
    HOW[if event.interrupted() == Interrupted::Inside {
        3
    } else {
        0
    }]
    .fetch_add(1, SeqCst);
}

#[test]
fn control_without_the_watchdog_it_faults_for_ever() {
    killed_in_fresh_process(this_test!(), libc::SIGALRM, || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::WATCHDOG) };
        signal::set_rollforward_limit(std::time::Duration::from_millis(20));
        install_fault_handler();
        install(libc::SIGUSR1, |_| INNER.get().expect("made").release());
        let page = INNER.get_or_init(Page::new);
        // SAFETY: no memory involved.
        unsafe { libc::alarm(1) };
        page.interrupt_again(libc::SIGUSR1, i32::MAX);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(page.words(1) as usize, 99) };
        unreachable!("it faults until the alarm");
    });
}

#[test]
fn a_child_of_a_fork_finishes_the_sequence_without_the_signal() {
    in_fresh_process(this_test!(), || {
        extern "C" fn fork_here(context: *mut libc::c_void) {
            INNER.get().expect("made").release();
            let _ = context;
            // SAFETY: forks; the child continues as this process does.
            CHILD.store(unsafe { libc::fork() } as usize, SeqCst);
        }
        static CHILD: AtomicUsize = AtomicUsize::new(usize::MAX);
        let words = fault_in_the_clone(fork_here);
        match CHILD.load(SeqCst) as i32 {
            0 => {
                let correct = words == [1, 1, 1] && how() == [0; 4] && !is_blocked(libc::SIGUSR1);
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(!correct)) };
            }
            child => assert_eq!(
                code_of(child),
                0,
                "the child has done the sequence, and handled nothing"
            ),
        }
        assert_eq!((words, how()), ([11, 11, 11], [0, 0, 1, 0]));
        in_child(|| assert_eq!(rolled_forward_again(), [1, 1, 1]));
    });
}

/// The stack address at which `look` runs.
static PLACE: AtomicUsize = AtomicUsize::new(0);

fn look_where(event: &mut Event<'_>) {
    look(event);
    PLACE.store((&raw const event).addr(), SeqCst);
}

#[test]
fn handlers_stay_on_the_stack_they_asked_for() {
    in_fresh_process(this_test!(), || {
        let stack = alternate_stack();
        install_fault_handler();
        install(libc::SIGUSR1, look_where);
        install_with(
            libc::SIGUSR2,
            look_where,
            Options::new().on_alternate_stack(32 << 10),
        );
        let page = Page::new();
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        for (signal, there) in [(libc::SIGUSR1, false), (libc::SIGUSR2, true)] {
            let rollforwards = signal::statistics().rollforwards;
            // SAFETY: three words of the test's.
            unsafe {
                words.write_bytes(0, 3);
                page.interrupt(signal);
                add_to_three::rolling(words as usize, 99);
            }
            assert_eq!(seen(), [1, 1, 1]);
            assert_eq!(stack.contains(&PLACE.load(SeqCst)), there);
            assert_eq!(signal::statistics().rollforwards, rollforwards + 1);
            assert!(!is_blocked(signal));
        }
    });
}

#[test]
fn nested_on_the_alternate_stack() {
    in_fresh_process(this_test!(), || {
        fn outer(event: &mut Event<'_>) {
            look_where(event);
            let inner = INNER.get().expect("made").words(1);
            WORDS.store(inner as usize, SeqCst);
            INNER.get().expect("made").interrupt(libc::SIGUSR2);
            // SAFETY: three words of the test's.
            unsafe { add_to_three::rolling(inner as usize, 99) };
            assert_eq!(seen(), [1, 1, 1]);
        }
        let stack = alternate_stack();
        install_fault_handler();
        let options = Options::new().on_alternate_stack(32 << 10);
        install_with(libc::SIGUSR1, outer, options.nesting());
        install_with(libc::SIGUSR2, look_where, options);
        INNER.get_or_init(Page::new);
        let page = Page::new();
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        page.interrupt(libc::SIGUSR1);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words as usize, 99) };
        assert_eq!(how(), [0, 0, 2, 0]);
        assert!(stack.contains(&PLACE.load(SeqCst)));
        assert_eq!(three(words), [11, 11, 11]);
    });
}

/// Gives this thread an alternate stack; returns its address range.
fn alternate_stack() -> std::ops::Range<usize> {
    let memory = Box::leak(vec![0u8; 256 << 10].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: memory.len(),
    };
    // SAFETY: memory that is never freed.
    let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
    assert_eq!(result, 0);
    let start = memory.as_ptr() as usize;
    start..start + memory.len()
}

const NUMBER: u64 = 0x1234_5678_9abc_def0;

/// Rolls `add_to_three` forward with `NUMBER` in a vector register; returns the register
/// afterwards.
fn with_a_vector_register(words: *mut usize) -> u64 {
    let after: u64;
    // SAFETY: the registers used are declared as changed, or are C's to change; three words of the
    // test's.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "movq xmm0, rcx",
            "call {roll}",
            "movq rax, xmm0",
            roll = sym roll,
            in("rcx") NUMBER,
            in("rdi") words,
            lateout("rax") after,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "fmov d0, x9",
            "bl {roll}",
            "fmov x0, d0",
            roll = sym roll,
            in("x9") NUMBER,
            inlateout("x0") words as u64 => after,
            clobber_abi("C"),
        );
    }
    extern "C" fn roll(words: usize) {
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(words, 99) };
    }
    after
}

/// Uses vector registers in a handler.
fn use_vector_registers() {
    // SAFETY: registers that C may change.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("pxor xmm0, xmm0", out("xmm0") _);
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("movi v0.2d, #0", out("v0") _);
    }
}

#[test]
fn vector_registers_are_the_thread_s_after_a_rollforward() {
    in_fresh_process(this_test!(), || {
        install_fault_handler();
        install(libc::SIGUSR1, |event| {
            use_vector_registers();
            look(event);
        });
        let page = Page::new();
        let words = page.words(1);
        WORDS.store(words as usize, SeqCst);
        page.interrupt(libc::SIGUSR1);
        assert_eq!(with_a_vector_register(words), NUMBER);
        assert_eq!((seen(), how()), ([1, 1, 1], [0, 0, 1, 0]));
    });
}

#[test]
fn vector_registers_are_the_thread_s_after_one_that_was_given_up() {
    in_fresh_process(this_test!(), || {
        signal::set_rollforward_limit(std::time::Duration::from_millis(5));
        install_fault_handler();
        install(libc::SIGUSR1, |event| {
            use_vector_registers();
            look_elsewhere(event);
            INNER.get().expect("made").release();
        });
        let page = INNER.get_or_init(Page::new);
        page.interrupt_again(libc::SIGUSR1, i32::MAX);
        assert_eq!(with_a_vector_register(page.words(1)), NUMBER);
        assert_eq!(how(), [0, 0, 0, 1]);
        assert_eq!(three(page.words(1)), [1, 1, 1]);
    });
}

/// Lets a fault's handler leave the sequence; returns the vector register afterwards.
fn left_with_a_vector_register() -> u64 {
    extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        static FAULTS: AtomicUsize = AtomicUsize::new(0);
        use_vector_registers();
        // SAFETY: the kernel's context; the end of the sequence is where every register is as the
        // compiler expects it.
        unsafe {
            if FAULTS.fetch_add(1, SeqCst) == 0 {
                libc::sigdelset(mask(context), libc::SIGUSR1);
            } else {
                INNER.get().expect("made").release();
                let pc = program_counter(context);
                *pc = table::find(*pc).expect("reported in the original").end;
            }
        }
    }
    install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
    install(libc::SIGUSR1, look);
    let page = INNER.get_or_init(Page::new);
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(libc::SIGUSR1);
    let after = with_a_vector_register(words);
    assert_eq!((seen(), how()), ([1, 0, 0], [1, 0, 0, 0]));
    assert!(!is_blocked(libc::SIGUSR1));
    after
}

#[test]
fn vector_registers_are_the_thread_s_after_a_fault_s_handler_went_elsewhere() {
    in_fresh_process(this_test!(), || {
        assert_eq!(left_with_a_vector_register(), NUMBER)
    });
}

/// The compiler decides whether the handler that runs the clone has used the register by then;
/// unoptimized code for x86-64 has.
#[cfg(all(target_arch = "x86_64", debug_assertions))]
#[test]
fn control_when_the_outer_handler_is_skipped_they_are_that_handler_s() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::OUTER_HANDLER) };
        assert_ne!(left_with_a_vector_register(), NUMBER);
    });
}
