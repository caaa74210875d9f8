//! The decisions of start-up, each in a process of its own: which library registers threads, what
//! is refused and why, and what start-up leaves unchanged.
#![cfg(atomseq_sections)]

use atomseq::internals::{cpu_id, current_cpu, membarrier_rseq, register_this_thread};
use atomseq::mutex::{Biased, Condvar, MutexBy, OnCpu, Semaphore};
use atomseq::percpu::{self, Area, Counter, Gauge, Histogram, Link, Node, Ring};
use atomseq::signal::{self, Event};
use atomseq::status::{Reason, Registrant};
use atomseq::{nonblocking, type_stable};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::ffi::{CString, OsStr};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::sync::{LazyLock, OnceLock};
use verify_support::cpus::{pin, restrict};
use verify_support::processes::{
    Circumstances, can_replace_files, in_fresh_process_under, is_fresh_process,
    killed_in_fresh_process_under,
};
use verify_support::sandbox::{
    Answer, Refusal, When, always, fail_trapped_call, install_answer, refuse,
};
use verify_support::this_test;

const OWN_REGISTRATION: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// Returns whether the C library registers threads, without asking atomseq.
fn c_library_registers() -> bool {
    // SAFETY: looks a name up; the C library defines it as an unsigned int.
    unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        !size.is_null() && *size.cast::<u32>() != 0
    }
}

/// Asserts that the kernel's record of this thread's CPU is the CPU itself.
fn assert_registered_here() {
    let pinned = pin();
    assert_eq!((cpu_id(), current_cpu() as i32), (pinned, pinned));
}

#[test]
fn the_c_librarys_registration_is_adopted() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let status = atomseq::status();
        let expected = if c_library_registers() {
            Registrant::Glibc
        } else {
            Registrant::Atomseq
        };
        assert_eq!(status.registered_by(), Some(expected), "{status}");
        assert!(status.is_active());
        assert!(status.features().rseq_size >= 20);
        assert_registered_here();
    });
}

#[test]
fn without_the_c_librarys_registration_atomseq_registers() {
    in_fresh_process_under(
        this_test!(),
        Circumstances::environment(&[OWN_REGISTRATION]),
        || {
            assert!(!c_library_registers());
            let status = atomseq::status();
            assert_eq!(
                status.registered_by(),
                Some(Registrant::Atomseq),
                "{status}"
            );
            assert!(status.is_active());
            assert_registered_here();
        },
    );
}

#[test]
fn without_the_rseq_system_call_nothing_is_active() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        in_fresh_process_under(
            this_test!(),
            Circumstances::refused(always(libc::SYS_rseq, errno)),
            || {
                let status = atomseq::status();
                assert!(!status.is_active() && !status.gates_active(), "{status}");
                assert_eq!(status.registered_by(), None);
                assert!(
                    matches!(
                        status.reason(),
                        Some(Reason::RegistrationRefused(libc::ENOSYS | libc::EPERM))
                    ),
                    "{status}"
                );
                assert!(cpu_id() < 0 && !register_this_thread());
                assert_eq!(current_cpu() as i32, pin());
            },
        );
    }
}

#[test]
fn without_membarrier_sections_run_and_gates_do_not() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        in_fresh_process_under(
            this_test!(),
            Circumstances::refused(always(libc::SYS_membarrier, errno)),
            || {
                let status = atomseq::status();
                assert!(status.is_active() && !status.gates_active(), "{status}");
                assert!(!status.features().membarrier_rseq);
                assert!(
                    matches!(
                        status.reason(),
                        Some(Reason::FenceUnavailable(libc::ENOSYS | libc::EPERM))
                    ),
                    "{status}"
                );
                assert_registered_here();
            },
        );
    }
}

/// A sandbox that reports success and does nothing: only the self-test can detect it, unless other
/// threads interrupt it throughout. On a busy machine they do so in most processes (ten in a row in
/// one run of forty), so up to a hundred processes are tried.
#[test]
fn a_fence_that_does_nothing_is_detected() {
    const PROCESSES: u32 = 100;
    let found = (0..PROCESSES).any(|_| {
        let circumstances = Circumstances {
            environment: vec![("ATOMSEQ_TRUST_KERNEL", "1")],
            refused: vec![Refusal {
                call: libc::SYS_membarrier,
                answer: Answer::Error(0),
                when: When::Equals(1 << 7),
            }],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            let status = atomseq::status();
            assert!(status.is_active(), "{status}");
            if status.reason() == Some(Reason::FenceFailed) {
                println!("the self-test failed");
            }
        });
        printed.is_none_or(|printed| printed.output.contains("the self-test failed"))
    });
    assert!(found, "not in {PROCESSES} processes");
}

#[test]
fn without_clone_the_self_test_is_blocked() {
    in_fresh_process_under(
        this_test!(),
        Circumstances::refused(Refusal {
            call: libc::SYS_clone,
            answer: Answer::Error(libc::EPERM),
            when: When::Lacks(libc::CLONE_THREAD as u32),
        }),
        || {
            let status = atomseq::status();
            assert!(!status.is_active(), "{status}");
            assert_eq!(status.reason(), Some(Reason::SelfTestBlocked(libc::EPERM)));
            assert!(
                cpu_id() < 0,
                "sections must be off in every thread, whichever library registered it"
            );
        },
    );
}

/// Where helper processes cannot be reaped, none is started: it would be left behind.
#[test]
fn without_wait4_the_self_test_is_blocked_and_leaves_nothing() {
    in_fresh_process_under(
        this_test!(),
        Circumstances::refused(always(libc::SYS_wait4, libc::EPERM)),
        || {
            let status = atomseq::status();
            assert!(!status.is_active(), "{status}");
            assert_eq!(status.reason(), Some(Reason::SelfTestBlocked(libc::EPERM)));
            // SAFETY: plain old data; asks for a child of any kind, without waiting.
            let child = unsafe {
                let mut child: libc::siginfo_t = core::mem::zeroed();
                let kinds = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
                libc::waitid(libc::P_ALL, 0, &mut child, kinds)
            };
            assert_eq!(
                (child, std::io::Error::last_os_error().raw_os_error()),
                (-1, Some(libc::ECHILD))
            );
        },
    );
}

#[test]
fn without_getcpu_nothing_else_is_blamed() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        in_fresh_process_under(
            this_test!(),
            Circumstances::refused(always(libc::SYS_getcpu, errno)),
            || {
                let status = atomseq::status();
                assert!(!status.is_active(), "{status}");
                assert!(
                    matches!(
                        status.reason(),
                        Some(Reason::CpuNumberUnchecked(libc::ENOSYS | libc::EPERM))
                    ),
                    "{status}"
                );
            },
        );
    }
}

/// Start-up has mapped nothing then, and counts the CPUs nevertheless.
#[test]
fn without_memory_start_up_counts_the_cpus() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        refuse(&always(libc::SYS_mmap, libc::ENOMEM)).expect("a filter");
        let status = atomseq::status();
        assert!(status.gates_active(), "{status}");
        assert_eq!(
            Area::try_new(1 << 20).err(),
            Some(percpu::Error::OutOfMemory)
        );
    });
}

/// Nothing is wiped in children then, and processes have no numbers. One run for each answer, the
/// last of which reports success without effect.
#[test]
fn without_madvise_and_getpid_start_up_ends() {
    for errno in [libc::EPERM, libc::ENOSYS, 0] {
        let circumstances = Circumstances {
            refused: vec![
                always(libc::SYS_madvise, libc::EPERM),
                always(libc::SYS_getpid, errno),
            ],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            let status = atomseq::status();
            assert!(status.gates_active(), "{status}");
            let counter = Counter::new();
            counter.add(1);
            assert_eq!(counter.sum(), 1);
        });
        // Once is enough, in the fresh process.
        if printed.is_none() {
            return;
        }
    }
}

/// Start-up allocates memory and starts a process, which a handler must not do. A handler can be
/// the first to use everything that has a `const` constructor. One run.
#[test]
fn nothing_starts_up_in_a_handler() {
    static ON_CPU: MutexBy<OnCpu, u32> = MutexBy::new(0);
    static BIASED: Biased<u32> = Biased::new(0);
    static PERMITS: Semaphore = Semaphore::new(1);
    static CHANGED: Condvar = Condvar::new();
    static USED: AtomicU32 = AtomicU32::new(0);
    atomseq::sequence! {
        /// Without a slot, and so without an area that was made before.
        unsafe fn set_here(word: Word) -> bool {
            if cpu() > 0xffff { return false }
            commit(word, 1);
            true
        }
    }
    fn uses(_event: &mut Event<'_>) {
        let mut word = 0usize;
        // SAFETY: a word of this function's.
        let here = unsafe { set_here::on_cpu(&raw mut word as usize) };
        let all = [
            ON_CPU.try_lock().is_some(),
            BIASED.try_lock().is_some(),
            PERMITS.try_acquire().is_some(),
            here == Ok(word == 1),
        ];
        CHANGED.notify_one();
        USED.store(
            all.iter().map(|used| u32::from(*used)).sum(),
            Ordering::Relaxed,
        );
    }
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        // SAFETY: tries, a notification and an atomic.
        unsafe { signal::install(libc::SIGUSR1, uses).unwrap() };
        // From here on, start-up would end the process.
        let no_child = Refusal {
            call: libc::SYS_clone,
            answer: Answer::Kill,
            when: When::Lacks(libc::CLONE_THREAD as u32),
        };
        refuse(&no_child).unwrap();
        // SAFETY: a signal to this thread.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert_eq!(USED.load(Ordering::Relaxed), 4);
        assert!(atomseq::status().is_active(), "{}", atomseq::status());
    });
}

#[test]
fn rseq_can_be_disabled() {
    in_fresh_process_under(
        this_test!(),
        Circumstances::environment(&[("ATOMSEQ_DISABLE_RSEQ", "1")]),
        || {
            let status = atomseq::status();
            assert!(!status.is_active() && !status.gates_active(), "{status}");
            assert_eq!(status.reason(), Some(Reason::Disabled));
            assert!(cpu_id() < 0 && !register_this_thread());
        },
    );
}

#[test]
fn a_zero_disables_nothing() {
    in_fresh_process_under(
        this_test!(),
        Circumstances::environment(&[("ATOMSEQ_DISABLE_RSEQ", "0")]),
        || {
            assert!(atomseq::status().is_active(), "{}", atomseq::status());
        },
    );
}

#[test]
fn an_unknown_kernels_fence_is_not_trusted() {
    in_fresh_process_under(
        this_test!(),
        Circumstances::refused(always(libc::SYS_uname, libc::EPERM)),
        || {
            let status = atomseq::status();
            assert_eq!(status.features().kernel, None);
            assert!(status.is_active() && !status.gates_active(), "{status}");
            assert_eq!(status.reason(), Some(Reason::KernelUnknown));
        },
    );
}

#[test]
fn trust_can_be_forced() {
    in_fresh_process_under(
        this_test!(),
        Circumstances {
            environment: vec![("ATOMSEQ_TRUST_KERNEL", "1")],
            refused: vec![always(libc::SYS_uname, libc::EPERM)],
            ..Circumstances::default()
        },
        || {
            let status = atomseq::status();
            assert!(
                status.gates_active() && status.reason().is_none(),
                "{status}"
            );
        },
    );
}

#[test]
fn an_ancient_kernel_is_refused_even_when_trusted() {
    in_fresh_process_under(
        this_test!(),
        Circumstances {
            environment: vec![("ATOMSEQ_TRUST_KERNEL", "1")],
            refused: vec![],
            ancient: true,
            ..Circumstances::default()
        },
        || {
            let status = atomseq::status();
            assert!(!status.is_active(), "{status}");
            assert!(
                matches!(status.reason(), Some(Reason::KernelTooOld(version)) if version.major == 2)
            );
        },
    );
}

#[test]
fn a_fence_that_fails_later_ends_the_process_with_a_sentence() {
    let errors = killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGABRT,
        || {
            assert!(atomseq::status().gates_active(), "{}", atomseq::status());
            membarrier_rseq(0);
            refuse(&always(libc::SYS_membarrier, libc::EPERM)).unwrap();
            membarrier_rseq(0);
        },
    );
    if let Some(errors) = errors {
        assert!(errors.contains("allow membarrier"), "{errors}");
    }
}

#[test]
fn a_fence_reaches_every_slot_and_cpus_that_are_not_there() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        assert!(atomseq::status().gates_active(), "{}", atomseq::status());
        for cpu in 0..atomseq::internals::cpu_slots() + 2 {
            membarrier_rseq(cpu);
        }
    });
}

#[test]
fn the_callers_signal_mask_stays() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        // SAFETY: plain old data, filled by the calls that follow.
        unsafe {
            let [mut blocked, mut before, mut after]: [libc::sigset_t; 3] = core::mem::zeroed();
            libc::sigfillset(&mut blocked);
            libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, core::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, core::ptr::null(), &mut before);
            assert!(atomseq::status().is_active(), "{}", atomseq::status());
            libc::pthread_sigmask(libc::SIG_SETMASK, core::ptr::null(), &mut after);
            for signal in 1..65 {
                assert_eq!(
                    libc::sigismember(&before, signal),
                    libc::sigismember(&after, signal),
                    "{signal}"
                );
            }
            assert_eq!(libc::sigismember(&after, libc::SIGTERM), 1);
        }
    });
}

#[test]
fn the_callers_affinity_stays_and_no_child_is_left() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let affinity = || {
            let mut set = [0u64; 128];
            // SAFETY: the kernel writes at most the size given.
            let written = unsafe {
                libc::syscall(
                    libc::SYS_sched_getaffinity,
                    0,
                    size_of_val(&set),
                    set.as_mut_ptr(),
                )
            };
            assert!(written > 0);
            set
        };
        let before = affinity();
        assert!(atomseq::status().is_active(), "{}", atomseq::status());
        assert_eq!(affinity(), before);
        // SAFETY: asks for a child of any kind, without waiting.
        let child =
            unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
        assert_eq!(
            (child, std::io::Error::last_os_error().raw_os_error()),
            (-1, Some(libc::ECHILD))
        );
    });
}

/// Handlers run while start-up decides, and use its decision as soon as it is made.
#[test]
fn start_up_in_a_storm_of_signals() {
    static DECIDED: AtomicBool = AtomicBool::new(false);
    static SIGNALS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn ask(_signal: i32) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
        if DECIDED.load(Ordering::Relaxed) {
            assert!(atomseq::status().is_active());
            assert!(current_cpu() < atomseq::internals::cpu_slots());
        }
    }
    for _ in 0..20 {
        in_fresh_process_under(this_test!(), Circumstances::default(), || {
            let every = libc::timeval {
                tv_sec: 0,
                tv_usec: 30,
            };
            let timer = libc::itimerval {
                it_interval: every,
                it_value: every,
            };
            // SAFETY: the handler only calls what may be called from one.
            unsafe {
                libc::signal(
                    libc::SIGALRM,
                    ask as extern "C" fn(i32) as libc::sighandler_t,
                );
                assert_eq!(
                    libc::setitimer(libc::ITIMER_REAL, &timer, core::ptr::null_mut()),
                    0
                );
            }
            std::thread::scope(|scope| {
                let statuses: Vec<_> = (0..4).map(|_| scope.spawn(atomseq::status)).collect();
                for status in statuses {
                    let status = status.join().unwrap();
                    assert!(status.is_active(), "{status}");
                }
            });
        });
    }
}

/// Files that containers substitute for the kernel's, and that list one CPU only.
#[test]
fn a_replaced_list_of_cpus_is_not_believed() {
    const TEST: &str = "a_replaced_list_of_cpus_is_not_believed";
    const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
    const NODES: &str = "/sys/devices/system/node/possible";
    if is_fresh_process() {
        in_fresh_process_under(TEST, Circumstances::default(), every_cpu_has_a_slot);
        return;
    }
    if !can_replace_files() {
        eprintln!("{TEST}: does not apply, for mounts are refused here");
        return;
    }
    let directory = std::env::temp_dir().join(format!("{TEST}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for two files");
    let file = |name: &str, content: &str| {
        let path = directory.join(name);
        std::fs::write(&path, content).expect("a small file");
        CString::new(path.into_os_string().into_encoded_bytes()).expect("a path")
    };
    let list = file("possible", "0\n");
    let empty = CString::new(directory.as_os_str().as_encoded_bytes()).expect("a path");
    let own = |path: &str| CString::new(path).expect("a path");
    let replacements = [
        vec![(own(POSSIBLE), list.clone())],
        // A list in the right file system, of other objects.
        vec![(own(POSSIBLE), own(NODES))],
        vec![(own("/sys"), empty.clone())],
        vec![(own("/proc"), empty), (own(POSSIBLE), list)],
    ];
    for replaced in replacements {
        let there = |(_, instead): &(_, CString)| {
            std::path::Path::new(OsStr::from_bytes(instead.as_bytes())).exists()
        };
        if !replaced.iter().all(there) {
            continue;
        }
        let circumstances = Circumstances {
            replaced,
            ..Circumstances::default()
        };
        in_fresh_process_under(TEST, circumstances, every_cpu_has_a_slot);
    }
    std::fs::remove_dir_all(&directory).expect("the directory is there");
}

/// Checks that counts made on each CPU that this process may use are in the sum.
fn every_cpu_has_a_slot() {
    let counter = atomseq::percpu::Counter::new();
    let mut counted = 0;
    on_every_cpu(|cpu| {
        assert_eq!(current_cpu(), cpu);
        assert!(cpu < atomseq::status().features().cpus);
        counter.increment();
        counted += 1;
    });
    assert_eq!(counter.sum(), counted);
}

/// Runs `work` on each CPU that this process may use: those to which the kernel lets this thread
/// move.
fn on_every_cpu(mut work: impl FnMut(usize)) {
    let mut moves = 0;
    for cpu in 0..libc::CPU_SETSIZE as usize {
        if restrict(0, &[cpu]) {
            work(cpu);
            moves += 1;
        }
    }
    assert!(moves > 0);
}

/// The smallest stack that the C library allows for a thread.
#[test]
fn start_up_fits_on_the_smallest_stack() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let start = || {
            let counter = atomseq::percpu::Counter::new();
            counter.increment();
            assert_eq!(counter.sum(), 1);
        };
        let thread = std::thread::Builder::new().stack_size(libc::PTHREAD_STACK_MIN);
        thread.spawn(start).unwrap().join().unwrap();
    });
}

/// How often a sandbox's handler has answered a system call.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// Counted by that handler, which may run in the middle of start-up or of a registration.
static COUNTED: std::sync::OnceLock<atomseq::percpu::Counter> = std::sync::OnceLock::new();

/// The number of structures that were refused to that handler.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// The structures that the handler received, one of each kind.
#[derive(Default)]
struct Given {
    area: OnceLock<Area>,
    counter: OnceLock<Counter>,
    histogram: OnceLock<Histogram>,
    stack: OnceLock<percpu::Stack<usize>>,
    list: OnceLock<percpu::List<Box<Linked>>>,
    ring: OnceLock<Ring<usize>>,
    queue: OnceLock<percpu::Queue<usize>>,
    pool: OnceLock<percpu::Pool<usize, fn() -> usize>>,
    descriptors: OnceLock<type_stable::Pool<AtomicU32>>,
    linked: OnceLock<nonblocking::LinkedStack<usize>>,
}

/// A node for its list.
struct Linked {
    link: Link,
}

// SAFETY: the offset of the link.
unsafe impl Node for Linked {
    const LINK: usize = core::mem::offset_of!(Linked, link);
}

static GIVEN: LazyLock<Given> = LazyLock::new(Given::default);

/// Keeps a structure, and counts one refused because start-up is in progress.
fn keep<T, E: Display>(place: &OnceLock<T>, make: impl FnOnce() -> Result<T, E>) {
    if place.get().is_some() {
        return;
    }
    match make() {
        Ok(made) => _ = place.set(made),
        Err(error) => {
            assert!(error.to_string().contains("start-up"), "{error}");
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Given {
    fn ask_for_all(&self) {
        keep(&self.area, || Area::try_new(0));
        keep(&self.counter, Counter::try_new);
        keep(&self.histogram, || Histogram::try_with_bounds(&[1]));
        keep(&self.stack, || percpu::Stack::try_with_capacity_per_cpu(64));
        keep(&self.list, percpu::List::try_new);
        keep(&self.ring, || Ring::try_with_capacity_per_cpu(64));
        keep(&self.queue, percpu::Queue::try_new);
        keep(&self.pool, || {
            percpu::Pool::try_with_capacity_per_cpu(4, usize::default as _)
        });
        keep(&self.descriptors, || {
            type_stable::Pool::options().try_build()
        });
        keep(&self.linked, || {
            nonblocking::LinkedStack::try_with_limit(1000)
        });
    }

    /// Uses each of them on every CPU. Returns how many there are, and checks that none has fewer
    /// slots than there are CPUs.
    fn use_everywhere(&self, cpus: usize) -> u32 {
        let mut used = 0;
        on_every_cpu(|cpu| {
            used = 0;
            let mut uses = |has: Option<usize>| {
                used += u32::from(has.is_some());
                assert!(has.is_none_or(|slots| slots == cpus), "{has:?} of {cpus}");
            };
            uses(self.area.get().map(|area| {
                drop(area.close_gate(cpu));
                area.cpus()
            }));
            uses(self.counter.get().map(|counter| {
                counter.increment();
                assert!(counter.sum() > 0);
                counter.per_cpu().count()
            }));
            uses(self.histogram.get().map(|histogram| {
                histogram.record(1);
                histogram.cpus()
            }));
            uses(self.stack.get().map(|stack| {
                stack.push(cpu).expect("room");
                assert_eq!(stack.pop(), Some(cpu));
                stack.cpus()
            }));
            uses(self.list.get().map(|list| {
                list.push(Box::new(Linked { link: Link::new() }));
                assert!(list.pop().is_some());
                list.cpus()
            }));
            uses(self.ring.get().map(|ring| {
                ring.push(cpu).expect("room");
                assert_eq!(ring.pop(), Some(cpu));
                ring.cpus()
            }));
            uses(self.queue.get().map(|queue| {
                queue.push(cpu).expect("memory");
                assert_eq!(queue.pop(), Some(cpu));
                queue.cpus()
            }));
            uses(self.pool.get().map(|pool| {
                pool.put(pool.get().expect("the source gives"));
                pool.cpus()
            }));
            uses(self.descriptors.get().map(|pool| {
                drop(pool.allocate().expect("memory"));
                cpus
            }));
            uses(self.linked.get().map(|stack| {
                stack.push(cpu).expect("memory");
                assert_eq!(stack.pop(), Some(cpu));
                cpus
            }));
        });
        used
    }
}

/// Answers a trapped call with an error, and uses atomseq.
extern "C" fn answer(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    ANSWERED.fetch_add(1, Ordering::Relaxed);
    assert!(atomseq::status().features().cpus > 0);
    GIVEN.ask_for_all();
    if let Some(counted) = COUNTED.get() {
        counted.increment();
    }
    // SAFETY: a handler's third argument.
    unsafe { fail_trapped_call(context) };
}

/// From now on, `answer` answers a system call.
fn trap(call: libc::c_long) {
    install_answer(answer);
    raise_at(call);
}

/// From now on, this handler of `SIGSYS` runs instead of a system call of the calling thread.
///
/// # Safety
///
/// The handler does what one may do in the middle of what makes the call.
unsafe fn trap_into(call: libc::c_long, handler: extern "C" fn(i32)) {
    // SAFETY: the caller's promise.
    unsafe { libc::signal(libc::SIGSYS, handler as *const () as libc::sighandler_t) };
    raise_at(call);
}

fn raise_at(call: libc::c_long) {
    let refusal = Refusal {
        call,
        answer: Answer::Trap,
        when: When::Always,
    };
    refuse(&refusal).expect("filters need no privileges");
}

/// A sandbox that answers system calls in a handler of `SIGSYS`, as browsers' sandboxes do.
#[test]
fn a_trapped_call_is_a_refused_one_to_start_up() {
    const TEST: &str = "a_trapped_call_is_a_refused_one_to_start_up";
    let start = || {
        let name = std::env::var("TRAPPED").unwrap();
        LazyLock::force(&GIVEN);
        trap(TRAPPED.iter().find(|(known, _)| *known == name).unwrap().1);
        let counter = atomseq::percpu::Counter::new();
        counter.increment();
        assert_eq!(counter.sum(), 1);
        let answered = ANSWERED.load(Ordering::Relaxed);
        let refused = REFUSED.load(Ordering::Relaxed);
        let given = GIVEN.use_everywhere(counter.per_cpu().count());
        assert_eq!((given, refused), (0, KINDS * answered), "{name}");
        // The control: now all of them can be made.
        GIVEN.ask_for_all();
        assert_eq!(GIVEN.use_everywhere(counter.per_cpu().count()), KINDS);
        println!("answered: {answered}");
    };
    if is_fresh_process() {
        in_fresh_process_under(TEST, Circumstances::default(), start);
        return;
    }
    let mut answered = 0;
    for (name, _) in TRAPPED {
        for registration in [("TRAPPED", name), OWN_REGISTRATION] {
            let circumstances = Circumstances::environment(&[("TRAPPED", name), registration]);
            let printed = in_fresh_process_under(TEST, circumstances, start).unwrap();
            answered += u32::from(!printed.output.contains("answered: 0"));
        }
    }
    assert!(answered >= 20, "only {answered} processes were answered");
}

/// The number of kinds of structures in [`Given`].
const KINDS: u32 = 10;

/// The calls of start-up, except those that the test itself needs.
const TRAPPED: [(&str, libc::c_long); 16] = [
    ("openat", libc::SYS_openat),
    ("read", libc::SYS_read),
    ("close", libc::SYS_close),
    ("getcpu", libc::SYS_getcpu),
    ("getpid", libc::SYS_getpid),
    ("gettid", libc::SYS_gettid),
    ("openat2", libc::SYS_openat2),
    ("fstatfs", libc::SYS_fstatfs),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("uname", libc::SYS_uname),
    ("membarrier", libc::SYS_membarrier),
    ("rseq", libc::SYS_rseq),
    ("wait4", libc::SYS_wait4),
    ("clone", libc::SYS_clone),
    ("sched_getattr", libc::SYS_sched_getattr),
    ("getrusage", libc::SYS_getrusage),
];

fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Start-up is stopped where it has prepared the registration of threads, and then decides against
/// it.
#[test]
fn no_thread_registers_before_start_up_has_ended() {
    static MIDDLE: AtomicBool = AtomicBool::new(false);
    static ASKED: AtomicBool = AtomicBool::new(false);
    extern "C" fn stand_still(_: i32) {
        MIDDLE.store(true, Ordering::Release);
        await_flag(&ASKED);
    }
    in_fresh_process_under(
        this_test!(),
        Circumstances::environment(&[OWN_REGISTRATION]),
        || {
            let starter = std::thread::spawn(|| {
                // SAFETY: the handler uses atomics and sleeps.
                unsafe { trap_into(libc::SYS_getcpu, stand_still) };
                assert!(!atomseq::status().is_active(), "{}", atomseq::status());
            });
            await_flag(&MIDDLE);
            let early = register_this_thread();
            ASKED.store(true, Ordering::Release);
            starter.join().unwrap();
            assert!(!early && !register_this_thread());
        },
    );
}

/// Start-up is stopped in one thread. Meanwhile another one reads and adds, for which it has words
/// that need no start-up.
#[test]
fn counting_does_not_wait_for_another_threads_start_up() {
    static MIDDLE: AtomicBool = AtomicBool::new(false);
    static COUNTED: AtomicBool = AtomicBool::new(false);
    static GONE_ON: AtomicBool = AtomicBool::new(false);
    static HITS: Counter = Counter::new();
    static OPEN: Gauge = Gauge::new();
    /// Not without end, so that a thread that waits for it fails this test.
    extern "C" fn stand_still(_: i32) {
        MIDDLE.store(true, Ordering::Release);
        for _ in 0..30_000 {
            if COUNTED.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        GONE_ON.store(true, Ordering::Release);
    }
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let starter = std::thread::spawn(|| {
            // SAFETY: the handler uses atomics and sleeps.
            unsafe { trap_into(libc::SYS_getcpu, stand_still) };
            atomseq::status();
        });
        await_flag(&MIDDLE);
        assert_eq!((HITS.sum(), OPEN.value()), (0, 0));
        HITS.add(5);
        OPEN.decrement();
        assert_eq!((HITS.sum(), OPEN.value()), (5, -1));
        let has_waited = GONE_ON.load(Ordering::Acquire);
        COUNTED.store(true, Ordering::Release);
        starter.join().unwrap();
        assert!(!has_waited, "it waited until start-up had ended");
        (0..3).for_each(|_| HITS.increment());
        assert_eq!((HITS.sum(), HITS.take(), HITS.sum()), (8, 8, 0));
    });
}

/// Memory is shared under a lock, whose holder forks wait for only after start-up. A constructor
/// that is refused inside start-up must therefore not have taken any: the 64 KiB that small
/// structures share are mapped with the first of them.
#[test]
fn a_constructor_that_is_refused_inside_start_up_has_taken_no_memory() {
    static REFUSED: AtomicU32 = AtomicU32::new(0);
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    fn pages() -> u32 {
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
        sizes.split(' ').next().unwrap().parse().unwrap()
    }
    extern "C" fn create(_: i32) {
        // The first reading may itself map memory.
        let [_, before] = [pages(), pages()];
        let refused = Histogram::try_with_bounds(&[1, 2]);
        TAKEN.store(pages() - before, Ordering::Relaxed);
        let is_refused = matches!(refused, Err(percpu::Error::StartingUp));
        REFUSED.store(is_refused.into(), Ordering::Relaxed);
    }
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        // SAFETY: start-up, which this thread interrupts by the trapped call, holds no lock that
        // reading a file needs.
        unsafe { trap_into(libc::SYS_uname, create) };
        atomseq::status();
        assert_eq!(REFUSED.load(Ordering::Relaxed), 1);
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
        assert!(Histogram::try_with_bounds(&[1, 2]).is_ok());
    });
}

/// `rseq` is trapped later: new threads use the slow path, and so do handlers that run in the
/// middle of their registration.
#[test]
fn a_trapped_registration_is_a_refused_one() {
    let circumstances = Circumstances::environment(&[OWN_REGISTRATION]);
    in_fresh_process_under(this_test!(), circumstances, || {
        if !atomseq::status().is_active() {
            return;
        }
        let counter = COUNTED.get_or_init(atomseq::percpu::Counter::new);
        // On a thread that has not registered: a registered one could not exit.
        let thread = std::thread::spawn(|| {
            trap(libc::SYS_rseq);
            counter.increment();
        });
        thread.join().unwrap();
        assert_eq!(ANSWERED.load(Ordering::Relaxed), 1);
        assert_eq!(counter.sum(), 2);
    });
}

/// `rseq` is refused later: a registered thread cannot unregister when it exits. glibc keeps the
/// thread's storage long enough; with other C libraries the process ends with a message. One run
/// for each answer.
#[test]
fn a_registered_thread_ends_where_rseq_is_refused_later() {
    const TEST: &str = "a_registered_thread_ends_where_rseq_is_refused_later";
    fn end_a_thread(refuse_rseq: impl FnOnce() + Send) {
        if atomseq::status().registered_by() != Some(Registrant::Atomseq) {
            return;
        }
        let counter = Counter::new();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                counter.add(1);
                assert!(cpu_id() >= 0);
                refuse_rseq();
                counter.add(1);
            });
            // Waits for its very end, which the scope does not.
            thread.join().unwrap();
        });
        assert_eq!(counter.sum(), 2);
    }
    let refuse_by_error = || refuse(&always(libc::SYS_rseq, libc::EPERM)).expect("a filter");
    if cfg!(not(target_env = "gnu")) {
        let errors =
            killed_in_fresh_process_under(TEST, Circumstances::captured(), libc::SIGABRT, || {
                end_a_thread(refuse_by_error)
            });
        assert!(errors.is_none_or(|errors| errors.contains("allow rseq")));
        return;
    }
    for how in ["error", "trap"] {
        let circumstances = Circumstances::environment(&[OWN_REGISTRATION, ("HOW", how)]);
        let printed = in_fresh_process_under(TEST, circumstances, || match std::env::var("HOW") {
            Ok(how) if how == "trap" => end_a_thread(|| trap(libc::SYS_rseq)),
            _ => end_a_thread(refuse_by_error),
        });
        if printed.is_none() {
            return;
        }
    }
}

/// The constructor of an object that another thread loads, with the dynamic linker's lock held,
/// uses atomseq while this thread starts it up and waits for that lock.
#[cfg(target_env = "gnu")]
#[test]
fn start_up_does_not_wait_for_a_constructor_that_waits_for_it() {
    static IN_CONSTRUCTOR: AtomicBool = AtomicBool::new(false);
    static STARTING: AtomicBool = AtomicBool::new(false);
    extern "C" fn construct() {
        IN_CONSTRUCTOR.store(true, Ordering::SeqCst);
        await_flag(&STARTING);
        // Lets the other thread reach the lock.
        std::thread::sleep(std::time::Duration::from_millis(50));
        atomseq::status();
    }
    const NAME: &str = "CONSTRUCTOR_OF_THE_TEST";
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let object = std::env::temp_dir().join(format!("constructor-{}.so", std::process::id()));
        let source = format!(
            "#include <stdlib.h>\n__attribute__((constructor)) static void construct(void) \
                 {{ ((void (*)(void))strtoul(getenv(\"{NAME}\"), 0, 10))(); }}\n"
        );
        let mut compiler = std::process::Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-x", "c", "-", "-o"])
            .arg(&object);
        let mut compiler = compiler
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cc");
        let mut input = compiler.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut input, source.as_bytes()).expect("it reads");
        drop(input);
        assert!(compiler.wait().expect("it ends").success());
        let address = (construct as extern "C" fn() as usize).to_string();
        // SAFETY: no other thread of this process reads the environment now.
        unsafe { std::env::set_var(NAME, address) };
        let path = CString::new(object.as_os_str().as_bytes()).expect("no zeros");
        let loader = std::thread::spawn(move || {
            // SAFETY: an object whose constructor calls `construct`.
            assert!(!unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) }.is_null());
        });
        await_flag(&IN_CONSTRUCTOR);
        STARTING.store(true, Ordering::SeqCst);
        // SAFETY: ends a process that hangs.
        unsafe { libc::alarm(30) };
        atomseq::status();
        loader.join().expect("the thread returns");
        std::fs::remove_file(&object).expect("it was made");
    });
}

/// Where glibc's `pthread_atfork`, which is linked into each program, can be replaced.
#[cfg(target_env = "gnu")]
mod registering {
    use super::*;

    type Handler = Option<unsafe extern "C" fn()>;

    /// The number of registered sets of atfork handlers.
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    /// The next thread that registers handlers stops before it does.
    static IS_ARMED: AtomicBool = AtomicBool::new(false);
    static IS_REACHED: AtomicBool = AtomicBool::new(false);
    static IS_OVER: AtomicBool = AtomicBool::new(false);

    unsafe extern "C" {
        fn __register_atfork(
            prepare: Handler,
            parent: Handler,
            child: Handler,
            object: *const u8,
        ) -> i32;
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> i32 {
        if IS_ARMED.swap(false, Ordering::AcqRel) {
            IS_REACHED.store(true, Ordering::Release);
            await_flag(&IS_OVER);
        }
        // SAFETY: what glibc's own does, for an object that stays.
        let errno = unsafe { __register_atfork(prepare, parent, child, core::ptr::null()) };
        REGISTERED.fetch_add(u32::from(errno == 0), Ordering::AcqRel);
        errno
    }

    /// Another thread registers the handlers at that time.
    #[test]
    fn gates_are_active_only_once_the_handlers_of_forks_are_registered() {
        let test = "registering::gates_are_active_only_once_the_handlers_of_forks_are_registered";
        in_fresh_process_under(test, Circumstances::default(), || {
            IS_ARMED.store(true, Ordering::Release);
            let other = std::thread::spawn(|| atomseq::status().gates_active());
            await_flag(&IS_REACHED);
            let active = atomseq::status().gates_active();
            let registered = REGISTERED.load(Ordering::Acquire);
            IS_OVER.store(true, Ordering::Release);
            assert_eq!(other.join().unwrap(), active);
            assert!(!active || registered > 0);
        });
    }
}
