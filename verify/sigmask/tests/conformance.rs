//! A program that calls every function that the library defines prints the same with it.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::path::Path;

use verify_sigmask::{compile, output, with, without};

/// The cases of the program, and protections without which the case must print something else.
const CASES: &[(&str, &[&str])] = &[
    ("procmask", &[]),
    ("raw", &["deferral"]),
    ("old_masks", &["deferral"]),
    ("every_signal", &["deferral", "information"]),
    ("order", &["never"]),
    ("defaults", &["default"]),
    ("ignored", &["disposition"]),
    ("child_signals", &[]),
    ("handlers", &["handler-mask"]),
    ("one_shot", &["one-shot"]),
    ("context_masks", &["context"]),
    ("handler_in_handler", &["no-longer"]),
    ("mask_in_handler", &["deferral"]),
    ("actions", &["one-shot"]),
    ("suspend", &["waiting"]),
    ("nested_suspend", &["waiting"]),
    ("waits", &[]),
    ("descriptors", &[]),
    ("interruptions", &["publish", "restart"]),
    ("stacks", &["deferral"]),
    ("faults", &["never"]),
    ("jumps", &["jumps"]),
    ("contexts", &["jumps"]),
    ("last_context", &[]),
    ("contexts_in_handlers", &["jumps"]),
    ("executing", &["publish"]),
    ("children", &["vfork", "publish"]),
    ("job_control", &[]),
    ("with_threads", &["deferral"]),
    ("threads_later", &["threads"]),
    ("timers", &["timers"]),
    ("bad_addresses", &[]),
    ("small_stacks", &["threads"]),
    ("start_of_mapping", &[]),
    ("own_numbers", &[]),
    ("shared_memory", &["vfork"]),
    ("raw_vfork", &["threads"]),
    ("ended_call", &["ended"]),
    ("raw_waits", &["waiting"]),
    ("around_waits", &[]),
    ("moved_contexts", &[]),
    ("refused_actions", &[]),
    ("filters", &["threads"]),
    ("actions_of_threads", &[]),
    ("interval_timers", &["timers"]),
    ("ignored_defaults", &["ignored"]),
    ("one_shot_twice", &[]),
    ("defaults_in_waits", &["waiting"]),
    ("signal_stacks", &["signal-stack"]),
    ("queued_for_thread", &["publish"]),
    ("uninterrupted", &["publish"]),
    ("cancelled", &[]),
    ("inherited_timers", &["timers"]),
    ("edited_masks", &[]),
    ("starting_threads", &["starting"]),
    ("hidden_masks", &[]),
    ("commands", &["threads"]),
    ("actions_in_system", &["threads"]),
    ("closes", &["publish"]),
    ("saved_in_cleanup", &[]),
    ("waits_of_devices", &["waiting"]),
    ("file_systems", &["restart"]),
    ("aborts_blocked", &[]),
    ("defaults_of_threads", &["threads"]),
    ("switched_actions", &[]),
    ("forks_in_vfork", &[]),
    ("locks_of_accounts", &["publish"]),
    ("same_number", &[]),
    ("first_process", &[]),
    ("stopped_waits", &[]),
    ("killed_in_vfork", &[]),
    ("stopped_at_handlers", &[]),
    ("stores_old_mask", &[]),
    ("handled_calls", &["threads"]),
    ("without_memory", &[]),
    ("ignored_later", &[]),
    ("filtered_exits", &[]),
    ("shared_handlers", &[]),
    ("connects", &["restart"]),
    ("terminals", &["publish"]),
];

fn run(program: &Path, case: &str) -> String {
    lines(&output(without(program).arg(case)))
}

fn lines(output: &std::process::Output) -> String {
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_sees_no_difference() {
    let program = compile("conformance.c");
    let mut cases = 0;
    for (case, _) in CASES {
        let expected = run(&program, case);
        assert!(
            expected.ends_with(&format!("{case}: exit 0\n")),
            "{expected}"
        );
        let found = lines(&output(with(&program).arg(case)));
        assert!(
            found == expected,
            "{case}: {}",
            difference(&expected, &found)
        );
        cases += 1;
    }
    let all = lines(&output(&mut without(&program)));
    let listed = all.lines().filter(|line| line.starts_with("---- ")).count();
    assert_eq!(cases, listed, "every case of the program is listed here");
}

#[test]
fn without_a_protection_it_sees_one() {
    let program = compile("conformance.c");
    for (case, protections) in CASES {
        let expected = run(&program, case);
        if expected.contains("no namespaces") {
            println!("conformance: {case} cannot fail here, for the kernel refuses what it needs");
            continue;
        }
        for protection in *protections {
            let mut command = with(&program);
            command.arg(case).env("ATOMSEQ_SIGMASK_WITHOUT", protection);
            let found = output(&mut command);
            let found = String::from_utf8_lossy(&found.stdout).into_owned();
            assert!(found != expected, "{case} passes without {protection}");
        }
    }
}

/// Returns the first lines that differ.
fn difference(expected: &str, found: &str) -> String {
    let mut lines = expected.lines().zip(found.lines()).enumerate();
    match lines.find(|(_, (expected, found))| expected != found) {
        Some((line, (expected, found))) => {
            format!("line {line}: {found:?} in place of {expected:?}")
        }
        None => format!(
            "{} lines in place of {}",
            found.lines().count(),
            expected.lines().count()
        ),
    }
}
