//! How a sequence becomes machine code, and what happens when it is interrupted.
//!
//! `ARCHITECTURE.md` in the repository walks one sequence through every step. This page says why
//! the parts are as they are, and where they differ from the papers and from librseq.
//!
//! # From source to instructions
//!
//! [`sequence!`](crate::sequence!) parses a function, lowers it to straight-line steps over words
//! that are assigned once, checks the rules on those steps, and makes of them the forms that they
//! allow:
//!
//! | form | what it is | atomic because |
//! |---|---|---|
//! | `on_cpu` | inline assembly, for x86-64 and AArch64 | the kernel restarts it |
//! | `gated` | plain Rust | its caller holds the gate |
//! | `restarting` | inline assembly | a signal handler moves the thread back to its start |
//! | `rolling` | inline assembly, twice | a signal handler lets it run to its end first, in the copy |
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
//! **Arming** is one store: the address of a descriptor (start, length, abort address) into this
//! thread's `struct rseq`, which lies at a fixed offset from the thread pointer. Whenever the
//! kernel is about to return to a thread after preempting it, moving it to another CPU or
//! delivering a signal to it, it looks at that pointer. If the program counter lies in the section,
//! the thread continues at the abort address instead, and is disarmed; if it lies outside, it is
//! only disarmed. So nothing is disarmed on the fast path: a stale pointer costs nothing.
//!
//! **The CPU number** is read inside the section. If the thread is moved after that, the section is
//! aborted, so the number holds up to the commit.
//!
//! **The gate** is the first word of the slot; a section goes on only if it is zero. A thread
//! without a registration reads its CPU number as -1 or -2 and lands on one of two **guard slots**
//! in front of slot 0, whose gates are closed for good. The one test therefore answers three
//! questions: may sections run in this process, may they run on this thread, and does somebody hold
//! this slot. The fallback adds no branch.
//!
//! **Abort.** The first attempt is inlined at the call. What follows an abort is a copy of the
//! section out of line, in a loop that gives up after
//! [`set_restart_limit`](crate::set_restart_limit) restarts and takes the slow path. Without a
//! limit, a debugger that steps through a section would step for ever.
//!
//! **Claims.** A section with a compare-and-swap and visible stores cannot begin again: what it did
//! is there for other CPUs to see. It is attempted once. After an abort the caller is told what the
//! abort block says, and no more can be known: the registers of an aborted attempt are those of the
//! interrupted instruction. Whoever recovers must first see to it that the attempt is over, by a
//! fence. Since the window ends with one instruction, ways out that follow the compare-and-swap
//! branch to that instruction instead of leaving, and say beforehand, in the status register, which
//! they are: outside the window, with the claim not given back, an abort could no longer reach the
//! thread.
//!
//! Each copy of a section, inlined or not, has its own descriptor in the linker section `__rseq_cs`
//! and a pointer to it in `__rseq_cs_ptr_array`: the names that librseq uses, and that tests and
//! debuggers find sections by.
//!
//! # The table
//!
//! `restarting` and `rolling` add no instruction: a signal handler finds out by the program counter
//! that it interrupted a sequence. M94 2.1.2 calls that static registration and holds against it
//! that somebody has to list every sequence, so that none can be inlined. Here the assembler makes
//! the list. Each copy of a sequence, inlined or not, leaves a note in the section `.note.atomseq`:
//! where it starts and ends, and where its clone does.
//!
//! **Why notes.** The linker collects them into one segment, `PT_NOTE`, of the object it makes; no
//! linker drops them; `dl_iterate_phdr` leads to them in executables, static programs and shared
//! objects alike. So nobody registers anything, and a shared object may carry its own atomseq or
//! none. The offsets are relative to their own places: nothing is relocated when the program
//! starts, and the pages stay shared and read-only. Notes are looked for at every multiple of four
//! bytes, for a linker script may put them behind others in a segment that is aligned to eight,
//! which nothing can walk; and each is laid out alike for readers of either alignment. `patchelf`
//! moves notes away from the code that they name, so each also says how far it is from the
//! beginning of its object: with that, a reader knows how far it was moved. A section of addresses
//! between two symbols, as `__rseq_cs_ptr_array` is, would have needed relocations, and a
//! constructor in each object that makes its two symbols known. The price: since a note refers to
//! the code around its sequence, the linker keeps that code even if nobody calls it.
//!
//! **Clones.** A clone is the same instructions in a cold section, so the handler maps a program
//! counter by adding a constant, which solves what M94 2.2.2 calls its difficulty. For that each
//! instruction must be as long in the clone. On x86-64 only branches could differ: those of the
//! original lead to another section, and the clone's have a prefix for the assembler that asks for
//! the long form. Nothing in a sequence depends on where it lies. A clone is run by the delivery of
//! the signal, with the interrupted registers and on the delivery's stack, since no sequence uses
//! one. It ends in a call of what the delivery has left at the stack's top, and each of its
//! branches leads to such a call of its own; behind each stands where in the original the thread is
//! to go on. (Ending it in a trap, as the prototype did, costs a second way into the kernel, which
//! on a virtual machine took up to 8 us, and takes a signal away from the program: one that kills
//! if it is blocked, and whose handler has to run on the right stack. The call would not do where
//! the processor keeps a stack of return addresses of its own, which no Rust program for Linux asks
//! for.)
//!
//! **Looking up.** `refresh` sorts all rows into a mapping of its own. A look-up from a handler
//! asks glibc (2.35 and newer, `_dl_find_object`, which may be called there) for the object that
//! holds the program counter. If the object was there at the last refresh, a binary search finds
//! the row; if it was loaded since, its notes are read in place; if it is gone, so are its rows.
//! Elsewhere an object that is loaded later is known from the next refresh on: installing a handler
//! makes one, and so does the audit. An index that was replaced is unmapped when no look-up is
//! under way.
//!
//! **Inspection.** M94 2.3.1 would inspect a sequence before it is rolled forward. The compiler
//! refuses long sequences, loops and calls; what assembler and linker have made of the rest is
//! decoded once more, at each refresh: by decoders of atomseq's own that know exactly the
//! instructions that are emitted, and refuse all else. They also compare each clone with its
//! sequence, and follow its ends. A note that names anything else, or what is no code of its own
//! object, is refused, and [`audit`](crate::signal::Audit::unprotected) reports it. A sequence that
//! has a breakpoint, of a debugger or a uprobe, is taken as it is.
//!
//! # Closing a gate
//!
//! ```text
//! close   block all signals; wait a little if a fork is under way
//!         set the LOCKED bit of the gate, parking on a futex while it is set
//!         fence: membarrier aborts every section that runs on the slot's CPU
//! work    the gated form, or anything else
//! open    clear the bit and wake one waiter; restore the signal mask
//! ```
//!
//! After the fence every section on that CPU either has committed, and its stores are visible, or
//! starts again and finds the gate closed. Signals are blocked first: a handler that met the gate
//! of the very thread it interrupted would wait for ever. A gate that is closed for good needs no
//! fence, for no section has ever passed it; it is a lock, and that is the slow path of a process
//! without sections.
//!
//! [`Counter`](crate::percpu::Counter) and [`Histogram`](crate::percpu::Histogram) never close a
//! gate. Their slow path adds with an atomic instruction to words that no section touches, and
//! `drain` moves a base line instead of resetting words.
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
//! Theirs have locks, which neither a handler nor a thread that must not wait can take. Here a word
//! says which cells are free, and another which are full. Clearing a bit by one atomic instruction
//! claims the cell, and setting the cell's bit in the other word gives it back. The owner of a cell
//! is alone with it meanwhile; a thread that is stopped, or a handler that interrupts it, leaves
//! all other cells to the others, and there is nothing to be mistaken for its former self (ABA),
//! since a cell's history does not matter to the thread that claims it. Without a cell, the pool
//! asks its source, as it would without a depot.
//!
//! # Locks with a home
//!
//! [`mutex::OnCpu`](crate::mutex::OnCpu) and [`mutex::BiasedFlag`](crate::mutex::BiasedFlag) are
//! two words, the home and the flag:
//!
//! ```text
//! at home   section: home == cpu()? held == 0? commit held = 1            no atomic instruction
//! clear     held = 0, on whatever CPU the holder is by now                 a store; nobody else writes a flag that is set
//! visit     block all signals; home: c -> CLAIM, by compare-and-swap; fence c
//!           held == 0? held = 1; wait a moment if it is not
//!           home: CLAIM -> the next home, which wakes whoever waits for that
//! wait      announce; the barrier, membarrier on all CPUs; look once more; sleep
//! ```
//!
//! The claim and the fence are to the home what the gate and the fence are to a slot: sections that
//! begin later find the claim, and those that had begun have committed or are aborted. While the
//! home is claimed nobody there can set the flag, so a visitor that finds it set is next if the
//! holder is quick; if not, the visitor gives the home back and sleeps. A section that asks whether
//! this CPU is the home asks with it whether sections run in this process: where they do not, or
//! cannot be fenced, no CPU ever is, and the flag is set by a compare-and-swap. On the way to the
//! section lie two tests, of the home and of start-up, for both modes.
//!
//! A holder's store, which has no barrier behind it, may not be out when it looks who waits. So a
//! waiter, which has time, has the kernel put a barrier on every CPU, between its announcement and
//! its last look: before it a holder's store is out, and the waiter sees it, or after it the holder
//! looks, and sees the announcement. The fence for sections would not do: clearing is none, and the
//! holder may have migrated.
//!
//! `BiasedFlag` counts, under the lock, what happens between visits: that is one more add at home,
//! and says exactly what a clock would have to guess. Where visits are not paid for it becomes
//! interlocked: a compare-and-swap to set it, a store to clear it, and for those who wait the same
//! barrier. Which mode a clear flag is in, the flag itself says, so that the compare-and-swap of a
//! thread that has slept through the change fails. `mutex/bias/mod.rs` has all states, and who may
//! change which. `verify/model` tries the protocol under loom and shuttle, and finds it wanting
//! without the fence, without the barrier, and where the home is looked at before the section.
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
//!    thread-specific key unregisters the thread before its storage goes; destructors that run
//!    later use the slow path.
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
//! Hence two levels. [`is_active`](crate::status::Status::is_active): sections run, and `Counter`
//! and `Histogram` are fast. [`gates_active`](crate::status::Status::gates_active): the fence can
//! be trusted as well, and everything else is. Where a level is missing, the gates of the
//! structures that need it are closed for good from the start, and
//! [`reason`](crate::status::Status::reason) says why.
//!
//! # Fork
//!
//! A child has only the thread that forked, so a gate that another thread held would stay closed in
//! it. `pthread_atfork` handlers therefore let a fork begin only when no thread holds a gate, and
//! keep threads from closing one until it is over. A thread that changes handlers of signals, or
//! begins a walk through the loaded objects, counts as one that closes a gate.
//!
//! But not for ever: a thread may come to close a gate while it has a lock that the fork needs. A
//! handler that interrupted `malloc` does, for the C library takes the locks of `malloc` after all
//! handlers have run. So a closer waits for a few milliseconds and then goes on. Nor does a fork
//! wait longer for another thread's: its thread may hold a recursive lock that an atfork handler of
//! the other fork waits for. Then the two overlap, and closers wait for both. A thread that is
//! about to change handlers waits longer before it counts, open to all signals that its caller is
//! open to, and the next fork lets it in first.
//!
//! A gate that is closed says in which *generation* of the process, counted by forks, and a child
//! takes over what an earlier generation has closed. The lock of a thread that changes handlers
//! says so, too. The generation, and the count of threads that close gates, are in a page that the
//! kernel wipes in each child (`MADV_WIPEONFORK`): a child that finds no generation there begins
//! the next one. So it knows itself in the first handler that runs in it, after a raw fork, and in
//! a PID namespace in which it has its parent's number. Under a gate nothing is half done that
//! another thread could see: a gated sequence, too, changes things by its commit alone.
//!
//! Registration and fence are inherited by the child.
//!
//! # Signals
//!
//! **Delivery.** What the kernel calls for a managed signal is atomseq's, not the program's
//! handler. It looks the interrupted program counter up and decides, before the handler runs:
//!
//! ```text
//! a fault                 its handler, at once
//! in a mask               blocked, queued again with its own record, or kept: comes back when the mask ends
//! in a restarting one     program counter = start, then the handler
//! in a rolling one        the rest of it is run, program counter = end, then the handler
//! at start, at end,
//! or elsewhere            the handler
//! ```
//!
//! **Covering.** A program counter tells only about the code right below. So no managed signal may
//! arrive while any handler runs that may itself have interrupted a sequence. Every managed signal
//! has all of them in its `sa_mask`, without `SA_NODEFER` and `SA_RESETHAND`, which are emulated
//! after the decision; with two signals pending and no such mask, the kernel enters the second
//! handler at the first instruction of the first one. And the handlers of others are installed
//! again with wider masks. Otherwise a managed signal inside one of them runs over what that has
//! interrupted.
//!
//! **Blocking others.** A delivery keeps its state on the stack, and the thread points at it. A
//! handler of others that interrupted it and left by `siglongjmp` would leave a pointer to stack
//! memory that other code uses; nothing that a later delivery could look at tells such a pointer
//! from a valid one. So the entry blocks *all* signals that can be blocked, by a system call,
//! before the thread points at anything. A handler of others that comes earlier finds nothing that
//! it could leave behind. The delivery unblocks those of others once it has decided, when the
//! thread points at it no more, and then calls the handler. That is two system calls a delivery:
//! 3.66 µs against 2.88 of a handler without atomseq, 1.27 times as long. (Six runs on a virtual
//! machine, each the minimum of 20 times 20,000 signals that a thread sends to itself.) What cannot
//! be blocked does not run there either: the handlers of others are adopted, and wait as described
//! next. `verify/every-instruction` has handlers jump out of deliveries at each of their
//! instructions.
//!
//! ```text
//! kernel: blocks sa_mask │ entry: blocks the rest │ points at the delivery … decides … │ sets the mask │ handler
//!                        └─ returns the mask ─────┴──────────────────────────────────────> + the action's
//! ```
//!
//! The `sa_mask` of an entry could hold all signals instead, for one system call less; it did once.
//! But then nothing says which mask to go back to. The context does not: in `sigsuspend`, `ppoll`,
//! `pselect` and their like, it holds the mask that the call puts back, while the handler belongs
//! to the one that the call has set. And a handler of others that calls an entry has a mask which
//! is in no context. What the system call returns is right in each case.
//! `verify/signals/tests/kernel_masks.rs` compares it with what a handler without atomseq finds.
//!
//! A `SIGSYS` that a system call has raised is delivered without one. Its handler is to emulate
//! system calls, or to switch their emulation off; while it is blocked, another one would kill.
//!
//! **Deliveries inside deliveries.** Signals that must not be blocked, because faults raise them,
//! may still be sent, and arrive in the middle of a delivery. So the entry, a few instructions of
//! assembly, notes in the thread's words where the delivery keeps its state. One that arrives in
//! front of that store finds the context in a register or on the stack, and is delivered first, as
//! if it had come earlier; in front of a fault's, whose sequence cannot be run to its end, its
//! handler is told that it is inside. One that arrives later leaves its record with the delivery
//! and returns; the delivery passes it on as soon as the sequence is whole. That takes no system
//! call, and blocks nothing that a fault of the clone may need. `verify/every-instruction` has each
//! such signal arrive at each instruction of deliveries.
//!
//! **Entries.** The function that the kernel calls exists sixteen times. Other code keeps the
//! address that it found, to pass signals on to it or to put it back, and the address must go on
//! meaning what it meant: *this* handler of atomseq's, over *that* one of a library. With one
//! function, a library's handler that was installed over an adopted one, and adopted in turn, would
//! pass on to itself; and one that puts back what it found would be called after it was gone. So
//! what is installed over a handler is an entry that the handler cannot have seen. Only when the
//! sixteen were used for one signal are they used again.
//!
//! **Faults** cannot wait. Handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGTRAP` and
//! `SIGSYS` that others have installed are adopted, that is called by way of atomseq, so that a
//! fault in a clone is reported in the original; those of `SIGABRT` as well, so that they wait for
//! deliveries. Those of faults may leave the program counter (the clone goes on) or change it (the
//! sequence is left, and the signal that was waiting for its end is delivered). They may also jump:
//! nothing that has to be reset is kept about a handler that runs. That it has interrupted a
//! sequence, handlers that interrupt it are told as long as any of what it has blocked is blocked;
//! that it was called by way of atomseq, a word in the kernel's frame says.
//!
//! The fault's handler and the delivery around it run over a sequence that is half done. At each of
//! their instructions, the thread's words hold one of two things: the delivery, for which a signal
//! waits, or the note that a handler is inside, of which a signal's handler learns. The mask is set
//! and the note written before the delivery decides; after the handler, the delivery is noted again
//! before the note is withdrawn. What waits then is delivered with the fault's context: the
//! sequence is run to its end first, as after any other signal.
//!
//! ```text
//! entry … set the mask, note ─ decided ─ handler ─ noted again, withdraw the note … last look, end ─ ret, rt_sigreturn
//!         the delivery: wait          │  the note: inside │        the delivery: wait          │ by the program counter
//! ```
//!
//! The entry's assembly ends the delivery, after a last look at what waits. A signal that arrives
//! at an instruction from that look on finds the context of the fault by its program counter, on
//! the stack or in a register, and takes it for its own. The last two instructions are the C
//! library's, which call `rt_sigreturn`: each delivery notes the address to which its entry
//! returns. `verify/every-instruction` (`signal_fault_deliveries`) sends signals to each of these
//! instructions.
//!
//! **The watchdog** of M94 2.3.1 would be a timer, and two system calls a rollforward. A clone has
//! no loop, so it can take long only by faulting again and again; time is looked at when it faults.
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
//! memory waits for the last store to the same word, a comparison is predicted. (4.3 ns a pair
//! against 0.6 ns, minimum of 20 runs of 2 million, on the machine of
//! [`performance`](super::performance).) No signal is lost at the end: one that arrives before the
//! store is seen by the comparison after it, and one that arrives after the store finds no mask.
//! The kernel delivers a deferred signal a second time, so its handler gets a context as it should
//! be. Not `SIGCONT` and the terminal's stop signals: generating one discards those of the opposite
//! kind, and queueing an old one again would discard a newer one. (Of 371,132 rounds in which
//! another thread sent both, 36,365 lost their `SIGCONT` so.) The thread keeps these and calls the
//! handler at the end of the mask, unless a look at what is pending shows that a newer one has
//! discarded it. The same way is left for signals that a sandbox lets nobody queue or send, and for
//! those that the kernel's queue would lose: real-time signals when it is full, and the standard
//! signal of a timer, which may have expired again by then. (In masks of 50 µs, a timer of 20 µs
//! lost a quarter of its expirations so.) A bare number that the kernel has noted is cleared with
//! the last queued signal of that number; the delivery of that one therefore looks whether a record
//! is still saved. A mask that ends while a gate is held unblocks nothing; the end of the hold
//! does.
//!
//! Some signals are never blocked, so their handlers may interrupt the few instructions between the
//! store that ends a mask and the system call that unblocks. Such a handler may have masks of its
//! own. What the interrupted operation is about to unblock is therefore set aside until the handler
//! returns, and the count of masks with it. Masks in the handler start from nothing, and only the
//! thread's own end unblocks. `verify/every-instruction` (`signal_ends`) sends such signals to each
//! instruction of what begins and ends masks.
//!
//! # Structures shared with handlers
//!
//! A handler interrupts its thread, runs to its end, and only then does the thread go on:
//! interference is *nested*. [`local`](crate::local) rests on that. A sequence is atomic by its
//! form; an operation of several only has to notice, in each, that a handler came before it:
//!
//! * [`Ring`](crate::local::Ring) copies an element that is longer than a word in pieces. Each
//!   piece is stored only if the tail is where the push found it. Without that question, a push
//!   that goes on after a handler's push would write over the element that the handler has put into
//!   the same place. A bounded copy in one sequence, as `percpu` has it, is nothing for the forms
//!   against signals: a rollforward would have to run the rest of it in the handler.
//! * [`Map`](crate::local::Map) searches with plain loads, and changes its set of keys by a
//!   sequence that first compares the map's version, the sum of two counts, with what it was before
//!   the search. Values change by sequences that compare the key. Its source proves that no key is
//!   ever there twice.
//!
//! The gaps between sequences are marked in the source. Unit tests come in at each of them with
//! every other operation, and compare with the two serial orders.
//!
//! # Type-stable memory
//!
//! A [`type_stable::Pool`](crate::type_stable::Pool) is a [`percpu::Pool`](crate::percpu::Pool) of
//! addresses over pages that all CPUs share:
//!
//! ```text
//! this CPU's stack of free descriptors
//!    │ empty: a batch                              │ full: half of them, at most 31
//! the depot that all CPUs share
//!    │ empty: up to 32 of one page                 │ full: each to its page
//! the lowest page with something free, found by bits ── none: the next chunk is mapped, twice as large
//!
//! a page's word:  tag 32 | used 16 | first 16      links: how far the next free one lies beyond the next
//! ```
//!
//! **Nobody waits for a gate** before the pages are exhausted. Whoever cannot use this CPU's stack,
//! because somebody steals from it, or because there are no sections, takes a descriptor out of the
//! pages and puts it back there, as lock-free as they are.
//!
//! **Bits only save looks.** A page's bit says that nothing is free in it, and is set by the thread
//! that has taken the last one: by then others may have put something back. So the word that has
//! the bit also counts the threads that have set one and not looked again. Where that count is not
//! 0, a search looks at the pages themselves, up to 32 of them. No allocation is refused because of
//! a bit, even if the thread that has set it never goes on; a search that finds nothing loads a
//! word for 1,024 exhausted pages.
//!
//! **Zeros are the beginning of everything.** A fresh descriptor is an instance of its type, a
//! fresh page is a list of all its descriptors, a fresh chunk's bits say that all pages have
//! something free. So mapping a chunk publishes one address, a page takes no memory before
//! something in it is used, and a page that went back to the system is a fresh one, without anybody
//! setting it up.
//!
//! **Why `&T` is sound.** GC96 needs that an old pointer does not lead to another type. Rust also
//! wants that what a reference leads to is alive, and does not change except in atomics. An
//! instance here is alive from the mapping of its chunk to the end of its pool, allocated or not;
//! no `&mut T` exists, and nothing is made or dropped in between. The alternative, a closure that
//! makes instances, would have to drop them before their page goes, under the eyes of whoever still
//! has the address; so the type says by an `unsafe` trait that zeros are an instance, and a macro
//! says it for structs of atomics, whose fields it checks as the compiler finally sees them:
//! attributes may have changed what the macro was given.
//!
//! **Why pages keep their addresses.** GC96's t_stable is a time after which nobody reads an old
//! address any more. That is an assumption about how long a thread can be preempted, and a program
//! that is stopped in a debugger breaks it. `MADV_DONTNEED` takes the memory and leaves the
//! addresses, which then read as zeros. A reader that comes too late finds no instance that anybody
//! meant, and no version that it knows (a page's record keeps the highest version that was used in
//! it, and the page goes on from there). With unmapped pages it would be killed: a test shows both.
//!
//! **t_stable without a clock on the fast path.** A trim that finds all of a page free notes the
//! tag of the page's word and the time. If a later trim finds the same tag, nobody has taken or put
//! anything there since. So freeing reads no clock. A trim that is held up, or overtaken by others,
//! does not shorten the time. It reads the clock for each page, after the page's word, and notes
//! the time by an exchange, which fails if another trim has noted anything since. A noted time that
//! is later than the clock means that no time has passed. (Times go round after 24 days. One that
//! seems to lie ahead may also lie more than 12 days back, and is noted anew. A page whose word has
//! changed 2^32 times between two trims, or a multiple of that, looks unused.)
//!
//! **Claims** work the same way round: an audit that finds a descriptor allocated writes the time
//! beside it, and an allocation or a claim writes 0. A time that is still there was not overwritten
//! since. Since a claim before the audit's write changes nothing that the audit could see, an audit
//! first writes its own number, then reads the clock, and then exchanges its number for the time: a
//! claim in between makes that fail. The word does not name the allocation, and an audit may have
//! stopped before it wrote its number. So an allocation first has an even version, then writes 0,
//! and then makes the version odd, also where an audit's finder takes it over; and an audit that
//! has written its number looks at the version before it writes the time.
//!
//! # Double compare-and-swap
//!
//! ```text
//! lock   FREE(v) -> HELD(v, cpu) -> FREE(v+1)       an exchange: one section, one atomic instruction
//!        HELD(v, cpu) -> CLAIM(v, me) -> FREE(v+1)  a holder that does not move is thrown out, and undone
//! ```
//!
//! A domain's version number is its lock (GC96 5.1), and the log of what its holder changes lies in
//! the same cache line. The holder logs, stores, and gives back by the last instruction of its
//! section; if it is interrupted, the kernel sees to it that it never stores again. Whoever finds
//! the lock taken, readers included, looks a few times more, claims it, and makes a fence: then the
//! holder has either given back, and the claim is lost, or it is over, and what the log says is put
//! back. Recovery may be interrupted as well, so it is a section of its own, which looks at the
//! claim first; a claim of a claim fences all CPUs. A claim is told by a number that one call has
//! at a time. Told by a CPU, two calls would take each other's claim for their own, and one of them
//! would undo what a third has done since: the model in the repository finds that, and what each
//! other protection is for, by leaving it out.
//!
//! A thread that finds the lock held by its own CPU needs neither claim nor fence: the holder is
//! not running, and its section is over. A section that asks for the CPU once more puts back what
//! the log says, and gives the lock back. That is what a signal handler does that has interrupted
//! an exchange, and the next thread on a CPU whose last one was preempted in one.
//!
//! A thread that cannot run sections takes the lock as LOCKED, with signals blocked from then on;
//! no fence ends what it does, so the others wait for it. It logs what it changes all the same: in
//! the child of a fork that came in between it is gone, and the first to find its lock, which says
//! of which process it is, undoes what it had done.
//!
//! GC96 6.1 has three objections. *A common lock*: here it is one a domain. *Reading both locations
//! again and writing the lock*: the lock's line holds the version and the log, one line for all.
//! *Unsynchronized readers see tentative values*: a reader looks at the version before and after.
//!
//! k-CAS puts values back. Leaving references in the words, as Guerraoui and others do, costs fewer
//! compare-and-swaps, k + 2 and not 2k + 2, but binds a descriptor to every word that was ever
//! changed: as much memory again as the words of a large structure take several times over, and
//! removing a value may need memory. It was also slower here, 58 ns a change of two words beside 33
//! (`bench dcas`, 1 thread, least of three interleaved runs each). What allows a helper that comes
//! late to do no harm is the reference in between, which is unique; `dcas/kcas.rs` lists why it
//! holds.
//!
//! A descriptor is free when its thread leaves the operation. To know that costs no atomic
//! instruction: blocks of descriptors are homes of threads, and a thread takes descriptors of its
//! own by plain stores. It moves out when all there are taken, and a thread that looks for a home
//! afterwards moves in; or when it has exited, which the kernel says (`tgkill` of no signal). Where
//! that call is forbidden, or those that tell a thread its number, where there is no memory for a
//! home, and in a handler that has interrupted its thread while it takes one, descriptors are taken
//! by a compare-and-swap, from blocks that are shared. (To evict a thread that only sleeps, by a
//! barrier on all CPUs, does not do: if it is stopped between the look at whose home it is and its
//! mark that it is inside, the mark comes late, and keeps all others out indefinitely.)
//!
//! A thread that meets an operation under way waits a little before helping: as long as others stay
//! away, its words and its descriptor stay with the processor that is about to end it.
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
//! the cells between them, and a thread that is refused has stored nothing. Where a turn is beside
//! each word, as in D. Vyukov's bounded queue, the end is a fact that cells tell: the first place
//! whose turn shows that it has not been passed. In that queue a thread takes a place by a change
//! of the tail and fills the cell afterwards; if it is stopped between, all that comes behind is
//! stopped as well. Here one instruction fills the cell, and the tail may be stored late or never:
//! a thread that finds a hint late reads from turns how many rounds it is behind, and searches one
//! round, by halves.
//!
//! The refusal is exact. A thread that knows all places before one to have been pushed, and reads
//! the turn of that one's cell, has found the tail at that moment; if the turn is of the round
//! before, the cell is still full, and so is the queue.
//!
//! *Contention.* A thread whose exchange fails, or whose hint is late, pauses for 1 to 512 pauses,
//! twice as long each time in one operation, while the other makes many changes with the cache
//! lines to itself. Nothing sleeps.
//!
//! # Stacks in arrays
//!
//! ```text
//! lock     FREE(v) -> HELD(v, cpu) -> FREE(v+1)       a change: one section, one atomic instruction
//!          HELD(v, cpu) -> CLAIM(v, me) -> FREE(v)    a holder that does not move is thrown out; nothing is undone
//! lengths  even | odd                                 the version's parity says which one counts
//! ```
//!
//! A [`nonblocking::Stack`](crate::nonblocking::Stack) needs no log. A value goes into a cell that
//! is not in use, where nobody looks, and the new length goes into the copy that does not count at
//! this version. The last instruction of the section makes both count at once. Whatever a holder
//! has done that is thrown out lies where nobody looks, so recovery is a claim, a fence, and a
//! compare-and-swap back to the *same* version. All that a change needs to know is loaded before
//! its compare-and-swap, in the shadow of that instruction, and counts if it succeeds, because
//! nobody stores to what counts at the version. Against an exchange of two words that is five
//! stores less.
//!
//! A thread that finds the lock held by its own CPU needs no fence here either: a section frees the
//! lock with a plain store.
//!
//! *Patience.* Whoever looks at the lock takes its cache line from the holder, who needs it once
//! more. Where a pause is 10 ns, two threads that looked after each pause and threw the holder out
//! after 32 looks did so 4,600 times in 7 million operations; with 8 pauses from look to look, 49
//! times. And a fence ends whatever section runs on that CPU, also one that has nothing to do with
//! it: so a thread whose section was ended throws out at once only a holder on its own CPU. A
//! thread that fails pauses as in a queue, so that the other has the lines to itself for many
//! operations. It does not sleep: with sleeps of 60 to 480 µs, producers and consumers that spin at
//! a stack of 16 took 14 to 67 µs an element, on four busy CPUs, and 0.1 to 0.2 µs without.
//!
//! # Lists that anybody may change
//!
//! ```text
//! find       version; walk; still that version
//! change     version; walk; { a link or two = …, version + 1 } if still that version
//! ```
//!
//! That is all of GC96 figure 2, and [`nonblocking::List`](crate::nonblocking::List). A walk takes
//! no lock and writes nothing, so it may go over nodes that were freed and serve as others by now:
//! type-stable memory keeps it from harm, and the version tells that it was in vain. In the end, or
//! every 64 nodes: two nodes that are deleted and pushed in front in turn, each when the walker has
//! just come to it, would else lead it in a circle for ever; a test does just that.
//!
//! One operation after the other, they are no more than this, which is what tests and recorded
//! histories are compared with:
//!
//! | list | state | operations |
//! |---|---|---|
//! | `List`, ascending | a map in the order of its keys, and the set of keys that are removed for change | `try_insert` only where there is no key; `insert`, `replace`, `remove`, `get` refuse a key of the set; `pop_first`, `snapshot` pass it by |
//! | `List`, unordered | a sequence of entries, the newest first | the same, of the first entry with the key |
//! | `RefList` | a sequence of values, the newest first | `push_front`, `pop_front`, `front`; `remove` says whether the value was there; `next` of a guard is the first that came before its value, be that removed or not |
//! | `OneVisitorList` | the same, and the set of values that are visited | `visit_first`, `into_next`, `pop_front` pass those by |
//!
//! *What a copy may contain.* A node's key and value are written word by word by whoever owns it,
//! while late walkers read. They may read half of each, so what they hand to a comparison must be a
//! value whatever its bits: hence `Plain`. A walker that has seen a new owner's word also sees that
//! the version has changed, by a chain of orders: the exchange that unlinked the node, the release
//! fence in the pool's `allocate` (or behind the exchange that removed the entry for change), the
//! new owner's store; the walker's load of it, its acquire fence, its look at the version.
//!
//! *Removed for change.* GC96 5.1 warns of a handler that retries until it finds a descriptor which
//! its own thread has removed to change it: that would be a deadlock without any lock. So no
//! operation here retries for such a reason. The entry keeps its place with the number of its
//! changer beside it, set and cleared by one exchange of one word each, and every operation on its
//! key says [`CheckedOut`](crate::nonblocking::CheckedOut), and whether by the thread that asks.
//! Should the changer end, anybody may unlink the node; the node itself stays its changer's, who
//! might only have been slow, and finds out.
//!
//! *Counts.* S92's figure 5.7 raises the count of the node that a link leads to if neither has
//! changed meanwhile. But a link in a node that was deleted never changes again, and what it leads
//! to may be deleted next, freed, and used for another value: the count and the link still match.
//! In [`nonblocking::RefList`](crate::nonblocking::RefList), removing a node spoils its link by the
//! same exchange. Its visitors go on from the first node whose position is behind theirs; positions
//! are the versions at which nodes came in, so they fall along the list and never repeat.
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
//! | B91 2.2, figure 1 | Lamport's algorithm holds a lock from line 19 to line 21 and has no way to give up | as printed, and beside it a test-and-set: figure 2 with a meta-lock a variable (crate `atomseq-papers`) | who collides cannot tell the holder from a thread that is still deciding, so giving up there could leave the lock to nobody, and waiting would be for the holder |
//! | B91 2.2 | its processor had no fences to make | two, where a load could pass a store; none for the threads of one CPU | each is left out in a model, which fails |
//! | B91 2.2 | "\[1,2,3,9,19,21,22\]", "two loads"; `p = 1` in figure 2 | line 10 as well; `p := 1` | misprints: line 10 is the second load |
//! | B91 2.3 | the kernel emulates the pseudo-instruction with interrupts disabled: one processor | a handler of `SIGILL`, with signals blocked, by an interlocked instruction; or a call that the kernel has | Linux knows no such instruction; every CPU |
//! | B91 2.4 | the only store is the last instruction | stores before it are allowed if nobody sees them (`prepare`) | a restart repeats them unseen; without them a list could not be built |
//! | B91 3.1 | explicit registration: one sequence an address space, announced at program start, not inlined | every thread announces each section by a store (M94 2.1.3, *dynamic*) that is cancelled lazily (the optimisation of M94 2.1.4, *hybrid*) | any number of sequences, inlined anywhere, for one store |
//! | B91 3.1 | resumes at the top of the sequence | resumes at an abort address, before the arming store | the kernel disarms when it aborts |
//! | B91 3.1.1 | a process without kernel support overwrites the sequence with other code | every section tests a gate that is then closed for good | code stays read-only, and the gate has other uses |
//! | B91 3.1.1 | on a multiprocessor, interlocked instructions, chosen at start-up | a lock has a home CPU, which others take away; interlocked where that does not pay | most uses of most locks come from one CPU at a time |
//! | B91 | one processor | one slot a CPU, found by a number that is read inside the section | aborted on migration too |
//! | B91 3.2 | user-level restart: the handler inspects the instructions around the program counter | it looks the program counter up in a table | nothing is recognized by chance, and any instruction will do |
//! | M94 2.1.2 | static registration: the program lists its sequences at start-up; no inlining | the assembler and the linker make the list | inlined anywhere, in any object |
//! | M94 2.2.2 | a clone that ends in an instruction that gives control back; how to map program counters is left open | equal lengths, run inside the delivery, and ends that say where to go on | a constant is added; no further table, and no second way into the kernel |
//! | M94 2.3.1 | a watchdog timer bounds each rollforward | time is looked at when a clone faults | a rollforward without a fault pays nothing; nothing else can hold a clone up |
//! | M94 2.3.1 | inspect the code before it is rolled forward: no backward jumps, no calls | the compiler refuses such code, at most 32 instructions; it is decoded again when the table is made | costs nothing at run time |
//! | M94 2.3.2 | a gate keeps others out while an interrupted sequence waits for a page | a gate keeps sections out for remote access and for the slow path | a restarted section needs no page to arrive: it begins again |
//! | GC96 2 | free descriptors lie in one list, popped by a compare-and-swap or a DCAS with a version | a stack a CPU, by sequences, over a list a page, by compare-and-swap with a tag | no atomic instruction for most allocations; a page can go as a whole |
//! | GC96 2 | page frames are released after t_stable, and then are anybody's | they lose their memory and keep their addresses | a reader that was held up for longer reads zeros; there is no unmapped page to meet |
//! | GC96 2 | the descriptors may be consolidated into fewer pages | the lowest page with something free serves next | a descriptor's address is what readers know it by: it cannot be moved |
//! | GC96 5.1 | an audit reclaims what was unclaimed for t_stable | it hands it to the caller, who knows whether the owner is gone | a thread that is stopped is not gone |
//! | GC96 1, 5 | a table that a handler may store into is changed by double compare-and-swap | [`local::Map`](crate::local::Map) is changed by sequences that are rolled forward | the handler is this thread's own: no other processor interferes, and no instruction is atomic |
//! | GC96 2, figure 2 | a search may meet a node that was freed, and goes on wherever that leads; it dereferences `p` before it asks whether `p` is `NULL` | asks first, and looks at the version every 64 nodes | nodes that are freed and linked again under a search can lead it round in a circle for ever |
//! | GC96 5.1 | the new descriptor's link is written, then the one before it together with the version | both links in one exchange | by k-CAS, a link may be changed by exchanges only, also of a free node |
//! | GC96 5.1 | a descriptor that was removed for change is out of its list | it keeps its place, and says whose it is | its key cannot come in twice, and who looks for it is told so; in a handler, that it is under way in its own thread |
//! | S92 5.1.4 | a queue of one producer and one consumer needs no synchronization while it is neither full nor empty | both counts are stored with a release and loaded with an acquire | today's processors and compilers reorder; on x86-64 it costs no instruction |
//! | S92 figure 5.4 | `old_first` is read, `old_head` is compared | one head, under the version | a misprint: they are the same |
//! | S92 figure 5.4 | Delete compares the first node's link as well, by `CAS2` | the head, if nothing has changed since the version | the version proves the link, also of a node that was freed and is back |
//! | S92 5.2.1 | insert *and delete* at the end of a list, by a pointer to its tail | [`LinkedStack`](crate::nonblocking::LinkedStack) inserts there, and deletes at its head; the last node is told by the tail and not by its link | to delete at the end takes the node before it, which single links do not tell; so no change is of more than two words |
//! | S92 figure 5.5 | the stack is never full or empty; it grows down; `CAS2` of the pointer and the cell | refuses; grows up; one section, under the version | a cell that nobody looks at need not be compared |
//! | S92 figure 5.6 | Put stores at `new_head`, Get reads at `old_tail`; of n places one stays free | both at the place that their own index says; all places are used; the word changes with a turn beside it, and the index later | a misprint: as printed, the first Get takes what no Put has stored. Turns tell full from empty; and threads that put do not meet those that get at one index |
//! | S92 5.7 | `CAS2` on a link and the count of the node behind it | the count, if nothing has changed since the version; the link of a removed node says so | a link of a removed node may lead to one that was removed later, and is another by now: its count would be raised all the same |
//! | S92 5.7 | `CAS(old_ref, new_ref, refp)`; a node that is released to zero is deallocated | the count of guards alone; a node goes when it is removed *and* has none | a misprint (address first); being in the list is no guard, so inserting and removing are one exchange each |
//! | S92 5.2.3 | a visitor whose node was removed goes on by that node's link | by its position | counted links would let one visitor who stands still keep all that is removed after it |
//! | GC96 6.1 | the system rolls a process back that is delayed in the DCAS procedure | the next thread that finds the lock taken does | the kernel only ends the section; nobody else needs the words meanwhile |
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
//! * librseq returns to its caller on abort, who loops. Here the loop is part of the form, bounded,
//!   and ends in a slow path that is atomic against the sections.
//! * librseq leaves it to its caller to find out whether rseq works. Here an operation that cannot
//!   be restarted takes its slow path by itself.
//! * librseq's sequences are written once an architecture, by hand.
