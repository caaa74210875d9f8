//! A machine with CPUs that run sections and a kernel that aborts them.
//!
//! Each step of a section runs only if the section has not been aborted since it was armed; an
//! aborted one learns of it at its next step, as a thread does when the kernel lets it go on. A section is
//! aborted by another one on its CPU (its thread was preempted or has moved) and by the fence. The steps of
//! one CPU and the fence follow each other, so a fence has happened either before a step or after it; steps
//! on a CPU and a closer of its gate are ordered by nothing but the gate and the fence.

use loom::cell::UnsafeCell;
use loom::sync::Mutex;

use crate::lock::{lock, unlock};
use crate::sync::{AtomicU32, Ordering};

/// The section was aborted: what it has done so far does not count.
#[derive(Debug)]
pub struct Aborted;

/// One CPU.
pub struct Cpu {
    /// The attempt that runs here, by number; others that began here have been aborted.
    current: Mutex<usize>,
}

impl Cpu {
    pub fn new() -> Cpu {
        Cpu {
            current: Mutex::new(0),
        }
    }

    /// A thread begins an attempt here: whatever ran here before is aborted.
    pub fn arm(&self) -> usize {
        let mut current = self.current.lock().unwrap();
        *current += 1;
        *current
    }

    /// One instruction of an attempt.
    pub fn step<R>(&self, attempt: usize, step: impl FnOnce() -> R) -> Result<R, Aborted> {
        let current = self.current.lock().unwrap();
        if *current == attempt {
            Ok(step())
        } else {
            Err(Aborted)
        }
    }

    /// The kernel's fence.
    pub fn fence(&self) {
        *self.current.lock().unwrap() += 1;
    }
}

/// Which protections are in force. All of them, in the library.
#[derive(Clone, Copy)]
pub struct Rules {
    pub test: Test,
    pub acquire: Ordering,
    pub fence: Fence,
    pub unlock: fn(&AtomicU32),
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
    Never,
}

impl Rules {
    /// As in the library.
    pub const ALL: Rules = Rules {
        test: Test::Inside,
        acquire: Ordering::Acquire,
        fence: Fence::AfterLocking,
        unlock,
    };
}

/// How many elements a slot holds at first.
pub const ELEMENTS: usize = 3;

/// A CPU's slot: a gate, and a stack of the numbers from 1 to its top.
pub struct Slot {
    gate: AtomicU32,
    top: UnsafeCell<usize>,
    rules: Rules,
}

impl Slot {
    pub fn new(rules: Rules) -> Slot {
        Slot {
            gate: AtomicU32::new(0),
            top: UnsafeCell::new(ELEMENTS),
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
            let popped = *top;
            *top = popped.saturating_sub(1);
            (popped > 0).then_some(popped)
        })
    }

    /// One attempt; `None` if the gate is closed.
    fn attempt(&self, cpu: &Cpu) -> Result<Option<Option<usize>>, Aborted> {
        let is_open = || self.gate.load(self.rules.acquire) == 0;
        if self.rules.test == Test::BeforeArming && !is_open() {
            return Ok(None);
        }
        let attempt = cpu.arm();
        if self.rules.test == Test::Inside && !cpu.step(attempt, is_open)? {
            return Ok(None);
        }
        // SAFETY: loom reports it if anybody writes meanwhile.
        let top = cpu.step(attempt, || self.top.with(|top| unsafe { *top }))?;
        if top == 0 {
            return Ok(Some(None));
        }
        cpu.step(attempt, || {
            // SAFETY: loom reports it if anybody reads or writes meanwhile.
            self.top.with_mut(|place| unsafe { *place = top - 1 });
        })?;
        Ok(Some(Some(top)))
    }

    /// Closes the gate, works, opens it.
    pub fn close<R>(&self, cpu: &Cpu, work: impl FnOnce(&mut usize) -> R) -> R {
        if self.rules.fence == Fence::BeforeLocking {
            cpu.fence();
        }
        lock(&self.gate);
        if self.rules.fence == Fence::AfterLocking {
            cpu.fence();
        }
        // SAFETY: loom reports it if anybody reads or writes meanwhile.
        let result = self.top.with_mut(|top| work(unsafe { &mut *top }));
        (self.rules.unlock)(&self.gate);
        result
    }

    /// Takes all elements out.
    pub fn drain(&self, cpu: &Cpu) -> Vec<usize> {
        let top = self.close(cpu, std::mem::take);
        (1..=top).collect()
    }
}
