//! An overflow ends the process with a message that says what to do.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use atomseq_threads::coroutine::Builder;

/// In the environment of the process that overflows: whose stack.
const CHILD: &str = "ATOMSEQ_THREADS_OVERFLOWS";

fn deep(levels: u64) -> u64 {
    let here = black_box([levels; 64]);
    if levels == 0 {
        here[0]
    } else {
        deep(levels - 1) + here[63]
    }
}

fn outcome(child: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    let output = command
        .args(["--exact", "an_overflow_is_reported", "--nocapture"])
        .env(CHILD, child)
        .output()
        .unwrap();
    (
        output.status.signal(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn an_overflow_is_reported() {
    match std::env::var(CHILD).as_deref() {
        Ok("coroutine") => {
            let run = Builder::new().stack_size(16 * 1024);
            run.run(|| {
                atomseq_threads::coroutine::spawn(|| deep(1_000_000))
                    .join()
                    .unwrap()
            })
            .unwrap();
            unreachable!("a million levels do not fit");
        }
        Ok("thread") => {
            Builder::new().run(|| deep(black_box(100_000_000))).unwrap();
            unreachable!("a hundred million levels do not fit");
        }
        _ => {}
    }
    let (signal, message) = outcome("coroutine");
    assert_eq!(signal, Some(libc::SIGABRT), "{message}");
    assert!(message.contains("stack of 16384 bytes"), "{message}");
    // That of the thread itself is reported as it is without coroutines.
    let (signal, message) = outcome("thread");
    assert_eq!(signal, Some(libc::SIGABRT), "{message}");
    assert!(message.contains("has overflowed its stack"), "{message}");
}
