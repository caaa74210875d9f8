//! `atomseq doctor`: what this machine offers, what atomseq therefore uses, and what its user can
//! do about it.

mod exclusion;
mod signals;

use std::fmt;

use atomseq::dcas::Mechanism;
use serde::Serialize;

use self::exclusion::{Circumstances, Exclusion, Mechanisms};
use self::signals::Signals;
use crate::machine;

/// All that the doctor reports; one JSON object with `--json`.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    /// The version of atomseq.
    pub atomseq: &'static str,
    /// The name of the processor.
    pub cpu: Option<String>,
    /// The CPUs this process may use.
    pub cpus: Vec<usize>,
    /// How many slots each per-CPU structure has: the largest CPU number that the system can use,
    /// plus one.
    pub cpu_slots: usize,
    /// The kernel's name and release.
    pub kernel: Option<String>,
    /// The C library.
    pub libc: Option<String>,
    /// Per-CPU sequences.
    pub rseq: Rseq,
    /// Gates, by which a thread accesses the data of another CPU.
    pub gates: Gates,
    /// The kernel's fences.
    pub membarrier: Membarrier,
    /// Protection against signal handlers on the same thread.
    pub signals: Signals,
    /// What atomseq uses for each structure.
    pub uses: Vec<Use>,
    /// The mechanism of each lock, and the reason.
    pub mutual_exclusion: Vec<Exclusion>,
    /// What the user can do, a sentence each; empty if nothing needs to be done.
    pub advice: Vec<String>,
}

/// Per-CPU sequences, which the kernel restarts.
#[derive(Debug, Serialize)]
pub struct Rseq {
    /// Whether they are active.
    pub active: bool,
    /// What registers this process's threads.
    pub registered_by: Option<String>,
    /// Why they are not active.
    pub reason: Option<String>,
    /// How many bytes of `struct rseq` the kernel writes.
    pub feature_size: u32,
    /// The alignment that the kernel requires.
    pub alignment: u32,
    /// Whether the kernel writes the NUMA node.
    pub node_id: bool,
    /// Whether the kernel writes a concurrency ID.
    pub mm_cid: bool,
    /// Whether the kernel supports time-slice extensions.
    pub slice_ctrl: bool,
}

/// Gates.
#[derive(Debug, Serialize)]
pub struct Gates {
    /// Whether a gate can be closed while other threads run sequences.
    pub active: bool,
    /// Why it cannot.
    pub reason: Option<String>,
}

/// The kernel's fences.
#[derive(Debug, Serialize)]
pub struct Membarrier {
    /// Whether there is one that restarts the sequences of another CPU.
    pub rseq: bool,
}

/// What atomseq uses for a structure.
#[derive(Debug, Serialize)]
pub struct Use {
    /// The structure.
    pub structure: &'static str,
    /// Per-CPU structures: `section`, `lock` or `atomic`. Local ones: `sequence` or `blocked`.
    /// Those shared by all CPUs: `pages`, `os-assisted`, `k-cas`, `double-width`, `one-word` or
    /// `plain`.
    pub path: &'static str,
    /// The same in words.
    pub how: &'static str,
}

/// The structures that use per-CPU sequences and no gates.
const WITHOUT_GATE: [&str; 4] = [
    "percpu::Counter",
    "percpu::Counters",
    "percpu::Gauge",
    "percpu::Histogram",
];
/// The structures that also use gates.
const WITH_GATE: [&str; 5] = [
    "percpu::Stack",
    "percpu::List",
    "percpu::Queue",
    "percpu::Ring",
    "percpu::Pool",
];
/// The structures that use one of two mechanisms, chosen once for the process.
const BY_MECHANISM: [&str; 12] = [
    "dcas::Domain",
    "nonblocking::Stack",
    "nonblocking::LinkedStack",
    "nonblocking::LinkedQueue",
    "nonblocking::List",
    "nonblocking::RefList",
    "nonblocking::OneVisitorList",
    "nonblocking::ListCache",
    "nonblocking::MultiMap",
    "nonblocking::PriorityQueue",
    "nonblocking::PageMap",
    "nonblocking::Server",
];

impl Diagnosis {
    /// Examines this machine, and initializes atomseq.
    pub fn take() -> Self {
        let status = atomseq::status();
        let features = status.features();
        let reason = status.reason().map(|reason| reason.to_string());
        let governor = machine::governor();
        let signals = signals::take();
        let mut advice = advice(status.is_active(), reason.as_deref(), governor.as_deref());
        advice.extend(signals.advice());
        let cpus = machine::allowed_cpus();
        let mutual_exclusion = exclusion::choose(&Circumstances {
            mechanisms: Mechanisms::here(),
            unfenced: match status.gates_active() {
                true => None,
                false => Some(reason.as_deref().unwrap_or("unknown reason")),
            },
            cpus: cpus.len(),
            signals: &signals,
        });
        Self {
            atomseq: env!("CARGO_PKG_VERSION"),
            cpu: machine::cpu_model(),
            cpus,
            cpu_slots: features.cpus,
            kernel: machine::kernel(),
            libc: machine::libc_version(),
            uses: uses(
                status.is_active(),
                status.gates_active(),
                signals.sequences.is_some(),
                atomseq::dcas::mechanism(),
            ),
            mutual_exclusion,
            advice,
            signals,
            gates: Gates {
                active: status.gates_active(),
                reason: reason.clone().filter(|_| !status.gates_active()),
            },
            rseq: Rseq {
                active: status.is_active(),
                registered_by: status
                    .registered_by()
                    .map(|registrant| registrant.to_string()),
                reason: reason.filter(|_| !status.is_active()),
                feature_size: features.rseq_size,
                alignment: features.rseq_alignment,
                node_id: features.node_id,
                mm_cid: features.mm_cid,
                slice_ctrl: features.slice_ctrl,
            },
            membarrier: Membarrier {
                rseq: features.membarrier_rseq,
            },
        }
    }
}

fn uses(sections: bool, gates: bool, table: bool, mechanism: Mechanism) -> Vec<Use> {
    let of = |structures: &'static [&'static str], path, how| {
        structures.iter().map(move |&structure| Use {
            structure,
            path,
            how,
        })
    };
    let (path, how) = match sections {
        true => (
            "section",
            "a per-CPU sequence without an atomic instruction",
        ),
        false => ("atomic", "an atomic addition to a word shared by all CPUs"),
    };
    let without_gate = of(&WITHOUT_GATE, path, how);
    let (path, how) = match gates {
        true => (
            "section",
            "a per-CPU sequence without an atomic instruction; draining and stealing close a gate",
        ),
        false => ("lock", "one lock a CPU, acquired by each operation"),
    };
    let with_gate = of(&WITH_GATE, path, how);
    let (path, how) = match table {
        true => (
            "sequence",
            "a sequence without an added instruction; a signal that interrupts it restarts or completes it",
        ),
        false => (
            "blocked",
            "all signals blocked during each operation, by two system calls",
        ),
    };
    let local = of(&signals::LOCAL, path, how);
    let (path, how) = match mechanism {
        Mechanism::Assisted => (
            "os-assisted",
            "OS-assisted double compare-and-swap, 1 atomic instruction a change: obstruction-free; a stopped owner is revoked",
        ),
        Mechanism::Kcas => (
            "k-cas",
            "k-CAS, 4 to 8 atomic instructions a change: lock-free; other threads complete an interrupted change",
        ),
    };
    let by_mechanism = of(&BY_MECHANISM, path, how);
    let (path, how) = match gates {
        true => (
            "section",
            "a per-CPU sequence without an atomic instruction; after repeated interruption, pages shared by all CPUs, lock-free",
        ),
        false => ("pages", "pages shared by all CPUs, lock-free"),
    };
    let type_stable = of(&["type_stable::Pool"], path, how);
    let (path, how) = match atomseq::internals::has_double_width() {
        true => (
            "double-width",
            "the processor's compare-and-swap of two words, 1 atomic instruction a change: lock-free",
        ),
        false => ("k-cas", "k-CAS of several words: lock-free"),
    };
    let by_processor = of(&["dcas::Adjacent", "nonblocking::Queue"], path, how);
    let by_one_word = of(
        &[
            "dcas::Packed",
            "nonblocking::HashMap",
            "nonblocking::RefHashMap",
        ],
        "one-word",
        "a compare-and-swap of one word, 1 or 2 atomic instructions a change: lock-free",
    );
    let plain = of(
        &["nonblocking::spsc::Ring"],
        "plain",
        "plain loads and stores, no atomic instruction: wait-free",
    );
    let local = without_gate.chain(with_gate).chain(local);
    local
        .chain(type_stable)
        .chain(by_mechanism)
        .chain(by_processor)
        .chain(by_one_word)
        .chain(plain)
        .collect()
}

fn advice(sections: bool, reason: Option<&str>, governor: Option<&str>) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(reason) = reason {
        let off = if sections {
            "Gates are off"
        } else {
            "Per-CPU sequences are off"
        };
        advice.push(format!("{off}: {reason}."));
    }
    if let Some(governor) = governor.filter(|&governor| governor != "performance") {
        advice.push(format!(
            "The frequency governor is {governor}. Set it to performance before you quote figures of `atomseq bench` \
             (`cpupower frequency-set -g performance`)."
        ));
    }
    advice
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = "unknown".to_string();
        let or_unknown = |fact: &Option<String>| fact.clone().unwrap_or_else(|| unknown.clone());
        writeln!(f, "atomseq {}", self.atomseq)?;
        writeln!(f, "  CPU                {}", or_unknown(&self.cpu))?;
        let slots = if self.cpu_slots == 1 {
            "1 slot".to_string()
        } else {
            format!("{} slots", self.cpu_slots)
        };
        writeln!(
            f,
            "  CPUs               {} usable; a per-CPU structure has {slots}",
            self.cpus.len()
        )?;
        writeln!(f, "  kernel             {}", or_unknown(&self.kernel))?;
        writeln!(f, "  C library          {}", or_unknown(&self.libc))?;
        let by = self.rseq.registered_by.as_deref().unwrap_or("no library");
        let sections = if self.rseq.active {
            format!("active; threads are registered by {by}")
        } else {
            "off".into()
        };
        writeln!(f, "  per-CPU sequences  {sections}")?;
        writeln!(
            f,
            "  gates              {}",
            if self.gates.active {
                "active"
            } else {
                "off: other CPUs' data is locked for each operation"
            }
        )?;
        let fence = if self.membarrier.rseq {
            "supported by the kernel"
        } else {
            "not supported by the kernel"
        };
        writeln!(f, "  rseq fence         {fence}")?;
        let fields = [
            ("NUMA node", self.rseq.node_id),
            ("concurrency ID", self.rseq.mm_cid),
            ("time-slice extension", self.rseq.slice_ctrl),
        ];
        let fields: Vec<_> = fields
            .iter()
            .filter(|(_, kept)| *kept)
            .map(|(name, _)| *name)
            .collect();
        let fields = if fields.is_empty() {
            String::new()
        } else {
            format!("; with {}", fields.join(", "))
        };
        writeln!(
            f,
            "  rseq area          {} bytes, aligned to {}{fields}",
            self.rseq.feature_size, self.rseq.alignment
        )?;
        writeln!(f, "  signal sequences   {}", self.signals.summary())?;
        let managed = match self.signals.managed.len() {
            0 => "none in this program; a program manages the signals whose handlers it installs",
            _ => "see --json",
        };
        writeln!(f, "  managed signals    {managed}")?;
        writeln!(f, "\natomseq uses")?;
        for group in self.uses.chunk_by(|a, b| a.how == b.how) {
            let structures: Vec<_> = group.iter().map(|r#use| r#use.structure).collect();
            writeln!(f, "  for {}:\n    {}", structures.join(", "), group[0].how)?;
        }
        writeln!(f, "\nmutual exclusion")?;
        for Exclusion {
            lock,
            scope,
            by,
            why,
        } in &self.mutual_exclusion
        {
            writeln!(f, "  {lock} ({scope}): {by}\n    {why}")?;
        }
        if self.advice.is_empty() {
            return writeln!(f, "\nNothing needs to be done.");
        }
        writeln!(f, "\nWhat to do")?;
        self.advice
            .iter()
            .try_for_each(|advice| writeln!(f, "  {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the path of each of these structures.
    fn paths(uses: &[Use], of: &[&str]) -> Vec<&'static str> {
        let path = |name: &&str| {
            let mut named = uses.iter().filter(|r#use| r#use.structure == *name);
            let path = named.next().map(|r#use| r#use.path);
            assert!(named.next().is_none(), "{name} is listed twice");
            path.unwrap_or_else(|| panic!("{name} is not listed"))
        };
        of.iter().map(path).collect()
    }

    #[test]
    fn a_machine_without_fences_has_fast_counters() {
        let uses = uses(true, false, true, Mechanism::Kcas);
        assert_eq!(paths(&uses, &WITHOUT_GATE), ["section"; 4]);
        assert_eq!(paths(&uses, &WITH_GATE), ["lock"; 5]);
        assert_eq!(paths(&uses, &["type_stable::Pool"]), ["pages"]);
        assert_eq!(paths(&uses, &signals::LOCAL), ["sequence"; 5]);
        assert_eq!(paths(&uses, &BY_MECHANISM), ["k-cas"; BY_MECHANISM.len()]);
    }

    #[test]
    fn the_mechanism_of_the_process_is_listed_with_its_progress() {
        let [assisted, kcas] = [Mechanism::Assisted, Mechanism::Kcas]
            .map(|mechanism| uses(true, true, true, mechanism));
        assert_eq!(
            paths(&assisted, &BY_MECHANISM),
            ["os-assisted"; BY_MECHANISM.len()]
        );
        let names = |uses: &[Use], progress: &str| {
            let mut by = uses
                .iter()
                .filter(|r#use| BY_MECHANISM.contains(&r#use.structure));
            by.all(|r#use| r#use.how.contains(progress))
        };
        assert!(names(&assisted, ": obstruction-free;") && names(&kcas, ": lock-free;"));
    }

    #[test]
    fn advice_names_what_is_off() {
        assert!(advice(true, None, Some("performance")).is_empty());
        assert!(advice(true, Some("no fence"), None)[0].starts_with("Gates are off: no fence."));
        assert!(
            advice(false, Some("too old"), None)[0]
                .starts_with("Per-CPU sequences are off: too old.")
        );
        assert!(advice(true, None, Some("powersave"))[0].contains("powersave"));
    }
}
