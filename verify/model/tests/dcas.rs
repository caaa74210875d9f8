//! OS-assisted DCAS: the protocol holds, and fails without any one of its protections.

use std::collections::BTreeSet;

use atomseq::sequence::model::{Program, Step};
use verify_model::dcas::{Rules, Setting, Task, changed, check, program};

const UP: Task = Task::Exchange([0, 0], [1, 1]);
const OTHER: Task = Task::Exchange([0, 0], [2, 2]);
const AFTER: Task = Task::Exchange([1, 1], [3, 3]);
const HALF: Task = Task::Exchange([0, 7], [9, 9]);

fn setting(name: &'static str, tasks: &[Task], versions: usize, interruptions: usize) -> Setting {
    Setting {
        name,
        tasks: tasks.to_vec(),
        cpus: 2,
        versions,
        interruptions,
    }
}

fn settings() -> Vec<Setting> {
    vec![
        setting("one after the other", &[UP, AFTER], 3, 1),
        setting("two exchanges", &[UP, OTHER], 3, 1),
        setting("an exchange and a reader", &[UP, Task::Read], 3, 1),
        setting("since a version", &[Task::Since(1, [5, 6]), UP], 3, 1),
        setting("the second word differs", &[HALF, UP], 3, 1),
        setting("two exchanges and a reader", &[UP, AFTER, Task::Read], 1, 0),
        setting("three exchanges", &[UP, OTHER, AFTER], 1, 0),
    ]
}

#[test]
fn the_protocol_holds() {
    let mut ways_out = BTreeSet::new();
    for setting in settings() {
        let explored = check(&setting, &Rules::all()).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!(
            "dcas: {}: {} states, {} aborts, {} exchanges, {} rolled back",
            setting.name, explored.states, explored.aborts, explored.done, explored.rolled_back
        );
        assert!(explored.states > 500 && explored.aborts > 100 && explored.done > 10);
        assert!(explored.rolled_back > 0);
        for (name, taken) in explored.ways_out {
            ways_out.extend(taken.into_iter().map(|way| (name, way)));
        }
    }
    // The rollback section of an unregistered thread ends by its first exit, and changes nothing.
    let mut missed = Vec::new();
    for name in [
        "exchange",
        "store_pair_if",
        "roll_back",
        "roll_back_here",
        "free_here",
    ] {
        let exits = (0..program(name).exits.len()).map(Some).chain([None]);
        missed.extend(
            exits
                .filter(|way| {
                    !ways_out.contains(&(name, *way)) && (name, *way) != ("roll_back", Some(0))
                })
                .map(|way| (name, way)),
        );
    }
    assert!(missed.is_empty(), "ways out that nothing took: {missed:?}");
}

/// Asserts that with the changed rules, one of the settings has a violation.
fn is_found_out(what: &str, change: impl FnOnce(&mut Rules)) {
    let mut rules = Rules::all();
    change(&mut rules);
    let found = settings()
        .iter()
        .find_map(|setting| check(setting, &rules).err());
    let Some(found) = found else {
        panic!("{what}: not detected");
    };
    println!("{what}: {}", found.lines().next().unwrap_or_default());
}

#[test]
fn without_the_fence_it_does_not_hold() {
    is_found_out("no fence", |rules| rules.fence = false);
}

#[test]
fn without_undoing_it_does_not_hold() {
    is_found_out("no roll_back", |rules| rules.roll_back = false);
}

#[test]
fn with_claims_by_cpu_it_does_not_hold() {
    is_found_out("claims by CPU", |rules| rules.claim_by_call = false);
}

#[test]
fn readers_that_do_not_look_again_are_found_out() {
    is_found_out("no second look", |rules| rules.validate = false);
}

fn stores(steps: &[Step]) -> Vec<usize> {
    let is = |index: &usize| matches!(steps[*index], Step::Store { .. });
    (0..steps.len()).filter(is).collect()
}

/// The log is valid before the first word changes, and not before it is complete.
#[test]
fn a_log_in_another_order_is_found_out() {
    let late = changed(Rules::all().exchange, |steps| {
        let stores = stores(steps);
        steps.swap(stores[4], stores[5]);
    });
    is_found_out("a word before its log", |rules| rules.exchange = late);
    let early = changed(Rules::all().exchange, |steps| {
        let stores = stores(steps);
        steps.swap(stores[1], stores[4]);
    });
    is_found_out("a log that is valid too early", |rules| {
        rules.exchange = early
    });
}

#[test]
fn undoing_without_a_look_at_the_lock_is_found_out() {
    let blind = changed(Rules::all().rollback, |steps| {
        let last = steps
            .iter()
            .rposition(|step| matches!(step, Step::Exit { .. }))
            .expect("it looks");
        steps.remove(last);
    });
    is_found_out("rolled back blindly", |rules| rules.rollback = blind);
}

/// Rolls back immediately what a holder on another CPU has done, although the holder may continue;
/// and releases its lock.
#[test]
fn recovery_from_another_cpu_is_found_out() {
    let rules = Rules::all();
    let asks = |program: &'static Program| {
        let exit = program
            .steps
            .iter()
            .position(|step| matches!(step, Step::Exit { .. }));
        exit.expect("it asks for the CPU")
    };
    let anywhere = |program| changed(program, |steps| _ = steps.remove(asks(program)));
    is_found_out("rolled back from anywhere", |rules| {
        rules.roll_back_here = anywhere(rules.roll_back_here)
    });
    // From another CPU, it reports that there is nothing to roll back.
    let nothing = changed(rules.roll_back_here, |steps| {
        let Step::Exit { exit, .. } = &mut steps[asks(rules.roll_back_here)] else {
            unreachable!("found as one");
        };
        *exit = 2;
    });
    is_found_out("freed from anywhere", |rules| {
        rules.roll_back_here = nothing;
        rules.free_here = anywhere(rules.free_here);
    });
}

/// Rolls back or releases on its own CPU although another thread holds the lock by now, or rolls
/// back the log of an older exchange.
#[test]
fn recovery_without_a_look_is_found_out() {
    let without = |program: &'static Program, which: usize| {
        changed(program, |steps| {
            let is_exit = |index: &usize| matches!(steps[*index], Step::Exit { .. });
            let exits: Vec<usize> = (0..steps.len()).filter(is_exit).collect();
            steps.remove(exits[which]);
        })
    };
    for (what, which) in [("rolled back blindly", 1), ("an old log", 2)] {
        is_found_out(what, |rules| {
            rules.roll_back_here = without(rules.roll_back_here, which)
        });
    }
    is_found_out("freed blindly", |rules| {
        rules.free_here = without(rules.free_here, 1)
    });
}

/// An exchange that compares only one word.
#[test]
fn a_comparison_left_out_is_found_out() {
    for which in [0, 1] {
        let careless = changed(Rules::all().exchange, |steps| {
            let exits: Vec<usize> = (0..steps.len())
                .filter(|index| matches!(steps[*index], Step::Exit { exit, .. } if program("exchange").by_commit.contains(&exit)))
                .collect();
            steps.remove(exits[which]);
        });
        let rules = Rules {
            exchange: careless,
            ..Rules::all()
        };
        let halves = [[7, 0], [0, 7]][which];
        let task = Task::Exchange(halves, [9, 9]);
        let found = check(&setting("a half", &[task, UP], 3, 0), &rules);
        assert!(found.is_err(), "comparison {which} left out: not detected");
    }
}
