//! From sampled program counters to functions and lines, the hottest first.

use std::collections::HashMap;

use super::image::Line;
use super::names::{Names, Place};

/// One function and its samples.
pub struct Function {
    pub place: Place,
    pub samples: u64,
    /// Its lines, the hottest first.
    pub lines: Vec<(Line, u64)>,
}

/// The whole profile.
pub struct Profile {
    /// The hottest first. Only the first `top` have their lines.
    pub functions: Vec<Function>,
    pub samples: u64,
    /// Samples in functions that have a name.
    pub named: u64,
    /// Samples of sections that the kernel had just restarted.
    pub restarted: u64,
    pub program_counters: usize,
}

impl Profile {
    /// Names the sampled functions, and looks up the lines of the hottest `top`.
    pub fn new(samples: &HashMap<usize, u64>, names: &mut Names, top: usize) -> Profile {
        // A thread interrupted in a section is seen at the section's abort address, where the
        // kernel has sent it. Such a sample counts for the start of the section.
        let restarts = names.restarts(samples.keys().copied());
        let mut restarted = 0;
        let mut places: HashMap<Place, Vec<(usize, u64)>> = HashMap::new();
        for (program_counter, seen) in samples {
            let known = match restarts.get(program_counter) {
                Some(section) => {
                    restarted += seen;
                    *section
                }
                None => *program_counter,
            };
            let counters = places.entry(names.place(known)).or_default();
            counters.push((known, *seen));
        }
        let mut functions: Vec<(Function, Vec<(usize, u64)>)> = places
            .into_iter()
            .map(|(place, counters)| {
                let function = Function {
                    place,
                    samples: counters.iter().map(|(_, seen)| seen).sum(),
                    lines: Vec::new(),
                };
                (function, counters)
            })
            .collect();
        functions.sort_by(|(a, _), (b, _)| (b.samples, &a.place).cmp(&(a.samples, &b.place)));
        for (function, counters) in functions.iter_mut().take(top) {
            function.lines = lines(counters, names);
        }
        let functions: Vec<Function> = functions
            .into_iter()
            .map(|(function, _)| function)
            .collect();
        Profile {
            samples: samples.values().sum(),
            named: functions
                .iter()
                .filter(|function| function.place.named)
                .map(|function| function.samples)
                .sum(),
            functions,
            restarted,
            program_counters: samples.len(),
        }
    }
}

fn lines(counters: &[(usize, u64)], names: &mut Names) -> Vec<(Line, u64)> {
    let mut lines: HashMap<Line, u64> = HashMap::new();
    for (program_counter, seen) in counters {
        if let Some(line) = names.line(*program_counter) {
            *lines.entry(line).or_default() += seen;
        }
    }
    let mut lines: Vec<(Line, u64)> = lines.into_iter().collect();
    lines.sort_by(|(a, m), (b, n)| (n, a).cmp(&(m, b)));
    lines
}
