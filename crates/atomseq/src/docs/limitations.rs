//! What atomseq does not do, and how not to use it.
//!
//! # Per-CPU structures are separate on each CPU
//!
//! A per-CPU structure consists of one structure for each CPU. A thread that migrates between a
//! push and a pop does not find what it pushed: `pop` returns `None` while elements lie on other
//! CPUs, until a thread calls `steal` or `drain`. Elements are ordered on each CPU only. A bounded
//! structure is full when the current CPU's part is full.
//!
//! Sums, lengths and snapshots read one CPU after the other, so changes made during the read may or
//! may not be included. The same holds for `is_empty`, `steal` and `drain`: each may miss an
//! element that is in the structure all the time but moves from CPU to CPU meanwhile.
//!
//! Elements that lie on a CPU when it goes offline stay there until they are stolen or drained.
//! Otherwise CPUs may come and go: a slot exists for every CPU that the kernel can ever name.
//!
//! # Memory
//!
//! Every structure takes 128 bytes plus the room for its elements, once for each *possible* CPU and
//! twice more for the guard slots. Small structures, of up to 2 KiB in all, share pages, which the
//! process keeps once it has them; larger ones are mappings of their own. Creating or dropping a
//! small structure blocks signals and holds up forks, as closing a gate does, and also waits a few
//! milliseconds for a fork that is in progress.
//!
//! The list of possible CPUs is what the firmware or the hypervisor announced, often more than
//! exist; see `/sys/devices/system/cpu/possible`. Pages that no CPU touches take address space
//! only, with these exceptions:
//!
//! * Each structure writes the gates of its two guard slots when it is created. That takes two
//!   pages where a slot is larger than a page.
//! * The depot of a [`Pool`](crate::percpu::Pool) takes one more page.
//! * A [`Ring`](crate::percpu::Ring) writes two words to the slot of each possible CPU when it is
//!   created, and so takes a page for each where a slot is larger than a page.
//! * A [`Queue`](crate::percpu::Queue) writes its first 32 cells, 768 bytes, for each possible CPU.
//! * Structures whose gates are closed permanently from the start
//!   ([when](super::internals#start-up)) write those gates.
//!
//! Where the kernel backs all memory by huge pages (`transparent_hugepage/enabled` is `always`),
//! pages in mappings of some megabytes are as large, and those that a CPU touches bring others with
//! them.
//!
//! The size of a mapping is rounded up to whole pages, and from eight pages of 4 KiB on to one of
//! eight sizes between a power of two and the next: by less than an eighth beyond the last page.
//! That takes addresses, which count for `RLIMIT_AS`, for `RLIMIT_DATA`, and where the system does
//! not overcommit (`vm.overcommit_memory` 2). It takes memory only where the program has locked all
//! of its memory.
//!
//! The kernel limits the number of a process's mappings (`vm.max_map_count`), and counts adjacent
//! ones as one. At that limit it refuses to unmap a range in the middle; a sandbox may always
//! refuse. Dropped structures and pools then keep their addresses, which count as above. They keep
//! memory only if `madvise` is refused as well or the program has locked it. Later mappings of the
//! same rounded size reuse them.
//!
//! Of each size, the number of mappings never exceeds the number that were in use, being created or
//! being dropped at one time. A thread that drops something of another size counts as well. Where
//! more than 14 mappings were kept at a time, one more stays that holds the addresses of others,
//! with one page of memory, and another for each further 509. Each time that the system unmaps a
//! mapping, up to four kept ones are offered to it again, until it refuses one. A thread that exits
//! by a system call of its own while it creates or drops something may leak mappings. So may a
//! fork: the child does not get the mappings that other threads of its parent were handling at that
//! moment.
//!
//! **Refused memory.** A constructor or an operation that returns a `Result` returns an error.
//! Other constructors panic with the same message, and so do
//! [`signal::audit`](crate::signal::audit()) and [`repair`](crate::signal::repair). Operations that
//! use a collection of `std` end the process, as that collection does: those that fill or return a
//! `Vec`, `from_iter` of a [`nonblocking::Stack`](crate::nonblocking::Stack),
//! [`Queue`](crate::nonblocking::Queue) or [`Ring`](crate::nonblocking::spsc::Ring), and
//! [`into_ends`](crate::nonblocking::spsc::Ring::into_ends).
//!
//! Many small counters share memory as [`Counters`](crate::percpu::Counters), as the buckets of a
//! [`Histogram`](crate::percpu::Histogram), or as [several words of one
//! `Area`](super::patterns#9-several-words-several-numbers).
//!
//! A [`Queue`](crate::percpu::Queue) that has grown returns no memory until it is dropped.
//!
//! A [`Pool`](crate::percpu::Pool) may keep its capacity on each possible CPU, and as many objects
//! again in its depot (or eight batches of half the capacity plus one, at most 31, where that is
//! more), before its source gets any back. A thread that exits in the middle of a `get` or a `put`,
//! by a system call of its own, may leak a batch of objects (31, or 32 from the source), and one of
//! the depot's cells. So may a fork: the child does not get the batches that other threads of its
//! parent were moving at that moment.
//!
//! # Type-stable memory
//!
//! * **A limit counts all descriptors.** In a [`type_stable::Pool`](crate::type_stable::Pool) with
//!   a limit, an allocation may fail although descriptors are free. Each thread that fills or
//!   empties a CPU's stack holds up to 32 of them meanwhile, and a trim holds a page's. An
//!   allocation searches one place after another, so it may miss a descriptor that moves during the
//!   search. Choose a limit with some reserve.
//! * **A thread that exits** inside an allocation or a free, by a system call of its own, may leak
//!   up to 32 free descriptors, and the room for them in the depot; inside a trim, a page. An audit
//!   finds the descriptors that it had allocated. A fork may leak as much: the child does not get
//!   what other threads of its parent were handling at that moment.
//! * **A thread that exits with a descriptor of a [`Cache`](crate::type_stable::Cache)**, by a
//!   system call of its own, leaves it in use, or [being written
//!   back](crate::type_stable::Gone::BeingWrittenBack), until an
//!   [audit](crate::type_stable::Cache::audit). The same happens after a `siglongjmp` out of the
//!   owner's `write_back`, and in the child of a fork during one. A descriptor that such a thread
//!   was just taking from the pool or giving back to it is lost until the cache is dropped, so
//!   many exits leave a small cache with few descriptors.
//! * **Address space.** Chunks double in size, and stay mapped until the pool is dropped. A pool
//!   first maps 16 pages, each of up to eight descriptors where descriptors are larger than a page
//!   of the system; later it maps up to twice what it needs. Up to an eighth of a page is unused,
//!   and mappings are rounded up by up to an eighth. A limit also bounds the last chunk, so a pool
//!   takes up to a third more than its limit needs, and a few pages of the system. Where the system
//!   does not overcommit, addresses count.
//! * **Pages are returned** to the system only on Linux, only by a
//!   [`trim`](crate::type_stable::Pool::trim), and as a whole: one descriptor in use keeps its
//!   page. Memory that the program has locked stays. A stray write through an old address gives a
//!   returned page its memory again, until the page has been used and trimmed again.
//! * **Least recently used** means that a [`Cache`](crate::type_stable::Cache) looks at every
//!   descriptor for each one that it writes back: fine for thousands. For more, choose the victim
//!   yourself, among the first few.
//! * **After a fork into another time namespace** (`unshare` or `setns` with `CLONE_NEWTIME`), the
//!   child's monotonic clock may be ahead of its parent's. The difference counts as time that has
//!   passed: a `trim` in the child returns what was freed less than
//!   [`stable_for`](crate::type_stable::Options::stable_for) ago, and an audit reports descriptors
//!   as unclaimed that are not that old.
//! * **Tags of pages** have 32 bits. Suppose a thread is stopped after it has read which
//!   descriptors of a page are free, and resumes when exactly a multiple of 2^32 changes of that
//!   page have passed. If it then finds as many descriptors free and the same one first, it may
//!   take a descriptor that is in use. At ten million changes of one page a second, 2^32 changes
//!   take seven minutes.
//! * **Versions** are one word: on 32-bit targets, a reference that is kept for two thousand
//!   million allocations of one descriptor may take a later allocation for its own.
//!
//! # Stacks and queues shared by all CPUs
//!
//! * **One lock word for each [`nonblocking::Stack`](crate::nonblocking::Stack).** Pushes and pops
//!   contend for the same cache line and do not proceed in parallel. Where some threads push what
//!   others pop, a [`Queue`](crate::nonblocking::Queue) is faster: up to five times where one
//!   producer and one consumer poll.
//! * **Unfair.** A thread whose attempt fails backs off for up to some microseconds, while another
//!   may complete many operations.
//! * **A thread that cannot run sections** (a debugger steps it, or it is exiting) locks a stack or
//!   a linked stack with its signals blocked. Other threads wait for it, as for a gate.
//! * **A [`LinkedStack`](crate::nonblocking::LinkedStack)** or
//!   [`LinkedQueue`](crate::nonblocking::LinkedQueue) keeps the memory of its nodes or segments
//!   until it is dropped, and its `len` counts values one by one. Each has a
//!   [`Pool`](crate::type_stable::Pool) of its own: on two CPUs, a new one takes two or three pages
//!   of memory and 75 KiB of addresses. All operations of a linked stack contend for one lock word.
//! * **A linked queue takes memory for 32 values at once.** Large values are better boxed. A thread
//!   that stops inside an operation withholds the segment of 32 values that it uses.
//! * **Two atomic instructions an operation** show where values pile up in a linked queue. One
//!   thread that pushed 500,000 values and popped them took 1.5 times as long as with crossbeam's
//!   `SegQueue`, and three times as long the first time, when the memory was new. (One run on an
//!   AMD EPYC.)
//! * **The two ends of a [`spsc::Ring`](crate::nonblocking::spsc::Ring)** are one producer and one
//!   consumer: a signal handler must not use the end that its thread is using.
//!
//! # Lists shared by all CPUs
//!
//! * **One version for each list.** Every change makes all searches and changes in progress retry,
//!   wherever in the list they are. Split a long list that many threads change into several:
//!   buckets, by [`List::sibling`](crate::nonblocking::List::sibling).
//! * **A search is linear**, also in an ordered list.
//! * **Starvation.** A walk over a long list that changes all the time may retry without bound;
//!   `snapshot`, `fold` and `len` are such walks. [`List::iter`](crate::nonblocking::List::iter) is
//!   not: it ends after as many entries as the list has. A closure may starve its own operation.
//!   One of `fold` that changes the same list at each call is called indefinitely; so is one of
//!   [`update`](crate::nonblocking::List::update) or
//!   [`insert_with`](crate::nonblocking::List::insert_with) that gives the same key another value
//!   at each call.
//! * **Comparisons may see torn values.** A key's `Ord` or `PartialEq` may be called with bits that
//!   no thread stored. The list discards the answer then, but not a panic: the
//!   [`List`](crate::nonblocking::List)'s operation panics, and has changed nothing. If signal
//!   handlers search the list, a comparison must neither panic nor allocate.
//! * **Visiting writes.** Guards of a [`RefList`](crate::nonblocking::RefList) and marks of a
//!   [`OneVisitorList`](crate::nonblocking::OneVisitorList) are changes of the list, and count in
//!   its version.
//! * **A [`RefList`](crate::nonblocking::RefList)** and a
//!   [`OneVisitorList`](crate::nonblocking::OneVisitorList) insert at the front, and behind values
//!   that are visited. Searches of a `RefList` pass over a removed value until its last guard is
//!   dropped. To unlink a value, both search for its place from the front, which takes time in
//!   proportion to the values before it. So removals behind many values that stay are slow: of
//!   40,000 values, [`retain`](crate::nonblocking::OneVisitorList::retain) took four seconds to
//!   keep the first half and to remove the other. (One run on an AMD EPYC.)
//! * **A thread that exits** with an entry checked out leaves the key occupied until
//!   [`forget_checkout`](crate::nonblocking::List::forget_checkout). One that exits with a guard,
//!   or in a visit, keeps that value from being freed until an
//!   [audit](crate::nonblocking::RefList::audit).
//! * **An entry that was removed to be changed** is absent until it is
//!   [reinserted](crate::nonblocking::Removal::reinsert), which returns it if the key was inserted
//!   meanwhile. A thread that exits before loses the entry.
//! * **Memory** of nodes stays with the list, and with those that share it, until the last is
//!   dropped. A [`List`](crate::nonblocking::List)'s node that an exited thread has left outside of
//!   all lists is lost until an [audit](crate::nonblocking::List::audit), and so is that of a
//!   [`RefList`](crate::nonblocking::RefList::audit), a
//!   [`OneVisitorList`](crate::nonblocking::OneVisitorList::audit) or a
//!   [`MultiMap`](crate::nonblocking::MultiMap::audit), and a value of a
//!   [`RefHashMap`](crate::nonblocking::RefHashMap::audit). A node of the buckets of a
//!   [`HashMap`](crate::nonblocking::HashMap) or a [`RefHashMap`](crate::nonblocking::RefHashMap)
//!   is lost until the map is dropped.
//! * **All lists of a link** of a [`ListCache`](crate::nonblocking::ListCache) share a version, so
//!   operations on one retry after changes of another. Give lists that many threads change links of
//!   their own. A descriptor is on all its lists, or off them, in no single step: to move it from
//!   one list to another is two.
//! * **A [`MultiMap`](crate::nonblocking::MultiMap)** keeps its number of buckets. To give a value
//!   another key is two steps: in between, it has neither or both.
//!
//! # Objects with a server
//!
//! * **Copies.** Each operation of a [`Server`](crate::nonblocking::Server) copies the whole object
//!   twice, so it takes time in proportion to the object's size, even if it changes one word.
//! * **Long operations run more than once.** A caller that has waited for some microseconds without
//!   seeing progress runs the first operation of the queue itself, although its server may only be
//!   slow. One of the copies counts, and the work on the others is lost: of operations that take a
//!   millisecond, each ran 3.4 times for 8 threads on 2 CPUs, which took about three times as long
//!   as under a mutex. Use a mutex for operations that take longer than some 100 µs.
//! * **An operation that runs operations** of the same server at each call never returns, or
//!   overflows the stack. Copies of the object lie on the stack too, so a large object needs a
//!   large one, in handlers as well.
//! * **A thread that exits** inside [`run`](crate::nonblocking::Server::run) may leave its
//!   operation in the queue, where another thread runs it. The memory of its request, and of up to
//!   two copies of the object, stays with the server until that is dropped.
//!
//! # Priority queues and page maps
//!
//! * **All changes of a [`PriorityQueue`](crate::nonblocking::PriorityQueue)** contend for one
//!   version, and those of a [`PageMap`](crate::nonblocking::PageMap) for one in each 8,192 pages.
//!   A queue for each CPU contends less, as in GC96, section 3.
//! * **A change of a priority is two steps.** In between, the entry is in no place: a
//!   [`pop`](crate::nonblocking::PriorityQueue::pop) on another CPU may find the queue empty.
//! * **A search of a queue has no bound.** Its expected time is logarithmic, and grows while hints
//!   are missing that threads have not stored yet.
//! * **A table whose last entry is removed** stays until it is
//!   [unloaded](crate::nonblocking::PageMap::unload). A thread that exits while it unloads keeps
//!   the tables that it has not freed, within the map's limit.
//!
//! # Hold one gate at a time
//!
//! A [`GateGuard`](crate::percpu::GateGuard) blocks all signals of its thread and holds up forks in
//! other threads. While a thread holds one, it must not
//!
//! * close a gate whose holder may wait for this one: the two would deadlock. Any operation may
//!   close the gate of its own CPU, so no operation on the same structure is safe;
//! * fork: in the child, the gate counts as held by a thread that does not exist there;
//! * touch memory that a handler of `SIGSEGV` or `SIGBUS` opens: the fault ends the process ([what
//!   operations touch](#signal-handlers-and-masks));
//! * run long, or run code it does not know, such as a destructor or a callback.
//!
//! Several guards may be dropped in any order: signals stay blocked, and forks wait, until the last
//! one is dropped. A `GateGuard` that is leaked, or skipped by `longjmp`, leaves its gate closed
//! and signals blocked, and each fork in another thread waits indefinitely, also after the thread
//! has exited. Gates do not inherit priority: a real-time thread may wait for an ordinary one that
//! holds a gate.
//!
//! # Locks with a home CPU
//!
//! * **A visit interrupts the home CPU.** [`mutex::OnCpu`](crate::mutex::OnCpu) pays for every use
//!   from another CPU with three system calls, and the home CPU pays with an interrupt.
//!   [`mutex::BiasedFlag`](crate::mutex::BiasedFlag), and so
//!   [`mutex::Biased`](crate::mutex::Biased), pays this at most fifteen times in a row where it
//!   does not pay off. After that it costs what other locks cost, until one CPU has used it alone
//!   for a long time.
//! * **A try** from another CPU makes the system calls of a visit, and waits for the end of another
//!   visit: a few microseconds, longer if the visitor has been preempted.
//! * **A claim blocks signals** on its thread and holds up forks, as closing a gate does, and also
//!   waits a few milliseconds for a fork that is in progress. A claim is the step by which a
//!   visitor excludes the home CPU, or a CPU becomes the home.
//! * **Isolated CPUs** are interrupted if they are the home CPU, and by each thread that goes to
//!   sleep waiting for the lock.
//! * **No queue.** The first thread to try takes the lock, and a thread on the home CPU is first
//!   more often. A visitor waits for one holder; meanwhile no thread on the home CPU can take the
//!   lock. `unlock_fair` hands the lock to a sleeping waiter.
//! * **A holder that exits, or does not exist in a child** of its process, leaves the lock held,
//!   and nothing is poisoned.
//! * **A preempted holder:** waiters sleep until it unlocks. Priorities are not inherited.
//! * **After a raw `fork`** the child takes over the visits of threads that exist only in the
//!   parent, where [the kernel wipes memory](#fork-and-its-relatives) in children. Elsewhere such a
//!   visit keeps the child out of the lock indefinitely.
//!
//! # Signal handlers and masks
//!
//! [`signal`](crate::signal#limits) has the rules and the limits that most programs meet; these are
//! the others.
//!
//! * **Others' handlers.** A handler that other code installs after the last
//!   [`install`](crate::signal::install) or [`repair`](crate::signal::repair) may let managed
//!   signals in; until the next one sequences are not atomic. [`audit`](crate::signal::audit)
//!   reports it. Call it after libraries that install handlers have started. A handler that is
//!   already running when `install` or `repair` is called lets in what was not covered before,
//!   until it returns: if it has interrupted a sequence, a newly managed signal finds that sequence
//!   half done, and is reported `Plain`. No audit finds this. Install handlers before other threads
//!   run sequences.
//! * **Handlers that other code installs at the same time.** The kernel cannot compare and swap a
//!   disposition. [`uninstall`](crate::signal::uninstall), [`repair`](crate::signal::repair) and
//!   [`install`](crate::signal::install) set the new one, look at what they have replaced, and put
//!   that back if it was not what they expected. If other code calls `sigaction` for the same
//!   signal in the microsecond before, its handler is missing in between: a signal that arrives
//!   then goes to the handler below it, or meets the default action. Atomseq's own calls wait for
//!   each other. The same holds for the default action after a handler for [one
//!   signal](crate::signal::Options::once), where that stops the process; where it ends the
//!   process, the process was to end anyway.
//! * **`default_action`** stops a process also in an orphaned process group, and does nothing in
//!   the first process of a PID namespace:
//!   [`Event::default_action`](crate::signal::Event::default_action).
//! * **Handlers for one signal.** A used-up handler's entry stays installed, and carries out the
//!   default action, until the next `install`, `uninstall`, `audit` or `repair`. Until then
//!   `sigaction` reports a handler, and a signal that the default action ignores interrupts calls
//!   like `nanosleep`. A program that is executed starts with the default action.
//! * **Objects loaded later** whose segments have gaps between them, or whose program headers are
//!   not on their first page, are known only from the next `install`, `audit` or `repair` on;
//!   others at once, with glibc 2.35 or newer. Their first page must be readable.
//! * **The C library's signals.** It installs its handlers of 32 and 33 (with musl, also 34) with
//!   the first thread and the first `pthread_cancel`. Until the next `install`, `audit` or `repair`
//!   a managed signal may arrive while one of them runs over a half-done sequence: when another
//!   thread changes the process's user or group, or cancels this one.
//! * **Saved dispositions.** For each signal, atomseq distinguishes sixteen of its entries. A
//!   disposition that other code saved sixteen or more changes of the handler ago may stand for a
//!   newer handler. If that handler [chains](crate::signal::Event::chain) to the code that saved
//!   the disposition, the two call each other until the stack overflows.
//! * **Stop and continue.** Of the deferred `SIGCONT`, `SIGTSTP`, `SIGTTIN` and `SIGTTOU` the last
//!   one comes, as with the kernel's mask; of one that was sent to the thread and one of the same
//!   number that is pending for the process, one only. An earlier stop signal comes as well where a
//!   sandbox refuses `rt_sigpending`, if the `SIGCONT` between it and a later stop signal was
//!   discarded, or if `SIGCONT` has no handler here. Handlers of these that use the alternate
//!   stack, and deferred ones inside [`with_kernel_mask`](crate::signal::with_kernel_mask) or after
//!   a handler with them blocked, are queued again: an opposite one that arrives in that very
//!   moment is discarded.
//! * **Kept signals** (those four, what the kernel's queue would lose, and all where a sandbox
//!   refuses `rt_tgsigqueueinfo` and `tgkill`) get a [context that is made
//!   up](crate::signal#deferred-signals). If the handler of one leaves by the C library's
//!   `siglongjmp`, the others wait for the next handler's return, or the end of the next mask or
//!   gate; after [`signal::siglongjmp`](crate::signal::siglongjmp) they come at once, but for one
//!   of whose number another is pending, and out of a handler of `SIGSYS`, or where the sandbox
//!   lets the thread queue nothing. A real-time signal of `kill` comes with the code of `tgkill`
//!   then, if another is pending. Inside `with_kernel_mask`, what such a sandbox does not let the
//!   thread send is not pending. A thread keeps one of each number and one record: a second
//!   real-time signal of that number counts as [lost](crate::signal::Statistics::lost_signals),
//!   further records as [lost information](crate::signal::Statistics::lost_information). A signal
//!   whose default action is due is lost in such a sandbox.
//! * **Records.** With the queue full (`RLIMIT_SIGPENDING`), one real-time signal's record is kept
//!   for each thread, but none of a signal of `kill` that waits in `with_kernel_mask`: its sender
//!   is lost without a count; a standard signal's record may be lost, as it may be without atomseq.
//!   If a second standard signal of its number is sent to the thread while one is being deferred,
//!   the record that comes may be the second one's. Where `with_kernel_mask` gives the kernel a
//!   real-time signal for which there is no room, `sigwait` and `signalfd` take it without its
//!   record ([lost information](crate::signal::Statistics::lost_information)). If it was sent by
//!   `kill`, it is lost when another one of its number is queued before it is delivered. If another
//!   one is pending when `with_kernel_mask` ends, the handler is called for it even if `sigwait`
//!   has taken it. And if room was made in the moment in which the kernel refused it, the handler
//!   may be called a second time, without the record. So it may for one that `sigtimedwait` has
//!   taken, where a sandbox refuses `rt_sigpending`.
//! * **Waits beside another of its number.** The kernel does not say whether a signal that is
//!   pending is the thread's or the process's. Where one of the same number is pending when
//!   `with_kernel_mask` begins, the thread keeps a deferred standard signal of a POSIX timer, and a
//!   deferred real-time signal if the queue is full, up to the end of the mask. The pending one
//!   then ends a wait. What is kept becomes pending when a handler of atomseq's has returned, so
//!   that the next `sigsuspend` or `ppoll` ends, too; but not after `sigwait`, `sigtimedwait` or a
//!   read from a `signalfd`, in which no handler runs, nor while a sequence is run to its end.
//!   Where a sandbox refuses `rt_sigpending`, these signals, stop signals and `SIGCONT` stay with
//!   the thread and end no wait. If the pending one is the process's and another thread takes it,
//!   no wait ends by what is kept. A timer's signal that is being given to the kernel is lost, and
//!   not counted, if another of its number arrives for the thread between two system calls: a few
//!   in a thousand of a timer of 60 us. A real-time signal of `kill` with room in the queue does
//!   end waits of its own; there, and after a rollforward that was given up, it then comes with the
//!   code of `tgkill` and its own sender.
//! * **On the alternate stack**, where the thread calls no handlers, a deferred standard signal of
//!   a POSIX timer with `SIGEV_THREAD_ID` is lost if the timer has expired again meanwhile, and
//!   with it its [overruns](crate::signal::Event::overrun): use a real-time signal. With the queue
//!   full, a deferred real-time signal comes after those of its number that are queued. A second
//!   one that is deferred before counts as [lost](crate::signal::Statistics::lost_signals); one
//!   that was sent by `kill` is lost without a count. A signal that
//!   [`abandon_rollforward`](crate::signal::abandon_rollforward) gives back, or that waits for the
//!   end of a rollforward, is like one of these if none of its number was pending at that time.
//! * **Masks that a handler leaves in force** may not count: [`mask()`](crate::signal::mask()).
//! * **Memory that a handler of a fault opens,** as the barrier of a collector or a snapshot does
//!   by `SIGSEGV` or `SIGBUS`. On the slow path an operation blocks these signals as well, while it
//!   holds a gate, the lock of a DCAS domain or the claim of a lock with a home. A fault then ends
//!   the process. So such memory must hold no structure, no lock, no domain, no word that a DCAS
//!   changes, none of atomseq's statics, and not the thread's stack. What an operation is given may
//!   lie there: slices and vectors of a per-CPU [`Ring`](crate::percpu::Ring), and a node that is
//!   pushed on a [`List`](crate::percpu::List). But a node that its handler has opened must stay
//!   open until the push returns. And while it is in the list it must stay readable, for what takes
//!   it out reads its link under the gate.
//! * **Faults** and `SIGABRT` are not deferred. A sequence that faults is not atomic against the
//!   fault's handler, nor against handlers that interrupt that one;
//!   [`Interrupted::Inside`](crate::signal::Interrupted::Inside) reports that to all of them.
//! * **Faults in others' handlers.** If a handler that atomseq does not call has interrupted a
//!   sequence, and a signal that cannot be blocked arrives while it runs, that signal's handler
//!   finds the sequence half done and learns [`Plain`](crate::signal::Interrupted::Plain). The same
//!   holds while another library's handler runs that was installed over atomseq's and passes the
//!   fault on: before it does so, and after.
//! * **Several return addresses.** Atomseq recognizes signals that arrive at the two instructions
//!   between a fault's delivery and the interrupted sequence by the address of these instructions,
//!   `sa_restorer`. The C library has one address for all handlers. Where other code installs
//!   atomseq's entries again with another one, by a system call of its own, a signal there that
//!   cannot be blocked may be reported `Plain`, if a delivery that returned by another address has
//!   ended meanwhile, on any thread.
//! * **Protection keys.** The kernel calls each handler with its own rights (on x86-64, all keys
//!   but 0 without access), and a clone runs in one. A rolling sequence on memory of another key
//!   has a fault there that it would not have had itself. Use `restarting` ones on such memory.
//! * **Contexts that outlive their handler.** While a handler of others runs to which atomseq
//!   passes a signal on, `uc_flags` of its context points at the stack. Do not call a saved
//!   disposition later with a copy of that context: the entry would read what lies there now.
//! * **Debuggers** that stop on a fault inside a rollforward see it at a program counter in the
//!   clone, on the stack of the delivery that runs it.
//! * **Jumps out of a delivery.** No other library's handler runs in the middle of atomseq's
//!   delivery of a signal, so none can leave it by `siglongjmp`, with three exceptions. The first
//!   is a handler of a fault or of `SIGABRT` that other code has installed after the last
//!   [`install`](crate::signal::install) or [`repair`](crate::signal::repair);
//!   [`audit`](crate::signal::audit) reports it. The second is a handler that interrupts the
//!   delivery of a `SIGSYS` which a system call has raised. The third is any handler where a
//!   sandbox refuses `rt_sigprocmask`. After such a jump the thread still points at the abandoned
//!   delivery: the next signal on it may overwrite live stack memory or stay blocked, and replaced
//!   tables of sequences may stay mapped.
//! * **Signals that a jump loses.** A handler of others may arrive at the very first instructions
//!   of another signal's delivery. If it leaves by `siglongjmp`, that signal is lost: also where a
//!   mask would have deferred it.
//! * **System calls in handlers' deliveries.** Each delivery calls `rt_sigprocmask`, but for that
//!   of a `SIGSYS` which a system call has raised. seccomp's strict mode kills for that. Where
//!   Syscall User Dispatch or a filter has that call raise `SIGSYS`, its handler is called in the
//!   middle of deliveries.
//! * **Jumps that leave a lock.** While [`install`](crate::signal::install), `uninstall`, `audit`
//!   and `repair` change handlers, the signals of faults are not blocked. If the handler of such a
//!   signal jumps out of these by `siglongjmp`, the other threads' wait indefinitely, and so does
//!   each `fork`. While they walk through the loaded objects, handlers of others may come as well:
//!   one that jumps away leaves glibc's lock held, as it does in any `dl_iterate_phdr`. After a
//!   jump out of a `fork`, each of these four waits for a tenth of a second for that fork, or two,
//!   and each thread that closes a gate for a few milliseconds. After a jump out of one of the
//!   four, each fork waits as long as that, or for a second.
//! * **`nesting` in `sigsuspend`.** The mask that `sigsuspend`, `ppoll` or `pselect` restores
//!   decides which managed signals a handler with [`nesting`](crate::signal::Options::nesting) lets
//!   in, not the mask that it has set.
//! * **Jumps out of a fault's handler** that runs in the middle of a sequence, on a thread that has
//!   blocked all signals: handlers that run deeper in the stack than it did may still be reported
//!   [`Inside`](crate::signal::Interrupted::Inside). After a jump on any other thread this may
//!   happen while one of the signals is blocked that the fault's handler had added to the mask.
//! * **A fault's handler that unblocks everything** while it runs in the middle of a sequence:
//!   handlers that interrupt it may be reported `Plain` although they are inside.
//! * **Handlers that unwind.** A handler must not panic, call `pthread_exit`, or be a cancellation
//!   point of a cancelled thread: where these unwind (with glibc all do), the process aborts. The
//!   same holds for a handler of others of `SIGABRT` or a fault, a `C-unwind` function for example,
//!   once atomseq calls it.
//! * **Handlers of one argument.** A program may install a handler of `SIGABRT` or a fault by
//!   `signal`, another one over it later, and call the former from the latter as what the second
//!   `signal` returned: a function of one argument. If atomseq has adopted the first meanwhile,
//!   what was returned is atomseq's entry, which takes the three arguments that `SA_SIGINFO`
//!   promises. Called with one, it reads addresses that nothing has set. Call such a handler with
//!   all three.
//! * **Handlers put back by `signal`.** That function restores an address without flags and mask.
//!   Without `SA_SIGINFO` the kernel passes no record, and on AArch64 no context: atomseq's entry,
//!   like any handler of three arguments, then reads what nothing has set. Put handlers back by
//!   `sigaction`. [`audit`](crate::signal::audit) reports such a one, and
//!   [`repair`](crate::signal::repair) restores it, if no signal has come before.
//! * **Others' handlers that block faults' signals,** and pass a managed signal on that interrupted
//!   a rolling sequence: these signals are open while the sequence is run to its end. One that was
//!   sent waits again, until that handler returns. But if the rest of the sequence has a fault, it
//!   is handled before the fault's handler runs.
//! * **Alternate stacks.** Another library's handler that was adopted, and asks for the alternate
//!   stack (`SA_ONSTACK`), takes up to 2.5 KiB more of it than before, and 4 KiB more without
//!   optimisation: beside the kernel's frame (`AT_MINSIGSTKSZ`) and what the handler itself takes.
//!   A smaller stack overflows, which nothing reports: a fault on it overwrites what lies below.
//!   The 8 KiB that the standard library gives its threads suffice for its report of a stack
//!   overflow where the kernel's frame is at most 3.4 KiB, as with AVX-512. With larger frames
//!   (AMX, SVE) the process may end by `SIGSEGV` without the report. For atomseq's handlers,
//!   [`on_alternate_stack`](crate::signal::Options::on_alternate_stack) states what they need, and
//!   checks only the stack of the installing thread.
//! * **Two copies.** Each copy of atomseq in a process manages its own signals; masks of one do not
//!   hold back handlers of the other. Nor do deliveries of one hold back `SIGABRT` and faults that
//!   are sent, if the other handles or adopts them: such a handler may find a sequence half done
//!   that the first copy's delivery is running to its end, and is
//!   [reported](crate::signal::Interrupted) `Plain`. Let one copy have the handlers of all these
//!   signals.
//!
//! # Shared with signal handlers
//!
//! What [`local`](crate::local) promises, it promises against handlers that
//! [`signal`](crate::signal) installed. A handler that was installed otherwise, or that runs on a
//! fault inside a sequence, may find an operation half done.
//!
//! * **Capacities** are fixed when the program is compiled, and there is no batch in which a
//!   `Stack` or a `Queue` changes at once.
//! * **Iterating** a [`Map`](crate::local::Map) yields each pair as it is when the iterator reaches
//!   it, not all pairs as they were at one time.
//! * **Starvation.** An operation of several sequences retries what a handler has invalidated. A
//!   handler that arrives more often than a large element takes to be copied into a `Ring`, and
//!   pushes each time, delays that push indefinitely.
//! * **When a thread exits**, nothing in a [`per_thread!`](crate::local::per_thread!) static is
//!   dropped, so it cannot hold values that need to be. Counts that were not taken are lost.
//! * **Size.** With glibc, a thread's statics lie in the memory of its stack: give threads larger
//!   stacks where the statics take megabytes.
//! * **Loaded objects.** Statics of an object that is loaded by `dlopen` lie in a reserve that the
//!   C library keeps for all such objects: about 1.5 KiB with glibc unless
//!   `GLIBC_TUNABLES=glibc.rtld.optional_static_tls=…` enlarges it, none with musl. `dlopen` fails
//!   where it does not suffice; with glibc it says `cannot allocate memory in static TLS block`.
//!   Link the object to the program, or make it smaller.
//!
//! # Double compare-and-swap
//!
//! * OS-assisted DCAS is obstruction-free, not lock-free: in theory, two threads that revoke each
//!   other again and again make no progress. A holder needs a few nanoseconds, and other threads
//!   wait some microseconds before they revoke it.
//! * **A thread that cannot run sections** (a debugger steps it, it is exiting, or it was
//!   interrupted more often than the [restart limit](crate::set_restart_limit)) locks a domain with
//!   its signals blocked. Other threads wait for it, readers included, as for a gate. It rolls back
//!   a stopped holder's change in the same way.
//! * **Revoking a stopped holder** takes one of 1,024 numbers, for the microseconds that it lasts,
//!   in all of the process. If threads that are stopped in just that hold them all, a thread that
//!   meets a stopped holder waits until one of these resumes or exits. Numbers of threads that have
//!   exited come back by `getpid` and `tgkill`: where a filter refuses one of these later, they are
//!   lost.
//! * Each change writes the version's cache line: a domain should be as small as what changes
//!   together (GC96 5.3).
//! * Values are below 2^63.
//! * k-CAS has a page of descriptors for each live thread that has used it, and up to about as many
//!   again that exited threads have left to the next ones. Handlers that interrupt their thread
//!   while it takes a descriptor share some more: one for each CPU and 16, and another one each
//!   time that all 15 descriptors of one are in use. There are up to 32,752 pages; further threads
//!   share what is left over. The pages are never unmapped. A thread that *exits* in the middle of
//!   a k-CAS operation, by the `exit` system call in a handler for example, may leak its
//!   descriptor: 256 bytes of such a page.
//! * Where a filter refuses `tgkill` after the first operation by k-CAS, no thread takes over the
//!   page of one that has exited: each new thread maps another, up to 32,752 pages, 128 MiB.
//! * Where k-CAS was chosen by [`force_kcas`](crate::dcas::force_kcas) or
//!   [`Domain::wide`](crate::dcas::Domain::wide), and nothing else has started atomseq, a child of
//!   `fork` in another PID namespace, with its parent's number, treats its parent's threads as its
//!   own, as if they had exited. Two of its threads may then use one page at once, and words may be
//!   corrupted. Call [`status`](crate::status()) before such a fork.
//! * The owner of a page of descriptors is a thread id with a count of 12 bits. Suppose a thread is
//!   stopped just after it has found that the owner has exited. It resumes after exactly a multiple
//!   of 4,096 other threads have owned the page, of which the last lives and has the same thread id
//!   again. It then takes the page from that thread. If that thread is just taking a descriptor,
//!   both use the same one, and words may be corrupted.
//! * **Forks** cost pages of k-CAS descriptors. A child does not use those of its parent's other
//!   threads again, nor do its own children, for the kernel does not say of another process's
//!   threads whether they still run. A chain of forks, each by a process with several threads that
//!   have used k-CAS, so comes to the 32,752nd page. Later threads share descriptors.
//! * **Without memory**, k-CAS is not lock-free. A thread without a page of its own takes a shared
//!   descriptor, of which there are 240 at least, and waits while all are taken. It holds none
//!   while it waits, but its handler may: a handler that interrupts a change and makes one itself
//!   takes a second descriptor, and the first is not free before the handler returns. So if 240
//!   operations are interrupted, whose handlers make changes, or do not return, they wait for each
//!   other indefinitely. Fewer do not. The 240 become available 15 at a time, by the first thread
//!   that needs them: one that is stopped in those few instructions keeps 15.
//! * **Operations that a handler leaves** by [`siglongjmp`](crate::signal::siglongjmp) do not
//!   return, and what they hold stays held. A domain, or a structure of
//!   [`nonblocking`](crate::nonblocking), must not be moved or freed after that: descriptors and
//!   the log of OS-assisted DCAS hold addresses, and the thread that completes the operation or
//!   rolls it back stores there. The thread may lose a descriptor of k-CAS each time. One that left
//!   while it took a descriptor from its own page, or looked for a page, uses no page of its own
//!   again: all its later descriptors are shared, which costs one compare-and-swap more a change.
//!   One that left while it revoked a stopped holder keeps one of 1,024 numbers for it until it
//!   exits.
//! * **A thread that exits** in the middle of an operation leaves addresses behind in the same way.
//!   The domain, or the structure, must not be moved before another operation has rolled that one
//!   back or completed it. It may be dropped where it lies.
//! * Sequence numbers of k-CAS have 40 bits, in each of a thread's 15 descriptors. Suppose a thread
//!   is stopped between reading a reference and its next step, and resumes when exactly a multiple
//!   of 2^40 uses of that descriptor have passed. If it finds the same reference in the same word,
//!   it takes an old state for the current one. At 20 million changes a second by the thread that
//!   owns the descriptor, 2^40 uses take nine days.
//! * Versions of a [`HashMap`](crate::nonblocking::HashMap)'s bucket have 47 bits. A thread that is
//!   delayed for exactly 2^47 changes of one bucket takes it for unchanged. The numbers of a
//!   [`RefHashMap`](crate::nonblocking::RefHashMap)'s allocations have 43 bits: a thread that is
//!   delayed within a lookup for exactly 2^43 uses of one node may get another key's value.
//! * Versions of OS-assisted DCAS have 48 bits: at 100 million changes a second they wrap after a
//!   month. A thread that sleeps in a read meanwhile, and resumes at the same number, takes an old
//!   state for the current one. A [`RefList`](crate::nonblocking::RefList) finds the place of a
//!   removed value again by versions. So while it holds values from before a wrap and from after
//!   it, a traversal that stands on a removed value may repeat values or miss some.
//! * Not across processes: the fence reaches one address space.
//!
//! # Locks
//!
//! The rules are [`mutex`](crate::mutex#locks)'s, also about waiters that starve and threads that
//! exit; this is what its locks cannot do.
//!
//! * **No owner.** Locks do not record their holder: a thread that locks twice waits for itself, a
//!   holder that exited is not noticed, and priorities are not inherited.
//! * **[`RwLock`](crate::mutex::RwLock).** Upgradable and recursive reads do not exist. A reader of
//!   the parent that was entering at a fork stays counted in the child, as one that was inside
//!   does; the child's writers then wait indefinitely.
//! * **Counter wrap-around.** A [`Condvar`](crate::mutex::Condvar) misses a notification if exactly
//!   2^32 of them arrive while a thread is between announcing itself and its system call.
//! * **Processes.** Locks do not work in memory that processes share: sleepers are identified by
//!   their address in one process, and sections are fenced in one process only.
//! * **Handlers of others.** A lock of scope `SameThread` excludes only handlers that
//!   [`signal`](crate::signal) installed.
//!
//! # Fork and its relatives
//!
//! * `fork` is safe, in any thread (Linux). A thread that has to close a gate meanwhile waits for
//!   it, a few milliseconds at most; if the fork takes longer, what the thread does under the gate
//!   may be half done in the child. Every operation here, and every gated sequence, is whole in one
//!   store; only work of your own under a `GateGuard` that takes several can be seen in between.
//! * **vfork**, and threads or processes that share the program's memory and were not made by the C
//!   library's `pthread_create` (by `clone` with `CLONE_VM`, with thread storage of their own or
//!   without): they must not use atomseq. They are not registered, and read the parent's CPU number
//!   or 0 where theirs belongs. So they run sections on another CPU's slot, and the kernel restarts
//!   none: additions and elements get lost, in silence on the fast path. The slow path ends the
//!   process with a sentence if it finds storage of zeros. `posix_spawn` and
//!   `std::process::Command` without `pre_exec` run no user code there.
//! * A **raw** `fork` or `clone` system call skips the `pthread_atfork` handlers, and so waits for
//!   no thread that holds a gate. The child takes the gate over, but what the thread was doing
//!   under it may be half done. The child gets none of the signals that wait for its parent. What
//!   deferral has blocked stays blocked in the child until the mask ends. If another thread was
//!   changing handlers, the child may find that half done: it needs
//!   [`repair`](crate::signal::repair), and `install` again for signals that `repair` reports as
//!   displaced.
//! * **Long forks.** `install`, `uninstall`, `audit` and `repair` wait for other threads' forks,
//!   because a child would inherit handlers half changed; at most twice a tenth of a second, since
//!   an older atfork handler may wait for a lock that the caller holds. Then they do not walk
//!   through the loaded objects, unless this is the first time, or there is no glibc 2.35 or newer.
//!   If a fork takes longer, its child needs [`repair`](crate::signal::repair), and
//!   [`install`](crate::signal::install) for signals that `repair` reports as displaced. A fork
//!   waits for other threads' forks for a few milliseconds, for the same reason, and as long for
//!   threads that wait to change handlers. If the two overlap after that, its child may find a gate
//!   closed by an atfork handler of the other forking thread, and takes the gate over: work of the
//!   handler's own under a `GateGuard` may be half done.
//! * **glibc's lock of the loaded objects** is copied by a fork as it is: while another thread runs
//!   `dl_iterate_phdr`, or the thread itself, which forks in a callback or a handler. In such a
//!   child `dl_iterate_phdr` waits indefinitely, and with it [`install`](crate::signal::install),
//!   [`audit`](crate::signal::audit) and `repair`. A fork waits for the calls that these three make
//!   themselves, for about a second at most, but not for one that begins when the fork has taken a
//!   tenth of a second already, or in an atfork handler of another fork at the same time, nor for
//!   those of the program. A raw fork waits for none.
//! * **Look-ups.** A child that was forked while another thread's delivery was looking a sequence
//!   up counts that reader permanently. Each later `install`, `audit` and `repair` then keeps the
//!   table that it replaces: some pages.
//! * **Where the kernel wipes no memory in children** (`MADV_WIPEONFORK`: before Linux 4.14,
//!   forbidden at start-up, or in an emulator), only atomseq's own atfork handler knows a child,
//!   and one of a fork inside another fork may not be known at all. One of a raw fork finds gates
//!   closed permanently, and so the lock of a thread that was changing handlers; its own forks wait
//!   for such threads without end. So may atfork handlers of a child that are older than atomseq's,
//!   and a signal that arrives before atomseq's may call the handler of one that the parent's
//!   thread has [kept](crate::signal#deferred-signals). If such a fork goes into a new PID
//!   namespace and the child gets its parent's number, two threads of the child can take the same
//!   descriptor of k-CAS. Where wiping is promised only, as by an emulator, a child that is forked
//!   while another thread starts atomseq up waits indefinitely.
//! * Areas are private memory: other processes do not share them, and the fence would not reach
//!   those processes.
//!
//! # Objects that are being loaded
//!
//! Start-up and the first [`install`](crate::signal::install) look names up, for which they wait
//! until an object that another thread is just loading is there, its constructors included. So a
//! constructor must not wait for a thread that uses atomseq for the first time: start it up before,
//! by [`status()`](crate::status()), and install a handler. A handler that arrives on a thread
//! during the first look-up finds atomseq [starting up](crate::status::Reason::StartingUp), and
//! must not jump out of it.
//!
//! # dlclose
//!
//! The shared object that contains atomseq is never unloaded once atomseq was [started
//! up](crate::status()): start-up asks the dynamic linker to keep it (`RTLD_NODELETE`). ([Without
//! sections](#platforms) less holds.) `dlclose` succeeds and leaves the object as it is, statics
//! included; a later `dlopen` finds it again. Before start-up it can be unloaded, except with a
//! glibc older than 2.35 once another copy of atomseq has installed a handler or audited: then link
//! it with `-z nodelete`. musl unloads nothing at all.
//!
//! Four kinds of objects are indexed: the program, what it was started with, the object that
//! contains atomseq, and objects linked with `-z nodelete`. A signal that arrives in another object
//! costs a search through its notes, one by one, and more stack than [is
//! reckoned](crate::signal::Options::on_alternate_stack).
//!
//! Otherwise a thread's last armed descriptor, which stays named until the kernel next looks at it,
//! would get the process killed, and handlers and hooks for thread exit would point at nothing. The
//! same holds for
//!
//! * **other objects that contain sequences,** handlers, or the code of their own that sources and
//!   closures are: where atomseq is a `dylib` of its own, or a program's, and the object uses that.
//!   Link them with `-z nodelete`.
//! * **an object that another library's `dlopen` hides,** one that is replaced (`LD_PRELOAD`) and
//!   whose namespace (`dlmopen`) is another one than the object's. The dynamic linker then does not
//!   find the object. Link it with `-z nodelete`, too.
//!
//! # Crates of the type `dylib`
//!
//! Link atomseq into programs, `cdylib`s and static libraries, not into a crate of the type
//! `dylib`:
//!
//! * GNU ld and gold refuse to link it ("TLS definition … mismatches non-TLS reference"). It
//!   exports statics of atomseq's, and of [`per_thread!`](crate::local::per_thread!), which are
//!   thread-local, and rustc declares them to the linker as plain data. lld links it.
//! * A program that takes atomseq from such a `dylib` does not link, with any linker: code that is
//!   inlined into it names symbols that the `dylib` keeps to itself.
//!
//! # After the linker
//!
//! What `restarting` and `rolling` protect is found by notes in the section `.note.atomseq`, which
//! say where code lies. A program that has lost them (`strip -R '.note*'`), or whose code was moved
//! after they were written (BOLT and other rewriters of finished programs), runs these sequences
//! without protection. `patchelf` moves the notes where it makes room for a longer path or another
//! library: that does no harm, except in an object linked to addresses of its own, whose sequences
//! lose their protection. Notes that name no sequence any more are counted by
//! [`audit`](crate::signal::Audit::unprotected), unless what lies there could be one: a few loads
//! and stores of any function pass for a restarting sequence. Notes that are gone are not counted,
//! and neither are those of code that was copied and left in place. Plain `strip`, LTO,
//! `--gc-sections` and folding of identical code are fine. Code must be readable, for a clone's
//! traps say where to continue: a segment that can only be executed will not do.
//!
//! # Debuggers, emulators, sandboxes
//!
//! * **valgrind, qemu-user, Miri, sanitizers**: [what to build with](super::tools).
//! * **Stepping** in a debugger interrupts a section at every instruction. After
//!   [`set_restart_limit`](crate::set_restart_limit) restarts the operation takes its slow path. To
//!   see the steps one by one, step through the `gated` form: set `ATOMSEQ_DISABLE_RSEQ=1`.
//! * **Stepping over `popfq`** (x86-64) and on makes Linux take the debugger's trap flag for the
//!   thread's own: the thread is killed by `SIGTRAP` after the debugger has detached. A delivery
//!   that interrupts a `rolling` sequence executes `popfq` only if the thread steps itself, checks
//!   alignment or has the direction flag set, or if the processor lacks SSE4.2. A preempted task of
//!   `atomseq-threads` executes it when it continues.
//! * **Watchpoints** on a word that OS-assisted DCAS changes, and breakpoints in its sections,
//!   abort every attempt at the same instruction, after it has taken the lock. The exchanges of a
//!   [`Domain`](crate::dcas::Domain) take the slow path after
//!   [`set_restart_limit`](crate::set_restart_limit) restarts. But each such attempt of
//!   [`store_pair_if`](crate::dcas::Domain::store_pair_if) fails. So the operations of structures
//!   that are made of it, such as lists and linked queues, retry as long as the watchpoint is
//!   there. Set `ATOMSEQ_DISABLE_RSEQ=1`: then k-CAS makes the changes, and a watchpoint disturbs
//!   none.
//! * **Calls from a debugger** (`call f()` in gdb) take the protection away from a section that is
//!   under way: the kernel sees a program counter outside of it, and no longer restarts it. Leave
//!   the section first, by `finish` or `stepi`, or set `ATOMSEQ_DISABLE_RSEQ=1`. The same holds for
//!   tools that inject calls into a running thread, such as Frida.
//! * **Uprobes** inside a section take its protection away, too. The kernel executes the
//!   instruction under the probe at another address, and does not restart a thread that it preempts
//!   there. Put no probe inside a section. gdb's breakpoints do the same with displaced stepping,
//!   which it uses in non-stop mode.
//! * **seccomp.** Until [`status()`](crate::status()) has returned, start-up uses `openat`,
//!   `openat2`, `fstatfs`, `read`, `close`, `sched_getaffinity`, `uname`, `getpid`, `gettid`,
//!   `futex`, `rt_sigprocmask`, `rseq`, `membarrier`, `getcpu`, `clone`, `wait4`, `nanosleep`,
//!   `getrusage`, `sched_getattr`, `sched_setattr`, `sched_setaffinity` and `exit` (of the
//!   self-test's helper), `munmap`, `madvise`, and the C library's memory, `mmap`, `brk` and
//!   `mprotect`. Call it before a filter forbids them; where one that decides something is refused,
//!   `status()` says which. Later, operations use `membarrier`, `futex`, `rt_sigprocmask`,
//!   `getpid`, `gettid`, `tgkill`, `sched_yield`, `mmap`, `munmap`, `madvise`, `getcpu`,
//!   `clock_gettime` (both only where the vDSO does not answer), and `rseq` for new threads, where
//!   atomseq registers them. [`signal`](crate::signal) uses `rt_sigaction`, `rt_tgsigqueueinfo`,
//!   `rt_sigpending`, `rt_sigreturn`, `sigaltstack`, `mprotect` and `write` as well. The default
//!   profile of Docker (moby's `profiles/seccomp/default.json`) allows all of these. `futex` and
//!   `rt_sigprocmask` must stay allowed. A `membarrier` that worked at start-up and fails later
//!   aborts the process with a sentence on standard error, because there is no safe way to
//!   continue. Where atomseq registers threads itself and `rseq` is forbidden later, new threads
//!   use the slow path; a thread that is registered stays so. With glibc it ends as usual. With
//!   other C libraries its end aborts the process with a sentence, for the kernel would write to
//!   storage that is gone: keep `rseq` allowed there. Where `clock_gettime` is refused, a wait with
//!   a deadline ends at once, a [`type_stable::Pool`](crate::type_stable::Pool) gives no page back
//!   and finds nothing unclaimed, as no time seems to pass, and a thread that meets contention
//!   yields. k-CAS asks `getpid`, `gettid` and `tgkill` (of no signal) at any time: a filter may
//!   answer with an error, but must not end the process. So it may where masks use `getpid`,
//!   `gettid`, `rt_tgsigqueueinfo`, `rt_sigpending` and `tgkill` for what they defer.
//! * **seccomp, answering by a signal.** A filter may have the program itself answer, from its
//!   handler of `SIGSYS`. Start-up and the registration of threads leave that signal open. Inside
//!   start-up such a handler can make no structure
//!   ([`Error::StartingUp`](crate::percpu::Error::StartingUp)), since the number of CPUs is not
//!   known yet. A call of the self-test's helper that is trapped (`sched_setattr`,
//!   `sched_setaffinity`, `nanosleep`) runs the handler there: in a process that shares the
//!   program's memory, on a small stack. Its `exit` must be allowed. Operations that close a gate
//!   or wait for a lock block every signal, for a handler is code they do not know: a `futex`,
//!   `membarrier` or `rt_sigprocmask` that is trapped there ends the process, and so may a `getcpu`
//!   (only where the vDSO does not answer). Let the filter allow these four. Calls for memory
//!   (`mmap`, `munmap`, `madvise`) are made with no signal blocked; forks and what installs,
//!   removes and audits handlers leave faults open.
//! * **Containers** that hide or replace `/sys/devices/system/cpu/possible`: the file that is there
//!   instead is not believed. The number of slots is then a multiple of four, and of 64 where
//!   `/proc/self/status` is replaced as well, or the `openat2` system call is missing (before Linux
//!   5.6) or forbidden: structures take as much more memory, and sums read as many more words.
//! * **Kernels.** Sections need Linux 5.5; structures other than counters, gauges and histograms
//!   need one whose fence is [not known to get lost](super::internals#start-up). Distribution
//!   kernels that carry the fix under an old number need `ATOMSEQ_TRUST_KERNEL=1`.
//!
//! The decision is made once. It does not follow a process to another kernel.
//!
//! # Platforms
//!
//! Sections exist on 64-bit Linux on x86-64 and AArch64. Everywhere else, and with `--cfg
//! atomseq_portable`, the same interface runs on its slow path: correct, and slower than a mutex,
//! because each operation also blocks signals. There, too,
//!
//! * slots are as many as configured CPUs, at most 64, and a thread keeps one slot, chosen by
//!   hashing;
//! * counters, gauges and histograms add to atomic words that all threads share, of 32 bits on
//!   32-bit targets;
//! * `fork` is not watched: a child of a process with several threads may find a gate closed;
//! * on systems other than Linux, `dlclose` may unload an object that contains atomseq, also after
//!   [`install`](crate::signal::install): a signal then calls code that is gone. On Linux with
//!   glibc, the first `install` keeps the object loaded, not start-up.
//!
//! With musl, a thread uses the slow path while its cancellation is disabled, unless it has used
//! atomseq before. musl disables that of every thread that exits, so a destructor that is the first
//! on its thread to use atomseq takes the slow path. Such a thread may unmap its own stack, to
//! which the kernel would still write.
//!
//! # Binary size
//!
//! Every inlined call of an operation is a copy of its section with a descriptor of 32 bytes and a
//! pointer of 8. They are marked to be kept, for tests and debuggers must find all, so the linker
//! also keeps the functions they are in, called or not.
