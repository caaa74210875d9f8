//! Linux: threads that Rust did not start, and hooks that Rust does not run.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use crate::torture::needs::Need;

/// Runs a function on a thread made by `pthread_create` alone, and waits for its end.
///
/// # Errors
///
/// If the system refuses the thread.
pub fn run_on_c_thread(mut work: impl FnMut() + Send) -> io::Result<()> {
    let mut work: &mut (dyn FnMut() + Send) = &mut work;
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the thread gets the address of `work`, which lives until the thread has been waited
    // for below.
    let result = unsafe {
        libc::pthread_create(
            thread.as_mut_ptr(),
            ptr::null(),
            body,
            (&raw mut work).cast(),
        )
    };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: started above, waited for once.
    let result = unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) };
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

extern "C" fn body(work: *mut c_void) -> *mut c_void {
    // SAFETY: the address of the `&mut dyn FnMut` in `run_on_c_thread`, which this thread alone
    // uses now.
    let work = unsafe { &mut *work.cast::<&mut (dyn FnMut() + Send)>() };
    work();
    ptr::null_mut()
}

/// What a thread calls when it ends.
type Hook = extern "C" fn(*mut c_void);

/// Has `hook` called with `argument` when this thread ends, after Rust's own destructors: by a
/// thread-specific key of the C library. The first call decides the hook for the process. False
/// when the system has no such key left.
pub fn when_thread_ends(hook: Hook, argument: *const ()) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a C function pointer of the same form; calling it is sound wherever calling
        // `hook` is.
        let hook = unsafe { std::mem::transmute::<Hook, unsafe extern "C" fn(*mut c_void)>(hook) };
        // SAFETY: room for the key, and a hook that lives as long as the program.
        (unsafe { libc::pthread_key_create(&mut key, Some(hook)) } == 0).then_some(key)
    });
    // SAFETY: a key that exists; its value only goes to the hook.
    let set = |key| unsafe { libc::pthread_setspecific(key, argument.cast()) } == 0;
    Need::Hooks.granted(key.is_some_and(set))
}
