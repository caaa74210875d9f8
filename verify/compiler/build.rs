//! Writes random sequences for rustc to compile: `sequence!` itself, and a table of their forms.

#[path = "../../crates/atomseq-macros/src/compiler/mod.rs"]
#[allow(dead_code, missing_docs)]
#[rustfmt::skip] // of another edition
mod compiler;
#[path = "src/random/mod.rs"]
mod random;
#[path = "../../crates/atomseq/build.rs"]
mod sections;

use std::fmt::Write;
use std::path::Path;

/// How many sequences, unless `ATOMSEQ_RANDOM_SEQUENCES` says another number. `ATOMSEQ_FIRST_SEED` has
/// others made: longer searches go from one range of seeds to the next.
const SEQUENCES: usize = 500;

/// What may be wrong with a random sequence: it may be too much for a processor.
const EXPECTED: [&str; 2] = ["too long", "too many words"];

fn main() {
    sections::main();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/random");
    println!("cargo::rerun-if-changed=../../crates/atomseq-macros/src/compiler");
    let (mut sequences, mut table, mut seeds) = (String::new(), String::new(), Vec::new());
    let count = number("ATOMSEQ_RANDOM_SEQUENCES").map_or(SEQUENCES, |count| count as usize);
    for seed in number("ATOMSEQ_FIRST_SEED").unwrap_or(0).. {
        let program = random::generate(seed);
        let text = program.text();
        if let Err(error) = compiler::compile(text.parse().expect("it is made of tokens")) {
            let reason = error.to_string();
            assert!(
                EXPECTED.iter().any(|expected| reason.starts_with(expected)),
                "the compiler refuses a sequence that keeps the rules: {reason}\n{text}"
            );
            continue;
        }
        seeds.push(seed);
        write(&program, &text, &mut sequences, &mut table);
        if seeds.len() == count {
            break;
        }
    }
    let mut file = String::new();
    for (name, value) in random::CONSTANTS {
        writeln!(
            file,
            "/// A named constant.\npub const {name}: usize = {value};"
        )
        .unwrap();
    }
    write!(
        file,
        "atomseq::sequence! {{\n{sequences}}}\n\
         /// The seed of each sequence.\npub const SEEDS: &[u64] = &{seeds:?};\n\
         /// The forms of each.\n\
         #[allow(clippy::unit_arg, reason = \"a table has one shape\")]\npub const FORMS: &[Forms] = &[\n{table}];\n"
    )
    .unwrap();
    let directory = std::env::var("OUT_DIR").expect("cargo says where");
    std::fs::write(Path::new(&directory).join("sequences.rs"), file).expect("cargo's directory");
}

/// A number in the environment.
fn number(name: &str) -> Option<u64> {
    println!("cargo::rerun-if-env-changed={name}");
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

fn write(program: &random::Program, text: &str, sequences: &mut String, table: &mut String) {
    let name = &program.name;
    writeln!(sequences, "/// Random.\n{text}").unwrap();
    let arguments = |slot: &str| {
        (0..program.parameters.len())
            .map(|index| match program.parameters[index] {
                random::Parameter::Slot => slot.to_string(),
                _ => format!("a[{index}]"),
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let safe = "// SAFETY: the caller's promise.\n";
    let (mut on_cpu, mut gated) = ("None".to_string(), "None".to_string());
    if program.is_for_its_cpu() {
        let (slots, held) = (arguments("slots"), arguments("held"));
        on_cpu = format!(
            "Some(|slots, a| unsafe {{ {name}::on_cpu({slots}) }}.map(IntoValue::into_value))"
        );
        gated = format!("Some(|held, a| unsafe {{ {name}::gated({held}) }}.into_value())");
    }
    let mut signal = String::new();
    let forms = [
        ("restarting", program.is_restarted()),
        ("rolling", program.is_against_handlers()),
        ("unprotected", program.is_against_handlers()),
    ];
    for (form, _) in forms.iter().filter(|(_, is_there)| *is_there) {
        let words: Vec<String> = (0..program.parameters.len())
            .map(|index| format!("a[{index}]"))
            .collect();
        let words = words.join(", ");
        writeln!(
            signal,
            "{safe}(\"{form}\", |a| unsafe {{ {name}::{form}({words}) }}.into_value()),"
        )
        .unwrap();
    }
    writeln!(
        table,
        "Forms {{\n\
         model: &{name}::MODEL,\n\
         {safe}on_cpu: {on_cpu},\n\
         {safe}gated: {gated},\n\
         signal: &[{signal}],\n\
         }},"
    )
    .unwrap();
}
