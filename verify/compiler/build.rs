//! Writes random sequences for rustc to compile with `tests/differential.rs`: the text of one
//! `sequence!`, and a table of the forms that it makes. The library has their seeds. Of sequences
//! that break a rule, it writes what the compiler leaves to rustc.

#[path = "src/random/mod.rs"]
mod random;
#[path = "../../crates/atomseq/build.rs"]
mod sections;

use std::fmt::Write;
use std::path::Path;

/// How many sequences, unless the variable `ATOMSEQ_RANDOM_SEQUENCES` holds another number. Long
/// searches go from one range of seeds to the next by `ATOMSEQ_FIRST_SEED`.
const SEQUENCES: usize = 500;

/// What the compiler may report of a random sequence, which keeps every rule: it may not fit a
/// processor.
const EXPECTED: [&str; 2] = ["too long", "too many words"];

/// What the compiler leaves to rustc where no register is left for a large constant.
const NONE_LEFT: &str = "takes a register, and none is left";

/// Whether a sequence names a constant that takes a register.
fn has_large_words(text: &str) -> bool {
    let mut large = random::CONSTANTS[random::BACK..].iter();
    large.any(|(name, _)| text.contains(name))
}

/// How many sequences that break a rule.
const BREAKING: u64 = 500;

/// What the compiler reports of those.
const REFUSED: [&str; 2] = [
    "a prepared word is loaded before",
    "the committed word is prepared",
];

fn main() {
    sections::main();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/random");
    let (mut sequences, mut table, mut seeds) = (String::new(), String::new(), Vec::new());
    let count = number("ATOMSEQ_RANDOM_SEQUENCES").map_or(SEQUENCES, |count| count as usize);
    for seed in number("ATOMSEQ_FIRST_SEED").unwrap_or(0).. {
        let program = random::generate(seed);
        let text = program.text();
        match atomseq_compiler::compile(text.parse().expect("it is made of tokens")) {
            // rustc refuses the large constants.
            Ok(compiled) if has_large_words(&text) && compiled.to_string().contains(NONE_LEFT) => {
                continue
            }
            Ok(_) => {}
            Err(error) => {
                let reason = error.to_string();
                assert!(
                    EXPECTED.iter().any(|expected| reason.starts_with(expected)),
                    "the compiler refuses a sequence that keeps the rules: {reason}\n{text}"
                );
                continue;
            }
        }
        seeds.push(seed);
        write(&program, &text, &mut sequences, &mut table);
        if seeds.len() == count {
            break;
        }
    }
    let mut file = String::new();
    for &(name, value) in random::CONSTANTS {
        let (kind, value) = match i64::try_from(value) {
            Ok(value) => ("usize", value),
            Err(_) => ("isize", value as i64),
        };
        writeln!(
            file,
            "/// A named constant.\npub const {name}: {kind} = {value};"
        )
        .unwrap();
    }
    write!(
        file,
        "atomseq::sequence! {{\n{sequences}}}\n\
         /// The forms of each.\n\
         #[allow(clippy::unit_arg, reason = \"a table has one shape\")]\npub const FORMS: &[Forms] = &[\n{table}];\n"
    )
    .unwrap();
    breaking(&mut file);
    let directory = std::env::var("OUT_DIR").expect("cargo says where");
    let write = |name: &str, text: &str| {
        std::fs::write(Path::new(&directory).join(name), text).expect("cargo's directory");
    };
    write("sequences.rs", &file);
    let seeds = format!("/// The seed of each sequence.\npub const SEEDS: &[u64] = &{seeds:?};\n");
    write("seeds.rs", &seeds);
}

/// Writes a table of functions: for each sequence that breaks a rule and is not refused at once,
/// the assertions that the compiler leaves to rustc. A function that returns `true` means that
/// rustc would accept the sequence.
fn breaking(file: &mut String) {
    let (mut at_once, mut table) = (0, String::new());
    for seed in 0..BREAKING {
        let text = random::break_a_rule(seed).text();
        let tokens = text.parse().expect("it is made of tokens");
        let sequence = atomseq_compiler::sequences(tokens)
            .expect("it is a function")
            .remove(0);
        let is_the_rule = |reason: &str| REFUSED.iter().any(|refused| reason.starts_with(refused));
        let sequence = match sequence {
            Ok(sequence) => sequence,
            Err(error) => {
                assert!(is_the_rule(&error.to_string()), "{error}\n{text}");
                at_once += 1;
                continue;
            }
        };
        let rules = sequence.assertions.iter();
        let rules: Vec<_> = rules
            .filter(|rule| is_the_rule(rule.message))
            .map(|rule| format!("({})", rule.holds))
            .collect();
        assert!(
            !rules.is_empty(),
            "the compiler takes what breaks a rule:\n{text}"
        );
        let constants = sequence.constants.iter();
        let constants: String = constants
            .map(|named| format!("const {}: usize = {} as usize;\n", named.place, named.path))
            .collect();
        let (name, rules) = (
            atomseq_compiler::ir::constants_name(&sequence.name),
            rules.join("&&"),
        );
        writeln!(
            table,
            "({seed}, || {{ #[allow(non_camel_case_types)] enum {name} {{}} impl {name} {{ {constants} }} {rules} }}),"
        )
        .unwrap();
    }
    write!(
        file,
        "/// How many sequences that break a rule the compiler refuses by itself.\n\
         pub const REFUSED_AT_ONCE: usize = {at_once};\n\
         /// The others by their seeds: are the rules kept, by what is left to rustc?\n\
         #[allow(clippy::all, unused_parens, dead_code, reason = \"an assertion is made for rustc alone\")]\n\
         pub const LEFT_TO_RUSTC: &[(u64, fn() -> bool)] = &[\n{table}];\n"
    )
    .unwrap();
}

/// Returns the number in a variable of the environment.
fn number(name: &str) -> Option<u64> {
    println!("cargo::rerun-if-env-changed={name}");
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

/// Writes one sequence, and the row of its forms.
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
        let area = match program.has_slot() {
            true => "slots",
            false => "_slots",
        };
        on_cpu = format!(
            "Some(|{area}, a| unsafe {{ {name}::on_cpu({slots}) }}.map(IntoValue::into_value))"
        );
        if program.has_slot() {
            gated = format!("Some(|held, a| unsafe {{ {name}::gated({held}) }}.into_value())");
        }
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
