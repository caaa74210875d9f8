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
    /// The subjects here, and the technique of the paper that each measures. A technique may have
    /// several; ratios are those of the first.
    pub counterparts: &'static [(&'static str, &'static str)],
    /// The subjects that stand beside a technique of which no counterpart was measured. They are
    /// labelled "nearest".
    pub nearest: &'static [(&'static str, &'static str)],
    /// The techniques that cannot be measured here, and why.
    pub absent: &'static [(&'static str, &'static str)],
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
    /// Sections of other papers whose figures belong here, by the paper's key.
    pub also: &'static [(&'static str, &'static str)],
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

/// A subject that stands beside a technique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The subject, or the difference of two.
    pub subject: &'static str,
    /// Whether it is only the nearest to the technique.
    pub nearest: bool,
}

/// What something takes, with its spread over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The median.
    pub median: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The 90th percentile.
    pub p90: f64,
}

impl Cost {
    /// How many times another cost this is. The spread is that of both: their rounds are not
    /// compared one by one. Its upper end is infinite where the divisor's reaches zero.
    fn over(self, divisor: Self) -> Self {
        let bound = |value: f64, by: f64| if by > 0.0 { value / by } else { f64::INFINITY };
        Self {
            median: self.median / divisor.median,
            p10: bound(self.p10, divisor.p90),
            p90: bound(self.p90, divisor.p10),
        }
    }
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
    pub measured: Option<Cost>,
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
    /// Nothing stands beside anything: what an experiment leaves out.
    pub const NOTHING: Self = Self {
        paper: "",
        table: None,
        programs: &[],
        counterparts: &[],
        nearest: &[],
        absent: &[],
        baseline: None,
        differences: &[],
        arguments: &[],
        reasons: &[],
        sections: &[],
        also: &[],
        note: "",
    };

    /// The paper.
    pub fn paper(&self) -> &'static Paper {
        paper(self.paper).expect("experiments name papers that there are")
    }

    /// Whether something measured stands beside the paper's figures.
    pub fn has_rows(&self) -> bool {
        self.table.is_some() || !self.differences.is_empty()
    }

    /// The cells of the table that belong to the program which a workload is.
    pub fn cells(&self, workload: &str) -> impl Iterator<Item = &'static Cell> + use<'_> {
        let program = self.programs.iter().find(|(here, _)| *here == workload);
        let program = program.map(|(_, program)| *program);
        let cells = self.paper().cells.iter();
        cells.filter(move |cell| Some(cell.table) == self.table && Some(cell.program) == program)
    }

    /// The figures of the text that belong here, each with its paper's key.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, &'static Figure)> + use<'_> {
        let own = self.sections.iter().map(|section| (self.paper, *section));
        let sections = own.chain(self.also.iter().copied());
        sections.flat_map(|(key, section)| {
            let figures = paper(key).into_iter().flat_map(|paper| &paper.figures);
            let of_it = figures.filter(move |figure| figure.section == section);
            of_it.map(move |figure| (key, figure))
        })
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

    /// What stands beside a technique, of the subjects that there are: all its counterparts, else
    /// the nearest.
    fn shown(&self, technique: &str, is_there: impl Fn(&str) -> bool) -> Vec<Shown> {
        let there = |subject: &str| {
            let mut differences = self.differences.iter();
            match differences.find(|difference| difference.name == subject) {
                Some(difference) => is_there(difference.of) && is_there(difference.over),
                None => is_there(subject),
            }
        };
        let of = |list: &'static [(&'static str, &'static str)], nearest| {
            let of_it = list.iter().filter(move |(_, of)| *of == technique);
            let subjects = of_it.map(move |(subject, _)| Shown { subject, nearest });
            subjects.filter(|shown| there(shown.subject)).collect()
        };
        let exact: Vec<_> = of(self.counterparts, false);
        match exact.is_empty() {
            true => of(self.nearest, true),
            false => exact,
        }
    }

    /// What stands beside a technique in an outcome.
    pub fn subjects(&self, outcome: &Outcome, technique: &str) -> Vec<Shown> {
        let measured = |of: &str| outcome.measures.iter().any(|m| subject(m.case) == of);
        self.shown(technique, measured)
    }

    /// The first of those, of which ratios are.
    fn subject(&self, outcome: &Outcome, technique: &str) -> Option<&'static str> {
        let first = self.subjects(outcome, technique).into_iter().next();
        first.map(|shown| shown.subject)
    }

    /// Why a technique cannot be measured here.
    pub fn absence(&self, technique: &str) -> Option<&'static str> {
        let mut absent = self.absent.iter();
        absent.find(|(of, _)| *of == technique).map(|(_, why)| *why)
    }

    /// Every published figure that belongs to an experiment.
    pub fn published(&self, experiment: &Experiment) -> Vec<Published> {
        let mut all: Vec<Published> = Vec::new();
        let record = |cell: &Cell, (cases, nearest)| Published {
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
            cases,
            nearest,
        };
        let mut programs: Vec<_> = self.programs.iter().map(|(_, program)| *program).collect();
        programs.dedup();
        for cell in self
            .paper()
            .cells
            .iter()
            .filter(|cell| Some(cell.table) == self.table && programs.contains(&cell.program))
        {
            all.push(record(cell, self.cases(experiment, cell)));
        }
        all.extend(self.figures().map(|(paper, figure)| Published {
            experiment: experiment.name,
            paper,
            table: None,
            section: figure.section,
            technique: figure.technique,
            program: figure.quantity,
            machine: figure.machine,
            unit: figure.unit,
            value: figure.value.number(),
            printed: figure.value.to_string(),
            cases: Vec::new(),
            nearest: false,
        }));
        all
    }

    /// The cases here that a cell stands beside, or those that make the difference beside which it
    /// stands; and whether they are only the nearest.
    fn cases(&self, experiment: &Experiment, cell: &Cell) -> (Vec<&'static str>, bool) {
        let cases = || experiment.cases.iter().map(|entry| entry.name);
        let shown = self.shown(cell.technique, |of| cases().any(|case| subject(case) == of));
        let is_shown = |subject| shown.iter().any(|shown| shown.subject == subject);
        let is_beside = |case: &&'static str| {
            let makes = |difference: &Difference| {
                is_shown(difference.name)
                    && [difference.of, difference.over].contains(&subject(case))
            };
            self.programs.contains(&(workload(case), cell.program))
                && (is_shown(subject(case)) || self.differences.iter().any(makes))
        };
        let nearest = shown.iter().any(|shown| shown.nearest);
        (cases().filter(is_beside).collect(), nearest)
    }

    /// What a subject costs in the paper's sense: what it adds to the bare form if there is one,
    /// else all of it; or the difference of that name.
    pub fn cost(&self, outcome: &Outcome, workload: &str, subject: &str) -> Option<Cost> {
        let mut differences = self.differences.iter();
        let difference = differences.find(|difference| difference.name == subject);
        let over = difference
            .map(|difference| difference.over)
            .or(self.baseline);
        let of = difference.map_or(subject, |difference| difference.of);
        let case = outcome.case(workload, of)?;
        let (median, p10, p90) = match over {
            Some(over) => {
                let overhead = outcome.overhead(case, over)?;
                (overhead.median, overhead.p10, overhead.p90)
            }
            None => {
                let measure = outcome.measure(case)?;
                (measure.median, measure.p10, measure.p90)
            }
        };
        Some(Cost { median, p10, p90 })
    }

    /// Whether something costs more than chance would have it.
    fn is_measurable(&self, outcome: &Outcome, workload: &str, cost: Cost) -> bool {
        let bare = self
            .baseline
            .and_then(|bare| outcome.measure(outcome.case(workload, bare)?));
        cost.median > bare.map_or(0.0, |bare| bare.median * CHANCE)
    }

    /// The ratios that the paper argues from, for a workload that was measured.
    pub fn arguments(&self, outcome: &Outcome, workload: &'static str) -> Vec<Argument> {
        let arguments = self.arguments.iter().filter_map(|&techniques| {
            let of = |technique| self.subject(outcome, technique);
            let subjects = (of(techniques.0)?, of(techniques.1)?);
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
                    .then(|| costs.0.over(costs.1)),
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
        let techniques = self.paper().techniques.iter();
        let techniques = techniques.filter(|technique| Some(technique.table) == self.table);
        let measured = techniques.filter_map(|technique| {
            let subject = self.subject(outcome, technique.name)?;
            let cost = self.cost(outcome, workload, subject)?;
            Some((technique.name, subject, cost))
        });
        let measured: Vec<_> = measured.collect();
        let mut reversals = Vec::new();
        for &(there_dear, dear, here_dear) in &measured {
            for &(there_cheap, cheap, here_cheap) in &measured {
                let case = |subject| outcome.case(workload, subject);
                let ratio = case(dear)
                    .zip(case(cheap))
                    .and_then(|(dear, cheap)| outcome.ratio(dear, cheap));
                if self.order(workload, there_dear, there_cheap) == Some(true)
                    && here_dear.median < here_cheap.median * (1.0 - CHANCE)
                    && ratio.is_none_or(|ratio| ratio.verdict() == Verdict::Shorter)
                    && self.is_measurable(outcome, workload, here_cheap)
                {
                    let mut reasons = self.reasons.iter();
                    reversals.push(Reversal {
                        here: (cheap, dear),
                        there: (there_dear, there_cheap),
                        reason: reasons
                            .find(|(pair, _)| *pair == (there_dear, there_cheap))
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
