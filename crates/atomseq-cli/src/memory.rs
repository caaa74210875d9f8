//! What happens where the system refuses memory: the process ends in a sentence, which blames
//! nothing that is measured or tested. The command's own allocations are one way to get there.
//! Others are Rust's library and the C library, which panic or abort, where they start a thread for
//! instance, and atomseq, whose constructors panic.

use std::io::Write;

/// The exit code after that.
pub const EXIT_CODE: i32 = 1;

/// An allocation of so many bytes was refused.
#[cold]
pub fn refused(bytes: usize) -> ! {
    end(format_args!("the system refused {bytes} bytes of memory"))
}

/// Ends the process. It does not allocate, and may be called in a signal handler.
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

/// From now on, panics and aborts for want of memory end the process as [`refused`] does. Others do
/// what they did.
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
    // SAFETY: `sigaction` is numbers and a set of bits, for which zero is a value; the handler
    // makes calls only that are allowed in one. Unless it ends the process, `abort` ends it when it
    // returns.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = aborted as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND;
        libc::sigaction(libc::SIGABRT, &action, std::ptr::null_mut());
    }
}

#[cfg(target_os = "linux")]
extern "C" fn aborted(_signal: libc::c_int) {
    end_if_short();
}

/// Ends the process if memory is short. For handlers of [`libc::SIGABRT`].
#[cfg(target_os = "linux")]
pub fn end_if_short() {
    if is_short() {
        end(format_args!("memory is short, and a library aborted"));
    }
}

/// Is there less memory left than a C library asks for at a time?
fn is_short() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: a new mapping, at an address of the kernel's choice, which is nobody else's when it
    // is taken away again.
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
