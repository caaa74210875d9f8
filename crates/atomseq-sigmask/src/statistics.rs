//! What `atomseq run --stats` prints at the end, or before the program sets a filter of its calls.

use std::fmt::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed};

use crate::action::{set_of, to_set};
use crate::thread::{Thread, bit};
use crate::{arch, mask, real};

/// The variable with the number of the process that prints.
pub const VARIABLE: &std::ffi::CStr = c"ATOMSEQ_SIGMASK_STATS";

/// The main thread's counts.
pub static MAIN: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());
/// The number of the process that prints, or 0. Children have another one.
static PRINTS: AtomicI32 = AtomicI32::new(0);
/// Standard error as it was at the start: a descriptor, and the file. The program may close number
/// 2, as coreutils do at the end, and another file may get the number.
static COPY: AtomicI32 = AtomicI32::new(-1);
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Looks whether this is the process that prints.
pub fn begin() {
    let Some(wanted) = real::getenv(VARIABLE) else {
        return;
    };
    let wanted = wanted.to_str().ok().and_then(|text| text.parse().ok());
    // Not if it is not asked for: a filter may kill for this call.
    if wanted != Some(arch::process()) {
        return;
    }
    // SAFETY: these calls take numbers.
    unsafe {
        let Some(file) = file(libc::STDERR_FILENO) else {
            return;
        };
        for (word, value) in FILE.iter().zip(file) {
            word.store(value, Relaxed);
        }
        // Far above what the program counts on, if the limit allows it.
        let copy = [1_000, 200, 20]
            .into_iter()
            .map(|least| libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, least))
            .find(|&copy| copy >= 0);
        COPY.store(copy.unwrap_or(-1), Relaxed);
        PRINTS.store(arch::process(), Relaxed);
        libc::pthread_atfork(None, None, Some(forked));
    }
}

/// Closes the copy in a child: a reader would wait for the end of a daemon that has closed its own.
extern "C" fn forked() {
    // Once the line is printed there is no copy, and a filter may kill for a call.
    if PRINTS.swap(0, Relaxed) != 0 {
        let error = mask::error();
        close();
        mask::set_error(error);
    }
}

/// Closes the copy, unless another file has its number.
fn close() {
    let copy = COPY.swap(-1, Relaxed);
    if file(copy) == known() {
        // SAFETY: this library's descriptor.
        unsafe { libc::close(copy) };
    }
}

/// Returns the device and the number of the file at the start.
fn known() -> Option<[u64; 2]> {
    Some(FILE.each_ref().map(|word| word.load(Relaxed)))
}

/// Returns the device and the number of the file of a descriptor.
fn file(descriptor: i32) -> Option<[u64; 2]> {
    // SAFETY: zeros are a valid value, which the kernel writes.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &mut status) == 0).then_some([status.st_dev, status.st_ino])
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

/// Prints once, if this is that process, and no child of it. Works in signal handlers.
pub fn print() {
    // SAFETY: the main thread's block lives as long as the process.
    let Some(main) = (unsafe { MAIN.load(Relaxed).as_ref() }) else {
        return;
    };
    // A program that does not print makes no system call here: a filter may kill it for one.
    if PRINTS.load(Relaxed) == 0 {
        return;
    }
    // A child of `vfork` has this very memory.
    let process = arch::process();
    if PRINTS.load(Relaxed) != process || PRINTS.swap(0, Relaxed) != process {
        return;
    }
    let descriptors = [COPY.load(Relaxed), libc::STDERR_FILENO];
    let Some(descriptor) = descriptors.into_iter().find(|&one| file(one) == known()) else {
        return;
    };
    let sets = main.sets.load(Relaxed);
    // Less than nothing if handlers cost more.
    let saved = sets.wrapping_sub(main.system_calls.load(Relaxed)) as i64;
    let deferred = main.deferred.load(Relaxed);
    let mut line = Line {
        bytes: [0; 200],
        length: 0,
    };
    let _ = writeln!(
        line,
        "atomseq: main thread: {sets} masks set, {saved} system calls saved, {deferred} signals deferred"
    );
    // If the reader is gone, the file's size is limited, or the terminal stops what writes in the
    // background, the exit is still the program's.
    let sent = bit(libc::SIGPIPE) | bit(libc::SIGXFSZ);
    let before = mask::change(libc::SIG_BLOCK, sent | bit(libc::SIGTTOU));
    // SAFETY: valid sets, the line's bytes, and a time that is over.
    unsafe {
        let mut pending = to_set(0);
        libc::sigpending(&mut pending);
        let new = to_set(sent & !set_of(&pending));
        let bytes = line.bytes.as_ptr().cast();
        if libc::write(descriptor, bytes, line.length) < 0 {
            let over: libc::timespec = std::mem::zeroed();
            libc::sigtimedwait(&new, ptr::null_mut(), &over);
        }
    }
    close();
    mask::change(libc::SIG_SETMASK, before);
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C-unwind" fn() = end;

extern "C-unwind" fn end() {
    print();
}
