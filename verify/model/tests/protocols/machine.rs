//! A machine with CPUs that run sections and a kernel that aborts them.
//!
//! Each step of a section runs only if the section has not been aborted since it was armed; an
//! aborted section detects that at its next step, as a thread does when the kernel resumes it. A
//! section is aborted by another one on its CPU (its thread was preempted or has moved) and by the
//! fence. The steps of one CPU and the fence are serialized, so a fence happens either before a
//! step or after it. Steps on a CPU and a closer of its gate are ordered only by the gate and the
//! fence.

use crate::lock::{lock, unlock};
use crate::sync::{AtomicU32, Current, Ordering, Plain};

/// The section was aborted: its steps so far have no effect.
#[derive(Debug)]
pub struct Aborted;

/// One CPU.
pub struct Cpu {
    current: Current,
}

impl Cpu {
    pub fn new() -> Cpu {
        Cpu {
            current: Current::new(),
        }
    }

    /// Begins an attempt: the one that ran here before is aborted.
    pub fn arm(&self) -> u32 {
        self.current.next()
    }

    /// Performs one instruction of an attempt.
    pub fn step<R>(&self, attempt: u32, step: impl FnOnce() -> R) -> Result<R, Aborted> {
        self.current.if_still(attempt, step).ok_or(Aborted)
    }

    /// The kernel's fence.
    pub fn fence(&self) {
        self.current.next();
    }

    /// The kernel's other fence, which orders and aborts nothing.
    pub fn barrier(&self) {
        self.current.barrier();
    }
}

/// The protections in force. The library has all of them.
#[derive(Clone, Copy)]
pub struct Rules {
    pub test: Test,
    pub acquire: Ordering,
    pub fence: Fence,
    pub lock: fn(&AtomicU32) -> u32,
    pub unlock: fn(&AtomicU32),
    /// The initial word of the gate.
    pub gate: u32,
}

/// Where a section tests the gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Inside,
    BeforeArming,
    Never,
}

/// When a closer calls the fence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    AfterLocking,
    BeforeLocking,
    /// A barrier without aborts, like other commands of `membarrier`.
    AbortsNothing,
    Never,
}

impl Rules {
    /// As the library does.
    pub const ALL: Rules = Rules {
        test: Test::Inside,
        acquire: Ordering::Acquire,
        fence: Fence::AfterLocking,
        lock,
        unlock,
        gate: 0,
    };
}

/// The initial number of elements in a slot.
pub const ELEMENTS: usize = 3;

/// A CPU's slot: a gate, and a stack of the numbers from 1 to its top.
pub struct Slot {
    gate: AtomicU32,
    top: Plain,
    rules: Rules,
}

impl Slot {
    pub fn new(rules: Rules) -> Slot {
        Slot {
            gate: AtomicU32::new(rules.gate),
            top: Plain::new(ELEMENTS),
            rules,
        }
    }

    /// Takes an element as the library does: a few attempts, then the slow path.
    pub fn pop(&self, cpu: &Cpu, attempts: usize) -> Option<usize> {
        for _ in 0..attempts {
            match self.attempt(cpu) {
                Ok(Some(popped)) => return popped,
                Ok(None) => break,
                Err(Aborted) => {}
            }
        }
        self.close(cpu, |top| {
            let popped = top.get();
            top.pause();
            top.set(popped.saturating_sub(1));
            (popped > 0).then_some(popped)
        })
    }

    /// Makes one attempt; returns `None` if the gate is closed.
    fn attempt(&self, cpu: &Cpu) -> Result<Option<Option<usize>>, Aborted> {
        let is_open = || self.gate.load(self.rules.acquire) == 0;
        if self.rules.test == Test::BeforeArming && !is_open() {
            return Ok(None);
        }
        let attempt = cpu.arm();
        if self.rules.test == Test::Inside && !cpu.step(attempt, is_open)? {
            return Ok(None);
        }
        let top = cpu.step(attempt, || self.top.get())?;
        if top == 0 {
            return Ok(Some(None));
        }
        cpu.step(attempt, || self.top.set(top - 1))?;
        Ok(Some(Some(top)))
    }

    /// Closes the gate, runs `work`, opens the gate.
    pub fn close<R>(&self, cpu: &Cpu, work: impl FnOnce(&Plain) -> R) -> R {
        if self.rules.fence == Fence::BeforeLocking {
            cpu.fence();
        }
        (self.rules.lock)(&self.gate);
        match self.rules.fence {
            Fence::AfterLocking => cpu.fence(),
            Fence::AbortsNothing => cpu.barrier(),
            Fence::BeforeLocking | Fence::Never => {}
        }
        let result = work(&self.top);
        (self.rules.unlock)(&self.gate);
        result
    }

    /// Takes all elements out.
    pub fn drain(&self, cpu: &Cpu) -> Vec<usize> {
        self.close(cpu, |top| {
            let all = top.get();
            top.pause();
            top.set(0);
            (1..=all).collect()
        })
    }
}

/// Fails the model, where the library ends the process.
pub fn abort(sentence: &str) -> ! {
    panic!("{sentence}")
}
