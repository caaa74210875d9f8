//! What a word is, and the two records that are kept of each: plain values, which may be copied out
//! of a list while others change it.

use std::cmp::Reverse;

use atomseq::nonblocking::plain;

/// How many bytes of a word count. What is longer counts as what it begins with.
pub const LONGEST: usize = 32;

/// A word, filled up with zeros.
pub type Word = [u8; LONGEST];

plain! {
    /// What is known of a word.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub struct Known {
        /// How often it came.
        pub count: u64,
        /// With which count it is in the ranking, or about to be; 0 if it is not.
        pub listed: u64,
    }
}

plain! {
    /// A word's place in the ranking: the most frequent first, and in the order of the alphabet
    /// among its likes.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Rank {
        count: Reverse<u64>,
        /// The word.
        pub word: Word,
    }
}

impl Rank {
    /// Where an array has no rank yet.
    pub const NONE: Rank = Rank {
        count: Reverse(0),
        word: [0; LONGEST],
    };

    /// The rank of a word that came so often.
    pub fn of(count: u64, word: &Word) -> Rank {
        Rank {
            count: Reverse(count),
            word: *word,
        }
    }

    /// How often it came.
    pub fn count(&self) -> u64 {
        self.count.0
    }
}

/// Calls `each` with every word of a text, ASCII letters made small: runs of what Unicode calls
/// alphanumeric.
pub fn each_word(text: &str, mut each: impl FnMut(Word)) {
    let words = text.split(|character: char| !character.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        each(cut(word));
    }
}

/// As many of a word's characters as there is room for.
fn cut(word: &str) -> Word {
    let mut end = word.len().min(LONGEST);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0; LONGEST];
    bytes[..end].copy_from_slice(&word.as_bytes()[..end]);
    bytes.make_ascii_lowercase();
    bytes
}

/// A word as text.
pub fn text(word: &Word) -> &str {
    let end = word.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
    // Words are cut between characters.
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
    fn long_words_are_cut_between_characters() {
        let long = "ä".repeat(40);
        assert_eq!(words(&long), ["ä".repeat(LONGEST / 2)]);
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
