//! Signals from another process to a program that masks and unmasks: none is lost, none is early.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use verify_sigmask::{compile, output, with};

#[test]
fn none_is_lost_and_none_is_early() {
    let rounds = std::env::var("ATOMSEQ_SIGMASK_ROUNDS").unwrap_or_else(|_| "3000000".into());
    let program = compile("storm.c");
    let run = output(with(&program).arg(&rounds));
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}");
    println!("storm: {rounds} rounds: {said}");
    // The control: a signal that is not deferred is early. On a busy machine few signals arrive,
    // perhaps none in a mask.
    let is_early = (0..20).any(|_| {
        let without = "ATOMSEQ_SIGMASK_WITHOUT";
        let run = output(with(&program).arg("3000000").env(without, "deferral"));
        run.status.code() == Some(1)
    });
    assert!(is_early, "the control");
}
