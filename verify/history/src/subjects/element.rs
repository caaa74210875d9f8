//! What is put into structures: plain numbers, and boxes that count themselves.

use std::sync::atomic::{AtomicI64, Ordering};

/// A value on its way through a structure.
pub trait Element: Send + Sync + Sized + 'static {
    /// Of this number.
    fn of(number: u64) -> Self;
    /// Its number.
    fn number(&self) -> u64;
}

impl Element for u64 {
    fn of(number: u64) -> u64 {
        number
    }

    fn number(&self) -> u64 {
        *self
    }
}

/// A number that owns memory and counts itself.
#[derive(Debug)]
pub struct Probe(u64);

static ALIVE: AtomicI64 = AtomicI64::new(0);

impl Probe {
    /// How many there are.
    pub fn alive() -> i64 {
        ALIVE.load(Ordering::Relaxed)
    }
}

impl Element for Box<Probe> {
    fn of(number: u64) -> Box<Probe> {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Box::new(Probe(number))
    }

    fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        assert_ne!(self.0, 0, "dropped twice");
        self.0 = 0;
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
