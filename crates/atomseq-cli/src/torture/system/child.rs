//! Linux: a forked child that checks something and tells its parent in shared memory.

use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::torture::harness::law::Checked;

/// How a child ended.
#[derive(Debug)]
pub enum Ending {
    /// It had checked everything, with this result.
    Checked(Checked),
    /// It came to no result: a panic, or a signal.
    Died,
    /// It had to be killed.
    Hung,
    /// The system does not say how it ended, and so not whether it has checked everything.
    Lost,
}

/// How long a child may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the system has refused a child.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// How often the system has refused a child.
pub fn forks_refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// A page that parent and child share, for the child's answer.
struct Page(NonNull<MaybeUninit<Checked>>);

impl Page {
    fn new() -> io::Result<Page> {
        // SAFETY: a new mapping wherever there is room.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Checked>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast())
            .map(Page)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size; nobody else has it.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Checked>()) };
    }
}

/// Forks; the child runs `check` and ends. The check may use nothing that a thread of the parent might hold locked.
///
/// # Errors
///
/// If there can be no child.
pub fn fork(check: impl FnOnce() -> Checked) -> io::Result<Ending> {
    let page = Page::new()?;
    // SAFETY: the child only runs `check`, writes its answer and ends by `_exit`.
    match unsafe { libc::fork() } {
        -1 => {
            // Relaxed: a figure, read when all is over.
            REFUSED.fetch_add(1, Ordering::Relaxed);
            Err(io::Error::last_os_error())
        }
        0 => {
            let answered = catch_unwind(AssertUnwindSafe(|| {
                let answer = check();
                // SAFETY: a mapping of this size, aligned to a page, that only the child writes to.
                unsafe { page.0.as_ptr().write(MaybeUninit::new(answer)) };
            }));
            // SAFETY: ends this process without running what belongs to the parent.
            unsafe { libc::_exit(if answered.is_ok() { ANSWERED } else { 1 }) }
        }
        child => Ok(match wait(child) {
            Err(_) => Ending::Lost,
            Ok(None) => Ending::Hung,
            Ok(Some(status))
                if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == ANSWERED =>
            {
                // SAFETY: the child has written its answer, and has ended.
                Ending::Checked(unsafe { page.0.as_ptr().read().assume_init() })
            }
            Ok(Some(_)) => Ending::Died,
        }),
    }
}

/// A child's exit code after it has written its answer.
const ANSWERED: i32 = 42;

/// Waits for a child; `None` when it had to be killed.
fn wait(child: libc::pid_t) -> io::Result<Option<i32>> {
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: our own child, and room for its status.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_micros(50)),
            0 => {
                // SAFETY: our own child, which has not been waited for yet, so its number is still its own.
                unsafe {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &mut status, 0);
                }
                return Ok(None);
            }
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => return Ok(Some(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_cannot_be_waited_for_is_an_error() {
        // This process's own parent is no child of its.
        // SAFETY: no argument, no precondition.
        let error = wait(unsafe { libc::getppid() }).expect_err("it is not ours");
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    }
}
