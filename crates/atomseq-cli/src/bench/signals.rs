//! The signal that the signal experiments are measured with: managed by atomseq, so that what is
//! measured is in force.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::AddAssign;
use std::ptr;
use std::sync::LazyLock;

use atomseq::signal::{self, Event, Interrupted};

use crate::error::Refused;

/// The signal, M94's.
pub const MANAGED: libc::c_int = libc::SIGALRM;

/// How many of them a thread has received, by what they interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// No sequence.
    pub plain: u64,
    /// A sequence that was restarted.
    pub restarted: u64,
    /// A sequence that was rolled forward.
    pub rolled_forward: u64,
    /// A sequence that could be neither.
    pub inside: u64,
}

impl Received {
    const NONE: Self = Self {
        plain: 0,
        restarted: 0,
        rolled_forward: 0,
        inside: 0,
    };

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.plain + self.restarted + self.rolled_forward + self.inside
    }

    /// How many were received since an earlier count.
    pub fn since(&self, before: Self) -> Self {
        Self {
            plain: self.plain - before.plain,
            restarted: self.restarted - before.restarted,
            rolled_forward: self.rolled_forward - before.rolled_forward,
            inside: self.inside - before.inside,
        }
    }
}

impl AddAssign for Received {
    fn add_assign(&mut self, more: Self) {
        self.plain += more.plain;
        self.restarted += more.restarted;
        self.rolled_forward += more.rolled_forward;
        self.inside += more.inside;
    }
}

/// The signal that a bare handler counts: one that `sigaction` has installed, and atomseq does not
/// manage.
#[cfg(atomseq_sections)]
pub const BARE: libc::c_int = libc::SIGUSR2;

thread_local! {
    /// The signals that this thread has received.
    static RECEIVED: Cell<Received> = const { Cell::new(Received::NONE) };
}

/// The handler.
fn receive(event: &mut Event<'_>) {
    let mut received = RECEIVED.get();
    match event.interrupted() {
        Interrupted::Plain => received.plain += 1,
        Interrupted::Restarted => received.restarted += 1,
        Interrupted::RolledForward => received.rolled_forward += 1,
        _ => received.inside += 1,
    }
    RECEIVED.set(received);
}

/// The bare handler. It counts as the managed one does.
#[cfg(atomseq_sections)]
extern "C" fn receive_bare(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    let mut received = RECEIVED.get();
    received.plain += 1;
    RECEIVED.set(received);
}

/// The addresses of the managed handler and of the bare one.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub fn handlers() -> [usize; 2] {
    [
        receive as *const () as usize,
        receive_bare as *const () as usize,
    ]
}

/// Installs the bare handler, once a process. [`manage`] has been called.
///
/// # Errors
///
/// If the system refuses it.
#[cfg(atomseq_sections)]
pub fn install_bare() -> Result<(), Refused> {
    static INSTALLED: LazyLock<Result<(), Refused>> = LazyLock::new(|| {
        // SAFETY: all zero is an action: an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = receive_bare as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and changes one word of
        // this thread's.
        match unsafe { libc::sigaction(BARE, &action, ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(Refused::now("install a handler for SIGUSR2")),
        }
    });
    *INSTALLED
}

/// Whether the kernel still calls the bare handler itself.
#[cfg(atomseq_sections)]
pub fn is_bare() -> bool {
    // SAFETY: all zero is an action, which the call fills in.
    let now = unsafe {
        let mut now: libc::sigaction = MaybeUninit::zeroed().assume_init();
        libc::sigaction(BARE, ptr::null(), &mut now);
        now
    };
    now.sa_sigaction == receive_bare as *const () as usize
}

/// The signals that this thread has received.
pub fn received() -> Received {
    RECEIVED.get()
}

/// Puts the signal under atomseq's management, once a process.
///
/// # Errors
///
/// If the system refuses the handler, or to change a thread's mask: then nothing can be said of
/// signals.
pub fn manage() -> Result<(), Refused> {
    static MANAGES: LazyLock<Result<(), Refused>> = LazyLock::new(|| {
        mask_works()?;
        // SAFETY: the handler changes a word of this thread's that needs no setting up, and nothing
        // else.
        unsafe { signal::install(MANAGED, receive) }.map_err(|error| Refused {
            what: "install a handler for SIGALRM",
            errno: match error {
                signal::Error::Refused { errno, .. } => errno,
                _ => 0,
            },
        })
    });
    *MANAGES
}

/// Whether the mask of this thread can be changed: sets it to what it is.
///
/// # Errors
///
/// If the system refuses it.
pub fn mask_works() -> Result<(), Refused> {
    let (how, null) = (libc::SIG_SETMASK, ptr::null());
    let mut set = MaybeUninit::uninit();
    // SAFETY: without a new mask, the call fills in the one that is in force.
    let mut errno = unsafe { libc::pthread_sigmask(how, null, set.as_mut_ptr()) };
    if errno == 0 {
        // SAFETY: the mask that is in force, filled in above.
        errno = unsafe { libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut()) };
    }
    match errno {
        0 => Ok(()),
        errno => Err(Refused {
            what: "change a thread's signal mask",
            errno,
        }),
    }
}

/// Sends this thread the signal; returns how many it has received since an earlier count.
fn send(before: Received) -> Result<u64, Refused> {
    // SAFETY: the signal has a handler.
    match unsafe { libc::raise(MANAGED) } {
        0 => Ok(received().since(before).total()),
        _ => Err(Refused::now("let a thread send itself a signal")),
    }
}

/// Checks that the signal reaches this thread.
///
/// # Errors
///
/// If the system refuses to send it.
///
/// # Panics
///
/// If it does not.
#[track_caller]
pub fn prove() -> Result<(), Refused> {
    manage()?;
    assert_eq!(
        send(received())?,
        1,
        "a signal that nothing masks is delivered at once"
    );
    Ok(())
}

/// Checks that the signal is deferred while a guard lives, and arrives when it is dropped.
///
/// # Errors
///
/// If the system refuses to send it.
///
/// # Panics
///
/// If it does not.
#[track_caller]
pub fn prove_that_it_waits_for<G>(guard: impl Fn() -> G) -> Result<(), Refused> {
    manage()?;
    let before = received();
    let guard = guard();
    assert_eq!(send(before)?, 0, "a masked signal waits");
    drop(guard);
    let came = received().since(before).total();
    assert_eq!(came, 1, "a signal that waited is delivered");
    Ok(())
}
