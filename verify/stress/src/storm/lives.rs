//! Threads that start and exit, forks and execs, during a storm.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use verify_support::processes::exit_code_within;

use super::arena::{Arena, Outcome};
use super::senders::{self, SENT, TIMER, Timer, queued};
use super::sequences::Protected;
use super::trial::{self, PERIOD, delivered, with_arena, work};

/// How many operations a short-lived thread makes.
const SHORT: u64 = 2_000;

/// The min number of forks, and half that of threads, however long they take on a busy machine.
const AT_LEAST: u64 = 6;

/// Starts short-lived threads, while signals are sent to each thread of the process. Returns how
/// many there were, what they did, and how many signals were sent.
pub fn starts_and_exits(length: Duration) -> (u64, Outcome, u64) {
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                sent.fetch_add(senders::signal_all_threads(), Ordering::Relaxed);
            }
        });
        let is_enough = |threads| threads >= 2 * AT_LEAST && sent.load(Ordering::Relaxed) > threads;
        let (end, mut threads, mut all) = (Instant::now() + length, 0, Outcome::default());
        while !is_enough(threads) || Instant::now() < end {
            let short = || {
                thread::spawn(|| {
                    let timer = Timer::start(TIMER, PERIOD);
                    let arena = Arena::new(fastrand::u64(..), true);
                    with_arena(&arena, || {
                        work::<Protected>(&arena, SHORT, &AtomicBool::new(false))
                    });
                    // What the timer has sent before may arrive while the thread exits.
                    drop(timer);
                    arena.check_final()
                })
            };
            let threads_now = [short(), short(), short()];
            threads += threads_now.len() as u64;
            for thread in threads_now {
                all = all.and(thread.join().expect("a short-lived thread"));
            }
        }
        over.store(true, Ordering::Relaxed);
        (threads, all, sent.load(Ordering::Relaxed))
    })
}

/// Forks for so long, and at least a few times, while timers and a sibling send signals. Each child
/// finds its copy of the thread's words intact, and goes on with operations. Returns how many
/// children there were, and what the parent's thread did.
pub fn forks(length: Duration) -> (u64, Outcome) {
    let (over, ready) = (AtomicBool::new(false), senders::Victim::default());
    let victims = [ready];
    thread::scope(|scope| {
        let sending = scope.spawn(|| senders::send_until(&over, &victims, &trial::POST));
        let arena = Arena::new(fastrand::u64(..), true);
        let never = AtomicBool::new(false);
        let mut forks = 0;
        with_arena(&arena, || {
            victims[0].volunteer();
            let timer = Timer::start(TIMER, PERIOD);
            let end = Instant::now() + length;
            while forks < AT_LEAST || Instant::now() < end {
                let more = arena.made_by_thread() + SHORT;
                work::<Protected>(&arena, more, &never);
                // SAFETY: the child uses its copy of memory, sequences and system calls, and exits
                // without the test harness.
                let child = unsafe { libc::fork() };
                assert!(child >= 0, "no child: {}", io::Error::last_os_error());
                if child == 0 {
                    let whole = run_child(&arena);
                    // SAFETY: ends this process.
                    unsafe { libc::_exit(i32::from(!whole)) };
                }
                let code = exit_code_within(child, Duration::from_secs(300));
                assert_eq!(code, Some(0), "None: a child crashed or hung");
                forks += 1;
            }
            drop(timer);
            victims[0].resign();
        });
        over.store(true, Ordering::Relaxed);
        sending.join().expect("the sibling");
        (forks, arena.check_final())
    })
}

/// Makes the operations of a child on its copy; false if a check fails.
fn run_child(arena: &Arena) -> bool {
    let found = arena.check_final();
    let before = delivered();
    // Timers are not inherited.
    let timer = Timer::start(TIMER, PERIOD);
    for number in [TIMER, SENT, queued()] {
        // SAFETY: no argument that could be wrong; handlers are inherited.
        senders::signal(unsafe { libc::gettid() }, number);
    }
    work::<Protected>(
        arena,
        arena.made_by_thread() + SHORT,
        &AtomicBool::new(false),
    );
    drop(timer);
    found.wrong == 0 && arena.check_final().wrong == 0 && delivered() >= before + 3
}

/// Set for a program that [`execs`] starts.
const EXECUTED: &str = "ATOMSEQ_STORM_EXECUTED";

/// Runs this program again, which must call [`executed`] in the named test, while signals are sent
/// to it: before the exec, during it and after it. Returns how many signals were sent.
pub fn execs(test: &str, times: u64) -> u64 {
    let mut sent = 0;
    let mut executed = 0;
    while executed < times || sent <= 10 * times {
        executed += 1;
        let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(EXECUTED, "1");
        // SAFETY: one system call.
        unsafe {
            // A new program has no handlers: until it installs them, the signals stay blocked.
            command.pre_exec(|| set_mask(libc::SIG_BLOCK));
        }
        let mut child = command.spawn().expect("a process");
        let number = child.id() as i32;
        while child.try_wait().expect("our child").is_none() {
            // SAFETY: a child that was not waited for.
            unsafe { libc::kill(number, SENT) };
            sent += 1;
            thread::sleep(Duration::from_micros(20));
        }
        let status = child.wait().expect("our child");
        assert!(status.success(), "the executed program: {status}");
    }
    sent
}

/// Returns whether [`execs`] has started this program; if so, makes operations while signals are
/// sent to it.
pub fn executed() -> bool {
    if std::env::var_os(EXECUTED).is_none() {
        return false;
    }
    trial::install::<Protected>();
    let arena = Arena::new(fastrand::u64(..), true);
    with_arena(&arena, || {
        set_mask(libc::SIG_UNBLOCK).expect("two valid sets");
        let timer = Timer::start(TIMER, PERIOD);
        let never = AtomicBool::new(false);
        while delivered() <= 10 {
            work::<Protected>(&arena, arena.made_by_thread() + 50 * SHORT, &never);
        }
        drop(timer);
    });
    let outcome = arena.check_final();
    assert_eq!(outcome.wrong, 0, "{outcome:?}");
    true
}

fn set_mask(how: i32) -> io::Result<()> {
    // SAFETY: plain data, initialized here.
    let result = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        for number in [TIMER, SENT, queued()] {
            libc::sigaddset(&mut set, number);
        }
        libc::pthread_sigmask(how, &set, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
