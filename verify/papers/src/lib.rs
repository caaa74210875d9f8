//! Tools for tests of the emulated instruction: the program's own handlers of faults, as they were
//! written long before atomseq, and addresses that cannot be written.
#![cfg(target_os = "linux")]

use std::ffi::c_int;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicUsize};

/// What a handler was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its first argument.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`.
    pub address: usize,
    /// Of the interrupted thread.
    pub program_counter: usize,
}

static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_COUNTER: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicI32 = AtomicI32::new(0);

/// The last fault, and how many there were.
pub fn seen() -> (Seen, i32) {
    let seen = Seen {
        signal: SIGNAL.load(SeqCst),
        code: CODE.load(SeqCst),
        address: ADDRESS.load(SeqCst),
        program_counter: PROGRAM_COUNTER.load(SeqCst),
    };
    (seen, COUNT.load(SeqCst))
}

/// Notes a fault. To be called by a handler, with what it got.
///
/// # Safety
///
/// In a handler with `SA_SIGINFO`.
pub unsafe fn note(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SIGNAL.store(signal, SeqCst);
    // SAFETY: the kernel's record and context.
    unsafe {
        CODE.store((*info).si_code, SeqCst);
        ADDRESS.store((*info).si_addr() as usize, SeqCst);
        PROGRAM_COUNTER.store(program_counter(context).read() as usize, SeqCst);
    }
    COUNT.fetch_add(1, SeqCst);
}

/// Where the interrupted thread's program counter is saved.
#[cfg(target_arch = "x86_64")]
pub fn program_counter(context: *mut libc::c_void) -> *mut u64 {
    // SAFETY: a handler's context; only an address is made.
    unsafe {
        (&raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize])
            .cast()
    }
}

/// Where the interrupted thread's program counter is saved.
#[cfg(target_arch = "aarch64")]
pub fn program_counter(context: *mut libc::c_void) -> *mut u64 {
    // SAFETY: a handler's context; only an address is made.
    unsafe { &raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc }
}

const PAGE: usize = 4096;

/// Fresh memory, never unmapped.
pub fn pages(count: usize, protection: c_int) -> usize {
    // SAFETY: a new mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            count * PAGE,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

/// Changes what may be done with a page.
pub fn protect(page: usize, protection: c_int) {
    // SAFETY: a page of `pages`.
    let result = unsafe { libc::mprotect(page as *mut _, PAGE, protection) };
    assert_eq!(result, 0);
}

/// A page that may be read, and holds 0.
pub fn read_only() -> usize {
    let page = pages(1, libc::PROT_READ);
    // SAFETY: it may be read.
    assert_eq!(unsafe { (page as *const u32).read_volatile() }, 0);
    page
}

/// A page that is not there any more.
pub fn unmapped() -> usize {
    let page = pages(1, libc::PROT_READ);
    // SAFETY: nobody uses it.
    assert_eq!(unsafe { libc::munmap(page as *mut _, PAGE) }, 0);
    page
}

/// A page of a file that has none.
pub fn beyond_the_end_of_a_file() -> usize {
    // SAFETY: a new file without a name, and a new mapping of it.
    let page = unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        assert!(file >= 0);
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    page as usize
}

/// The instruction that traps, executed at any address.
#[cfg(atomseq_sections)]
pub mod instruction {
    use std::ffi::c_void;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use atomseq_papers::emulation::test_and_set_at;

    /// Executes the instruction, at the same place every time; returns what the word was.
    #[inline(never)]
    pub fn execute(address: usize) -> u32 {
        // SAFETY: good addresses are words that these tests access in no other way meanwhile; the
        // rest are what is tested.
        unsafe { test_and_set_at(address as *mut u32) }
    }

    /// Where the instruction is: where its fault was.
    pub static HERE: AtomicUsize = AtomicUsize::new(0);

    /// A handler that notes the fault, and goes on behind the instruction.
    #[allow(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "the type of handlers in these tests; only the kernel calls it"
    )]
    pub extern "C" fn note_and_skip(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the kernel gave.
        unsafe { crate::note(signal, info, context) };
        let counter = crate::program_counter(context);
        // SAFETY: in the context; the instruction's length follows from its first bytes, and its
        // result is nobody's.
        unsafe {
            HERE.store(counter.read() as usize, SeqCst);
            counter.write(counter.read() + length(counter.read() as usize));
        }
    }

    /// How long the instruction at an address is, and is it one?
    #[cfg(target_arch = "x86_64")]
    pub fn length(at: usize) -> u64 {
        // SAFETY: code, which may be read.
        let byte = |offset: usize| unsafe { ((at + offset) as *const u8).read() };
        let prefix = usize::from(byte(0) >> 4 == 4);
        assert_eq!(
            (byte(prefix), byte(prefix + 1)),
            (0x0f, 0xb9),
            "no ud1 at {at:#x}"
        );
        let is_indexed = byte(prefix + 2) & 7 == 4;
        (prefix + 7 + usize::from(is_indexed)) as u64
    }

    /// How long the instruction at an address is, and is it one?
    #[cfg(target_arch = "aarch64")]
    pub fn length(at: usize) -> u64 {
        // SAFETY: code, which may be read.
        let word = unsafe { (at as *const u32).read() };
        assert_eq!(word >> 16, 0, "no udf at {at:#x}");
        8
    }
}
