//! Ways to reach an instruction repeatably: the same call of the same script, with the same
//! interruptions.
//!
//! ```text
//! plain      nothing else happens
//! stepped    one instruction at a time: every section is aborted at its start, and the ways around sections begin
//! aborted    a section is aborted at one of its instructions, which leaves things half done; then a second one
//! both       aborted there, and then one instruction at a time
//! ```

use std::collections::{BTreeMap, BTreeSet};

use verify_support::code::table::{self, Program, Window};
use verify_support::code::trace::{self, Way};
use verify_support::code::trap::{self, Kind, Stop};

use super::breakpoint::{may_stop_at, program};

/// An instruction, and how to reach it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The instruction.
    pub address: usize,
    /// The script that reaches it.
    pub script: u64,
    /// The call of the script that reaches it.
    pub call: usize,
    /// The interruptions of that call.
    pub way: Way,
}

impl Place {
    /// Makes the call. When it reaches the place, a signal handler calls `met`.
    pub fn meet(&self, met: fn(), call: impl FnOnce()) {
        let limit = Limit::of(self.way);
        trace::meet(self.way, self.address, met, call);
        drop(limit);
    }

    /// Returns the same place without interruptions.
    pub fn plainly(self) -> Place {
        let way = plain(self.way.entry);
        Place { way, ..self }
    }

    /// Describes the place, for messages.
    pub fn describe(&self) -> String {
        let place = |address| program().place(address);
        let Way {
            interrupted,
            stepped,
            ..
        } = self.way;
        let interrupted: String = interrupted
            .into_iter()
            .flatten()
            .map(|at| format!(", aborted at {}", place(at)))
            .collect();
        let stepped = if stepped { ", stepped" } else { "" };
        format!("{}{interrupted}{stepped}", place(self.address))
    }

    /// Prepares this process for the next call after one whose thread has exited in it.
    pub fn forget() {
        trace::forget();
        atomseq::set_restart_limit(atomseq::sequence::DEFAULT_RESTART_LIMIT);
    }
}

/// Single steps abort every section: a low limit makes the path without sections start soon.
struct Limit;

impl Limit {
    fn of(way: Way) -> Limit {
        if way.stepped {
            atomseq::set_restart_limit(1);
        }
        Limit
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        atomseq::set_restart_limit(atomseq::sequence::DEFAULT_RESTART_LIMIT);
    }
}

fn plain(entry: usize) -> Way {
    Way {
        entry,
        interrupted: [None; 2],
        stepped: false,
    }
}

/// A function that makes a script's calls: it calls its argument where that call is due, with the
/// call.
pub type Script<'a> = &'a mut dyn FnMut(u64, usize, &mut dyn FnMut(&mut dyn FnMut()));

/// How many ways to a place are kept: a section that a call begins may take different paths.
const ALTERNATIVES: usize = 6;

/// Places, and the ways to each.
pub struct Places {
    windows: Vec<Window>,
    aborted: BTreeSet<usize>,
    found: BTreeMap<usize, Vec<Place>>,
}

impl Places {
    /// Makes an empty set.
    pub fn none() -> Places {
        Places {
            windows: program().windows(table::SECTION),
            aborted: BTreeSet::new(),
            found: BTreeMap::new(),
        }
    }

    /// Adds the places that one call of a script reaches, in the function at `entry` and in
    /// atomseq. Each section that it enters is aborted, once, at one in `sparse` of its
    /// instructions.
    pub fn add(&mut self, entry: usize, number: u64, call: usize, sparse: usize, script: Script) {
        let way = plain(entry);
        let place = Place {
            address: 0,
            script: number,
            call,
            way,
        };
        self.add_behind(place, sparse, script);
    }

    /// Adds the places after the sections that the way has interrupted, or from the beginning.
    fn add_behind(&mut self, place: Place, sparse: usize, script: Script) {
        let sections = self.sections(place, script);
        for section in &sections {
            self.add_all(place, &self.windows[*section].boundaries.clone());
        }
        self.step(place, script);
        let Some(next) = place.way.interrupted.iter().position(Option::is_none) else {
            return;
        };
        for section in sections {
            let window = &self.windows[section];
            if !self.aborted.insert(window.start) {
                continue;
            }
            let inside = window.boundaries[1..].to_vec();
            for address in inside.into_iter().rev().skip(1).step_by(sparse) {
                let mut place = place;
                place.way.interrupted[next] = Some(address);
                self.add_behind(place, sparse, script);
            }
        }
    }

    /// Returns the sections that a call enters, apart from those that the way interrupts.
    fn sections(&self, place: Place, script: Script) -> Vec<usize> {
        let aborted = place.way.interrupted.into_iter().flatten();
        let window_of = |address| {
            let holds = |window: &Window| (window.start..window.end).contains(&address);
            let found = self.windows.iter().position(holds);
            found.expect("an instruction of a section")
        };
        let aborted: Vec<(usize, usize)> = aborted
            .map(|address| (window_of(address), address))
            .collect();
        let mut met = |sections: &[usize]| -> Vec<usize> {
            let starts = sections
                .iter()
                .map(|index| self.windows[*index].at_start(Kind::Pass));
            let aborted = aborted.iter().map(|(index, address)| {
                Stop::in_window(*address, self.windows[*index].abort, Kind::Pass)
            });
            let stops: Vec<Stop> = starts.chain(aborted).collect();
            script(place.script, place.call, &mut |call| {
                trap::run(&stops, &mut |_| (), call)
            });
            let met = (0..sections.len()).filter(|index| stops[*index].met().is_some());
            met.map(|index| sections[index]).collect()
        };
        let is_aborted = |index| aborted.iter().any(|(section, _)| *section == index);
        let others: Vec<usize> = (0..self.windows.len())
            .filter(|index| !is_aborted(*index))
            .collect();
        // Some are met only because other sections were interrupted by the stop itself.
        let mut some = met(&others);
        some.retain(|index| !met(&[*index]).is_empty());
        some
    }

    /// Adds the places that are reached when single-stepping.
    fn step(&mut self, mut place: Place, script: Script) {
        place.way.stepped = true;
        let mut phases = Vec::new();
        script(place.script, place.call, &mut |call| {
            let limit = Limit::of(place.way);
            phases = trace::trace_on(program().text(), place.way, call);
            drop(limit);
        });
        for phase in phases {
            self.add_all(place, &phase.addresses);
        }
    }

    fn add_all(&mut self, place: Place, addresses: &[usize]) {
        let program: &Program = program();
        for address in addresses {
            let ways = self.found.entry(*address).or_default();
            let is_new = |way: &Place| (way.script, way.call) != (place.script, place.call);
            if ways.len() < ALTERNATIVES
                && ways.iter().all(is_new)
                && may_stop_at(program, place.way.entry, *address)
            {
                let address = *address;
                ways.push(Place { address, ..place });
            }
        }
    }

    /// Returns the ways to each place.
    pub fn found(self) -> Vec<Vec<Place>> {
        let ways = self.found.into_values();
        ways.filter(|ways| !ways.is_empty()).collect()
    }
}
