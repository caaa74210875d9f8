//! Ends a test that hangs: a deadlock is a finding, and must be reported.
//!
//! A timer watches. A thread that woke up now and then would meet the breakpoints that a test puts
//! into its own program: they lie in code that every thread runs, such as loads of atomics and the
//! allocator.

use std::sync::Mutex;
use std::time::Duration;

use crate::timers::Timer;

/// The exit status of a program that was ended.
pub const HUNG: i32 = 99;

/// Ends the program when nothing was reported for a while, until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    timer: Timer,
    /// Never freed: the timer's last expiry may be on its way when it is deleted.
    watched: &'static Watched,
}

#[derive(Debug)]
struct Watched {
    patience: Duration,
    doing: Mutex<String>,
}

impl Watchdog {
    /// Watches from now on.
    pub fn start(patience: Duration) -> Watchdog {
        let doing = Mutex::new("starting".to_string());
        let watched: &'static Watched = Box::leak(Box::new(Watched { patience, doing }));
        let timer = Timer::calling(report, std::ptr::from_ref(watched).expose_provenance());
        let timer = timer.expect("the system has a timer");
        let watchdog = Watchdog { timer, watched };
        watchdog.goes_on();
        watchdog
    }

    /// Notes what is done next, for the report of a hang.
    pub fn at(&self, doing: impl Into<String>) {
        *self.watched.doing.lock().expect(UNPOISONED) = doing.into();
        self.goes_on();
    }

    /// Notes that what was done last has not hung. One system call.
    pub fn goes_on(&self) {
        self.timer.handle().once(self.watched.patience);
    }
}

const UNPOISONED: &str = "nothing panics under this lock";

extern "C" fn report(watched: libc::sigval) {
    #[cfg(all(atomseq_sections, target_arch = "x86_64"))]
    crate::code::give_up();
    let watched = std::ptr::with_exposed_provenance::<Watched>(watched.sival_ptr.addr());
    // SAFETY: what `start` has leaked.
    let watched = unsafe { &*watched };
    let doing = watched.doing.lock().expect(UNPOISONED);
    eprintln!("hangs for {:?}: {doing}", watched.patience);
    std::process::exit(HUNG);
}
