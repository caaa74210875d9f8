//! The C library's functions that this library's take the place of.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Declares one number and one name a function.
macro_rules! functions {
    ($($name:ident)*) => {
        /// A function of the C library.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        pub enum Function { $($name),* }

        const NAMES: &[&CStr] = &[$(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name with a zero byte"),
            }
        ),*];
    };
}
crate::forward::all_functions!(functions);

/// Their addresses: 0 if not looked for yet.
pub static ADDRESSES: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// Returns a function's address.
#[inline(always)]
pub fn address(function: Function) -> usize {
    // Relaxed: every thread finds the same address.
    match ADDRESSES[function as usize].load(Relaxed) {
        0 => look(function as usize),
        address => address,
    }
}

/// Looks for a function behind this library: constructors of other libraries may call before
/// [`resolve`].
#[cold]
#[inline(never)]
fn look(index: usize) -> usize {
    // SAFETY: names with a zero byte at their ends.
    let address = unsafe { real_dlsym()(libc::RTLD_NEXT, NAMES[index].as_ptr()) };
    let address = match address as usize {
        0 => missing as *const () as usize,
        address => address,
    };
    ADDRESSES[index].store(address, Relaxed);
    address
}

type Dlsym = unsafe extern "C" fn(*mut libc::c_void, *const libc::c_char) -> *mut libc::c_void;

/// Returns the C library's `dlsym`. What a program or another library exports by this name would
/// look behind itself, and find this library.
fn real_dlsym() -> Dlsym {
    static ADDRESS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: every thread finds the same address.
    if ADDRESS.load(Relaxed) == 0 {
        let (name, version) = (c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr());
        // SAFETY: strings.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version) } as usize;
        let found = if found == 0 {
            libc::dlsym as *const () as usize
        } else {
            found
        };
        ADDRESS.store(found, Relaxed);
    }
    // SAFETY: the C library's function of this name and type.
    unsafe { std::mem::transmute::<usize, Dlsym>(ADDRESS.load(Relaxed)) }
}

/// The mark of a copy of this library.
#[unsafe(no_mangle)]
extern "C-unwind" fn atomseq_sigmask() {}

/// Returns whether another copy of this library comes first, so that its functions are called, and
/// this one is its C library.
pub fn is_behind_another() -> bool {
    // SAFETY: a name with a zero byte at its end.
    let first = unsafe { real_dlsym()(libc::RTLD_DEFAULT, c"atomseq_sigmask".as_ptr()) } as usize;
    first != 0 && first != atomseq_sigmask as *const () as usize
}

/// Returns a function of the C library as one of that type, which it must be.
macro_rules! function {
    ($function:expr, fn($($argument:ty),*) $(-> $result:ty)?) => {{
        type Pointer = unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?;
        std::mem::transmute::<usize, Pointer>($crate::real::address($function))
    }};
}
pub(crate) use function;

/// Stands for what this C library does not have.
extern "C-unwind" fn missing() -> isize {
    // SAFETY: the address of this thread's error number.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Looks for all: `dlsym` must not be called in a signal handler.
pub fn resolve() {
    for index in 0..NAMES.len() {
        look(index);
    }
}

/// Calls the C library's `getenv`: before `main`, and the string is only read there.
pub fn getenv(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the C library's function of this type; what it returns is a string.
    unsafe {
        let getenv = function!(
            Function::getenv,
            fn(*const libc::c_char) -> *const libc::c_char
        );
        let value = getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Calls the C library's `exit`.
pub fn exit(status: i32) -> ! {
    // SAFETY: the C library's function of this type.
    unsafe { function!(Function::exit, fn(i32) -> !)(status) }
}

/// Calls the C library's `sigaction`.
///
/// # Safety
///
/// As of `sigaction(2)`.
pub unsafe fn sigaction(
    signal: i32,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> i32 {
    // SAFETY: the C library's function of this type, and the caller's promise.
    unsafe {
        let sigaction = function!(
            Function::sigaction,
            fn(i32, *const libc::sigaction, *mut libc::sigaction) -> i32
        );
        sigaction(signal, action, old)
    }
}
