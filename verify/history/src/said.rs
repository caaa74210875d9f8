//! What is said before the process ends: on standard error itself, since the test harness keeps
//! what `eprintln!` prints, and loses it when the process ends.

use std::io::{Cursor, Write};
use std::panic;
use std::sync::Once;

/// Says it. Handlers may use it: it takes no memory and no lock.
pub fn say(text: impl AsRef<[u8]>) {
    let mut rest = text.as_ref();
    while !rest.is_empty() {
        // SAFETY: these bytes, which the kernel only reads.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(1..) => rest = &rest[written as usize..],
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            // Nobody reads it.
            _ => return,
        }
    }
}

/// From now on, every panic is said in a line, and then told as before. One in a handler ends the
/// process, which loses what was told.
pub fn say_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let payload = panic.payload();
            let message = (payload.downcast_ref::<&str>().copied())
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            // As much of it as there is room for: it takes no memory.
            let mut line = Cursor::new([0; 1_000]);
            let mut name = [0; 16];
            // SAFETY: the kernel writes 16 bytes at most, the last of them 0.
            unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            _ = write!(
                line,
                "thread {} panics",
                str::from_utf8(name).unwrap_or("?")
            );
            if let Some(place) = panic.location() {
                _ = write!(line, " at {place}");
            }
            _ = write!(line, ": {}", message.unwrap_or("?"));
            say(&line.get_ref()[..line.position() as usize]);
            say("\n");
            before(panic);
        }));
    });
}
