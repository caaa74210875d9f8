//! Linux: affinity, signals, timers, fences, threads that Rust did not start, and forked children.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, io, ptr};

use atomseq::signal::{self, Event, Options};

use super::{Ending, Signal};
use crate::child::{self, What};
use crate::engine::invariant::Checked;
use crate::memory;
use crate::needs::Need;

/// Bits for 8,192 CPUs, Linux's largest configuration.
type CpuSet = [u64; 128];

/// Returns the thread ID of the calling thread.
pub fn own_number() -> i32 {
    // SAFETY: no argument, no precondition.
    unsafe { libc::gettid() }
}

/// Returns the CPUs on which the calling thread may run; none if the system does not say.
pub fn allowed_cpus() -> Vec<usize> {
    let mut set: CpuSet = [0; 128];
    // SAFETY: the kernel writes at most `size_of::<CpuSet>()` bytes, all of them inside `set`.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<CpuSet>(), (&raw mut set).cast()) };
    let is_in = |cpu: &usize| result == 0 && set[cpu / 64] >> (cpu % 64) & 1 == 1;
    (0..set.len() * 64).filter(is_in).collect()
}

/// Restricts a thread to these CPUs; it runs on one of them when this returns. False if the system
/// refuses.
pub fn move_thread(thread: i32, cpus: &[usize]) -> bool {
    let mut set: CpuSet = [0; 128];
    for &cpu in cpus {
        if let Some(word) = set.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // SAFETY: the kernel reads `size_of::<CpuSet>()` bytes, all of them inside `set`.
    let result =
        unsafe { libc::sched_setaffinity(thread, size_of::<CpuSet>(), (&raw const set).cast()) };
    Need::Moves.granted(result == 0)
}

fn number(signal: Signal) -> c_int {
    match signal {
        Signal::Sent => libc::SIGUSR1,
        Signal::Timer => libc::SIGUSR2,
    }
}

/// Sends a signal to one thread of this process; false if there is no such thread.
pub fn interrupt(thread: i32, signal: Signal) -> bool {
    // SAFETY: numbers only; if the thread is not one of this process, nothing happens.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number(signal)) };
    Need::Signals.granted(sent == 0)
}

/// Aborts the per-CPU sequences of this process that run on a CPU; false if the kernel has no such
/// fence.
pub fn fence(cpu: usize) -> bool {
    const PRIVATE_EXPEDITED_RSEQ: c_int = 1 << 7;
    const FLAG_CPU: c_int = 1;
    // SAFETY: the command takes a CPU number and accesses no memory of this process.
    unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu) == 0 }
}

/// The function that the handlers call, as an address; 0 before they are installed.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Makes both signals call this function on the thread that they interrupt: through
/// `atomseq::signal` if `managed`. The function must be async-signal-safe. Each signal's handler
/// may interrupt the other's.
pub fn install_handlers(handler: fn(Signal), managed: bool) {
    HANDLER.store(handler as usize, Ordering::Release);
    for number in [Signal::Sent, Signal::Timer].map(number) {
        match (managed, signal::is_managed(number)) {
            (true, true) => {}
            (true, false) => {
                // SAFETY: the handler is async-signal-safe, as this function requires.
                let installed =
                    unsafe { signal::install_with(number, on_event, Options::new().nesting()) };
                installed.unwrap_or_else(|error| panic!("{error}"));
            }
            (false, was_managed) => {
                if was_managed {
                    signal::uninstall(number).unwrap_or_else(|error| panic!("{error}"));
                }
                install(number, handle as *const () as usize, libc::SA_RESTART);
            }
        }
    }
}

fn on_event(event: &mut Event<'_>) {
    handle(event.signal());
}

fn install(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: `sigaction` is numbers and a set of bits, for which zero is valid: no signal is
    // masked, so that each handler may interrupt the other.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: a valid action, whose handler lives as long as the program and has the signature that
    // its flags ask for.
    let result = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    assert_eq!(result, 0, "signal {signal} can be handled");
}

extern "C" fn handle(signal: c_int) {
    // SAFETY: this thread's errno, which the handler restores for the code that it interrupted.
    let errno = unsafe { *libc::__errno_location() };
    let handler = HANDLER.load(Ordering::Acquire);
    // SAFETY: `install_handlers` stored a function of this type before it installed this one.
    let handler: fn(Signal) = unsafe { std::mem::transmute(handler) };
    handler(if signal == libc::SIGUSR1 {
        Signal::Sent
    } else {
        Signal::Timer
    });
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// The text that `crashed` prints: its start and its length.
static LAST_WORDS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static LAST_WORDS_LENGTH: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Sets what the process prints if it crashes, before it exits with code 1. The text is leaked.
pub fn on_crash(text: String) {
    let text: &'static mut str = Box::leak(text.into_boxed_str());
    // Length 0 between the two: a crash there would print one text with the length of the other.
    LAST_WORDS_LENGTH.store(0, Ordering::SeqCst);
    LAST_WORDS.store(text.as_mut_ptr(), Ordering::SeqCst);
    LAST_WORDS_LENGTH.store(text.len(), Ordering::SeqCst);
    // Once: handlers installed over it later stay.
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return;
    }
    for signal in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
    ] {
        install(
            signal,
            crashed as *const () as usize,
            libc::SA_ONSTACK | libc::SA_RESETHAND,
        );
    }
}

extern "C" fn crashed(signal: c_int) {
    if signal == libc::SIGABRT {
        memory::end_if_aborted_for_it();
    }
    let text = LAST_WORDS.load(Ordering::SeqCst);
    let length = LAST_WORDS_LENGTH.load(Ordering::SeqCst);
    // SAFETY: a leaked text of this length, and two async-signal-safe calls.
    unsafe {
        libc::write(2, text.cast(), length);
        libc::_exit(1);
    }
}

/// Interrupts one thread periodically until dropped.
#[derive(Debug)]
pub struct Timer(libc::timer_t);

// SAFETY: a timer belongs to the process, not to the thread that created it.
unsafe impl Send for Timer {}

impl Timer {
    /// Starts a timer for a thread of this process; `None` if the system refuses it.
    pub fn start(thread: i32, period: Duration) -> Option<Timer> {
        // SAFETY: numbers and a union of numbers and pointers, for which zero is valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = number(Signal::Timer);
        event.sigev_notify_thread_id = thread;
        let mut timer = MaybeUninit::uninit();
        // SAFETY: a valid event, and room for the timer.
        let created =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr()) };
        if created != 0 {
            Need::Timers.granted(false);
            return None;
        }
        // SAFETY: created above.
        let timer = Timer(unsafe { timer.assume_init() });
        Need::Timers.granted(timer.set(period)).then_some(timer)
    }

    /// Sets the period; zero stops the timer. False if the system refuses it.
    pub fn set(&self, period: Duration) -> bool {
        let period = libc::timespec {
            tv_sec: period.as_secs() as _,
            tv_nsec: period.subsec_nanos() as libc::c_long,
        };
        let times = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: a timer of this value, and valid times.
        unsafe { libc::timer_settime(self.0, 0, &times, ptr::null_mut()) == 0 }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: created by `start`, deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Runs a function on a thread started by `pthread_create` alone, and joins it.
///
/// # Errors
///
/// If the system refuses the thread.
pub fn run_on_c_thread(mut work: impl FnMut() + Send) -> io::Result<()> {
    extern "C" fn body(work: *mut c_void) -> *mut c_void {
        // SAFETY: the address of the `&mut dyn FnMut` below, which only this thread uses now.
        let work = unsafe { &mut *work.cast::<&mut (dyn FnMut() + Send)>() };
        work();
        ptr::null_mut()
    }
    let mut work: &mut (dyn FnMut() + Send) = &mut work;
    let argument = (&raw mut work).cast();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the thread gets the address of `work`, which lives until the thread is joined below.
    let result = unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), body, argument) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: started above, joined once.
    match unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A function that a thread calls when it exits.
type Hook = extern "C" fn(*mut c_void);

/// Makes this thread call `hook` with `argument` when it exits, after Rust's destructors: by a
/// thread-specific key of the C library. The first call decides the hook of the process. False if
/// the system has no such key left.
pub fn when_thread_exits(hook: Hook, argument: *const ()) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a C function pointer of the same signature; the key's destructor may be called
        // wherever `hook` may.
        let hook = unsafe { std::mem::transmute::<Hook, unsafe extern "C" fn(*mut c_void)>(hook) };
        // SAFETY: room for the key, and a hook that lives as long as the program.
        (unsafe { libc::pthread_key_create(&mut key, Some(hook)) } == 0).then_some(key)
    });
    // SAFETY: a valid key; only the hook uses its value.
    let set = |key| unsafe { libc::pthread_setspecific(key, argument.cast()) } == 0;
    Need::Hooks.granted(key.is_some_and(set))
}

/// Why no child can be waited for, once that is known: an error number. More children would only
/// become zombies.
static UNWAITED: AtomicI32 = AtomicI32::new(0);

/// Forks; the child runs `check` and exits. The check may use nothing that a thread of the parent
/// might have locked.
///
/// # Errors
///
/// If the system refuses the child, or its result. That is counted, as [`Need::Forks`].
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
        Ok((child::Ending::OutOfMemory, _)) => {
            let source = io::ErrorKind::OutOfMemory.into();
            Need::Forks.record::<()>(Err(&source));
            Err(source)
        }
        Ok((ending, answer)) => {
            Need::Forks.record(Ok(()));
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
            Need::Forks.record::<()>(Err(&source));
            Err(source)
        }
    }
}

/// How busy the machine has been since a moment: to explain why no thread makes progress.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The time of all CPUs, and how much of it the hypervisor gave to other guests.
    time: u64,
    stolen: u64,
}

impl Load {
    /// Returns the load now; `None` where `/proc` does not say.
    pub fn now() -> Option<Load> {
        let text = fs::read_to_string("/proc/stat").ok()?;
        let columns = text.lines().next()?.split_whitespace().skip(1);
        let columns: Vec<u64> = columns.map_while(|column| column.parse().ok()).collect();
        Some(Load {
            // The two last ones are part of the first two.
            time: columns.iter().take(8).sum(),
            stolen: *columns.get(7)?,
        })
    }

    /// Returns what may keep threads from making progress, as a sentence; `None` if the machine is
    /// not virtual and there is a CPU for each thread.
    pub fn cause(self) -> Option<String> {
        let now = Load::now()?;
        let stolen = (now.stolen - self.stolen) * 100 / (now.time - self.time).max(1);
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let is_virtual = cpuinfo.split_whitespace().any(|flag| flag == "hypervisor");
        let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let runnable = loadavg.split([' ', '/']).nth(3)?.parse().unwrap_or(0);
        cause(is_virtual, stolen, runnable, allowed_cpus().len())
    }
}

fn cause(is_virtual: bool, stolen: u64, runnable: usize, cpus: usize) -> Option<String> {
    let machine = match (is_virtual, stolen) {
        (true, 0) => "this is a virtual machine".to_string(),
        (_, 1..) => format!("the hypervisor gave {stolen} % of the CPU time to other guests"),
        (false, 0) => String::new(),
    };
    let threads = match runnable > cpus {
        true => format!("{runnable} threads wait for {cpus} CPUs"),
        false => String::new(),
    };
    let facts = [machine, threads];
    let facts: Vec<&str> = facts
        .iter()
        .map(String::as_str)
        .filter(|fact| !fact.is_empty())
        .collect();
    (!facts.is_empty()).then(|| {
        format!(
            "the machine: {}. Without enough CPU time, a kernel may deliver no signal and run no thread. Repeat this when \
             the machine is idle: a fault of atomseq shows there, too.",
            facts.join(", and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_or_virtual_machine_may_be_the_cause() {
        assert_eq!(cause(false, 0, 2, 2), None);
        let virtual_machine = cause(true, 0, 1, 2).unwrap();
        assert!(
            virtual_machine.contains("a virtual machine. "),
            "{virtual_machine}"
        );
        let busy = cause(true, 37, 9, 2).unwrap();
        assert!(
            busy.contains(
                "gave 37 % of the CPU time to other guests, and 9 threads wait for 2 CPUs"
            ),
            "{busy}"
        );
        assert!(Load::now().is_some());
    }
}
