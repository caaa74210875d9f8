//! How an experiment and a paper belong together: which published figures stand beside which cases,
//! which ratios the paper argues from, and whether the measured order is the same.

use atomseq_papers::{Cell, Figure, Paper, Value, paper};

use super::experiments::Experiment;
use super::record::{Outcome, Published, Verdict, subject, workload};

/// How an experiment and a paper's figures belong together.
pub struct Beside {
    /// The paper's key.
    pub paper: &'static str,
    /// The table's number; `None` where only figures of the text belong here.
    pub table: Option<&'static str>,
    /// The workloads here (empty where there is only one), and the program of the paper that each
    /// is.
    pub programs: &'static [(&'static str, &'static str)],
    /// The subjects here, and the technique of the paper that each is nearest to.
    pub counterparts: &'static [(&'static str, &'static str)],
    /// The subject that does the same without any protection, where the paper's figures are what is
    /// added to that.
    pub baseline: Option<&'static str>,
    /// The differences of two subjects that the paper has figures of. Counterparts name them as
    /// they name subjects.
    pub differences: &'static [Difference],
    /// The ratios that the paper argues from: two techniques each.
    pub arguments: &'static [(&'static str, &'static str)],
    /// Why two techniques may come out in another order than in the paper.
    pub reasons: &'static [((&'static str, &'static str), &'static str)],
    /// The sections whose figures belong here.
    pub sections: &'static [&'static str],
    /// A note on the comparison.
    pub note: &'static str,
}

/// What one subject takes longer than another.
pub struct Difference {
    /// What it is called.
    pub name: &'static str,
    /// The subject that takes longer.
    pub of: &'static str,
    /// The subject that is subtracted.
    pub over: &'static str,
}

/// A ratio that the paper argues from, there and here.
pub struct Argument {
    /// The technique divided, and the one it is divided by.
    pub techniques: (&'static str, &'static str),
    /// The subjects that are measured for them here.
    pub subjects: (&'static str, &'static str),
    /// The ratio there, with a `≥` where the paper has a bound, and the machine.
    pub published: Vec<(String, &'static str)>,
    /// The ratio here; `None` where the second adds too little to be distinguished from zero.
    pub measured: Option<f64>,
}

/// Two techniques whose order here is not the published one.
#[derive(Debug, PartialEq, Eq)]
pub struct Reversal {
    /// The subject that costs more here, and the other one.
    pub here: (&'static str, &'static str),
    /// The technique that cost more there, and the other one.
    pub there: (&'static str, &'static str),
    /// Why.
    pub reason: &'static str,
}

/// Below this share of the bare form, what a case adds to it is chance, and so is the difference
/// between two cases.
const CHANCE: f64 = 0.03;

impl Beside {
    /// The paper.
    pub fn paper(&self) -> &'static Paper {
        paper(self.paper).expect("experiments name papers that there are")
    }

    /// The cells of the table that belong to the program which a workload is.
    pub fn cells(&self, workload: &str) -> impl Iterator<Item = &'static Cell> + use<'_> {
        let program = self.programs.iter().find(|(here, _)| *here == workload);
        let program = program.map(|(_, program)| *program);
        let cells = self.paper().cells.iter();
        cells.filter(move |cell| Some(cell.table) == self.table && Some(cell.program) == program)
    }

    /// The figures of the text that belong here.
    pub fn figures(&self) -> impl Iterator<Item = &'static Figure> + use<'_> {
        let figures = self.paper().figures.iter();
        figures.filter(|figure| self.sections.contains(&figure.section))
    }

    /// The machines that the table has figures of, in its order.
    pub fn machines(&self) -> Vec<&'static str> {
        let mut machines = Vec::new();
        let cells = self.paper().cells.iter();
        for cell in cells.filter(|cell| Some(cell.table) == self.table) {
            if !machines.contains(&cell.machine) {
                machines.push(cell.machine);
            }
        }
        machines
    }

    /// The subject that a technique is measured by here, or the difference of two.
    pub fn subject(&self, technique: &str) -> Option<&'static str> {
        let mut counterparts = self.counterparts.iter();
        counterparts
            .find(|(_, there)| *there == technique)
            .map(|(here, _)| *here)
    }

    /// Every published figure that belongs to an experiment.
    pub fn published(&self, experiment: &Experiment) -> Vec<Published> {
        let mut all: Vec<Published> = Vec::new();
        let record = |cell: &Cell| Published {
            experiment: experiment.name,
            paper: self.paper,
            table: Some(cell.table),
            section: cell.section,
            technique: Some(cell.technique),
            program: cell.program,
            machine: cell.machine,
            unit: cell.unit,
            value: cell.value.number(),
            printed: cell.value.to_string(),
            cases: self.cases(experiment, cell),
        };
        let mut programs: Vec<_> = self.programs.iter().map(|(_, program)| *program).collect();
        programs.dedup();
        for cell in self
            .paper()
            .cells
            .iter()
            .filter(|cell| Some(cell.table) == self.table && programs.contains(&cell.program))
        {
            all.push(record(cell));
        }
        all.extend(self.figures().map(|figure| Published {
            experiment: experiment.name,
            paper: self.paper,
            table: None,
            section: figure.section,
            technique: figure.technique,
            program: figure.quantity,
            machine: figure.machine,
            unit: figure.unit,
            value: figure.value.number(),
            printed: figure.value.to_string(),
            cases: Vec::new(),
        }));
        all
    }

    /// The cases here that a cell stands beside, or those that make the difference beside which it
    /// stands.
    fn cases(&self, experiment: &Experiment, cell: &Cell) -> Vec<&'static str> {
        let is_counterpart = |subject| self.counterparts.contains(&(subject, cell.technique));
        let is_beside = |case: &&'static str| {
            let makes = |difference: &Difference| {
                is_counterpart(difference.name)
                    && [difference.of, difference.over].contains(&subject(case))
            };
            self.programs.contains(&(workload(case), cell.program))
                && (is_counterpart(subject(case)) || self.differences.iter().any(makes))
        };
        let cases = experiment.cases.iter().map(|entry| entry.name);
        cases.filter(is_beside).collect()
    }

    /// What a subject costs in the paper's sense: what it adds to the bare form if there is one,
    /// else all of it; or the difference of that name.
    pub fn cost(&self, outcome: &Outcome, workload: &str, subject: &str) -> Option<f64> {
        let mut differences = self.differences.iter();
        if let Some(difference) = differences.find(|difference| difference.name == subject) {
            let case = outcome.case(workload, difference.of)?;
            return Some(outcome.overhead(case, difference.over)?.median);
        }
        let case = outcome.case(workload, subject)?;
        match self.baseline {
            Some(bare) => Some(outcome.overhead(case, bare)?.median),
            None => Some(outcome.measure(case)?.median),
        }
    }

    /// Whether something costs more than chance would have it.
    fn is_measurable(&self, outcome: &Outcome, workload: &str, cost: f64) -> bool {
        let bare = self
            .baseline
            .and_then(|bare| outcome.measure(outcome.case(workload, bare)?));
        cost > bare.map_or(0.0, |bare| bare.median * CHANCE)
    }

    /// The ratios that the paper argues from, for a workload that was measured.
    pub fn arguments(&self, outcome: &Outcome, workload: &'static str) -> Vec<Argument> {
        let arguments = self.arguments.iter().filter_map(|&techniques| {
            let subjects = (self.subject(techniques.0)?, self.subject(techniques.1)?);
            let costs = (
                self.cost(outcome, workload, subjects.0)?,
                self.cost(outcome, workload, subjects.1)?,
            );
            let published: Vec<_> = self.published_ratios(workload, techniques);
            (!published.is_empty()).then(|| Argument {
                techniques,
                subjects,
                published,
                measured: self
                    .is_measurable(outcome, workload, costs.1)
                    .then(|| costs.0 / costs.1),
            })
        });
        arguments.collect()
    }

    /// What the paper's cells of a workload say of two techniques, machine by machine.
    fn published_ratios(
        &self,
        workload: &str,
        techniques: (&str, &str),
    ) -> Vec<(String, &'static str)> {
        let ratios = self.paper().machines.iter().filter_map(|machine| {
            let value = |technique: &str| {
                let mut cells = self.cells(workload);
                cells
                    .find(|c| c.technique == technique && c.machine == machine.name)
                    .map(|c| c.value)
            };
            match (value(techniques.0)?, value(techniques.1)?) {
                (Value::Exactly(a), Value::Exactly(b)) => {
                    Some((crate::report::figure(a / b), machine.name))
                }
                (Value::AtLeast(a), Value::Exactly(b)) => {
                    Some((format!("≥ {}", crate::report::figure(a / b)), machine.name))
                }
                _ => None,
            }
        });
        ratios.collect()
    }

    /// The pairs of techniques that came out in another order than on every machine of the paper's,
    /// by rounds that agree.
    pub fn reversals(&self, outcome: &Outcome, workload: &'static str) -> Vec<Reversal> {
        let mut reversals = Vec::new();
        for (dear, there_dear) in self.counterparts {
            for (cheap, there_cheap) in self.counterparts {
                if self.order(workload, there_dear, there_cheap) != Some(true) {
                    continue;
                }
                let cost = |subject| self.cost(outcome, workload, subject);
                let (Some(here_dear), Some(here_cheap)) = (cost(dear), cost(cheap)) else {
                    continue;
                };
                let case = |subject| outcome.case(workload, subject);
                let ratio = case(dear)
                    .zip(case(cheap))
                    .and_then(|(dear, cheap)| outcome.ratio(dear, cheap));
                if here_dear < here_cheap * (1.0 - CHANCE)
                    && ratio.is_none_or(|ratio| ratio.verdict() == Verdict::Shorter)
                    && self.is_measurable(outcome, workload, here_cheap)
                {
                    let mut reasons = self.reasons.iter();
                    reversals.push(Reversal {
                        here: (cheap, dear),
                        there: (there_dear, there_cheap),
                        reason: reasons
                            .find(|(pair, _)| *pair == (*there_dear, *there_cheap))
                            .map_or("the reason is not known", |(_, reason)| reason),
                    });
                }
            }
        }
        reversals
    }

    /// Whether the first technique is dearer than the second on every machine that has both.
    fn order(&self, workload: &str, dear: &str, cheap: &str) -> Option<bool> {
        let mut all = None;
        for machine in &self.paper().machines {
            let value = |technique: &str| {
                let mut cells = self.cells(workload);
                let cell = cells.find(|c| c.technique == technique && c.machine == machine.name)?;
                (cell.value != Value::NotAvailable).then_some(cell.value)
            };
            if let (Some(dear), Some(cheap)) = (value(dear), value(cheap)) {
                all = Some(all.unwrap_or(true) && dear.exceeds(cheap)?);
            }
        }
        all
    }
}

// The experiments that stand beside a paper are Linux's.
#[cfg(all(test, target_os = "linux"))]
mod tests;
