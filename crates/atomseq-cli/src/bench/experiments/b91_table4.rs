//! `b91-table4`: B91 5: a test-and-set and a clear by interlocked instruction, inlined, and by a
//! restartable sequence, called. The linkage time is what the call takes, the difference to the
//! same sequence inlined. The kernel restarts the `cpu` sequences, which exclude the threads of a
//! CPU, and signal handlers the others, which exclude those handlers only.

use atomseq::mutex::{Interlocked, OnCpu, Restarting};

use super::b91_table1::{Called, Inlined, Loop, Passes};
use super::{Experiment, Method, Threads, Workload, cases};
use crate::bench::beside::{Beside, Difference};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "b91-table4",
    about: "B91's table 4: an interlocked instruction, a restartable sequence, and the cost of calling the latter",
    cases: cases! {
        "interlocked", "an interlocked exchange, inlined",
            |_| Passes::<Inlined<Interlocked>>::boxed();
        "cpu-branch", "restarted by the kernel, for the threads of one CPU, called",
            |_| Passes::<Called<OnCpu>>::boxed();
        "cpu-inlined", "restarted by the kernel, for the threads of one CPU, inlined",
            |_| Passes::<Inlined<OnCpu>>::boxed();
        "restart-branch", "restarted if a signal handler interrupts it, called",
            |_| Passes::<Called<Restarting>>::boxed();
        "restart-inlined", "restarted if a signal handler interrupts it, inlined",
            |_| Passes::<Inlined<Restarting>>::boxed();
        "loop", "the loop alone", |_| Box::new(Loop::default());
    },
    peers: &["loop"],
    method: Method::Placed {
        threads: 1,
        workloads: &[Workload::WHOLE],
    },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "B91",
        table: Some("4"),
        programs: &[("", "acquire and release")],
        counterparts: &[
            ("interlocked", "Interlocked Test-And-Set"),
            ("cpu-branch", "Restartable Test-And-Set"),
            ("restart-branch", "Restartable Test-And-Set"),
            ("cpu-linkage", "Linkage Time"),
            ("restart-linkage", "Linkage Time"),
        ],
        baseline: Some("loop"),
        differences: &[
            Difference {
                name: "cpu-linkage",
                of: "cpu-branch",
                over: "cpu-inlined",
            },
            Difference {
                name: "restart-linkage",
                of: "restart-branch",
                over: "restart-inlined",
            },
        ],
        arguments: &[("Interlocked Test-And-Set", "Restartable Test-And-Set")],
        reasons: &[(
            ("Restartable Test-And-Set", "Linkage Time"),
            "a predicted call and return overlap with what is around them, and are hard to tell from nothing",
        )],
        note: "The cpu- rows exclude the threads of a CPU, as B91's sequences did; the restart- rows exclude only the signal \
               handlers of one thread. The loop's time is taken off here; of the paper's figures that is not said. The critical sections here count, as \
               those of table 1.",
        ..Beside::NOTHING
    }),
};
