//! The handlers of page faults, and of the signal that follows one.
//!
//! ```text
//!  sequence   load load │                              │ (rolled forward) … end │
//!  fault                └ close gate; wait; page in    ┘                        │
//!                         signal this thread                                    │
//!  signal                                                                       └ open gate
//! ```

use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use atomseq::internals::{change_mask, table};
use atomseq::signal::{self, Event, Interrupted};

use super::{Error, Region, gate};
use crate::faults::{self, Module};
use crate::lock::Lock;

/// How many regions a process may have.
pub const REGIONS: usize = 16;

/// The regions, from the first on.
static ALL: [AtomicPtr<Region>; REGIONS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; REGIONS];

/// The signals that are discarded while they are pending.
const JOB_CONTROL: [i32; 4] = [libc::SIGCONT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// The signal after which gates are opened; 0 before [`start`].
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Installs handlers for page faults, which are `SIGBUS` or `SIGSEGV`, and for `signal`, which the
/// handler of a fault in a sequence sends to its own thread: the sequence is rolled forward before
/// it, and it opens the gate. Other faults are passed on to the handlers from before, also those of
/// a region's page that moving it in does not end: a jump there, or a protection that other code
/// has set. An overflow of the stack ends the process
/// [without a report](atomseq::signal#stack-overflows).
///
/// A handler of `atomseq::signal` for one of these signals is replaced. None may replace these
/// later, nor may they be uninstalled: gates would stay closed, and faults end the process. May be
/// called again with the same signal.
///
/// # Errors
///
/// [`Error::Start`] if another signal was given before. [`Error::Handler`] if a handler cannot be
/// installed, or for a signal that would not open the gates after the sequence: a fault's and
/// `SIGABRT`, which nothing holds back, a real-time signal, which the kernel may refuse, and
/// `SIGCONT`, `SIGTSTP`, `SIGTTIN` and `SIGTTOU`, which the kernel discards when a signal of the
/// opposite kind is sent. [`Error::Refused`] if a sandbox refuses `tgkill`, which sends the signal;
/// if one does so later, gates stay closed.
pub fn start(signal: i32) -> Result<(), Error> {
    static LOCK: Lock = Lock::new();
    let _held = LOCK.take();
    // Relaxed: under the lock, and read by handlers that this call installs.
    match SIGNAL.load(Ordering::Relaxed) {
        0 => {}
        started if started == signal => return Ok(()),
        _ => return Err(Error::Start),
    }
    let is_lasting = (1..32).contains(&signal) && !JOB_CONTROL.contains(&signal);
    if !is_lasting || !faults::can_wait(signal) {
        return Err(Error::Handler(signal::Error::Reserved(signal)));
    }
    // No signal: only whether a sandbox would let one pass.
    if !send_to_this_thread(0) {
        return Err(Error::last("tgkill"));
    }
    // SAFETY: they make system calls, and read regions and gates, which are never freed.
    unsafe {
        signal::install(signal, open).map_err(Error::Handler)?;
        let signals = [libc::SIGBUS, libc::SIGSEGV];
        faults::install(Module::Paging, fault, &signals).map_err(Error::Handler)?;
    }
    SIGNAL.store(signal, Ordering::Relaxed);
    Ok(())
}

/// Adds a region to those that the handlers know.
pub fn enter(region: Box<Region>) -> Result<&'static Region, Error> {
    if SIGNAL.load(Ordering::Relaxed) == 0 {
        return Err(Error::Start);
    }
    let new = Box::into_raw(region);
    for place in &ALL {
        // Release: pairs with the Acquire in `regions`. Relaxed: a place that is taken is skipped.
        let entered = place.compare_exchange(
            std::ptr::null_mut(),
            new,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if entered.is_ok() {
            // SAFETY: from a box that is never freed.
            return Ok(unsafe { &*new });
        }
    }
    // SAFETY: from the box of above, which no place holds.
    drop(unsafe { Box::from_raw(new) });
    Err(Error::TooMany)
}

fn regions() -> impl Iterator<Item = &'static Region> {
    ALL.iter().map_while(|place| {
        // Acquire: pairs with the Release in `enter`.
        let region = place.load(Ordering::Acquire);
        // SAFETY: null, or from a box that is never freed.
        unsafe { region.as_ref() }
    })
}

/// Handles a fault of a region's page.
fn fault(event: &mut Event<'_>) -> bool {
    let address = event.fault_address();
    let find = |address| regions().find_map(|region| Some((region, region.page_of(address)?)));
    let found = address.and_then(find);
    let Some((region, page)) = found.filter(|(region, _)| region.has_raised(event)) else {
        return false;
    };
    // As the delivery of a signal will find it: at least one instruction has been executed, and at
    // least one is left.
    if table::find(event.original_pc()).is_some()
        && region.gate(page).is_some_and(|gate| gate.close())
    {
        send_signal();
    }
    // Accesses to other pages fault as well: this thread does not block the signal.
    let mask = change_mask(libc::SIG_UNBLOCK, 1 << (event.signal() - 1));
    region.wait();
    change_mask(libc::SIG_SETMASK, mask);
    if region.page_in(page).is_err() {
        // The fault would repeat without end.
        event.default_action();
    }
    true
}

/// Sends the signal that opens gates. It is blocked until the calling handler returns; then it
/// arrives in the sequence.
fn send_signal() {
    send_to_this_thread(SIGNAL.load(Ordering::Relaxed));
}

/// Returns whether the system let the signal pass.
fn send_to_this_thread(signal: i32) -> bool {
    // SAFETY: numbers.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
    result == 0
}

/// Opens the gates that this thread has closed, once its sequence has ended.
fn open(event: &mut Event<'_>) {
    let is_inside = event.interrupted() == Interrupted::Inside;
    if is_inside && table::find(event.program_counter()).is_some() {
        // The rollforward has taken too long and was abandoned. The next one begins where it has
        // come to when this handler returns.
        return send_signal();
    }
    open_own();
}

/// Opens all gates that this thread has closed. Async-signal-safe.
pub fn open_own() {
    // Once: a system call for each page of a closed gate would take milliseconds.
    let this_thread = gate::this_thread();
    for region in regions() {
        region.gates().for_each(|gate| gate.open_own(this_thread));
    }
}
