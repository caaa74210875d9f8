//! What follows for operations without locks, beside what S92 concludes from its table 5.1.

use super::{list, times};
use crate::bench::record::{Outcome, Ratio, subject, workload};

/// A sentence, if S92's table was measured.
pub fn sentences(outcomes: &[Outcome]) -> Option<String> {
    let mut outcomes = outcomes.iter();
    let outcome = outcomes.find(|outcome| outcome.experiment == "s92-table51")?;
    let phrases = [
        (
            "lock-free",
            "locked",
            "as long as behind a mask and a spin lock (in S92 0.52 to 0.79)",
        ),
        (
            "lock-free",
            "locked-open",
            "as long as behind the lock alone (in S92 very nearly 1)",
        ),
        (
            "lock-free-retry",
            "locked",
            "as long as behind both if the first attempt fails (in S92 0.85 to 1.43)",
        ),
    ];
    let phrases: Vec<_> = phrases
        .into_iter()
        .filter_map(|(dividend, divisor, than)| {
            Some(format!(
                "{} {than}",
                times(&ratios(outcome, dividend, divisor))?
            ))
        })
        .collect();
    (!phrases.is_empty()).then(|| format!("Without locks an operation takes {}.", list(&phrases)))
}

/// The ratios of two subjects in the operations of S92's table, of which the semaphore is none.
fn ratios<'a>(outcome: &'a Outcome, dividend: &str, divisor: &str) -> Vec<&'a Ratio> {
    let ratios = outcome.ratios.iter().filter(|ratio| {
        workload(ratio.numerator) != "semaphore"
            && subject(ratio.numerator) == dividend
            && subject(ratio.denominator) == divisor
    });
    ratios.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::record::Series;

    #[test]
    fn what_costs_more_and_what_less_is_told_beside_s92() {
        let series = [
            ("counter:locked", 10.0),
            ("counter:locked-open", 8.0),
            ("counter:lock-free", 8.0),
            ("stack-pop:locked", 10.0),
            ("stack-pop:lock-free", 15.0),
            ("semaphore:locked", 10.0),
            ("semaphore:lock-free", 90.0),
        ]
        .map(|(case, value)| Series {
            case,
            unit: "ns/op",
            values: vec![value; Effort::FEWEST],
        });
        let outcome = Outcome::of("s92-table51", 1, false, &series);
        assert_eq!(
            sentences(&[outcome]).unwrap(),
            "Without locks an operation takes 0.80 to 1.50 times as long as behind a mask and a spin lock (in S92 0.52 to 0.79) \
             and 1.00 times as long as behind the lock alone (in S92 very nearly 1)."
        );
        let other = Outcome::of("mutex", 1, false, &series);
        assert_eq!(sentences(&[other]), None);
    }

    /// The figures of the sentences, from the paper's cells.
    #[test]
    fn s92s_ratios_are_those_of_its_table() {
        let s92 = atomseq_papers::paper("S92").unwrap();
        let ratios = |dividend: &str, divisor: &str| {
            let value = |technique: &str, program| {
                let cell = s92.cell("5.1", technique, program, "68030")?;
                cell.value.number()
            };
            let programs = s92.cells.iter().filter(|cell| cell.technique == divisor);
            let ratios = programs.filter_map(|cell| {
                Some(value(dividend, cell.program)? / value(divisor, cell.program)?)
            });
            let mut ratios: Vec<_> = ratios.collect();
            ratios.sort_by(f64::total_cmp);
            assert_eq!(ratios.len(), 7);
            (format!("{:.2}", ratios[0]), format!("{:.2}", ratios[6]))
        };
        let (least, most) = ratios("Lock-free noretry", "Locked");
        assert_eq!((least.as_str(), most.as_str()), ("0.52", "0.79"));
        let (least, most) = ratios("Lock-free oneretry", "Locked");
        assert_eq!((least.as_str(), most.as_str()), ("0.85", "1.43"));
    }
}
