//! The overview's table: columns that fit the terminal, bars drawn to scale.

use crate::bench::record::Verdict;
use crate::report::figure;
use crate::terminal::{Colour, Terminal};

/// A line of the table.
pub struct Line {
    /// What it is.
    pub what: &'static str,
    /// What is done.
    pub operation: &'static str,
    /// How many threads did it.
    pub threads: usize,
    /// What came of it, or why nothing did.
    pub result: std::result::Result<Result, String>,
}

/// What was measured. Times are in nanoseconds.
pub struct Result {
    /// atomseq's time.
    pub ours: f64,
    /// What else there is.
    pub name: &'static str,
    /// Its time.
    pub theirs: f64,
    /// The median of their times divided by ours, round by round.
    pub ratio: f64,
    /// The 10th and the 90th percentile of it.
    pub spread: (f64, f64),
    /// What the rounds say about it.
    pub verdict: Verdict,
}

impl Result {
    fn ratio(&self) -> String {
        let (from, to) = self.spread;
        let tie = if self.verdict == Verdict::Tie {
            ", tie"
        } else {
            ""
        };
        let ratio = figure(self.ratio);
        format!("{ratio} × ({} to {}){tie}", brief(from), brief(to))
    }

    fn colour(&self) -> Option<Colour> {
        match self.verdict {
            Verdict::Longer => Some(Colour::Green),
            Verdict::Shorter => Some(Colour::Red),
            Verdict::Tie => None,
        }
    }
}

/// Two digits that mean something.
fn brief(value: f64) -> String {
    let decimals = match value {
        v if v >= 9.95 => 0,
        v if v >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// The widest bar, in cells. One cell is a ratio of 1.
const WIDEST_BAR: usize = 12;
/// The narrowest bar that is drawn.
const NARROWEST_BAR: usize = 5;
/// The columns before the bar.
const COLUMNS: usize = 6;
const HEADS: [&str; COLUMNS] = [
    "ns/operation",
    "",
    "threads",
    "atomseq",
    "best alternative",
    "",
];
const RATIO: &str = "faster by";

/// How wide the columns are.
pub struct Layout {
    terminal: Terminal,
    /// Of each column; 0 where it is left out.
    widths: [usize; COLUMNS],
    bar: usize,
}

impl Layout {
    /// The layout for these lines. Where the terminal is narrow, the bar is shorter or left out,
    /// then the threads and the operations; what is wider still is cut off.
    pub fn of<'a>(lines: impl Iterator<Item = &'a Line>, terminal: Terminal) -> Self {
        let mut widths = HEADS.map(|head| head.chars().count());
        let mut ratio = RATIO.len();
        for line in lines {
            for (width, cell) in widths.iter_mut().zip(cells(line)) {
                *width = (*width).max(cell.chars().count());
            }
            let length = |result: &Result| result.ratio().chars().count();
            ratio = ratio.max(line.result.as_ref().map_or(0, length));
        }
        // Each column is preceded by a gap, and the ratio as well.
        let needed = |widths: &[usize]| {
            let gaps = widths.iter().filter(|width| **width > 0).count();
            2 * gaps + widths.iter().sum::<usize>() + 2 + ratio
        };
        let room = terminal.width.unwrap_or(usize::MAX);
        for column in [2, 1] {
            if needed(&widths) > room {
                widths[column] = 0;
            }
        }
        let left = room.saturating_sub(needed(&widths) + 2);
        Self {
            terminal,
            widths,
            bar: match left.min(WIDEST_BAR) {
                bar if bar >= NARROWEST_BAR => bar,
                _ => 0,
            },
        }
    }

    /// The table's heading.
    pub fn heading(&self) -> String {
        let mut line = self.columns(&HEADS.map(str::to_string));
        if self.bar > 0 {
            line += &" ".repeat(self.bar + 2);
        }
        line += "  ";
        line += RATIO;
        self.title(&line)
    }

    /// A title on a line of its own.
    pub fn title(&self, title: &str) -> String {
        self.terminal.paint(Colour::Bold, &self.cut(title))
    }

    /// A note on a line of its own.
    pub fn note(&self, note: &str) -> String {
        self.terminal.paint(Colour::Dim, &self.cut(note))
    }

    /// What the bars, the brackets and the word "tie" mean.
    pub fn legend(&self) -> String {
        let bar = if self.bar > 0 { "█ is 1 ×; " } else { "" };
        self.note(&format!(
            "  {bar}in brackets p10 to p90 of the rounds; tie: 1 lies between them"
        ))
    }

    /// A line of the table.
    pub fn show(&self, line: &Line) -> String {
        let cells = cells(line);
        match &line.result {
            Err(reason) => {
                let text = self.columns(&cells[..3]);
                self.cut(&format!("{text}  not measured: {reason}"))
            }
            Ok(result) => {
                let text = self.columns(&cells);
                let bar = match (self.bar, result.verdict) {
                    (0, _) => String::new(),
                    // Rounds that do not decide show no direction.
                    (cells, Verdict::Tie) => " ".repeat(cells + 2),
                    (cells, _) => format!("  {:cells$}", bar(result.ratio, cells)),
                };
                let line = self.cut(&format!("{text}{bar}  {}", result.ratio()));
                // Cut first, then coloured: an escape sequence has no width.
                match (result.colour(), line.strip_prefix(&text)) {
                    (Some(colour), Some(rest)) => text + &self.terminal.paint(colour, rest),
                    _ => line,
                }
            }
        }
    }

    /// The columns before the bar: texts to the left, numbers to the right.
    fn columns(&self, cells: &[String]) -> String {
        let cells = cells.iter().zip(self.widths).enumerate();
        let cells = cells.filter(|(_, (_, width))| *width > 0);
        let cells = cells.map(|(column, (cell, width))| match column {
            2 | 3 | 5 => format!("  {cell:>width$}"),
            _ => format!("  {cell:<width$}"),
        });
        cells.collect()
    }

    /// A line that is not wider than the terminal, without the spaces at its end.
    fn cut(&self, line: &str) -> String {
        let line = line.trim_end();
        match self.terminal.width {
            Some(width) if line.chars().count() > width => {
                let cut: String = line.chars().take(width.saturating_sub(1)).collect();
                cut + "…"
            }
            _ => line.to_string(),
        }
    }
}

fn cells(line: &Line) -> [String; COLUMNS] {
    let result = line.result.as_ref().ok();
    let text = |of: fn(&Result) -> String| result.map_or(String::new(), of);
    [
        line.what.to_string(),
        line.operation.to_string(),
        line.threads.to_string(),
        text(|result| figure(result.ours)),
        text(|result| result.name.to_string()),
        text(|result| figure(result.theirs)),
    ]
}

/// A bar of so many cells, one for a ratio of 1. What is longer ends in an arrow.
pub fn bar(ratio: f64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if ratio >= cells as f64 + 1.0 / 16.0 {
        return "█".repeat(cells - 1) + "▶";
    }
    let eighths = (ratio * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
