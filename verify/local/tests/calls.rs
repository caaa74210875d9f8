//! Checks whether accessing a per-thread static ever calls `__tls_get_addr`, which may allocate,
//! and so must not be called by a handler that has interrupted `malloc`. In the executable and in a
//! shared object that is loaded while it runs; with a thread-local of the standard library as a
//! control.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use atomseq::local::{Counter, per_thread};
use verify_local::Loaded;

static CALLS: AtomicUsize = AtomicUsize::new(0);
static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Replaces the C library's function: counts, and calls it. It is exported, so shared objects find
/// it first.
#[unsafe(no_mangle)]
extern "C" fn __tls_get_addr(index: *mut c_void) -> *mut c_void {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        // SAFETY: a name that ends in a zero byte.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__tls_get_addr".as_ptr()) };
        assert!(!real.is_null(), "the C library has no __tls_get_addr");
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the C library's function, and the argument that it expects.
    unsafe {
        let real: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(real);
        real(index)
    }
}

/// One test at a time: they count the same calls.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the number of calls while `run` runs.
fn calls_in<R>(run: impl FnOnce() -> R) -> (usize, R) {
    let before = CALLS.load(Ordering::Relaxed);
    let result = run();
    (CALLS.load(Ordering::Relaxed) - before, result)
}

per_thread! {
    static HITS: Counter = Counter::new();
}

#[test]
fn an_executable_calls_nothing() {
    let _one = ONE_AT_A_TIME.lock();
    let (calls, sum) = calls_in(|| {
        let thread = || HITS.with(|hits| (hits.increment(), hits.sum()).1);
        thread() + std::thread::spawn(thread).join().unwrap()
    });
    assert_eq!((calls, sum), (0, 2));
}

#[test]
fn a_loaded_object_calls_nothing() {
    let _one = ONE_AT_A_TIME.lock();
    let loaded = Loaded::open();
    let [hit, exchange, standard] =
        ["loaded_hit", "loaded_exchange", "loaded_hit_standard"].map(|name| loaded.function(name));

    // In this thread, which is older than the object, and in a newer one.
    for thread in [0, 1] {
        let in_thread = move || {
            let (calls, sum) = calls_in(|| hit(1) + hit(2));
            assert_eq!((calls, sum), (0, 4));
            let (calls, before) = calls_in(|| [exchange(5), exchange(6), exchange(7)]);
            assert_eq!((calls, before), (0, [0, 10, 12]));

            // The control: calls are counted.
            let (calls, sum) = calls_in(|| standard(1) + standard(2));
            assert!(calls > 0, "the standard library called nothing");
            assert_eq!(sum, 4);
        };
        match thread {
            0 => in_thread(),
            _ => std::thread::spawn(in_thread).join().unwrap(),
        }
    }
}
