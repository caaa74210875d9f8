//! The differential test: random sequences on this machine. What the oracle says, the model, the
//! form under the gate, the form for this CPU, and the forms against signal handlers must return
//! the same and leave the same memory.
//!
//! An area's real slot is used, so the addresses are real, and the thread stays on one CPU. Each
//! round writes the same words to the slot and its bulk memory, runs one form, and reads them back:
//!
//! ```text
//! for each seed, 100 times:
//!     memory, arguments = random
//!     expected          = oracle(memory, arguments)          result, memory, order of loads
//!     for each form:    write memory; result = form(arguments); (result, memory) == expected?
//! ```
//!
//! Then the same sequences answer questions about the rules. What the compiler accepts may be
//! restarted after any of its stores (`what_is_accepted_may_be_restarted`). What breaks a rule is
//! refused, and it shows that the rule is needed: such sequences do go wrong after a restart
//! (`what_breaks_a_rule_is_refused`). And the comparison sees a single wrong step
//! (`a_wrong_step_is_noticed`).

use atomseq::percpu::Area;
use atomseq::sequence::model::{self, Attempt, Operand, Operator, Step, Value};
use verify_compiler::inputs::{self, BULK_BYTES};
use verify_compiler::oracle::{self, Memory};
use verify_compiler::random::{self, Kind, Program};
use verify_compiler::SEEDS;

use sequences::{FORMS, LEFT_TO_RUSTC, REFUSED_AT_ONCE};

/// What rustc makes of the random sequences. Only this test compiles them, for that
/// takes longer than all the rest of this package.
#[allow(dead_code, reason = "some sequences do not use every constant")]
mod sequences {
    use verify_compiler::{Forms, IntoValue};

    include!(concat!(env!("OUT_DIR"), "/sequences.rs"));
}

/// How often each sequence runs, on other inputs each time.
const ROUNDS: u64 = 100;

/// Where sequences run.
struct Place {
    area: Area,
    cpu: usize,
    slot: u64,
    bulk: u64,
}

/// Keeps this thread on one CPU, and makes an area. The slot's address remains valid after its gate
/// is opened again: nothing else uses this area.
fn place() -> Place {
    // SAFETY: a CPU set is plain bits; the calls read and write this one only.
    let cpu = unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &mut allowed), 0);
        let cpu = (0..libc::CPU_SETSIZE as usize)
            .find(|cpu| libc::CPU_ISSET(*cpu, &allowed))
            .expect("a thread may run somewhere");
        libc::CPU_ZERO(&mut allowed);
        libc::CPU_SET(cpu, &mut allowed);
        assert_eq!(libc::sched_setaffinity(0, size, &allowed), 0);
        cpu
    };
    let area = Area::try_new(BULK_BYTES as usize).expect("a few pages");
    let slot = area.close_gate(cpu).address() as u64;
    let bulk = area.bulk(cpu).as_ptr() as u64;
    Place {
        area,
        cpu,
        slot,
        bulk,
    }
}

/// Writes the stretches to their addresses.
fn write(memory: &Memory) {
    for (address, bytes) in &memory.stretches {
        // SAFETY: the stretches are a slot's words and its bulk memory, this thread's alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
    }
}

/// Reads the same stretches back.
fn read(like: &Memory) -> Memory {
    let mut memory = like.clone();
    for (address, bytes) in &mut memory.stretches {
        // SAFETY: the stretches are a slot's words and its bulk memory, this thread's alone.
        unsafe {
            std::ptr::copy_nonoverlapping(*address as *const u8, bytes.as_mut_ptr(), bytes.len())
        };
    }
    memory
}

/// Runs the model; returns the result, the memory, and what was loaded, in order.
fn run_model(
    program: &model::Program,
    arguments: &[usize],
    memory: &Memory,
    cpu: usize,
) -> (Value, Memory, Vec<(u64, u64)>) {
    let mut words = model::Memory::default();
    for (start, bytes) in &memory.stretches {
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            let word = usize::from_le_bytes(word.try_into().expect("eight bytes"));
            words.store(*start as usize + 8 * index, word);
        }
    }
    let mut attempt = Attempt::new(program, arguments);
    let mut loads = Vec::new();
    let value = loop {
        if let Some(value) = attempt.outcome() {
            break value.clone();
        }
        let (read, _) = attempt.touches(program);
        loads.extend(read.map(|span| (span.address as u64, span.bytes as u64)));
        attempt.step(program, &mut words, cpu);
    };
    let mut after = memory.clone();
    for (address, word) in words.words() {
        after.store(address as u64, word as u64, 8);
    }
    (value, after, loads)
}

/// What must come out: the result, the memory, and what is loaded, in order.
struct Expected {
    left: (Value, Memory),
    loads: Vec<(u64, u64)>,
}

/// Calls a function with every sequence and each of its inputs, and what must come out.
fn cases(place: &Place, mut with: impl FnMut(usize, &Program, &[u64], &Memory, &Expected)) {
    for (index, seed) in SEEDS.iter().enumerate() {
        let program = random::generate(*seed);
        let mut random = fastrand::Rng::with_seed(*seed);
        for _ in 0..ROUNDS {
            let memory = inputs::memory(&mut random, &program, place.slot, place.bulk);
            let arguments = inputs::arguments(&mut random, &program, place.slot, place.bulk);
            let mut after = memory.clone();
            let (value, loads) =
                oracle::run_noting_loads(&program, &arguments, &mut after, place.cpu as u64);
            let left = (value, after);
            with(
                index,
                &program,
                &arguments,
                &memory,
                &Expected { left, loads },
            );
        }
    }
}

#[test]
fn all_forms_do_what_the_sequence_says() {
    let place = place();
    let sections = atomseq::status().gates_active();
    let (mut ran, mut changed, mut against_handlers) = (0u64, 0u64, 0u64);
    let mut for_their_cpu = 0u64;
    let mut several_loads = 0u64;
    cases(&place, |index, program, arguments, memory, all| {
        let expected = &all.left;
        let forms = &FORMS[index];
        let abort = oracle::aborted(program, arguments);
        let arguments: Vec<usize> = arguments.iter().map(|word| *word as usize).collect();
        let text = || format!("{}\non {arguments:#x?}", program.text());

        let (value, after, loads) = run_model(forms.model, &arguments, memory, place.cpu);
        assert!(
            (value, after) == *expected,
            "the model differs:\n{}",
            text()
        );
        assert!(
            loads == all.loads,
            "the model loads in another order:\n{}\n{loads:x?}\n{:x?}",
            text(),
            all.loads
        );
        several_loads += u64::from(loads.len() > 1);

        if let Some(form) = forms.gated {
            write(memory);
            let held = place.area.close_gate(place.cpu);
            let gated = form(&held, &arguments);
            drop(held);
            assert!(
                (gated, read(memory)) == *expected,
                "`gated` differs:\n{}",
                text()
            );
        }

        for (name, form) in forms.signal {
            write(memory);
            let left = (form(&arguments), read(memory));
            assert!(
                left == *expected,
                "`{name}` differs:\n{}\n{left:x?}\n{expected:x?}",
                text()
            );
            against_handlers += 1;
        }

        let Some(on_cpu) = forms.on_cpu else { return };
        if !sections && !program.has_slot() {
            // Without a gate nothing keeps it from running where sections are off.
            return;
        }
        for_their_cpu += 1;
        // An attempt of a sequence with a `cas` may be ended by an interruption, with its claim
        // left in memory: then it is tried again. The result alone does not show that, because the
        // sequence may return the same at its end.
        let mut tries = (0..4).map(|_| {
            write(memory);
            let value = on_cpu(place.area.slots(), &arguments);
            value.map(|value| (value, read(memory)))
        });
        let aborted = |left: &Result<(Value, Memory), _>| match left {
            Ok(left) => Some(&left.0) == abort.as_ref() && left != expected,
            Err(_) => false,
        };
        let tried = tries.find(|left| !aborted(left));
        // `Closed`: sections are off, or the restart limit was reached, and prepared words may have
        // changed. The count below fails if that happens too often.
        if let Ok(left) = tried.expect("a thread is not interrupted four times in a row") {
            ran += 1;
            changed += u64::from(expected.1 != *memory);
            assert!(
                left == *expected,
                "`on_cpu` differs:\n{}\n{left:x?}\n{expected:x?}",
                text()
            );
        }
    });
    println!(
        "{ran} runs on the CPU, {changed} of them changed memory; {against_handlers} runs of forms \
         against signal handlers; {several_loads} runs of models load more than once"
    );
    assert!(several_loads > SEEDS.len() as u64 * ROUNDS / 4);
    assert!(against_handlers > SEEDS.len() as u64 * ROUNDS);
    if sections {
        let all = for_their_cpu;
        assert!(
            ran > all * 99 / 100,
            "only {ran} of {all} runs were on the CPU"
        );
        assert!(
            changed > all / 4,
            "only {changed} of {all} runs did anything"
        );
    } else {
        assert_eq!(ran, 0, "sections ran although they are off");
    }
}

/// The rows of this program are those of the random sequences and of the library. The decoder that
/// inspects rows must know every instruction that the emitter writes for them.
#[test]
#[cfg(atomseq_sections)]
fn every_row_of_this_program_passes_inspection() {
    use atomseq::internals::{inspect::inspect, table};

    table::refresh();
    assert_eq!(table::refused(), 0);
    let (mut rows, mut clones, mut instructions) = (0, 0, 0);
    for row in table::rows() {
        // SAFETY: a row of this program.
        instructions += unsafe { inspect(&row) }.unwrap_or_else(|refused| panic!("{refused}"));
        rows += 1;
        clones += usize::from(row.clone.is_some());
    }
    println!("{rows} rows, {clones} with a clone, {instructions} instructions");
    let protected = |form: &str| {
        // A sequence without an instruction has no row.
        let some = FORMS.iter().filter(|forms| !forms.model.steps.is_empty());
        let names = some.flat_map(|forms| forms.signal);
        names.filter(|(name, _)| *name == form).count()
    };
    assert!(clones >= protected("rolling") && rows - clones >= protected("restarting"));
    assert!(instructions > 5 * rows);
}

#[test]
fn the_random_sequences_use_the_whole_language() {
    // Five of 500 sequences, at least.
    let enough = SEEDS.len().div_ceil(100);
    let texts: Vec<String> = SEEDS
        .iter()
        .map(|seed| random::generate(*seed).text())
        .collect();
    for feature in [
        "load(",
        "load32(",
        "load_acquire(",
        "cpu()",
        "prepare(",
        "prepare32(",
        "prepare_copy(",
        "commit(",
        "commit32(",
        "commit_release(",
        "store(",
        "cas(",
        "'abort: {",
        "; return ",
        "store32(",
        " + ",
        " - ",
        " * ",
        " & ",
        " | ",
        " ^ ",
        " << ",
        " >> ",
        "min(",
        "max(",
        " == ",
        " != ",
        " < ",
        " <= ",
        " > ",
        " >= ",
        "return",
        "-> bool",
        "-> Word",
        "-> (Word, Word)",
        "-> Option<Word>",
        "-> Option<(Word, Word)>",
        "LARGEST",
        "FORTY",
        "MORE",
        "WIDE",
        "!WIDE",
        "0xffffffffffffffff",
        "if (cpu()) > (LARGEST) { return",
        " + BACK",
        "<< 0x3) + ",
        " - (0 - (",
        "!n",
        "!(",
        "!load",
    ] {
        let uses = texts.iter().filter(|text| text.contains(feature)).count();
        assert!(uses >= enough, "only {uses} sequences use `{feature}`");
    }
    let models = || FORMS.iter().map(|forms| forms.model);
    let offset = |step: &Step| match step {
        Step::Load { from, .. } => Some(from.offset as isize),
        Step::Prepare { to, .. } | Step::Commit { to, .. } | Step::Store { to, .. } => {
            Some(to.offset as isize)
        }
        _ => None,
    };
    let reach = |is: fn(isize) -> bool| {
        let steps = models().flat_map(|model| model.steps);
        steps
            .filter_map(offset)
            .filter(|offset| is(*offset))
            .count()
    };
    let stores = |step: &Step| {
        matches!(
            step,
            Step::Prepare { .. } | Step::Commit { .. } | Step::Store { .. } | Step::Copy { .. }
        )
    };
    let only_read = models().filter(|model| !model.steps.iter().any(stores));
    let no_instruction = models().filter(|model| model.steps.is_empty());
    let many_parameters = models().filter(|model| model.parameters.len() > 5);
    let returns_given = models().filter(|model| {
        let words = model.abort.iter().flat_map(|abort| abort.words);
        words
            .into_iter()
            .any(|word| matches!(word, Operand::Register(_)))
    });
    let binary = |model: &&model::Program, is: fn(Operand, Operand) -> bool| {
        let mut steps = model.steps.iter();
        steps.any(|step| matches!(*step, Step::Binary { a, b, .. } if is(a, b)))
    };
    let same = |a, b| matches!((a, b), (Operand::Register(a), Operand::Register(b)) if a == b);
    let twice = models().filter(|model| binary(model, same));
    let without_slot = FORMS
        .iter()
        .filter(|forms| forms.on_cpu.is_some() && forms.gated.is_none());
    for (what, uses) in [
        ("a negative offset", reach(|offset| offset < 0)),
        ("an offset over 4,096", reach(|offset| offset > 4096)),
        ("no store", only_read.count()),
        ("a CPU and no slot", without_slot.count()),
        ("no instruction", no_instruction.count()),
        ("more than five parameters", many_parameters.count()),
        ("an abort block with a parameter", returns_given.count()),
        ("a word on both sides", twice.count()),
    ] {
        assert!(uses >= enough, "only {uses} sequences have {what}");
    }
}

/// Returns whether an earlier attempt, interrupted after any number of stores, makes a difference
/// to this sequence; and how many such interruptions were tried.
fn restarts_differ(program: &Program, place: &Place, seed: u64, rounds: u64) -> (bool, u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut differs, mut restarts) = (false, 0);
    for _ in 0..rounds {
        let memory = inputs::memory(&mut random, program, place.slot, place.bulk);
        let arguments = inputs::arguments(&mut random, program, place.slot, place.bulk);
        let run = |mut memory: Memory| (oracle::run(program, &arguments, &mut memory, 0), memory);
        let expected = run(memory.clone());
        for stores in 1.. {
            let mut left = memory.clone();
            if !oracle::interrupt(program, &arguments, &mut left, 0, stores) {
                break;
            }
            restarts += 1;
            differs |= run(left) != expected;
        }
    }
    (differs, restarts)
}

/// Whatever an interrupted attempt has prepared, the next one does the same as on fresh memory.
/// Otherwise the compiler should have refused the sequence.
#[test]
fn what_is_accepted_may_be_restarted() {
    let place = place();
    let mut all = 0;
    for seed in SEEDS {
        let program = random::generate(*seed);
        if matches!(program.kind, Kind::OnCpu | Kind::Committing | Kind::Copying) {
            let (differs, restarts) = restarts_differ(&program, &place, *seed, ROUNDS);
            assert!(!differs, "interrupted before:\n{}", program.text());
            all += restarts;
        }
    }
    println!("{all} restarts");
    assert!(all > SEEDS.len() as u64 * ROUNDS / 4);
}

/// Sequences that break a rule about their copy are refused, by the compiler or by rustc, however
/// the length of the copy is written. The count of those that differ after a restart shows that the
/// rule is no mere precaution.
#[test]
fn what_breaks_a_rule_is_refused() {
    let place = place();
    let taken: Vec<u64> = LEFT_TO_RUSTC
        .iter()
        .filter_map(|(seed, keeps)| keeps().then_some(*seed))
        .collect();
    let text = |seed: &u64| random::break_a_rule(*seed).text();
    assert!(taken.is_empty(), "accepted:\n{}", text(&taken[0]));
    let all = REFUSED_AT_ONCE + LEFT_TO_RUSTC.len();
    let seeds = 0..all as u64;
    let differ = |seed: &u64| {
        let program = random::break_a_rule(*seed);
        restarts_differ(&program, &place, *seed, 20).0
    };
    let differing = seeds.filter(differ).count();
    println!(
        "{REFUSED_AT_ONCE} refused at once, {} by rustc; {differing} differ after a restart",
        LEFT_TO_RUSTC.len()
    );
    assert!(REFUSED_AT_ONCE > all / 10 && LEFT_TO_RUSTC.len() > all / 10);
    assert!(differing > all / 4, "only {differing} of {all}");
    let texts: Vec<String> = (0..all as u64).map(|seed| text(&seed)).collect();
    for length in [
        ", 4);",
        ", TWO);",
        ", TWO + 0x",
        ", EIGHT >> ",
        ", min(",
        " & TWO",
        " & 4",
    ] {
        let uses = texts.iter().filter(|text| text.contains(length)).count();
        assert!(uses >= 10, "only {uses} have a length like `{length}`");
    }
}

/// The negative control of the comparison: each step of each model is made wrong in turn.
#[test]
fn a_wrong_step_is_noticed() {
    let place = place();
    let mut noticed = vec![vec![]; SEEDS.len()];
    let wrong: Vec<Vec<&'static model::Program>> = FORMS
        .iter()
        .map(|forms| wrong_models(forms.model))
        .collect();
    for (steps, models) in noticed.iter_mut().zip(&wrong) {
        steps.resize(models.len(), false);
    }
    cases(&place, |index, _, arguments, memory, all| {
        let expected = &all.left;
        let arguments: Vec<usize> = arguments.iter().map(|word| *word as usize).collect();
        for (model, noticed) in wrong[index].iter().zip(&mut noticed[index]) {
            *noticed = *noticed || {
                let (value, after, _) = run_model(model, &arguments, memory, place.cpu);
                (value, after) != *expected
            };
        }
    });
    let all: Vec<bool> = noticed.into_iter().flatten().collect();
    let found = all.iter().filter(|noticed| **noticed).count();
    println!("{found} of {} wrong steps noticed", all.len());
    // A wrong step may make no difference: under a mask, or behind a return that is always taken.
    assert!(
        found * 100 > all.len() * 80,
        "only {found} of {} were noticed",
        all.len()
    );
}

/// Returns the model with one step wrong, for each step that may be wrong without reaching memory
/// outside of the sequence's.
fn wrong_models(model: &model::Program) -> Vec<&'static model::Program> {
    let wrong = |step: &Step| match *step {
        // The others bound indices and lengths, which lead out of memory when wrong.
        Step::Binary {
            to,
            operator: operator @ (Operator::Or | Operator::Xor | Operator::Maximum),
            a,
            b,
        } => {
            let operator = match operator {
                Operator::Or => Operator::Xor,
                Operator::Maximum => Operator::Minimum,
                _ => Operator::Or,
            };
            Some(Step::Binary { to, operator, a, b })
        }
        Step::Exit {
            comparison,
            a,
            b,
            exit,
        } => {
            let comparison = match comparison {
                model::Comparison::Equal => model::Comparison::NotEqual,
                model::Comparison::NotEqual => model::Comparison::Equal,
                model::Comparison::Less => model::Comparison::LessOrEqual,
                model::Comparison::LessOrEqual => model::Comparison::Less,
                model::Comparison::Greater => model::Comparison::Less,
                model::Comparison::GreaterOrEqual => model::Comparison::Greater,
            };
            Some(Step::Exit {
                comparison,
                a,
                b,
                exit,
            })
        }
        Step::Prepare { to, bytes, .. } => Some(Step::Prepare {
            to,
            bytes,
            value: Operand::Constant(0x55aa),
        }),
        Step::Commit { to, bytes, .. } => Some(Step::Commit {
            to,
            bytes,
            value: Operand::Constant(0x55aa),
        }),
        Step::Store { to, bytes, .. } => Some(Step::Store {
            to,
            bytes,
            value: Operand::Constant(0x55aa),
        }),
        Step::CompareExchange {
            to, at, expected, ..
        } => Some(Step::CompareExchange {
            to,
            at,
            expected,
            new: Operand::Constant(0x55aa),
        }),
        Step::Binary { .. } | Step::Load { .. } | Step::Cpu { .. } | Step::Copy { .. } => None,
    };
    let mut models = Vec::new();
    for (index, step) in model.steps.iter().enumerate() {
        if let Some(wrong) = wrong(step) {
            let mut steps = model.steps.to_vec();
            steps[index] = wrong;
            let changed = model::Program {
                steps: steps.leak(),
                ..*model
            };
            models.push(&*Box::leak(Box::new(changed)));
        }
    }
    models
}
