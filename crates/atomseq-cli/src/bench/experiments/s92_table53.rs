//! `s92-table53`: S92 5.3.3: a context switch of a thread that uses integer registers only, and of
//! one that uses floating point.
//!
//! Coroutines of `atomseq-threads` switch in two ways. One that yields has saved what it needs, so
//! the switch saves few registers and no floating point. One that a signal preempts saves all
//! registers, and of the extended state what the processor reports as in use; that is the way of
//! Synthesis, whose clock interrupts a thread.

use super::threads::{Counted, switch_atomseq};
#[cfg(target_arch = "x86_64")]
use super::threads::{preempt_signal, preempted};
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::Beside;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "s92-table53",
    about: "S92's table 5.3: switches of coroutines with and without floating point, there and back",
    cases: cases! {
        #[cfg(target_arch = "x86_64")]
        "integer:preempted", "a signal that preempts a coroutine without vector state, and a yield back",
            |_| Counted::boxed(preempted_integer);
        "integer:yield", "two switches by coroutine::yield_now",
            |_| Counted::boxed(switch_atomseq);
        #[cfg(target_arch = "x86_64")]
        "integer:signal", "the signal alone, whose handler does nothing",
            |_| Counted::boxed(preempt_signal);
        #[cfg(target_arch = "x86_64")]
        "floating-point:preempted", "a signal that preempts a coroutine with vector state, and a yield back",
            |_| Counted::boxed(preempted_float);
        #[cfg(target_arch = "x86_64")]
        "floating-point:signal", "the signal alone, as above",
            |_| Counted::boxed(preempt_signal);
    },
    peers: &["signal"],
    method: Method::Timed,
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "S92",
        table: Some("5.3"),
        programs: &[
            ("integer", "Integer registers only"),
            ("floating-point", "Floating-point"),
        ],
        counterparts: &[("preempted", "Synthesis V.1"), ("yield", "Synthesis V.1")],
        sections: &["5.3.3"],
        note: "A figure here is two switches, and where a thread is preempted the delivery of the signal, in which the kernel saves the \
               same registers once more: signal is what that takes. A change of the address space is not measured: coroutines share \
               one, and no program can load the table of translations.",
        ..Beside::NOTHING
    }),
};

#[cfg(target_arch = "x86_64")]
fn preempted_integer(operations: u64) -> u64 {
    // SAFETY: changes registers.
    unsafe { preempted(operations, clear_vectors) }
}

#[cfg(target_arch = "x86_64")]
fn preempted_float(operations: u64) -> u64 {
    // SAFETY: changes registers.
    unsafe { preempted(operations, use_vectors) }
}

/// Puts the vector registers into the state that the processor need not save.
#[cfg(target_arch = "x86_64")]
fn clear_vectors() {
    #[target_feature(enable = "avx")]
    fn clear() {
        std::arch::x86_64::_mm256_zeroall();
    }
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has it.
        unsafe { clear() };
    }
}

/// Leaves numbers in vector registers.
#[cfg(target_arch = "x86_64")]
fn use_vectors() {
    let mut sum = std::hint::black_box(0.5_f64);
    for _ in 0..8 {
        sum = std::hint::black_box(sum * 1.25);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_is_counted() {
        super::super::all_is_accounted_for(&EXPERIMENT, |_| true);
    }
}
