//! Checks every row of this executable's table of sequences, and that the forms against signal
//! handlers are the same instructions, those of the golden files.
//!
//! `BLESS=1 cargo test --release -p verify-binary --test rows` writes the golden files anew.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

mod faulty_rows;
mod signal_forms;

use signal_forms::PROGRAMS;
use verify_binary::executable::Executable;
use verify_binary::row::{self, rows};

#[test]
fn every_row_is_in_order() {
    signal_forms::run();
    let executable = Executable::this();
    let (rows, mut wrong) = rows(&executable, row::SECTION);
    for row in &rows {
        let rules = row::of_a_row(&executable, row);
        wrong.extend(
            rules
                .iter()
                .map(|rule| format!("{}: not so: {rule}", row.function)),
        );
    }
    let clones = rows.iter().filter(|row| row.clone.is_some()).count();
    println!(
        "binary: {} rows, {clones} with a clone; {} violations",
        rows.len(),
        wrong.len()
    );
    assert_eq!(wrong, [""; 0]);
    for (program, forms) in PROGRAMS {
        for (form, expected) in *forms {
            let function = format!("signal_{program}_{form}");
            let own: Vec<_> = rows.iter().filter(|row| row.function == function).collect();
            match (expected, own.as_slice()) {
                (None, []) => {}
                (Some(has_clone), [row]) => {
                    assert_eq!(row.clone.is_some(), *has_clone, "{function}")
                }
                (_, others) => panic!("{function} has {} rows", others.len()),
            }
        }
    }
}

/// What is protected has not one instruction more than what is not.
#[test]
#[cfg(not(debug_assertions))]
fn the_forms_are_the_same_instructions() {
    use verify_binary::golden::{Golden, compiler, is_blessing};
    use verify_binary::listing;

    signal_forms::run();
    let executable = Executable::this();
    let mut file = Golden::read("signals");
    let mut compared = 0;
    for (program, forms) in PROGRAMS {
        let code = |(form, _): &signal_forms::Form| {
            let name = format!("signal_{program}_{form}");
            let function = executable.function(&name).expect("it was called");
            let code = executable.instructions(function.place.clone());
            let lengths: Vec<usize> = code.iter().map(|each| each.len()).collect();
            (
                listing::function(&executable, function.place.clone(), &[]),
                lengths,
            )
        };
        let unprotected = code(&forms[0]);
        for form in &forms[1..] {
            assert_eq!(unprotected, code(form), "{program}: {form:?}");
        }
        let fresh = format!("{}\n{}\n", compiler(), unprotected.0.join("\n"));
        if is_blessing() {
            file.bless(program, &fresh);
        }
        let golden = file.listing(program);
        let golden = golden.unwrap_or_else(|| panic!("no listing of {program}: run with BLESS=1"));
        // Another compiler may choose other registers.
        if golden.lines().next() == fresh.lines().next() {
            compared += 1;
            assert_eq!(golden, fresh, "{program} differs from its golden file");
        }
    }
    println!(
        "golden: {} programs in all their forms; {compared} compared with their files",
        PROGRAMS.len()
    );
}

#[test]
fn faulty_rows_are_found_out() {
    let executable = Executable::this();
    let (rows, wrong) = rows(&executable, faulty_rows::SECTION);
    assert_eq!(wrong, [""; 0], "this table is in order");
    assert_eq!(rows.len(), faulty_rows::ROWS.len());
    for (name, fault) in faulty_rows::ROWS {
        let row = rows
            .iter()
            .find(|row| row.function == *name)
            .expect("it is in the executable");
        let said = row::of_a_row(&executable, row);
        println!("control {name}: {}", said.join("; "));
        match fault {
            None => assert_eq!(said, [""; 0], "{name}"),
            Some(fault) => {
                assert!(
                    said.iter().any(|rule| rule.contains(fault)),
                    "{name}: {said:?}"
                );
            }
        }
    }
    let (_, wrong) = verify_binary::row::rows(&executable, faulty_rows::OVERLAPPING);
    assert!(
        wrong.iter().any(|wrong| wrong.contains("overlap")),
        "{wrong:?}"
    );
}
