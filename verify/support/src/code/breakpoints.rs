//! The bytes of breakpoints, put in and taken out in assembly.
//!
//! A breakpoint may lie in code that this test itself uses; in a debug build even reading a `Cell`
//! is a call. So the handler takes all of them out before it calls anything, and puts those that
//! are still set back in when everything is done.
//!
//! ```text
//! signal ── lift every breakpoint ── the handler in Rust ── plant those still set ── return
//! ```

use std::arch::global_asm;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::signals::Three;

/// A breakpoint; the assembly knows this layout.
#[repr(C)]
struct Entry {
    /// Of the byte.
    address: usize,
    /// What the byte was.
    original: Cell<u8>,
    /// Whether it is to be planted.
    set: Cell<bool>,
    /// Whether it is planted.
    planted: Cell<bool>,
}

/// The breakpoints of one run. Their text is writable, and no other thread runs it.
pub struct Table(Box<[Entry]>);

/// The table in use.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The handler behind [`verify_signal`].
static HANDLER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

impl Table {
    /// Breakpoints at these addresses, none of them set.
    pub fn of(addresses: impl IntoIterator<Item = usize>) -> Table {
        let entries = addresses.into_iter().map(|address| Entry {
            address,
            original: Cell::new(0),
            set: Cell::new(false),
            planted: Cell::new(false),
        });
        Table(entries.collect())
    }

    /// Says whether one is to be planted from the next time on.
    pub fn set(&self, index: usize, set: bool) {
        self.0[index].set.set(set);
    }

    /// Whether it is.
    pub fn is_set(&self, index: usize) -> bool {
        self.0[index].set.get()
    }

    /// Makes this the table in use, and puts in what is set.
    #[inline(always)]
    pub fn plant(&self) {
        COUNT.store(self.0.len(), Ordering::SeqCst);
        ENTRIES.store(self.0.as_ptr().cast_mut(), Ordering::SeqCst);
        // SAFETY: the table is one of writable text, and lives until it is lifted.
        unsafe { verify_plant() };
    }

    /// Takes everything out. The table is not in use any more.
    #[inline(always)]
    pub fn lift(&self) {
        // SAFETY: as in `plant`.
        unsafe { verify_lift() };
        COUNT.store(0, Ordering::SeqCst);
    }
}

/// Takes out every breakpoint of the table in use, from another thread than the one that meets
/// them, before the program ends.
pub fn give_up() {
    // SAFETY: the table is one of writable text. It lives, since the thread that uses it hangs.
    unsafe { verify_lift() };
    COUNT.store(0, Ordering::SeqCst);
}

/// What to install for a signal so that `handler` runs with everything lifted.
pub fn entry(handler: Three) -> Three {
    HANDLER.store(handler as *mut (), Ordering::SeqCst);
    verify_signal
}

unsafe extern "C" {
    fn verify_plant();
    fn verify_lift();
    safe fn verify_signal(
        signal: std::ffi::c_int,
        information: *mut libc::siginfo_t,
        context: *mut std::ffi::c_void,
    );
}

// Registers: r8 the entry, rcx how many are left, r9 the byte's address, al the byte. rdi, rsi and
// rdx, the handler's arguments, stay as they are.
global_asm!(
    ".pushsection .text.verify_breakpoints, \"ax\", @progbits",
    ".globl verify_plant",
    ".hidden verify_plant",
    "verify_plant:",
    "mov rcx, qword ptr [rip + {count}]",   // how many there are
    "mov r8, qword ptr [rip + {entries}]",  // the first
    "20:",                                  //
    "test rcx, rcx",                        // none left?
    "jz 22f",                               // done
    "cmp byte ptr [r8 + 9], 0",             // is it set?
    "je 21f",                               // no
    "cmp byte ptr [r8 + 10], 0",            // is it planted already?
    "jne 21f",                              // yes
    "mov r9, qword ptr [r8]",               // where
    "mov al, byte ptr [r9]",                // what is there
    "mov byte ptr [r8 + 8], al",            // keep it
    "mov byte ptr [r9], 0xcc",              // int3
    "mov byte ptr [r8 + 10], 1",            // planted
    "21:",                                  //
    "add r8, 16",                           // the next
    "dec rcx",                              //
    "jmp 20b",                              //
    "22:",                                  //
    "ret",                                  //
    ".globl verify_lift",
    ".hidden verify_lift",
    "verify_lift:",
    "mov rcx, qword ptr [rip + {count}]",   // how many there are
    "mov r8, qword ptr [rip + {entries}]",  // the first
    "30:",                                  //
    "test rcx, rcx",                        // none left?
    "jz 32f",                               // done
    "cmp byte ptr [r8 + 10], 0",            // is it planted?
    "je 31f",                               // no
    "mov r9, qword ptr [r8]",               // where
    "mov al, byte ptr [r8 + 8]",            // what was there
    "mov byte ptr [r9], al",                // back
    "mov byte ptr [r8 + 10], 0",            // not planted
    "31:",                                  //
    "add r8, 16",                           // the next
    "dec rcx",                              //
    "jmp 30b",                              //
    "32:",                                  //
    "ret",                                  //
    ".globl verify_signal",
    ".hidden verify_signal",
    "verify_signal:",
    "sub rsp, 8",                           // a call aligns the stack to 16 bytes
    "call verify_lift",                     //
    "call qword ptr [rip + {handler}]",     // with the kernel's arguments
    "call verify_plant",                    //
    "add rsp, 8",                           //
    "ret",                                  // to the C library, which returns from the signal
    ".popsection",
    count = sym COUNT,
    entries = sym ENTRIES,
    handler = sym HANDLER,
);
