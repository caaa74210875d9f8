//! Deliveries use no more of an alternate stack than `install_with` has required.
#![cfg(atomseq_sections)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Error, Event, Options};
use verify_signals::add_to_three;
use verify_support::pages::{Page, faults, install_fault_handler};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{
    change_mask, install, install_plainly, install_with, queue_of_timer, raise,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;

/// A byte that no code writes over a whole stack.
const UNTOUCHED: u8 = 0xa5;
/// The memory below the stack that handlers get, so that writes past its end are found.
const BELOW: usize = 256 << 10;
/// More than the three handlers of a test use together.
const HANDLERS: usize = if cfg!(debug_assertions) { 1024 } else { 512 };

/// Memory that holds an alternate stack at its end.
struct Memory(&'static mut [u8]);

impl Memory {
    fn new() -> Memory {
        Memory(Box::leak(vec![0; BELOW + (64 << 10)].into_boxed_slice()))
    }

    /// Gives this thread an untouched alternate stack of `bytes`.
    fn lend(&mut self, bytes: usize) {
        self.0.fill(UNTOUCHED);
        let start = self.0.len() - bytes;
        let stack = libc::stack_t {
            ss_sp: self.0[start..].as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: bytes,
        };
        // SAFETY: memory that is never freed.
        let result = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
        assert_eq!(result, 0);
    }

    /// Returns how many bytes at its end were touched.
    fn used(&self) -> usize {
        let memory = std::hint::black_box(&*self.0);
        let first = memory.iter().position(|&byte| byte != UNTOUCHED);
        first.map_or(0, |first| memory.len() - first)
    }
}

/// Returns the smallest stack that `install_with` accepts for handlers of `HANDLERS` bytes.
fn smallest(memory: &mut Memory, options: Options) -> usize {
    memory.lend(libc::MINSIGSTKSZ);
    fn nothing(_: &mut Event<'_>) {}
    // SAFETY: does nothing.
    let refused = unsafe { signal::install_with(ONE, nothing, options) }.expect_err("too small");
    let Error::AlternateStackTooSmall { needs, .. } = refused else {
        panic!("{refused}");
    };
    needs
}

/// A handler that was not installed for the alternate stack does not run there, even if the thread
/// calls it after one that was.
#[test]
fn kept_signals_come_on_the_thread_s_own_stack() {
    static IS_ON_IT: AtomicBool = AtomicBool::new(false);
    static COUNTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    const TIMER: i32 = libc::SIGALRM;
    fn is_on_alternate_stack() -> bool {
        // SAFETY: zero is valid; only asks.
        unsafe {
            let mut stack: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(std::ptr::null(), &mut stack), 0);
            stack.ss_flags & libc::SS_ONSTACK != 0
        }
    }
    fn on_it(_: &mut Event<'_>) {
        assert!(is_on_alternate_stack());
        COUNTS[0].fetch_add(1, SeqCst);
    }
    fn tick(_: &mut Event<'_>) {
        IS_ON_IT.fetch_or(is_on_alternate_stack(), SeqCst);
        COUNTS[1].fetch_add(1, SeqCst);
    }
    in_fresh_process(this_test!(), || {
        Memory::new().lend(64 << 10);
        install_with(ONE, on_it, Options::new().on_alternate_stack(1024));
        install(TIMER, tick);
        for round in 1..=100 {
            let guard = signal::mask();
            // The first one is deferred, and kept together with the second.
            queue_of_timer(TIMER, 0, 0);
            queue_of_timer(TIMER, 0, 0);
            raise(ONE);
            signal::with_kernel_mask(|| {
                change_mask(libc::SIG_UNBLOCK, &[ONE, TIMER]);
                change_mask(libc::SIG_BLOCK, &[ONE, TIMER]);
            });
            drop(guard);
            assert_eq!(
                COUNTS.each_ref().map(|count| count.load(SeqCst)),
                [round, 2 * round]
            );
        }
        assert!(!IS_ON_IT.load(SeqCst));
    });
}

static PAGE: OnceLock<Page> = OnceLock::new();

/// Returns the size of the kernel's frame on this machine at this time, with a handler that does
/// nothing.
fn frame(memory: &mut Memory) -> usize {
    extern "C" fn nothing(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    memory.lend(32 << 10);
    install_plainly(libc::SIGWINCH, nothing, libc::SA_ONSTACK, &[]);
    raise(libc::SIGWINCH);
    memory.used()
}

/// Returns the room for the frame that `install_with` requires.
fn frame_s_room() -> usize {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: looks up a number.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    (frame as usize).max(libc::MINSIGSTKSZ)
}

/// Runs the handlers of a test, each of which interrupts the previous one. The fault's handler is
/// already installed if it is not atomseq's.
fn fits(outer: signal::Handler, inner: signal::Handler, of_fault: Option<signal::Handler>) {
    let mut memory = Memory::new();
    let frame = frame(&mut memory);
    let options = Options::new().nesting().on_alternate_stack(HANDLERS);
    let needs = smallest(&mut memory, options);
    memory.lend(needs);
    if let Some(of_fault) = of_fault {
        install_with(libc::SIGSEGV, of_fault, options);
    }
    install_with(ONE, outer, options);
    install_with(TWO, inner, options);
    PAGE.get_or_init(Page::new);
    memory.lend(needs);
    raise(ONE);
    let used = memory.used();
    println!("{used} of {needs} bytes, with frames of {frame}");
    assert!(used > 3 * frame, "three frames");
    // Frames are smaller than their reserved room where no large register is in use. This
    // difference must not hide an overrun.
    let room = needs - 3 * frame_s_room() + 3 * frame;
    assert!(used <= room, "{used} of {room} bytes");
}

#[test]
fn a_signal_in_a_handler_and_a_fault_in_that_one_s_handler() {
    in_fresh_process(this_test!(), || {
        fn mend(_: &mut Event<'_>) {
            PAGE.get().expect("made").release();
        }
        fits(send_two, touch, Some(mend));
    });
}

#[test]
fn the_same_with_a_fault_s_handler_that_is_adopted() {
    in_fresh_process(this_test!(), || {
        extern "C" fn mend(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            PAGE.get().expect("made").release();
        }
        install_plainly(libc::SIGSEGV, mend, libc::SA_ONSTACK, &[]);
        fits(send_two, touch, None);
    });
}

fn send_two(_: &mut Event<'_>) {
    raise(TWO);
}

fn touch(_: &mut Event<'_>) {
    let page = PAGE.get().expect("made");
    page.interrupt(0);
    // SAFETY: a word of the page.
    unsafe { page.words(0).write_volatile(1) };
}

/// The second signal's delivery runs a clone, which faults.
#[test]
fn a_signal_in_a_handler_s_sequence_whose_clone_faults() {
    in_fresh_process(this_test!(), || {
        fn outer(_: &mut Event<'_>) {
            let page = PAGE.get().expect("made");
            page.interrupt_again(TWO, 2);
            // SAFETY: three words of the test's.
            unsafe { add_to_three::rolling(page.words(1) as usize, 99) };
        }
        fn nothing(_: &mut Event<'_>) {}
        fn mend(event: &mut Event<'_>) {
            event.chain();
        }
        install_fault_handler();
        fits(outer, nothing, Some(mend));
        assert_eq!(faults().0, 2);
    });
}

/// Overflows the stack of a thread whose alternate stack is the one that the standard library
/// provides, or one of this many bytes in addition to the kernel's frame, with no memory below.
fn overflow(bytes: Option<usize>) {
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        let array = std::hint::black_box([depth; 64]);
        match array[depth as usize % 64] {
            u64::MAX => 0,
            depth => recurse(depth + 1) + array[0],
        }
    }
    fn nothing(_: &mut Event<'_>) {}
    install(ONE, nothing);
    let frame = frame(&mut Memory::new());
    let thread = std::thread::spawn(move || {
        if let Some(bytes) = bytes {
            lend_over_nothing(frame + bytes);
        }
        recurse(0)
    });
    thread.join().expect("it ends the process");
}

/// Gives this thread an alternate stack of `bytes`, directly above an inaccessible page.
fn lend_over_nothing(bytes: usize) {
    const PAGE: usize = 1 << 16;
    let size = bytes.next_multiple_of(PAGE);
    // SAFETY: new memory, whose first page is inaccessible; the stack follows that page, and stays
    // within the memory.
    unsafe {
        let (all, flags) = (PAGE + size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(std::ptr::null_mut(), all, access, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(memory, PAGE, libc::PROT_NONE), 0);
        let stack = libc::stack_t {
            ss_sp: memory.byte_add(PAGE),
            ss_flags: 0,
            ss_size: bytes,
        };
        assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
    }
}

const REPORT: &str = "has overflowed its stack";

/// The standard library reports the overflow in a handler on 8 KiB of stack, which atomseq has
/// adopted.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_stack_overflow_is_reported() {
    if let Some(errors) = killed_in_fresh_process(this_test!(), libc::SIGABRT, || overflow(None)) {
        assert!(errors.contains(REPORT), "{errors}");
    }
}

/// The same on the minimum that `docs::limitations` states, plus what the report itself needs.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_stack_overflow_is_reported_on_the_documented_size() {
    const REPORTING: usize = 1024;
    let bytes = ADOPTED + REPORTING;
    let check = || overflow(Some(bytes));
    if let Some(errors) = killed_in_fresh_process(this_test!(), libc::SIGABRT, check) {
        assert!(errors.contains(REPORT), "{errors}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn control_on_a_smaller_alternate_stack_a_stack_overflow_is_not_reported() {
    let check = || overflow(Some(1024));
    if let Some(errors) = killed_in_fresh_process(this_test!(), libc::SIGSEGV, check) {
        assert!(!errors.contains(REPORT), "{errors}");
    }
}

/// The alternate stack that the delivery of an adopted handler needs in addition to the kernel's
/// frame and the handler, as stated by `docs::limitations`.
const ADOPTED: usize = if cfg!(debug_assertions) { 4096 } else { 2560 };

#[test]
fn an_adopted_handler_takes_what_is_documented() {
    extern "C" fn mend(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        PAGE.get().expect("made").release();
    }
    fn nothing(_: &mut Event<'_>) {}
    /// Returns the stack that a fault and its handler use. The fault is in this program, which has
    /// sequences, or in the C library, which has none, so that its notes are searched.
    fn used(memory: &mut Memory, is_in_library: bool) -> usize {
        memory.lend(32 << 10);
        let page = PAGE.get().expect("made");
        page.interrupt(0);
        // SAFETY: a word of the page.
        unsafe {
            match is_in_library {
                true => _ = libc::memset(page.words(0).cast(), 1, 8),
                false => page.words(0).write_volatile(1),
            }
        }
        memory.used()
    }
    in_fresh_process(this_test!(), || {
        let mut memory = Memory::new();
        PAGE.get_or_init(Page::new);
        install_plainly(libc::SIGSEGV, mend, libc::SA_ONSTACK, &[]);
        let alone = [false, true].map(|is_in_library| used(&mut memory, is_in_library));
        install(ONE, nothing);
        let adopted = [false, true].map(|is_in_library| used(&mut memory, is_in_library));
        println!("{adopted:?} bytes, {alone:?} alone");
        for (adopted, alone) in adopted.into_iter().zip(alone) {
            assert!(adopted > alone);
            assert!(adopted - alone <= ADOPTED, "{} more", adopted - alone);
        }
    });
}
