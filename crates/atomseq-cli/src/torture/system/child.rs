//! Linux: a forked child that checks a law on its copy.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::child::{self, What};
use crate::torture::harness::law::Checked;
use crate::torture::needs::Need;

/// How a child ended.
#[derive(Debug)]
pub enum Ending {
    /// It had checked everything, with this result.
    Checked(Checked),
    /// It came to no result: a panic, or a signal.
    Died,
    /// It had to be killed.
    Hung,
}

/// Why no child can be waited for, once that is known: an error number. More of them would only
/// stay as zombies.
static UNWAITED: AtomicI32 = AtomicI32::new(0);

/// Forks; the child runs `check` and ends. The check may use nothing that a thread of the parent
/// might hold locked.
///
/// # Errors
///
/// If there can be no child, or no answer of its. That is counted, as [`Need::Forks`].
pub fn fork(check: impl FnOnce() -> Checked) -> io::Result<Ending> {
    // Relaxed: a number on its own.
    let ended = match UNWAITED.load(Ordering::Relaxed) {
        0 => child::fork(None, |answer| answer.set(Some(check()))),
        errno => Err(child::Refused {
            what: What::Wait,
            source: io::Error::from_raw_os_error(errno),
        }),
    };
    match ended {
        Ok((child::Ending::Starved, _)) => {
            let source = io::ErrorKind::OutOfMemory.into();
            Need::Forks.asked::<()>(Err(&source));
            Err(source)
        }
        Ok((ending, answer)) => {
            Need::Forks.asked(Ok(()));
            Ok(match (ending, answer) {
                (child::Ending::Done, Some(checked)) => Ending::Checked(checked),
                (child::Ending::Hung, _) => Ending::Hung,
                _ => Ending::Died,
            })
        }
        Err(child::Refused { what, source }) => {
            if what == What::Wait {
                let errno = source.raw_os_error().unwrap_or_default();
                UNWAITED.store(errno, Ordering::Relaxed);
            }
            Need::Forks.asked::<()>(Err(&source));
            Err(source)
        }
    }
}
