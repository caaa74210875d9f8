//! Shows a list shared by all threads that a signal handler reads, whatever it has interrupted.
//!
//! ```text
//! cargo run --release -p atomseq --example list_in_handler
//! ```
//!
//! Two threads insert and remove sessions all the time. Signals interrupt one of them, often in the
//! middle of an insertion. A handler that waited for a lock held by its own thread would hang; here
//! it reads a consistent copy of the list.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atomseq::nonblocking::List;
use atomseq::signal::{self, Event};

/// Open sessions by number, with the user of each. Handlers read only what is initialised.
static SESSIONS: OnceLock<List<u64, u64>> = OnceLock::new();
static READS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// Copies the first sessions, without allocation, and checks that they make sense.
fn on_signal(_event: &mut Event<'_>) {
    let Some(sessions) = SESSIONS.get() else {
        return;
    };
    let mut copy = [(0, 0); 100];
    let length = sessions.copy_first(&mut copy);
    let in_order = copy[..length].windows(2).all(|pair| pair[0].0 < pair[1].0);
    let users_match = copy[..length]
        .iter()
        .all(|(session, user)| *user == session * 10);
    // Relaxed, here and below: statistics, read after the thread has been joined.
    READS.fetch_add(1, Ordering::Relaxed);
    WRONG.fetch_add(u64::from(!(in_order && users_match)), Ordering::Relaxed);
    LONGEST.fetch_max(length as u64, Ordering::Relaxed);
}

/// Opens and closes sessions with numbers of this parity until enough signals have been handled.
fn work(sessions: &List<u64, u64>, parity: u64) {
    while READS.load(Ordering::Relaxed) < 300 {
        for session in (0..40).map(|n| 2 * n + parity) {
            sessions
                .try_insert(session, session * 10)
                .expect("a new session, and memory");
        }
        for session in (0..40).map(|n| 2 * n + parity) {
            assert_eq!(sessions.remove(&session), Ok(Some(session * 10)));
        }
    }
}

fn main() {
    let sessions = SESSIONS.get_or_init(List::new);
    // SAFETY: the handler reads a list and adds to statics. It neither allocates nor waits.
    unsafe { signal::install(libc::SIGUSR1, on_signal) }.expect("SIGUSR1 is free");
    // SAFETY: returns the calling thread's own id.
    let this_thread = unsafe { libc::pthread_self() } as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| work(sessions, 1));
        scope.spawn(|| {
            while READS.load(Ordering::Relaxed) < 300 {
                // SAFETY: the main thread is alive: it joins this one.
                unsafe { libc::pthread_kill(this_thread as libc::pthread_t, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        work(sessions, 0);
    });
    let [reads, wrong, longest] = [&READS, &WRONG, &LONGEST].map(|n| n.load(Ordering::Relaxed));
    println!("{reads} reads in signal handlers, {wrong} of them inconsistent");
    println!("the longest list that a handler saw had {longest} sessions");
    println!("{} sessions are left open", sessions.len());
    assert_eq!((wrong, sessions.len()), (0, 0));
}
