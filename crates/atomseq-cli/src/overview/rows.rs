//! The rows of the overview: which case of which experiment, and beside what.

/// One operation of atomseq's, and what one would use instead.
pub struct Row {
    /// What it is.
    pub what: &'static str,
    /// What is done.
    pub operation: &'static str,
    /// The experiment that measures it.
    pub experiment: &'static str,
    /// The workload, where the experiment has several.
    pub workload: &'static str,
    /// atomseq's subject; the first that this machine can run.
    pub ours: &'static [&'static str],
    /// The subjects that do the same, and their names for a reader. The fastest stands in the row.
    pub alternatives: &'static [(&'static str, &'static str)],
    /// The subjects that do less, so that they are no alternatives. A loss to one is a loss.
    pub bounds: &'static [(&'static str, &'static str)],
}

/// The rows, in their order: at most twelve.
pub const ROWS: &[Row] = &[
    Row {
        what: "counter",
        operation: "add",
        experiment: "percpu-counter",
        workload: "",
        ours: &["rseq"],
        alternatives: &[
            ("interlocked", "shared AtomicU64"),
            ("interlocked-percpu", "AtomicU64 a CPU"),
            ("mutex", "Mutex<u64>"),
        ],
        bounds: &[("thread-local", "thread-local")],
    },
    Row {
        what: "histogram",
        operation: "record",
        experiment: "percpu-histogram",
        workload: "",
        ours: &["rseq"],
        alternatives: &[
            ("interlocked", "[AtomicU64; 65]"),
            ("mutex", "Mutex<[u64; 65]>"),
        ],
        bounds: &[("thread-local", "thread-local")],
    },
    Row {
        what: "stack",
        operation: "push, pop",
        experiment: "percpu-stack",
        workload: "",
        ours: &["rseq"],
        alternatives: &[
            ("treiber", "Treiber's stack"),
            ("mutex", "Mutex<Vec>"),
            ("crossbeam", "ArrayQueue"),
        ],
        bounds: &[],
    },
    Row {
        what: "queue",
        operation: "push, pop",
        experiment: "percpu-queue",
        workload: "",
        ours: &["rseq"],
        alternatives: &[
            ("treiber", "2 Treiber stacks"),
            ("mutex", "Mutex<VecDeque>"),
            ("crossbeam", "SegQueue"),
        ],
        bounds: &[],
    },
    Row {
        what: "ring",
        operation: "batch of 32",
        experiment: "percpu-ring",
        workload: "",
        ours: &["rseq"],
        alternatives: &[("crossbeam", "ArrayQueue")],
        bounds: &[],
    },
    Row {
        what: "pool, 64 B",
        operation: "get, put",
        experiment: "percpu-pool",
        workload: "",
        ours: &["rseq"],
        alternatives: &[
            ("malloc", "malloc, free"),
            ("mimalloc", "mimalloc"),
            ("jemalloc", "jemalloc"),
            ("crossbeam", "ArrayQueue"),
        ],
        bounds: &[],
    },
    Row {
        what: "signal mask",
        operation: "block, restore",
        experiment: "signal-mask",
        workload: "",
        ours: &["mask"],
        alternatives: &[("sigprocmask", "sigprocmask")],
        bounds: &[],
    },
    Row {
        what: "signal sequence",
        operation: "push, pop",
        experiment: "signal-sequence",
        workload: "lifo",
        ours: &["restarting"],
        alternatives: &[
            ("interlocked", "tagged CAS"),
            ("sigprocmask", "sigprocmask"),
        ],
        bounds: &[("none", "no protection")],
    },
    Row {
        what: "mutex, biased",
        operation: "lock, unlock",
        experiment: "biased",
        workload: "home",
        ours: &["biased"],
        alternatives: &[("std", "std's Mutex"), ("parking_lot", "parking_lot")],
        bounds: &[],
    },
    Row {
        what: "two-word CAS",
        operation: "add to both",
        experiment: "dcas",
        workload: "",
        ours: &["os-assisted", "k-cas"],
        alternatives: &[
            ("seqlock", "sequence lock"),
            ("parking_lot", "parking_lot"),
            ("crate-kcas", "crate kcas"),
            ("crate-mwcas", "crate mwcas"),
        ],
        bounds: &[("cas", "one-word CAS")],
    },
    Row {
        what: "shared list",
        operation: "remove, insert",
        experiment: "nonblocking-list",
        workload: "",
        ours: &["atomseq"],
        alternatives: &[
            ("harris-michael", "Harris & Michael"),
            ("crossbeam-skip", "SkipMap"),
            ("mutex", "Mutex<BTreeMap>"),
        ],
        bounds: &[],
    },
    Row {
        what: "shared queue",
        operation: "CPU to CPU",
        experiment: "flow-queue",
        workload: "yield-1024",
        ours: &["atomseq"],
        alternatives: &[
            ("crossbeam-array", "ArrayQueue"),
            ("mutex", "Mutex<VecDeque>"),
        ],
        bounds: &[],
    },
];
