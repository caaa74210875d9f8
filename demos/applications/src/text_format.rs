//! `text-format` of B91: paragraphs are broken into lines so that the sum of the squares of the
//! spaces at the lines' ends is minimal. As in B91, the formatter is sequential, and the file
//! server multithreaded. The formatter reads the text from it and writes the lines to it, by
//! messages.

use super::disk::{BLOCK, Geometry, Operation};
use super::package::{Application, Package, Thread};
use super::server::{Client, Files, Server};

/// A text in parts, one for each formatter.
pub struct TextFormat {
    parts: Vec<Vec<u8>>,
    width: usize,
    servers: usize,
    /// The parts as a formatter alone formats them.
    expected: Vec<Vec<u8>>,
}

/// The memory of a formatter.
#[derive(Default)]
pub struct Local {
    text: Vec<u8>,
    lines: Vec<u8>,
    /// The places of a paragraph's words. Then, from each word on, the least cost and the next
    /// break.
    words: Vec<(usize, usize)>,
    costs: Vec<u64>,
    breaks: Vec<usize>,
}

impl Local {
    fn with_room(bytes: usize) -> Local {
        let words = bytes / 2 + 2;
        Local {
            text: Vec::with_capacity(bytes),
            lines: Vec::with_capacity(bytes + 2),
            words: Vec::with_capacity(words),
            costs: Vec::with_capacity(words),
            breaks: Vec::with_capacity(words),
        }
    }

    /// Formats the text into lines. Allocates nothing.
    fn format(&mut self, width: usize) {
        let mut at = 0;
        while at < self.text.len() {
            at = self.take_paragraph(at);
            if self.words.is_empty() {
                continue;
            }
            self.break_lines(width);
            if !self.lines.is_empty() {
                self.lines.push(b'\n');
            }
            let mut word = 0;
            while word < self.words.len() {
                let end = self.breaks[word];
                for (number, &(from, to)) in self.words[word..end].iter().enumerate() {
                    if number > 0 {
                        self.lines.push(b' ');
                    }
                    self.lines.extend_from_slice(&self.text[from..to]);
                }
                self.lines.push(b'\n');
                word = end;
            }
        }
    }

    /// Finds the words of the paragraph at `at`, which an empty line ends. Returns where it ends.
    fn take_paragraph(&mut self, mut at: usize) -> usize {
        self.words.clear();
        let mut is_line_empty = false;
        while let Some(&byte) = self.text.get(at) {
            match byte {
                b'\n' if is_line_empty => return at + 1,
                b'\n' => is_line_empty = true,
                byte if byte.is_ascii_whitespace() => {}
                _ => {
                    let word = self.text[at..].iter().position(u8::is_ascii_whitespace);
                    let end = word.map_or(self.text.len(), |length| at + length);
                    self.words.push((at, end));
                    is_line_empty = false;
                    at = end;
                    continue;
                }
            }
            at += 1;
        }
        at
    }

    /// Computes the least cost from each word on, and the first break, from the last word to the
    /// first.
    fn break_lines(&mut self, width: usize) {
        let words = self.words.len();
        self.costs.clear();
        self.breaks.clear();
        self.costs.resize(words + 1, 0);
        self.breaks.resize(words + 1, words);
        for first in (0..words).rev() {
            self.costs[first] = u64::MAX;
            let mut length = 0;
            for end in first + 1..=words {
                let (from, to) = self.words[end - 1];
                length += to - from + usize::from(end > first + 1);
                if length > width && end > first + 1 {
                    break;
                }
                let cost = cost(length, width, end == words).saturating_add(self.costs[end]);
                if cost < self.costs[first] {
                    (self.costs[first], self.breaks[first]) = (cost, end);
                }
            }
        }
    }
}

/// Returns the cost of a line. The last line of a paragraph costs nothing, and neither does a word
/// that is longer than a line.
fn cost(length: usize, width: usize, is_last: bool) -> u64 {
    let space = if is_last {
        0
    } else {
        width.saturating_sub(length) as u64
    };
    space * space
}

/// Returns the least cost of a paragraph's words in lines, computed from the first word on.
fn least_cost(words: &[&[u8]], width: usize) -> u64 {
    let mut least = vec![u64::MAX; words.len() + 1];
    least[0] = 0;
    for first in 0..words.len() {
        let mut letters = 0;
        for end in first + 1..=words.len() {
            letters += words[end - 1].len();
            let length = letters + end - first - 1;
            if length > width && end > first + 1 {
                break;
            }
            let cost = least[first] + cost(length, width, end == words.len());
            least[end] = least[end].min(cost);
        }
    }
    least[words.len()]
}

/// Checks that lines have the words of a text in the same order, are not too long, and have the
/// least cost. Returns the number of lines and their cost. An error is a sentence.
fn check(text: &[u8], lines: &[u8], width: usize) -> Result<(usize, u64), String> {
    let words = |text: &[u8]| -> Vec<Vec<u8>> {
        let words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        words.map(<[u8]>::to_vec).collect()
    };
    if words(text) != words(lines) {
        return Err("the words are not those of the text".to_string());
    }
    let all: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
    let mut sums = (0, 0);
    for paragraph in all
        .split(|line| line.is_empty())
        .filter(|lines| !lines.is_empty())
    {
        let mut sum = 0;
        for (number, line) in (1..).zip(paragraph) {
            if line.len() > width && line.contains(&b' ') {
                return Err("a line is too long".to_string());
            }
            sum += cost(line.len(), width, number == paragraph.len());
        }
        let words = paragraph
            .iter()
            .flat_map(|line| line.split(|byte| *byte == b' '));
        let least = least_cost(&words.collect::<Vec<_>>(), width);
        if sum != least {
            return Err(format!(
                "a paragraph's lines cost {sum}, and {least} is possible"
            ));
        }
        sums = (sums.0 + paragraph.len(), sums.1 + sum);
    }
    Ok(sums)
}

impl TextFormat {
    /// Divides a text among formatters, at ends of paragraphs.
    pub fn new(text: &[u8], width: usize, servers: usize, formatters: usize) -> TextFormat {
        let (mut parts, mut rest) = (Vec::new(), text);
        for left in (1..=formatters).rev() {
            let end = rest[rest.len() / left..]
                .windows(2)
                .position(|two| two == b"\n\n");
            let end = end
                .filter(|_| left > 1)
                .map_or(rest.len(), |end| rest.len() / left + end + 2);
            let (part, others) = rest.split_at(end);
            parts.push(part.to_vec());
            rest = others;
        }
        let expected = parts.iter().map(|part| {
            let mut local = Local::with_room(part.len());
            local.text.extend_from_slice(part);
            local.format(width);
            local.lines
        });
        let expected = expected.collect();
        TextFormat {
            parts,
            width,
            servers,
            expected,
        }
    }
}

/// Returns a text of that many paragraphs, always the same.
pub fn default_text(paragraphs: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1991);
    let mut text = Vec::new();
    for _ in 0..paragraphs {
        for word in 0..random.usize(20..200) {
            // Short words are more frequent than long ones.
            let max = random.usize(1..14);
            let length = 1 + random.usize(0..=max);
            text.extend((0..length).map(|_| random.u8(b'a'..=b'z')));
            text.push(if word % 12 == 11 { b'\n' } else { b' ' });
        }
        text.extend_from_slice(b"\n\n");
    }
    text
}

/// Returns the files of a part: its text and its lines.
fn paths(part: usize) -> [String; 2] {
    [format!("/text{part}"), format!("/lines{part}")]
}

/// The memory of a formatter, which it allocates before it works.
pub type Desk = (Local, [String; 2]);

// SAFETY: the memory of a formatter has room for its part: a word takes at least two bytes of the
// text, lines are no longer than the text and a line feed at its end. Nothing else is allocated.
unsafe impl Application for TextFormat {
    type Shared<P: Package> = Server<P>;
    type Local = Desk;

    fn threads(&self) -> usize {
        self.servers + self.parts.len()
    }

    fn shared<P: Package>(&self) -> Server<P> {
        let longest = self.parts.iter().map(|part| part.len() / BLOCK + 2).max();
        let server = Server::new(
            Geometry {
                inodes: 1 + 2 * self.parts.len(),
                blocks: 4 + 2 * self.parts.len() * longest.unwrap_or(0),
                longest: longest.unwrap_or(0).max(5),
            },
            self.parts.len(),
        );
        let (thread, mut data) = (Thread::alone(), [0; BLOCK]);
        for (number, part) in self.parts.iter().enumerate() {
            let [text, lines] = paths(number);
            for path in [&lines, &text] {
                // The disk is large enough; else `judge` finds other lines.
                let _ = server.disk.operate(
                    &thread,
                    Operation::Create,
                    path.as_bytes(),
                    0,
                    &mut data,
                    0,
                );
            }
            for chunk in part.chunks(BLOCK) {
                data[..chunk.len()].copy_from_slice(chunk);
                let (length, path) = (chunk.len(), text.as_bytes());
                let _ = server
                    .disk
                    .operate(&thread, Operation::Append, path, 0, &mut data, length);
            }
        }
        server
    }

    fn local(&self, index: usize) -> Desk {
        let part = index.saturating_sub(self.servers);
        (Local::with_room(self.parts[part].len()), paths(part))
    }

    fn work<P: Package>(&self, server: &Server<P>, desk: &mut Desk, thread: &Thread<'_, P>) {
        let Some(number) = thread.index.checked_sub(self.servers) else {
            return server.serve(thread);
        };
        let (local, [text, lines]) = desk;
        let mut client = Client::new(server, thread, number);
        let mut data = [0; BLOCK];
        while let Ok(read @ 1..) =
            client.call(Operation::Read, text, local.text.len(), &mut data, 0)
        {
            local.text.extend_from_slice(&data[..read]);
        }
        local.format(self.width);
        for chunk in local.lines.chunks(BLOCK) {
            data[..chunk.len()].copy_from_slice(chunk);
            // If this is refused, `judge` finds other lines.
            let _ = client.call(Operation::Append, lines, 0, &mut data, chunk.len());
        }
    }

    fn judge<P: Package>(&self, server: Server<P>) -> Result<String, String> {
        let mut tree = server.disk.tree();
        let (mut count, mut sum) = (0, 0);
        for (number, part) in self.parts.iter().enumerate() {
            let lines = tree.remove(&paths(number)[1]).flatten().unwrap_or_default();
            if lines != self.expected[number] {
                return Err(format!(
                    "part {number} is not formatted as by a formatter alone"
                ));
            }
            let (lines, cost) = check(part, &lines, self.width)?;
            (count, sum) = (count + lines, sum + cost);
        }
        Ok(format!(
            "{count} lines of cost {sum}, the least that is possible"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_optimal_and_others_are_refused() {
        let text = b"aaa bb cc ddddd\n\nlonger-than-the-line x";
        let formatter = TextFormat::new(text, 6, 1, 1);
        let lines = &formatter.expected[0];
        assert_eq!(lines, b"aaa\nbb cc\nddddd\n\nlonger-than-the-line\nx\n");
        assert_eq!(check(text, lines, 6), Ok((5, 10)));
        // The greedy way.
        let greedy = check(text, b"aaa bb\ncc\nddddd\n\nlonger-than-the-line\nx\n", 6);
        assert!(greedy.unwrap_err().contains("10 is possible"));
        let long = check(text, b"aaa bb cc ddddd\n\nlonger-than-the-line\nx\n", 6);
        assert!(long.unwrap_err().contains("too long"));
        let lost = check(text, b"aaa bb\nddddd\n\nlonger-than-the-line\nx\n", 6);
        assert!(lost.unwrap_err().contains("words"));
    }
}
