//! The protocol by which `nonblocking::HashMap` splits and merges a bucket (`hash_map/resize.rs`),
//! as a model: a parent, a child, and one key that belongs to the child's half. All interleavings
//! of threads that split, merge, take over each other's work, and write the key are explored; each
//! thread may also stop for good after any step.
//!
//! Two things must hold in every state. The bucket that the parent's depth names has the value that
//! was written last. And a child that is LIVE is the bucket that the depth names. The steps are
//! those of sequential consistency; the orderings are argued in the source.

use std::collections::HashSet;

type Value = u8;

/// The phases of a child, as in `hash_map/bucket.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Dead,
    Claimed,
    Nascent,
    Live,
    Frozen,
    Thawing,
}
use Phase::{Claimed, Dead, Frozen, Live, Nascent, Thawing};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Parent {
    version: u8,
    is_split: bool,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Child {
    version: u8,
    phase: Phase,
    value: Value,
}

/// A thread: what it does next, and what it has seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Thread {
    task: Task,
    step: u8,
    parent: Parent,
    child: Child,
    /// How many attempts it has left.
    left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Task {
    /// Splits the parent, and takes over the splits of others.
    Split,
    Merge,
    /// Writes the key, with this value at first.
    Write(Value),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    parent: Parent,
    child: Child,
    written: Value,
    threads: Vec<Thread>,
}

/// The protections, each of which may be left out.
#[derive(Clone, Copy)]
struct Protections {
    splits_check_the_version: bool,
    claims_change_the_version: bool,
    merges_look_again: bool,
    thaws_announce_themselves: bool,
    thaws_change_the_version: bool,
}

const ALL: Protections = Protections {
    splits_check_the_version: true,
    claims_change_the_version: true,
    merges_look_again: true,
    thaws_announce_themselves: true,
    thaws_change_the_version: true,
};

impl State {
    fn of(tasks: &[(Task, u8)], is_split: bool) -> State {
        let (parent, child) = match is_split {
            true => (0, Live),
            false => (1, Dead),
        };
        let parent = Parent {
            version: 1,
            is_split,
            value: parent,
        };
        let child = Child {
            version: 1,
            phase: child,
            value: u8::from(is_split),
        };
        let thread = |&(task, left): &(Task, u8)| Thread {
            task,
            step: 0,
            parent,
            child,
            left,
        };
        State {
            parent,
            child,
            written: 1,
            threads: tasks.iter().map(thread).collect(),
        }
    }

    fn is_right(&self) -> bool {
        let named = match self.parent.is_split {
            true => self.child.value,
            false => self.parent.value,
        };
        named == self.written && (self.child.phase != Live || self.parent.is_split)
    }

    /// Changes the child to this phase and value, if it is as the thread has seen it. The thread
    /// sees the new one.
    fn swap_child(&mut self, index: usize, phase: Phase, value: Value) -> bool {
        let is_same = self.child == self.threads[index].child;
        if is_same {
            let version = self.child.version + 1;
            self.child = Child {
                version,
                phase,
                value,
            };
            self.threads[index].child = self.child;
        }
        is_same
    }

    fn swap_parent(&mut self, index: usize, is_split: bool, value: Value) -> bool {
        let is_same = self.parent == self.threads[index].parent;
        if is_same {
            let version = self.parent.version + 1;
            self.parent = Parent {
                version,
                is_split,
                value,
            };
            self.threads[index].parent = self.parent;
        }
        is_same
    }

    /// Ends an attempt.
    fn retry(&mut self, index: usize) {
        self.threads[index].step = 0;
        self.threads[index].left -= 1;
    }

    /// Does the thread's next step, if it has one. Each step loads or swaps one word.
    fn step(&self, index: usize, with: Protections) -> Option<State> {
        let mut state = self.clone();
        let thread = self.threads[index];
        if thread.left == 0 {
            return None;
        }
        state.threads[index].step += 1;
        match thread.task {
            Task::Split => state.split(index, thread, with),
            Task::Merge => state.merge(index, thread, with),
            Task::Write(value) => state.write(index, thread, value, with),
        }
        Some(state)
    }

    fn split(&mut self, index: usize, thread: Thread, with: Protections) {
        match thread.step {
            0 => self.threads[index].child = self.child,
            1 => self.threads[index].parent = self.parent,
            2 => match thread.child.phase {
                Live => self.retry(index),
                _ if thread.parent.is_split => self.retry(index),
                phase => {
                    // The thread that made it NASCENT cannot commit after this.
                    let changes = phase == Nascent && with.claims_change_the_version;
                    if changes && !self.swap_parent(index, false, thread.parent.value) {
                        self.retry(index);
                    }
                }
            },
            3 => {
                if !self.swap_child(index, Claimed, 0) {
                    self.retry(index);
                }
            }
            4 => self.threads[index].parent = self.parent,
            5 => {
                let moved = thread.parent.value;
                if thread.parent.is_split || !self.swap_child(index, Nascent, moved) {
                    self.retry(index);
                }
            }
            6 => {
                if !with.splits_check_the_version {
                    self.threads[index].parent = self.parent;
                }
                if !self.swap_parent(index, true, 0) {
                    self.retry(index);
                }
            }
            _ => {
                self.swap_child(index, Live, thread.child.value);
                self.retry(index);
            }
        }
    }

    fn merge(&mut self, index: usize, thread: Thread, with: Protections) {
        match thread.step {
            0 => self.threads[index].child = self.child,
            1 => {
                let value = thread.child.value;
                if thread.child.phase != Live || !self.swap_child(index, Frozen, value) {
                    self.retry(index);
                }
            }
            2 => self.threads[index].parent = self.parent,
            3 => {
                let is_frozen = self.child == thread.child;
                if with.merges_look_again && !is_frozen || !thread.parent.is_split {
                    self.retry(index);
                }
            }
            4 => {
                if !self.swap_parent(index, false, thread.child.value) {
                    self.retry(index);
                }
            }
            _ => {
                self.swap_child(index, Dead, 0);
                self.retry(index);
            }
        }
    }

    /// Looks at the child first, as a thread does that the hint leads there.
    fn write(&mut self, index: usize, thread: Thread, value: Value, with: Protections) {
        match thread.step {
            0 => self.threads[index].child = self.child,
            1 => {
                if thread.child.phase == Live {
                    if self.swap_child(index, Live, value) {
                        self.wrote(index, value);
                    } else {
                        self.threads[index].step = 0;
                    }
                } else {
                    self.threads[index].parent = self.parent;
                }
            }
            2 if !thread.parent.is_split => {
                if self.swap_parent(index, false, value) {
                    self.wrote(index, value);
                } else {
                    self.threads[index].step = 0;
                }
            }
            // The parent is split, so the child is a bucket, or was not when it was looked at.
            2 => {
                let value = thread.child.value;
                match thread.child.phase {
                    Nascent => {
                        self.swap_child(index, Live, value);
                        self.threads[index].step = 0;
                    }
                    Frozen if with.thaws_announce_themselves => {
                        self.swap_child(index, Thawing, value);
                        self.threads[index].step = 0;
                    }
                    Frozen | Thawing if with.thaws_change_the_version => {
                        if !self.swap_parent(index, true, thread.parent.value) {
                            self.threads[index].step = 0;
                        }
                    }
                    Frozen | Thawing => {}
                    _ => self.threads[index].step = 0,
                }
            }
            _ => {
                self.swap_child(index, Live, thread.child.value);
                self.threads[index].step = 0;
            }
        }
    }

    fn wrote(&mut self, index: usize, value: Value) {
        self.written = value;
        self.threads[index].task = Task::Write(value + 1);
        self.retry(index);
    }
}

/// Explores all states. Returns their number, or the first wrong one.
fn explore(tasks: &[(Task, u8)], is_split: bool, with: Protections) -> Result<usize, State> {
    let first = State::of(tasks, is_split);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        if !state.is_right() {
            return Err(state);
        }
        for index in 0..state.threads.len() {
            if let Some(next) = state.step(index, with) {
                // A version bounds the attempts that writers repeat.
                let is_near = next.child.version < 16 && next.parent.version < 16;
                if is_near && seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    Ok(seen.len())
}

const WRITERS: [(Task, u8); 2] = [(Task::Write(10), 2), (Task::Write(20), 2)];

fn all_threads() -> Vec<(Vec<(Task, u8)>, bool)> {
    let with = |tasks: &[(Task, u8)], writers: usize| [tasks, &WRITERS[..writers]].concat();
    vec![
        (with(&[(Task::Split, 2), (Task::Split, 2)], 1), false),
        (with(&[(Task::Merge, 2), (Task::Merge, 1)], 1), true),
        (with(&[(Task::Merge, 2)], 2), true),
        (with(&[(Task::Split, 1), (Task::Merge, 1)], 2), false),
    ]
}

#[test]
fn a_key_is_where_the_depth_says() {
    for (tasks, is_split) in all_threads() {
        let states = explore(&tasks, is_split, ALL);
        let states = states.unwrap_or_else(|wrong| panic!("{tasks:?}: {wrong:#?}"));
        println!("{tasks:?}: {states} states");
        assert!(states > 1_000, "{tasks:?}: only {states} states");
    }
}

#[test]
fn each_protection_is_needed() {
    let without: [fn(&mut Protections); 5] = [
        |with| with.splits_check_the_version = false,
        |with| with.claims_change_the_version = false,
        |with| with.merges_look_again = false,
        |with| with.thaws_announce_themselves = false,
        |with| with.thaws_change_the_version = false,
    ];
    for (number, leave_out) in without.into_iter().enumerate() {
        let mut with = ALL;
        leave_out(&mut with);
        let mut all = all_threads().into_iter();
        let is_found = all.any(|(tasks, is_split)| explore(&tasks, is_split, with).is_err());
        assert!(is_found, "protection {number} is not needed");
    }
}
