//! Compares the files of S92 and GC96 with the papers' text.

use super::*;

/// The lines of S92's tables as the text prints them: the program, then a value for each way.
/// Tables 5.2 and 5.3 print sums; the file has separate entries for their parts.
const S92: [Printed; 3] = [
    (
        "5.1",
        &[
            "Non Sync",
            "Locked",
            "Lock-free noretry",
            "Lock-free oneretry",
        ],
        &[
            ("null procedure call in C", "1.4 - - -"),
            ("Increment counter", "0.3 2.4 1.3 2.3"),
            ("Linked-list Insert", "0.6 2.7 1.4 2.3"),
            ("Linked-list Delete", "1.0 3.2 2.1 4.1"),
            ("Circular-Queue Insert", "2.0 4.2 3.3 6.0"),
            ("Circular-Queue Delete", "2.1 4.3 3.3 6.0"),
            ("Stack Push", "0.7 2.8 2.0 3.5"),
            ("Stack Pop", "0.7 2.8 2.0 3.5"),
            ("get_semaphore Sony NEWS, Unix", "8.74 - - -"),
        ],
    ),
    (
        "5.2",
        &["Time"],
        &[
            ("Create shared vector table", "19.2"),
            ("Create separate vector table", "97"),
            ("Destroy", "2.2"),
            ("Destroy, in dispatcher", "6.1"),
            ("Suspend", "2.2"),
            ("Suspend, in dispatcher", "3.7"),
            ("Resume, if in Q", "3.0"),
            ("Resume, not in Q", "6.6"),
            ("Signal", "4.6"),
            ("Signal, in scheduler", "4.4"),
            ("Step (no FP, no VM switch)", "25"),
        ],
    ),
    (
        "5.3",
        &["Synthesis V.1"],
        &[
            ("Integer registers only", "14"),
            ("Floating-point", "56"),
            ("Integer, change address space", "20"),
            ("Integer, change address space, each TLB fill", "1.6"),
            ("Floating-point, change address space", "60"),
            ("Floating-point, change address space, each TLB fill", "1.6"),
        ],
    ),
];

#[test]
fn s92_tables_are_the_printed_ones_and_have_nothing_else() {
    let s92 = paper("S92").unwrap();
    let mut compared = 0;
    for (table, ways, lines) in S92 {
        for (program, printed) in lines {
            let printed = printed.replace('-', "n/a");
            assert_eq!(printed.split(' ').count(), ways.len());
            for (way, printed) in ways.iter().zip(printed.split(' ')) {
                let cells = s92.cells.iter();
                let cells = cells.filter(|cell| {
                    (cell.table, cell.technique, cell.program) == (table, *way, *program)
                });
                let values: Vec<_> = cells.map(|cell| (cell.value, cell.unit)).collect();
                assert_eq!(
                    values,
                    [(printed.parse().unwrap(), "µs")],
                    "{program} {way}"
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 9 * 4 + 11 + 6);
    assert_eq!((s92.cells.len(), s92.tables.len()), (compared, 3));
}

#[test]
fn s92_figures_agree_with_its_table_and_with_each_other() {
    let s92 = paper("S92").unwrap();
    let figure = |quantity: &str| {
        let figure = s92.figures.iter().find(|f| f.quantity.contains(quantity));
        figure.and_then(|figure| figure.value.number()).unwrap()
    };
    let parts = s92.figures.iter();
    let parts = parts.filter(|figure| figure.quantity.starts_with("of that"));
    let parts: f64 = parts.filter_map(|figure| figure.value.number()).sum();
    assert_eq!(parts, figure("obtaining and then clearing"));
    // 20 cycles between the lock and CAS2 are 0.8 µs at 25 MHz. The rows of two words differ by 0.8
    // to 1.1 µs.
    let clock = s92.machines[0].megahertz.unwrap();
    let expected = (parts - figure("Compare-and-Swap of two words")) / clock;
    for program in ["Linked-list Delete", "Stack Push", "Circular-Queue Insert"] {
        let cell = |way| s92.cell("5.1", way, program, "68030").unwrap().value;
        let (locked, free) = (cell("Locked"), cell("Lock-free noretry"));
        assert_eq!(locked.exceeds(free), Some(true));
        let more = locked.number().unwrap() - free.number().unwrap();
        assert!((more - expected).abs() < 0.35, "{program}: {more}");
    }
}

#[test]
fn gc96_figures_are_the_printed_ones_and_there_are_no_others() {
    let gc96 = paper("GC96").unwrap();
    let told: Vec<_> = gc96
        .figures
        .iter()
        .map(|figure| {
            format!(
                "{} {}: {} {}",
                figure.section, figure.machine, figure.value, figure.unit
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "5.3 source code: 110 lines",
            "5.3 source code: 38 lines",
            "5.3 source code: 25 lines",
            "5.3 source code: 37 lines",
            "5.3 source code: 24 lines",
            "7.1 ParaDiGM: 27 %",
            "7.1 ParaDiGM: 4 instructions",
            "7.1 ParaDiGM: ≈ 3.5 µs",
            "7.1 ParaDiGM: 2.1 µs",
            "7.1 ParaDiGM: ≈ 3.4 µs",
            "7.1 R4000 with LLP/SCP: 16 instructions",
            "7.1 R4000: ≈ 24 instruction times",
            "7.1, figure 4 ParaDiGM: 114 instruction times",
            "7.1, figure 4 R4000 with LLP/SCP: 26 instruction times",
            "7.1, figure 4 SGI R3000: 70 instruction times",
            "7.1, figure 4 R4000: 24 instruction times",
            "7.2 Proteus: 17 cycles",
            "7.2 Proteus: 9 cycles",
            "7.2 Proteus: 10000 times",
            "7.2 Proteus: > 99 %",
        ]
    );
    assert_eq!((gc96.cells.len(), gc96.tables.len()), (0, 0));
}
