//! Faults that the program repairs: traps in the clone of a sequence, and faults while atomseq has
//! most signals blocked.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Event};
use verify_support::pages::Page;
use verify_support::processes::{code_of_child, in_child, in_fresh_process};
#[cfg(target_arch = "x86_64")]
use verify_support::sandbox;
use verify_support::signals::{change_mask, install, install_plainly, kernel_mask, raise};
use verify_support::this_test;

static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
/// The number of faults, and of runs of the signal's handler.
static FAULTS: AtomicUsize = AtomicUsize::new(0);
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

fn note(_: &mut Event<'_>) {
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
        FAULTS.fetch_add(1, SeqCst);
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
        install(libc::SIGUSR1, note);
        in_each_atfork_handler(touch_it);
        let code = code_of_child(|| {
            let faults = FAULTS.load(SeqCst);
            check_that_all_works(mask);
            faults as i32
        });
        assert_eq!((code, FAULTS.load(SeqCst)), (4, 4));
        check_that_all_works(mask);
    });
}

/// The handler of such a fault may fork, for example to start a debugger.
#[test]
fn the_handler_of_a_fault_in_an_atfork_handler_may_fork() {
    static MASK: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn fork(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        PAGE.get().expect("made").release();
        if FAULTS.fetch_add(1, SeqCst) == 0 {
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
        if FAULTS.load(SeqCst) == 0 {
            touch();
        }
    }
    in_fresh_process(this_test!(), || {
        PAGE.get_or_init(Page::new);
        install_plainly(libc::SIGSEGV, fork, 0, &[]);
        MASK.store(kernel_mask() as usize, SeqCst);
        // Runs while the fork's lock is held.
        in_each_atfork_handler(touch_once);
        install(libc::SIGUSR1, note);
        in_child(|| check_that_all_works(MASK.load(SeqCst) as u64));
        assert_eq!(FAULTS.load(SeqCst), 1);
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
        install(libc::SIGUSR1, note);
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
        FAULTS.fetch_add(1, SeqCst);
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
        install(libc::SIGUSR1, note);
        let mask = kernel_mask();
        in_child(|| {
            sandbox::trap(libc::SYS_rt_sigaction, PASSWORD);
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
            assert!(FAULTS.load(SeqCst) > 60);
            raise(libc::SIGUSR1);
            assert_eq!((ARRIVED.load(SeqCst), kernel_mask()), (1, mask));
        });
        // C libraries other than glibc make other calls.
        if cfg!(not(target_env = "gnu")) {
            return;
        }
        in_child(|| {
            sandbox::trap(libc::SYS_clone, PASSWORD);
            // SAFETY: no child is made.
            assert_eq!(unsafe { libc::fork() }, -1);
            assert_eq!(FAULTS.load(SeqCst), 1);
            raise(libc::SIGUSR1);
            assert_eq!((ARRIVED.load(SeqCst), kernel_mask()), (1, mask));
        });
    });
}
