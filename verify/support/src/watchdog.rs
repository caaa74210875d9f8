//! Ends a test that hangs: a deadlock is a finding, and must be reported.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The exit status of a program that was ended.
pub const HUNG: i32 = 99;

/// Ends the program when nothing was reported for a while, until it is dropped.
pub struct Watchdog(Arc<Mutex<State>>);

struct State {
    doing: String,
    since: Instant,
}

impl Watchdog {
    /// Watches from now on.
    pub fn start(patience: Duration) -> Watchdog {
        let state = State {
            doing: "starting".to_string(),
            since: Instant::now(),
        };
        let watchdog = Watchdog(Arc::new(Mutex::new(state)));
        let watched = Watchdog(watchdog.0.clone());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(patience / 10);
                if Arc::strong_count(&watched.0) == 1 {
                    return;
                }
                let state = watched.0.lock().expect("nothing panics under this lock");
                if state.since.elapsed() > patience {
                    eprintln!("hangs for {patience:?}: {}", state.doing);
                    std::process::exit(HUNG);
                }
            }
        });
        watchdog
    }

    /// Notes what is done next, for the report of a hang.
    pub fn at(&self, doing: impl Into<String>) {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        state.doing = doing.into();
        state.since = Instant::now();
    }
}
