//! M94's schemes of rollforward: a signal arrives before each instruction that a thread executes,
//! one at a time, by the trap flag. The result is then that of the operation and the handler one
//! after the other; where the library has rolled a sequence forward, the operation came first.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize};
use std::thread;

use atomseq::signal::{Event, Handler};
use atomseq_papers::rollforward::{
    self, Designated, DynFault, DynJump, Error, HybJump, Kind, Scheme,
};
use atomseq_papers::statistics;
use verify_papers::queue::{State, append, fill, node, queue, remove, state};
use verify_papers::{pages, protect};
use verify_support::code::steps::{STEP, clear_trap_flag, set_trap_flag};
use verify_support::proc;
use verify_support::processes::{end_in, in_child, in_fresh_process, killed_in_fresh_process};
use verify_support::sandbox::{Answer, Refusal, When, refuse};
use verify_support::signals::{Three, install_alone, install_plainly, install_short, installed};
use verify_support::this_test;

atomseq_papers::sequence! {
    /// Stores to one word, reads another, stores to a third.
    unsafe fn pass(words: Word, page: Word) -> Word {
        store(words, 1);
        let found = load(page);
        store(words + 8, 1);
        found
    }
}

/// An operation on the queue, and what it returns.
type Operation = fn() -> usize;

fn append_two<S: Scheme>() -> usize {
    // SAFETY: the words of a queue and of a node that is not in it, which this thread alone uses.
    unsafe { append::by::<S>(queue(), node(2)) };
    0
}

fn append_three<S: Scheme>() -> usize {
    // SAFETY: the words of a queue and of a node that is not in it, which this thread alone uses.
    unsafe { append::by::<S>(queue(), node(3)) };
    0
}

fn remove_one<S: Scheme>() -> usize {
    // SAFETY: the words of a queue, which this thread alone uses.
    unsafe { remove::by::<S>(queue()) }.unwrap_or(0)
}

/// The number of the next step, at which a step acts, and the signals that it sends.
static STEPS: AtomicUsize = AtomicUsize::new(0);
static ACTS_AT: AtomicUsize = AtomicUsize::new(0);
static SENDS: AtomicU32 = AtomicU32::new(0);
/// The handler of SIGTRAP that was there before.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

const FIRST: c_int = libc::SIGUSR1;
const SECOND: c_int = libc::SIGUSR2;

/// Counts single steps, and sends the signals before the chosen instruction. Traps of other causes
/// go to the handler before.
extern "C" fn on_step(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's record and context.
    let (code, flags) = unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        (
            (*info).si_code,
            &mut context.uc_mcontext.gregs[libc::REG_EFL as usize],
        )
    };
    // The code of an int3. That of a step is TRAP_TRACE, or TRAP_BRKPT if a hypervisor has lost the
    // cause, as KVM does once in some millions of steps on a busy machine.
    if code == libc::SI_KERNEL {
        // SAFETY: the handler that was installed, with three arguments.
        let before: Three = unsafe { std::mem::transmute(BEFORE.load(SeqCst)) };
        return before(signal, info, context);
    }
    if STEPS.fetch_add(1, SeqCst) == ACTS_AT.load(SeqCst) {
        for signal in [FIRST, SECOND] {
            if SENDS.load(SeqCst) >> signal & 1 == 1 {
                // SAFETY: blocked until this handler returns.
                unsafe { libc::raise(signal) };
            }
        }
        *flags &= !STEP;
    }
}

/// Single-steps `work`, and sends signals before the instruction of this number. Returns whether
/// there is one.
#[inline(never)]
fn interrupted_at(step: usize, signals: &[c_int], work: Operation) -> (usize, bool) {
    STEPS.store(0, SeqCst);
    ACTS_AT.store(step, SeqCst);
    SENDS.store(signals.iter().map(|signal| 1 << signal).sum(), SeqCst);
    set_trap_flag();
    let result = work();
    clear_trap_flag();
    (result, STEPS.load(SeqCst) > step)
}

/// The interference of a handler, as a function's address, and its result.
static INTERFERENCE: AtomicUsize = AtomicUsize::new(0);
static INTERFERED: AtomicUsize = AtomicUsize::new(0);
static DELIVERIES: AtomicU32 = AtomicU32::new(0);

fn interfere() {
    // SAFETY: `every_instruction` stores an operation.
    let operation: Operation = unsafe { std::mem::transmute(INTERFERENCE.load(SeqCst)) };
    INTERFERED.store(operation(), SeqCst);
    DELIVERIES.fetch_add(1, SeqCst);
}

fn on_event(_: &mut Event<'_>) {
    interfere();
}

extern "C" fn on_signal(_: c_int) {
    interfere();
}

/// Installs the handlers of a test: of the scheme's, or as without it.
fn install(is_protected: bool) {
    match is_protected {
        // SAFETY: the handler runs operations on the queue, which are atomic against it.
        true => unsafe { rollforward::install(FIRST, 0, on_event) }.expect("a handler"),
        false => install_short(FIRST, on_signal, 0),
    }
    BEFORE.store(installed(libc::SIGTRAP).sa_sigaction, SeqCst);
    install_alone(libc::SIGTRAP, on_step, 0);
    statistics::count(true);
}

/// What a run leaves: the results of the operation and of the handler, and the queue.
type Outcome = (usize, usize, Option<State>);

/// What a test of one pair of operations has found.
#[derive(Debug, Default)]
struct Found {
    steps: usize,
    rolled: u64,
    torn: usize,
    first: Option<String>,
}

/// Interrupts an operation before each of its instructions.
fn every_instruction(
    kind: Kind,
    length: usize,
    operation: Operation,
    interference: Operation,
) -> Found {
    INTERFERENCE.store(interference as usize, SeqCst);
    let serial = |is_first: bool| -> Outcome {
        fill(length);
        let (one, other) = match is_first {
            true => {
                let one = operation();
                (one, interference())
            }
            false => {
                let other = interference();
                (operation(), other)
            }
        };
        (one, other, state())
    };
    let (first, last) = (serial(true), serial(false));
    assert!(
        first.2.is_some() && last.2.is_some(),
        "a serial run leaves a whole queue"
    );
    let mut found = Found::default();
    loop {
        fill(length);
        DELIVERIES.store(0, SeqCst);
        let before = statistics::rollforwards(kind).expect("counting is on");
        let (result, was_there) = interrupted_at(found.steps, &[FIRST], operation);
        if !was_there {
            return found;
        }
        let rolled = statistics::rollforwards(kind).expect("counting is on") - before;
        let outcome = (result, INTERFERED.load(SeqCst), state());
        let is_right = match rolled {
            0 => outcome == first || outcome == last,
            _ => outcome == first,
        };
        if !is_right || DELIVERIES.load(SeqCst) != 1 {
            found.torn += 1;
            let step = found.steps;
            found.first.get_or_insert_with(|| {
                format!("step {step}, rolled {rolled}: {outcome:?}, not {first:?} or {last:?}")
            });
        }
        found.rolled += rolled;
        found.steps += 1;
    }
}

/// The pairs of operations: the nodes in the queue, the operation, the handler's, and how many
/// instructions of the steps the operation executes.
fn pairs<S: Scheme>() -> [(usize, Operation, Operation, u64); 5] {
    [
        (2, append_two::<S>, append_three::<S>, 4),
        (0, append_two::<S>, remove_one::<S>, 4),
        // Both early returns, and the end.
        (0, remove_one::<S>, append_three::<S>, 3),
        (2, remove_one::<S>, append_three::<S>, 7),
        (1, remove_one::<S>, append_three::<S>, 8),
    ]
}

fn protected<S: Scheme>() {
    install(true);
    for (length, operation, interference, instructions) in pairs::<S>() {
        let found = every_instruction(S::KIND, length, operation, interference);
        assert_eq!(found.torn, 0, "{:?}: {:?}", S::KIND, found.first);
        println!(
            "{:?}, {length} nodes: {} steps, {} rolled forward",
            S::KIND,
            found.steps,
            found.rolled
        );
        let is_early = u64::from(matches!((length, instructions), (0, 3) | (2, 7)));
        // Each instruction of the steps, and what differs at the ends.
        let expected = match S::KIND {
            // The one that resets the word; the two that lead from an early return to it.
            Kind::DynJump => instructions + 1 + 2 * is_early..=instructions + 1 + 2 * is_early,
            // The two are before the end if the linker has put them there.
            Kind::DynFault => instructions..=instructions + 2 * is_early,
            // The jump, and the one that sets the status.
            Kind::HybJump => instructions + 1 + is_early..=instructions + 1 + is_early,
            // At the first instruction nothing is done yet.
            Kind::Designated => instructions - 1..=instructions - 1,
        };
        assert!(
            expected.contains(&found.rolled),
            "{:?}: not {expected:?}: {found:?}",
            S::KIND
        );
    }
}

/// The negative control: handlers that nothing makes wait.
fn unprotected<S: Scheme>() {
    install(false);
    let torn = pairs::<S>().map(|(length, operation, interference, _)| {
        every_instruction(S::KIND, length, operation, interference).torn
    });
    assert!(
        torn[0] > 0 && torn[4] > 0,
        "{:?}: nothing is torn without protection: {torn:?}",
        S::KIND
    );
    println!(
        "{:?}: torn at {torn:?} instructions without protection",
        S::KIND
    );
}

macro_rules! schemes {
    ($($name:ident, $control:ident: $scheme:ty;)*) => {
        $(
            #[test]
            fn $name() {
                in_fresh_process(this_test!(), protected::<$scheme>);
            }

            #[test]
            fn $control() {
                in_fresh_process(this_test!(), unprotected::<$scheme>);
            }
        )*
    };
}

schemes! {
    dyn_jump_at_every_instruction, dyn_jump_without_its_handler: DynJump;
    dyn_fault_at_every_instruction, dyn_fault_without_its_handler: DynFault;
    hyb_jump_at_every_instruction, hyb_jump_without_its_handler: HybJump;
    designated_at_every_instruction, designated_without_its_handler: Designated;
}

/// What a handler of a higher level has seen of the queue.
static TORN_SEEN: AtomicU32 = AtomicU32::new(0);
static WHOLE_SEEN: AtomicU32 = AtomicU32::new(0);
/// The order in which the two handlers begin and end, four bits each.
static ORDER: AtomicU32 = AtomicU32::new(0);

fn note(what: u32) {
    ORDER.store(ORDER.load(SeqCst) << 4 | what, SeqCst);
}

/// The signal that a handler sends, once.
static ANSWER: AtomicU32 = AtomicU32::new(0);

/// Sends the signal, if it is to be sent.
fn answer(signal: c_int) {
    if ANSWER
        .compare_exchange(signal as u32, 0, SeqCst, SeqCst)
        .is_ok()
    {
        // SAFETY: this thread handles it.
        unsafe { libc::raise(signal) };
    }
}

/// The handler of the lower level, which sends the higher signal where a test asks for it.
fn low(_: &mut Event<'_>) {
    note(1);
    assert!(
        state().is_some(),
        "a handler of a lower level sees the sequence complete or not begun"
    );
    answer(SECOND);
    note(2);
}

/// The handler of the higher level. It also uses the queue's words by a sequence of the scheme.
fn high<S: Scheme>(_: &mut Event<'_>) {
    note(3);
    match state() {
        Some(_) => WHOLE_SEEN.fetch_add(1, SeqCst),
        None => TORN_SEEN.fetch_add(1, SeqCst),
    };
    static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    let own = OWN.as_ptr().expose_provenance();
    // SAFETY: two words, of which this handler alone makes a queue and a word.
    unsafe { pass::by::<S>(own, own) };
    answer(FIRST);
    note(4);
}

/// Tries to install a handler of another level, which the kernel refuses: nothing changes.
fn refuse_other_level(handler: Handler) {
    let refusal = Refusal {
        call: libc::SYS_rt_sigaction,
        answer: Answer::Error(libc::EPERM),
        when: When::Equals(FIRST as u32),
    };
    refuse(&refusal).expect("a filter");
    // SAFETY: as in `levels`.
    let refused = unsafe { rollforward::install(FIRST, 3, handler) };
    assert!(matches!(refused, Err(Error::Handler(_))), "{refused:?}");
}

/// A sequence of level 1 between a signal of level 0 and one of level 2.
fn levels<S: Scheme>() {
    // SAFETY: the handlers read the queue, and change words of their own.
    unsafe {
        rollforward::install(FIRST, 0, low).expect("a handler");
        rollforward::install(SECOND, 2, high::<S>).expect("a handler");
    }
    refuse_other_level(high::<S>);
    BEFORE.store(installed(libc::SIGTRAP).sa_sigaction, SeqCst);
    install_alone(libc::SIGTRAP, on_step, 0);
    statistics::count(true);
    let rolled = || statistics::rollforwards(S::KIND).expect("counting is on");
    fill(2);
    append_two::<S>();
    let expected = state();
    let all = |signals: &[c_int]| {
        for step in 0.. {
            fill(2);
            let was_there = interrupted_at(step, signals, append_two::<S>).1;
            assert_eq!(state(), expected, "{:?}, step {step}, {signals:?}", S::KIND);
            if !was_there {
                return;
            }
        }
    };
    all(&[SECOND]);
    assert_eq!(rolled(), 0, "a handler of a higher level does not wait");
    let torn = TORN_SEEN.swap(0, SeqCst);
    assert!(torn > 0, "it runs in the middle of the sequence");
    all(&[FIRST]);
    let alone = rolled();
    assert!(alone > 0, "a handler of a lower level waits");
    all(&[FIRST, SECOND]);
    assert!(rolled() > alone && TORN_SEEN.load(SeqCst) <= torn);
    // Handlers among each other: the higher one interrupts the lower one, which waits for it.
    fill(2);
    for (first, answer, order) in [(FIRST, SECOND, 0x1342), (SECOND, FIRST, 0x3412)] {
        ORDER.store(0, SeqCst);
        ANSWER.store(answer as u32, SeqCst);
        // SAFETY: this thread handles it.
        unsafe { libc::raise(first) };
        assert_eq!(ORDER.load(SeqCst), order, "{first} first");
    }
    println!(
        "{:?}: {torn} instructions torn for the higher level, {alone} rolled for the lower",
        S::KIND
    );
}

#[test]
fn levels_of_dyn_jump() {
    in_fresh_process(this_test!(), levels::<DynJump<1>>);
}

#[test]
fn levels_of_hyb_jump() {
    in_fresh_process(this_test!(), levels::<HybJump<1>>);
}

/// How often the other thread runs the sequence while the trap is in place.
const PASSES: usize = 1000;

/// The page that the rolled-forward sequence reads, and what the handler of its fault does.
static PAGE: AtomicUsize = AtomicUsize::new(0);
static IS_TRAP_HANDLED: AtomicBool = AtomicBool::new(true);
/// Whether the other thread may run, and whether it has.
static GO: AtomicBool = AtomicBool::new(false);
static PASSED: AtomicUsize = AtomicUsize::new(0);

/// The two words of each thread.
static OWN: [[AtomicUsize; 2]; 2] = [const { [const { AtomicUsize::new(0) }; 2] }; 2];

/// Runs the sequence, at one place for every thread.
#[inline(never)]
fn pass_through(thread: usize, page: usize) -> bool {
    let words = &OWN[thread];
    words.iter().for_each(|word| word.store(0, SeqCst));
    // SAFETY: two words of this thread's, and a page that its thread alone reads.
    let found = unsafe { pass::by::<Designated>(words.as_ptr().expose_provenance(), page) };
    found == 0 && words.iter().all(|word| word.load(SeqCst) == 1)
}

fn pass_the_page() -> usize {
    usize::from(pass_through(0, PAGE.load(SeqCst)))
}

/// Handles the fault in the middle of a rollforward, when the trap is in place: lets the other
/// thread work, then makes the page readable.
extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's record.
    let address = unsafe { (*info).si_addr() } as usize;
    if address != PAGE.load(SeqCst) {
        eprintln!("a fault at {address:#x}, which this test did not make");
        std::process::exit(1);
    }
    if !IS_TRAP_HANDLED.load(SeqCst) {
        // SAFETY: what a trap does without a handler.
        unsafe { libc::signal(libc::SIGTRAP, libc::SIG_DFL) };
    }
    GO.store(true, SeqCst);
    while PASSED.load(SeqCst) == 0 {
        thread::yield_now();
    }
    protect(address, libc::PROT_READ);
}

/// Runs the sequence many times, at the place where another thread's trap stands.
fn pass_many_times() {
    let page = pages(1, libc::PROT_READ);
    for _ in 0..PASSES {
        assert!(pass_through(1, page), "this thread's sequence is right");
    }
}

/// Rolls a sequence forward, and holds it in the middle while another thread does this work.
/// Returns how often threads have met the trap.
fn while_a_trap_is_in_place(work: fn()) -> u64 {
    install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
    // SAFETY: the handler does nothing.
    unsafe { rollforward::install(FIRST, 0, |_| ()) }.expect("a handler");
    BEFORE.store(installed(libc::SIGTRAP).sa_sigaction, SeqCst);
    install_alone(libc::SIGTRAP, on_step, 0);
    statistics::count(true);
    PAGE.store(pages(1, libc::PROT_READ), SeqCst);
    let rolled = || statistics::rollforwards(Kind::Designated).expect("counting is on");
    // The first instruction at which the sequence is rolled forward, before it reads the page.
    let step = (0..).find(|step| {
        let before = rolled();
        let (is_right, was_there) = interrupted_at(*step, &[FIRST], pass_the_page);
        assert!(
            is_right == 1 && was_there,
            "the sequence is rolled forward somewhere"
        );
        rolled() > before
    });
    let step = step.expect("a step");
    protect(PAGE.load(SeqCst), libc::PROT_NONE);
    let other = thread::spawn(move || {
        while !GO.load(SeqCst) {
            thread::yield_now();
        }
        work();
        PASSED.store(1, SeqCst);
    });
    let before = (rolled(), statistics::traps_hit());
    assert_eq!(interrupted_at(step, &[FIRST], pass_the_page), (1, true));
    other.join().expect("the other thread");
    assert_eq!(rolled(), before.0 + 1);
    assert_eq!(before.1, Some(0));
    let hit = statistics::traps_hit();
    // The trap is gone.
    assert!(pass_through(0, PAGE.load(SeqCst)));
    assert_eq!(statistics::traps_hit(), hit);
    hit.expect("counting is on")
}

fn another_thread_passes() {
    let hit = while_a_trap_is_in_place(pass_many_times);
    assert_eq!(hit, PASSES as u64, "it has met the trap every time");
}

#[test]
fn rewriting_lets_other_threads_pass() {
    in_fresh_process(this_test!(), another_thread_passes);
}

/// The negative control: what the trap does to a thread without the handler.
#[test]
fn a_trap_without_its_handler_ends_the_process() {
    killed_in_fresh_process(this_test!(), libc::SIGTRAP, || {
        IS_TRAP_HANDLED.store(false, SeqCst);
        another_thread_passes();
    });
}

/// A thread that is in the middle of a rollforward is not in the child of a fork. Its trap is, and
/// the first thread that meets it removes it.
#[test]
fn a_child_removes_the_trap_of_its_parents_thread() {
    in_fresh_process(this_test!(), || {
        let hit = while_a_trap_is_in_place(|| {
            in_child(|| {
                pass_many_times();
                assert_eq!(statistics::traps_hit(), Some(1), "it stands there once");
                let maps = proc::maps();
                assert!(!maps.contains(" rwxp "), "no code stays writable: {maps}");
            });
        });
        assert_eq!(hit, 0, "the parent's other thread has not met it");
    });
}

/// Runs `work` in a child that shares this process's memory, as that of a vfork does, and waits for
/// its end.
fn in_child_with_shared_memory(work: fn()) {
    extern "C" fn run(work: *mut c_void) -> c_int {
        // SAFETY: the function below.
        let work: fn() = unsafe { std::mem::transmute(work) };
        work();
        0
    }
    const STACK: usize = 1 << 20;
    let stack = pages(STACK / 4096, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let mut status = 0;
    // SAFETY: a stack for the child alone. This thread waits, so that its storage is the child's.
    unsafe {
        let child = libc::clone(run, (stack + STACK) as *mut _, flags, work as *mut _);
        assert!(child > 0, "no child");
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
    }
    assert_eq!(status, 0, "how the child has ended");
}

/// A thread that is in the middle of a rollforward is there for the child of a vfork, too.
#[test]
fn a_child_that_shares_memory_leaves_the_trap() {
    in_fresh_process(this_test!(), || {
        let hit = while_a_trap_is_in_place(|| in_child_with_shared_memory(pass_many_times));
        assert_eq!(hit, PASSES as u64, "the child has met it every time");
    });
}

/// Whether the thread that installs handlers without end is to exit.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// A fork in the middle of another thread's installation.
#[test]
fn a_child_installs_handlers_while_its_parent_does() {
    in_fresh_process(this_test!(), || {
        // SAFETY: the handler does nothing.
        let install = || unsafe { rollforward::install(FIRST, 0, |_| ()) }.expect("a handler");
        let other = thread::spawn(move || {
            while !IS_OVER.load(SeqCst) {
                install();
            }
        });
        for _ in 0..20 {
            in_child(|| {
                end_in(20);
                install();
            });
        }
        IS_OVER.store(true, SeqCst);
        other.join().expect("the other thread");
    });
}

/// The file that a page is mapped from, and how often its fault and the signal after it were
/// handled.
static FILE: AtomicI32 = AtomicI32::new(-1);
static REPAIRED: AtomicUsize = AtomicUsize::new(0);
static AFTERWARDS: AtomicUsize = AtomicUsize::new(0);

/// Handles the fault of a page beyond the end of its file, in the middle of a sequence.
fn repair(_: &mut Event<'_>) {
    REPAIRED.fetch_add(1, SeqCst);
    // SAFETY: numbers; the signal is blocked until this handler returns.
    unsafe {
        libc::raise(SECOND);
        assert_eq!(libc::ftruncate(FILE.load(SeqCst), 4096), 0);
    }
}

fn look_afterwards(_: &mut Event<'_>) {
    let is_whole = OWN[0].iter().all(|word| word.load(SeqCst) == 1);
    AFTERWARDS.fetch_add(1 + 100 * usize::from(!is_whole), SeqCst);
}

/// Maps pages of a new file that is empty, so that each access to one raises `SIGBUS` until the
/// file is longer. Returns their address.
fn map_empty_file(pages: usize) -> usize {
    let (nowhere, shared) = (std::ptr::null_mut(), libc::MAP_SHARED);
    // SAFETY: a file without a name, and a new mapping of it.
    let mapped = unsafe {
        FILE.store(libc::memfd_create(c"empty".as_ptr(), 0), SeqCst);
        let (size, read) = (pages * 4096, libc::PROT_READ);
        libc::mmap(nowhere, size, read, shared, FILE.load(SeqCst), 0)
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped.expose_provenance()
}

/// The handler of a fault runs in the middle of the sequence, which goes on where it has faulted; a
/// signal of a higher level than the fault's waits for its end.
fn fault_in_the_middle<S: Scheme>() {
    let page = map_empty_file(1);
    // SAFETY: the handlers change words of their own, and a file.
    unsafe {
        rollforward::install(libc::SIGBUS, 0, repair).expect("a handler");
        rollforward::install(SECOND, 3, look_afterwards).expect("a handler");
    }
    // SAFETY: two words of this thread's, and a page that it alone reads.
    let found = unsafe { pass::by::<S>(OWN[0].as_ptr().expose_provenance(), page) };
    assert_eq!((found, REPAIRED.load(SeqCst)), (0, 1), "{:?}", S::KIND);
    assert_eq!(AFTERWARDS.load(SeqCst), 1, "{:?}", S::KIND);
}

#[test]
fn a_fault_does_not_wait_for_its_sequence() {
    in_fresh_process(this_test!(), || {
        for each in [
            fault_in_the_middle::<DynJump>,
            fault_in_the_middle::<DynFault>,
            fault_in_the_middle::<HybJump>,
            fault_in_the_middle::<Designated>,
        ] {
            OWN[0].iter().for_each(|word| word.store(0, SeqCst));
            REPAIRED.store(0, SeqCst);
            AFTERWARDS.store(0, SeqCst);
            each();
        }
    });
}

atomseq_papers::sequence! {
    /// Stores to one word, reads two, stores to another.
    unsafe fn pass_both(words: Word, one: Word, two: Word) -> Word {
        store(words, 1);
        let first = load(one);
        let second = load(two);
        store(words + 8, 1);
        first + second
    }
}

/// The address of two pages beyond the end of the file.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Handles the fault of one of the two pages as code that knows nothing of atomseq: raises the
/// signal of that page, and makes the page a part of the file.
fn repair_page(info: *mut libc::siginfo_t, signal_of: fn(usize) -> c_int) {
    // SAFETY: the kernel's record, numbers, and a file.
    unsafe {
        let page = ((*info).si_addr().addr() - MAPPED.load(SeqCst)) / 4096;
        libc::raise(signal_of(page));
        let length = (page as libc::off_t + 1) * 4096;
        assert_eq!(libc::ftruncate(FILE.load(SeqCst), length), 0);
    }
    REPAIRED.fetch_add(1, SeqCst);
}

/// Runs a sequence that reads the two pages, with this handler of the faults, which blocks these
/// signals.
fn pass_two_pages<S: Scheme>(repair: Three, blocked: &[c_int]) {
    let pages = map_empty_file(2);
    MAPPED.store(pages, SeqCst);
    install_plainly(libc::SIGBUS, repair, 0, blocked);
    let words = OWN[0].as_ptr().expose_provenance();
    // SAFETY: two words of this thread's, and pages that it alone reads.
    let found = unsafe { pass_both::by::<S>(words, pages, pages + 4096) };
    assert_eq!((found, REPAIRED.load(SeqCst)), (0, 2), "{:?}", S::KIND);
}

/// At the first page a signal arrives that waits for the sequence, at the second one `SIGABRT`, in
/// the rollforward.
extern "C" fn repair_and_abort(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    repair_page(info, |page| [FIRST, libc::SIGABRT][page]);
}

/// Runs a sequence of the scheme on words of its own.
fn pass_own<S: Scheme>(_: &mut Event<'_>) {
    static READABLE: AtomicUsize = AtomicUsize::new(0);
    let (words, page) = (OWN[1].as_ptr(), READABLE.as_ptr());
    // SAFETY: two words of this handler's, and one that is only read.
    unsafe { pass::by::<S>(words.expose_provenance(), page.expose_provenance()) };
    AFTERWARDS.fetch_add(1000, SeqCst);
}

/// A signal that nothing holds back arrives in the middle of a rollforward: its handler runs at
/// once and may run sequences, and the rollforward goes on after it.
fn abort_in_a_rollforward<S: Scheme>() {
    end_in(20);
    // SAFETY: handlers that change words of their own.
    unsafe {
        rollforward::install(FIRST, 0, look_afterwards).expect("a handler");
        rollforward::install(libc::SIGABRT, 0, pass_own::<S>).expect("a handler");
    }
    pass_two_pages::<S>(repair_and_abort, &[FIRST, libc::SIGABRT]);
    assert!(
        OWN.as_flattened()[..4]
            .iter()
            .all(|word| word.load(SeqCst) == 1)
    );
    assert_eq!(AFTERWARDS.load(SeqCst), 1001, "{:?}", S::KIND);
}

#[test]
fn an_abort_does_not_wait_for_a_rollforward_of_dyn_jump() {
    in_fresh_process(this_test!(), abort_in_a_rollforward::<DynJump>);
}

#[test]
fn an_abort_does_not_wait_for_a_rollforward_of_dyn_fault() {
    in_fresh_process(this_test!(), abort_in_a_rollforward::<DynFault>);
}

#[test]
fn an_abort_does_not_wait_for_a_rollforward_of_hyb_jump() {
    in_fresh_process(this_test!(), abort_in_a_rollforward::<HybJump>);
}

#[test]
fn an_abort_does_not_wait_for_a_rollforward_of_designated() {
    in_fresh_process(this_test!(), abort_in_a_rollforward::<Designated>);
}

/// At the first page a signal arrives that waits for the sequence. At the second one, in the
/// rollforward, another thread installs the handler of another signal, which then arrives.
extern "C" fn repair_and_install(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    repair_page(info, |page| {
        if page == 1 {
            GO.store(true, SeqCst);
            while PASSED.load(SeqCst) == 0 {
                thread::yield_now();
            }
        }
        [FIRST, SECOND][page]
    });
}

/// A signal whose handler is installed during a rollforward waits for it.
fn installed_during_a_rollforward<S: Scheme>() {
    end_in(20);
    // SAFETY: a handler that reads words.
    unsafe { rollforward::install(FIRST, 0, look_afterwards) }.expect("a handler");
    let other = thread::spawn(|| {
        while !GO.load(SeqCst) {
            thread::yield_now();
        }
        // SAFETY: the handler reads words.
        unsafe { rollforward::install(SECOND, 0, look_afterwards) }.expect("a handler");
        PASSED.store(1, SeqCst);
    });
    pass_two_pages::<S>(repair_and_install, &[FIRST]);
    other.join().expect("the other thread");
    assert_eq!(AFTERWARDS.load(SeqCst), 2, "{:?}", S::KIND);
}

#[test]
fn a_signal_installed_during_a_rollforward_of_dyn_jump_waits() {
    in_fresh_process(this_test!(), installed_during_a_rollforward::<DynJump>);
}

#[test]
fn a_signal_installed_during_a_rollforward_of_dyn_fault_waits() {
    in_fresh_process(this_test!(), installed_during_a_rollforward::<DynFault>);
}

#[test]
fn a_signal_installed_during_a_rollforward_of_hyb_jump_waits() {
    in_fresh_process(this_test!(), installed_during_a_rollforward::<HybJump>);
}

#[test]
fn a_signal_installed_during_a_rollforward_of_designated_waits() {
    in_fresh_process(this_test!(), installed_during_a_rollforward::<Designated>);
}
