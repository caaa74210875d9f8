//! What a word is, and the division of a stream of bytes into words.

use std::io::{self, ErrorKind, Read};

/// The maximum length of a word. A longer run is counted as several words.
pub const MAX_BYTES: usize = 1 << 16;

/// Room for the beginning of a word and several more words.
const BUFFER: usize = 4 * MAX_BYTES;

/// The bytes that words consist of: ASCII letters, digits, the underscore, and everything beyond
/// ASCII. So words in UTF-8 stay whole, and other encodings do no harm.
static OF_WORDS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_' || byte >= 128;
        byte += 1;
    }
    table
};

fn is_of_word(byte: u8) -> bool {
    OF_WORDS[usize::from(byte)]
}

/// Returns a buffer for [`each_word`], which can be reused.
pub fn buffer() -> Vec<u8> {
    vec![0; BUFFER]
}

/// Calls `word` with each word, and returns the number of bytes read.
pub fn each_word(
    mut from: impl Read,
    buffer: &mut [u8],
    mut word: impl FnMut(&[u8]),
) -> io::Result<u64> {
    let mut bytes = 0;
    // The length of an unfinished word at the start of the buffer, less than `MAX_BYTES`.
    let mut kept = 0;
    loop {
        let read = match from.read(&mut buffer[kept..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        bytes += read as u64;
        let end = kept + read;
        let rest = split(&buffer[..end], kept, &mut word);
        buffer.copy_within(rest..end, 0);
        kept = end - rest;
    }
    if kept > 0 {
        word(&buffer[..kept]);
    }
    Ok(bytes)
}

/// Finds the words in `text`, whose first `kept` bytes are known to belong to a word. Returns the
/// start of the last word if it may continue beyond the end, else the end.
#[inline]
fn split(text: &[u8], kept: usize, word: &mut impl FnMut(&[u8])) -> usize {
    let (mut start, mut at) = (0, kept);
    loop {
        while at < text.len() && is_of_word(text[at]) {
            at += 1;
        }
        if at == text.len() {
            break;
        }
        for piece in text[start..at].chunks(MAX_BYTES) {
            word(piece);
        }
        while at < text.len() && !is_of_word(text[at]) {
            at += 1;
        }
        start = at;
    }
    let whole = (at - start) / MAX_BYTES * MAX_BYTES;
    for piece in text[start..start + whole].chunks(MAX_BYTES) {
        word(piece);
    }
    start + whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &[u8], max_at_once: usize) -> Vec<Vec<u8>> {
        struct Dribble<'a>(&'a [u8], usize);
        impl Read for Dribble<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let max = into.len().min(self.1);
                self.0.read(&mut into[..max])
            }
        }
        let mut words = Vec::new();
        let from = Dribble(text, max_at_once);
        let bytes = each_word(from, &mut buffer(), |word| words.push(word.to_vec())).unwrap();
        assert_eq!(bytes, text.len() as u64);
        words
    }

    #[test]
    fn words_do_not_depend_on_how_they_are_read() {
        let text = "<p>naïve_2 \0\u{1}x</p>\r\n--ÿ".as_bytes();
        let expected: Vec<Vec<u8>> = ["p", "naïve_2", "x", "p", "ÿ"]
            .map(|word| word.as_bytes().to_vec())
            .to_vec();
        for max in [1, 2, 3, 7, 1000] {
            assert_eq!(words_of(text, max), expected);
        }
        assert!(words_of(b"", 1).is_empty());
        assert!(words_of(b" - ", 1).is_empty());
    }

    #[test]
    fn long_words_are_split() {
        for length in [
            MAX_BYTES - 1,
            MAX_BYTES,
            MAX_BYTES + 1,
            5 * MAX_BYTES,
            5 * MAX_BYTES + 3,
        ] {
            let text = [vec![b'a'; length], vec![b' '], vec![b'b'; length]].concat();
            let expected: Vec<usize> = text
                .split(|byte| *byte == b' ')
                .flat_map(|run| run.chunks(MAX_BYTES).map(<[u8]>::len))
                .collect();
            for max in [1000, MAX_BYTES, usize::MAX] {
                let lengths: Vec<usize> = words_of(&text, max).iter().map(Vec::len).collect();
                assert_eq!(lengths, expected);
            }
        }
    }
}
