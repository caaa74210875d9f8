//! Reading a paper's file into the types of this crate.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::{Cell, Figure, Machine, Paper, Table, Technique, Unreadable};

/// The contents of a paper's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    key: &'static str,
    authors: Vec<&'static str>,
    title: &'static str,
    report: &'static str,
    date: &'static str,
    #[serde(default, rename = "machine")]
    machines: Vec<MachineEntry>,
    #[serde(default, rename = "table")]
    tables: Vec<TableEntry>,
    #[serde(default, rename = "figure")]
    figures: Vec<FigureEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineEntry {
    name: &'static str,
    about: &'static str,
    megahertz: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    number: &'static str,
    section: &'static str,
    title: &'static str,
    unit: &'static str,
    /// The machines that it has values for, in its order; by default all of the paper's.
    machines: Option<Vec<&'static str>>,
    programs: Vec<&'static str>,
    #[serde(rename = "row")]
    rows: Vec<Row>,
}

/// A row: one value for each program, for each machine.
#[derive(Deserialize)]
struct Row {
    technique: &'static str,
    about: &'static str,
    /// The unit, if it differs from the table's.
    unit: Option<&'static str>,
    #[serde(flatten)]
    values: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureEntry {
    section: &'static str,
    technique: Option<&'static str>,
    quantity: &'static str,
    machine: &'static str,
    unit: &'static str,
    value: &'static str,
}

/// Reads a paper's file.
pub fn paper(text: &'static str) -> Result<Paper, Fault> {
    let file: File = toml::from_str(text).map_err(Fault::Syntax)?;
    let machines: Vec<_> = file.machines.iter().map(machine).collect();
    let mut techniques = Vec::new();
    let mut cells = Vec::new();
    for table in &file.tables {
        for row in &table.rows {
            techniques.push(Technique {
                table: table.number,
                name: row.technique,
                about: row.about,
            });
            cells.extend(row_cells(table, row, &machines)?);
        }
    }
    let tables = file.tables.iter().map(|table| Table {
        number: table.number,
        section: table.section,
        title: table.title,
        unit: table.unit,
    });
    let figures = file.figures.iter().map(|entry| figure(entry, &machines));
    Ok(Paper {
        key: file.key,
        title: file.title,
        report: file.report,
        date: file.date,
        tables: tables.collect(),
        techniques,
        cells,
        figures: figures.collect::<Result<_, _>>()?,
        authors: file.authors,
        machines,
    })
}

fn machine(entry: &MachineEntry) -> Machine {
    Machine {
        name: entry.name,
        about: entry.about,
        megahertz: entry.megahertz,
    }
}

/// Creates the cells of a row: the machines in the table's order, and for each machine the
/// programs.
fn row_cells(table: &TableEntry, row: &Row, machines: &[Machine]) -> Result<Vec<Cell>, Fault> {
    let described: Vec<_> = machines.iter().map(|machine| machine.name).collect();
    let machines = table.machines.as_ref().unwrap_or(&described);
    if let Some(unknown) = machines.iter().find(|name| !described.contains(name)) {
        return Err(Fault::Machine(unknown));
    }
    let fault = |machine: &str| Fault::Row {
        technique: row.technique,
        machine: machine.to_string(),
    };
    let known = |name: &String| machines.iter().any(|machine| machine == name);
    if let Some(unknown) = row.values.keys().find(|name| !known(name)) {
        return Err(fault(unknown));
    }
    let mut cells = Vec::new();
    for machine in machines {
        let values = row.values.get(*machine);
        let values = values
            .filter(|values| values.len() == table.programs.len())
            .ok_or_else(|| fault(machine))?;
        for (program, value) in table.programs.iter().zip(values) {
            cells.push(Cell {
                table: table.number,
                section: table.section,
                technique: row.technique,
                program,
                machine,
                unit: row.unit.unwrap_or(table.unit),
                value: value.parse()?,
            });
        }
    }
    Ok(cells)
}

fn figure(entry: &FigureEntry, machines: &[Machine]) -> Result<Figure, Fault> {
    if !machines.iter().any(|machine| machine.name == entry.machine) {
        return Err(Fault::Machine(entry.machine));
    }
    Ok(Figure {
        section: entry.section,
        technique: entry.technique,
        quantity: entry.quantity,
        machine: entry.machine,
        unit: entry.unit,
        value: entry.value.parse()?,
    })
}

/// The error for a file that is not a valid paper.
#[derive(Debug)]
pub enum Fault {
    /// The file is not TOML, or does not have this shape.
    Syntax(toml::de::Error),
    /// A row lacks a value for a program and machine of its table, or names a machine that its
    /// table does not have.
    Row {
        /// The row.
        technique: &'static str,
        /// The machine.
        machine: String,
    },
    /// A figure or a table names a machine that is not described.
    Machine(&'static str),
    /// A value is malformed.
    Value(Unreadable),
}

impl From<Unreadable> for Fault {
    fn from(unreadable: Unreadable) -> Self {
        Self::Value(unreadable)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Row { technique, machine } => write!(
                f,
                "the row of {technique} does not fit on {machine}; a row has a value a program for every machine of its table"
            ),
            Self::Machine(name) => write!(f, "{name} is not described; add a machine of that name"),
            Self::Value(unreadable) => unreadable.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"
        key = "X"
        authors = []
        title = ""
        report = ""
        date = ""
        [[machine]]
        name = "M"
        about = ""
        megahertz = 1
        [[table]]
        number = "1"
        section = ""
        title = ""
        unit = "ns"
        programs = ["P", "Q"]
        [[table.row]]
        technique = "T"
        about = ""
    "#;

    fn with(rest: &str) -> Result<Paper, Fault> {
        paper(String::leak(format!("{HEAD}{rest}")))
    }

    #[test]
    fn a_whole_row_is_read() {
        let paper = with(r#"M = ["1", "n/a"]"#).unwrap();
        let programs: Vec<_> = paper.cells.iter().map(|cell| cell.program).collect();
        assert_eq!(programs, ["P", "Q"]);
    }

    #[test]
    fn a_row_may_have_a_unit_of_its_own() {
        let paper = with(
            r#"unit = "times"
               M = ["1", "2"]"#,
        );
        assert_eq!(paper.unwrap().cells[0].unit, "times");
    }

    #[test]
    fn a_table_may_have_some_of_the_machines() {
        let with = |machines: &str, rest: &str| {
            let head = HEAD.replace("programs", &format!("machines = {machines}\nprograms"));
            let other = "[[machine]]\nname = \"N\"\nabout = \"\"\n[[table]]";
            let text = head.replace("[[table]]", other) + rest;
            paper(String::leak(text))
        };
        let row = r#"N = ["1", "2"]"#;
        let some = with(r#"["N"]"#, row).unwrap();
        assert!(some.cells.iter().all(|cell| cell.machine == "N"));
        let fault = with(r#"["M"]"#, row).unwrap_err().to_string();
        assert!(fault.contains("the row of T does not fit on N"), "{fault}");
        let fault = with(r#"["N", "O"]"#, row).unwrap_err().to_string();
        assert!(fault.contains("O is not described"), "{fault}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (rest, sentence) in [
            ("", "the row of T does not fit on M"),
            (r#"M = ["1"]"#, "the row of T does not fit on M"),
            (
                r#"M = ["1", "2"]
                   N = ["1", "2"]"#,
                "the row of T does not fit on N",
            ),
            (r#"M = ["1", "~ 2"]"#, "\"~ 2\" is no published value"),
            (
                r#"M = ["1", "2"]
                   [[figure]]
                   section = ""
                   quantity = ""
                   machine = "N"
                   unit = ""
                   value = "1""#,
                "N is not described",
            ),
            (
                r#"M = ["1", "2"]
                   [[figure]]
                   page = 3"#,
                "unknown field `page`",
            ),
        ] {
            let fault = with(rest).unwrap_err().to_string();
            assert!(fault.contains(sentence), "{rest}: {fault}");
        }
    }
}
