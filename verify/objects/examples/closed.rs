//! A shared object that uses atomseq, for `tests/closed.rs` to load, use and close.

#[cfg(target_os = "linux")]
mod shared {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[cfg(atomseq_sections)]
    use atomseq::internals::objects;
    use atomseq::percpu::{Counter, Stack};
    use atomseq::signal;

    static COUNTER: LazyLock<Counter> = LazyLock::new(Counter::new);
    static STACK: LazyLock<Stack<usize>> = LazyLock::new(|| Stack::with_capacity_per_cpu(8));
    static HANDLED: AtomicU64 = AtomicU64::new(0);

    fn count(_event: &mut signal::Event<'_>) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }

    /// Starts atomseq up, without its protection against unloading if `pinned` is 0, and installs a
    /// handler of SIGUSR1. Returns whether all is well.
    #[unsafe(no_mangle)]
    pub extern "C" fn closed_start(pinned: u64) -> u64 {
        #[cfg(atomseq_sections)]
        if pinned == 0 {
            // SAFETY: the test expects that its process is killed.
            unsafe { objects::turn_pin_off() };
        }
        let _ = pinned;
        // SAFETY: the handler adds to an atomic static.
        let installed = unsafe { signal::install(libc::SIGUSR1, count) };
        u64::from(installed.is_ok() && atomseq::status().gates_active() == cfg!(atomseq_sections))
    }

    /// Counts and pushes `times` times; returns the counter's sum.
    #[unsafe(no_mangle)]
    pub extern "C" fn closed_work(times: u64) -> u64 {
        for number in 0..times {
            COUNTER.increment();
            let _ = STACK.push(number as usize);
            STACK.pop();
        }
        COUNTER.sum()
    }

    /// Returns how many signals were handled.
    #[unsafe(no_mangle)]
    pub extern "C" fn closed_handled(_: u64) -> u64 {
        HANDLED.load(Ordering::SeqCst)
    }
}
