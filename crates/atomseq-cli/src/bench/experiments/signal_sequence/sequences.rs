//! The sequences of M94's programs, and the same steps in plain Rust for what a mask protects.
//!
//! ```text
//! stack:  first ──> node ──> node ──> 0         a node's first word is its link
//!
//! queue:  first ──> node ──> node ──> node      the first node is one to spare: it was emptied last;
//!                   empty      ┌───────^        the values are in the others
//!         last ────────────────┘
//!
//! queue with several stores:
//!         first ──> node ──> node ──> 0         last is the address of the link to write next:
//!         last ───────────────^                 that of the last node, or `first` if there is none
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a queue's last node, or last link, is.
const LAST: usize = 8;
/// Where a node's value is.
const VALUE: usize = 8;

atomseq_papers::sequence! {
    /// NULL: the smallest legal sequence.
    pub unsafe fn null(word: Word, value: Word) {
        commit(word, value);
    }

    /// LIFO: puts a node on a stack.
    pub unsafe fn push(stack: Word, node: Word) {
        let first = load(stack);
        prepare(node, first);
        commit(stack, node);
    }

    /// LIFO: takes the top node.
    pub unsafe fn pop(stack: Word) -> Option<Word> {
        let first = load(stack);
        if first == 0 { return None }
        let next = load(first);
        commit(stack, next);
        Some(first)
    }

    /// FIFO: puts a value last, in a node of the caller's. No thread follows the last node's link
    /// before the commit.
    pub unsafe fn enqueue(queue: Word, node: Word, value: Word) {
        let last = load(queue + LAST);
        prepare(node + VALUE, value);
        prepare(last, node);
        commit(queue + LAST, node);
    }

    /// FIFO: takes the first value and the node that is empty in its place.
    pub unsafe fn dequeue(queue: Word) -> Option<(Word, Word)> {
        let empty = load(queue);
        if empty == load(queue + LAST) { return None }
        let next = load(empty);
        let value = load(next + VALUE);
        commit(queue, next);
        Some((empty, value))
    }

    /// FIFO with several stores: puts a node last.
    pub unsafe fn append(queue: Word, node: Word) {
        store(node, 0);
        let link = load(queue + LAST);
        store(link, node);
        store(queue + LAST, node);
    }

    /// FIFO with several stores: takes the first node.
    pub unsafe fn remove(queue: Word) -> Option<Word> {
        let first = load(queue);
        if first == 0 { return None }
        let next = load(first);
        store(queue, next);
        if next != 0 { return Some(first) }
        store(queue + LAST, queue);
        Some(first)
    }
}

/// The same in plain Rust. Words that a handler may change are read and written whole: Rust calls
/// that a relaxed atomic access, and it is a plain `mov`.
pub mod plain {
    use super::{AtomicUsize, LAST, Ordering, VALUE};

    // Relaxed: on one thread a handler sees what the thread has done, in its order.

    /// # Safety
    ///
    /// The address is an aligned word's that lives and is accessed by whole words only.
    #[inline(always)]
    unsafe fn load(address: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { AtomicUsize::from_ptr(address as *mut usize) }.load(Ordering::Relaxed)
    }

    /// # Safety
    ///
    /// As for `load`.
    #[inline(always)]
    unsafe fn store(address: usize, value: usize) {
        // SAFETY: the caller's promise.
        unsafe { AtomicUsize::from_ptr(address as *mut usize) }.store(value, Ordering::Relaxed);
    }

    /// NULL.
    ///
    /// # Safety
    ///
    /// The address is that of a word made for it.
    #[inline(always)]
    pub unsafe fn null(word: usize, value: usize) {
        // SAFETY: the caller's promise.
        unsafe { store(word, value) };
    }

    /// Puts a node on a stack.
    ///
    /// # Safety
    ///
    /// Addresses of a stack and of a node that is the caller's, and no handler runs in between.
    #[inline(always)]
    pub unsafe fn push(stack: usize, node: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            store(node, load(stack));
            store(stack, node);
        }
    }

    /// Takes the top node.
    ///
    /// # Safety
    ///
    /// The address of a stack, and no handler runs in between.
    #[inline(always)]
    pub unsafe fn pop(stack: usize) -> Option<usize> {
        // SAFETY: the caller's promise; what the stack holds are nodes.
        unsafe {
            let first = load(stack);
            if first == 0 {
                return None;
            }
            store(stack, load(first));
            Some(first)
        }
    }

    /// Puts a value last.
    ///
    /// # Safety
    ///
    /// Addresses of a queue and of a node that is the caller's, and no handler runs in between.
    #[inline(always)]
    pub unsafe fn enqueue(queue: usize, node: usize, value: usize) {
        // SAFETY: the caller's promise; a queue always has a last node.
        unsafe {
            store(node + VALUE, value);
            store(load(queue + LAST), node);
            store(queue + LAST, node);
        }
    }

    /// Takes the first value and the node that is empty in its place.
    ///
    /// # Safety
    ///
    /// The address of a queue, and no handler runs in between.
    #[inline(always)]
    pub unsafe fn dequeue(queue: usize) -> Option<(usize, usize)> {
        // SAFETY: the caller's promise; every node but the last links to one.
        unsafe {
            let empty = load(queue);
            if empty == load(queue + LAST) {
                return None;
            }
            let next = load(empty);
            let value = load(next + VALUE);
            store(queue, next);
            Some((empty, value))
        }
    }

    /// Puts a node last, with several stores.
    ///
    /// # Safety
    ///
    /// Addresses of a queue and of a node that is the caller's, and no handler runs in between.
    #[inline(always)]
    pub unsafe fn append(queue: usize, node: usize) {
        // SAFETY: the caller's promise; `last` is a link's address.
        unsafe {
            store(node, 0);
            store(load(queue + LAST), node);
            store(queue + LAST, node);
        }
    }

    /// Takes the first node, with several stores.
    ///
    /// # Safety
    ///
    /// The address of a queue, and no handler runs in between.
    #[inline(always)]
    pub unsafe fn remove(queue: usize) -> Option<usize> {
        // SAFETY: the caller's promise; what the queue holds are nodes.
        unsafe {
            let first = load(queue);
            if first == 0 {
                return None;
            }
            let next = load(first);
            store(queue, next);
            if next == 0 {
                store(queue + LAST, queue);
            }
            Some(first)
        }
    }
}
