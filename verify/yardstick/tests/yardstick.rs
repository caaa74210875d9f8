//! Tests the hand-written structures, and compares the emitted ones with them.
//!
//! Slices of the two alternate (A B A B), pinned to one CPU; the printed value is the median of the
//! ratios of neighbours. The goal is 1.05; the test fails only far beyond it, because machines
//! differ and run other programs.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    if !atomseq::status().is_active() {
        println!(
            "yardstick: does not apply, for sections do not run here ({})",
            atomseq::status()
        );
        return;
    }
    compare::counters_count();
    compare::stacks_keep_order();
    println!("yardstick: the hand-written counter and stack are correct");
    if cfg!(debug_assertions) {
        println!("yardstick: nothing is compared without optimization");
        return;
    }
    // Other load on the machine slows the two by different amounts: a ratio that is too high is
    // measured again.
    for measure in [compare::counters, compare::stacks] {
        if (0..5).all(|_| measure() > compare::LIMIT) {
            println!("yardstick: a ratio is above {}", compare::LIMIT);
            std::process::exit(1);
        }
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("yardstick: does not apply, for sections are not built here");
}

/// The tests and measurements.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod compare {
    use std::hint::black_box;
    use std::time::Instant;

    use verify_support::cpus;
    use verify_yardstick::counter::Counter;
    use verify_yardstick::stack::Stack;

    /// The ratio at which the test fails. On an AMD EPYC the counter takes 1.35 (1.24 ns beside
    /// 0.91, a cycle more) with the very instructions of the golden files of `verify/binary`, so it
    /// bounds paths that are not taken, not cycles.
    pub const LIMIT: f64 = 2.0;

    /// Operations in a slice, and pairs of slices.
    const OPERATIONS: u64 = 20_000;
    const PAIRS: usize = 400;

    /// The stacks' capacity on each CPU.
    const CAPACITY: usize = 500;

    const THREADS: u64 = 4;

    pub fn counters_count() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..1_000_000).for_each(|_| assert!(counter.add(3))));
            }
        });
        assert_eq!(counter.sum(), THREADS * 3_000_000);
    }

    pub fn stacks_keep_order() {
        let stack = Stack::new(CAPACITY);
        // Each thread pops as often as it pushes. Every word is popped once, or is left.
        let sums: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let work = |thread: u64| {
                let stack = &stack;
                move || {
                    let (mut pushed, mut popped) = (0, 0);
                    for value in 0..1_000_000 {
                        let value = value * THREADS + thread;
                        if stack.push(value).expect("the gate stays open") {
                            pushed += value;
                        }
                        popped += stack.pop().expect("the gate stays open").unwrap_or(0);
                    }
                    (pushed, popped)
                }
            };
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(work(thread)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        let pushed: u64 = sums.iter().map(|(pushed, _)| pushed).sum();
        let mut popped: u64 = sums.iter().map(|(_, popped)| popped).sum();
        for _cpu in pinned_in_turn() {
            while let Some(value) = stack.pop().expect("the gate stays open") {
                popped += value;
            }
        }
        assert_eq!(pushed, popped);
        for cpu in pinned_in_turn() {
            for value in 0..10 {
                assert_eq!(stack.push(value), Ok(true), "CPU {cpu}");
            }
            for value in (0..10).rev() {
                assert_eq!(stack.pop(), Ok(Some(value)), "CPU {cpu}");
            }
            assert_eq!(stack.pop(), Ok(None));
            while stack.push(1) == Ok(true) {}
            assert_eq!(stack.len(), CAPACITY as u64);
            while stack.pop() != Ok(None) {}
        }
        assert!(stack.is_empty());
    }

    /// Hand-written against emitted: one addition.
    pub fn counters() -> f64 {
        let by_hand = Counter::new();
        let emitted = atomseq::percpu::Counter::new();
        ratio(
            "counter, one addition",
            || (0..OPERATIONS).for_each(|_| unknown(&emitted).add(1)),
            || (0..OPERATIONS).for_each(|_| assert!(unknown(&by_hand).add(1))),
        )
    }

    /// Hand-written against emitted: a push and a pop.
    pub fn stacks() -> f64 {
        let by_hand = Stack::new(CAPACITY);
        let emitted: atomseq::percpu::Stack<u64> =
            atomseq::percpu::Stack::with_capacity_per_cpu(CAPACITY);
        ratio(
            "stack, a push and a pop",
            || {
                let mut sum = 0;
                for value in 0..OPERATIONS {
                    if unknown(&emitted).push(value).is_err() {
                        no_room();
                    }
                    let Some(value) = unknown(&emitted).pop() else {
                        empty()
                    };
                    sum += value;
                }
                black_box(sum);
            },
            || {
                let mut sum = 0;
                for value in 0..OPERATIONS {
                    if unknown(&by_hand).push(value) != Ok(true) {
                        no_room();
                    }
                    let Ok(Some(value)) = unknown(&by_hand).pop() else {
                        empty()
                    };
                    sum += value;
                }
                black_box(sum);
            },
        )
    }

    /// Returns the same reference, about which the compiler knows nothing any more: an operation
    /// must not profit from the previous one. Unlike `black_box`, it stays in its register.
    #[allow(
        clippy::pointers_in_nomem_asm_block,
        reason = "nothing is read through it"
    )]
    #[inline(always)]
    fn unknown<T>(reference: &T) -> &T {
        let mut address = std::ptr::from_ref(reference).expose_provenance();
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) address, options(nomem, nostack, preserves_flags));
        }
        // SAFETY: the address of the reference.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    #[cold]
    #[inline(never)]
    fn no_room() -> ! {
        panic!("one element found no room");
    }

    #[cold]
    #[inline(never)]
    fn empty() -> ! {
        panic!("an element was pushed and is not there");
    }

    fn ratio(name: &str, mut emitted: impl FnMut(), mut by_hand: impl FnMut()) -> f64 {
        let _ = pinned_in_turn().next();
        let time = |slice: &mut dyn FnMut()| {
            let begin = Instant::now();
            slice();
            begin.elapsed().as_nanos() as f64 / OPERATIONS as f64
        };
        for _ in 0..PAIRS / 10 {
            time(&mut emitted);
            time(&mut by_hand);
        }
        let pairs: Vec<(f64, f64)> = (0..PAIRS)
            .map(|_| (time(&mut emitted), time(&mut by_hand)))
            .collect();
        let ratio = median(pairs.iter().map(|(emitted, by_hand)| emitted / by_hand));
        println!(
            "yardstick: {name}: emitted {:.2} ns, by hand {:.2} ns, ratio {ratio:.3} (medians of {PAIRS} interleaved pairs)",
            median(pairs.iter().map(|pair| pair.0)),
            median(pairs.iter().map(|pair| pair.1)),
        );
        ratio
    }

    fn median(values: impl Iterator<Item = f64>) -> f64 {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Moves this thread to each CPU that it may use, one after the other.
    fn pinned_in_turn() -> impl Iterator<Item = usize> {
        cpus::allowed()
            .into_iter()
            .inspect(|cpu| cpus::move_to(*cpu))
    }
}
