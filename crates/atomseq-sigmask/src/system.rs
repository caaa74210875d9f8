//! `system`, made of this library's functions: the C library's changes actions and the mask by
//! itself, which the program's handlers may find and change meanwhile.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::action::{sigaction, to_set, unknown};
use crate::mask;
use crate::real::{Function, function};
use crate::thread::{Thread, bit};

/// The signals that are ignored meanwhile.
const IGNORED: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Whether a call is in progress: one within it leaves the actions as they are.
static IS_IN_PROGRESS: AtomicBool = AtomicBool::new(false);
/// What of these signals the program does not ignore: commands do not, either.
static NOT_IGNORED: AtomicU64 = AtomicU64::new(0);

/// A call in progress.
struct Call {
    child: libc::pid_t,
    actions: [libc::sigaction; 2],
    is_outermost: bool,
}

/// `pthread_cleanup_push`'s memory.
#[repr(C)]
struct Cleanup {
    routine: usize,
    argument: usize,
    canceltype: c_int,
    previous: usize,
}

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// `system`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    let thread = Thread::current();
    // SAFETY: null or a string by the contract. Newer versions of the C library do not let the
    // shell take it for an option.
    let is_option = !command.is_null() && matches!(unsafe { *command } as u8, b'-' | b'+');
    // What a child of `vfork` leaves in this memory, if it ends here, is its parent's.
    if thread.is_none_or(Thread::is_vforked) || is_option {
        if let Some(thread) = thread {
            thread.publish();
        }
        // SAFETY: the C library's function of this type, and the caller's promise.
        return unsafe { function!(Function::system, fn(*const c_char) -> c_int)(command) };
    }
    if command.is_null() {
        // SAFETY: a string.
        return c_int::from(unsafe { run(c"exit 0".as_ptr()) } == 0);
    }
    // SAFETY: the caller's promise.
    unsafe { run(command) }
}

/// Runs a command, and returns its status.
unsafe fn run(command: *const c_char) -> c_int {
    let ignore = libc::sigaction {
        sa_sigaction: libc::SIG_IGN,
        ..unknown()
    };
    let mut call = Call {
        child: 0,
        actions: [unknown(); 2],
        is_outermost: !IS_IN_PROGRESS.swap(true, Relaxed),
    };
    if call.is_outermost {
        NOT_IGNORED.store(bit(IGNORED[0]) | bit(IGNORED[1]), Relaxed);
        for (signal, action) in IGNORED.into_iter().zip(&mut call.actions) {
            // SAFETY: valid actions.
            unsafe { sigaction(signal, &ignore, action) };
            if action.sa_sigaction == libc::SIG_IGN {
                NOT_IGNORED.fetch_and(!bit(signal), Relaxed);
            }
        }
    }
    let before = mask::change(libc::SIG_BLOCK, bit(libc::SIGCHLD));
    // SAFETY: the caller's promise.
    let error = unsafe { spawn(command, before, &mut call.child) };
    let status = match error {
        0 => wait(&mut call),
        // As if the shell had ended with 127.
        _ => 127 << 8,
    };
    call.end();
    mask::change(libc::SIG_SETMASK, before);
    if error != 0 {
        mask::set_error(error);
    }
    status
}

/// Starts the shell with the program's mask and actions, and returns an error number.
unsafe fn spawn(command: *const c_char, mask: u64, child: &mut libc::pid_t) -> c_int {
    let reset = NOT_IGNORED.load(Relaxed);
    let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
    let arguments = [c"sh".as_ptr(), c"-c".as_ptr(), command, ptr::null()];
    // SAFETY: zeros are valid memory for attributes, which are initialised; the sets and strings
    // are valid.
    unsafe {
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        libc::posix_spawnattr_init(&mut attributes);
        libc::posix_spawnattr_setsigmask(&mut attributes, &to_set(mask));
        libc::posix_spawnattr_setsigdefault(&mut attributes, &to_set(reset));
        libc::posix_spawnattr_setflags(&mut attributes, flags as i16);
        libc::posix_spawn(
            child,
            c"/bin/sh".as_ptr(),
            ptr::null(),
            &attributes,
            arguments.as_ptr().cast(),
            environ,
        )
    }
}

/// Waits for the shell, and returns its status. A jump out of here, and cancellation, kill it.
fn wait(call: &mut Call) -> c_int {
    type Routine = unsafe extern "C-unwind" fn(*mut Call);
    let mut cleanup = Cleanup {
        routine: 0,
        argument: 0,
        canceltype: 0,
        previous: 0,
    };
    let mut status = 0;
    let child = call.child;
    // SAFETY: the C library's functions of these types; the memory is valid until it is taken back.
    unsafe {
        let push = function!(
            Function::_pthread_cleanup_push,
            fn(*mut Cleanup, Routine, *mut Call)
        );
        let pop = function!(Function::_pthread_cleanup_pop, fn(*mut Cleanup, c_int));
        let wait = function!(
            Function::waitpid,
            fn(libc::pid_t, *mut c_int, c_int) -> libc::pid_t
        );
        push(&raw mut cleanup, abandon, call);
        let ended = loop {
            if let Some(thread) = Thread::current() {
                thread.publish();
            }
            let ended = wait(child, &raw mut status, 0);
            if ended >= 0 || mask::error() != libc::EINTR {
                break ended;
            }
        };
        pop(&raw mut cleanup, 0);
        if ended == child { status } else { -1 }
    }
}

/// The C library calls this for a jump out of [`wait`], and cancellation there.
unsafe extern "C-unwind" fn abandon(call: *mut Call) {
    // SAFETY: the frame of the call is still there.
    let call = unsafe { &mut *call };
    // SAFETY: a child of this process that nothing has waited for.
    unsafe { libc::kill(call.child, libc::SIGKILL) };
    // SAFETY: the status is not stored.
    while unsafe { libc::waitpid(call.child, ptr::null_mut(), 0) } < 0
        && mask::error() == libc::EINTR
    {}
    call.end();
}

impl Call {
    /// Restores the program's actions if this is the outermost call.
    fn end(&mut self) {
        if !self.is_outermost {
            return;
        }
        IS_IN_PROGRESS.store(false, Relaxed);
        for (signal, action) in IGNORED.into_iter().zip(&self.actions) {
            // SAFETY: the program's action.
            unsafe { sigaction(signal, action, ptr::null_mut()) };
        }
    }
}
