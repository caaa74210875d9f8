//! No value is lost, duplicated or torn, on the fast path and on each of the slow ones.
#![cfg(atomseq_sections)]

use std::time::Duration;

use atomseq::status::Registrant;
use verify_linux::{Answer, Circumstances, Refusal, When, in_fresh_process};
use verify_stress::{conserve, lengthened};

/// Runs the per-CPU targets in a process of its own, after `prepare` has checked that its path is
/// the intended one.
fn trial(test: &str, circumstances: Circumstances, forks: bool, prepare: impl FnOnce()) {
    let printed = in_fresh_process(test, circumstances, || {
        let each = lengthened(Duration::from_millis(80));
        // SAFETY: replaces the time limit of the process, which is meant for tests that hang.
        unsafe { libc::alarm(600 + 20 * each.as_secs() as u32) };
        prepare();
        conserve(test, each, |target| forks || target != "fork");
    });
    let lines = printed.iter().flat_map(|text| text.lines());
    // The test harness may have started the line.
    let figures = lines.filter_map(|line| line.find("stress: ").map(|start| &line[start..]));
    figures.for_each(|figures| println!("{figures}"));
}

fn environment(name: &'static str, value: &'static str) -> Circumstances {
    Circumstances {
        environment: vec![(name, value)],
        ..Circumstances::default()
    }
}

#[test]
fn on_the_fast_path() {
    trial("on_the_fast_path", Circumstances::default(), false, || {
        let status = atomseq::status();
        assert!(status.gates_active(), "{status}");
    });
}

#[test]
fn among_forks() {
    trial("among_forks", Circumstances::default(), true, || {});
}

#[test]
fn when_the_first_interruption_leads_to_the_slow_path() {
    let test = "when_the_first_interruption_leads_to_the_slow_path";
    trial(test, Circumstances::default(), true, || {
        atomseq::set_restart_limit(0);
    });
}

#[test]
fn when_threads_register_themselves() {
    let own = environment("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    trial("when_threads_register_themselves", own, true, || {
        let registrant = atomseq::status().registered_by();
        assert_eq!(registrant, Some(Registrant::Atomseq));
    });
}

#[test]
fn without_sequences() {
    let disabled = environment("ATOMSEQ_DISABLE_RSEQ", "1");
    trial("without_sequences", disabled, true, || {
        assert!(!atomseq::status().is_active());
    });
}

#[test]
fn without_the_fence() {
    let circumstances = Circumstances {
        refused: vec![Refusal {
            call: libc::SYS_membarrier,
            answer: Answer::Error(libc::EPERM),
            when: When::Always,
        }],
        ..Circumstances::default()
    };
    trial("without_the_fence", circumstances, true, || {
        let status = atomseq::status();
        assert!(status.is_active() && !status.gates_active(), "{status}");
    });
}
