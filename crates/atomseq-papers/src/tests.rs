//! Compares the files with the papers' text.

use super::*;

mod lock_free;

/// Returns the values of a row of M94's table 1 as the text prints them.
fn printed(technique: &str) -> String {
    let m94 = paper("M94").unwrap();
    let row = m94.cells.iter().filter(|cell| cell.technique == technique);
    let values: Vec<_> = row.map(|cell| cell.value.to_string()).collect();
    values.join(" ")
}

/// Returns the values in a table of B91 for a technique and for a program or machine.
fn in_b91(table: &str, technique: &str, line: &str) -> Vec<Value> {
    let cells = paper("B91").unwrap().cells.iter();
    let cells = cells.filter(|cell| (cell.table, cell.technique) == (table, technique));
    let cells = cells.filter(|cell| cell.program == line || cell.machine == line);
    cells.map(|cell| cell.value).collect()
}

/// A table of B91: the file's names of its columns, and its lines as the text prints them.
type Printed = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const B91: [Printed; 4] = [
    (
        "1",
        &[
            "Restartable Atomic Sequences (branch)",
            "Restartable Atomic Sequences (inlined)",
            "Kernel Emulation",
            "Software-reservation (a)",
            "Software-reservation (b)",
        ],
        &[("enter, count, leave", ".64 .51 4.15 1.51 1.16")],
    ),
    (
        "2",
        &["Emulation", "R.A.S"],
        &[
            ("Spinlock", "4.3 .58"),
            ("MutexLock", "4.6 .91"),
            ("ForkTest", "43.7 23.8"),
            ("PingPong", "230.8 115.2"),
        ],
    ),
    (
        "3",
        &[
            "time, Emul.",
            "time, R.A.S.",
            "Emulation Faults",
            "Restarts",
            "blocks, Emul.",
            "blocks, R.A.S.",
        ],
        &[
            ("text-format", "10.1 9.8 57305 0 295 317"),
            ("fs-bench", "239.4 231.1 2191276 42 8856 9876"),
            ("parthenon-1", "25.8 18.5 1395534 4 412 354"),
            ("parthenon-10", "26.1 18.6 1576714 7 610 499"),
            ("procon-64", "30.4 15.7 2738168 4 91494 106969"),
        ],
    ),
    (
        "4",
        &[
            "Interlocked Test-And-Set",
            "Restartable Test-And-Set",
            "Linkage Time",
        ],
        &[
            ("DEC CVAX", "2.8 2.2 .6"),
            ("Motorola 68030", "1.1 2.0 .8"),
            ("Intel 386", "1.0 1.6 .7"),
            ("Intel 486", ".7 .6 .3"),
            ("Intel 860", ".3 .4 .2"),
            ("Motorola 88000", ".9 .3 .1"),
            ("Sun SPARC", ".8 1.0 .3"),
            ("HP Precision 9000/835", "5.5 2.1 .5"),
        ],
    ),
];

#[test]
fn b91_tables_are_the_printed_ones_and_have_nothing_else() {
    let b91 = paper("B91").unwrap();
    let mut compared = 0;
    for (table, columns, lines) in B91 {
        for (line, printed) in lines {
            let printed: Vec<Value> = printed
                .split(' ')
                .map(|value| value.parse().unwrap())
                .collect();
            assert_eq!(printed.len(), columns.len());
            for (column, printed) in columns.iter().zip(printed) {
                assert_eq!(
                    in_b91(table, column, line),
                    [printed],
                    "{table} {line} {column}"
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 5 + 4 * 2 + 5 * 6 + 8 * 3);
    assert_eq!((b91.cells.len(), b91.tables.len()), (compared, 4));
}

#[test]
fn b91_units_are_the_printed_ones() {
    let b91 = paper("B91").unwrap();
    for cell in &b91.cells {
        let unit = match (cell.table, cell.technique) {
            ("3", "time, Emul." | "time, R.A.S.") => "s",
            ("3", _) => "times",
            _ => "µs",
        };
        assert_eq!(cell.unit, unit, "{cell:?}");
        assert_eq!(cell.table == "4", cell.machine != "DS5000");
    }
}

#[test]
fn b91_figures_agree_with_its_tables() {
    let b91 = paper("B91").unwrap();
    let cell = |table, technique, program| {
        let cell = b91.cell(table, technique, program, "DS5000");
        cell.and_then(|cell| cell.value.number()).unwrap()
    };
    let figure = |quantity: &str| {
        let figure = b91.figures.iter().find(|f| f.quantity.contains(quantity));
        figure.and_then(|figure| figure.value.number()).unwrap()
    };
    // 1.57 million emulations times 3.7 µs are about 5.8 seconds.
    let faults = cell("3", "Emulation Faults", "parthenon-10");
    let expected = faults * figure("more than a restartable sequence") / 1e6;
    assert!((expected - figure("expected to improve")).abs() < 0.05);
    // In table 2, emulation takes 3.7 µs more.
    let more = cell("2", "Emulation", "Spinlock") - cell("2", "R.A.S", "Spinlock");
    assert!((more - 3.7).abs() < 0.05);
    for (program, quantity) in [
        ("parthenon-10", "parthenon over"),
        ("procon-64", "procon-64 over"),
        ("fs-bench", "fs-bench over"),
    ] {
        let ratio = cell("3", "time, R.A.S.", program) / cell("3", "time, Emul.", program);
        let improvement = 100.0 * (1.0 - ratio);
        assert!(
            (improvement - figure(quantity)).abs() < 2.0,
            "{program}: {improvement}"
        );
    }
}

#[test]
fn every_paper_parses_and_knows_its_key() {
    for key in keys() {
        assert_eq!(paper(key).unwrap().key, key);
    }
    assert_eq!(paper("M95"), None);
}

#[test]
fn m94_has_every_cell_of_its_table() {
    let m94 = paper("M94").unwrap();
    assert_eq!((m94.techniques.len(), m94.machines.len()), (9, 2));
    assert_eq!((m94.tables.len(), m94.tables[0].number), (1, "1"));
    assert_eq!(m94.cells.len(), 9 * 2 * 3);
    for cell in &m94.cells {
        let this = m94.cell(cell.table, cell.technique, cell.program, cell.machine);
        assert_eq!(this, Some(cell), "only once");
    }
    let absent = m94
        .cells
        .iter()
        .filter(|cell| cell.value == Value::NotAvailable);
    assert_eq!(absent.count(), 7);
    let bounds = m94
        .cells
        .iter()
        .filter(|cell| matches!(cell.value, Value::AtLeast(_)));
    assert_eq!(bounds.count(), 5);
    assert!(m94.cells.iter().all(|cell| cell.unit == "cycles"));
}

#[test]
fn m94_table_1_is_the_printed_one() {
    for (technique, row) in [
        ("sigprocmask", "1682 3045 3363 1787 3578 3590"),
        ("Dyn/Fault", "13 27 24 12 24 27"),
        ("Dyn/Jump", "9 16 13 11 21 27"),
        ("Hyb/Jump", "6 5 6 5 8 12"),
        ("DI", "4 3 4 4 5 12"),
        ("CIPL", "4 5 6 14 24 29"),
        ("splx", "44 89 88 30 63 73"),
        ("PALcode", "≥ 13 ≥ 13 ≥ 13 n/a n/a n/a"),
        ("LL/STC", "n/a ≥ 118 ≥ 118 n/a n/a n/a"),
    ] {
        assert_eq!(printed(technique), row, "{technique}");
    }
}

#[test]
fn m94_figures_agree_with_each_other_as_in_its_section_4_3() {
    let m94 = paper("M94").unwrap();
    let figure = |quantity: &str, unit: &str| {
        let mut figures = m94.figures.iter();
        let figure = figures.find(|f| f.quantity.contains(quantity) && f.unit == unit);
        figure.and_then(|figure| figure.value.number()).unwrap()
    };
    // 73.375 + 16 · 25.375 cycles are less than 480. At 175 MHz they are less than 2.7 µs, as
    // printed, within its rounding.
    let fixed = figure("whatever its length", "cycles");
    let each = figure("each of its instructions", "cycles");
    let sixteen = figure("of 16 instructions", "cycles");
    assert!(fixed + 16.0 * each < sixteen);
    let clock = m94.machines[0].megahertz.unwrap();
    assert!((fixed + 16.0 * each) / clock < figure("of 16 instructions", "µs") + 0.05);
    // (O_H - O_S) / (D_A · O_R) at 175 MHz is about 80 kHz.
    let overhead = |technique| m94.cell("1", technique, "NULL", "DEC Alpha").unwrap().value;
    let hardware = overhead("PALcode").number().unwrap();
    let software = overhead("Hyb/Jump").number().unwrap();
    let rate = (hardware - software) / (32.0 * sixteen) * clock * 1_000.0;
    assert!(
        (rate - figure("interrupt rate", "kHz")).abs() < 1.0,
        "{rate}"
    );
}
