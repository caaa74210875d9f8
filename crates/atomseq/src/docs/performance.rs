//! When a per-CPU structure is the right choice, and when another one is.
//!
//! # Which one
//!
//! | you have | use | because |
//! |---|---|---|
//! | data that one thread uses | a local variable, or a thread-local | nothing is cheaper |
//! | a counter that few threads add to, and that is read rarely | a thread-local | an add costs less than a per-CPU one |
//! | a counter read often, or with an exact value at any time | one atomic word | reading is one load, and one operation sees the result of the other |
//! | a counter that is rarely touched | one atomic word | 8 bytes |
//! | a counter or histogram that many threads on many CPUs hit | [`Counter`](crate::percpu::Counter), [`Histogram`](crate::percpu::Histogram) | no shared cache line, no atomic instruction, one word a CPU to read |
//! | more threads than CPUs, or threads that come and go | per-CPU | memory and reading cost depend on CPUs; exited threads leave nothing behind |
//! | objects to reuse (buffers, connections, pages) | [`Pool`](crate::percpu::Pool), [`Stack`](crate::percpu::Stack), [`List`](crate::percpu::List) | other threads cannot reach the objects in a thread-local cache |
//! | events that one consumer collects every few milliseconds | [`Ring`](crate::percpu::Ring), [`Queue`](crate::percpu::Queue) | producers do not contend; the consumer drains CPU by CPU |
//! | a queue with order across CPUs, whose threads need not sleep | [`nonblocking::Queue`](crate::nonblocking::Queue) | a per-CPU queue hands elements to the threads that run on that CPU |
//! | a queue between two given threads, or between a thread and a handler | [`spsc::Ring`](crate::nonblocking::spsc::Ring) | no atomic instruction |
//! | a queue that receivers sleep on | a channel | the above return when they are empty |
//! | a list that is searched more often than changed | [`nonblocking::List`](crate::nonblocking::List) | a search writes nothing and never waits |
//! | data that one thread shares with its own signal handlers | [`local`](crate::local) | sequences that cost what they would cost without handlers |
//! | work that changes two words at once, on all CPUs | [`dcas`](crate::dcas), [`nonblocking`](crate::nonblocking) | a thread that is stopped in the middle blocks no other thread and no signal handler |
//! | work that changes more, or blocks | a [`mutex`](crate::mutex) | a sequence has one visible store, a DCAS changes two words |
//! | a portable program whose main system has no rseq | atomics or a mutex | the slow path is slower than both |
//!
//! # The fast path
//!
//! No operation of a per-CPU structure executes an atomic read-modify-write instruction or a fence
//! on its fast path. What it does execute:
//!
//! * **around the section**: the offset of `struct rseq` and the area's address are loaded, and the
//!   section is armed by one store (the same two words every time, so they are in the first-level
//!   cache);
//! * **in the section**: on x86-64 five instructions to find the slot and test its gate, then the
//!   operation: one more for `Counter`, 12 more for a `Ring` of words, the others in between
//!   (disassembly of a release build, rustc 1.95);
//! * **after the section**: operations that return what they found test how it ended.
//!
//! On AArch64 the gate is loaded with acquire (`ldapr` where the target has it, else `ldar`), which
//! is an ordered load and no read-modify-write.
//!
//! What the alternatives cost, on an x86-64 virtual machine with two CPUs and Linux 6.18
//! (nanoseconds in a loop of one thread, minimum / median): a thread-local increment 0.4 / 0.4, an
//! interlocked add (`lock xadd`) 6.7 / 7.6, a mutex locked, incremented and unlocked 17 / 21, two
//! system calls that change the signal mask 347 / 350. For figures of atomseq itself on your
//! machine run the command:
//!
//! ```sh
//! cargo run --release -- bench
//! ```
//!
//! It runs each structure beside what one would use without it, and `--help` lists the experiments.
//!
//! An interlocked instruction on a word that other CPUs write as well costs many times the above,
//! because its cache line travels; that is where per-CPU structures gain most. A batch of elements
//! through [`Ring`](crate::percpu::Ring) shares one section among all of them.
//!
//! # Which lock
//!
//! | you have | use | because |
//! |---|---|---|
//! | data that one thread shares with its own signal handlers | [`SpinLockBy`](crate::mutex::SpinLockBy) [`Restarting`](crate::mutex::Restarting), by `try_lock` in the handler | no atomic instruction, no system call |
//! | data that the threads of one CPU share | [`SpinLockBy`](crate::mutex::SpinLockBy) or [`MutexBy`](crate::mutex::MutexBy) [`OnCpu`](crate::mutex::OnCpu) | no atomic instruction; other CPUs may use it, and pay for it |
//! | data that one CPU uses most, whichever that is | [`Biased`](crate::mutex::Biased) | the same on its home CPU; the home moves, and the lock becomes interlocked where several CPUs use it alike |
//! | data that all CPUs use, or use for long | [`Mutex`](crate::mutex::Mutex) | waiters sleep instead of taking the holder's CPU |
//! | data that is held for some ten nanoseconds, by no more threads than there are CPUs | [`SpinLock`](crate::mutex::SpinLock) | a waiter makes no system call |
//! | data that all CPUs read, and that is written less than once in some thousand reads | [`RwLock`](crate::mutex::RwLock) | readers take no atomic instruction, and write to no word that CPUs share |
//! | a lock that must report that its holder panicked | `std::sync`'s | atomseq has none |
//!
//! What a mechanism is worth is B91's question, and `atomseq bench b91-table1` its first table: a
//! critical section by each of them. Restarting costs what the plain loads and stores cost;
//! software reservation adds loads and stores, and fences where there are several CPUs; an
//! interlocked instruction costs more than all of these on one CPU; emulation costs a system call
//! or a signal. `b91-table2` has the same in locks, in making threads and in their turns, on one
//! CPU; `b91-table2-counts` counts the test-and-sets of a turn; and `b91-table4` has what calling a
//! sequence costs that could be inlined. S92's tables of threads are `s92-table52` and
//! `s92-table53`, by the coroutines of `atomseq-threads`.
//!
//! A lock that several CPUs use all the time costs what moving its cache line costs, and waiting:
//! there the mechanism hardly matters, and the way of waiting decides the throughput. `atomseq
//! bench mutex` measures that for locks held for no time, about 100 ns and about 1 µs, with one
//! thread, one a CPU and four a CPU; and `atomseq bench biased` what a home CPU is worth, from "no
//! other CPU ever uses the lock" to "two CPUs use it all the time". All these figures are of
//! throughput: the time in which all threads have done their share. By that measure a lock is fast
//! that lets one thread acquire it many times in a row. Of these locks only the queue lock is
//! always fair (parking_lot's is fair now and then). A queue lock hands over in order, which costs
//! many times what it gains where the next thread in the queue is not running.
//!
//! # The slow path
//!
//! [`percpu`](crate::percpu#cost) says when an operation takes it, and what it then costs in system
//! calls and atomic instructions. Closing and opening a gate took 0.5 to 0.7 µs (median of 5,000,
//! with a second thread running sections on the other CPU; Intel Xeon at 2.8 GHz, virtual machine
//! with two CPUs, Linux 6.18). The fence interrupts the slot's CPU if a thread of this process runs
//! there, which also costs that thread.
//!
//! A restart alone costs as much as the section: interruptions arrive every few milliseconds, and a
//! section lasts a few nanoseconds.
//!
//! # Memory and reading
//!
//! ```
//! use atomseq::percpu::Area;
//!
//! let slots = atomseq::status().features().cpus + 2; // two guards
//! assert_eq!(Area::try_new(0).unwrap().bytes(), 128 * slots);
//! assert_eq!(Area::try_new(1000).unwrap().bytes(), (128 + 1024) * slots);
//! ```
//!
//! Elements take room for each possible CPU, but pages that are never touched take none
//! ([exceptions](super::limitations#memory)). No memory is kept per thread, so a thousand threads
//! cost what two do.
//!
//! A sum reads one word for each possible CPU, each in a cache line that its CPU may just have
//! written. `len` and `is_empty` are the same. `steal` looks before it closes a gate, so that an
//! empty structure costs a walk over the slots and no system call.
//!
//! # How figures are taken
//!
//! `atomseq bench` runs the cases of an experiment in turns within one process, on pinned threads,
//! after a warm-up, and compares them round by round: a ratio is the median over rounds, with its
//! minimum and maximum, so that what slows the machine down slows both. With `--json` each figure
//! comes with its number of runs, minimum, tenth percentile, median and maximum, after one record
//! that names CPU, kernel, compiler and commit.
//!
//! `signal-sequence` runs M94's programs NULL, LIFO and FIFO (4.1). Its case `none` is the form's
//! own template, instruction for instruction, without its row in the table, so what a restarting or
//! rolling form takes longer is what protection costs. `dyn-jump`, `dyn-fault`, `hyb-jump` and
//! `designated` are that template inside the schemes of M94 3 and 2.1.1. M94's figures are what is
//! added to the bare program, so the same difference is taken here, round by round, and stands
//! beside its Table 1.
//!
//! The lock experiments count in every critical section, by a load and a store that would lose
//! counts if two threads were inside, and compare the count with what was done. Workloads that are
//! about one CPU have their threads pinned there, and share the operations; in the `visitor`
//! workloads of `biased` a thread of another CPU enters once every so many operations of the
//! first one's, and the figure is the first one's time. As in B91 4.1, the time of the loop is
//! subtracted in `b91-table1`.
//!
//! `rollforward-cost` interrupts a sequence at the same instruction every time: its second load
//! faults, and the fault's handler sends the signal that is then delivered there. Each interruption
//! by a signal stands next to one without, and the figure is the difference. `bare` has a handler
//! of `sigaction`'s instead of atomseq's, so what `plain` takes longer is the overhead of an
//! interrupt. The cases `instructions` step through one delivery and count. The cases `inspect` fit
//! a line to what checking each sequence of the program takes, over its number of instructions.
//!
//! `m94-crossover` measures the terms of M94 4.3, computes how often a sequence may be interrupted
//! until rolling it forward costs more than an interlocked instruction, and runs both an eighth as
//! often and eight times as often.
//!
//! `m94-paging` runs a sequence with and without the gate of M94 2.3.2. A `fault` moves a page out
//! and in again; what the page-out takes, a system call, is contained.
//!
//! `dcas`, `nonblocking-stack`, `nonblocking-queue` and `nonblocking-list` have all threads work on
//! one object, alone, one a CPU and four a CPU, and account for every operation in the end. A case
//! whose mechanism does not work on this machine is left out, so k-CAS never stands in for
//! OS-assisted DCAS. In `nonblocking-list`, the lists of the workloads `unordered` and `two-lists`
//! are not in order, and are searched from the front.
//!
//! In `nonblocking-map`, threads share a hash map of 8,192 keys a thread. A round of `get90` is 18
//! lookups of any key, a removal and an insertion of the thread's own; a round of `churn` is a
//! removal and an insertion. In `grow`, each thread fills maps of its own with 32,768 keys.
//! `map-footprint` fills a map with a million entries of 16 bytes and then removes every other one.
//! Its figures are the growth of the process's resident memory.
//!
//! `nonblocking-priority` is the hold model of event simulation: a thread inserts its event at a
//! random time after the last one that it popped, and pops the next one. The queue holds 1, 1,000
//! or 100,000 events all the time, and each thread one more. Times are random in a span in which
//! all events lie, so an insertion is anywhere among them.
//!
//! `page-map` looks up random pages: of 64 MiB in four regions, whose tables fit into a processor's
//! cache, or of 4 GiB, whose leaves take 16 MiB. Its `unsynchronized` tree has the same widths and
//! the same size of an entry, and is neither changed nor locked.
//!
//! `threads` has the coroutines and the runtime of `atomseq-threads` beside other crates' and the
//! standard library's. In `hog`, closures are spawned while another one computes on the same CPU.
//! Its figures are the waits until they begin, and the time of two computations with and without
//! preemption. `s92-table52` does each operation to a crowd of coroutines, and to one of a
//! runtime's threads, so that the requester's part and the dispatcher's part are figures of their
//! own.
//!
//! `flow-queue`, `flow-stack` and `flow-pool` have half of the threads produce and half consume, on
//! their own CPUs as far as there are enough. The figure is the wall time of a run divided by the
//! elements that passed. A thread that finds no room, or no element, spins in the `spin` workloads
//! and yields its CPU in the `yield` ones, and tries again; 16 and 1024 are the capacities. In
//! `flow-pool` a block of 64 bytes is taken by the producer, carried by a crossbeam `ArrayQueue` of
//! 256, and given back by the consumer. Each element is accounted for in the end.
//!
//! `stall` stops a thread by a signal at a random time in its operations, and times one operation
//! of another thread on the same object. Stops outside of operations do not count; where others
//! must revoke the stopped holder, only stops count in which they had to. A mutex is watched for a
//! millisecond each time, since its waiters would never acquire it.
//!
//! `oversubscription` reports CPU time, summed over 32 threads and divided by their operations:
//! wall time would include other threads' time slices.
//!
//! `s92-table51` runs one thread, as S92's table 5.1 does. A forced retry is what the table's note
//! 1 says: one interference between the read and the exchange. In atomseq's own stack and queue
//! there is no such gap, and its list backs off before a retry. The retry is therefore that of
//! S92's figures by [`Domain`](crate::dcas::Domain), whose first attempts are the case `cas2`.
