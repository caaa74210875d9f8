//! What the files hold, against the papers' text.

use super::*;

/// A row of M94's Table 1 as the text prints it.
fn printed(technique: &str) -> String {
    let m94 = paper("M94").unwrap();
    let row = m94.cells.iter().filter(|cell| cell.technique == technique);
    let values: Vec<_> = row.map(|cell| cell.value.to_string()).collect();
    values.join(" ")
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
    // 73.375 + 16 · 25.375 cycles are less than 480, and at 175 MHz less than 2.7 µs, as printed, within its rounding.
    let fixed = figure("whatever its length", "cycles");
    let each = figure("each of its instructions", "cycles");
    let sixteen = figure("of 16 instructions", "cycles");
    assert!(fixed + 16.0 * each < sixteen);
    let clock = m94.machines[0].megahertz;
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
