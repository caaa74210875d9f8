//! Shows a hash map shared by all threads that a signal handler reads and changes, whatever it has
//! interrupted.
//!
//! ```text
//! cargo run --release -p atomseq --example map_in_handler
//! ```
//!
//! Two threads open and close sessions all the time, so the map grows and shrinks. Signals
//! interrupt one of them, often in the middle of an insertion or of the split of a bucket. A
//! handler that waited for a lock held by its own thread would hang; here it looks sessions up and
//! counts itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atomseq::nonblocking::HashMap;
use atomseq::signal::{self, Event};

/// Open sessions by number, with the user of each. Handlers read only what is initialised.
static SESSIONS: OnceLock<HashMap<u64, u64>> = OnceLock::new();
static SEEN: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// The key under which handlers count their calls: no session has this number.
const HANDLED: u64 = u64::MAX;
const CALLS: u64 = 300;

/// Looks up all sessions, and counts the call in the map.
fn on_signal(_event: &mut Event<'_>) {
    let Some(sessions) = SESSIONS.get() else {
        return;
    };
    for session in 0..1_000 {
        if let Some(user) = sessions.get(&session) {
            // Relaxed, here and below: statistics, read after the thread has been joined.
            SEEN.fetch_add(1, Ordering::Relaxed);
            WRONG.fetch_add(u64::from(user != session * 10), Ordering::Relaxed);
        }
    }
    // Without memory, this call is not counted, and another one is.
    _ = sessions.fetch_update(HANDLED, |calls| Some(calls.unwrap_or(0) + 1));
}

/// Opens and closes sessions with numbers of this parity until enough signals have been handled.
fn work(sessions: &HashMap<u64, u64>, parity: u64) {
    while sessions.get(&HANDLED).unwrap_or(0) < CALLS {
        for session in (0..500).map(|n| 2 * n + parity) {
            let opened = sessions.try_insert(session, session * 10);
            opened.expect("a new session, and memory");
        }
        for session in (0..500).map(|n| 2 * n + parity) {
            assert_eq!(sessions.remove(&session), Some(session * 10));
        }
    }
}

fn main() {
    let sessions = SESSIONS.get_or_init(HashMap::new);
    // SAFETY: the handler uses a map and adds to statics. It neither allocates nor waits.
    unsafe { signal::install(libc::SIGUSR1, on_signal) }.expect("SIGUSR1 is free");
    // SAFETY: returns the calling thread's own id.
    let this_thread = unsafe { libc::pthread_self() } as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| work(sessions, 1));
        scope.spawn(|| {
            while sessions.get(&HANDLED).unwrap_or(0) < CALLS {
                // SAFETY: the main thread is alive: it joins this one.
                unsafe { libc::pthread_kill(this_thread as libc::pthread_t, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        work(sessions, 0);
    });
    let [seen, wrong] = [&SEEN, &WRONG].map(|n| n.load(Ordering::Relaxed));
    let calls = sessions.remove(&HANDLED).expect("handlers have run");
    println!("{calls} signal handlers found {seen} sessions, {wrong} of them with a wrong user");
    println!("{} sessions are left open", sessions.len());
    assert_eq!((wrong, sessions.len()), (0, 0));
}
