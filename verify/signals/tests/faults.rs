//! Faults that the program repairs: traps in the clone of a sequence, faults in a clone, and faults
//! while atomseq has most signals blocked.
//!
//! A fault in a clone finds its signal unblocked, whatever the mask of the entry that runs the
//! clone; a blocked fault would kill the process. Here handlers of others block the faults'
//! signals, and other code changes the handler that atomseq installed, restores an older one, or
//! passes signals on.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event, Fault, Finding};
use verify_signals::{add_to_three, log, logged, note};
use verify_support::pages::Page;
use verify_support::processes::{
    code_of_child, in_child, in_fresh_process, killed_in_fresh_process,
};
use verify_support::signals::{
    FAULTS, Three, change_mask, findings, install, install_plainly, installed, kernel_mask,
    put_back, raise, set,
};
use verify_support::this_test;

static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
/// The number of faults, and of runs of the signal's handler.
static REPAIRED: AtomicUsize = AtomicUsize::new(0);
static ARRIVED: AtomicUsize = AtomicUsize::new(0);

/// A program that single-steps itself finds the same address of a trap in the record and in the
/// context, also while a clone runs.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_clone_s_trap_is_recorded_where_the_sequence_would_have_had_it() {
    use verify_signals::add_to_three;
    use verify_support::pages::program_counter;
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    static SEND_AT: AtomicUsize = AtomicUsize::new(0);
    static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn on_trap(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's record and context.
        let (address, pc) = unsafe { ((*info).si_addr().addr(), *program_counter(context)) };
        ELSEWHERE.fetch_add(usize::from(address != pc), SeqCst);
        if atomseq::internals::table::find(pc).is_some()
            && STEPS.fetch_add(1, SeqCst) == SEND_AT.load(SeqCst)
        {
            raise(libc::SIGUSR1);
        }
    }
    fn managed_on_trap(event: &mut Event<'_>) {
        let info = std::ptr::from_ref(event.info()).cast_mut();
        on_trap(event.signal(), info, event.context());
    }
    fn managed_on_usr1(_: &mut Event<'_>) {
        ARRIVED.fetch_add(1, SeqCst);
    }
    fn step_through(words: *mut usize) {
        // SAFETY: sets the trap flag and clears it, and the stack is left as it was; three words of
        // the test's.
        unsafe {
            std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            add_to_three::rolling(words as usize, 99);
            std::arch::asm!("pushfq", "and qword ptr [rsp], {mask}", "popfq", mask = const !0x100i32);
        }
    }
    fn at_each_instruction() {
        install(libc::SIGUSR1, managed_on_usr1);
        for at in 0.. {
            let mut words = [0; 3];
            let arrived = ARRIVED.load(SeqCst);
            STEPS.store(0, SeqCst);
            SEND_AT.store(at, SeqCst);
            step_through(words.as_mut_ptr());
            assert_eq!((words, ELSEWHERE.load(SeqCst)), ([1; 3], 0), "at {at}");
            if ARRIVED.load(SeqCst) == arrived {
                break;
            }
        }
        let statistics = signal::statistics();
        assert!(
            statistics.rollforwards > 3 && statistics.faults > 3,
            "{statistics:?}"
        );
    }
    in_fresh_process(this_test!(), || {
        in_child(|| {
            install(libc::SIGTRAP, managed_on_trap);
            at_each_instruction();
        });
        install_plainly(libc::SIGTRAP, on_trap, 0, &[libc::SIGUSR1]);
        at_each_instruction();
    });
}

/// Touches a page that faults each time, as an atfork handler.
fn touch() {
    let page = PAGE.get().expect("made");
    page.interrupt(0);
    // SAFETY: a word of the page.
    unsafe { page.words(0).write_volatile(1) };
}

fn in_each_atfork_handler(handler: unsafe extern "C" fn()) {
    // SAFETY: tests' functions.
    let result = unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) };
    assert_eq!(result, 0);
}

fn nothing(_: &mut Event<'_>) {}

fn count_arrival(_: &mut Event<'_>) {
    ARRIVED.fetch_add(1, SeqCst);
}

/// Checks that nothing is left blocked or locked: signals arrive, other threads change handlers and
/// fork.
fn check_that_all_works(mask: u64) {
    assert_eq!(kernel_mask(), mask);
    let arrived = ARRIVED.load(SeqCst);
    raise(libc::SIGUSR1);
    assert_eq!(ARRIVED.load(SeqCst), arrived + 1);
    let other = std::thread::spawn(|| {
        install(libc::SIGUSR2, nothing);
        signal::uninstall(libc::SIGUSR2).expect("installed");
        in_child(|| install(libc::SIGUSR2, nothing));
    });
    other.join().expect("the thread returns");
}

/// Garbage collectors with write barriers have such faults.
#[test]
fn atfork_handlers_may_have_faults_that_the_program_mends() {
    extern "C" fn mend(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        REPAIRED.fetch_add(1, SeqCst);
        PAGE.get().expect("made").release();
    }
    unsafe extern "C" fn touch_it() {
        touch();
    }
    in_fresh_process(this_test!(), || {
        PAGE.get_or_init(Page::new);
        install_plainly(libc::SIGSEGV, mend, 0, &[]);
        let mask = kernel_mask();
        // Some run before atomseq's own, some after.
        in_each_atfork_handler(touch_it);
        install(libc::SIGUSR1, count_arrival);
        in_each_atfork_handler(touch_it);
        let code = code_of_child(|| {
            let faults = REPAIRED.load(SeqCst);
            check_that_all_works(mask);
            faults as i32
        });
        assert_eq!((code, REPAIRED.load(SeqCst)), (4, 4));
        check_that_all_works(mask);
    });
}

/// The handler of such a fault may fork, for example to start a debugger.
#[test]
fn the_handler_of_a_fault_in_an_atfork_handler_may_fork() {
    static MASK: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn fork(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        PAGE.get().expect("made").release();
        if REPAIRED.fetch_add(1, SeqCst) == 0 {
            let before = kernel_mask();
            in_child(|| {
                assert_eq!(kernel_mask(), before);
                // As a handler does before it executes another program.
                change_mask(libc::SIG_SETMASK, &[]);
                check_that_signals_arrive();
            });
            assert_eq!(kernel_mask(), before);
        }
    }
    fn check_that_signals_arrive() {
        let arrived = ARRIVED.load(SeqCst);
        raise(libc::SIGUSR1);
        assert_eq!(ARRIVED.load(SeqCst), arrived + 1);
    }
    unsafe extern "C" fn touch_once() {
        if REPAIRED.load(SeqCst) == 0 {
            touch();
        }
    }
    in_fresh_process(this_test!(), || {
        PAGE.get_or_init(Page::new);
        install_plainly(libc::SIGSEGV, fork, 0, &[]);
        MASK.store(kernel_mask() as usize, SeqCst);
        // Runs while the fork's lock is held.
        in_each_atfork_handler(touch_once);
        install(libc::SIGUSR1, count_arrival);
        in_child(|| check_that_all_works(MASK.load(SeqCst) as u64));
        assert_eq!(REPAIRED.load(SeqCst), 1);
        check_that_all_works(MASK.load(SeqCst) as u64);
    });
}

#[test]
fn an_atfork_handler_may_ask_for_an_audit() {
    static AUDITS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn audit() {
        assert!(signal::audit().is_clean());
        AUDITS.fetch_add(1, SeqCst);
    }
    in_fresh_process(this_test!(), || {
        let mask = kernel_mask();
        in_each_atfork_handler(audit);
        install(libc::SIGUSR1, count_arrival);
        in_each_atfork_handler(audit);
        in_child(|| {
            assert_eq!(AUDITS.load(SeqCst), 4);
            check_that_all_works(mask);
        });
        assert!(AUDITS.load(SeqCst) >= 4);
        check_that_all_works(mask);
    });
}

/// A sandbox may let the program itself answer that a call is refused. (qemu-user has no seccomp.)
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_that_change_handlers_and_forks_may_be_answered_by_a_handler() {
    extern "C" fn refuse(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        REPAIRED.fetch_add(1, SeqCst);
        let context: *mut libc::ucontext_t = context.cast();
        let answer = -i64::from(libc::EPERM);
        // SAFETY: the kernel's context.
        unsafe {
            (*context).uc_mcontext.gregs[libc::REG_RAX as usize] = answer;
        }
    }
    const PASSWORD: u32 = 0x5e7;
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSYS, refuse, 0, &[]);
        install(libc::SIGUSR1, count_arrival);
        let mask = kernel_mask();
        in_child(|| {
            verify_support::sandbox::trap(libc::SYS_rt_sigaction, PASSWORD);
            // SAFETY: the handler does what handlers may.
            let installed = unsafe { signal::install(libc::SIGUSR2, nothing) };
            let (signal, errno) = (libc::SIGUSR2, libc::EPERM);
            assert_eq!(installed, Err(signal::Error::Refused { signal, errno }));
            let (signal, errno) = (libc::SIGUSR1, libc::EPERM);
            assert_eq!(
                signal::uninstall(signal),
                Err(signal::Error::Refused { signal, errno })
            );
            let _ = signal::audit();
            assert!(REPAIRED.load(SeqCst) > 60);
            raise(libc::SIGUSR1);
            assert_eq!((ARRIVED.load(SeqCst), kernel_mask()), (1, mask));
        });
        // C libraries other than glibc make other calls.
        if cfg!(not(target_env = "gnu")) {
            return;
        }
        in_child(|| {
            verify_support::sandbox::trap(libc::SYS_clone, PASSWORD);
            // SAFETY: no child is made.
            assert_eq!(unsafe { libc::fork() }, -1);
            assert_eq!(REPAIRED.load(SeqCst), 1);
            raise(libc::SIGUSR1);
            assert_eq!((ARRIVED.load(SeqCst), kernel_mask()), (1, mask));
        });
    });
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns the faults' signals among those of a mask.
fn faults_in(mask: u64) -> u64 {
    FAULTS.into_iter().map(bit).sum::<u64>() & mask
}

/// Returns all signals that can be blocked. (qemu-user keeps SIGKILL and SIGSTOP in masks, too.)
fn all() -> Vec<i32> {
    let can_be_blocked = |signal: &i32| ![libc::SIGKILL, libc::SIGSTOP].contains(signal);
    (1..32).filter(can_be_blocked).collect()
}

/// The signal that arrives in the middle of the sequence.
static SENT: AtomicI32 = AtomicI32::new(0);
/// The number of faults, and of runs of the signal's handler.
static FAULTED: AtomicUsize = AtomicUsize::new(0);
/// The faults' signals, apart from its own, that the handler of the clone's fault found blocked.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);

/// The first fault is in the sequence: sends the signal, which arrives when this handler returns.
/// The second fault is in the clone: makes the page accessible.
extern "C" fn on_segv(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's record.
    if unsafe { (*info).si_code } <= 0 {
        return on_sent(signal, info, context);
    }
    if FAULTED.fetch_add(1, SeqCst) == 0 {
        let sent = SENT.load(SeqCst);
        change_mask(libc::SIG_BLOCK, &[sent]);
        raise(sent);
    } else {
        BLOCKED.store(
            faults_in(kernel_mask() & !bit(libc::SIGSEGV)) as usize,
            SeqCst,
        );
        PAGE.get().expect("made").release();
    }
}

extern "C" fn on_sent(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    ARRIVED.fetch_add(1, SeqCst);
}

fn managed_on_segv(event: &mut Event<'_>) {
    let info = std::ptr::from_ref(event.info()).cast_mut();
    on_segv(event.signal(), info, event.context());
}

fn managed_on_sent(_: &mut Event<'_>) {
    ARRIVED.fetch_add(1, SeqCst);
}

/// The handler behind atomseq's entry, and how other code has changed the disposition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Managed,
    /// Handlers of others that block nothing.
    Adopted,
    /// Handlers of others that block all signals.
    AdoptedThatBlocks,
    /// Other code has added all signals to the mask of atomseq's installed entry.
    Filled,
    /// Other code has restored the disposition that it read while its own handler, which blocks all
    /// signals, was adopted.
    PutBack,
    /// A handler of others, which blocks all signals, was installed over atomseq's and passes
    /// signals on.
    PassedOn,
}

/// The handler to which a handler of others passes signals on.
static BELOW: AtomicUsize = AtomicUsize::new(0);

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = kernel_mask();
    // SAFETY: a handler of three arguments, called as the kernel would.
    unsafe { std::mem::transmute::<usize, Three>(BELOW.load(SeqCst))(signal, info, context) };
    assert_eq!(kernel_mask(), before, "it has its own mask again");
}

fn pass_on_by_others(signal: i32, by: Three) {
    BELOW.store(installed(signal).sa_sigaction, SeqCst);
    install_plainly(signal, by, 0, &all());
}

fn fill(signal: i32) {
    let mut filled = installed(signal);
    filled.sa_mask = set(&all());
    put_back(signal, &filled);
}

/// Installs handlers of `sent` and of `SIGSEGV`. Returns the fault that an audit must report.
fn set_up(sent: i32, case: Case) -> Option<Fault> {
    let plainly = |mask: &[i32]| {
        install_plainly(libc::SIGSEGV, on_segv, 0, &[]);
        let handler: Three = match sent {
            libc::SIGSEGV => on_segv,
            _ => on_sent,
        };
        install_plainly(sent, handler, 0, mask);
        install(libc::SIGUSR2, nothing);
    };
    let managed = || {
        install(sent, managed_on_sent);
        install(libc::SIGSEGV, managed_on_segv);
    };
    match case {
        Case::Managed => managed(),
        Case::Adopted => plainly(&[]),
        Case::AdoptedThatBlocks => plainly(&all()),
        Case::Filled => {
            managed();
            fill(sent);
            return Some(Fault::Altered);
        }
        Case::PutBack => {
            plainly(&all());
            let adopted = installed(sent);
            managed();
            put_back(sent, &adopted);
            return Some(Fault::Altered);
        }
        Case::PassedOn => {
            managed();
            pass_on_by_others(sent, pass_on);
            return Some(Fault::Displaced);
        }
    }
    None
}

/// Interrupts a sequence by `sent` and makes its clone fault.
fn roll_forward_through_a_fault(sent: i32) {
    SENT.store(sent, SeqCst);
    FAULTED.store(0, SeqCst);
    ARRIVED.store(0, SeqCst);
    let rollforwards = signal::statistics().rollforwards;
    let mask = kernel_mask();
    let page = PAGE.get_or_init(Page::new);
    // SAFETY: three words of the test's.
    let words: [usize; 3] = unsafe {
        let words = page.words(1).cast::<[usize; 3]>();
        words.write([0; 3]);
        page.interrupt(0);
        add_to_three::rolling(words as usize, 99);
        words.read()
    };
    assert_eq!((words, kernel_mask()), ([1; 3], mask));
    assert_eq!((FAULTED.load(SeqCst), ARRIVED.load(SeqCst)), (2, 1));
    assert_eq!(signal::statistics().rollforwards, rollforwards + 1);
}

/// All combinations; each audit must report exactly the fault that `set_up` returned.
#[test]
fn a_clone_s_fault_finds_its_signal_open() {
    fn check(sent: i32, case: Case) {
        let fault = set_up(sent, case);
        let expected = fault.map(|fault| Finding {
            signal: sent,
            fault,
        });
        assert_eq!(findings(), Vec::from_iter(expected));
        roll_forward_through_a_fault(sent);
        // The other faults' signals are blocked by the handler of the fault, not because of `sent`.
        let of_segv = sent == libc::SIGSEGV && !matches!(case, Case::Managed | Case::Adopted);
        assert_eq!(BLOCKED.load(SeqCst) != 0, of_segv);
        if fault == Some(Fault::Altered) {
            assert!(signal::repair().is_clean());
            roll_forward_through_a_fault(sent);
            assert_eq!(BLOCKED.load(SeqCst), 0);
        }
    }
    in_fresh_process(this_test!(), || {
        let cannot_be_blocked = [libc::SIGABRT, libc::SIGBUS, libc::SIGSEGV, libc::SIGSYS];
        for sent in cannot_be_blocked {
            for case in [Case::Adopted, Case::AdoptedThatBlocks, Case::PutBack] {
                println!("{sent}, {case:?}");
                in_child(|| check(sent, case));
            }
        }
        for sent in [libc::SIGUSR1].into_iter().chain(cannot_be_blocked) {
            for case in [Case::Managed, Case::Filled, Case::PassedOn] {
                println!("{sent}, {case:?}");
                in_child(|| check(sent, case));
            }
        }
    });
}

#[test]
fn control_where_it_stays_blocked_it_kills() {
    killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        set_up(libc::SIGUSR1, Case::Filled);
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::OPENING) };
        roll_forward_through_a_fault(libc::SIGUSR1);
    });
}

/// A signal that a handler of others has blocked stays blocked even though the clone runs with it
/// unblocked. A signal that was sent meanwhile arrives when that handler returns.
#[test]
fn a_handler_that_passes_a_signal_on_lets_nothing_in_that_it_blocks() {
    extern "C" fn send_and_pass_on(
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        log(1);
        raise(libc::SIGBUS);
        pass_on(signal, info, context);
        log(2);
    }
    fn mend_and_note(event: &mut Event<'_>) {
        if event.info().si_code > 0 {
            PAGE.get().expect("made").release();
            raise(libc::SIGUSR1);
        }
    }
    in_fresh_process(this_test!(), || {
        install(libc::SIGSEGV, mend_and_note);
        install(libc::SIGBUS, note);
        install(libc::SIGUSR1, note);
        pass_on_by_others(libc::SIGUSR1, send_and_pass_on);
        let page = PAGE.get_or_init(Page::new);
        page.interrupt(0);
        // SAFETY: three words of the test's.
        unsafe { add_to_three::rolling(page.words(1) as usize, 99) };
        assert_eq!(signal::statistics().rollforwards, 1);
        let [one, bus] = [libc::SIGUSR1 as usize, libc::SIGBUS as usize];
        assert_eq!(logged(), [1, one, 2, bus]);
    });
}
