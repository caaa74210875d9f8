//! Closes the gate in the middle of an operation, as a thread on another CPU would.
//!
//! The slot's address is read from the register in which the sequence itself holds it. A keeper
//! closes the slot's gate, and opens it when the operation waits at it or has finished without.
//! Meanwhile the slot's words must not change.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use atomseq::percpu::Area;
use iced_x86::Register;

use verify_support::code::trap::Registers;

/// The boundary at which a window holds the slot's address and has not loaded its gate yet.
pub const TESTED_AT: usize = 4;

const WAITERS: u32 = 2;

/// How long an operation may take to notice.
const PATIENCE: Duration = Duration::from_secs(5);

/// Closes a gate once.
pub struct Keeper {
    /// The value of a gate's word while a thread of this process holds it.
    closed: u32,
    slot: AtomicUsize,
    finished: AtomicBool,
    before: Mutex<[u64; 15]>,
    violations: Mutex<Vec<String>>,
}

/// A keeper that has closed nothing yet.
impl Default for Keeper {
    fn default() -> Self {
        let area = Area::try_new(0).expect("there is memory for one area");
        let held = area.close_gate(0);
        // SAFETY: a slot begins with its gate.
        let closed = unsafe { AtomicU32::from_ptr(held.address() as *mut u32) };
        Keeper {
            closed: closed.load(Ordering::SeqCst),
            slot: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
            before: Mutex::default(),
            violations: Mutex::default(),
        }
    }
}

impl Keeper {
    /// Closes the gate of the slot at this address.
    pub fn close(&self, slot: usize) {
        *self.before.lock().expect("no thread panics") = words(slot);
        // SAFETY: a slot begins with its gate, and its area outlives the run.
        let gate = unsafe { AtomicU32::from_ptr(slot as *mut u32) };
        let word = gate.fetch_or(self.closed, Ordering::SeqCst);
        if word != 0 {
            self.violate(format!("the gate was {word} before it was closed"));
        }
        self.slot.store(slot, Ordering::SeqCst);
    }

    /// Reports that the operation has returned.
    pub fn finished(&self) {
        self.finished.store(true, Ordering::SeqCst);
    }

    /// Runs on a thread of its own: waits until the gate is closed and the operation waits or has
    /// finished, then opens the gate.
    pub fn keep(&self) {
        let begin = Instant::now();
        loop {
            let (slot, finished) = (
                self.slot.load(Ordering::SeqCst),
                self.finished.load(Ordering::SeqCst),
            );
            if slot == 0 && finished {
                return;
            }
            if slot != 0 {
                // SAFETY: as in `close`.
                let gate = unsafe { AtomicU32::from_ptr(slot as *mut u32) };
                let waits = gate.load(Ordering::SeqCst) & WAITERS != 0;
                let late = begin.elapsed() > PATIENCE;
                if waits || finished || late {
                    if late {
                        self.violate("neither waits at the gate nor finishes".to_string());
                    }
                    let (before, after) =
                        (*self.before.lock().expect("no thread panics"), words(slot));
                    if before != after {
                        self.violate(format!(
                            "the slot changed behind a closed gate: {before:x?} to {after:x?}"
                        ));
                    }
                    gate.store(0, Ordering::SeqCst);
                    let everyone = i32::MAX;
                    // SAFETY: wakes the waiters of that word; touches no memory.
                    unsafe {
                        libc::syscall(
                            libc::SYS_futex,
                            gate.as_ptr(),
                            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                            everyone,
                        )
                    };
                    return;
                }
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Returns the violations found.
    pub fn violations(self) -> Vec<String> {
        self.violations.into_inner().expect("no thread panics")
    }

    fn violate(&self, what: String) {
        self.violations.lock().expect("no thread panics").push(what);
    }
}

/// Returns the words of a slot after its gate.
fn words(slot: usize) -> [u64; 15] {
    std::array::from_fn(|index| {
        let word = (slot + 8 + 8 * index) as *const u64;
        // SAFETY: inside a slot of 128 bytes. Volatile: sequences change it.
        unsafe { word.read_volatile() }
    })
}

/// Returns the value of a register of the interrupted thread.
pub fn value(registers: &Registers, register: Register) -> usize {
    let index = match register {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        other => panic!("{other:?} cannot hold a slot"),
    };
    registers[index as usize] as usize
}
