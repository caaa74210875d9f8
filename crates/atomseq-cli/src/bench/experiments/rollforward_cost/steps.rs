//! How many instructions a delivery executes in the interrupted thread: those before the handler's
//! first one and after its last. A child interrupts itself, and this process steps through it.
//!
//! ```text
//!  kernel ──> entry … ──> handler … ──> … rt_sigreturn ──> kernel
//!             counted     not counted   counted
//! ```

use super::ways::{Arrival, WAYS, Way};
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::error::Refused;

#[cfg(target_arch = "x86_64")]
use self::stepping::count;

/// Children that a case counts.
const CHILDREN: usize = 5;

/// Counts every way but that of a mask, whose delivery comes in two parts.
pub fn measure(measured: &mut Results) {
    for way in WAYS.iter().filter(|way| way.arrival != Arrival::Deferred) {
        let counts = (0..CHILDREN).map(|_| count(way).map(|count| count as f64));
        let (case, unit) = (case(way), "instructions");
        match counts.collect() {
            Ok(values) => measured.add(Series { case, unit, values }, None),
            Err(refused) => {
                let fault: Refused = refused;
                measured
                    .faults
                    .push((case, Fault::untried(fault.to_string())));
            }
        }
    }
}

fn case(way: &Way) -> &'static str {
    match (way.case, way.arrival) {
        ("bare", _) => "instructions:bare",
        (_, Arrival::Restarted) => "instructions:restarted",
        (_, Arrival::Rolled) => "instructions:rolled",
        _ => "instructions:plain",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn count(_way: &'static Way) -> Result<usize, Refused> {
    let what = "count instructions: that needs x86-64";
    Err(Refused { what, errno: 0 })
}

#[cfg(target_arch = "x86_64")]
mod stepping {
    use std::cell::Cell;
    use std::ffi::{c_int, c_long};
    use std::ptr;

    use crate::bench::experiments::rollforward_cost::run::Run;
    use crate::bench::experiments::rollforward_cost::ways::Way;
    use crate::bench::signals;
    use crate::error::Refused;

    /// Instructions after which something is wrong.
    const TOO_MANY: usize = 10_000_000;

    /// A child that this thread traces. Dropped, it is killed and waited for.
    struct Child {
        process: libc::pid_t,
        has_ended: Cell<bool>,
    }

    impl Drop for Child {
        fn drop(&mut self) {
            if !self.has_ended.get() {
                // SAFETY: this process's own child, which has not been waited for to its end.
                unsafe {
                    libc::kill(self.process, libc::SIGKILL);
                    libc::waitpid(self.process, ptr::null_mut(), 0);
                }
            }
        }
    }

    const ENDLESS: Refused = Refused {
        what: "end a delivery",
        errno: 0,
    };

    const TRACE: &str = "let a process trace its child";

    impl Child {
        /// Waits for its next stop, and returns the stop's signal.
        fn stop(&self) -> Result<c_int, Refused> {
            let mut status = 0;
            // SAFETY: this process's own child, and a status to be filled in.
            if unsafe { libc::waitpid(self.process, &mut status, 0) } != self.process {
                return Err(Refused::now(TRACE));
            }
            self.has_ended.set(!libc::WIFSTOPPED(status));
            match self.has_ended.get() {
                false => Ok(libc::WSTOPSIG(status)),
                true => Err(Refused {
                    what: TRACE,
                    errno: 0,
                }),
            }
        }

        /// Lets it go on until its next stop, whose signal it returns.
        fn go_on(&self, signal: c_int) -> Result<c_int, Refused> {
            // SAFETY: numbers.
            match unsafe { libc::ptrace(libc::PTRACE_CONT, self.process, 0, c_long::from(signal)) }
            {
                0 => self.stop(),
                _ => Err(Refused::now(TRACE)),
            }
        }

        /// Lets it execute one instruction, the first of the signal's handler if there is one.
        fn step(&self, signal: c_int) -> Result<c_int, Refused> {
            let how = libc::PTRACE_SINGLESTEP;
            // SAFETY: numbers.
            match unsafe { libc::ptrace(how, self.process, 0, c_long::from(signal)) } {
                0 => self.stop(),
                _ => Err(Refused::now(TRACE)),
            }
        }

        fn registers(&self) -> Result<libc::user_regs_struct, Refused> {
            // SAFETY: zero is valid for integers, and the call fills the structure in.
            unsafe {
                let mut registers: libc::user_regs_struct = std::mem::zeroed();
                match libc::ptrace(libc::PTRACE_GETREGS, self.process, 0, &raw mut registers) {
                    0 => Ok(registers),
                    _ => Err(Refused::now(TRACE)),
                }
            }
        }

        fn word(&self, address: u64) -> u64 {
            // SAFETY: the kernel checks the child's address.
            unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.process, address, 0) as u64 }
        }

        /// Steps to an instruction.
        fn run_to(&self, address: u64) -> Result<(), Refused> {
            for _ in 0..TOO_MANY {
                self.step(0)?;
                if self.registers()?.rip == address {
                    return Ok(());
                }
            }
            Err(ENDLESS)
        }

        /// Whether it is about to return from a signal.
        fn is_returning(&self, registers: &libc::user_regs_struct) -> bool {
            const SYSCALL: u64 = 0x050f;
            registers.rax == libc::SYS_rt_sigreturn as u64
                && self.word(registers.rip) & 0xffff == SYSCALL
        }
    }

    /// The instructions of one delivery.
    pub fn count(way: &'static Way) -> Result<usize, Refused> {
        let handlers = signals::handlers().map(|handler| handler as u64);
        // The handlers stay installed as long as this lives.
        let _installed = Run::new(way)?;
        // SAFETY: the child interrupts itself once and ends. It takes no lock that another thread
        // may have held.
        let process = match unsafe { libc::fork() } {
            -1 => return Err(Refused::now("make a process")),
            0 => be_interrupted(way),
            process => process,
        };
        let child = Child {
            process,
            has_ended: Cell::new(false),
        };
        child.stop()?;
        // SAFETY: numbers. If it is refused, a child that outlives this process ends by itself.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, process, 0, libc::PTRACE_O_EXITKILL) };
        let mut stop = child.go_on(0)?;
        while stop != way.signal {
            // The fault that brings it there.
            stop = child.go_on(stop)?;
        }
        child.step(way.signal)?;
        let (mut counted, mut is_handled) = (0, false);
        for _ in 0..TOO_MANY {
            let now = child.registers()?;
            if !is_handled && handlers.contains(&now.rip) {
                is_handled = true;
                child.run_to(child.word(now.rsp))?;
            } else if child.is_returning(&now) {
                return Ok(counted + 1);
            } else {
                child.step(0)?;
                // A repeated string instruction is one.
                counted += usize::from(child.registers()?.rip != now.rip);
            }
        }
        Err(ENDLESS)
    }

    /// What the child does: stops, and then is interrupted once.
    fn be_interrupted(way: &'static Way) -> ! {
        // SAFETY: numbers only; the process ends without running destructors.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                libc::_exit(1);
            }
            libc::raise(libc::SIGSTOP);
            libc::_exit(Run::new(way).map_or(1, |run| run.once()));
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::bench::signals;

    /// Fewest first: what each does, the next does as well.
    #[test]
    fn each_way_takes_more_instructions_than_the_one_before() {
        signals::manage().unwrap();
        let ways = ["bare", "plain", "restarted", "rolled"];
        let counts = ways.map(|case| {
            let way = WAYS.iter().position(|way| way.case == case).unwrap();
            static ALL: [Way; 5] = WAYS;
            count(&ALL[way]).unwrap()
        });
        // Loading a number, and the system call.
        assert_eq!(counts[0], 2);
        assert!(counts.is_sorted(), "{counts:?}");
    }
}
