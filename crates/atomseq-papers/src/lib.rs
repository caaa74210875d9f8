//! The published figures of the papers behind atomseq, each with its table, machine and unit, and
//! those of their mechanisms that are kept for comparison.
//!
//! Two are test-and-set for the locks of [`atomseq::mutex`]: B91's software [`reservation`] and
//! kernel [`emulation`]. A machine with interlocked instructions needs neither. The schemes of
//! [`rollforward`] are those that M94 describes beside the one of `atomseq::sequence!`, for every
//! sequence of [`sequence!`] that has the form `rolling`. Where there are sections, the module
//! `paging` has M94's ways to deal with page faults in a sequence.
//!
//! Each paper is a file in `papers/`, with its figures as printed: `n/a` where the paper has it, a
//! sign where it gives a bound, and nothing that its text does not contain. [`paper`] reads it into
//! types. The command `atomseq bench` prints the figures beside its own measurements, because a
//! ratio stays meaningful after its machine is gone.
//!
//! ```
//! use atomseq_papers::{Value, paper};
//!
//! let m94 = paper("M94").unwrap();
//! let cell = m94.cell("1", "sigprocmask", "LIFO", "DEC Alpha").unwrap();
//! assert_eq!(cell.value, Value::Exactly(3045.0));
//! assert_eq!((cell.unit, cell.section), ("cycles", "4.1"));
//! ```

#[cfg(atomseq_sections)]
mod arch;
pub mod emulation;
#[cfg(atomseq_sections)]
mod faults;
#[cfg(atomseq_sections)]
mod lock;
#[cfg(atomseq_sections)]
pub mod paging;
mod read;
pub mod reservation;
pub mod rollforward;
pub mod statistics;
mod sync;
mod value;

pub use atomseq_macros::sequence_with_schemes as sequence;
pub use value::{Unreadable, Value};

use std::sync::OnceLock;

/// The build scripts of both crates must agree on whether there are sections.
const _: () = assert!(cfg!(atomseq_sections) == atomseq::internals::SECTIONS);

/// The papers, by key and file.
const PAPERS: [(&str, &str); 4] = [
    ("B91", include_str!("../papers/b91.toml")),
    ("M94", include_str!("../papers/m94.toml")),
    ("S92", include_str!("../papers/s92.toml")),
    ("GC96", include_str!("../papers/gc96.toml")),
];

/// Iterates over the keys of all papers: the first letters of the authors, then the year.
pub fn keys() -> impl Iterator<Item = &'static str> {
    PAPERS.iter().map(|(key, _)| *key)
}

/// Returns the paper with a key, or `None` if there is none. Each paper is read once in a process.
///
/// # Panics
///
/// If the file inside this crate does not parse; the crate's tests rule that out.
pub fn paper(key: &str) -> Option<&'static Paper> {
    static READ: [OnceLock<Paper>; PAPERS.len()] = [const { OnceLock::new() }; PAPERS.len()];
    let index = PAPERS.iter().position(|(known, _)| *known == key)?;
    Some(READ[index].get_or_init(|| {
        read::paper(PAPERS[index].1).unwrap_or_else(|error| panic!("{key}: {error}"))
    }))
}

/// A paper and its published figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// The key used here and in the documentation.
    pub key: &'static str,
    /// The authors.
    pub authors: Vec<&'static str>,
    /// The title.
    pub title: &'static str,
    /// Where it was published.
    pub report: &'static str,
    /// The date as `year-month-day`, or the year.
    pub date: &'static str,
    /// The machines that its figures were measured on.
    pub machines: Vec<Machine>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The techniques that it compares.
    pub techniques: Vec<Technique>,
    /// The cells of its tables, in reading order.
    pub cells: Vec<Cell>,
    /// The figures in its text, in reading order.
    pub figures: Vec<Figure>,
}

impl Paper {
    /// Returns a cell of a table, or `None` if the table has no such row or column.
    pub fn cell(
        &self,
        table: &str,
        technique: &str,
        program: &str,
        machine: &str,
    ) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            (cell.table, cell.technique, cell.program, cell.machine)
                == (table, technique, program, machine)
        })
    }
}

/// A machine of a paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The name in the tables.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    /// The clock rate in MHz, if the paper gives it.
    pub megahertz: Option<f64>,
}

/// A table of a paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table {
    /// The number.
    pub number: &'static str,
    /// The section that contains it.
    pub section: &'static str,
    /// The title.
    pub title: &'static str,
    /// The unit of its values, except in rows with a unit of their own.
    pub unit: &'static str,
}

/// A technique in a table, or a quantity if the table has several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Technique {
    /// The number of the table.
    pub table: &'static str,
    /// The name in the table.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
}

/// A cell of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The number of the table.
    pub table: &'static str,
    /// The section that contains it.
    pub section: &'static str,
    /// The technique, which names the row.
    pub technique: &'static str,
    /// The program that was run.
    pub program: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// The published value.
    pub value: Value,
}

/// A figure in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The section that contains it.
    pub section: &'static str,
    /// The technique, or `None` if the figure is about all techniques.
    pub technique: Option<&'static str>,
    /// The quantity that was measured or counted.
    pub quantity: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// The published value.
    pub value: Value,
}

#[cfg(test)]
mod tests;
