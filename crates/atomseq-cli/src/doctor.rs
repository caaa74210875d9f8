//! `atomseq doctor`: what this machine offers per-CPU code, what atomseq will therefore use, and
//! what a person can do about it.

mod exclusion;
mod signals;

use std::fmt;

use atomseq::dcas::Mechanism;
use serde::Serialize;

use self::exclusion::{Circumstances, Exclusion, Mechanisms};
use self::signals::Signals;
use crate::machine;

/// Everything the doctor has to say; one JSON object with `--json`.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    /// The version of atomseq.
    pub atomseq: &'static str,
    /// The processor's name.
    pub cpu: Option<String>,
    /// The CPUs this process may use.
    pub cpus: Vec<usize>,
    /// How many slots each per-CPU structure has: the largest CPU number the system may ever use,
    /// plus one.
    pub cpu_slots: usize,
    /// The kernel's name and release.
    pub kernel: Option<String>,
    /// The C library.
    pub libc: Option<String>,
    /// Restartable sections.
    pub rseq: Rseq,
    /// Gates, which let another CPU in.
    pub gates: Gates,
    /// The kernel's fences.
    pub membarrier: Membarrier,
    /// Protection against signal handlers on the same thread.
    pub signals: Signals,
    /// What atomseq will use for each structure.
    pub uses: Vec<Use>,
    /// Which mechanism each lock uses, and why.
    pub mutual_exclusion: Vec<Exclusion>,
    /// What to do, a sentence each; empty when all is well.
    pub advice: Vec<String>,
}

/// Restartable sections.
#[derive(Debug, Serialize)]
pub struct Rseq {
    /// Whether sections run.
    pub active: bool,
    /// Who registers this process's threads.
    pub registered_by: Option<String>,
    /// Why sections do not run.
    pub reason: Option<String>,
    /// How many bytes of `struct rseq` the kernel fills in.
    pub feature_size: u32,
    /// The alignment the kernel asks for.
    pub alignment: u32,
    /// Whether it keeps the NUMA node.
    pub node_id: bool,
    /// Whether it keeps a compact concurrency id.
    pub mm_cid: bool,
    /// Whether it knows time-slice extensions.
    pub slice_ctrl: bool,
}

/// Gates.
#[derive(Debug, Serialize)]
pub struct Gates {
    /// Whether a gate can be closed while others run sections.
    pub active: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// The kernel's fences.
#[derive(Debug, Serialize)]
pub struct Membarrier {
    /// Whether there is one that restarts the sections of another CPU.
    pub rseq: bool,
}

/// What atomseq will use for a structure.
#[derive(Debug, Serialize)]
pub struct Use {
    /// The structure.
    pub structure: &'static str,
    /// `section`, `lock` or `atomic`; for handlers `sequence` or `blocked`; for all CPUs `pages`,
    /// `os-assisted`, `k-cas` or `double-width`.
    pub path: &'static str,
    /// The same in words.
    pub how: &'static str,
}

/// The structures that need sections only.
const WITHOUT_GATE: [&str; 2] = ["percpu::Counter", "percpu::Histogram"];
/// The structures that need gates too.
const WITH_GATE: [&str; 5] = [
    "percpu::Stack",
    "percpu::List",
    "percpu::Queue",
    "percpu::Ring",
    "percpu::Pool",
];
/// The structures whose changes take one mechanism or the other, chosen once for the process.
const BY_MECHANISM: [&str; 6] = [
    "dcas::Domain",
    "nonblocking::Stack",
    "nonblocking::LinkedStack",
    "nonblocking::List",
    "nonblocking::RefList",
    "nonblocking::OneVisitorList",
];

impl Diagnosis {
    /// Examines this machine; starts atomseq up.
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
                false => Some(reason.as_deref().unwrap_or("nobody knows why")),
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
        true => ("section", "a section without an atomic instruction"),
        false => ("atomic", "an atomic addition to a word that all CPUs share"),
    };
    let without_gate = of(&WITHOUT_GATE, path, how);
    let (path, how) = match gates {
        true => (
            "section",
            "a section without an atomic instruction; draining and stealing close a gate",
        ),
        false => ("lock", "a lock a CPU, taken for every operation"),
    };
    let with_gate = of(&WITH_GATE, path, how);
    let (path, how) = match table {
        true => (
            "sequence",
            "a sequence without an added instruction; a signal that interrupts it puts it right",
        ),
        false => (
            "blocked",
            "all signals blocked for every operation, two system calls",
        ),
    };
    let local = of(&signals::LOCAL, path, how);
    let (path, how) = match mechanism {
        Mechanism::Assisted => (
            "os-assisted",
            "OS-assisted double compare-and-swap, 1 atomic instruction a change: obstruction-free; who is stopped inside is thrown out",
        ),
        Mechanism::Kcas => (
            "k-cas",
            "k-CAS, 4 to 8 atomic instructions a change: lock-free; what somebody has begun is finished for them",
        ),
    };
    let by_mechanism = of(&BY_MECHANISM, path, how);
    let (path, how) = match gates {
        true => (
            "section",
            "a section without an atomic instruction; pages of all CPUs, lock-free, where that is held up",
        ),
        false => ("pages", "pages that all CPUs share, lock-free"),
    };
    let memory = of(&["memory::Pool"], path, how);
    let (path, how) = match atomseq::internals::has_double_width() {
        true => (
            "double-width",
            "the processor's compare-and-swap of two words, 1 atomic instruction a change: lock-free",
        ),
        false => ("k-cas", "k-CAS of several words: lock-free"),
    };
    let by_processor = of(&["dcas::Adjacent", "nonblocking::Queue"], path, how);
    let local = without_gate.chain(with_gate).chain(local);
    local
        .chain(memory)
        .chain(by_mechanism)
        .chain(by_processor)
        .collect()
}

fn advice(sections: bool, reason: Option<&str>, governor: Option<&str>) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(reason) = reason {
        let off = if sections {
            "Gates are off"
        } else {
            "Sections do not run"
        };
        advice.push(format!("{off}: {reason}."));
    }
    if let Some(governor) = governor.filter(|&governor| governor != "performance") {
        advice.push(format!(
            "The frequency governor is {governor}: before quoting figures of `atomseq bench`, set it to performance \
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
        writeln!(f, "  CPU         {}", or_unknown(&self.cpu))?;
        let slots = if self.cpu_slots == 1 {
            "1 slot".to_string()
        } else {
            format!("{} slots", self.cpu_slots)
        };
        writeln!(
            f,
            "  CPUs        {} usable; a per-CPU structure has {slots}",
            self.cpus.len()
        )?;
        writeln!(f, "  kernel      {}", or_unknown(&self.kernel))?;
        writeln!(f, "  C library   {}", or_unknown(&self.libc))?;
        let by = self.rseq.registered_by.as_deref().unwrap_or("nobody");
        let sections = if self.rseq.active {
            format!("run; threads are registered by {by}")
        } else {
            "do not run".into()
        };
        writeln!(f, "  sections    {sections}")?;
        writeln!(
            f,
            "  gates       {}",
            if self.gates.active {
                "can be closed"
            } else {
                "are closed for good"
            }
        )?;
        let fence = if self.membarrier.rseq {
            "offered by the kernel"
        } else {
            "not offered by the kernel"
        };
        writeln!(f, "  rseq fence  {fence}")?;
        let fields = [
            ("NUMA node", self.rseq.node_id),
            ("concurrency id", self.rseq.mm_cid),
            ("slice extension", self.rseq.slice_ctrl),
        ];
        let fields: Vec<_> = fields
            .iter()
            .filter(|(_, kept)| *kept)
            .map(|(name, _)| *name)
            .collect();
        let fields = if fields.is_empty() {
            String::new()
        } else {
            format!("; keeps {}", fields.join(", "))
        };
        writeln!(
            f,
            "  rseq area   {} bytes, aligned to {}{fields}",
            self.rseq.feature_size, self.rseq.alignment
        )?;
        writeln!(f, "  signals     {}", self.signals.summary())?;
        let managed = match self.signals.managed.len() {
            0 => "none in this program: a program manages those it installs handlers for",
            _ => "see --json",
        };
        writeln!(f, "  managed     {managed}")?;
        writeln!(f, "\natomseq will use")?;
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
            return writeln!(f, "\nAll is well: there is nothing to do.");
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

    /// The path of each of these structures.
    fn paths(uses: &[Use], of: &[&str]) -> Vec<&'static str> {
        let path = |name: &&str| {
            let mut named = uses.iter().filter(|r#use| r#use.structure == *name);
            let path = named.next().map(|r#use| r#use.path);
            assert!(named.next().is_none(), "{name} is told twice");
            path.unwrap_or_else(|| panic!("{name} is not told"))
        };
        of.iter().map(path).collect()
    }

    #[test]
    fn a_machine_without_fence_still_has_fast_counters() {
        let uses = uses(true, false, true, Mechanism::Kcas);
        assert_eq!(paths(&uses, &WITHOUT_GATE), ["section"; 2]);
        assert_eq!(paths(&uses, &WITH_GATE), ["lock"; 5]);
        assert_eq!(paths(&uses, &["memory::Pool"]), ["pages"]);
        assert_eq!(paths(&uses, &signals::LOCAL), ["sequence"; 5]);
        assert_eq!(paths(&uses, &BY_MECHANISM), ["k-cas"; BY_MECHANISM.len()]);
    }

    #[test]
    fn the_mechanism_of_the_process_is_told_with_its_progress() {
        let [assisted, kcas] = [Mechanism::Assisted, Mechanism::Kcas]
            .map(|mechanism| uses(true, true, true, mechanism));
        assert_eq!(
            paths(&assisted, &BY_MECHANISM),
            ["os-assisted"; BY_MECHANISM.len()]
        );
        let told = |uses: &[Use], progress: &str| {
            let mut by = uses
                .iter()
                .filter(|r#use| BY_MECHANISM.contains(&r#use.structure));
            by.all(|r#use| r#use.how.contains(progress))
        };
        assert!(told(&assisted, ": obstruction-free;") && told(&kcas, ": lock-free;"));
    }

    #[test]
    fn advice_names_what_is_off() {
        assert!(advice(true, None, Some("performance")).is_empty());
        assert!(advice(true, Some("no fence"), None)[0].starts_with("Gates are off: no fence."));
        assert!(
            advice(false, Some("too old"), None)[0].starts_with("Sections do not run: too old.")
        );
        assert!(advice(true, None, Some("powersave"))[0].contains("powersave"));
    }
}
