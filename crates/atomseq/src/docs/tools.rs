//! Miri, sanitizers, loom, valgrind, qemu: what to build with; and what to ship.
//!
//! | tool | build with | what it then sees |
//! |---|---|---|
//! | Miri | nothing: `cfg(miri)` is enough | the slow path, all of it |
//! | AddressSanitizer | `-Zsanitizer=address` | everything but the accesses of sequences, which are assembly |
//! | ThreadSanitizer | `-Zsanitizer=thread --cfg atomseq_portable` | the slow path; see below for handlers |
//! | loom, shuttle | not atomseq itself: see below | |
//! | valgrind's memcheck | nothing | the slow path, which start-up chooses |
//! | qemu-user for AArch64 | nothing | the slow path, and handlers |
//! | qemu-user for x86-64 | `--cfg atomseq_portable` if there are handlers | the slow path |
//! | `-C instrument-coverage`, `-C link-dead-code` | nothing | everything but the steps of sequences, which are assembly |
//! | gdb, rr | nothing, or `ATOMSEQ_DISABLE_RSEQ=1` | [limitations](super::limitations#debuggers-emulators-sandboxes) |
//!
//! A `--cfg` goes into `RUSTFLAGS`. On the slow path every operation does what it does elsewhere,
//! under a lock of its CPU; [`status()`](crate::status()) says so.
//!
//! # Miri
//!
//! Miri interprets no assembly, so `cargo miri` builds the slow path by itself. It has no signals:
//! [`signal::install`](crate::signal::install) and
//! [`AlternateStack`](crate::signal::AlternateStack) return
//! [`Unsupported`](crate::signal::Error::Unsupported), and masks are only counted. Words hold
//! addresses, and small structures share pages that the process keeps, so pass
//!
//! ```sh
//! MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks" cargo +nightly miri test
//! ```
//!
//! [`.ci/soak`] with `Miri` runs the library's own tests in this way where the toolchain has Miri.
//! Elsewhere it builds with `--cfg miri` and runs natively what Miri would interpret.
//!
//! # Sanitizers
//!
//! AddressSanitizer works with protected sections and with handlers. It does not see into
//! sequences.
//!
//! ThreadSanitizer does not see into sequences either, and what two threads do on one CPU is
//! ordered by the kernel, which it does not know. Build with `--cfg atomseq_portable` for threads.
//! A standard library without instrumentation, which is what toolchains bring, adds reports of its
//! own, about the end of threads for example. Programs with handlers may hang under it: it hides
//! from atomseq which handler is installed. [`verify/stress/tests/sanitized.rs`]
//! shows what they take.
//!
//! # loom and shuttle
//!
//! Atomseq's atomics are the processor's, not loom's. Put your use of it behind a type of your own,
//! and give that loom's atomics under `cfg(loom)`. Sequences have a model as data instead
//! ([`sequence::model`](crate::sequence::model)), which an exhaustive checker can run.
//!
//! # valgrind
//!
//! valgrind has no rseq, so start-up chooses the slow path; handlers and masks work. memcheck finds
//! no error. valgrind 3.19 prints warnings of its own, which are harmless:
//!
//! * `unhandled amd64-linux syscall: 437`, which is `openat2`, at start-up.
//! * `sigprocmask: unknown 'how' field 99` where there are handlers: atomseq asks the kernel in
//!   this way whether memory can be read.
//!
//! memcheck does not know the stacks of the coroutines of `atomseq-threads`. It reports accesses to
//! them as `Invalid read` and `Invalid write`; the program runs as elsewhere. helgrind and drd do
//! not know the atomic instructions of locks, and report them as races, the standard library's
//! first of all.
//!
//! # qemu-user
//!
//! It has no rseq either. On AArch64 handlers work, which [`.ci/soak`] checks. On x86-64 (qemu 7.2)
//! a program that receives a signal with a handler of [`signal`](crate::signal) ends by a fault;
//! with `--cfg atomseq_portable` it does not. Without handlers nothing is needed.
//!
//! # Deployment
//!
//! | target | linkage | what to know |
//! |---|---|---|
//! | glibc from 2.35 | dynamic or static | glibc registers each thread ([how atomseq finds that](super::internals#start-up)) |
//! | older glibc, musl | dynamic or static | atomseq registers each thread at its first operation, which is slower |
//! | any | a `cdylib` | [stays loaded](super::limitations#dlclose) once started up; two copies in a process [share handlers, not masks](crate::signal#limits); [`per_thread!`](crate::local::per_thread!) takes static TLS |
//! | any | after the linker | strip as usual, but [not the notes](super::limitations#after-the-linker) |
//! | other targets, 32 bits | any | [the slow path](super::limitations#platforms) |
//!
//! **Old kernels** run some or all structures on the slow path: see
//! [limitations](super::limitations#debuggers-emulators-sandboxes), also for containers, seccomp
//! filters and emulators. [Start-up](super::internals#start-up) lists the kernels.
//!
//! **Environment.** `ATOMSEQ_DISABLE_RSEQ=1` and `ATOMSEQ_TRUST_KERNEL=1` are read once, at
//! start-up; [`status`](mod@crate::status) says when to set which.
//!
//! **At start,** call [`status()`](crate::status()) before threads, handlers and a seccomp filter
//! exist, and log it. Its text says whether the fast path is used, and if not, why and what to do:
//!
//! ```
//! eprintln!("{}", atomseq::status());
//! ```
//!
//! [`.ci/soak`]: https://github.com/atomseq/atomseq/blob/main/.ci/soak
//! [`verify/stress/tests/sanitized.rs`]:
//! https://github.com/atomseq/atomseq/blob/main/verify/stress/tests/sanitized.rs
