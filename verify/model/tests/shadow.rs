//! OS-assisted stacks in arrays: the protocol holds, and fails without any one of its protections.

use std::collections::BTreeSet;

use atomseq::sequence::model::Step;
use verify_model::dcas::changed;
use verify_model::shadow::{Rules, Setting, Task, check};

const PUT: Task = Task::Put(11);

fn setting(
    name: &'static str,
    words: &[usize],
    threads: &[&[Task]],
    interruptions: usize,
) -> Setting {
    Setting {
        name,
        words: words.to_vec(),
        threads: threads.iter().map(|tasks| tasks.to_vec()).collect(),
        interruptions,
    }
}

fn settings() -> Vec<Setting> {
    let other = Task::Put(22);
    vec![
        setting(
            "two put, and take",
            &[],
            &[&[PUT, Task::Take], &[other, Task::Take]],
            1,
        ),
        setting(
            "full",
            &[1, 2],
            &[&[PUT, Task::Take], &[Task::Take, other]],
            1,
        ),
        setting("empty", &[], &[&[Task::Take, PUT], &[Task::Take]], 1),
        setting("two take", &[1, 2], &[&[Task::Take], &[Task::Take]], 2),
        setting(
            "length",
            &[1],
            &[&[PUT, Task::Take], &[Task::Length, Task::Length]],
            1,
        ),
        setting(
            "one locks",
            &[1],
            &[&[PUT, Task::Take], &[Task::TakeLocked, Task::PutLocked(22)]],
            1,
        ),
        setting(
            "two lock",
            &[1],
            &[&[Task::PutLocked(11)], &[Task::TakeLocked], &[Task::Length]],
            0,
        ),
        setting("three", &[1], &[&[PUT], &[Task::Take], &[other]], 0),
    ]
}

#[test]
fn the_protocol_holds() {
    let mut ways_out = BTreeSet::new();
    for setting in settings() {
        let explored = check(&setting, &Rules::library()).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!(
            "{}: {} states, {} aborts, {} changes, {} read",
            setting.name, explored.states, explored.aborts, explored.done, explored.read
        );
        assert!(explored.states > 100 && explored.done > 10);
        for (name, taken) in explored.ways_out {
            ways_out.extend(taken.into_iter().map(|way| (name, way)));
        }
    }
    let rules = Rules::library();
    let anyway = [rules.put_anyway, rules.take_anyway];
    for program in [rules.put, rules.take, rules.free_here]
        .into_iter()
        .chain(anyway)
    {
        for way in (0..program.exits.len()).map(Some).chain([None]) {
            let name = program.name;
            assert!(
                ways_out.contains(&(name, way)),
                "{name} never left by {way:?}"
            );
        }
    }
}

/// Asserts that with the changed rules, one of the settings has a violation.
fn is_found_out(what: &str, change: impl FnOnce(&mut Rules)) {
    let mut rules = Rules::library();
    change(&mut rules);
    let found = settings()
        .into_iter()
        .find_map(|setting| check(&setting, &rules).err());
    let Some(found) = found else {
        panic!("{what}: not detected");
    };
    println!("{what}: {}", found.lines().next().unwrap_or_default());
}

/// A stopped claimant, a thread that takes its claim over, and later holders.
#[test]
fn stale_claims_do_no_harm() {
    let threads: &[&[Task]] = &[&[PUT], &[Task::Length], &[Task::Length, Task::Take]];
    let setting = setting("stale claims", &[1], threads, 0);
    let explored = check(&setting, &Rules::library()).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("stale claims: {} states", explored.states);
    assert!(explored.states > 100_000 && explored.aborts > 10_000);
}

#[test]
fn without_the_fence_it_does_not_hold() {
    is_found_out("no fence", |rules| rules.fence = false);
}

#[test]
fn with_no_fence_for_claims_it_does_not_hold() {
    is_found_out("no fence for claims", |rules| {
        rules.fence_for_claims = false
    });
}

#[test]
fn with_claims_that_look_alike_it_does_not_hold() {
    is_found_out("claims alike", |rules| rules.claim_by_call = false);
}

#[test]
fn giving_back_what_is_anothers_is_found_out() {
    is_found_out("freed blindly", |rules| rules.free_own = false);
}

#[test]
fn readers_that_do_not_look_again_are_found_out() {
    is_found_out("no second look", |rules| rules.validate = false);
}

/// Stores reordered by the compiler or the processor.
#[test]
fn a_state_after_the_lock_is_found_out() {
    let late = |program| {
        changed(program, |steps| {
            let last = steps.len() - 1;
            let store = steps
                .iter()
                .rposition(|step| matches!(step, Step::Store { .. }));
            let store = steps.remove(store.expect("a state is stored"));
            steps.insert(last, store);
        })
    };
    is_found_out("a state after the lock", |rules| {
        rules.put = late(Rules::library().put);
        rules.take = late(Rules::library().take);
        rules.put_anyway = late(Rules::library().put_anyway);
        rules.take_anyway = late(Rules::library().take_anyway);
    });
}

/// A put that stores its word first, before it owns the cell.
#[test]
fn a_word_before_the_lock_is_found_out() {
    let early = |program| {
        changed(program, |steps| {
            let store = steps
                .iter()
                .position(|step| matches!(step, Step::Store { .. }));
            let claim = steps
                .iter()
                .position(|step| matches!(step, Step::CompareExchange { .. }));
            let (store, claim) = (store.expect("a word is stored"), claim.expect("a cas"));
            // Including the computation of its address.
            let moved: Vec<Step> = steps.drain(claim + 2..=store).collect();
            steps.splice(claim..claim, moved);
        })
    };
    is_found_out("a word before the lock", |rules| {
        rules.put = early(Rules::library().put);
        rules.put_anyway = early(Rules::library().put_anyway);
    });
}

/// Releases the lock of a holder on another CPU, which runs, without a fence.
#[test]
fn freeing_from_another_cpu_is_found_out() {
    is_found_out("freed from anywhere", |rules| {
        rules.free_here = changed(Rules::library().free_here, |steps| {
            let exit = steps
                .iter()
                .position(|step| matches!(step, Step::Exit { .. }));
            steps.remove(exit.expect("it asks for the CPU"));
        })
    });
}

/// Releases the lock although another thread holds it by now.
#[test]
fn freeing_without_a_look_is_found_out() {
    is_found_out("freed without a look", |rules| {
        rules.free_here = changed(Rules::library().free_here, |steps| {
            let exit = steps
                .iter()
                .rposition(|step| matches!(step, Step::Exit { .. }));
            steps.remove(exit.expect("it looks"));
        })
    });
}
