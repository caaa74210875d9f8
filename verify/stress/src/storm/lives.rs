//! Threads that start and end, forks and execs, in the middle of the storm.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use verify_support::processes::exit_code_within;

use super::arena::{Arena, Settlement};
use super::senders::{self, SENT, TIMER, Timer, queued};
use super::sequences::Protected;
use super::trial::{self, PERIOD, delivered, with_arena, work};

/// How many operations a short life makes.
const SHORT: u64 = 2_000;

/// How many forks there are at least, and twice as many threads, however long they take: a busy
/// machine makes few.
const AT_LEAST: u64 = 6;

/// Starts threads that work for a moment and end, while every thread of the process gets signals
/// all the time; returns how many, what they did, and how many signals were sent.
pub fn starts_and_ends(length: Duration) -> (u64, Settlement, u64) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                sent += senders::signal_everyone();
            }
            sent
        });
        let (end, mut threads, mut all) = (Instant::now() + length, 0, Settlement::default());
        while threads < 2 * AT_LEAST || Instant::now() < end {
            let short = || {
                thread::spawn(|| {
                    let timer = Timer::start(TIMER, PERIOD);
                    let arena = Arena::new(fastrand::u64(..), true);
                    with_arena(&arena, || {
                        work::<Protected>(&arena, SHORT, &AtomicBool::new(false))
                    });
                    // What the timer still sends meets a thread that is ending.
                    drop(timer);
                    arena.settle()
                })
            };
            let living = [short(), short(), short()];
            threads += living.len() as u64;
            for life in living {
                all = all.and(life.join().expect("a short life"));
            }
        }
        over.store(true, Ordering::Relaxed);
        (threads, all, sending.join().expect("the sibling"))
    })
}

/// Forks for so long, and at least a few times, while timers and a sibling send signals; every
/// child finds its copy of the thread's words whole, and works on. Returns how many came to their
/// end, and what the parent's thread did meanwhile.
pub fn forks(length: Duration) -> (u64, Settlement) {
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
                // SAFETY: the child uses its copy of memory, sequences and system calls, and leaves
                // without the test harness's help.
                let child = unsafe { libc::fork() };
                assert!(child >= 0, "no child: {}", io::Error::last_os_error());
                if child == 0 {
                    let whole = live_as_child(&arena);
                    // SAFETY: ends this process.
                    unsafe { libc::_exit(i32::from(!whole)) };
                }
                assert_eq!(
                    exit_code_within(child, Duration::from_secs(10)),
                    Some(0),
                    "None: a child crashed, or hung"
                );
                forks += 1;
            }
            drop(timer);
            victims[0].resign();
        });
        over.store(true, Ordering::Relaxed);
        sending.join().expect("the sibling");
        (forks, arena.settle())
    })
}

/// What a child does with its copy.
fn live_as_child(arena: &Arena) -> bool {
    let found = arena.settle();
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
    found.wrong == 0 && arena.settle().wrong == 0 && delivered() >= before + 3
}

/// Tells a program that it was started by [`execs`].
const EXECUTED: &str = "ATOMSEQ_STORM_EXECUTED";

/// Runs this program again, which must call [`executed`] in the named test, while it gets signals
/// all the time: before the exec, during it and after it. Returns how many signals were sent.
pub fn execs(test: &str, times: u64) -> u64 {
    let sent = AtomicU64::new(0);
    for _ in 0..times {
        let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(EXECUTED, "1");
        // SAFETY: one system call.
        unsafe {
            // A new program has no handlers: until it has, the signals have to wait.
            command.pre_exec(|| set_mask(libc::SIG_BLOCK));
        }
        let mut child = command.spawn().expect("a process");
        let number = child.id() as i32;
        while child.try_wait().expect("our child").is_none() {
            // SAFETY: a child of ours that has not been waited for.
            unsafe { libc::kill(number, SENT) };
            sent.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_micros(20));
        }
        let status = child.wait().expect("our child");
        assert!(status.success(), "the executed program: {status}");
    }
    sent.into_inner()
}

/// Is this a program that [`execs`] has started? If so, works in the middle of the signals that it
/// is sent.
pub fn executed() -> bool {
    if std::env::var_os(EXECUTED).is_none() {
        return false;
    }
    trial::install::<Protected>();
    let arena = Arena::new(fastrand::u64(..), true);
    with_arena(&arena, || {
        set_mask(libc::SIG_UNBLOCK).expect("two valid sets");
        let timer = Timer::start(TIMER, PERIOD);
        work::<Protected>(&arena, 50 * SHORT, &AtomicBool::new(false));
        drop(timer);
    });
    let settlement = arena.settle();
    assert_eq!(settlement.wrong, 0, "{settlement:?}");
    assert!(delivered() > 10, "{} signals", delivered());
    true
}

fn set_mask(how: i32) -> io::Result<()> {
    // SAFETY: plain old data, filled here.
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
