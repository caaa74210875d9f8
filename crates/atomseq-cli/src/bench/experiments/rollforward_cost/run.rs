//! Interrupting a thread in one way, timed and checked.

use std::cell::Cell;
use std::time::Instant;

use super::interruption::{Catcher, IGNORED, NONE, Snare};
use super::ways::{Arrival, Way};
use crate::bench::fault::Fault;
use crate::bench::signals::{self, BARE, Received};
use crate::error::Refused;

/// Interruptions of each kind that a value is the median of: a run that the scheduler broke into is
/// one among them.
const INTERRUPTIONS: usize = 101;

/// How long interruptions of each kind took, in nanoseconds.
pub struct Took {
    /// With a signal that is delivered.
    pub delivered: f64,
    /// With a signal that is ignored.
    pub ignored: f64,
    /// Without a signal.
    pub nothing: f64,
}

/// A way on the thread that it was made on.
pub struct Run {
    /// The way.
    pub way: &'static Way,
    snare: Snare,
    done: Cell<u64>,
    received: Cell<Received>,
    /// How many came only after the sequence's end.
    late: Cell<u64>,
    _catcher: Catcher,
}

impl Run {
    /// That way, not yet gone.
    ///
    /// # Errors
    ///
    /// If the system refuses what an interruption takes.
    pub fn new(way: &'static Way) -> Result<Self, Refused> {
        if way.signal == BARE {
            signals::install_bare()?;
        }
        Ok(Self {
            way,
            snare: Snare::new()?,
            done: 0.into(),
            received: Received::default().into(),
            late: 0.into(),
            _catcher: Catcher::new()?,
        })
    }

    /// Is interrupted once, by the signal that is delivered. Returns 0.
    #[cfg(target_arch = "x86_64")]
    pub fn once(&self) -> i32 {
        self.snare.lay();
        self.time(self.way.signal);
        self.snare.take_up();
        0
    }

    /// Interrupts itself by each kind of signal in turns.
    ///
    /// # Errors
    ///
    /// If the system refuses to send a signal: what has been interrupted so far says nothing then.
    pub fn interrupt(&self) -> Result<Took, Refused> {
        let received = signals::received();
        let mut took = [[0_u64; INTERRUPTIONS]; 3];
        self.snare.lay();
        for turn in 0..INTERRUPTIONS {
            for (took, signal) in took.iter_mut().zip([self.way.signal, IGNORED, NONE]) {
                took[turn] = self.time(signal);
            }
        }
        self.snare.take_up();
        self.snare.all_sent()?;
        self.done.set(self.done.get() + INTERRUPTIONS as u64);
        let mut all = self.received.get();
        all += signals::received().since(received);
        self.received.set(all);
        let [delivered, ignored, nothing] = took.map(median);
        Ok(Took {
            delivered,
            ignored,
            nothing,
        })
    }

    fn time(&self, signal: i32) -> u64 {
        self.snare.send(signal);
        let start = Instant::now();
        let received = (self.way.once)(&self.snare);
        let took = start.elapsed().as_nanos() as u64;
        let late = signals::received().since(received).total();
        self.late.set(self.late.get() + late);
        took
    }

    /// Whether every sequence has had its effect once and every signal arrived as it was to.
    pub fn check(&self) -> Result<(), Fault> {
        if self.way.signal == BARE && !signals::is_bare() {
            return Err("its handler is not the one that the kernel calls".into());
        }
        let (done, counted) = (self.done.get(), self.snare.counted());
        if counted != 3 * done {
            let all = 3 * done;
            let sentence = format!("{counted} sequences of {all} had their effect");
            return Err(Fault::count(all, [counted], sentence));
        }
        let mut expected = Received::default();
        *match self.way.arrival {
            Arrival::Plain | Arrival::Deferred => &mut expected.plain,
            Arrival::Restarted => &mut expected.restarted,
            Arrival::Rolled => &mut expected.rolled_forward,
        } = done;
        let received = self.received.get();
        if received != expected {
            let sentence = format!("its handler ran for {received:?}, not {expected:?}");
            return Err(sentence.into());
        }
        let expected = if self.way.arrival == Arrival::Deferred {
            done
        } else {
            0
        };
        let late = self.late.get();
        if late != expected {
            let sentence =
                format!("{late} signals of {done} came after the sequence, not {expected}");
            return Err(Fault::count(expected, [late], sentence));
        }
        Ok(())
    }
}

fn median(mut values: [u64; INTERRUPTIONS]) -> f64 {
    values.sort_unstable();
    values[INTERRUPTIONS / 2] as f64
}

#[cfg(test)]
mod tests {
    use super::super::ways::WAYS;
    use super::*;
    use crate::bench::signals::MANAGED;

    fn judge(way: &'static Way) -> Result<(), String> {
        signals::manage().unwrap();
        let run = Run::new(way).unwrap();
        run.interrupt().unwrap();
        run.interrupt().unwrap();
        run.check().map_err(|fault| fault.sentence)
    }

    #[test]
    fn every_way_is_interrupted_as_it_says() {
        for way in &WAYS {
            assert_eq!(judge(way), Ok(()), "{}", way.case);
        }
    }

    #[test]
    fn the_check_tells_what_was_interrupted() {
        const fn mistaken(arrival: Arrival, once: fn(&Snare) -> Received) -> Way {
            Way {
                case: "mistaken",
                pending: "pending:mistaken",
                signal: MANAGED,
                arrival,
                once,
            }
        }
        static ROLLED: Way = mistaken(Arrival::Rolled, WAYS[0].once);
        static PLAIN: Way = mistaken(Arrival::Plain, WAYS[1].once);
        static DEFERRED: Way = mistaken(Arrival::Deferred, WAYS[0].once);
        static NOTHING: Way = mistaken(Arrival::Plain, |_| signals::received());
        for (way, fault) in [
            (&ROLLED, "plain: 202"),
            (&PLAIN, "restarted: 202"),
            (
                &DEFERRED,
                "0 signals of 202 came after the sequence, not 202",
            ),
            (&NOTHING, "0 sequences of 606 had their effect"),
        ] {
            let message = judge(way).unwrap_err();
            assert!(message.contains(fault), "{message}");
        }
    }
}
