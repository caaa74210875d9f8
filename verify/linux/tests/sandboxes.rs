//! The documentation names all system calls that are made: checked against the sources, and in a
//! process that the kernel ends at any other call.
#![cfg(atomseq_sections)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::mutex::Biased;
use atomseq::signal::{self, Event};
use atomseq::{nonblocking, percpu};
use verify_support::processes::{Circumstances, in_fresh_process_under};
use verify_support::sandbox::allow_only;
use verify_support::sources::{library_source, library_sources, without_tests};
use verify_support::this_test;

/// System calls by name. A call that the documentation names must be listed here.
const NUMBERS: [(&str, libc::c_long); 39] = [
    ("openat", libc::SYS_openat),
    ("openat2", libc::SYS_openat2),
    ("fstatfs", libc::SYS_fstatfs),
    ("read", libc::SYS_read),
    ("close", libc::SYS_close),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("uname", libc::SYS_uname),
    ("getpid", libc::SYS_getpid),
    ("gettid", libc::SYS_gettid),
    ("futex", libc::SYS_futex),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("rseq", libc::SYS_rseq),
    ("membarrier", libc::SYS_membarrier),
    ("getcpu", libc::SYS_getcpu),
    ("clone", libc::SYS_clone),
    ("wait4", libc::SYS_wait4),
    ("nanosleep", libc::SYS_nanosleep),
    ("getrusage", libc::SYS_getrusage),
    ("sched_getattr", libc::SYS_sched_getattr),
    ("sched_setattr", libc::SYS_sched_setattr),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("exit", libc::SYS_exit),
    ("mmap", libc::SYS_mmap),
    ("brk", libc::SYS_brk),
    ("mprotect", libc::SYS_mprotect),
    ("tgkill", libc::SYS_tgkill),
    ("sched_yield", libc::SYS_sched_yield),
    ("munmap", libc::SYS_munmap),
    ("madvise", libc::SYS_madvise),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo),
    ("rt_sigpending", libc::SYS_rt_sigpending),
    ("rt_sigreturn", libc::SYS_rt_sigreturn),
    ("sigaltstack", libc::SYS_sigaltstack),
    ("write", libc::SYS_write),
    // For the exit of the process, and the memory that the test harness itself may need.
    ("exit_group", libc::SYS_exit_group),
    ("mremap", libc::SYS_mremap),
    ("getrandom", libc::SYS_getrandom),
];

/// The number of calls that only the harness needs, the last ones.
const OF_THE_HARNESS: usize = 3;

/// Returns the calls named by the paragraph on seccomp, except links.
fn documented() -> BTreeSet<String> {
    let text = library_source("docs/limitations.rs");
    let (_, after) = text.split_once("* **seccomp.**").expect("the paragraph");
    let (paragraph, _) = after.split_once("//! * **").expect("one after it");
    let parts: Vec<&str> = paragraph.split('`').collect();
    parts
        .windows(2)
        .step_by(2)
        .filter(|pair| !pair[0].ends_with('['))
        .map(|pair| pair[1].to_string())
        .filter(|name| {
            name.chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        })
        .collect()
}

/// Returns the names of system calls in a file, up to its unit tests: those called from Rust, and
/// those named in comments of assembly.
fn used(text: &str) -> BTreeSet<String> {
    let text = without_tests(text);
    let name = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        text[..end.unwrap_or(text.len())].to_string()
    };
    let constants = text.split("libc::SYS_").skip(1).map(name);
    let numbers = text.lines().filter_map(|line| {
        let instruction = line.trim_start();
        let is_number = ["\"mov eax, ", "\"mov x8, #"].iter().any(|number| {
            let rest = instruction.strip_prefix(number);
            rest.is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
        });
        let (_, comment) = instruction.split_once("// ")?;
        // The number may be the value of a Rust constant, which does not count.
        (is_number && !comment.contains("::")).then(|| name(comment))
    });
    constants.chain(numbers).collect()
}

#[test]
fn every_system_call_of_the_sources_is_documented() {
    let sources = library_sources();
    let all: BTreeSet<String> = sources.iter().flat_map(|(_, text)| used(text)).collect();
    let documented = documented();
    println!(
        "{} in the sources, {} documented",
        all.len(),
        documented.len()
    );
    assert!(all.len() > 20, "{all:?}");
    let missing: Vec<&String> = all.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "docs::limitations does not name {missing:?}"
    );
}

#[test]
fn a_call_that_is_not_documented_is_noticed() {
    let source = "syscall(libc::SYS_getcpu, []);\n    \"mov x8, #101\",       // nanosleep: why\n";
    assert!(used(source).into_iter().eq(["getcpu", "nanosleep"]));
    let source = "    \"mov eax, 324\",                  // membarrier\n#[cfg(test)]\nmod tests { libc::SYS_read";
    assert!(used(source).into_iter().eq(["membarrier"]));
    assert!(!documented().contains("signal") && !documented().contains("mlock"));
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);
static HITS: Biased<u32> = Biased::new(0);

/// Any other call ends the process, so that the calls that the C library makes are covered, too.
#[test]
fn what_is_documented_is_enough() {
    fn handles(_event: &mut Event<'_>) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    let number = |name: &str| {
        let found = NUMBERS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no number for `{name}`")).1
    };
    for environment in [vec![], vec![("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]] {
        let circumstances = Circumstances {
            environment,
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            let mut allowed: Vec<_> = documented().iter().map(|name| number(name)).collect();
            let harness = NUMBERS.iter().rev().take(OF_THE_HARNESS);
            allowed.extend(harness.map(|(_, number)| *number));
            allow_only(&allowed).expect("a filter");

            assert!(atomseq::status().gates_active(), "{}", atomseq::status());
            let counter = percpu::Counter::new();
            counter.add(1);
            let stack = percpu::Stack::<usize>::with_capacity_per_cpu(8);
            stack.push(1).expect("room");
            assert_eq!((counter.sum(), stack.drain().count()), (1, 1));
            let values = nonblocking::LinkedStack::new();
            (0..10_000).for_each(|value| values.push(value).expect("memory"));
            assert_eq!(std::iter::from_fn(|| values.pop()).count(), 10_000);
            *HITS.lock() += 1;
            // SAFETY: an atomic.
            unsafe { signal::install(libc::SIGUSR1, handles).unwrap() };
            let masked = signal::mask();
            // SAFETY: a signal to this thread, which is deferred.
            unsafe { libc::raise(libc::SIGUSR1) };
            assert_eq!(HANDLED.load(Ordering::Relaxed), 0);
            drop(masked);
            assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
        });
        // Once is enough, in the fresh process.
        if printed.is_none() {
            return;
        }
    }
}
