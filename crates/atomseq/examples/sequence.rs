//! Shows a structure made with a sequence of its own: the maximum of all recorded values, per CPU.
//!
//! ```text
//! cargo run --release -p atomseq --example sequence
//! ```
//!
//! `sequence!` compiles the function below into a few instructions that the kernel restarts if the
//! thread is preempted, moved or interrupted in them. So no other thread on this CPU ever runs
//! between the `load` and the `commit`. It reaches nothing but a word of its slot, so it is a plain
//! `fn`, and calling it is safe. `docs::patterns` in the documentation is the full guide.

use atomseq::percpu::{Area, Error};

/// Offset of the maximum in a slot, behind the gate.
const MAXIMUM: usize = Area::FIRST_WORD;

atomseq::sequence! {
    /// Raises this CPU's maximum to `value` if that is larger.
    fn raise(slot: Slot, value: Word) {
        let maximum = load(slot + MAXIMUM);
        if value <= maximum { return }
        commit(slot + MAXIMUM, value);
    }
}

/// The largest of all values recorded.
struct Maximum {
    area: Area,
}

impl Maximum {
    fn try_new() -> Result<Maximum, Error> {
        // A zeroed slot for each CPU, and no memory besides.
        Ok(Maximum {
            area: Area::try_new(0)?,
        })
    }

    fn record(&self, value: usize) {
        if raise::on_cpu(self.area.slots(), value).is_err() {
            // This thread cannot run sections, or another thread has closed the gate: take a lock.
            self.area.on_slow_path(|gate| raise::gated(gate, value));
        }
    }

    fn get(&self) -> usize {
        let slots = (0..self.area.cpus()).map(|cpu| self.area.peek(cpu, MAXIMUM));
        slots.max().unwrap_or(0)
    }
}

fn main() {
    const THREADS: usize = 6;
    const VALUES: usize = 100_000;
    let longest = Maximum::try_new().expect("memory for one word on each CPU");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let longest = &longest;
            // The values 0 to THREADS * VALUES - 1, in an order that jumps about.
            let step = move |index| (index * 7919 + thread) % VALUES * THREADS + thread;
            scope.spawn(move || (0..VALUES).for_each(|index| longest.record(step(index))));
        }
    });
    println!("{} values recorded by {THREADS} threads", THREADS * VALUES);
    println!("the largest is {}", longest.get());
    assert_eq!(longest.get(), THREADS * VALUES - 1);
}
