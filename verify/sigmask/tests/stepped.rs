//! A signal that arrives at any instruction of a call that ends its laziness is deferred, and none
//! is lost if the handler of another signal changes its action there. One that arrives in a call
//! that blocks it, or while it is blocked, comes once, and the masks are right afterwards.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use verify_sigmask::{compile, output, with, without};

/// The calls: `sigaction` that ignores, has the default action, and is for once; `sigaltstack`;
/// `timer_create`; `setitimer`; `sigaction` that another handler interrupts; `rt_sigaction` by
/// `syscall`, whose new handler must find the old action; `sighold` whose signal must be blocked if
/// a handler starts a thread; `prctl` of a filter with such a handler; `sigaction`, and `sighold`
/// and `sigrelse` without and with a second thread, whose signal's handler calls `pthread_exit`;
/// `raise` of another signal, which this one's handler raises too; and of one whose handler another
/// handler interrupts, on a signal stack or with a `sigaction`; `sigaltstack` that a handler jumps
/// out of and that is made again.
/// While the signal is blocked: a handler on a signal stack; `fork`; `sighold` of others; `ppoll`;
/// `makecontext` of a small stack; `read`; `swapcontext`; `vfork`. And what blocks it:
/// `swapcontext` and `sigprocmask`; `siglongjmp`; `sigprocmask`.
const CALLS: [&str; 29] = [
    "i", "d", "o", "s", "c", "t", "r", "k", "b", "n", "a", "m", "e", "g", "h", "l", "j", "B", "F",
    "H", "P", "L", "M", "R", "S", "V", "C", "J", "K",
];

/// The windows of the mistakes that this test has found had 28 instructions.
const STRIDE: &str = "7";

/// For handlers that start or end a thread, whose calls are long: without the mends, 2 to 5 signals
/// of 52 to 107 were wrong. And for the jump, whose window was most of the call.
const LONG_STRIDE: &str = "29";

#[test]
fn a_signal_at_any_instruction_is_neither_early_nor_lost() {
    let program = compile("stepped.c");
    for call in CALLS {
        for mut command in [without(&program), with(&program)] {
            let stride = match call {
                "b" | "n" | "a" | "m" | "e" | "j" => LONG_STRIDE,
                _ => STRIDE,
            };
            let run = output(command.args([call, stride]));
            let said = String::from_utf8_lossy(&run.stdout);
            assert_eq!(run.status.code(), Some(0), "{call}: {said}");
            assert!(
                said.starts_with(|first: char| ('1'..='9').contains(&first)),
                "{call}: {said}"
            );
        }
    }
}

#[test]
fn the_old_mask_is_stored_as_by_the_kernel() {
    let program = compile("stepped.c");
    for call in ["U", "N", "O", "T", "W"] {
        for mut command in [without(&program), with(&program)] {
            // At every instruction: the windows of the mistakes had a few.
            let run = output(command.args([call, "1"]));
            let said = String::from_utf8_lossy(&run.stdout);
            assert_eq!(run.status.code(), Some(0), "{call}: {said}");
        }
    }
}

#[test]
fn a_backtrace_at_any_instruction_reaches_the_start() {
    let program = compile("stepped.c");
    for mut command in [without(&program), with(&program)] {
        // The function that publishes the mask, and what it calls, have more instructions.
        let run = output(command.args(["p", "16"]));
        let said = String::from_utf8_lossy(&run.stdout);
        assert_eq!(run.status.code(), Some(0), "{said}");
    }
}

#[test]
fn backtraces_of_contexts_and_jumps_are_as_good_as_the_c_librarys() {
    let program = compile("stepped.c");
    // glibc 2.36 loses two times eight in `setcontext`; compilers may describe ends of functions a
    // few instructions late.
    let [theirs, ours] = [without(&program), with(&program)].map(|mut command| {
        let run = output(command.env("LD_BIND_NOW", "1").args(["q", "3"]));
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        let (signals, wrong) = said.split_once(" signals, ").expect("two numbers");
        let wrong = wrong.split(' ').next().and_then(|wrong| wrong.parse().ok());
        assert!(
            signals.parse::<u32>().is_ok_and(|signals| signals > 100),
            "{said}"
        );
        wrong.unwrap_or_else(|| panic!("{said}"))
    });
    assert!(
        ours <= std::cmp::max::<u32>(theirs, 2),
        "{ours} and {theirs}"
    );
}

/// The handler of a signal that is never blocked is before or after the call that blocks another,
/// one that is lazy, one that is not, and by `syscall`.
const CHANGES: [&str; 3] = ["x", "y", "z"];

#[test]
fn a_handler_is_before_or_after_a_change_of_the_mask() {
    let program = compile("stepped.c");
    for call in CHANGES {
        for mut command in [without(&program), with(&program)] {
            let run = output(command.env("LD_BIND_NOW", "1").args([call, "1"]));
            let said = String::from_utf8_lossy(&run.stdout);
            assert_eq!(run.status.code(), Some(0), "{call}: {said}");
        }
        let mut command = with(&program);
        command.env("ATOMSEQ_SIGMASK_WITHOUT", "sequences");
        let run = output(command.env("LD_BIND_NOW", "1").args([call, "1"]));
        assert_eq!(run.status.code(), Some(1), "the control: {call}");
    }
}

#[test]
fn without_the_protection_it_is_early() {
    let program = compile("stepped.c");
    let mut command = with(&program);
    command.env("ATOMSEQ_SIGMASK_WITHOUT", "excluding");
    assert_eq!(output(command.args(["s", STRIDE])).status.code(), Some(1));
}
