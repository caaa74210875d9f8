//! A signal handler that asks the book for its most frequent words, whatever its thread is in the
//! middle of; and the timer that calls it.

use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use atomseq::local::per_thread;
use atomseq::signal;

use super::books::Book;
use super::crew::Answers;
use super::ranking::LONGEST;
use super::timer::Timer;
use super::words::Rank;

/// A book, whatever it is kept in, as handlers see it.
pub struct Asked<'b> {
    book: *const (),
    ask: unsafe fn(*const (), &mut [Rank]) -> Option<usize>,
    top: usize,
    asked: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
    borrowed: PhantomData<&'b ()>,
}

// SAFETY: the book behind the pointer is borrowed, and `Sync`.
unsafe impl Sync for Asked<'_> {}

impl<'b> Asked<'b> {
    /// For a ranking of that length.
    pub fn new<B: Book>(book: &'b B, top: usize) -> Asked<'b> {
        /// # Safety
        ///
        /// `book` points to a `B`.
        unsafe fn ask<B: Book>(book: *const (), ranks: &mut [Rank]) -> Option<usize> {
            // SAFETY: the caller's promise.
            unsafe { &*book.cast::<B>() }.ask(ranks)
        }
        Asked {
            book: ptr::from_ref(book).cast(),
            ask: ask::<B>,
            top,
            asked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            borrowed: PhantomData,
        }
    }

    /// What all handlers were told so far.
    pub fn answers(&self) -> Answers {
        // Relaxed: read after the threads have ended.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Answers {
            asked: count(&self.asked),
            refused: count(&self.refused),
            wrong: count(&self.wrong),
        }
    }

    /// Asks once.
    fn ask(&self) {
        let mut ranks = [Rank::NONE; LONGEST];
        // SAFETY: it points to the book that this was made for.
        let count = unsafe { (self.ask)(self.book, &mut ranks[..self.top]) };
        let outcome = match count {
            None => Some(&self.refused),
            Some(count) if !could_be(&ranks[..count]) => Some(&self.wrong),
            Some(_) => None,
        };
        // Relaxed: counts.
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = outcome {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether a ranking can be one: in order, and no word is there twice.
pub fn could_be(ranks: &[Rank]) -> bool {
    let in_order = ranks.windows(2).all(|pair| pair[0] < pair[1]);
    let mut rest = ranks;
    while let [first, others @ ..] = rest {
        if others.iter().any(|other| other.word == first.word) {
            return false;
        }
        rest = others;
    }
    in_order
}

per_thread! {
    /// What this thread's handler asks, or null.
    static BOOK: AtomicPtr<Asked<'static>> = AtomicPtr::new(ptr::null_mut());
}

fn on_ring(_event: &mut signal::Event<'_>) {
    // Relaxed: only this thread writes it.
    let asked = BOOK.with(|book| book.load(Ordering::Relaxed));
    // SAFETY: null, or what a `Ringing` of this thread borrows.
    if let Some(asked) = unsafe { asked.as_ref() } {
        asked.ask();
    }
}

/// Makes this process ready, once.
fn install() -> Result<(), String> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: `on_ring` calls `Book::ask`, which is made for handlers; it neither allocates nor
        // waits, and its thread-local is there from the thread's start.
        let installed = unsafe { signal::install(libc::SIGRTMIN(), on_ring) };
        installed.map_err(|error| format!("no handler can be installed: {error}"))
    });
    installed.clone()
}

/// While it lives, a timer interrupts this thread, and the handler asks.
pub struct Ringing<'a> {
    _timer: Timer,
    _asked: PhantomData<&'a ()>,
}

impl<'a> Ringing<'a> {
    /// So often a second.
    ///
    /// # Errors
    ///
    /// A sentence, if there is no timer for this thread.
    pub fn on_this_thread(asked: &'a Asked<'a>, hertz: u32) -> Result<Ringing<'a>, String> {
        install()?;
        let timer = Timer::new(libc::SIGRTMIN());
        let timer = timer.map_err(|error| format!("a thread can have no timer: {error}"))?;
        let ringing = Ringing {
            _timer: timer,
            _asked: PhantomData,
        };
        BOOK.with(|book| book.store(ptr::from_ref(asked).cast_mut().cast(), Ordering::Relaxed));
        let started = ringing._timer.start(1_000_000_000 / u64::from(hertz));
        started.map_err(|error| format!("a thread's timer cannot be started: {error}"))?;
        Ok(ringing)
    }
}

impl Drop for Ringing<'_> {
    fn drop(&mut self) {
        // A signal that is still to come finds nothing to ask.
        BOOK.with(|book| book.store(ptr::null_mut(), Ordering::Relaxed));
    }
}
