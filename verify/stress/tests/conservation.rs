//! No value is lost, duplicated or torn: on the fast path, on each of the slow ones, and in a build
//! without sequences.
#![cfg(target_os = "linux")]

use std::time::Duration;

use atomseq_stress::targets::{groups, named};
use verify_stress::{conserve, lengthened};

/// Returns how long each target runs.
fn each() -> Duration {
    lengthened(Duration::from_millis(80))
}

/// In this program, because the list reaches all targets: the tests of the engine's crate would
/// compile them once more.
#[test]
fn each_group_is_in_one_place_and_has_a_name_of_its_own() {
    let names: Vec<_> = groups().map(|(group, _)| group).collect();
    assert_eq!(
        names,
        [
            "percpu",
            "local",
            "signals",
            "mutex",
            "dcas",
            "nonblocking",
            "type_stable"
        ]
    );
    for (group, targets) in groups() {
        // A name of a target that is a group's, too, means the same targets.
        assert!(targets.len() == 1 || targets.iter().all(|target| target.name != group));
        assert_eq!(named(group).count(), targets.len());
    }
    assert_eq!(named("stack").count(), 1);
    assert_eq!(named("memory").count(), 0);
}

#[cfg(not(atomseq_sections))]
#[test]
fn in_a_portable_build() {
    // Portable builds do not watch forks.
    conserve("in_a_portable_build", each(), |target| target != "fork");
}

#[cfg(atomseq_sections)]
mod paths {
    use atomseq::status::Registrant;
    use verify_support::processes::{Circumstances, end_in, in_fresh_process_under};
    use verify_support::sandbox::{Answer, Refusal, When};
    use verify_support::this_test;

    use super::{conserve, each};

    /// Runs the per-CPU targets in a process of its own, after `prepare` has checked that its path
    /// is the intended one.
    fn trial(test: &str, circumstances: Circumstances, forks: bool, prepare: impl FnOnce()) {
        let printed = in_fresh_process_under(test, circumstances, || {
            let each = each();
            end_in(600 + 20 * each.as_secs() as u32);
            prepare();
            conserve(test, each, |target| forks || target != "fork");
        });
        if let Some(printed) = printed {
            printed.print_from("stress: ");
        }
    }

    #[test]
    fn on_the_fast_path() {
        trial(this_test!(), Circumstances::default(), false, || {
            let status = atomseq::status();
            assert!(status.gates_active(), "{status}");
        });
    }

    #[test]
    fn among_forks() {
        trial(this_test!(), Circumstances::default(), true, || {});
    }

    #[test]
    fn when_the_first_interruption_leads_to_the_slow_path() {
        trial(this_test!(), Circumstances::default(), true, || {
            atomseq::set_restart_limit(0);
        });
    }

    #[test]
    fn when_threads_register_themselves() {
        let own = Circumstances::environment(&[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]);
        trial(this_test!(), own, true, || {
            let registrant = atomseq::status().registered_by();
            assert_eq!(registrant, Some(Registrant::Atomseq));
        });
    }

    #[test]
    fn without_sequences() {
        let disabled = Circumstances::environment(&[("ATOMSEQ_DISABLE_RSEQ", "1")]);
        trial(this_test!(), disabled, true, || {
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
        trial(this_test!(), circumstances, true, || {
            let status = atomseq::status();
            assert!(status.is_active() && !status.gates_active(), "{status}");
        });
    }
}
