//! A lock never unwinds, and neither does a scope whose coroutines cannot finish: the process ends
//! with a message, also if nothing can be written.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use atomseq_threads::coroutine::{self, Barrier, Condvar, Mutex};

use support::run;

/// In the environment of the process that ends.
const CHILD: &str = "ATOMSEQ_THREADS_DEADLOCK";

#[test]
fn a_lock_that_cannot_be_had_ends_the_process() {
    match std::env::var(CHILD).as_deref() {
        Ok("inside") => run(|| {
            let lock = Mutex::new(());
            let _held = lock.lock();
            let _never = lock.lock();
        }),
        Ok("scope") => run(|| {
            let barrier = Barrier::new(3);
            coroutine::scope(|scope| {
                drop(scope.spawn(|| barrier.wait()));
                drop(scope.spawn(|| barrier.wait()));
            });
        }),
        Ok("condvar") => run(|| {
            // Another one has the lock when the wait ends, and waits too.
            let (lock, changed) = (Mutex::new(()), Condvar::new());
            coroutine::scope(|scope| {
                drop(scope.spawn(|| {
                    let _held = lock.lock();
                    coroutine::park();
                }));
                drop(scope.spawn(coroutine::yield_now)); // so that the one before can wait
                changed.wait(&mut lock.lock());
            });
        }),
        Ok("outside") => {
            let lock = Mutex::new(());
            let _held = lock.lock();
            let _never = lock.lock();
        }
        _ => {
            let end = |child: &str, errors: Stdio| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                let arguments = ["--exact", "a_lock_that_cannot_be_had_ends_the_process"];
                let child = command.args(arguments).arg("--nocapture").env(CHILD, child);
                let output = child
                    .stderr(errors)
                    .spawn()
                    .unwrap()
                    .wait_with_output()
                    .unwrap();
                (
                    output.status.signal(),
                    String::from_utf8_lossy(&output.stderr).into_owned(),
                )
            };
            for child in ["inside", "outside", "scope", "condvar"] {
                let (signal, message) = end(child, Stdio::piped());
                assert_eq!(signal, Some(libc::SIGABRT), "{message}");
                assert!(message.contains("deadlock"), "{message}");
                let full = std::fs::File::options()
                    .write(true)
                    .open("/dev/full")
                    .unwrap();
                assert_eq!(end(child, full.into()).0, Some(libc::SIGABRT));
            }
        }
    }
}
