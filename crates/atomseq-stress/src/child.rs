//! Linux: a forked child that leaves its result on a page that it shares with its parent.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::time::Duration;

use crate::memory;
use crate::patience::Patience;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It completed its work.
    Done,
    /// It panicked.
    Panicked,
    /// This signal, or a call of `_exit` (0), ended it early.
    Died(i32),
    /// It had no memory left.
    OutOfMemory,
    /// It did not exit in time and was killed.
    Hung,
}

/// How long a child may take, while its parent runs and looks.
const PATIENCE: Duration = Duration::from_secs(5);

/// The max time for which one look at the child counts. It is longer than a [`rest`] where timers
/// are coarse, so that patience is a time there, too, and far shorter than a stop of the process.
const LOOK: Duration = Duration::from_millis(20);

/// A child's exit code after it completed its work, and after a panic.
const DONE: i32 = 42;
const PANICKED: i32 = 43;

/// A page that parent and child share.
struct Page<T>(NonNull<Cell<T>>);

impl<T: Copy> Page<T> {
    fn new(first: T) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4_096) };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<Cell<T>>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping of this size, aligned to a page.
        unsafe { start.write(Cell::new(first)) };
        Ok(Self(start))
    }

    fn cell(&self) -> &Cell<T> {
        // SAFETY: written by `new`. The parent does not read it while the child lives.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Page<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and unmapped once.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// Forks. The child runs `work` and exits. Returns how it ended and the value that it left in the
/// cell, which holds `first` at the start. The work may use nothing that a thread of the parent
/// might have locked.
///
/// # Errors
///
/// What the system refused: memory, the child, or its exit status.
pub fn fork<T: Copy>(first: T, work: impl FnOnce(&Cell<T>)) -> Result<(Ending, T), Refused> {
    let refused = |what| move |source| Refused { what, source };
    let page = Page::new(first).map_err(refused(What::Memory))?;
    // SAFETY: the child only runs the work and exits by `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err(refused(What::Fork)(io::Error::last_os_error())),
        0 => {
            let worked = catch_unwind(AssertUnwindSafe(|| work(page.cell())));
            // SAFETY: ends this process without running the parent's destructors.
            unsafe { libc::_exit(if worked.is_ok() { DONE } else { PANICKED }) }
        }
        child => {
            let ending = wait(child).map_err(refused(What::Wait))?;
            Ok((ending, page.cell().get()))
        }
    }
}

/// What the system may refuse a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A page to share.
    Memory,
    /// The child.
    Fork,
    /// The child's exit status.
    Wait,
}

/// A refusal, with its reason.
#[derive(Debug)]
pub struct Refused {
    /// What was refused.
    pub what: What,
    /// The reason.
    pub source: io::Error,
}

/// Sleeps for 50 µs, or not at all where the system refuses that; `std::thread::sleep` would panic
/// there.
fn rest() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    // SAFETY: a valid time, and no result to write.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, std::ptr::null_mut()) };
}

/// Waits for a child, and kills it if it takes too long.
fn wait(child: libc::pid_t) -> io::Result<Ending> {
    let mut patience = Patience::new(PATIENCE, LOOK);
    let mut killed = false;
    let mut status = 0;
    loop {
        let options = if killed { 0 } else { libc::WNOHANG };
        // SAFETY: a child of this process, and room for its status.
        match unsafe { libc::waitpid(child, &mut status, options) } {
            0 if !patience.is_over() => rest(),
            0 => {
                // SAFETY: a child of this process that was not waited for yet, so no other process
                // has its number.
                if unsafe { libc::kill(child, libc::SIGKILL) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                killed = true;
            }
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => break,
        }
    }
    // It may have exited just before it was killed.
    if killed && libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL {
        return Ok(Ending::Hung);
    }
    Ok(match libc::WIFEXITED(status) {
        true if libc::WEXITSTATUS(status) == DONE => Ending::Done,
        true if libc::WEXITSTATUS(status) == PANICKED => Ending::Panicked,
        true if libc::WEXITSTATUS(status) == memory::EXIT_CODE => Ending::OutOfMemory,
        true => Ending::Died(0),
        false => Ending::Died(libc::WTERMSIG(status)),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_result_is_what_the_child_left_however_it_ended() {
        let of = |work: fn(&Cell<u32>)| fork(7, work).unwrap();
        assert_eq!(of(|_| ()), (Ending::Done, 7));
        assert_eq!(of(|cell| cell.set(8)), (Ending::Done, 8));
        let died = of(|cell| {
            cell.set(9);
            // SAFETY: a signal to the child itself, which has no handler.
            unsafe { libc::raise(libc::SIGKILL) };
        });
        assert_eq!(died, (Ending::Died(libc::SIGKILL), 9));
        // SAFETY: ends the child.
        let exited = of(|_| unsafe { libc::_exit(0) });
        assert_eq!(exited, (Ending::Died(0), 7));
        assert_eq!(of(|_| memory::refused(1)), (Ending::OutOfMemory, 7));
    }

    /// Returns the CPU time of the calling process.
    fn cpu_time() -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: room for the time.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Parent and child are stopped together for longer than a child may take, as by Ctrl-Z.
    #[test]
    fn a_child_that_was_stopped_with_its_parent_did_not_hang() {
        let [has_started, may_end] = [(); 2].map(|()| Page::new(false).unwrap());
        // Volatile: another process changes it.
        // SAFETY: a page that lives as long as this test and its children.
        let is_set = |page: &Page<bool>| unsafe { page.cell().as_ptr().read_volatile() };
        // SAFETY: a page that lives as long as this test and its children.
        let set = |page: &Page<bool>| unsafe { page.cell().as_ptr().write_volatile(true) };
        // SAFETY: the child forks, waits and exits by `_exit`.
        let parent = match unsafe { libc::fork() } {
            0 => {
                // SAFETY: numbers only: a process group of its own.
                unsafe { libc::setpgid(0, 0) };
                let ended = fork(0, |_| {
                    set(&has_started);
                    while !is_set(&may_end) {
                        rest();
                    }
                    // Its parent runs again before it exits.
                    let begin = cpu_time();
                    while cpu_time() - begin < Duration::from_millis(50) {}
                });
                let is_done = matches!(ended, Ok((Ending::Done, 0)));
                // SAFETY: ends this process without the test harness.
                unsafe { libc::_exit(if is_done { DONE } else { 1 }) }
            }
            parent => parent,
        };
        assert!(parent > 0);
        let mut status = 0;
        while !is_set(&has_started) {
            // SAFETY: a child of this process, and room for its status.
            let ended = unsafe { libc::waitpid(parent, &mut status, libc::WNOHANG) };
            assert_eq!(ended, 0, "it could not fork");
            rest();
        }
        // SAFETY: signals to the process group of a child that was not waited for; room for its
        // status.
        unsafe {
            assert_eq!(libc::kill(-parent, libc::SIGSTOP), 0);
            assert_eq!(libc::waitpid(parent, &mut status, libc::WUNTRACED), parent);
            assert!(libc::WIFSTOPPED(status));
            std::thread::sleep(PATIENCE + Duration::from_millis(200));
            set(&may_end);
            assert_eq!(libc::kill(-parent, libc::SIGCONT), 0);
            assert_eq!(libc::waitpid(parent, &mut status, 0), parent);
        }
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == DONE);
    }

    /// The control: a child that never exits.
    #[test]
    fn a_child_that_does_not_exit_hangs() {
        let hung = fork(1, |cell| {
            cell.set(2);
            loop {
                rest();
            }
        });
        assert_eq!(hung.unwrap(), (Ending::Hung, 2));
    }

    /// Where each sleep takes 10 ms, the time a child may take is the same: it counts time, not
    /// looks.
    #[test]
    fn patience_is_a_time_where_sleeps_are_long() {
        let mut patience = Patience::new(PATIENCE, LOOK);
        let start = Instant::now();
        let sleep = Duration::from_millis(10);
        let looks = (1..).map(|look| patience.is_over_at(start + look * sleep));
        let needed = looks.take_while(|is_over| !is_over).count() as u32 + 1;
        assert!(needed * sleep <= PATIENCE + sleep, "{needed} looks");
    }

    #[test]
    fn a_child_that_cannot_be_waited_for_is_an_error() {
        // The parent of this process is not its child.
        // SAFETY: no argument, no precondition.
        let error = wait(unsafe { libc::getppid() }).expect_err("it is no child");
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    }
}
