//! What `atomseq run --stats` prints at the end.

use std::fmt::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use crate::thread::Thread;

/// The variable with the number of the process that prints.
pub const VARIABLE: &std::ffi::CStr = c"ATOMSEQ_SIGMASK_STATS";

/// The main thread's counts.
pub static MAIN: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());
static WANTED: AtomicBool = AtomicBool::new(false);

/// Looks whether this is the process that prints.
pub fn begin() {
    // SAFETY: before `main`, and the string is only read here.
    unsafe {
        let wanted = libc::getenv(VARIABLE.as_ptr());
        if !wanted.is_null() && libc::atoi(wanted) == libc::getpid() {
            WANTED.store(true, Relaxed);
        }
    }
}

/// A line on the stack: no memory is to be had at the end.
struct Line {
    bytes: [u8; 200],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let length = text.len().min(room.len());
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

/// Prints once, if this is that process, and no child of it.
pub fn print() {
    // SAFETY: the main thread's block lives as long as the process.
    let main = unsafe { MAIN.load(Relaxed).as_ref() };
    let (Some(main), true) = (main, WANTED.load(Relaxed)) else {
        return;
    };
    // SAFETY: numbers only, and the variable as above.
    unsafe {
        let wanted = libc::getenv(VARIABLE.as_ptr());
        if wanted.is_null() || libc::atoi(wanted) != libc::getpid() {
            return;
        }
    }
    // After that: a child of `vfork` has this very memory.
    if !WANTED.swap(false, Relaxed) {
        return;
    }
    let sets = main.sets.load(Relaxed);
    let saved = sets.saturating_sub(main.system_calls.load(Relaxed));
    let deferred = main.deferred.load(Relaxed);
    let mut line = Line {
        bytes: [0; 200],
        length: 0,
    };
    let _ = writeln!(
        line,
        "atomseq: main thread: {sets} masks set, {saved} system calls saved, {deferred} signals deferred"
    );
    // SAFETY: the line's bytes.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.length) };
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    print();
}
