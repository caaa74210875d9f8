//! The emitted code runs under qemu. A driver in C gives it memory at fixed addresses and a
//! `struct rseq` of its own, and writes back what it left: how, the temporaries, the memory. The
//! test compares that with the oracle.
//!
//! Of each sequence and round the gate may be closed, the thread unregistered (`cpu_id` -1 or -2),
//! or the sequence entered at its abort address: then memory must be as before.

use std::io::Write;
use std::process::{Command, Stdio};
use std::rc::Rc;

use atomseq::sequence::model::{Shape, Value};
use verify_compiler::inputs;
use verify_compiler::oracle::{self, Memory};
use verify_compiler::random::{self, Program, CONSTANTS};
use verify_compiler::SEEDS;

use super::assembly::Emitted;
use super::{library, tools};
use atomseq_compiler::emit::Place;
use atomseq_compiler::forms::Form;
use atomseq_compiler::ir::{self, Constant, Sequence};

/// Where the driver maps its memory, and how it is divided; must agree with `driver.c`.
pub const ARENA: u64 = 0x2_0000_0000;
pub const ARENA_BYTES: usize = 2048;
pub const SLOTS: u64 = ARENA + 256;
pub const BULK: u64 = ARENA + 1024;
const CPUS: u64 = 4;
pub const MAX_ARGUMENTS: usize = 8;
const MAX_TEMPORARIES: usize = 32;
/// Of an answer, the bytes before the memory: two words and the temporaries.
const HEAD_BYTES: usize = 8 * (2 + MAX_TEMPORARIES);

const ROUNDS: u64 = 40;

/// The inputs of one call.
struct Case {
    program: usize,
    /// -1 and -2 are what an unregistered thread reads.
    cpu: i64,
    /// Whether the driver enters at the abort address.
    abort: bool,
    gate: u32,
    arguments: Vec<u64>,
    before: Memory,
}

#[test]
fn the_code_does_what_the_sequence_says() {
    if !tools::are_there(&[tools::ASSEMBLER, tools::COMPILER, tools::EMULATOR]) {
        return;
    }
    let programs = programs();
    let cases = cases(&programs);
    let (mut committed, mut left_early) = (0, 0);
    try_all(
        "run",
        &programs,
        &cases,
        str::to_string,
        |case, emitted, answer| {
            let program = &programs[case.program];
            if let Err(difference) = compare(case, program, emitted, &answer) {
                let code = emitted.template(&program.name);
                panic!(
                    "{difference}\n{}\non {:x?}\n{code}",
                    program.text(),
                    case.arguments
                );
            }
            committed += u64::from(answer.left == 0);
            left_early +=
                u64::from((1..=emitted.sequence.exits.len() as u64).contains(&answer.left));
        },
    );
    let (programs, cases) = (programs.len(), cases.len());
    println!("{programs} sequences, {cases} calls: {committed} committed, {left_early} left early");
    let enough = ROUNDS * SEEDS.len() as u64 / 5;
    assert!(committed > enough && left_early > enough / 10);
}

/// The negative control: one instruction is replaced by another that cannot leave the memory.
#[test]
fn a_wrong_instruction_is_noticed() {
    if !tools::are_there(&[tools::ASSEMBLER, tools::COMPILER, tools::EMULATOR]) {
        return;
    }
    let programs = programs();
    for (number, (right, wrong)) in [
        ("    eor ", "    orr "),
        ("b.lo ", "b.ls "),
        ("b.eq ", "b.ne "),
        ("    lsr ", "    asr "),
        ("    movn ", "    movz "),
        ("    stlr ", "    ldar "),
    ]
    .into_iter()
    .enumerate()
    {
        // The first hundred suffice mostly. But not every hundred has the instruction where the
        // difference shows: `lsr` and `asr` differ in the highest bit.
        let is_noticed = programs.chunks(100).any(|programs| {
            let cases = cases(programs);
            let mut noticed = 0;
            try_all(
                &format!("wrong-{number}"),
                programs,
                &cases,
                |text| text.replace(right, wrong),
                |case, emitted, answer| {
                    let compared = compare(case, &programs[case.program], emitted, &answer);
                    noticed += u64::from(compared.is_err());
                },
            );
            noticed > 0
        });
        assert!(is_noticed, "`{wrong}` for `{right}` made no difference");
    }
}

fn programs() -> Vec<Program> {
    let all = SEEDS.iter().map(|seed| random::generate(*seed));
    all.filter(Program::is_for_its_cpu).collect()
}

/// What a call left.
struct Answer<'a> {
    left: u64,
    armed: bool,
    temporaries: Vec<u64>,
    arena: &'a [u8],
}

/// Assembles, links, runs, and calls `with` for each answer; `spoil` may change the assembly.
fn try_all(
    test: &str,
    programs: &[Program],
    cases: &[Case],
    spoil: impl Fn(&str) -> String,
    mut with: impl FnMut(&Case, &Emitted, Answer<'_>),
) {
    let emitted: Vec<Emitted> = programs
        .iter()
        .map(|program| emit(program, Form::OnCpu))
        .collect();
    let functions = programs.iter().zip(&emitted);
    let text: String = functions
        .map(|(program, emitted)| emitted.functions(&program.name))
        .collect();
    let mut text = spoil(&text);
    text.push_str(".section .data.rel.ro,\"aw\"\n.balign 8\n.global sequences\nsequences:\n");
    for program in programs {
        text.push_str(&format!("    .quad {0}, {0}_abort\n", program.name));
    }
    let driver = tools::link(test, &text, "driver.c");
    let output = drive(&driver, programs, cases);
    assert_eq!(
        output.len(),
        cases.len() * (HEAD_BYTES + ARENA_BYTES),
        "the driver answers every case"
    );
    for (case, (words, arena)) in cases.iter().zip(answers(&output)) {
        let answer = Answer {
            left: words[0],
            armed: words[1] != 0,
            temporaries: words[2..].to_vec(),
            arena,
        };
        with(case, &emitted[case.program], answer);
    }
}

/// Returns the answers in a driver's output: two words and the temporaries, then the memory.
pub fn answers(output: &[u8]) -> impl Iterator<Item = (Vec<u64>, &[u8])> {
    output.chunks_exact(HEAD_BYTES + ARENA_BYTES).map(|answer| {
        let (head, arena) = answer.split_at(HEAD_BYTES);
        let words = head.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        (words.collect(), arena)
    })
}

/// Compares an answer with the oracle.
fn compare(
    case: &Case,
    program: &Program,
    emitted: &Emitted,
    answer: &Answer<'_>,
) -> Result<(), &'static str> {
    let says = |right: bool, difference: &'static str| if right { Ok(()) } else { Err(difference) };
    let exits = emitted.sequence.exits.len() as u64;
    let left = memory(answer.arena, &case.before);
    says(answer.armed != case.abort, "armed, or not armed")?;
    // Only a slot has a gate.
    if case.abort || case.gate != 0 && program.has_slot() {
        let expected = if case.abort { exits + 1 } else { exits + 2 };
        says(answer.left == expected, "not aborted, or not closed")?;
        return says(
            left == case.before,
            "aborted or closed, and yet memory has changed",
        );
    }
    let mut after = case.before.clone();
    let expected = oracle::run(program, &case.arguments, &mut after, case.cpu as u64);
    says(answer.left <= exits, "aborted or closed for no reason")?;
    let value = value(
        emitted,
        answer.left as usize,
        &case.arguments,
        &answer.temporaries,
    );
    says(value == expected, "the result differs")?;
    says(left == after, "memory differs")
}

/// Emits a random sequence, its constants evaluated.
pub fn emit(program: &Program, form: Form) -> Emitted {
    let sequence = Rc::new(library::sequence(&program.text()));
    Emitted::new(Rc::clone(&sequence), form, |operand| {
        evaluate(&sequence, operand.constant()) as i64
    })
}

/// Evaluates a constant's expression as rustc would, where words have 64 bits.
fn evaluate(sequence: &Sequence, constant: &Constant) -> u64 {
    fn value(sequence: &Sequence, expression: &syn::Expr) -> u64 {
        let value = |expression: &syn::Expr| value(sequence, expression);
        match expression {
            syn::Expr::Paren(inner) => value(&inner.expr),
            syn::Expr::Group(inner) => value(&inner.expr),
            syn::Expr::Cast(cast) => value(&cast.expr),
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Int(literal),
                ..
            }) => literal.base10_parse().expect("64 bits"),
            syn::Expr::Path(path) => {
                let place = &path.path.segments.last().expect("one of ours").ident;
                let mut named = sequence.constants.iter();
                let named = named.find(|named| named.place == *place);
                let name = named.expect("one of the sequence's").path.to_string();
                CONSTANTS
                    .iter()
                    .find(|(constant, _)| *constant == name)
                    .expect("one of ours")
                    .1
            }
            syn::Expr::Call(call) => {
                let syn::Expr::Path(function) = &*call.func else {
                    panic!("functions have names");
                };
                let name = &function.path.segments.last().expect("a name").ident;
                let a = value(&call.args[0]);
                // The value where words have 64 bits comes first.
                if name == "by_width" {
                    return a;
                }
                let b = value(&call.args[1]);
                match name.to_string().as_str() {
                    "wrapping_add" => a.wrapping_add(b),
                    "wrapping_sub" => a.wrapping_sub(b),
                    "wrapping_mul" => a.wrapping_mul(b),
                    "wrapping_shl" => a.wrapping_shl(b as u32),
                    "wrapping_shr" => a.wrapping_shr(b as u32),
                    other => panic!("constants are not combined by {other}"),
                }
            }
            syn::Expr::Binary(binary) => {
                let (a, b) = (value(&binary.left), value(&binary.right));
                match binary.op {
                    syn::BinOp::BitAnd(_) => a & b,
                    syn::BinOp::BitOr(_) => a | b,
                    syn::BinOp::BitXor(_) => a ^ b,
                    _ => panic!("constants are not combined so"),
                }
            }
            // A minimum or a maximum.
            syn::Expr::If(less) => {
                let syn::Expr::Binary(comparison) = &*less.cond else {
                    panic!("they compare");
                };
                let is_less = value(&comparison.left) < value(&comparison.right);
                let (_, otherwise) = less.else_branch.as_ref().expect("they choose");
                match (is_less, less.then_branch.stmts.as_slice()) {
                    (true, [syn::Stmt::Expr(chosen, None)]) => value(chosen),
                    _ => value(otherwise),
                }
            }
            syn::Expr::Block(block) => match block.block.stmts.as_slice() {
                [syn::Stmt::Expr(only, None)] => value(only),
                _ => panic!("the branch of a choice is a word"),
            },
            _ => panic!("the random sequences have no such constant"),
        }
    }
    value(
        sequence,
        &syn::parse2(constant.tokens.clone()).expect("an expression"),
    )
}

/// Draws the inputs of all calls.
fn cases(programs: &[Program]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(SEEDS[index]);
        for round in 0..ROUNDS {
            let cpu = match round {
                0 => -1,
                1 => -2,
                _ => random.u64(0..CPUS) as i64,
            };
            let slot = SLOTS.wrapping_add_signed(cpu * 128);
            cases.push(Case {
                program: index,
                cpu,
                abort: round == 2,
                gate: if round == 3 || cpu < 0 { 4 } else { 0 },
                arguments: inputs::arguments(&mut random, program, slot, BULK),
                before: inputs::memory(&mut random, program, slot, BULK),
            });
        }
    }
    cases
}

/// Writes all cases for the driver, and returns its answers.
fn drive(driver: &std::path::Path, programs: &[Program], cases: &[Case]) -> Vec<u8> {
    let mut input = Vec::new();
    for case in cases {
        let mut word = |word: u64| input.extend_from_slice(&word.to_le_bytes());
        word(2 * case.program as u64 + u64::from(case.abort));
        word(case.cpu as u64);
        for index in 0..MAX_ARGUMENTS {
            // For a slot the base of the area is passed.
            let argument = case.arguments.get(index).copied().unwrap_or(0);
            let parameter = programs[case.program].parameters.get(index);
            let is_slot = parameter == Some(&random::Parameter::Slot);
            word(if is_slot { SLOTS } else { argument });
        }
        let mut arena = vec![0u8; ARENA_BYTES];
        for (address, bytes) in &case.before.stretches {
            let from = (address - ARENA) as usize;
            arena[from..from + bytes.len()].copy_from_slice(bytes);
        }
        let gate = (SLOTS.wrapping_add_signed(case.cpu * 128) - ARENA) as usize;
        arena[gate..gate + 4].copy_from_slice(&case.gate.to_le_bytes());
        input.extend_from_slice(&arena);
    }
    emulate(driver, input).expect("right or wrong, these stay in their memory")
}

/// Runs a driver with this standard input; returns what it wrote, or how it failed.
pub fn emulate(driver: &std::path::Path, input: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut child = Command::new(tools::EMULATOR)
        .arg(driver)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was found before");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the driver ends");
    let written = writer.join().expect("no panic");
    if !output.status.success() {
        return Err(format!("the driver failed: {}", output.status));
    }
    written.expect("the driver reads all");
    Ok(output.stdout)
}

/// Returns the same stretches as they are in the arena now.
pub fn memory(arena: &[u8], like: &Memory) -> Memory {
    let mut memory = like.clone();
    for (address, bytes) in &mut memory.stretches {
        let from = (*address - ARENA) as usize;
        let length = bytes.len();
        bytes.copy_from_slice(&arena[from..from + length]);
    }
    memory
}

/// Returns the result of a call, by where control left.
pub fn value(emitted: &Emitted, left: usize, arguments: &[u64], temporaries: &[u64]) -> Value {
    let (places, exit) = match left {
        0 => (
            emitted.assembly.results.last().expect("the commit's"),
            &emitted.sequence.end,
        ),
        exit => (
            &emitted.assembly.results[exit - 1],
            &emitted.sequence.exits[exit - 1],
        ),
    };
    let words = places
        .iter()
        .map(|place| match place {
            Place::Temporary(index) => temporaries[*index] as usize,
            Place::Parameter(index) => arguments[*index] as usize,
            Place::Constant(constant) => evaluate(&emitted.sequence, constant) as usize,
        })
        .collect();
    let shape = match exit.shape {
        ir::Shape::Plain => Shape::Plain,
        ir::Shape::Some => Shape::Some,
        ir::Shape::None => Shape::None,
        ir::Shape::True => Shape::True,
        ir::Shape::False => Shape::False,
    };
    Value { shape, words }
}
