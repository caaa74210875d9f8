//! `m94-crossover`: M94 4.3: how often may a sequence be interrupted until rolling it forward costs
//! more than an interlocked instruction, which needs no rollforward?
//!
//! Where one sequence of k is interrupted, a sequence takes on average
//!
//! ```text
//! rolling       base + O_S + (I + O_R) / k        O_S, O_H: what it adds to the bare sequence
//! interlocked   base + O_H + I / k                I:        an interruption with a bare handler
//! ```
//!
//! so both take the same at k = O_R / (O_H - O_S). A sequence that takes D_A is interrupted once
//! in k times by interrupts of the rate 1 / (k D_A), M94's R_I, if they come at random. O_R is
//! measured as what a rolled interruption takes longer than one with a bare handler. It contains
//! the price of an interrupt that M94 neglects, and no inspection, which atomseq's table spares it.
//!
//! The cases `below` and `above` run both at an eighth and at eight times that rate. There rolling
//! is to take less and more than the interlocked instruction. The interruptions are those of
//! `rollforward-cost`, in the middle of the sequence.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use super::rollforward_cost::interruption::{Catcher, NONE, Snare, count};
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::{Beside, Difference};
use crate::bench::crew::measure_aside;
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::bench::signals::{self, BARE, MANAGED};
use crate::bench::statistics::Summary;
use crate::error::{Error, Refused};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "m94-crossover",
    about: "how often interrupts may come until rollforward loses to an interlocked instruction (always 1 thread)",
    cases: cases! {
        "never:rolling", "a sequence that counts, rolled forward if interrupted; it never is";
        "never:interlocked", "an interlocked addition, never interrupted";
        "never:none", "the sequence without protection, never interrupted";
        "always:rolling", "the sequence, interrupted each time and rolled forward";
        "always:interlocked", "the addition, interrupted each time, with a handler of sigaction's";
        "below:rolling", "the sequence, interrupted at an eighth of the rate where both take the same";
        "below:interlocked", "the addition, interrupted at that rate";
        "above:rolling", "the sequence, interrupted at eight times the rate where both take the same";
        "above:interlocked", "the addition, interrupted at that rate";
        "interval:crossover", "sequences for each that is interrupted, where both take the same";
        "rate:crossover", "the rate of interrupts at which that is so, sequences running all the time";
        "rate:interrupts-only", "the rate of a thread that does nothing but be interrupted, always:interlocked";
    },
    peers: &["interlocked", "none", "interrupts-only"],
    method: Method::Own { threads: 1, run },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "M94",
        differences: &[
            Difference {
                name: "O_S",
                of: "rolling",
                over: "none",
            },
            Difference {
                name: "O_H",
                of: "interlocked",
                over: "none",
            },
        ],
        sections: &["4.3"],
        note: "M94 compares with PALcode, the Alpha's best hardware scheme; here that is an interlocked instruction. Beyond \
               the rate of interrupts-only, no rate of interrupts can be reached.",
        ..Beside::NOTHING
    }),
};

/// A way to count, and the signal that interrupts it.
type Way = (unsafe fn(&Snare, u64, u64), libc::c_int);

/// Rolling, interlocked, bare.
const WAYS: [Way; 3] = [
    (repeat::<Rolling>, MANAGED),
    (repeat::<Interlocked>, BARE),
    (repeat::<Unprotected>, NONE),
];

const NEVER: [&str; 3] = ["never:rolling", "never:interlocked", "never:none"];
const ALWAYS: [&str; 2] = ["always:rolling", "always:interlocked"];
/// With how many times the crossover's sequences for each interruption.
const SIDES: [([&str; 2], f64); 2] = [
    (["below:rolling", "below:interlocked"], 8.0),
    (["above:rolling", "above:interlocked"], 0.125),
];

/// The sequences of a run that is never interrupted.
const SEQUENCES: u64 = 100_000;

/// The interruptions of a run that is. Where every sequence is, each is timed alone, in turns, and
/// the median counts.
const INTERRUPTIONS: usize = 256;

/// Counts one more than what the word's address leads to.
trait Form {
    /// # Safety
    ///
    /// As for [`count`]'s forms.
    unsafe fn once(word: usize, counted: usize);
}

struct Rolling;
struct Unprotected;
struct Interlocked;

impl Form for Rolling {
    #[inline(always)]
    unsafe fn once(word: usize, counted: usize) {
        // SAFETY: the caller's promise.
        unsafe { count::rolling(word, counted) }
    }
}

impl Form for Unprotected {
    #[inline(always)]
    unsafe fn once(word: usize, counted: usize) {
        // SAFETY: the caller's promise.
        unsafe { count::unprotected(word, counted) }
    }
}

impl Form for Interlocked {
    #[inline(always)]
    unsafe fn once(word: usize, _counted: usize) {
        // SAFETY: the caller's promise: a word, which leads to another, or to a page whose fault
        // is repaired. Relaxed: the words are one thread's.
        unsafe {
            let address = AtomicUsize::from_ptr(word as *mut usize).load(Ordering::Relaxed);
            AtomicUsize::from_ptr(address as *mut usize).fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Counts that many times, interrupted once in `every` times.
///
/// # Safety
///
/// A [`Catcher`] lives, and the snare is laid, on the thread that made it.
#[inline(never)]
unsafe fn repeat<F: Form>(snare: &Snare, times: u64, every: u64) {
    let [word, counted] = snare.words();
    snare.set(false);
    let mut left = every;
    for _ in 0..times {
        left -= 1;
        if left == 0 {
            left = every;
            snare.set(true);
        }
        // SAFETY: both words live as long as the snare, and the catcher repairs the fault.
        unsafe { F::once(word, counted) };
    }
}

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    signals::manage()?;
    signals::install_bare()?;
    measure_aside(advance, |shares| measure(effort, shares))
}

/// What the ways do on one thread.
struct Counter {
    snare: Snare,
    /// How often each was to count, and each signal to arrive.
    expected: [u64; 2],
    received: u64,
    _catcher: Catcher,
}

impl Counter {
    fn new() -> Result<Self, Refused> {
        Ok(Self {
            snare: Snare::new()?,
            expected: [0; 2],
            received: 0,
            _catcher: Catcher::new()?,
        })
    }

    /// Nanoseconds a sequence, one of `every` interrupted.
    fn time(&mut self, way: Way, times: u64, every: u64) -> f64 {
        let (repeat, signal) = way;
        let before = signals::received();
        self.snare.send(signal);
        self.snare.lay();
        let start = Instant::now();
        // SAFETY: the catcher lives, and the snare is this thread's and has just been laid.
        unsafe { repeat(&self.snare, times, every) };
        let took = start.elapsed().as_nanos() as f64;
        self.snare.take_up();
        self.received += signals::received().since(before).total();
        self.expected[0] += times;
        self.expected[1] += times / every;
        took / times as f64
    }

    /// Nanoseconds of an interrupted sequence, each way.
    fn interruptions(&mut self, ways: [Way; 2]) -> [f64; 2] {
        let mut took = [[0.0; INTERRUPTIONS]; 2];
        for turn in 0..INTERRUPTIONS {
            for (way, took) in ways.into_iter().zip(&mut took) {
                took[turn] = self.time(way, 1, 1);
            }
        }
        took.map(|mut took| {
            took.sort_by(f64::total_cmp);
            took[INTERRUPTIONS / 2]
        })
    }

    /// Whether every sequence had its effect, and every signal arrived.
    fn check(&self) -> Option<Fault> {
        let found = [self.snare.counted(), self.received];
        let [counted, received] = found;
        (found != self.expected).then(|| {
            let [times, signals] = self.expected;
            let sentence = format!(
                "{counted} sequences of {times} had their effect, {received} signals of {signals} arrived"
            );
            sentence.into()
        })
    }
}

/// One round's figures, in nanoseconds.
#[derive(Clone, Copy)]
struct Round {
    never: [f64; 3],
    always: [f64; 2],
}

impl Round {
    fn take(counter: &mut Counter) -> Self {
        let [rolling, interlocked, _] = WAYS;
        Self {
            never: WAYS.map(|way| counter.time(way, SEQUENCES, u64::MAX)),
            always: counter.interruptions([rolling, interlocked]),
        }
    }

    /// The sequences for each interruption where both take the same.
    fn crossover(&self) -> f64 {
        let [rolling, interlocked, _] = self.never;
        let saved = interlocked - rolling;
        let rollforward = self.always[0] - self.always[1] + saved;
        rollforward / saved
    }

    /// That as a rate, in kHz.
    fn rate(&self) -> f64 {
        1e6 / (self.crossover() * self.never[2])
    }
}

/// The rounds, on this thread.
fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Results, Error> {
    let mut counter = Counter::new()?;
    let started = Instant::now();
    let rounds: Vec<_> = (0..effort.warm_up + Effort::MIN_ROUNDS)
        .map(|_| Round::take(&mut counter).crossover())
        .collect();
    // Where the sides are: fixed before the rounds that are reported.
    let crossover = Summary::of(&rounds).map_or(f64::NAN, |summary| summary.median);
    let has_sides = crossover.is_finite() && crossover >= 1.0;
    let (mut taken, mut sides) = (Vec::new(), [const { [Vec::new(), Vec::new()] }; 2]);
    for round in 0..effort.rounds {
        taken.push(Round::take(&mut counter));
        if has_sides {
            for ((_, times), side) in SIDES.iter().zip(&mut sides) {
                let every = (crossover * times).ceil().max(1.0) as u64;
                for (way, values) in WAYS.into_iter().zip(side) {
                    values.push(counter.time(way, INTERRUPTIONS as u64 * every, every));
                }
            }
        }
        let spent = started.elapsed().as_secs_f64() / effort.budget.as_secs_f64();
        // The receiver may be gone, which is no reason to stop.
        let _ = shares.send(
            spent
                .max((round + 1) as f64 / effort.rounds as f64)
                .min(1.0),
        );
        if spent >= 1.0 && round + 1 >= Effort::MIN_ROUNDS {
            break;
        }
    }
    counter.snare.all_sent()?;
    let mut measured = Results::default();
    let mut add = |case, unit, values: Vec<f64>| {
        // A crossover is none where a round has found the interlocked instruction no dearer.
        let untried =
            || Fault::untried("the interlocked instruction costs no more than the sequence here");
        let is_there = !values.is_empty() && values.iter().all(|value| *value > 0.0);
        let fault = counter.check().or_else(|| (!is_there).then(untried));
        measured.add(Series { case, unit, values }, fault);
    };
    let all = |of: &dyn Fn(&Round) -> f64| taken.iter().map(of).collect::<Vec<_>>();
    for (index, case) in NEVER.into_iter().enumerate() {
        add(case, "ns/op", all(&|round| round.never[index]));
    }
    for (index, case) in ALWAYS.into_iter().enumerate() {
        add(case, "ns/op", all(&|round| round.always[index]));
    }
    for ((cases, _), side) in SIDES.into_iter().zip(sides) {
        for (case, values) in cases.into_iter().zip(side) {
            add(case, "ns/op", values);
        }
    }
    add("interval:crossover", "sequences", all(&Round::crossover));
    add("rate:crossover", "kHz", all(&Round::rate));
    add(
        "rate:interrupts-only",
        "kHz",
        all(&|round| 1e6 / round.always[1]),
    );
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossover_is_where_both_take_the_same() {
        let round = Round {
            never: [2.0, 7.0, 1.0],
            always: [4_000.0, 3_505.0],
        };
        let every = round.crossover();
        let [rolling, interlocked] = [0, 1].map(|way| {
            let interruption = round.always[way] - round.never[way];
            round.never[way] + interruption / every
        });
        assert_eq!((every, rolling), (100.0, interlocked));
        assert_eq!(round.rate(), 10_000.0);
    }

    #[test]
    fn every_sequence_has_its_effect_and_every_signal_arrives() {
        signals::manage().unwrap();
        signals::install_bare().unwrap();
        let mut counter = Counter::new().unwrap();
        for way in &WAYS[..2] {
            for every in [1, 3, u64::MAX] {
                counter.time(*way, 30, every);
            }
        }
        assert_eq!((counter.check(), counter.received), (None, 80));
        // The control: one that was not counted.
        counter.expected[0] += 1;
        let fault = counter.check().unwrap().sentence;
        assert_eq!(
            fault,
            "180 sequences of 181 had their effect, 80 signals of 80 arrived"
        );
    }
}
