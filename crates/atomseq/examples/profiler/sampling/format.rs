//! Numbers and names as they are printed.

/// A part of a whole in per cent.
pub fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// The last two components of a path: enough to know a source file by.
pub fn last_two(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/');
    slashes.nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

/// A name without the generic arguments in it, which can be longer than all the rest. What it
/// begins with stays, as in `<usize>::count_ones`.
pub fn without_arguments(name: &str) -> String {
    let (mut short, mut depth, mut before) = (String::new(), 0, ' ');
    for character in name.chars() {
        let opens = character == '<' && !short.is_empty();
        // `->` closes nothing.
        let closes = character == '>' && depth > 0 && before != '-';
        depth += i32::from(opens);
        if depth == 0 {
            short.push(character);
        }
        depth -= i32::from(closes);
        before = character;
    }
    short.replace("::::", "::")
}

/// A number with its digits in threes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_shorter() {
        for (name, short) in [
            ("split<a::{closure#0}<&mut b>>", "split"),
            (
                "core::result::Result<&T,E>::copied",
                "core::result::Result::copied",
            ),
            ("<usize>::count_ones", "<usize>::count_ones"),
            ("map<u8, fn(u8) -> u8>::run", "map::run"),
            ("core::array::<impl From<A>>::from", "core::array::from"),
            ("memcpy", "memcpy"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
    }

    #[test]
    fn paths_become_shorter() {
        for (path, short) in [
            ("/a/b/c.rs", "b/c.rs"),
            ("b/c.rs", "b/c.rs"),
            ("c.rs", "c.rs"),
        ] {
            assert_eq!(last_two(path), short);
        }
    }
}
