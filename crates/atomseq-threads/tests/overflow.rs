//! An overflow ends the process with a message that says what to do.

mod support;

use std::hint::black_box;
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;

use atomseq_threads::coroutine::{Builder, Generator, Yielder};

use support::run_with;

/// In the environment of the process that overflows: whose stack.
const CHILD: &str = "ATOMSEQ_THREADS_OVERFLOWS";

fn deep(levels: u64) -> u64 {
    let here = black_box([levels; 64]);
    if levels == 0 {
        here[0]
    } else {
        deep(levels - 1) + here[63]
    }
}

fn outcome(child: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    let output = command
        .args(["--exact", "an_overflow_is_reported", "--nocapture"])
        .env(CHILD, child)
        .output()
        .unwrap();
    (
        output.status.signal(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Ends the process, and takes more stack for that than the handlers of this crate do. Needs the
/// mask that it was installed with.
extern "C" fn crash(signal: i32) {
    let frame = black_box([1u8; 100_000]);
    // SAFETY: asks for the mask, and ends the process.
    unsafe {
        let mut mask: libc::sigset_t = mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask);
        let blocks = |signal| libc::sigismember(&mask, signal) == 1;
        let is_right = frame[99_999] == 1 && blocks(signal) && blocks(libc::SIGUSR1);
        libc::_exit(if is_right { 42 } else { 1 })
    }
}

/// A handler of faults that was there before keeps the room of its alternate stack, and its mask.
#[test]
fn the_handler_before_has_its_room() {
    const CHILD: &str = "ATOMSEQ_THREADS_FAULTS";
    if std::env::var(CHILD).is_err() {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "the_handler_before_has_its_room"]);
        let status = command.env(CHILD, "").status().unwrap();
        return assert_eq!(status.code(), Some(42), "{status}");
    }
    // SAFETY: a stack that is never freed, and a handler that ends the process.
    unsafe {
        let mut stack: libc::stack_t = mem::zeroed();
        stack.ss_size = 1 << 18;
        stack.ss_sp = vec![0u8; stack.ss_size].leak().as_mut_ptr().cast();
        assert_eq!(libc::sigaltstack(&stack, ptr::null_mut()), 0);
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = crash as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut()), 0);
    }
    // SAFETY: an address that nothing is at: this is the fault.
    let fault = || unsafe { black_box(ptr::without_provenance_mut::<u64>(8)).write_volatile(1) };
    run_with(Builder::new(), fault).unwrap();
}

#[test]
fn an_overflow_is_reported() {
    match std::env::var(CHILD).as_deref() {
        Ok("coroutine") => {
            let run = Builder::new().stack_size(16 * 1024);
            run_with(run, || {
                atomseq_threads::coroutine::spawn(|| deep(1_000_000))
                    .join()
                    .unwrap()
            })
            .unwrap();
            unreachable!("a million levels do not fit");
        }
        Ok("generator") => {
            let overflows = |yielder: &Yielder<u64>| {
                yielder.suspend(0);
                yielder.suspend(deep(1_000_000));
            };
            // SAFETY: no thread-local owns it, and it suspends in no scope of one.
            let generator = unsafe { Generator::with_stack_size(20 * 1024, overflows) };
            // One more that is not the one, and no run. SAFETY: no thread-local owns it.
            let _other = unsafe { Generator::<()>::new(|_| ()) };
            assert_eq!(generator.unwrap().count(), 2);
            unreachable!("a million levels do not fit");
        }
        Ok("thread") => {
            run_with(Builder::new(), || deep(black_box(100_000_000))).unwrap();
            unreachable!("a hundred million levels do not fit");
        }
        _ => {}
    }
    let (signal, message) = outcome("coroutine");
    assert_eq!(signal, Some(libc::SIGABRT), "{message}");
    assert!(message.contains("stack of 16384 bytes"), "{message}");
    let (signal, message) = outcome("generator");
    assert_eq!(signal, Some(libc::SIGABRT), "{message}");
    assert!(message.contains("stack of 20480 bytes"), "{message}");
    // That of the thread itself is reported as it is without coroutines.
    let (signal, message) = outcome("thread");
    assert_eq!(signal, Some(libc::SIGABRT), "{message}");
    assert!(message.contains("has overflowed its stack"), "{message}");
}
