//! What a preempted coroutine finds of the floating-point unit when it continues: its own control
//! words and vectors, though another coroutine has changed all of them.

#![cfg(target_arch = "x86_64")]

mod support;

use std::arch::{asm, naked_asm};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use atomseq_threads::coroutine::{self, Builder};

use support::run_with;

/// MXCSR and the x87 control word: all exceptions masked. The preempted coroutine rounds towards
/// zero, the other one up.
const DEFAULT: (u32, u16) = (0x1f80, 0x037f);
const OURS: (u32, u16) = (0x7f80, 0x0f7f);
const THEIRS: (u32, u16) = (0x5f80, 0x0b7f);

/// Runs `ours` in a region, with `theirs` as another coroutine, and returns what it returns, and
/// whether the other one ran meanwhile. The argument of `ours` is a process and a thread: the tick
/// is a signal to these.
fn preempted<R>(theirs: fn(), ours: impl FnOnce(libc::pid_t, libc::pid_t) -> R) -> (R, bool) {
    let run = run_with(Builder::new().slice(Duration::from_secs(3600)), || {
        let has_run = Rc::new(Cell::new(false));
        let others = Rc::clone(&has_run);
        drop(coroutine::spawn(move || {
            others.set(true);
            theirs();
        }));
        // SAFETY: asks for numbers.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        // SAFETY: the callers change registers and memory of their own, and make a system call.
        let result = unsafe { coroutine::preemptible(|| ours(process, thread)) };
        (result, has_run.get())
    });
    run.unwrap()
}

/// Loads `words`, sends this thread a signal, and returns the words that it finds afterwards. First
/// clears the vectors if they should be in the state that the processor need not save.
fn words_after(
    words: (u32, u16),
    clears: bool,
    (process, thread, signal): (libc::pid_t, libc::pid_t, i32),
) -> (u32, u16) {
    let mut found = (0u32, 0u16);
    let clears = clears && std::arch::is_x86_feature_detected!("avx");
    // SAFETY: changes registers and locals. The words are the default ones again at the end. The
    // registers of a system call, and the vectors, are declared.
    unsafe {
        asm!(
            "test {clears:e}, {clears:e}",
            "jz 2f",
            "vzeroall",
            "2:",
            "ldmxcsr [{words}]",
            "fldcw [{words} + 4]",
            "syscall",
            "stmxcsr [{mxcsr}]",
            "fnstcw [{control}]",
            "ldmxcsr [{words} + 8]",
            "fldcw [{words} + 12]",
            clears = in(reg) u32::from(clears),
            words = in(reg) [words.0, u32::from(words.1), DEFAULT.0, u32::from(DEFAULT.1)].as_ptr(),
            mxcsr = in(reg) &raw mut found.0,
            control = in(reg) &raw mut found.1,
            inout("rax") libc::SYS_tgkill => _,
            in("rdi") i64::from(process),
            in("rsi") i64::from(thread),
            in("rdx") i64::from(signal),
            out("rcx") _, out("r11") _,
            clobber_abi("sysv64"),
        );
    }
    found
}

/// Leaves other control words, until it is the turn of the coroutine that was preempted. Nothing
/// computes with floating point until then.
fn leave_words() {
    let words = [THEIRS.0, u32::from(THEIRS.1)];
    // SAFETY: nothing computes until the preempted coroutine has set the default ones.
    unsafe { asm!("ldmxcsr [{0}]", "fldcw [{0} + 4]", in(reg) words.as_ptr()) };
}

#[test]
fn control_words_are_restored() {
    for clears in [false, true] {
        let ours = |process, thread| {
            words_after(OURS, clears, (process, thread, coroutine::DEFAULT_SIGNAL))
        };
        let (found, has_run) = preempted(leave_words, ours);
        assert!(has_run);
        assert_eq!(found, OURS, "vectors cleared: {clears}");
    }
    // The control: a function that is called in the middle leaves its words.
    let mut found = (0u32, 0u16);
    // SAFETY: calls a function that changes the words, which are the default ones again at the end.
    unsafe {
        asm!(
            "call {leave}",
            "stmxcsr [r13]",
            "fnstcw [r14]",
            "ldmxcsr [r12]",
            "fldcw [r12 + 4]",
            leave = sym leave_words_by_call,
            in("r12") [DEFAULT.0, u32::from(DEFAULT.1)].as_ptr(),
            in("r13") &raw mut found.0,
            in("r14") &raw mut found.1,
            clobber_abi("sysv64"),
        );
    }
    assert_eq!(found, THEIRS, "the control");
}

extern "C" fn leave_words_by_call() {
    leave_words();
}

/// The vectors of the widest kind that the processor has, each with a number.
#[repr(align(64))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Vectors([[u64; 8]; 40]);

impl Vectors {
    fn new(seed: u64) -> Vectors {
        let word = |register: usize, at: usize| (register as u64 + 1) << 8 | at as u64 | seed << 32;
        Vectors(core::array::from_fn(|register| {
            core::array::from_fn(|at| word(register, at))
        }))
    }

    /// Returns the registers whose first `words` words differ.
    fn differing(&self, other: &Vectors, registers: &[usize], words: usize) -> Vec<usize> {
        let differs = |&&register: &&usize| self.0[register][..words] != other.0[register][..words];
        registers.iter().filter(differs).copied().collect()
    }
}

/// Defines a function that loads all registers of a kind, does `$between`, and stores them; and one
/// that fills them with other numbers.
macro_rules! registers {
    ($kind:ident, $fill:ident, $load:literal, $register:literal, $($number:literal)*; $($mask:literal)*) => {
        fn $kind(
            from: &Vectors,
            calls: bool,
            (process, thread): (libc::pid_t, libc::pid_t),
        ) -> Vectors {
            let mut to = Vectors([[0; 8]; 40]);
            // SAFETY: the processor has these registers. They and those of a system call and of a
            // call are declared; what is stored lies in `to`.
            unsafe {
                asm!(
                    $(concat!($load, " ", $register, $number, ", [r8 + 64 * ", $number, "]"),)*
                    $(concat!("kmovw k", $mask, ", [r8 + 64 * (32 + ", $mask, ")]"),)*
                    "test r10d, r10d",
                    "jnz 2f",
                    "syscall",
                    "jmp 3f",
                    "2:",
                    "call {fill}",
                    "3:",
                    $(concat!($load, " [r9 + 64 * ", $number, "], ", $register, $number),)*
                    $(concat!("kmovw [r9 + 64 * (32 + ", $mask, ")], k", $mask),)*
                    fill = sym $fill,
                    in("r8") from,
                    in("r9") &raw mut to,
                    in("r10") u64::from(calls),
                    inout("rax") libc::SYS_tgkill => _,
                    in("rdi") i64::from(process),
                    in("rsi") i64::from(thread),
                    in("rdx") i64::from(coroutine::DEFAULT_SIGNAL),
                    out("rcx") _, out("r11") _,
                    clobber_abi("sysv64"),
                );
            }
            to
        }

        /// Changes the registers of its kind, and no other but rax.
        #[unsafe(naked)]
        extern "C" fn $fill() {
            naked_asm!(
                "lea rax, [rip + {theirs}]",
                $(concat!($load, " ", $register, $number, ", [rax + 64 * ", $number, "]"),)*
                $(concat!("kmovw k", $mask, ", [rax + 64 * (32 + ", $mask, ")]"),)*
                "ret",
                theirs = sym THEIR_VECTORS,
            )
        }
    };
}

static THEIR_VECTORS: Vectors = Vectors([[u64::MAX; 8]; 40]);

registers!(sse, fill_sse, "movups", "xmm", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;);
registers!(avx, fill_avx, "vmovups", "ymm", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;);
registers!(avx512, fill_avx512, "vmovups", "zmm",
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31;
    1 2 3 4 5 6 7);

/// A kind of registers.
struct Kind {
    name: &'static str,
    is_there: bool,
    /// Loads them, has the tick or the call, and returns them.
    around: fn(&Vectors, bool, (libc::pid_t, libc::pid_t)) -> Vectors,
    /// Changes them.
    others: fn(),
    count: usize,
    /// The words of each.
    words: usize,
}

#[test]
fn vectors_are_restored() {
    fn others(fill: extern "C" fn()) {
        // SAFETY: all that it changes is declared.
        unsafe { asm!("call {}", in(reg) fill, clobber_abi("sysv64")) };
    }
    let kinds = [
        Kind {
            name: "SSE",
            is_there: true,
            around: sse,
            others: || others(fill_sse),
            count: 16,
            words: 2,
        },
        Kind {
            name: "AVX",
            is_there: std::arch::is_x86_feature_detected!("avx"),
            around: avx,
            others: || others(fill_avx),
            count: 16,
            words: 4,
        },
        Kind {
            name: "AVX-512",
            is_there: std::arch::is_x86_feature_detected!("avx512f"),
            around: avx512,
            others: || others(fill_avx512),
            count: 32,
            words: 8,
        },
    ];
    for kind in kinds {
        let (name, count, words) = (kind.name, kind.count, kind.words);
        if !kind.is_there {
            println!("{name}: not on this processor");
            continue;
        }
        let registers: Vec<_> = (0..count).collect();
        let masks: Vec<_> = match words {
            8 => (33..40).collect(),
            _ => Vec::new(),
        };
        let expected = Vectors::new(1);
        let differing = |found: &Vectors| {
            let mut differing = expected.differing(found, &registers, words);
            // A mask is of 16 bits.
            let low = |vectors: &Vectors, mask: usize| vectors.0[mask][0] as u16;
            let differs = |mask: &&usize| low(&expected, **mask) != low(found, **mask);
            differing.extend(masks.iter().filter(differs));
            differing
        };
        let (found, has_run) = preempted(kind.others, |process, thread| {
            (kind.around)(&expected, false, (process, thread))
        });
        assert!(has_run, "{name}");
        assert_eq!(differing(&found), [0usize; 0], "{name}");
        let changed = differing(&(kind.around)(&expected, true, (0, 0)));
        assert_eq!(changed.len(), count + masks.len(), "{name}: the control");
    }
}
