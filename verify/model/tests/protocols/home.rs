//! In place of the library's `mutex/home.rs`: each step of the sequence, the fence and the barrier
//! are steps of the model, on the CPU that the calling thread is on.

use std::cell::RefCell;
use std::sync::Arc;

use crate::bias::{APART, Bias, FREE, HELD, UNSET};
use crate::machine::Aborted;
use crate::sync::{AtomicU32, AtomicUsize, Mutex, Ordering, thread_of_a_model};

/// Which protections are in force. All of them, in the library.
#[derive(Clone, Copy)]
pub struct Protections {
    /// Does the fence abort?
    pub fence: bool,
    /// Is there a barrier?
    pub barrier: bool,
    /// Does the sequence look at the home inside?
    pub looks_inside: bool,
}

impl Protections {
    pub const ALL: Protections = Protections {
        fence: true,
        barrier: true,
        looks_inside: true,
    };
}

/// One CPU: the attempt that runs there, by number. What holds it is one step there.
struct Cpu(Mutex<u32>);

impl Cpu {
    fn new() -> Cpu {
        Cpu(Mutex::new(0))
    }

    /// A thread begins an attempt here, or the kernel fences: whatever ran here before is aborted.
    fn next(&self) -> u32 {
        let mut current = self.0.lock().unwrap();
        *current += 1;
        *current
    }

    /// One instruction of an attempt.
    fn step<R>(&self, attempt: u32, step: impl FnOnce() -> R) -> Result<R, Aborted> {
        let current = self.0.lock().unwrap();
        if *current != attempt {
            return Err(Aborted);
        }
        Ok(step())
    }

    /// What a thread does here outside sequences.
    fn on<R>(&self, step: impl FnOnce() -> R) -> R {
        let _current = self.0.lock().unwrap();
        step()
    }
}

/// Three CPUs.
pub struct Machine {
    cpus: [Cpu; 3],
    protections: Protections,
}

thread_of_a_model! {
    static HERE: RefCell<Option<(Arc<Machine>, usize)>> = RefCell::new(None);
}

impl Machine {
    pub fn new(protections: Protections) -> Arc<Machine> {
        Arc::new(Machine {
            cpus: [Cpu::new(), Cpu::new(), Cpu::new()],
            protections,
        })
    }

    /// From now on the calling thread is on this CPU.
    pub fn move_to(self: &Arc<Machine>, cpu: usize) {
        HERE.with(|here| *here.borrow_mut() = Some((self.clone(), cpu)));
    }
}

fn here() -> (Arc<Machine>, usize) {
    HERE.with(|here| here.borrow().clone())
        .expect("every thread of these models is on a CPU")
}

impl Bias {
    /// One that nobody has set.
    pub fn clear_one() -> Bias {
        Bias {
            apart: [0; APART],
            home: AtomicUsize::new(UNSET),
            held: AtomicUsize::new(FREE),
            ended: AtomicU32::new(0),
        }
    }
}

/// The sequence: one attempt, and another if it was aborted.
pub fn take_at_home(flag: &Bias) -> bool {
    let (machine, cpu) = here();
    let attempt = || attempt(flag, &machine.cpus[cpu], cpu, machine.protections);
    attempt().or_else(|Aborted| attempt()).unwrap_or(false)
}

fn attempt(flag: &Bias, cpu: &Cpu, number: usize, rules: Protections) -> Result<bool, Aborted> {
    let is_home = || flag.home.load(Ordering::Acquire) == number;
    if !rules.looks_inside && !is_home() {
        return Ok(false);
    }
    let attempt = cpu.next();
    if rules.looks_inside && !cpu.step(attempt, is_home)? {
        return Ok(false);
    }
    if cpu.step(attempt, || flag.held.load(Ordering::Acquire))? != FREE {
        return Ok(false);
    }
    cpu.step(attempt, || flag.held.store(HELD, Ordering::Relaxed))?;
    Ok(true)
}

/// A store on this CPU; nothing but the barrier orders it before what the thread does next.
pub fn clear(flag: &Bias, free: usize) {
    let (machine, cpu) = here();
    machine.cpus[cpu].on(|| flag.held.store(free, Ordering::Release));
}

pub fn membarrier_rseq(cpu: usize) {
    let (machine, _) = here();
    if machine.protections.fence {
        machine.cpus[cpu].next();
    } else {
        // It orders, and aborts nothing.
        machine.cpus[cpu].on(|| ());
    }
}

/// The barrier.
pub fn waiter_barrier() {
    let (machine, _) = here();
    if machine.protections.barrier {
        machine.cpus.iter().for_each(|cpu| cpu.on(|| ()));
    }
}

pub fn current_cpu() -> usize {
    here().1
}

pub fn can_be_fenced() -> bool {
    true
}

/// There are no children here.
pub fn generation() -> u32 {
    0
}

pub fn register_this_thread() {}

/// There are no signals here, and no forks.
pub struct SignalsBlocked;

impl SignalsBlocked {
    pub fn enter() -> SignalsBlocked {
        SignalsBlocked
    }
}
