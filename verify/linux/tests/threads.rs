//! Threads that atomseq registers itself: from C, from signal handlers, ten thousand of them, and
//! until they exit.
#![cfg(atomseq_sections)]

use atomseq::internals::{cpu_id, current_cpu, register_this_thread};
use atomseq::status::Registrant;
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use verify_support::cpus::pin;
use verify_support::processes::{
    Circumstances, in_fresh_process_under, killed_in_fresh_process_under,
};
use verify_support::sandbox::{Answer, Refusal, When, refuse};
use verify_support::this_test;

fn own_registration() -> Circumstances {
    Circumstances {
        environment: vec![("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        ..Circumstances::default()
    }
}

fn assert_own_registration() {
    let status = atomseq::status();
    assert_eq!(
        status.registered_by(),
        Some(Registrant::Atomseq),
        "{status}"
    );
}

/// Runs `body` on a thread that was not started by Rust.
fn on_c_thread(body: extern "C" fn(*mut c_void) -> *mut c_void) {
    // SAFETY: the thread takes no argument and is joined.
    unsafe {
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let result =
            libc::pthread_create(&mut thread, core::ptr::null(), body, core::ptr::null_mut());
        assert_eq!(result, 0);
        assert_eq!(libc::pthread_join(thread, core::ptr::null_mut()), 0);
    }
}

static CHECKED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_thread_registers_on_its_first_slow_path() {
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        let before = cpu_id();
        let registered = register_this_thread();
        let again = register_this_thread();
        let pinned = pin();
        let right = (cpu_id(), current_cpu() as i32) == (pinned, pinned);
        if before < 0 && registered && again && right {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
        core::ptr::null_mut()
    }
    in_fresh_process_under(this_test!(), own_registration(), || {
        assert_own_registration();
        on_c_thread(body);
        on_c_thread(body);
        assert_eq!(CHECKED.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_thread_of_the_c_librarys_needs_no_registration() {
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        let pinned = pin();
        if (cpu_id(), current_cpu() as i32) == (pinned, pinned) && !register_this_thread() {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
        core::ptr::null_mut()
    }
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        if atomseq::status().registered_by() == Some(Registrant::Glibc) {
            on_c_thread(body);
            assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
        } else {
            println!("this C library registers no threads");
        }
    });
}

/// A thread-specific key created after atomseq's, so that its destructor runs after atomseq's.
static LATE_KEY: AtomicUsize = AtomicUsize::new(usize::MAX);

#[test]
fn a_thread_is_unregistered_before_its_storage_goes_and_stays_so() {
    unsafe extern "C" fn late(_: *mut c_void) {
        if cpu_id() < 0 && !register_this_thread() && cpu_id() < 0 {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
    }
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        let key = LATE_KEY.load(Ordering::Relaxed) as libc::pthread_key_t;
        // SAFETY: the key exists; its value only has to differ from null.
        let result = unsafe { libc::pthread_setspecific(key, core::ptr::dangling()) };
        assert_eq!(result, 0);
        if register_this_thread() && cpu_id() >= 0 {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
        core::ptr::null_mut()
    }
    in_fresh_process_under(this_test!(), own_registration(), || {
        assert_own_registration();
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: `late` lives as long as the program.
        let result = unsafe { libc::pthread_key_create(&mut key, Some(late)) };
        assert_eq!(result, 0);
        LATE_KEY.store(key as usize, Ordering::Relaxed);
        on_c_thread(body);
        assert_eq!(
            CHECKED.load(Ordering::Relaxed),
            2,
            "1: registered, 2: unregistered at the end"
        );
    });
}

/// Calls `last` on a thread that ends, in the last round of its keys' destructors.
#[cfg(target_env = "musl")]
fn in_the_last_round(last: fn()) {
    const ROUNDS: usize = 4;
    static KEY: AtomicUsize = AtomicUsize::new(usize::MAX);
    static LAST: std::sync::Mutex<fn()> = std::sync::Mutex::new(|| ());
    fn set(round: usize) {
        let key = KEY.load(Ordering::Relaxed) as libc::pthread_key_t;
        let value = core::ptr::without_provenance(round);
        // SAFETY: the key exists; its value is not dereferenced.
        assert_eq!(unsafe { libc::pthread_setspecific(key, value) }, 0);
    }
    unsafe extern "C" fn destructor(round: *mut c_void) {
        match round.addr() {
            ROUNDS => (LAST.lock().expect("unpoisoned"))(),
            round => set(round + 1),
        }
    }
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        set(1);
        core::ptr::null_mut()
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the destructor lives as long as the program.
    let result = unsafe { libc::pthread_key_create(&mut key, Some(destructor)) };
    assert_eq!(result, 0);
    KEY.store(key as usize, Ordering::Relaxed);
    *LAST.lock().expect("unpoisoned") = last;
    on_c_thread(body);
}

#[cfg(target_env = "musl")]
fn count_if_unregistered() {
    atomseq::percpu::Counter::new().increment();
    if !register_this_thread() && cpu_id() < 0 {
        CHECKED.fetch_add(1, Ordering::Relaxed);
    }
}

/// musl calls no hook any more that is set in the last round, and a detached thread unmaps its own
/// storage before its last system call.
#[cfg(target_env = "musl")]
#[test]
fn a_thread_whose_hook_would_come_too_late_is_not_registered() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        assert_own_registration();
        in_the_last_round(count_if_unregistered);
        assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
    });
}

#[cfg(target_env = "musl")]
#[test]
fn a_thread_whose_hook_would_come_too_late_may_start_up() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        in_the_last_round(count_if_unregistered);
        assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
        assert_own_registration();
        assert!(register_this_thread(), "this thread does not exit");
    });
}

#[test]
fn a_signal_handler_may_register_its_thread() {
    extern "C" fn handler(_signal: i32) {
        if register_this_thread() && cpu_id() >= 0 {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
    }
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        // SAFETY: a signal to this thread, which has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        core::ptr::null_mut()
    }
    in_fresh_process_under(this_test!(), own_registration(), || {
        assert_own_registration();
        // SAFETY: the handler only calls what may be called from one.
        unsafe {
            libc::signal(
                libc::SIGUSR1,
                handler as extern "C" fn(i32) as libc::sighandler_t,
            )
        };
        on_c_thread(body);
        assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_thread_that_the_kernel_refuses_asks_once() {
    static ASKED_AGAIN: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        let refusal = |errno| Refusal {
            call: libc::SYS_rseq,
            answer: Answer::Error(errno),
            when: When::Always,
        };
        refuse(&refusal(libc::EPERM)).expect("a filter");
        let first = register_this_thread();
        // A second request would be answered by killing the process.
        refuse(&Refusal {
            call: libc::SYS_rseq,
            answer: Answer::Kill,
            when: When::Always,
        })
        .expect("a filter");
        ASKED_AGAIN.store(i32::from(register_this_thread()), Ordering::Relaxed);
        if !first && cpu_id() < 0 {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
        core::ptr::null_mut()
    }
    in_fresh_process_under(this_test!(), own_registration(), || {
        assert_own_registration();
        on_c_thread(body);
        assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
        assert_eq!(ASKED_AGAIN.load(Ordering::Relaxed), 0);
    });
}

fn memory_in_use() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .expect("VmRSS");
    kilobytes.trim().parse::<usize>().expect("a number") * 1024
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

#[test]
fn ten_thousand_short_lived_threads_leave_nothing() {
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        if cpu_id() < 0 && register_this_thread() && cpu_id() >= 0 {
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
        core::ptr::null_mut()
    }
    const THREADS: usize = 10_000;
    in_fresh_process_under(this_test!(), own_registration(), || {
        assert_own_registration();
        (0..THREADS / 10).for_each(|_| on_c_thread(body));
        let before = (memory_in_use(), open_files());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..THREADS * 3 / 10).for_each(|_| on_c_thread(body)));
            }
        });
        let after = (memory_in_use(), open_files());
        assert_eq!(CHECKED.load(Ordering::Relaxed), THREADS);
        assert_eq!(after.1, before.1, "open files");
        let grown = after.0.saturating_sub(before.0);
        // 64 bytes lost for each thread would be 576 KB; three more stacks in the C library's cache
        // are some 30.
        assert!(grown < 400 * 1024, "grown by {grown} bytes");
    });
}

/// Runs `body` on a thread of a raw clone, with storage of zeros where the C library's belongs.
fn on_bare_thread(body: extern "C" fn(*mut c_void) -> i32) {
    const BYTES: usize = 1 << 20;
    let memory = || {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which stays.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), BYTES, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        start
    };
    let (stack, storage) = (memory(), memory());
    static ALIVE: AtomicI32 = AtomicI32::new(1);
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_CHILD_CLEARTID;
    // SAFETY: the stack and the storage stay. The body uses no thread-local of other code.
    let thread = unsafe {
        libc::clone(
            body,
            stack.byte_add(BYTES),
            flags,
            core::ptr::null_mut(),
            core::ptr::null_mut::<libc::pid_t>(),
            storage.byte_add(BYTES / 2),
            ALIVE.as_ptr(),
        )
    };
    assert!(thread > 0);
    while ALIVE.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_with_storage_of_zeros_ends_the_process_on_the_slow_path() {
    extern "C" fn body(_: *mut c_void) -> i32 {
        drop(AREA.get().expect("made before").close_gate(0));
        CHECKED.fetch_add(1, Ordering::Relaxed);
        0
    }
    static AREA: std::sync::OnceLock<atomseq::percpu::Area> = std::sync::OnceLock::new();
    for circumstances in [Circumstances::default(), own_registration()] {
        let errors =
            killed_in_fresh_process_under(this_test!(), circumstances, libc::SIGABRT, || {
                let area = atomseq::percpu::Area::try_new(0).expect("memory");
                assert!(AREA.set(area).is_ok());
                // The control: a thread of the C library's.
                extern "C" fn control(argument: *mut c_void) -> *mut c_void {
                    body(argument);
                    core::ptr::null_mut()
                }
                on_c_thread(control);
                assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
                on_bare_thread(body);
            });
        if let Some(errors) = errors {
            assert!(
                errors.contains("this thread's storage was not set up"),
                "{errors}"
            );
        }
    }
}

/// What the check is for: on the fast path nothing distinguishes such a thread from one on CPU 0.
#[test]
fn control_a_thread_with_storage_of_zeros_takes_itself_for_one_on_cpu_0() {
    static ENDED: AtomicI32 = AtomicI32::new(0);
    extern "C" fn body(_: *mut c_void) -> i32 {
        FAST.get().expect("made before").increment();
        ENDED.store(1, Ordering::Relaxed);
        0
    }
    static FAST: std::sync::OnceLock<atomseq::percpu::Counter> = std::sync::OnceLock::new();
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let counter = atomseq::percpu::Counter::new();
        // The first increment maps its memory.
        counter.increment();
        assert!(FAST.set(counter).is_ok());
        on_bare_thread(body);
        assert_eq!(
            ENDED.load(Ordering::Relaxed),
            1,
            "it has ended without a word"
        );
    });
}
