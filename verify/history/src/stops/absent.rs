//! Where there are no stops.

/// Places to stop at: none.
#[derive(Clone, Debug, Default)]
pub struct Places(());

impl Places {
    /// Adds none.
    pub fn add(&mut self, _entry: usize, _operation: impl FnMut()) {}

    /// Nothing to do.
    pub fn ready(&self) {}

    /// None.
    pub fn len(&self) -> usize {
        0
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Nothing is planted.
    pub fn plant(&self, _index: usize, _met: fn()) -> Option<Stop> {
        None
    }

    /// No such place.
    pub fn describe(&self, _index: usize) -> String {
        String::new()
    }
}

/// A stop that cannot be.
#[derive(Debug)]
pub enum Stop {}

impl Stop {
    /// Never.
    pub fn lift(self) -> bool {
        match self {}
    }
}

/// None are taken.
pub fn steps() -> u64 {
    0
}
