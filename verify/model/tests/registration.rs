//! A thread that registers itself: handlers interrupt it anywhere, the kernel may refuse, and when
//! it exits destructors still use atomseq.
//!
//! All of it happens on one thread, so a schedule is a list of choices: whether a handler runs at
//! this point, whether this call fails. Every list is tried. [`Thread`] follows `linux/rseq.rs`
//! step by step.

use std::cell::{Cell, RefCell};

/// Tries every list of choices.
struct Choices {
    /// The choices made, each with the number of its alternatives.
    made: RefCell<Vec<(usize, usize)>>,
    next: Cell<usize>,
}

impl Choices {
    /// Calls `run` once for every list of choices that it makes; returns the number of lists.
    fn all(mut run: impl FnMut(&Choices) -> Result<(), String>) -> Result<usize, String> {
        let choices = Choices {
            made: RefCell::new(Vec::new()),
            next: Cell::new(0),
        };
        let mut runs = 0;
        loop {
            runs += 1;
            choices.next.set(0);
            run(&choices).map_err(|why| format!("{why}, in run {runs}"))?;
            let mut made = choices.made.borrow_mut();
            while let Some((chosen, of)) = made.pop() {
                if chosen + 1 < of {
                    made.push((chosen + 1, of));
                    break;
                }
            }
            if made.is_empty() {
                return Ok(runs);
            }
        }
    }

    fn choose(&self, of: usize) -> usize {
        let mut made = self.made.borrow_mut();
        let next = self.next.replace(self.next.get() + 1);
        if next == made.len() {
            made.push((0, of));
        }
        made[next].0
    }
}

/// A deliberate difference from the library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    None,
    SignalsStayOpen,
    HookAfterwards,
    NotRetired,
    RefusalForgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotYet,
    Registered,
    Retired,
    Refused,
}

/// The largest number of handlers, nested or one after the other.
const HANDLERS: usize = 3;
/// How often the C library calls destructors as long as there are values to destroy.
const PASSES: usize = 4;

struct Thread<'a> {
    choices: &'a Choices,
    difference: Difference,
    /// The word in the thread's block.
    state: Cell<State>,
    /// The kernel's side.
    registered: Cell<bool>,
    /// The value of the thread-specific key.
    hook: Cell<bool>,
    blocked: Cell<usize>,
    handlers: Cell<usize>,
    refusals: Cell<usize>,
    fault: RefCell<Option<String>>,
}

impl<'a> Thread<'a> {
    fn new(choices: &'a Choices, difference: Difference) -> Thread<'a> {
        Thread {
            choices,
            difference,
            state: Cell::new(State::NotYet),
            registered: Cell::new(false),
            hook: Cell::new(false),
            blocked: Cell::new(0),
            handlers: Cell::new(0),
            refusals: Cell::new(0),
            fault: RefCell::new(None),
        }
    }

    /// A point between two instructions: a handler may run here, unless signals are blocked.
    fn point(&self) {
        let may = self.blocked.get() == 0 && self.handlers.get() < HANDLERS;
        if may && self.choices.choose(2) == 1 {
            self.handlers.set(self.handlers.get() + 1);
            self.operation();
        }
    }

    /// Any operation: the fast path, and the slow path where the CPU number reads as negative.
    fn operation(&self) {
        self.point();
        if self.registered.get() {
            return;
        }
        self.register_this_thread();
        self.point();
    }

    fn register_this_thread(&self) {
        let state = self.state.get();
        self.point();
        match state {
            State::NotYet => self.register(),
            State::Refused if self.difference == Difference::RefusalForgotten => self.register(),
            _ => {}
        }
    }

    fn register(&self) {
        self.block();
        self.point();
        if self.state.get() == State::Registered {
            return self.unblock();
        }
        self.point();
        let late = self.difference == Difference::HookAfterwards;
        if !late && !self.set_hook() {
            self.state.set(State::Refused);
            return self.unblock();
        }
        self.point();
        if !self.kernel_registers() {
            self.hook.set(false);
            self.point();
            self.state.set(State::Refused);
            return self.unblock();
        }
        self.point();
        if late && !self.set_hook() {
            self.state.set(State::Refused);
            return self.unblock();
        }
        self.state.set(State::Registered);
        self.unblock();
    }

    /// `pthread_setspecific`, which may be out of memory.
    fn set_hook(&self) -> bool {
        let succeeds = self.choices.choose(2) == 0;
        if succeeds {
            self.hook.set(true);
        }
        succeeds
    }

    /// The kernel's call, which a filter may forbid.
    fn kernel_registers(&self) -> bool {
        if self.registered.get() {
            self.fails("a registered thread registers again");
        }
        if self.choices.choose(2) == 1 {
            self.refusals.set(self.refusals.get() + 1);
            return false;
        }
        self.registered.set(true);
        true
    }

    /// The exit hook.
    fn retire(&self) {
        self.block();
        let retired = match self.difference {
            Difference::NotRetired => State::NotYet,
            _ => State::Retired,
        };
        let before = self.state.replace(retired);
        self.point();
        if before == State::Registered {
            if !self.registered.get() {
                self.fails("a thread unregisters what is not registered");
            }
            self.registered.set(false);
        }
        self.unblock();
    }

    fn block(&self) {
        if self.difference != Difference::SignalsStayOpen {
            self.blocked.set(self.blocked.get() + 1);
        }
    }

    fn unblock(&self) {
        if self.difference != Difference::SignalsStayOpen {
            self.blocked.set(self.blocked.get() - 1);
        }
        self.point();
    }

    /// The thread's exit: the C library calls destructors until no values are left, and then
    /// releases the storage. Another key's destructor uses atomseq, before the hook or after it,
    /// for `busy` passes.
    fn exit(&self, busy: usize) {
        let before_hook = self.choices.choose(2) == 0;
        for pass in 0..PASSES {
            let others = |when| {
                if pass < busy && before_hook == when {
                    self.operation();
                }
            };
            others(true);
            if self.hook.replace(false) {
                self.retire();
            }
            others(false);
            if pass >= busy && !self.hook.get() {
                break;
            }
        }
        // Signals are blocked from here on.
        if self.registered.get() {
            self.fails("the kernel writes to storage that is given away");
        }
    }

    fn fails(&self, why: &str) {
        self.fault
            .borrow_mut()
            .get_or_insert_with(|| why.to_owned());
    }

    fn end(self) -> Result<(), String> {
        // The thread that had not asked yet, and each handler that found the same.
        if self.refusals.get() > 1 + HANDLERS {
            self.fails("a refused thread keeps asking");
        }
        match self.fault.into_inner() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}

/// Runs a thread that makes some operations and exits; destructors use atomseq in `busy` passes.
fn lives(operations: usize, busy: usize, difference: Difference) -> Result<usize, String> {
    Choices::all(|choices| {
        let thread = Thread::new(choices, difference);
        for _ in 0..operations {
            thread.operation();
        }
        thread.exit(busy);
        thread.end()
    })
}

#[test]
fn a_registration_never_outlives_its_thread() {
    let mut runs = 0;
    for operations in 0..=2 {
        for busy in 0..PASSES {
            runs += lives(operations, busy, Difference::None)
                .unwrap_or_else(|why| panic!("{operations} operations, {busy} passes: {why}"));
        }
    }
    println!("model: registration: holds in {runs} runs, all there are");
    assert!(runs > 1000);
}

#[test]
fn wrong_registrations_are_found() {
    let open = lives(2, 2, Difference::SignalsStayOpen);
    found("signals stay open", open, "");
    let late = lives(2, 2, Difference::HookAfterwards);
    found("the hook comes after the registration", late, "given away");
    let forgotten = lives(8, 0, Difference::RefusalForgotten);
    found("a refusal is forgotten", forgotten, "keeps asking");
    // Only destructors that never finish reveal this one.
    let retired = lives(1, PASSES, Difference::NotRetired);
    found("a thread does not retire", retired, "given away");
}

fn found(name: &str, result: Result<usize, String>, fault: &str) {
    let why = match result {
        Ok(runs) => panic!("{name}: not detected in {runs} runs"),
        Err(why) => why,
    };
    assert!(why.contains(fault), "{name}: another fault: {why}");
    println!("model: registration: {name}: detected: {why}");
}
