//! What a series of runs comes down to: order statistics, because interference only ever makes a
//! run slower and a mean would follow it.

/// The order statistics of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many values there were.
    pub runs: usize,
    /// The smallest value.
    pub min: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Summarises `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            runs: sorted.len(),
            min: *sorted.first()?,
            p10: quantile(&sorted, 0.1)?,
            median: quantile(&sorted, 0.5)?,
            p90: quantile(&sorted, 0.9)?,
            p99: quantile(&sorted, 0.99)?,
            max: *sorted.last()?,
        })
    }
}

/// The `q`-th quantile (0 to 1) of sorted values, interpolated linearly between the two nearest
/// ranks.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let position = q * (sorted.len().checked_sub(1)? as f64);
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    let weight = position - below as f64;
    Some(sorted[below] + (sorted[above] - sorted[below]) * weight)
}

/// The ratios of two series taken in the same rounds, round by round.
pub fn pairwise(numerators: &[f64], denominators: &[f64]) -> Vec<f64> {
    numerators
        .iter()
        .zip(denominators)
        .map(|(n, d)| n / d)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_series_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn one_value_is_all_of_its_statistics() {
        let summary = Summary::of(&[3.5]).unwrap();
        assert_eq!(
            (
                summary.runs,
                summary.min,
                summary.p10,
                summary.median,
                summary.p99,
                summary.max
            ),
            (1, 3.5, 3.5, 3.5, 3.5, 3.5)
        );
    }

    #[test]
    fn quantiles_interpolate_between_ranks() {
        let even = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(even.median, 2.5);
        let eleven: Vec<f64> = (0..=10).rev().map(f64::from).collect();
        let summary = Summary::of(&eleven).unwrap();
        assert_eq!((summary.p10, summary.median, summary.p90), (1.0, 5.0, 9.0));
        assert_eq!((summary.min, summary.p99, summary.max), (0.0, 9.9, 10.0));
        let six = Summary::of(&[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]).unwrap();
        assert_eq!(six.p10, 5.0);
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        // The medians' ratio would be 2; every round but the last says 4.
        let ratios = pairwise(&[4.0, 8.0, 8.0], &[1.0, 2.0, 4.0]);
        assert_eq!(ratios, [4.0, 4.0, 2.0]);
        assert_eq!(Summary::of(&ratios).unwrap().median, 4.0);
    }
}
