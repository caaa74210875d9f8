//! Why a case has no figures: operations that are not accounted for, a panic, or a machine too busy
//! to measure it.

use std::fmt;

use super::record::Series;

/// Why a case has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The fault in words.
    pub sentence: String,
    /// What each count was to be, where counts are wrong.
    pub expected: Option<u64>,
    /// The counts, in the order in which the words name them.
    pub found: Vec<u64>,
    /// Whether the case was not measured at all, so that nothing is known of it.
    pub untried: bool,
}

impl Fault {
    /// Counts that are not what they were to be.
    pub fn count(expected: u64, found: impl Into<Vec<u64>>, sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            expected: Some(expected),
            found: found.into(),
            untried: false,
        }
    }

    /// The case could not be measured.
    pub fn untried(sentence: impl Into<String>) -> Self {
        Self {
            untried: true,
            ..Self::from(sentence.into())
        }
    }
}

impl From<String> for Fault {
    fn from(sentence: String) -> Self {
        Self {
            sentence,
            expected: None,
            found: Vec::new(),
            untried: false,
        }
    }
}

impl From<&str> for Fault {
    fn from(sentence: &str) -> Self {
        sentence.to_string().into()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// The results of an experiment's cases: each has either values or a fault.
#[derive(Debug, Default)]
pub struct Results {
    /// The values of the cases without a fault.
    pub series: Vec<Series>,
    /// The others.
    pub faults: Vec<(&'static str, Fault)>,
}

impl Results {
    /// Adds a case: its values, unless it has a fault.
    pub fn add(&mut self, series: Series, fault: Option<Fault>) {
        match fault {
            None => self.series.push(series),
            Some(fault) => self.faults.push((series.case, fault)),
        }
    }

    /// Adds the cases of another workload.
    pub fn append(&mut self, mut more: Results) {
        self.series.append(&mut more.series);
        self.faults.append(&mut more.faults);
    }

    /// Keeps the cases for which `condition` holds.
    pub fn retain(&mut self, condition: impl Fn(&'static str) -> bool) {
        self.series.retain(|series| condition(series.case));
        self.faults.retain(|(case, _)| condition(case));
    }
}
