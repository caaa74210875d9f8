//! Installing, options, chaining and removing handlers; the environment in which a handler runs.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use atomseq::signal::{self, Chained, Error, Event, Options};
use verify_signals::{clear_log, log, log_length, logged};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{
    change_mask, holds, install, install_plainly, install_with, installed, is_blocked, raise,
};
use verify_support::this_test;
use verify_support::timers::Timer;

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;

/// Logs the signal on entry and, plus 100, on exit. `ONE` sends `TWO` in between.
fn nest(event: &mut Event<'_>) {
    log(event.signal() as usize);
    if event.signal() == ONE {
        raise(TWO);
    }
    log(event.signal() as usize + 100);
}

const ONE_BEGINS: usize = ONE as usize;
const ONE_ENDS: usize = ONE as usize + 100;
const TWO_BEGINS: usize = TWO as usize;
const TWO_ENDS: usize = TWO as usize + 100;

#[test]
fn managed_signals_wait_for_a_handler_to_end() {
    in_fresh_process(this_test!(), || {
        install(ONE, nest);
        install(TWO, nest);
        raise(ONE);
        assert_eq!(logged(), [ONE_BEGINS, ONE_ENDS, TWO_BEGINS, TWO_ENDS]);
    });
}

#[test]
fn unless_it_lets_them_in() {
    in_fresh_process(this_test!(), || {
        install_with(ONE, nest, Options::new().nesting());
        install(TWO, nest);
        raise(ONE);
        assert_eq!(logged(), [ONE_BEGINS, TWO_BEGINS, TWO_ENDS, ONE_ENDS]);
    });
}

#[test]
fn or_all_but_those_it_names() {
    in_fresh_process(this_test!(), || {
        install_with(ONE, nest, Options::new().nesting().blocking(TWO));
        install(TWO, nest);
        raise(ONE);
        assert_eq!(logged(), [ONE_BEGINS, ONE_ENDS, TWO_BEGINS, TWO_ENDS]);
    });
}

#[test]
fn signals_of_others_are_blocked_only_on_request() {
    in_fresh_process(this_test!(), || {
        extern "C" fn foreign(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            log(0);
        }
        fn send(event: &mut Event<'_>) {
            log(event.signal() as usize);
            raise(libc::SIGWINCH);
            log(event.signal() as usize + 100);
        }
        install_plainly(libc::SIGWINCH, foreign, 0, &[]);
        install(ONE, send);
        install_with(TWO, send, Options::new().blocking(libc::SIGWINCH));
        raise(TWO);
        assert_eq!(logged(), [TWO_BEGINS, TWO_ENDS, 0]);
        if cfg!(atomseq_sections) {
            raise(ONE);
            assert_eq!(logged()[3..], [ONE_BEGINS, 0, ONE_ENDS]);
        }
    });
}

/// Sends its own signal again from inside.
fn again(event: &mut Event<'_>) {
    let entry = log_length();
    log(entry);
    if entry < 2 {
        raise(event.signal());
    }
    log(entry + 100);
}

#[test]
fn the_signal_itself_waits() {
    in_fresh_process(this_test!(), || {
        install(ONE, again);
        raise(ONE);
        assert_eq!(logged(), [0, 100, 2, 102]);
    });
}

#[test]
fn unless_it_is_not_to_be_deferred() {
    in_fresh_process(this_test!(), || {
        install_with(ONE, again, Options::new().no_defer());
        install(TWO, nest);
        raise(ONE);
        assert_eq!(logged(), [0, 1, 2, 102, 101, 100]);
        assert_eq!(
            installed(ONE).sa_flags & libc::SA_NODEFER != 0,
            cfg!(not(atomseq_sections)),
            "emulated"
        );
    });
}

#[test]
fn no_number_but_a_signal_s_is_managed() {
    in_fresh_process(this_test!(), || {
        install(ONE, nest);
        for number in [i32::MIN, -1, 0, 65, 100, i32::MAX] {
            assert!(!signal::is_managed(number), "{number}");
        }
        assert!(signal::is_managed(ONE));
    });
}

#[test]
fn once_is_once() {
    let killed = killed_in_fresh_process(this_test!(), ONE, || {
        install_with(ONE, nest, Options::new().once());
        install(TWO, nest);
        assert_eq!(installed(ONE).sa_flags & libc::SA_RESETHAND, 0, "emulated");
        raise(ONE);
        eprintln!("handled {:?}", logged());
        assert!(!signal::is_managed(ONE));
        assert_eq!(signal::uninstall(ONE), Err(Error::NotInstalled(ONE)));
        raise(ONE);
        eprintln!("not reached");
    });
    if let Some(errors) = killed {
        assert!(errors.contains("handled [10, 110, 12, 112]"), "{errors}");
        assert!(!errors.contains("not reached"));
    }
}

#[test]
fn interrupted_calls_are_restarted_or_fail() {
    in_fresh_process(this_test!(), || {
        static WOKEN: AtomicUsize = AtomicUsize::new(0);
        fn wake(_: &mut Event<'_>) {
            WOKEN.fetch_add(1, SeqCst);
        }
        // Reads from a pipe. Signals are sent once the reader sleeps: one, followed by the byte
        // when it was handled; or, where signals must interrupt the call, one after another until
        // the call returns.
        let read = |ends: bool| {
            let mut pipe = [0; 2];
            // SAFETY: two places for descriptors; the thread's names are asked for.
            let (reader, name) = unsafe {
                assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
                (libc::pthread_self() as usize, libc::gettid())
            };
            let is_over = AtomicBool::new(false);
            let before = WOKEN.load(SeqCst);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let pause = || std::thread::sleep(Duration::from_millis(1));
                    let status = format!("/proc/self/task/{name}/status");
                    while !fs::read_to_string(&status).is_ok_and(|it| it.contains("State:\tS")) {
                        pause();
                    }
                    // SAFETY: the reader waits for this thread to end.
                    let signal = || unsafe { libc::pthread_kill(reader as libc::pthread_t, ONE) };
                    signal();
                    while WOKEN.load(SeqCst) == before {
                        pause();
                    }
                    while ends && !is_over.load(SeqCst) {
                        signal();
                        pause();
                    }
                    // SAFETY: a valid descriptor and a byte.
                    unsafe { libc::write(pipe[1], c"x".as_ptr().cast(), 1) };
                });
                let mut byte = 0u8;
                // SAFETY: a valid descriptor and room for a byte.
                let result = unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) };
                let error = std::io::Error::last_os_error().raw_os_error();
                is_over.store(true, SeqCst);
                (result, error)
            })
        };
        install(ONE, wake);
        assert_eq!(read(false).0, 1, "restarted");
        install_with(ONE, wake, Options::new().interrupting());
        assert_eq!(read(true), (-1, Some(libc::EINTR)));
        assert!(WOKEN.load(SeqCst) >= 2);
    });
}

#[test]
fn errno_is_the_thread_s() {
    in_fresh_process(this_test!(), || {
        fn fail(_: &mut Event<'_>) {
            // SAFETY: a descriptor that is not open.
            assert_eq!(unsafe { libc::close(-1) }, -1);
            log(1);
        }
        install(ONE, fail);
        // SAFETY: this thread's error number.
        let errno = unsafe { &mut *libc::__errno_location() };
        *errno = 77;
        raise(ONE);
        assert_eq!((*errno, logged()), (77, vec![1]));
    });
}

#[test]
fn an_event_tells_what_the_kernel_told() {
    in_fresh_process(this_test!(), || {
        fn look(event: &mut Event<'_>) {
            log(event.value());
            log(event.overrun() as usize);
            log(usize::from(event.info().si_code == libc::SI_QUEUE));
            log(usize::from(event.original_pc() == event.program_counter()));
            assert!(!event.context().is_null());
        }
        install(ONE, look);
        verify_support::signals::queue(ONE, 4711);
        assert_eq!(logged(), [4711, 0, 1, 1]);
        assert_eq!(signal::statistics().deliveries, 1);
    });
}

#[test]
fn a_timer_s_overruns_are_told() {
    in_fresh_process(this_test!(), || {
        static OVERRUNS: AtomicI32 = AtomicI32::new(0);
        fn look(event: &mut Event<'_>) {
            OVERRUNS.fetch_max(event.overrun(), SeqCst);
            assert_eq!(event.value(), 5);
        }
        install(ONE, look);
        change_mask(libc::SIG_BLOCK, &[ONE]);
        let timer = Timer::with_value(ONE, 5).expect("a timer");
        timer.handle().repeat(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(30));
        change_mask(libc::SIG_UNBLOCK, &[ONE]);
        drop(timer);
        // About 29, unless this machine is very busy.
        assert!(OVERRUNS.load(SeqCst) > 0);
    });
}

#[test]
fn a_panic_in_a_handler_aborts_with_a_message() {
    let killed = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        install(ONE, |_| panic!("in the handler"));
        raise(ONE);
    });
    if let Some(errors) = killed {
        assert!(errors.contains("in the handler"), "{errors}");
        assert!(errors.contains("panicked, which would unwind"), "{errors}");
    }
}

#[cfg(all(atomseq_sections, target_env = "gnu"))]
#[test]
fn a_thread_that_exits_in_a_handler_ends_the_process_with_a_message() {
    let errors = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        // SAFETY: ends the thread, by unwinding it.
        install(ONE, |_| unsafe { libc::pthread_exit(std::ptr::null_mut()) });
        raise(ONE);
    });
    if let Some(errors) = errors {
        assert!(errors.contains("was left by pthread_exit"), "{errors}");
    }
}

extern "C" fn earlier(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    assert!(!info.is_null() && !context.is_null());
    log(1000 + signal as usize);
    log(usize::from(is_blocked(libc::SIGWINCH)));
}

/// A chained handler does not interrupt itself, even where the handler that chains to it may.
#[test]
fn a_chained_handler_blocks_its_own_signal_unless_it_asked_for_the_opposite() {
    in_fresh_process(this_test!(), || {
        extern "C" fn note(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            log(usize::from(is_blocked(ONE)));
        }
        for flags in [0, libc::SA_NODEFER] {
            install_plainly(ONE, note, flags, &[]);
            let options = Options::new().no_defer();
            install_with(ONE, |event| _ = event.chain(), options);
            raise(ONE);
            signal::uninstall(ONE).expect("installed");
        }
        assert_eq!(logged(), [1, 0]);
    });
}

#[test]
fn chaining_calls_what_was_there_with_its_mask() {
    in_fresh_process(this_test!(), || {
        fn chain(event: &mut Event<'_>) {
            let chained = event.chain();
            log(chained as usize);
            log(usize::from(is_blocked(libc::SIGWINCH)));
        }
        install_plainly(ONE, earlier, 0, &[libc::SIGWINCH]);
        // SAFETY: no function.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        for signal in [ONE, TWO, libc::SIGHUP] {
            install(signal, chain);
        }
        raise(ONE);
        let masked = usize::from(cfg!(not(atomseq_sections)));
        assert_eq!(
            logged(),
            [1000 + ONE as usize, 1, Chained::Called as usize, masked]
        );
        raise(TWO);
        raise(libc::SIGHUP);
        assert_eq!(
            logged()[4..],
            [
                Chained::Default as usize,
                masked,
                Chained::Ignored as usize,
                masked
            ]
        );
        // After a second installation, the handler below is still the first one.
        install(ONE, chain);
        clear_log();
        raise(ONE);
        assert_eq!(logged()[0], 1000 + ONE as usize);
    });
}

#[test]
fn uninstalling_restores_what_was_there() {
    in_fresh_process(this_test!(), || {
        install_plainly(
            ONE,
            earlier,
            libc::SA_RESTART | libc::SA_ONSTACK,
            &[libc::SIGWINCH],
        );
        let before = installed(ONE);
        install(ONE, nest);
        assert!(signal::is_managed(ONE));
        signal::uninstall(ONE).expect("uninstalled");
        assert!(!signal::is_managed(ONE));
        let after = installed(ONE);
        assert_eq!(after.sa_sigaction, before.sa_sigaction);
        assert_eq!(after.sa_flags, before.sa_flags);
        for signal in 1..=64 {
            assert_eq!(
                holds(&after.sa_mask, signal),
                holds(&before.sa_mask, signal),
                "{signal}"
            );
        }
        raise(ONE);
        assert_eq!(logged(), [1000 + ONE as usize, 1]);
        assert_eq!(signal::uninstall(ONE), Err(Error::NotInstalled(ONE)));
        install(TWO, nest);
        signal::uninstall(TWO).expect("uninstalled");
        assert_eq!(installed(TWO).sa_sigaction, libc::SIG_DFL);
    });
}

#[test]
fn uninstalling_refuses_when_somebody_is_installed_over_it() {
    in_fresh_process(this_test!(), || {
        install(ONE, nest);
        install(TWO, nest);
        install_plainly(ONE, earlier, 0, &[]);
        assert_eq!(signal::uninstall(ONE), Err(Error::Displaced(ONE)));
        raise(ONE);
        assert_eq!(logged(), [1000 + ONE as usize, 0]);
        // Installing again makes the signal managed again.
        install(ONE, nest);
        clear_log();
        raise(ONE);
        assert_eq!(logged(), [ONE_BEGINS, ONE_ENDS, TWO_BEGINS, TWO_ENDS]);
        signal::uninstall(ONE).expect("uninstalled");
        assert_eq!(
            installed(ONE).sa_sigaction,
            earlier as *const () as usize,
            "what was installed over the first one"
        );
    });
}

#[test]
fn a_signal_that_waits_is_handled_by_what_is_restored() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, earlier, 0, &[]);
        install(ONE, nest);
        let guard = signal::mask();
        raise(ONE);
        signal::uninstall(ONE).expect("uninstalled");
        drop(guard);
        assert_eq!(logged()[0], 1000 + ONE as usize);
        assert!(!is_blocked(ONE));
    });
}

#[test]
fn what_cannot_be_installed_is_refused_with_a_reason() {
    in_fresh_process(this_test!(), || {
        // SAFETY: nothing is installed.
        let refused = |signal| unsafe { signal::install(signal, nest) }.expect_err("refused");
        for signal in [0, -1, 65, 128, 129, 1000, i32::MAX, i32::MIN] {
            assert_eq!(refused(signal), Error::NoSignal(signal));
            assert_eq!(signal::uninstall(signal), Err(Error::NoSignal(signal)));
        }
        for signal in [libc::SIGKILL, libc::SIGSTOP, 32, 33] {
            assert_eq!(refused(signal), Error::Reserved(signal));
            assert!(refused(signal).to_string().contains("choose another"));
            assert_eq!(signal::uninstall(signal), Err(Error::Reserved(signal)));
        }
    });
}

/// Gives this thread an alternate stack of this size; returns its address range.
fn alternate_stack(bytes: usize) -> std::ops::Range<usize> {
    let memory = Box::leak(vec![0u8; bytes].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: bytes,
    };
    // SAFETY: memory that is never freed.
    let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
    assert_eq!(result, 0);
    let start = memory.as_ptr() as usize;
    start..start + bytes
}

#[test]
fn handlers_run_on_the_alternate_stack_only_on_request_and_only_if_it_is_large_enough() {
    in_fresh_process(this_test!(), || {
        static PLACE: AtomicUsize = AtomicUsize::new(0);
        fn here(_: &mut Event<'_>) {
            let local = 0u8;
            PLACE.store(&raw const local as usize, SeqCst);
        }
        alternate_stack(12 << 10);
        let options = Options::new().on_alternate_stack(8 << 10);
        // SAFETY: the handler stores to a static.
        let refused = unsafe { signal::install_with(ONE, here, options) }.expect_err("too small");
        assert!(
            matches!(refused, Error::AlternateStackTooSmall { has: 12288, needs } if needs > 12288)
        );
        assert!(!signal::is_managed(ONE));
        let stack = alternate_stack(256 << 10);
        install_with(ONE, here, options);
        install(TWO, here);
        raise(ONE);
        assert!(stack.contains(&PLACE.load(SeqCst)));
        raise(TWO);
        assert!(!stack.contains(&PLACE.load(SeqCst)));
    });
}

/// Three deliveries that interrupt each other, on the smallest stack that is accepted.
#[test]
fn an_accepted_alternate_stack_holds_three_deliveries() {
    in_fresh_process(this_test!(), || {
        static RUN: AtomicUsize = AtomicUsize::new(0);
        const ALL: [i32; 3] = [ONE, TWO, libc::SIGURG];
        const HANDLERS: usize = if cfg!(debug_assertions) { 1024 } else { 512 };
        fn send_next(_: &mut Event<'_>) {
            if let Some(&next) = ALL.get(RUN.fetch_add(1, SeqCst) + 1) {
                raise(next);
            }
        }
        let options = Options::new().nesting().on_alternate_stack(HANDLERS);
        alternate_stack(libc::MINSIGSTKSZ);
        // SAFETY: the handler adds to a static and sends a signal.
        let refused = unsafe { signal::install_with(ONE, send_next, options) };
        let Err(Error::AlternateStackTooSmall { needs, .. }) = refused else {
            panic!("{refused:?}");
        };
        const UNTOUCHED: u8 = 0xa5;
        const BELOW: usize = 64 << 10;
        let memory = Box::leak(vec![UNTOUCHED; BELOW + needs].into_boxed_slice());
        let stack = libc::stack_t {
            ss_sp: memory[BELOW..].as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: needs,
        };
        // SAFETY: memory that is never freed.
        let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
        assert_eq!(result, 0);
        for signal in ALL {
            install_with(signal, send_next, options);
        }
        raise(ONE);
        assert_eq!(RUN.load(SeqCst), 3);
        let below = std::hint::black_box(&memory[..BELOW]);
        let is_whole = below.iter().all(|&byte| byte == UNTOUCHED);
        assert!(is_whole, "{needs} bytes do not suffice");
    });
}

/// (qemu-user has no seccomp.)
#[cfg(target_arch = "x86_64")]
#[test]
fn an_alternate_stack_that_the_kernel_refuses_to_tell_of_is_refused() {
    in_fresh_process(this_test!(), || {
        alternate_stack(256 << 10);
        verify_support::sandbox::refuse_all(&[libc::SYS_sigaltstack]);
        let options = Options::new().on_alternate_stack(8 << 10);
        // SAFETY: the handler is async-signal-safe.
        let refused = unsafe { signal::install_with(ONE, nest, options) };
        let (signal, errno) = (ONE, libc::EPERM);
        assert_eq!(refused, Err(Error::Refused { signal, errno }));
        assert!(!signal::is_managed(ONE));
    });
}
