//! What the papers behind atomseq published, each figure with its table, machine and unit; and the
//! mechanisms of theirs that are kept to be compared with.
//!
//! The mechanisms are test-and-set for the locks of [`atomseq::mutex`]: B91's software
//! [`reservation`] and kernel [`emulation`]. Nobody needs them on a machine that has interlocked
//! instructions.
//!
//! A paper is a file in `papers/`, with its figures as printed: `n/a` where the paper has it, a
//! sign where it gives a bound, and nothing that its text does not hold. [`paper`] reads it into
//! types; the command `atomseq bench` prints the figures beside what it measures, for a ratio
//! outlives the machine it was taken on.
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
mod read;
pub mod reservation;
pub mod statistics;
mod sync;
mod value;

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

/// The keys of all papers: first letter of the authors, year.
pub fn keys() -> impl Iterator<Item = &'static str> {
    PAPERS.iter().map(|(key, _)| *key)
}

/// The paper with that key; `None` where there is none. Read once a process.
///
/// # Panics
///
/// If the file inside this crate does not parse, which its tests rule out.
pub fn paper(key: &str) -> Option<&'static Paper> {
    static READ: [OnceLock<Paper>; PAPERS.len()] = [const { OnceLock::new() }; PAPERS.len()];
    let index = PAPERS.iter().position(|(known, _)| *known == key)?;
    Some(READ[index].get_or_init(|| {
        read::paper(PAPERS[index].1).unwrap_or_else(|error| panic!("{key}: {error}"))
    }))
}

/// A paper and what it published.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// What it is called here and in the documentation.
    pub key: &'static str,
    /// Who wrote it.
    pub authors: Vec<&'static str>,
    /// Its title.
    pub title: &'static str,
    /// Where it appeared.
    pub report: &'static str,
    /// When, as `year-month-day`, or the year.
    pub date: &'static str,
    /// What its figures were taken on.
    pub machines: Vec<Machine>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What it compared.
    pub techniques: Vec<Technique>,
    /// The cells of its tables, in reading order.
    pub cells: Vec<Cell>,
    /// The figures in its text, in reading order.
    pub figures: Vec<Figure>,
}

impl Paper {
    /// A cell of a table; `None` where the table has no such row or column.
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

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Its name in the tables.
    pub name: &'static str,
    /// What it was.
    pub about: &'static str,
    /// Its clock, if the paper gives it.
    pub megahertz: Option<f64>,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table {
    /// Its number.
    pub number: &'static str,
    /// The section it stands in.
    pub section: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The unit of its values, but for rows that have one of their own.
    pub unit: &'static str,
}

/// A technique of a table, or a quantity where a table has several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Technique {
    /// The table's number.
    pub table: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// What was done.
    pub about: &'static str,
}

/// A cell of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The table's number.
    pub table: &'static str,
    /// The section it stands in.
    pub section: &'static str,
    /// The row.
    pub technique: &'static str,
    /// What was run.
    pub program: &'static str,
    /// What it was run on.
    pub machine: &'static str,
    /// The value's unit.
    pub unit: &'static str,
    /// What was published.
    pub value: Value,
}

/// A figure in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The section it stands in.
    pub section: &'static str,
    /// What it is about, unless it is about all techniques.
    pub technique: Option<&'static str>,
    /// What was measured or counted.
    pub quantity: &'static str,
    /// What it was taken on.
    pub machine: &'static str,
    /// The value's unit.
    pub unit: &'static str,
    /// What was published.
    pub value: Value,
}

#[cfg(test)]
mod tests;
