//! What a word is, and the record and the rank of a word. Both are plain values, which may be
//! copied out of a list while other threads change it.

use std::cmp::Reverse;

use atomseq::nonblocking::plain;

/// The maximum length of a word in bytes. A longer word is cut.
pub const MAX_BYTES: usize = 32;

/// A word, padded with zeros.
pub type Word = [u8; MAX_BYTES];

plain! {
    /// The record of a word.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub struct Known {
        /// How often it occurred.
        pub count: u64,
        /// The count with which it is in the ranking, or is about to be; 0 if it is not.
        pub listed: u64,
    }
}

plain! {
    /// A word's place in the ranking: the most frequent word first, words of equal counts in byte
    /// order.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Rank {
        count: Reverse<u64>,
        /// The word.
        pub word: Word,
    }
}

impl Rank {
    /// Fills unused places of an array.
    pub const NONE: Rank = Rank {
        count: Reverse(0),
        word: [0; MAX_BYTES],
    };

    /// Returns the rank of a word that occurred `count` times.
    pub fn of(count: u64, word: &Word) -> Rank {
        Rank {
            count: Reverse(count),
            word: *word,
        }
    }

    /// Returns how often the word occurred.
    pub fn count(&self) -> u64 {
        self.count.0
    }
}

/// Calls `each` with every word of a text: every run of characters that Unicode calls alphanumeric,
/// with ASCII letters in lower case.
pub fn each_word(text: &str, mut each: impl FnMut(Word)) {
    let words = text.split(|character: char| !character.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        each(cut(word));
    }
}

/// Cuts a word at a character boundary.
fn cut(word: &str) -> Word {
    let mut end = word.len().min(MAX_BYTES);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0; MAX_BYTES];
    bytes[..end].copy_from_slice(&word.as_bytes()[..end]);
    bytes.make_ascii_lowercase();
    bytes
}

/// Returns a word as text.
pub fn text(word: &Word) -> &str {
    let end = word.iter().position(|byte| *byte == 0).unwrap_or(MAX_BYTES);
    // Words are cut at character boundaries.
    std::str::from_utf8(&word[..end]).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(line, |word| words.push(text(&word).to_string()));
        words
    }

    #[test]
    fn words_are_letters_and_digits_of_any_script() {
        let found = words("The  naïve cat's 2nd\t—Straße, 東京!");
        assert_eq!(found, ["the", "naïve", "cat", "s", "2nd", "straße", "東京"]);
        assert!(words(" -- …").is_empty());
    }

    #[test]
    fn long_words_are_cut_at_character_boundaries() {
        let long = "ä".repeat(40);
        assert_eq!(words(&long), ["ä".repeat(MAX_BYTES / 2)]);
        let odd = format!("x{long}");
        assert_eq!(words(&odd), [format!("x{}", "ä".repeat(15))]);
    }

    #[test]
    fn the_most_frequent_comes_first() {
        let rank = |count, word| Rank::of(count, &cut(word));
        let mut ranks = [rank(2, "b"), rank(9, "c"), rank(2, "a")];
        ranks.sort();
        assert_eq!(ranks.map(|rank| rank.count()), [9, 2, 2]);
        assert_eq!(text(&ranks[1].word), "a");
    }
}
