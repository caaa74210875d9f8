//! Restart: a restartable sequence that a signal interrupts restarts from its first instruction.
//! The trap flag stops at each instruction.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use atomseq::internals::{signal_controls, table};
use atomseq::signal::{self, Event, Interrupted};
use verify_signals::add_second_to_first;
use verify_support::pages::{Page, mask, program_counter};
use verify_support::processes::in_fresh_process;
use verify_support::signals::{change_mask, install, install_plainly, is_blocked, raise};
use verify_support::this_test;
use verify_support::timers::Timer;

static WORDS: AtomicUsize = AtomicUsize::new(0);
static HOW: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Adds ten to both words.
fn add_ten(event: &mut Event<'_>) {
    HOW[match event.interrupted() {
        Interrupted::Plain => 0,
        Interrupted::Restarted => 1,
        _ => 2,
    }]
    .fetch_add(1, SeqCst);
    for index in 0..2 {
        // SAFETY: the test's two words.
        unsafe {
            let word = (WORDS.load(SeqCst) as *mut usize).add(index);
            word.write_volatile(word.read_volatile() + 10);
        }
    }
}

fn how() -> [usize; 3] {
    HOW.each_ref().map(|count| count.load(SeqCst))
}

/// The number of instructions strictly inside a sequence still to pass.
static PASS_BY: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// A debugger's handler: single-steps, and sends `USR1` at the chosen instruction.
extern "C" fn step(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    const TRAP_FLAG: i64 = 0x100;
    // SAFETY: the kernel's record and context.
    unsafe {
        let flags =
            &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize];
        if (*info).si_code <= 0 {
            *flags |= TRAP_FLAG;
        } else if table::find(*program_counter(context)).is_some()
            && PASS_BY.fetch_sub(1, SeqCst) == 0
        {
            *flags &= !TRAP_FLAG;
            libc::sigdelset(mask(context), libc::SIGUSR1);
            STOPPED.store(true, SeqCst);
        }
    }
}

/// Stops stepping, unless the sequence has ended and cleared the trap flag already.
fn stop_stepping() {
    // SAFETY: clears the flag; the stack is left as it was.
    unsafe {
        std::arch::asm!("pushfq", "and qword ptr [rsp], {mask}", "popfq", mask = const !0x100i32);
    }
}

/// Interrupts at the instruction with this index among those strictly inside. Returns the
/// sequence's result and the words, or `None` if it has fewer instructions.
fn interrupt_at(index: usize) -> Option<(usize, [usize; 2])> {
    let mut words = [1usize, 2];
    WORDS.store(words.as_mut_ptr() as usize, SeqCst);
    STOPPED.store(false, SeqCst);
    PASS_BY.store(index, SeqCst);
    change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    raise(libc::SIGUSR1);
    raise(libc::SIGTRAP);
    // SAFETY: two words of this function's.
    let result = unsafe { add_second_to_first::restarting(words.as_mut_ptr() as usize) };
    stop_stepping();
    let stopped = STOPPED.load(SeqCst);
    change_mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
    assert!(!is_blocked(libc::SIGUSR1));
    stopped.then_some((result, words))
}

fn prepare() {
    install_plainly(libc::SIGTRAP, step, 0, &[]);
    install(libc::SIGUSR1, add_ten);
}

#[test]
fn at_every_instruction() {
    in_fresh_process(this_test!(), || {
        prepare();
        let mut instructions = 0;
        while let Some(outcome) = interrupt_at(instructions) {
            // As if the handler had run before: 11 + 12.
            assert_eq!(outcome, (11, [23, 12]), "at {instructions}");
            instructions += 1;
            assert_eq!(how(), [0, instructions, 0]);
        }
        assert!(instructions >= 2, "{instructions}");
        assert_eq!(signal::statistics().restarts as usize, instructions);
    });
}

#[test]
fn control_without_the_restart_an_update_is_lost() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::RESTART) };
        prepare();
        assert_ne!(interrupt_at(0).expect("an instruction"), (11, [23, 12]));
    });
}

#[test]
fn after_a_fault_it_starts_again() {
    in_fresh_process(this_test!(), || {
        static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
        // A fault's handler that changes a word that the sequence has already loaded.
        fn change_and_repair(event: &mut Event<'_>) {
            assert_eq!(event.interrupted(), Interrupted::Inside);
            PAGE.get().expect("made").release();
            // SAFETY: the test's words, the second of which can be touched again.
            unsafe { (WORDS.load(SeqCst) as *mut usize).write_volatile(100) };
        }
        install(libc::SIGSEGV, change_and_repair);
        let words = PAGE.get_or_init(Page::new).words(1);
        WORDS.store(words as usize, SeqCst);
        // SAFETY: two words of the test's.
        unsafe {
            words.write(1);
            words.add(1).write(2);
            PAGE.get().expect("made").interrupt(0);
            assert_eq!(add_second_to_first::restarting(words as usize), 100);
            assert_eq!(words.read(), 102);
        }
    });
}

/// A timer interrupts a loop of sequences, and every addition of the handler and of the loop
/// counts.
#[test]
fn a_storm_loses_nothing() {
    in_fresh_process(this_test!(), || {
        fn add(_: &mut Event<'_>) {
            // SAFETY: the test's words, which the handler changes by the same sequence as the
            // thread.
            unsafe { add_second_to_first::restarting(WORDS.load(SeqCst)) };
            HOW[0].fetch_add(1, SeqCst);
        }
        install(libc::SIGUSR1, add);
        let mut words = [0usize, 1];
        WORDS.store(words.as_mut_ptr() as usize, SeqCst);
        let timer = Timer::start(libc::SIGUSR1, Duration::from_micros(50)).expect("a timer");
        let mut own = 0;
        while own < 5_000_000 || signal::statistics().restarts < 20 {
            // SAFETY: two words of the test's.
            unsafe { add_second_to_first::restarting(words.as_mut_ptr() as usize) };
            own += 1;
        }
        drop(timer);
        let theirs = HOW[0].load(SeqCst);
        println!(
            "{own} additions, {theirs} in handlers, {} restarts",
            signal::statistics().restarts
        );
        // SAFETY: written by assembly, behind the compiler's back.
        assert_eq!(unsafe { words.as_ptr().read_volatile() }, own + theirs);
    });
}
