//! How a sequence becomes machine code, and what happens when it is interrupted.
//!
//! `ARCHITECTURE.md` in the repository walks one sequence through every step. This page says why
//! the parts are as they are, and where they differ from the papers and from librseq.
//!
//! # From source to instructions
//!
//! [`sequence!`](crate::sequence!) parses a function, lowers it to straight-line steps over words
//! that are assigned once, checks the rules on those steps, and generates the forms that they
//! allow:
//!
//! | form | what it is | atomic because |
//! |---|---|---|
//! | `on_cpu` | inline assembly, for x86-64 and AArch64 | the kernel restarts it |
//! | `gated` | plain Rust | its caller holds the gate |
//! | `restarting` | inline assembly | a signal handler moves the thread back to its start |
//! | `rolling` | inline assembly, twice | a signal handler first runs it to its end, in the copy |
//! | `MODEL` | data, run by [an interpreter](crate::sequence::model) | the checker decides |
//!
//! All come from the same steps, so a protocol that is wrong is wrong in the model too.
//!
//! # The section
//!
//! ```text
//!         rseq->rseq_cs = &descriptor     arm
//! start:  slot = base + cpu_id * stride   cpu_id is read inside, and sign-extended
//!         if slot->gate != 0 goto closed
//!         … the steps; branches lead out of the section …
//!         commit                          the last instruction
//! end:
//!         (elsewhere, after a signature)
//! abort:  try again, out of line
//! ```
//!
//! **Arming** a section is one store: the address of a descriptor (start, length, abort address)
//! into this thread's `struct rseq`, which lies at a fixed offset from the thread pointer. Whenever
//! the kernel is about to return to a thread after preempting it, moving it to another CPU or
//! delivering a signal to it, it looks at that pointer. If the program counter lies in the section,
//! the thread continues at the abort address instead, and is disarmed; if it lies outside, it is
//! only disarmed. So nothing is disarmed on the fast path: a stale pointer costs nothing.
//!
//! **The CPU number** is read inside the section. If the thread is moved after that, the section is
//! aborted, so the number holds up to the commit.
//!
//! **The gate** is the first word of the slot; a section continues only if it is zero. A thread
//! without a registration reads its CPU number as -1 or -2 and lands on one of two **guard slots**
//! in front of slot 0, whose gates are closed permanently. The one test therefore answers three
//! questions: may sections run in this process, may they run on this thread, and does another
//! thread hold this slot's gate. The fallback adds no branch.
//!
//! **Abort.** The first attempt is inlined at the call. What follows an abort is a copy of the
//! section out of line, in a loop that gives up after
//! [`set_restart_limit`](crate::set_restart_limit) restarts and takes the slow path. Without a
//! limit, a debugger would step through a section indefinitely.
//!
//! **Claims.** A section with a compare-and-swap and visible stores cannot restart: other CPUs can
//! see what it did. It is attempted once. After an abort the caller receives the value of the abort
//! block. Nothing more is known: the registers of an aborted attempt are those of the interrupted
//! instruction. A thread that recovers the data must first end the attempt by a fence. The window
//! ends with one instruction. So exits behind the compare-and-swap branch to that instruction
//! instead of leaving, and note their number in the status register beforehand. Outside the window,
//! with the claim not released, an abort could no longer reach the thread.
//!
//! Each copy of a section, inlined or not, has its own descriptor in the linker section `__rseq_cs`
//! and a pointer to it in `__rseq_cs_ptr_array`: the names that librseq uses, and that tests and
//! debuggers find sections by.
//!
//! # The table
//!
//! `restarting` and `rolling` add no instruction: a signal handler finds out by the program counter
//! that it interrupted a sequence. M94 2.1.2 calls that static registration, with the disadvantage
//! that the program has to list every sequence, so that none can be inlined. Here the assembler
//! makes the list. Each copy of a sequence, inlined or not, leaves a note in the section
//! `.note.atomseq`: where it starts and ends, and where its clone does.
//!
//! **Why notes.** The linker collects them into one segment, `PT_NOTE`, of the object it makes; no
//! linker drops them; `dl_iterate_phdr` leads to them in executables, static programs and shared
//! objects alike. So no code registers anything, and a shared object may contain its own atomseq or
//! none. The offsets are relative to their own places: nothing is relocated when the program
//! starts, and the pages stay shared and read-only. Notes are looked for at every multiple of four
//! bytes, for a linker script may put them behind others in a segment that is aligned to eight,
//! which nothing can walk; and each is laid out alike for readers of either alignment. `patchelf`
//! moves notes away from the code that they name, so each also says how far it is from the
//! beginning of its object: with that, a reader knows how far it was moved. A section of addresses
//! between two symbols, as `__rseq_cs_ptr_array` is, would have needed relocations, and a
//! constructor in each object that makes its two symbols known. The price: since a note refers to
//! the code around its sequence, the linker keeps that code even if nothing calls it.
//!
//! **Clones.** A clone is the same instructions in a cold section, so the handler maps a program
//! counter by adding a constant, which solves the difficulty of M94 2.2.2. For that, each
//! instruction must have the same length in the clone. On x86-64 only branches could differ: those
//! of the original lead to another section, and the clone's have a prefix for the assembler that
//! asks for the long form. Nothing in a sequence depends on where it lies. A clone is run by the
//! delivery of the signal, with the interrupted registers and on the delivery's stack, since no
//! sequence uses one. It ends in a call through the address that the delivery has left at the top
//! of the stack, and each of its branches leads to such a call of its own. Behind each call stands
//! the offset at which the thread continues in the original. (Ending it in a trap, as the prototype
//! did, costs a second way into the kernel, which on a virtual machine took up to 8 us, and takes a
//! signal away from the program: one that kills if it is blocked, and whose handler has to run on
//! the right stack. The call would fail where the processor keeps a shadow stack of return
//! addresses, which no Rust program for Linux enables.)
//!
//! **Looking up.** `refresh` sorts all rows into a mapping of its own. A look-up from a handler
//! asks glibc (2.35 and newer, `_dl_find_object`, which may be called there) for the object that
//! holds the program counter. If the object was there at the last refresh, a binary search finds
//! the row; if it was loaded since, its notes are read in place; if it was unloaded, its rows are
//! ignored. Elsewhere an object that is loaded later is known from the next refresh on: installing
//! a handler refreshes, and so does an audit. A replaced index is unmapped when no look-up is in
//! progress.
//!
//! **Inspection.** M94 2.3.1 would inspect a sequence before it is rolled forward. The compiler
//! refuses long sequences, loops and calls. The machine code that assembler and linker produced is
//! decoded at each refresh, by atomseq's own decoders, which know exactly the instructions that are
//! emitted and refuse all others. They also compare each clone with its sequence, and follow its
//! ends. A note that names anything else, or code outside its own object, is refused, and
//! [`audit`](crate::signal::Audit::unprotected) reports it. A sequence that contains a breakpoint,
//! of a debugger or a uprobe, is accepted as it is.
//!
//! # Closing a gate
//!
//! ```text
//! close   block all signals; wait a little if a fork is in progress
//!         set the LOCKED bit of the gate, parking on a futex while it is set
//!         fence: membarrier aborts every section that runs on the slot's CPU
//! work    the gated form, or anything else
//! open    clear the bit and wake one waiter; restore the signal mask
//! ```
//!
//! After the fence every section on that CPU either has committed, and its stores are visible, or
//! starts again and finds the gate closed. Signals are blocked first: a handler that found the gate
//! closed by the thread it interrupted would wait indefinitely. A permanently closed gate needs no
//! fence, since no section has ever passed it. It is a lock, and that is the slow path of a process
//! without sections.
//!
//! [`Counter`](crate::percpu::Counter) and [`Histogram`](crate::percpu::Histogram) never close a
//! gate. Their slow path adds with an atomic instruction to words that no section touches, and
//! `take` moves a base line instead of resetting words. [`Counters`](crate::percpu::Counters) does
//! the same for many words of one area, and [`Gauge`](crate::percpu::Gauge) sets the base line so
//! that the sum is the value set.
//!
//! Their areas are mapped at the first use, so that they can be statics. The offset of `struct
//! rseq`, which each sequence reads first, is zero until then, and an operation that finds it so
//! takes the slow path. That path maps the area, agrees on one by a compare-and-swap of its
//! address, and then stores the offset: a thread that reads the offset also sees the address.
//!
//! # Objects that change CPU
//!
//! Objects that one CPU gets and another puts back leave the first one's stack empty and the second
//! one's full. Each [`Pool`](crate::percpu::Pool) has a depot for them, which moves batches, as
//! tcmalloc's transfer cache and the depot of Bonwick and Adams's magazines do:
//!
//! ```text
//! get, stack empty:  claim a full cell;  copy its batch;   the cell is free      2 atomic instructions
//! put, stack full:   claim a free cell;  copy half of it;  the cell is full      2 atomic instructions
//! ```
//!
//! Those have locks, which neither a handler nor a thread that must not wait can acquire. Here one
//! word says which cells are free, and another which are full. Clearing a bit by one atomic
//! instruction claims the cell, and setting the cell's bit in the other word releases it. Meanwhile
//! its owner has the cell alone. A thread that is stopped there, or interrupted by a handler, holds
//! up no other cell. There is no ABA problem, since a cell's history does not matter to the thread
//! that claims it. Without a cell, the pool asks its source, as it would without a depot.
//!
//! # Locks with a home CPU
//!
//! [`mutex::OnCpu`](crate::mutex::OnCpu) and [`mutex::BiasedFlag`](crate::mutex::BiasedFlag) are
//! two words, the home and the flag:
//!
//! ```text
//! set       section: home == cpu()? held == 0? commit held = 1            on the home CPU: no atomic instruction
//! clear     held = 0, on whatever CPU the holder is by now                 a store; only the holder writes a flag that is set
//! visit     block all signals; home: c -> CLAIM, by compare-and-swap; fence c
//!           held == 0? held = 1; wait a moment if it is not
//!           home: CLAIM -> the next home, which wakes the threads that wait for the end of the claim
//! wait      announce; the barrier, membarrier on all CPUs; test the flag again; sleep
//! ```
//!
//! The claim and the fence are to the home what the gate and the fence are to a slot: sections that
//! begin later find the claim, and those that had begun have committed or are aborted. While the
//! home is claimed, no thread there can set the flag, so a visitor that finds the flag set acquires
//! it next if the holder is quick. If not, the visitor releases the home and sleeps. A section's
//! test whether this CPU is the home also tests whether sections run in this process: where they do
//! not, or cannot be fenced, no CPU ever is the home, and the flag is set by a compare-and-swap. In
//! both modes two tests precede the section, of the home and of start-up.
//!
//! The holder's store that clears the flag has no barrier behind it, and may not be visible yet
//! when the holder looks for waiters. So a waiter has the kernel execute a barrier on every CPU,
//! between its announcement and its last look at the flag. Either the holder's store precedes the
//! barrier, and the waiter sees it; or the holder looks for waiters after the barrier, and sees the
//! announcement. The fence for sections does not suffice: clearing the flag is not a section, and
//! the holder may have migrated.
//!
//! `BiasedFlag` counts, under the lock, the uses between visits. That costs one more add on the
//! home CPU, and measures exactly what a clock would have to guess. Where visits do not pay off,
//! the flag becomes interlocked: a compare-and-swap to set it, a store to clear it, and the same
//! barrier for waiters. A clear flag records its mode, so that the compare-and-swap of a thread
//! that slept through a change of mode fails. `mutex/bias/mod.rs` lists all states, and which
//! threads may change them. `verify/model` runs the protocol under loom and shuttle, and finds
//! violations without the fence, without the barrier, and where the home is read before the
//! section.
//!
//! # Start-up
//!
//! The first call of [`status()`](crate::status()), or the first structure, decides for the whole
//! process:
//!
//! 1. **Registration.** glibc 2.35 and newer register every thread; atomseq finds that by
//!    `__rseq_offset`, looked up when the program runs, and uses it. With an older glibc, with
//!    musl, or under `GLIBC_TUNABLES=glibc.pthread.rseq=0`, atomseq registers each thread itself,
//!    on its first operation: the thread's own block says CPU -1 until then, which leads to a guard
//!    and so to the slow path, which registers it. Threads that C code started are no exception. A
//!    thread-specific key unregisters the thread before its storage is freed; destructors that run
//!    later use the slow path. With musl, so do those that are the first use on their thread.
//! 2. **CPUs.** The number of slots is the largest *possible* CPU number plus one, from a list in
//!    sysfs. A section does not test its index, so that list counts only if it is the kernel's own:
//!    in a file system of that type, with nothing mounted over it. The fallback is the width of the
//!    kernel's CPU masks: as `/proc/self/status` prints them, if that is the kernel's own, else as
//!    `sched_getaffinity` copies them. Each is an upper bound of every CPU number.
//! 3. **Self-test.** A section of atomseq's own is interrupted by a helper process that shares this
//!    process's memory, and must be seen to abort: there have been kernels that accept a
//!    registration and abort nothing.
//! 4. **The fence** is tested in the same way, and needs a kernel that is not on the **deny-list**:
//!    before commit 6eb350a22331 (Linux 6.18, 6.17.4, 6.12.54, 6.6.113, 6.1.157) the abort that a
//!    fence asks for could get lost, a race that no self-test can provoke.
//!
//! Hence two levels. [`is_active`](crate::status::Status::is_active): sections run, and counters,
//! gauges and histograms are fast. [`gates_active`](crate::status::Status::gates_active): the fence
//! can be trusted as well, and everything else is fast too. Where a level is missing, the gates of
//! the structures that need it are closed permanently from the start, and
//! [`reason`](crate::status::Status::reason) says why.
//!
//! # Fork
//!
//! A child has only the thread that forked, so a gate that another thread held would stay closed in
//! it. `pthread_atfork` handlers therefore let a fork begin only when no thread holds a gate, and
//! keep threads from closing one until the fork is over. A thread that changes handlers of signals,
//! or begins a walk through the loaded objects, counts as one that closes a gate.
//!
//! The wait is bounded, because a thread may close a gate while it holds a lock that the fork
//! needs. A handler that interrupted `malloc` does so, since the C library takes the locks of
//! `malloc` after all atfork handlers have run. So a thread that closes a gate waits for a few
//! milliseconds and then proceeds. A fork waits no longer for another thread's fork: its own thread
//! may hold a recursive lock that an atfork handler of the other fork waits for. Then the two
//! overlap, and threads that close gates wait for both. A thread that is about to change handlers
//! waits longer before it counts, with the caller's signal mask, and the next fork lets it proceed
//! first.
//!
//! A closed gate records in which *generation* of the process, counted by forks, it was closed, and
//! a child takes over gates that an earlier generation has closed. The lock of a thread that
//! changes handlers records its generation, too. The generation, and the count of threads that
//! close gates, are in a page that the kernel wipes in each child (`MADV_WIPEONFORK`): a child that
//! finds no generation there begins the next one. So a child is recognized in the first handler
//! that runs in it, after a raw fork, and in a PID namespace in which it has its parent's number.
//! Under a gate, no other thread can see a half-done change: a gated sequence, too, has its commit
//! as its only visible store.
//!
//! Registration and fence are inherited by the child.
//!
//! # Signals
//!
//! **Delivery.** For a managed signal the kernel calls atomseq's entry, not the program's handler.
//! The entry looks the interrupted program counter up and decides, before the handler runs:
//!
//! ```text
//! a fault                 its handler, at once
//! in a mask blocked, queued again with its own record, or kept: delivered when the mask ends
//! in a restarting one     program counter = start, then the handler
//! in a rolling one        the rest of it is run, program counter = end, then the handler
//! at start, at end,
//! or elsewhere            the handler
//! ```
//!
//! **Covering.** The program counter identifies only the code that was interrupted last. So no
//! managed signal may arrive while any handler runs that may itself have interrupted a sequence.
//! Every managed signal has all of them in its `sa_mask`, without `SA_NODEFER` and `SA_RESETHAND`,
//! which are emulated after the decision; with two signals pending and no such mask, the kernel
//! enters the second handler at the first instruction of the first one. And other libraries'
//! handlers are installed again with wider masks. Otherwise a managed signal inside one of them
//! would run in the middle of the sequence that handler has interrupted.
//!
//! **Blocking others.** A delivery keeps its state on the stack, and the thread points at it.
//! Another library's handler that interrupted it and left by `siglongjmp` would leave a pointer to
//! stack memory that other code uses, and a later delivery could not distinguish such a pointer
//! from a valid one. So the entry blocks *all* signals that can be blocked, by a system call,
//! before the thread points at anything. Another library's handler that arrives earlier leaves
//! nothing behind. Once the delivery has decided and the thread no longer points at it, it unblocks
//! other libraries' signals and calls the handler. That is two system calls a delivery: 3.66 µs
//! against 2.88 of a handler without atomseq, 1.27 times as long. (Six runs on a virtual machine,
//! each the minimum of 20 times 20,000 signals that a thread sends to itself.) Handlers of signals
//! that cannot be blocked do not run there either: those of other libraries are adopted, and wait
//! as described next. `verify/every-instruction` has handlers jump out of deliveries at each of
//! their instructions.
//!
//! ```text
//! kernel: blocks sa_mask │ entry: blocks the rest │ points at the delivery … decides … │ sets the mask │ handler
//!                        └─ returns the mask ─────┴──────────────────────────────────────> + the action's
//! ```
//!
//! The `sa_mask` of an entry could hold all signals instead, for one system call less; it did once.
//! But then the mask to restore is unknown. The context does not hold it: in `sigsuspend`, `ppoll`,
//! `pselect` and similar calls, it holds the mask that the call restores, while the handler must
//! run with the one that the call has set. And another library's handler that calls an entry has a
//! mask which is in no context. What the system call returns is right in each case.
//! `verify/signals/tests/kernel_masks.rs` compares it with what a handler without atomseq finds.
//!
//! A `SIGSYS` that a system call has raised is delivered without one. Its handler emulates system
//! calls, or switches their emulation off; while the signal is blocked, another one would kill the
//! process.
//!
//! **Deliveries inside deliveries.** Signals that must not be blocked, because faults raise them,
//! may still be sent, and arrive in the middle of a delivery. So the entry, a few instructions of
//! assembly, notes in the thread's words where the delivery keeps its state. A signal that arrives
//! before that store finds the context in a register or on the stack, and is delivered first, as if
//! it had arrived earlier. If that delivery is a fault's, whose sequence cannot be run to its end,
//! the signal's handler is reported `Inside`. A signal that arrives later leaves its record with
//! the delivery and returns; the delivery passes it on as soon as the sequence is complete. That
//! takes no system call, and blocks nothing that a fault of the clone may need.
//! `verify/every-instruction` sends each such signal at each instruction of deliveries.
//!
//! **Entries.** The function that the kernel calls exists sixteen times. Other code keeps the
//! address that it found, to pass signals on to it or to restore it, and the address must keep its
//! meaning: *this* handler of atomseq's, over *that* one of a library. With one function, a
//! library's handler that was installed over an adopted one, and adopted in turn, would pass
//! signals on to itself. And a library that restores what it found would be called after its
//! handler was removed. So atomseq installs over a handler an entry that the handler cannot have
//! seen. Only when all sixteen have been used for one signal are they reused.
//!
//! **Faults** cannot be deferred. Handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGTRAP`
//! and `SIGSYS` that other code has installed are adopted: atomseq calls them, so that a fault in a
//! clone is reported in the original. Those of `SIGABRT` are adopted as well, so that they wait for
//! deliveries. A fault's handler may leave the program counter unchanged (the clone continues) or
//! change it (the sequence is left, and the signal that was waiting for its end is delivered). It
//! may also leave by a jump, because atomseq keeps no state about a running handler that would have
//! to be reset. Handlers that interrupt it are reported `Inside` as long as any signal is blocked
//! that it has blocked. A word in the kernel's frame records that atomseq called it.
//!
//! The fault's handler and the delivery around it run over a sequence that is half done. At each of
//! their instructions, the thread's words hold one of two things: the delivery, for which another
//! signal then waits, or the note that a handler is inside, which is then reported to its handler.
//! The mask is set and the note written before the delivery decides; after the handler, the
//! delivery is recorded again before the note is withdrawn. Waiting signals are then delivered with
//! the fault's context: the sequence is run to its end first, as after any other signal.
//!
//! ```text
//! entry … set the mask, note ─ decided ─ handler ─ noted again, withdraw the note … last look, end ─ ret, rt_sigreturn
//!         the delivery: wait          │  the note: inside │        the delivery: wait          │ by the program counter
//! ```
//!
//! The entry's assembly ends the delivery, after a last look at what waits. A signal that arrives
//! at an instruction from that look on finds the context of the fault by its program counter, on
//! the stack or in a register, and uses it as its own. The last two instructions are the C
//! library's, which call `rt_sigreturn`: each delivery notes the address to which its entry
//! returns. `verify/every-instruction` (`signal_fault_deliveries`) sends signals to each of these
//! instructions.
//!
//! **The watchdog** of M94 2.3.1 would be a timer, and two system calls a rollforward. A clone has
//! no loop, so it can take long only by faulting repeatedly; atomseq reads the clock when it
//! faults.
//!
//! **The mask.** Two words of each thread: how many masks it is inside, and what deferral has
//! blocked.
//!
//! ```text
//! begin:  cmp count, 0; jne nested; mov count, 1
//! end:    cmp count, 1; jne nested; mov count, 0; cmp deferred, 0; jne unblock
//! ```
//!
//! Adding and subtracting would take fewer instructions and eight times as long: each addition to
//! memory waits for the last store to the same word, whereas a comparison is predicted. (4.3 ns a
//! pair against 0.6 ns, minimum of 20 runs of 2 million, on the machine of
//! [`performance`](super::performance).) No signal is lost at the end: one that arrives before the
//! store is seen by the comparison after it, and one that arrives after the store finds no mask.
//! The kernel delivers a deferred signal a second time, so its handler receives a genuine context.
//! `SIGCONT` and the terminal's stop signals are exceptions: generating one discards those of the
//! opposite kind, and queueing an old one again would discard a newer one. (Of 371,132 rounds in
//! which another thread sent both, 36,365 lost their `SIGCONT` that way.) The thread keeps these
//! and calls the handler at the end of the mask, unless the pending signals show that a newer one
//! has discarded it. The thread also keeps signals that a sandbox does not let it queue or send,
//! and those that the kernel's queue would lose: real-time signals when it is full, and the
//! standard signal of a timer, which may have expired again by then. (In masks of 50 µs, a timer of
//! 20 µs lost a quarter of its expirations that way.) A bare number that the kernel has noted is
//! cleared with the last queued signal of that number; the delivery of that one therefore checks
//! whether a record is still saved. A mask that ends while a gate is held unblocks nothing; the
//! opening of the gate does.
//!
//! Some signals are never blocked, so their handlers may interrupt the few instructions between the
//! store that ends a mask and the system call that unblocks. Such a handler may have masks of its
//! own. The signals that the interrupted operation is about to unblock are therefore set aside
//! until the handler returns, and the count of masks with them. Masks in the handler start from
//! zero, and only the interrupted end of the mask unblocks. `verify/every-instruction`
//! (`signal_ends`) sends such signals to each instruction of what begins and ends masks.
//!
//! # Structures shared with handlers
//!
//! A handler interrupts its thread and runs to its end before the thread continues: interference is
//! *nested*. [`local`](crate::local) rests on that. A sequence is atomic by its form; an operation
//! of several sequences only has to notice, in each, that a handler ran before it:
//!
//! * [`Ring`](crate::local::Ring) copies an element that is longer than a word in pieces. Each
//!   piece is stored only if the tail is where the push found it. Without that check, a push that
//!   continues after a handler's push would overwrite the element that the handler has stored in
//!   the same place. A bounded copy in one sequence, as in `percpu`, does not suit the forms
//!   against signals: a rollforward would have to run the rest of it in the handler.
//! * [`Map`](crate::local::Map) searches with plain loads, and changes its set of keys by a
//!   sequence that first compares the map's version, the sum of two counts, with what it was before
//!   the search. Values change by sequences that compare the key. Its source proves that no key is
//!   ever there twice.
//!
//! The gaps between sequences are marked in the source. Unit tests run every other operation in
//! each gap, and compare the result with the two serial orders.
//!
//! # Type-stable memory
//!
//! A [`type_stable::Pool`](crate::type_stable::Pool) is a [`percpu::Pool`](crate::percpu::Pool) of
//! addresses over pages shared by all CPUs:
//!
//! ```text
//! this CPU's stack of free descriptors
//!    │ empty: a batch                              │ full: half of them, at most 31
//! the depot shared by all CPUs
//!    │ empty: up to 32 of one page                 │ full: each to its page
//! the lowest page with something free, found by bits ── none: the next chunk is mapped, twice as large
//!
//! a page's word:  tag 32 | used 16 | first 16      links: how far the next free one lies beyond the next
//! ```
//!
//! **No thread waits for a gate** before the pages are exhausted. A thread that cannot use this
//! CPU's stack, because another thread steals from it or because sections do not run, allocates a
//! descriptor from the pages and frees it there, which is lock-free.
//!
//! **Bits are only hints.** A page's bit says that nothing is free in it. The thread that has taken
//! the last descriptor sets it; by then other threads may have freed one. So the word that has the
//! bit also counts the threads that have set one and not checked the page again. Where that count
//! is not 0, a search looks at the pages themselves, up to 32 of them. No allocation is refused
//! because of a bit, even if the thread that has set it never resumes. A search that finds nothing
//! loads one word for 1,024 exhausted pages.
//!
//! **Everything starts as zeros.** A fresh descriptor is an instance of its type, a fresh page is a
//! list of all its descriptors, a fresh chunk's bits say that all pages have something free. So
//! mapping a chunk publishes one address, a page takes no memory before something in it is used,
//! and a page that was returned to the system is a fresh one, without initialization.
//!
//! **Why `&T` is sound.** GC96 needs that an old pointer does not lead to another type. Rust also
//! requires that the target of a reference is alive, and changes only in atomics. An instance here
//! is alive from the mapping of its chunk to the end of its pool, allocated or not; no `&mut T`
//! exists, and nothing is constructed or dropped in between. The alternative, a closure that
//! constructs instances, would have to drop them before their page is returned, while threads may
//! still read through old addresses. So the type declares by an `unsafe` trait that zeros are an
//! instance. A macro implements it for structs of atomics, and checks the fields as the compiler
//! finally sees them: attributes may have changed what the macro was given.
//!
//! **Why pages keep their addresses.** GC96's t_stable is a time after which no thread reads an old
//! address any more. That is an assumption about how long a thread can be preempted, and a program
//! that is stopped in a debugger breaks it. `MADV_DONTNEED` takes the memory and leaves the
//! addresses, which then read as zeros. A late reader finds zeros, and no version that it knows (a
//! page's record keeps the highest version that was used in it, and the page continues from there).
//! With unmapped pages it would be killed: a test shows both.
//!
//! **t_stable without a clock on the fast path.** A trim that finds all of a page free notes the
//! tag of the page's word and the time. If a later trim finds the same tag, no descriptor there was
//! allocated or freed since. So freeing reads no clock. A trim that is delayed, or overtaken by
//! others, does not shorten the time. It reads the clock for each page, after the page's word, and
//! notes the time by an exchange, which fails if another trim has noted anything since. A noted
//! time that is later than the clock means that no time has passed. (Times wrap after 24 days. One
//! that seems to lie ahead may also lie more than 12 days back, and is noted anew. A page whose
//! word has changed 2^32 times between two trims, or a multiple of that, looks unused.)
//!
//! **Claims** work the same way: an audit that finds a descriptor allocated writes the time beside
//! it, and an allocation or a claim writes 0. If the time is still there later, there was no claim
//! in between. Since a claim before the audit's write changes nothing that the audit could see, an
//! audit first writes its own number, then reads the clock, and then exchanges its number for the
//! time: a claim in between makes that fail. The word does not identify the allocation, and an
//! audit may have stopped before it wrote its number. So an allocation first has an even version,
//! then writes 0, and then makes the version odd, also where a caller adopts a descriptor from an
//! audit. And an audit that has written its number checks the version before it writes the time.
//!
//! # Double compare-and-swap
//!
//! ```text
//! lock   FREE(v) -> HELD(v, cpu) -> FREE(v+1)       a change: one section, one atomic instruction
//!        HELD(v, cpu) -> CLAIM(v, me) -> FREE(v+1)  a stopped holder is revoked, and its change rolled back
//! ```
//!
//! A domain's version number is its lock (GC96 5.1), and the log of what its holder changes lies in
//! the same cache line. The holder logs, stores, and releases the lock by the last instruction of
//! its section. If it is interrupted, the kernel ensures that it never stores again. A thread that
//! finds the lock held, readers included, looks a few times more, claims the lock, and fences the
//! holder's CPU. Then the holder has either released the lock, and the claim fails, or its section
//! is over, and the log's old values are restored. Recovery may be interrupted as well, so it is a
//! section of its own, which checks the claim first; a claim of a claim fences all CPUs. A claim is
//! identified by a number that one call has at a time. If a CPU's number identified it, two calls
//! would take each other's claim for their own, and one of them would roll back what a third has
//! done since. The model in the repository finds that, and the purpose of each other protection, by
//! leaving it out.
//!
//! A thread that finds the lock held by its own CPU needs neither claim nor fence: the holder is
//! not running, and its section is over. A section that checks the CPU again restores the log's old
//! values and releases the lock. A signal handler that has interrupted a change does so, and so
//! does the next thread on a CPU whose previous thread was preempted in a change.
//!
//! A thread that cannot run sections takes the lock as LOCKED, with signals blocked from then on;
//! no fence ends what it does, so the others wait for it. It logs what it changes all the same: in
//! the child of a fork that happens meanwhile it does not exist. The lock records its process, and
//! the first thread in the child that finds it rolls the change back.
//!
//! GC96 6.1 has three objections. *A common lock*: here each domain has its own. *Reading both
//! locations again and writing the lock*: the lock's cache line holds the version and the log.
//! *Unsynchronized readers see tentative values*: a reader checks the version before and after.
//!
//! k-CAS replaces references to its descriptor by values before it returns. Leaving references in
//! the words, as Guerraoui and others do, costs fewer compare-and-swaps, k + 2 instead of 2k + 2.
//! But it binds a descriptor to every word that was ever changed, which takes several times the
//! memory of a large structure's words, and removing a value may need memory. It was also slower
//! here, 58 ns a change of two words beside 33 (`bench dcas`, 1 thread, least of three interleaved
//! runs each). A late helper does no harm because the intermediate reference is unique;
//! `dcas/kcas.rs` lists why it holds.
//!
//! A descriptor is free when its thread leaves the operation. To know that costs no atomic
//! instruction: a block of descriptors belongs to one thread, which takes its own descriptors by
//! plain stores. Before these, it marks that it takes one, by an instruction that is atomic only
//! for code that interrupts it: `cmpxchg` without `lock` on x86-64. Such code is a handler, or a
//! coroutine to which a handler has switched. The thread leaves the block when all of its
//! descriptors are taken, and another thread that needs a block takes it over. So does a thread
//! that needs a block when the owner has exited, which the kernel reports (`tgkill` of no signal).
//! Descriptors come from shared blocks, by a compare-and-swap, in these cases: that call is
//! forbidden, or those that return a thread's number; there is no memory for a block; or the thread
//! was interrupted while it takes a descriptor. (Evicting a thread that only sleeps, by a barrier
//! on all CPUs, does not work. If that thread is stopped between its check that the block is its
//! own and its mark that it is inside, the mark comes late, and keeps all others out indefinitely.)
//!
//! A thread that finds an operation in progress waits a little before it helps. Meanwhile the words
//! and the descriptor stay in the cache of the processor that is about to complete the operation.
//!
//! # Queues in arrays
//!
//! ```text
//! cells    turn word | turn word | …    a turn says for which round the cell is empty or full
//! push     at the tail: (round, 0)        -> (round + 1, word)    one double-width compare-and-swap
//! pop      at the head: (round + 1, word) -> (next round, 0)      the same
//! tail     a hint: all places before it have been pushed; head: all before it have been popped
//! ```
//!
//! A [`nonblocking::Queue`](crate::nonblocking::Queue) is used by threads that push on some CPUs
//! and pop on others, and poll where they find it full or empty. So the two ends share nothing but
//! the cells between them, and an operation that finds the queue full or empty stores nothing to
//! them. Each word has a turn beside it, as in D. Vyukov's bounded queue, and the cells themselves
//! define each end: it is the first place whose turn shows that it has not been passed. In Vyukov's
//! queue a thread takes a place by a change of the tail and fills the cell afterwards; if it is
//! stopped in between, all later elements wait as well. Here one instruction fills the cell, and
//! the tail may be stored late or never. A thread that finds a hint late computes from turns how
//! many rounds it is behind, and searches one round by bisection.
//!
//! "Full" and "empty" are exact. A thread that knows that all places before one have been pushed,
//! and reads that place's turn, has found the tail at that moment. If the turn belongs to the
//! previous round, the cell is still full, and so is the queue.
//!
//! *Contention.* A thread whose exchange fails, or whose hint is late, pauses for 1 to 512 pauses,
//! four times as long each time in one operation, while the other makes many changes with the cache
//! lines to itself. Nothing sleeps.
//!
//! *Refusal.* A thread that finds the queue full or empty waits for the other end, for at most 512
//! pauses in which nothing changes there and 2,048 in all, before its operation fails. Its caller
//! would yield the CPU. Where others keep that CPU busy, the thread gets it back after
//! milliseconds, and a producer and a consumer that follow each other closely passed 80 elements in
//! that time; with the wait, they pass more than a crossbeam `ArrayQueue`. On two CPUs of an Intel
//! Xeon, one of them busy, an element through a queue of 16 took 17 µs without the wait and 0.1 µs
//! with it; if neither was busy, one through a queue of 1,024 took 19 ns and 8 ns. A wait in vain
//! is noted at this end: the next one happens after one further element at the earliest, then after
//! two, four, and so on up to 4,096. The first wait happens after 512 to 1,024 elements, so a small
//! queue that is created, filled and emptied for one request does not wait. A thread that polls
//! waits once, and a thread that fills and empties a queue alone spends little time waiting. A wait
//! that is not in vain is noted as well: the next one happens after one further element for each
//! eight pauses. So a thread with other work is not held up by each refusal, whether it drops what
//! it cannot push or pops from many queues in turn. Without that note, a thread that offered an
//! element each 0.2 µs to a consumer that takes 3 µs for each offered one each 3 µs, and a thread
//! that drained eight queues in turn, each of which got an element each 2 µs, stayed at the first
//! one.
//!
//! # Queues in segments
//!
//! ```text
//! state    below 4n            empty, for the segment with number n
//!          4n + 1              claimed: one push moves its value into the cell
//!          4n + 2              full
//!          4n + 3              over: popped, or a claim that was revoked
//! push     empty -> claimed    then the value, then claimed -> full
//! pop      full -> over        then the value; claimed -> over if a later place is full
//! ```
//!
//! A [`nonblocking::LinkedQueue`](crate::nonblocking::LinkedQueue) holds values of any size, which
//! no instruction stores together with a turn. A node for each value would take two cache lines for
//! one that passes, and a queue of M. M. Michael and M. L. Scott follows a link from each value to
//! the next, which no processor fetches ahead. So the values lie in segments of 32 cells, as in
//! crossbeam's `SegQueue`. There a pop waits for a push that has taken a place and not filled it.
//! Here it revokes the place, as in the queues of A. Morrison and Y. Afek, whose consumers also
//! overtake producers. A pop first spins, because a running push fills its place within
//! nanoseconds. It does neither unless a later place is full: so pops never revoke a producer that
//! pushes alone, and pushes do not revoke one another without end. A call of `len` decides each
//! claimed place among those that it counts, and so revokes a stopped push in any case.
//!
//! *Memory.* Segments are type-stable and are numbered in the order of the queue. States are
//! multiples of these numbers, which never repeat, so a reused segment needs no new states: what
//! its last life has left is below those of the next, and means empty. All exchanges of a delayed
//! thread fail. So nothing waits for readers. A segment is free when each of its values was moved
//! out, each revoked push has taken its value back, and both ends have moved on; these threads
//! count themselves.
//!
//! *Contention* is as in queues in arrays, but a thread pauses four times as long at first, since
//! an operation makes two changes.
//!
//! # Stacks in arrays
//!
//! ```text
//! lock     FREE(v) -> HELD(v, cpu) -> FREE(v+1)       a change: one section, one atomic instruction
//!          HELD(v, cpu) -> CLAIM(v, me) -> FREE(v)    a stopped holder is revoked; there is nothing to roll back
//! lengths  even | odd                                 the version's parity says which one counts
//! ```
//!
//! A [`nonblocking::Stack`](crate::nonblocking::Stack) needs no log. A value is stored in a cell
//! that is not in use, and the new length in the copy that is not valid at this version. No reader
//! uses either. The last instruction of the section makes both valid at once. So what a revoked
//! holder has stored is never read, and recovery is a claim, a fence, and a compare-and-swap back
//! to the *same* version. A change loads all that it needs before its compare-and-swap, in the
//! shadow of that instruction. The loaded values are valid if the compare-and-swap succeeds,
//! because no thread stores to what is valid at a version. That saves five stores over a change of
//! two words.
//!
//! A thread that finds the lock held by its own CPU needs no fence here either: a section frees the
//! lock with a plain store.
//!
//! *Patience.* A thread that looks at the lock takes its cache line from the holder, which needs it
//! to release the lock. Where a pause is 10 ns, two threads that looked after each pause, and
//! revoked the holder after 32 looks, did so 4,600 times in 7 million operations; with 8 pauses
//! between looks, 49 times. A fence ends any section on that CPU, also an unrelated one. So a
//! thread whose own section was ended revokes at once only a holder on its own CPU. A thread whose
//! attempt fails pauses as in a queue, so that the other thread keeps the cache lines for many
//! operations. It does not sleep: with sleeps of 60 to 480 µs, producers and consumers that spin at
//! a stack of 16 took 14 to 67 µs an element, on four busy CPUs, and 0.1 to 0.2 µs without.
//!
//! *Turns.* A stack has one end. When another CPU changes it, the cache lines of the lock and of
//! the cells move there, so a stack is fastest if each CPU makes many changes in a row. The lock
//! names the CPU that changed it last, whose turn it is. A thread on another CPU that finds that
//! CPU active pauses before it takes the turn: one pause for each eight changes that the other CPU
//! could still make. Then it fetches the cells that its next changes need. A thread that finds the
//! stack full or empty waits before its operation fails, as in a queue, until the other threads
//! have made changes and then none between two looks. As a rule they have then filled or emptied
//! it. If they make changes of both kinds, as at a pool of free values, the wait ends and was in
//! vain.
//!
//! # Lists shared by all CPUs
//!
//! ```text
//! find       version; walk; still that version
//! change     version; walk; { a link or two = …, version + 1 } if still that version
//! ```
//!
//! That is all of GC96 figure 2, and [`nonblocking::List`](crate::nonblocking::List). A walk takes
//! no lock and writes nothing, so it may visit nodes that were freed and reused. Type-stable memory
//! makes that harmless, and the version reveals that the walk must retry. It checks the version at
//! its end and every 64 nodes. Otherwise two nodes that are deleted and pushed in front in turn,
//! each when the walker has just reached it, would lead it in a circle indefinitely; a test does
//! just that.
//!
//! Their sequential specifications, with which tests and recorded histories are compared:
//!
//! | list | state | operations |
//! |---|---|---|
//! | `List`, ascending | a map in the order of its keys, and the set of keys that are checked out | `try_insert` only inserts an absent key; `insert`, `replace`, `remove`, `get` refuse a key of the set; `pop_first`, `snapshot` skip it |
//! | `List`, unordered | a sequence of entries, the newest first | the same, of the first entry with the key |
//! | `RefList` | a sequence of places with values, some of which are removed | `push_front`, `pop_front`, `front`; `insert_behind` a value that is not removed; `remove` returns whether the value was in the list; `next` of a guard is the first value behind its place, whether its own was removed or not |
//! | `OneVisitorList` | the same, and the set of values that are visited | `visit_first`, `into_next`, `pop_front` skip those |
//! | `ListCache` | a sequence of descriptors for each list, each descriptor in at most one of those of a link | insertion returns whether it was in none; `pop_front`, `remove`; a write-back removes it from one link after the other |
//! | `PriorityQueue` | a sequence of priorities and values, in ascending order of priorities, and of insertion among equal ones | `pop`, `peek` take and read the first, `pop_due` if its priority is at most the given one; `remove` takes any; `change_priority` is `remove`, then `insert`, and not one step |
//! | `MultiMap` | a set of pairs, with the order of their insertion | `insert`, `remove` and `contains` of a pair; `pop` removes the newest of a key; `fold` reads those of a key; `retain` is a sequence of `remove` |
//! | `PageMap` | a map of page numbers to entries | `unload`, `unload_subtree` remove the entries of 64 and 8,192 pages at once; `snapshot` reads those of 64 |
//!
//! *What a copy may contain.* A node's owner writes its key and value word by word, while late
//! walkers read them. They may read half of each, so what they pass to a comparison must be a valid
//! value whatever its bits: hence `Plain`. A walker that has seen a new owner's word also sees that
//! the version has changed, by this chain of orderings: the exchange that unlinked the node, the
//! release fence in the pool's `allocate` (or behind the exchange that checked the entry out), the
//! new owner's store; the walker's load of it, its acquire fence, its load of the version.
//!
//! *Checked-out entries.* GC96 5.1 warns of a handler that retries until it finds a descriptor
//! which its own thread has removed to change it: that would be a deadlock without any lock. So no
//! operation here retries for such a reason. The entry keeps its place, marked with the number of
//! the thread that checked it out, set and cleared by one exchange of one word each. Every
//! operation on its key returns [`CheckedOut`](crate::nonblocking::CheckedOut), which says whether
//! the calling thread has it. If that thread exits, any thread may unlink the node. The node itself
//! still belongs to the thread that checked it out, which may only have been slow, and learns of
//! the removal.
//!
//! *Counts.* S92's figure 5.7 raises the count of the node that a link leads to if neither has
//! changed meanwhile. But a link in a node that was deleted never changes again, and what it leads
//! to may be deleted next, freed, and used for another value: the count and the link still match.
//! In [`nonblocking::RefList`](crate::nonblocking::RefList), removing a node only marks it. It
//! keeps its place, where others step over it, until one exchange takes its last guard and unlinks
//! it. So the link of a node with a guard always leads to the node behind it, values can be
//! inserted there, and a visitor of a removed value has not lost its place.
//!
//! *An index of hints.* A skip list needs one change for each level that a node is on. In
//! [`nonblocking::PriorityQueue`](crate::nonblocking::PriorityQueue) only the list is covered by
//! the version. The levels above it are hints, stored by plain stores: each is the address of some
//! node of the queue, or 0. A search follows a hint only to a node that is in the list, further on
//! than the last one, and before the place that it looks for. So it ends, and what it finds is a
//! node from which an attempt starts; the attempt checks at its version that this node is in the
//! list and before the place. A covered word, the link, must therefore distinguish a free node from
//! a linked one. That includes a node that never was in a list: a search may find it by a change
//! that is rolled back later. Lost hints are found by the heights of nodes. One test wipes all of
//! them, another has them lead anywhere.
//!
//! *Two types of tables.* A lookup in a [`nonblocking::PageMap`](crate::nonblocking::PageMap) that
//! was overtaken by an unload may follow a link in a table that is used for other pages by now, or
//! is free: it gets to some leaf. Were tables and leaves of one pool, it could take an entry for
//! the address of a leaf.
//!
//! # Hash maps shared by all CPUs
//!
//! ```text
//! find       the bucket's state; its entries; the same version
//! insert     reserve a free entry | write it | { live, version + 1 }
//! remove     { free, version + 1 }
//! split      fill in a child | { the parent's depth + 1, the moved entries free, version + 1 }
//! merge      freeze the child; copy it | { the parent's depth - 1, the copies live, version + 1 }
//! ```
//!
//! Each pair of braces is one compare-and-swap of the bucket's state word, which holds its version
//! (GC96 5.1), its depth, and a bit for each of its entries. So there is nothing to roll back, and
//! neither mechanism of DCAS is needed, except for nodes: a bucket that is full links them, by
//! k-CAS of its state and the links.
//!
//! A split needs two buckets to change at one time. The depth of the parent alone decides which of
//! the two a hash belongs to, so one word changes. A child that is filled in and not LIVE yet is a
//! bucket if the parent's depth says so, and the next thread that finds it makes it LIVE.
//!
//! There is no second table while the map grows, and no old one afterwards: linear hashing adds
//! buckets behind the others, in segments of doubling size. The count of buckets is a hint. A
//! thread that uses an old one finds a bucket whose depth leads it to the right child, or a child
//! that is none, which leads it to the parent.
//!
//! The sequential specification of [`nonblocking::HashMap`](crate::nonblocking::HashMap) is a map.
//! Recorded histories are compared with it while buckets are split and merged inside the
//! operations. A control commits a split without the parent's version, and is found to lose an
//! entry.
//!
//! [`nonblocking::RefHashMap`](crate::nonblocking::RefHashMap) is such a map of addresses, each of
//! a node with a value and a count. A guard is taken by one compare-and-swap of the count. The
//! address may be that of a freed node by then, so the count shares its word with the number of the
//! node's allocation: the reader loads the word, checks the bucket, and then exchanges that very
//! word. S92's double compare-and-swap of a link and a count (figure 5.7) is not needed, since the
//! link need not be unchanged at the exchange, but only after the load. A unit test lends without
//! the check of the bucket, and gets another key's value.
//!
//! # Per-thread statics
//!
//! ```text
//! static IMAGE in section .tdata.atomseq     the initial value, in the object's TLS image
//! with(): mov address, [IMAGE@GOTTPOFF]      where in a thread's storage; linkers make it a constant
//!         add address, fs:[0]                this thread's storage
//! ```
//!
//! The C library copies the image before a thread's first instruction. This is what compilers call
//! the initial-exec model; a Rust `thread_local!` in a shared object has the general one, whose
//! `__tls_get_addr` may allocate on a thread's first access. Rust has no stable way to choose the
//! model, so the static is an ordinary one by type, put into a section whose name makes it the
//! linker's thread-local, and only assembly takes its address.
//!
//! # Differences from the papers
//!
//! | paper | there | here | why |
//! |---|---|---|---|
//! | B91 2.2, figure 1 | Lamport's algorithm holds a lock from line 19 to line 21 and has no way to give up | as printed, and beside it a test-and-set: figure 2 with a meta-lock a variable (crate `atomseq-papers`) | a thread that collides cannot distinguish the holder from a thread that is still deciding, so giving up there could leave the lock without an owner, and waiting would mean waiting for the holder |
//! | B91 2.2 | its processor had no fences to make | two, where a load could pass a store; none for the threads of one CPU | each is left out in a model, which fails |
//! | B91 2.2 | "\[1,2,3,9,19,21,22\]", "two loads"; `p = 1` in figure 2 | line 10 as well; `p := 1` | misprints: line 10 is the second load |
//! | B91 2.3 | the kernel emulates the pseudo-instruction with interrupts disabled: one processor | a handler of `SIGILL`, with signals blocked, by an interlocked instruction; or a call that the kernel has | Linux knows no such instruction; every CPU |
//! | B91 2.4 | the only store is the last instruction | stores before it are allowed if no other thread reads them (`prepare`) | a restart repeats them unseen; without them a list could not be built |
//! | B91 3.1 | explicit registration: one sequence an address space, announced at program start, not inlined | every thread announces each section by a store (M94 2.1.3, *dynamic*) that is cancelled lazily (the optimisation of M94 2.1.4, *hybrid*) | any number of sequences, inlined anywhere, for one store |
//! | B91 3.1 | resumes at the top of the sequence | resumes at an abort address, before the arming store | the kernel disarms when it aborts |
//! | B91 3.1.1 | a process without kernel support overwrites the sequence with other code | every section tests a gate that is then closed permanently | code stays read-only, and the gate has other uses |
//! | B91 3.1.1 | on a multiprocessor, interlocked instructions, chosen at start-up | a lock has a home CPU, which other CPUs can revoke; interlocked where that does not pay off | most uses of most locks come from one CPU at a time |
//! | B91 | one processor | one slot a CPU, found by a number that is read inside the section | aborted on migration too |
//! | B91 3.2 | user-level restart: the handler inspects the instructions around the program counter | it looks the program counter up in a table | nothing is recognized by chance, and any instruction will do |
//! | M94 2.1.2 | static registration: the program lists its sequences at start-up; no inlining | the assembler and the linker make the list | inlined anywhere, in any object |
//! | M94 2.2.2 | a clone that ends in an instruction that gives control back; how to map program counters is left open | equal lengths, run inside the delivery, and ends that say where to continue | a constant is added; no further table, and no second way into the kernel |
//! | M94 2.3.1 | a watchdog timer bounds each rollforward | the clock is read when a clone faults | a rollforward without a fault pays nothing; nothing else can delay a clone |
//! | M94 2.3.1 | inspect the code before it is rolled forward: no backward jumps, no calls | the compiler refuses such code, at most 32 instructions; it is decoded again when the table is made | costs nothing at run time |
//! | M94 2.3.2 | a gate keeps others out while an interrupted sequence waits for a page | a gate keeps sections out for remote access and for the slow path | a restarted section need not wait for the page: it retries |
//! | GC96 2 | free descriptors lie in one list, popped by a compare-and-swap or a DCAS with a version | a stack a CPU, by sequences, over a list a page, by compare-and-swap with a tag | no atomic instruction for most allocations; a page can go as a whole |
//! | GC96 2 | page frames are released after t_stable, for any use | they lose their memory and keep their addresses | a reader that was delayed for longer reads zeros; it meets no unmapped page |
//! | GC96 2 | the descriptors may be consolidated into fewer pages | the lowest page with something free serves next | a descriptor's address is what readers know it by: it cannot be moved |
//! | GC96 5.1 | an audit reclaims what was unclaimed for t_stable | it returns it to the caller, which knows whether the owner has exited | a stopped thread has not exited |
//! | GC96 1, 5 | a table that a handler may store into is changed by double compare-and-swap | [`local::Map`](crate::local::Map) is changed by sequences that are rolled forward | the handler is this thread's own: no other processor interferes, and no instruction is atomic |
//! | GC96 2, figure 2 | a search may visit a freed node, and follows its link; it dereferences `p` before it tests whether `p` is `NULL` | tests first, and checks the version every 64 nodes | nodes that are freed and linked again during a search can lead it in a circle indefinitely |
//! | GC96 5.1 | the new descriptor's link is written, then the one before it together with the version | both links in one exchange | by k-CAS, a link may be changed by exchanges only, also of a free node |
//! | GC96 5.1 | the code duplicates a portion of the descriptor, and inserts it in place of the original by DCAS | a value of a [`RefHashMap`](crate::nonblocking::RefHashMap) lies in a node of its own, which alone is replaced; a [`List`](crate::nonblocking::List) replaces whole nodes | a node of a list is copied whole by every search that finds it, so it is small |
//! | GC96 5.2 | a descriptor on multiple lists is inserted in each separately, or absent from some | so it is in a [`ListCache`](crate::nonblocking::ListCache), whose descriptors leave all lists by themselves when they are reclaimed; all lists that share a link share a version | whether a descriptor is on a list, and on which one, is then known at each version, without another word |
//! | GC96 5.1 | a descriptor that was removed to be changed is out of its list | that is [`remove_to_change`](crate::nonblocking::List::remove_to_change). One that is [checked out](crate::nonblocking::List::check_out) keeps its place, and names the thread that has it | its key cannot be inserted twice, and a search for it reports so; in a handler, also that its own thread has it |
//! | S92 5.1.4 | a queue of one producer and one consumer needs no synchronization while it is neither full nor empty | both counts are stored with a release and loaded with an acquire | today's processors and compilers reorder; on x86-64 it costs no instruction |
//! | S92 5.1.4; GC96 5.2 | a caller that finds the object busy enqueues its operation; a server thread is spawned, or exists, that changes the object | any caller that waits may become the server; an operation works on a copy, which one DCAS publishes ([`Server`](crate::nonblocking::Server)) | a server that changes the object in place and is stopped blocks all others; the flag "busy" is a hint here, and a waiting caller takes over |
//! | S92 figure 5.4 | `old_first` is read, `old_head` is compared | one head, under the version | a misprint: they are the same |
//! | S92 figure 5.4 | Delete compares the first node's link as well, by `CAS2` | the head, if nothing has changed since the version | the version proves the link, also of a node that was freed and is back |
//! | S92 5.2.1 | insert *and delete* at the end of a list, by a pointer to its tail | [`LinkedStack`](crate::nonblocking::LinkedStack) inserts there, and deletes at its head; the tail identifies the last node, not its link | deleting at the end needs the node before it, which single links do not give; so no change is of more than two words |
//! | S92 figure 5.5 | the stack is never full or empty; it grows down; `CAS2` of the pointer and the cell | refuses; grows up; one section, under the version | a cell that no reader uses need not be compared |
//! | S92 figure 5.6 | Put stores at `new_head`, Get reads at `old_tail`; of n places one stays free | both at the place that their own index says; all places are used; the word changes with a turn beside it, and the index later | a misprint: as printed, the first Get takes what no Put has stored. Turns distinguish full from empty; and threads that put do not contend with those that get for one index |
//! | S92 5.7 | `CAS2` on a link and the count of the node behind it | the count, if nothing has changed since the version; a node with a guard is in the list | a link of a removed node may lead to one that was removed later, and is another by now: its count would be raised all the same |
//! | S92 5.7 | `CAS(old_ref, new_ref, refp)`; a node that is released to zero is deallocated | the count of guards alone; a node goes with the last guard after it was removed | a misprint (address first); being in the list is no guard, so inserting and removing are one exchange each |
//! | S92 5.2.3 | a visitor whose node was removed continues by that node's link | the node is unlinked together with its last guard | counted links would let one stopped visitor keep all nodes that are removed after it |
//! | GC96 6.1 | the system rolls back a process that is delayed in the DCAS procedure | the next thread that finds the lock held does | the kernel only ends the section; no other thread needs the words meanwhile |
//! | GC96 6.1 | the lock is known to the system | it is known to the process, which asks the system for a fence | no interface is needed but `rseq` and `membarrier` |
//! | GC96 note 5 | the second comparison can be left out | both, and an interruption uses the version up | the version is the lock: a compare-and-swap of it proves all words |
//!
//! One loop exists all the same: `prepare_copy`, a copy whose length the caller bounds. It counts
//! as one instruction, because an interruption anywhere in it repeats it whole.
//!
//! # Differences from librseq
//!
//! * librseq takes the CPU number from its caller and compares it inside the section. Here the
//!   section reads the number and uses it at once: one load and no comparison.
//! * librseq returns to its caller on abort, and the caller loops. Here the loop is part of the
//!   form, bounded, and ends in a slow path that is atomic against the sections.
//! * librseq leaves it to its caller to find out whether rseq works. Here an operation that cannot
//!   be restarted takes its slow path by itself.
//! * librseq's sequences are written once an architecture, by hand.
