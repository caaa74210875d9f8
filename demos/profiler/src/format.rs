//! Names and paths as the report prints them.

/// Returns the last two components of a path, which identify a source file well enough.
pub fn last_two(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/');
    slashes.nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

/// Returns a name without its generic arguments, which can be longer than the rest of it. Keeps a
/// leading type, as in `<usize>::count_ones`.
pub fn without_arguments(name: &str) -> String {
    let (mut short, mut depth, mut before) = (String::new(), 0, ' ');
    for character in name.chars() {
        let opens = character == '<' && !short.is_empty();
        // The `>` of `->` is no bracket.
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
