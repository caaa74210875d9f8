//! A signal handler that reads the ranking of a book, whatever operation it has interrupted, and
//! the timer that sends the signal.

use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use atomseq::local::per_thread;
use atomseq::signal;

use demo_common::timer::Timer;

use super::books::Book;
use super::crew::Reads;
use super::ranking::MAX_RANKS;
use super::words::Rank;

/// A book of any kind, as handlers see it.
pub struct Asked<'b> {
    book: *const (),
    ask: unsafe fn(*const (), &mut [Rank]) -> Option<usize>,
    top: usize,
    attempts: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
    borrowed: PhantomData<&'b ()>,
}

// SAFETY: the book behind the pointer is borrowed, and `Sync`.
unsafe impl Sync for Asked<'_> {}

impl<'b> Asked<'b> {
    /// Wraps a book whose ranking has `top` words.
    pub fn new<B: Book>(book: &'b B, top: usize) -> Asked<'b> {
        /// # Safety
        ///
        /// `book` points to a `B`.
        unsafe fn ask<B: Book>(book: *const (), ranks: &mut [Rank]) -> Option<usize> {
            // SAFETY: the caller promises a pointer to a `B`.
            unsafe { &*book.cast::<B>() }.ask(ranks)
        }
        Asked {
            book: ptr::from_ref(book).cast(),
            ask: ask::<B>,
            top,
            attempts: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            borrowed: PhantomData,
        }
    }

    /// Returns what all handlers have read so far.
    pub fn reads(&self) -> Reads {
        // Relaxed: the threads have been joined.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Reads {
            attempts: count(&self.attempts),
            refused: count(&self.refused),
            wrong: count(&self.wrong),
        }
    }

    /// Reads the ranking once.
    fn ask(&self) {
        let mut ranks = [Rank::NONE; MAX_RANKS];
        // SAFETY: it points to the book that `new` borrowed.
        let count = unsafe { (self.ask)(self.book, &mut ranks[..self.top]) };
        let outcome = match count {
            None => Some(&self.refused),
            Some(count) if !could_be(&ranks[..count]) => Some(&self.wrong),
            Some(_) => None,
        };
        // Relaxed: counters, read after the threads have been joined.
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = outcome {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns whether a ranking is possible: in order, and no word is in it twice.
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
    /// The book that this thread's handler reads, or null.
    static BOOK: AtomicPtr<Asked<'static>> = AtomicPtr::new(ptr::null_mut());
}

fn on_ring(_event: &mut signal::Event<'_>) {
    // Relaxed: only this thread writes it.
    let asked = BOOK.with(|book| book.load(Ordering::Relaxed));
    // SAFETY: null, or the book that a `Ringing` on this thread borrows.
    if let Some(asked) = unsafe { asked.as_ref() } {
        asked.ask();
    }
}

/// Installs the handler, once for the process.
fn install() -> Result<(), String> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: `on_ring` calls `Book::ask`, which is meant for handlers and neither allocates
        // nor waits. The per-thread static exists from the thread's start.
        let installed = unsafe { signal::install(libc::SIGRTMIN(), on_ring) };
        installed.map_err(|error| format!("the handler could not be installed: {error}"))
    });
    installed.clone()
}

/// A timer that interrupts this thread until it is dropped; the handler reads the ranking.
pub struct Ringing<'a> {
    _timer: Timer,
    _asked: PhantomData<&'a ()>,
}

impl<'a> Ringing<'a> {
    /// Starts a timer that interrupts this thread `hertz` times per second.
    ///
    /// # Errors
    ///
    /// A sentence, if the kernel refuses a timer or the handler.
    pub fn on_this_thread(asked: &'a Asked<'a>, hertz: u32) -> Result<Ringing<'a>, String> {
        install()?;
        let timer = Timer::new(libc::SIGRTMIN());
        let timer =
            timer.map_err(|error| format!("the kernel refused a thread its timer: {error}"))?;
        let ringing = Ringing {
            _timer: timer,
            _asked: PhantomData,
        };
        BOOK.with(|book| book.store(ptr::from_ref(asked).cast_mut().cast(), Ordering::Relaxed));
        let started = ringing._timer.start(1_000_000_000 / u64::from(hertz));
        started.map_err(|error| format!("a thread's timer could not be started: {error}"))?;
        Ok(ringing)
    }
}

impl Drop for Ringing<'_> {
    fn drop(&mut self) {
        // A signal that is still pending finds no book. The timer is dropped after this.
        BOOK.with(|book| book.store(ptr::null_mut(), Ordering::Relaxed));
    }
}
