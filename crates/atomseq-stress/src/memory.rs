//! What the command does when the system refuses memory: it exits with a sentence, instead of a
//! report that blames what is measured or tested.
//!
//! There are three ways to get there. An allocation of the command fails ([`refused`]). The Rust
//! standard library or atomseq panics, when a thread is started for instance ([`watch`] replaces
//! the panic hook). The C library aborts, as glibc does when it cannot register a thread's
//! destructor ([`end_if_aborted_for_it`] reads the message that glibc keeps of it).

use std::io::Write;

/// The exit code after that.
pub const EXIT_CODE: i32 = 1;

/// Exits because an allocation of so many bytes was refused.
#[cold]
pub fn refused(bytes: usize) -> ! {
    end(format_args!("the system refused {bytes} bytes of memory"))
}

/// Exits. It does not allocate, and may be called in a signal handler.
fn end(what: std::fmt::Arguments<'_>) -> ! {
    let mut text = [0_u8; 512];
    let mut rest = &mut text[..];
    // What does not fit is cut off.
    let _ = writeln!(
        rest,
        "atomseq: {what}, so there is no result; raise the limit on memory (`ulimit -v`, the container's)"
    );
    let left = rest.len();
    let text = &text[..text.len() - left];
    #[cfg(unix)]
    // SAFETY: a text of this length; the second call ends the process.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(EXIT_CODE)
    }
    #[cfg(not(unix))]
    {
        let _ = std::io::stderr().write_all(text);
        std::process::exit(EXIT_CODE)
    }
}

/// Makes panics and aborts for lack of memory exit as [`refused`] does. Others do what they did.
pub fn watch() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        let text = text.map(String::as_str);
        let text = text.or_else(|| panic.payload().downcast_ref::<&str>().copied());
        let text = text.unwrap_or_default();
        if is_short() {
            end(format_args!("memory is short ({text})"));
        }
        usual(panic);
    }));
    #[cfg(target_os = "linux")]
    {
        glibc::find();
        // SAFETY: `sigaction` is numbers and a set of bits, for which zero is valid; the handler
        // only makes calls that are allowed in one. Unless it ends the process, `abort` does when
        // it returns.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = aborted as *const () as usize;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(libc::SIGABRT, &action, std::ptr::null_mut());
        }
    }
}

#[cfg(target_os = "linux")]
extern "C" fn aborted(_signal: libc::c_int) {
    end_if_aborted_for_it();
}

/// Exits with a sentence if the process aborts for lack of memory. For handlers of
/// [`libc::SIGABRT`].
#[cfg(target_os = "linux")]
pub fn end_if_aborted_for_it() {
    if let Some(text) = glibc::message().filter(|text| text.contains("memory")) {
        end(format_args!("the C library aborted ({})", text.trim_end()));
    }
    if is_short() {
        end(format_args!("memory is short, and a library aborted"));
    }
}

/// What glibc says when it aborts. Memory may be there again by then: another thread may have
/// freed some. So the message, not the memory left, distinguishes such an abort from a crash.
#[cfg(target_os = "linux")]
mod glibc {
    use std::sync::atomic::{AtomicPtr, Ordering};

    /// glibc's record of its last fatal message: a variable of it that debuggers read, too.
    #[repr(C)]
    struct Message {
        /// The size of the mapping that holds it.
        size: libc::c_uint,
        text: [u8; 0],
    }

    static VARIABLE: AtomicPtr<*const Message> = AtomicPtr::new(std::ptr::null_mut());

    /// Looks the variable up, which a signal handler must not do.
    pub fn find() {
        // SAFETY: a name that ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__abort_msg".as_ptr()) };
        // Relaxed, here and below: an address of a variable that was there before.
        VARIABLE.store(found.cast(), Ordering::Relaxed);
    }

    /// Returns the message, if there is one. Async-signal-safe.
    pub fn message() -> Option<&'static str> {
        let variable = VARIABLE.load(Ordering::Relaxed);
        // SAFETY: null, or glibc's variable, which glibc writes before it aborts.
        let message = unsafe { variable.as_ref()?.as_ref()? };
        let room = (message.size as usize).saturating_sub(size_of::<Message>());
        let text = (&raw const message.text).cast::<libc::c_char>();
        // SAFETY: glibc's text lies behind the size, ends with a zero byte within the mapping, and
        // is never unmapped while the process aborts.
        let bytes = unsafe {
            let length = libc::strnlen(text, room);
            std::slice::from_raw_parts(text.cast::<u8>(), length)
        };
        std::str::from_utf8(bytes).ok()
    }
}

/// Returns whether there is less memory left than a C library asks for at a time.
fn is_short() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: a new mapping, at an address of the kernel's choice, that only this function uses.
    unsafe {
        const BYTES: usize = 16 << 20;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let room = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_NONE, flags, -1, 0);
        if room == libc::MAP_FAILED {
            return true;
        }
        libc::munmap(room, BYTES);
    }
    false
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;
    use crate::child::{self, Ending};

    /// Lets glibc abort with this message in a child.
    fn abort_with(message: &std::ffi::CStr) -> Ending {
        // SAFETY: a name that ends with a zero byte.
        let fatal = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_fatal".as_ptr()) };
        assert!(!fatal.is_null(), "glibc has it");
        let ended = child::fork(0, |_| {
            watch();
            // SAFETY: glibc's function of this signature; it aborts.
            unsafe {
                let fatal: extern "C" fn(*const libc::c_char) -> ! = std::mem::transmute(fatal);
                fatal(message.as_ptr())
            }
        });
        ended.expect("a child").0
    }

    #[test]
    fn an_abort_of_glibc_for_lack_of_memory_is_no_crash() {
        let message = c"Fatal glibc error: failed to register TLS destructor: out of memory\n";
        assert_eq!(abort_with(message), Ending::OutOfMemory);
        // The control: an abort for another reason.
        let ended = abort_with(c"*** stack smashing detected ***\n");
        assert_eq!(ended, Ending::Died(libc::SIGABRT));
    }
}
