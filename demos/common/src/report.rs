//! Numbers as the demos print them.

use std::time::Duration;

/// Returns a number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the mean, the minimum and the maximum of the times of runs, in seconds.
pub fn times<R>(runs: &[R], time: impl Fn(&R) -> Duration) -> [String; 3] {
    let seconds = runs.iter().map(|run| time(run).as_secs_f64());
    let mean = seconds.clone().sum::<f64>() / runs.len() as f64;
    let least = seconds.clone().fold(f64::INFINITY, f64::min);
    [mean, least, seconds.fold(0.0, f64::max)].map(|time| format!("{time:.3}"))
}

/// Returns the mean of a count over runs, or `-` if a run has no such count.
pub fn mean<R>(runs: &[R], count: impl Fn(&R) -> Option<u64>) -> String {
    let sum: Option<u64> = runs.iter().map(count).sum();
    let mean = sum.map(|sum| (sum as f64 / runs.len() as f64).round() as u64);
    mean.map_or("-".to_string(), grouped)
}

/// Returns a part of a whole in per cent.
pub fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
