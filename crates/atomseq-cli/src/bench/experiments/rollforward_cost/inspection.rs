//! How long it takes to check that a sequence may be rolled forward: M94's O_R (4.2).
//!
//! atomseq checks a sequence once, when it makes its table: here all sequences of this program.
//! M94's Hyb/Jump checks at each rollforward what is left of the sequence: here loads, 1 to 32 of
//! them. What a check takes is fitted to a line over the number of instructions, whose slope is the
//! price of an instruction. As in M94, the code is not in the first data cache when it is checked:
//! a program does not load the code that it runs.

use std::hint::black_box;
use std::time::Instant;

use atomseq::internals::{inspect::inspect, table};
use atomseq_papers::rollforward::is_safe;

use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;

/// The case of a whole sequence.
pub const WHOLE: &str = "inspect:sequence";
/// The case of a whole sequence and its clone.
pub const CLONED: &str = "inspect:cloned-sequence";
/// The case of an instruction.
pub const INSTRUCTION: &str = "inspect:instruction";
/// The case of Hyb/Jump's check.
pub const HYBRID: &str = "inspect:hyb-jump";
/// The case of an instruction of it.
pub const HYBRID_INSTRUCTION: &str = "inspect:hyb-jump-instruction";

/// A load, and the jump through M94's well-known register.
#[cfg(target_arch = "x86_64")]
const CODE: [&[u8]; 2] = [&[0x48, 0x8b, 0x07], &[0x41, 0xff, 0xe3]];
#[cfg(target_arch = "aarch64")]
const CODE: [&[u8]; 2] = [&[0x20, 0x00, 0x40, 0xf9], &[0x20, 0x02, 0x1f, 0xd6]];

/// The length that M94 gives an example of.
const LENGTH: f64 = 16.0;

/// Checks of one sequence in a round, of which the median counts.
const CHECKS: usize = 5;

/// Larger than any first data cache, and smaller than a second one.
const CACHE: usize = 256 << 10;

/// The cases, in that many rounds.
pub fn measure(rounds: usize) -> Results {
    let memory = vec![1_u8; CACHE];
    // Those without a clone are checked as M94 did: their own instructions, and no more.
    let (cloned, plain): (Vec<_>, Vec<_>) = table::rows().partition(|row| row.clone.is_some());
    let hybrid: Vec<_> = (1..=32).map(|length| (length, loads(length))).collect();
    let (mut lines, mut hybrids) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds {
        let nothing = time(&memory, || 0).1;
        let checked = hybrid.iter().filter_map(|(length, code)| {
            let start = code.as_ptr().addr();
            // The level lies between the jump and the end.
            let end = start + (code.len() - PADDING);
            // SAFETY: the code's first instruction.
            let (safe, took) = time(&memory, || usize::from(unsafe { is_safe(start, end) }));
            (safe == 1).then_some((*length as f64, took - nothing))
        });
        hybrids.extend(fit(&checked.collect::<Vec<_>>()));
        for (rows, lines) in [&plain, &cloned].into_iter().zip(&mut lines) {
            let nothing = time(&memory, || 0).1;
            let checked = rows.iter().map(|row| {
                // SAFETY: the row is in the table, so its code is loaded and readable.
                let (length, took) = time(&memory, || unsafe { inspect(row) }.unwrap_or_default());
                (length as f64, took - nothing)
            });
            lines.extend(fit(&checked.collect::<Vec<_>>()));
        }
    }
    let mut measured = Results::default();
    let [plain, cloned] = lines;
    let whole = |lines: &[Line]| lines.iter().map(|line| line.at(LENGTH)).collect();
    let slopes = |lines: &[Line]| lines.iter().map(|line| line.slope).collect();
    for (case, values) in [
        (WHOLE, whole(&plain)),
        (CLONED, whole(&cloned)),
        (INSTRUCTION, slopes(&plain)),
        (HYBRID, whole(&hybrids)),
        (HYBRID_INSTRUCTION, slopes(&hybrids)),
    ] {
        let values: Vec<f64> = values;
        let is_there = values.len() == rounds;
        let fault = || Fault::untried("no two sequences of different lengths were checked");
        let unit = "ns/op";
        measured.add(Series { case, unit, values }, (!is_there).then(fault));
    }
    measured
}

/// What follows the end in memory.
const PADDING: usize = 16;

/// What is left of a Hyb/Jump sequence: that many loads, the jump, and its level.
fn loads(length: usize) -> Vec<u8> {
    let [load, jump] = CODE;
    [&load.repeat(length), jump, &[0; 4 + PADDING]].concat()
}

/// What a check returns, and how long it takes with its code out of the first data cache.
fn time(memory: &[u8], check: impl Fn() -> usize) -> (usize, f64) {
    let mut took = [0.0; CHECKS];
    let mut result = 0;
    for took in &mut took {
        for place in memory.iter().step_by(64) {
            black_box(*place);
        }
        let start = Instant::now();
        result = black_box(check());
        *took = start.elapsed().as_nanos() as f64;
    }
    took.sort_by(f64::total_cmp);
    (result, took[CHECKS / 2])
}

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    at_zero: f64,
    slope: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.at_zero + self.slope * x
    }
}

/// The line with the least squares of distances; `None` if the points do not differ in x.
fn fit(points: &[(f64, f64)]) -> Option<Line> {
    let mean =
        |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = points
        .iter()
        .map(|point| (point.0 - x) * (point.1 - y))
        .sum();
    let slope = both / square;
    slope.is_finite().then_some(Line {
        at_zero: y - slope * x,
        slope,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points = [2.0, 3.0, 7.0].map(|x| (x, 5.0 + 4.0 * x));
        let line = fit(&points).unwrap();
        assert_eq!((line.slope, line.at(LENGTH)), (4.0, 69.0));
        assert_eq!(fit(&[(3.0, 1.0), (3.0, 2.0)]), None);
        assert_eq!(fit(&[]), None);
    }

    #[test]
    fn every_case_has_a_value_a_round() {
        atomseq::internals::table::refresh();
        let measured = measure(2);
        assert_eq!(measured.faults, []);
        assert!(
            measured
                .series
                .iter()
                .all(|series| series.values.len() == 2)
        );
        assert_eq!(measured.series.len(), 5);
    }
}
