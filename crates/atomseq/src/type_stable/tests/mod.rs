//! Tests of pools through their public interface.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::*;

mod audits;
mod caches;
mod held_up;
mod pools;
mod trims;

type Words = [AtomicUsize; 4];

fn limited(limit: usize) -> Pool<Words> {
    Pool::options().limit(limit).try_build().unwrap()
}

fn all<T: Descriptor>(pool: &Pool<T>) -> Vec<Allocated<'_, T>> {
    std::iter::from_fn(|| pool.allocate().ok()).collect()
}

fn addresses<T: Descriptor>(allocated: &[Allocated<'_, T>]) -> BTreeSet<usize> {
    allocated.iter().map(Allocated::address).collect()
}
