//! M94's programs, a test-and-set and a counter, each form of each as a function of its own, so
//! that the executable contains it by name; and the library's structures that consist of such
//! forms.

use atomseq::local::{Counter, Map, Queue, Ring, Stack};
use atomseq::mutex::{Restarting, Rolling, SpinLockBy};

mod sequences {
    atomseq::sequence! {
        /// Adds to a word.
        pub(super) unsafe fn counter_add(word: Word, amount: Word) {
            commit(word, load(word) + amount);
        }

        /// B91's test-and-set, on half a word.
        pub(super) unsafe fn test_and_set(flag: Word) -> bool {
            let held = load32(flag);
            if held != 0 { return false }
            commit32(flag, 1);
            true
        }

        /// M94's LIFO: pushes a node on a linked stack.
        pub(super) unsafe fn lifo_push(stack: Word, node: Word) {
            let first = load(stack);
            prepare(node, first);
            commit(stack, node);
        }

        /// Pops a node.
        pub(super) unsafe fn lifo_pop(stack: Word) -> Word {
            let first = load(stack);
            if first == 0 { return 0 }
            let next = load(first);
            commit(stack, next);
            first
        }

        /// M94's FIFO, in its restartable form: a linked queue whose last node is empty. Its words
        /// are the first and the last node; a node's first word is its link, its second its value.
        /// `node` becomes the last one.
        pub(super) unsafe fn fifo_enqueue(queue: Word, node: Word, value: Word) {
            let last = load(queue + 8);
            prepare(last, node);
            prepare(last + 8, value);
            commit(queue + 8, node);
        }

        /// Removes the first node, unless it is the last one.
        pub(super) unsafe fn fifo_dequeue(queue: Word) -> Word {
            let first = load(queue);
            if first == load(queue + 8) { return 0 }
            let next = load(first);
            commit(queue, next);
            first
        }

        /// M94's FIFO, in its rolling form: a linked queue without an empty node. Its words are the
        /// first node and the address of the last link.
        pub(super) unsafe fn linked_enqueue(queue: Word, node: Word) {
            let place = load(queue + 8);
            store(node, 0);
            store(place, node);
            store(queue + 8, node);
        }

        /// Removes the first node.
        pub(super) unsafe fn linked_dequeue(queue: Word) -> Word {
            let first = load(queue);
            if first == 0 { return 0 }
            let next = load(first);
            store(queue, next);
            if next != 0 { return first }
            store(queue + 8, queue);
            first
        }
    }
}

/// A form, and whether it has a row, and the row a clone.
pub type Form = (&'static str, Option<bool>);

const UNPROTECTED: Form = ("unprotected", None);
const RESTARTING: Form = ("restarting", Some(false));
const ROLLING: Form = ("rolling", Some(true));

macro_rules! programs {
    ($($program:ident $signature:tt: $($form:ident $FORM:ident),*;)*) => {
        /// The sequences, and the forms of each.
        pub const PROGRAMS: &[(&str, &[Form])] = &[$((stringify!($program), &[$($FORM),*])),*];

        $(mod $program {
            $(function! { $program $form $signature })*
        })*
    };
}

macro_rules! function {
    ($program:ident $form:ident { ($($argument:ident),*) $(-> $result:ty)? }) => {
        #[unsafe(export_name = concat!("signal_", stringify!($program), "_", stringify!($form)))]
        #[inline(never)]
        pub unsafe extern "C" fn $form($($argument: usize),*) $(-> $result)? {
            // SAFETY: the caller's promise.
            unsafe { super::sequences::$program::$form($($argument),*) }
        }
    };
}

programs! {
    counter_add { (word, amount) }: unprotected UNPROTECTED, restarting RESTARTING, rolling ROLLING;
    test_and_set { (flag) -> bool }: unprotected UNPROTECTED, restarting RESTARTING, rolling ROLLING;
    lifo_push { (stack, node) }: unprotected UNPROTECTED, restarting RESTARTING, rolling ROLLING;
    lifo_pop { (stack) -> usize }: unprotected UNPROTECTED, restarting RESTARTING, rolling ROLLING;
    fifo_enqueue { (queue, node, value) }: unprotected UNPROTECTED, restarting RESTARTING, rolling ROLLING;
    fifo_dequeue { (queue) -> usize }: unprotected UNPROTECTED, restarting RESTARTING, rolling ROLLING;
    linked_enqueue { (queue, node) }: unprotected UNPROTECTED, rolling ROLLING;
    linked_dequeue { (queue) -> usize }: unprotected UNPROTECTED, rolling ROLLING;
}

/// Runs each of them, so that none can be left out of the executable.
pub fn run() {
    let at = |word: &mut usize| &raw mut *word as usize;
    let (mut count, mut stack, mut nodes, mut flags) = (0, 0, [[0; 2]; 4], [0usize; 2]);
    let nodes = nodes.each_mut().map(|node| at(&mut node[0]));
    let mut queue = [nodes[0]; 2];
    let queue = at(&mut queue[0]);
    let mut linked = [0; 2];
    let linked = at(&mut linked[0]);
    // SAFETY: words of this function's own, in the layout that each sequence knows.
    unsafe {
        counter_add::unprotected(at(&mut count), 1);
        counter_add::restarting(at(&mut count), 2);
        counter_add::rolling(at(&mut count), 4);
        assert_eq!(count, 7);
        let flags = at(&mut flags[0]);
        assert!(test_and_set::unprotected(flags) && !test_and_set::restarting(flags));
        assert!(test_and_set::restarting(flags + 4) && !test_and_set::rolling(flags + 4));
        assert!(test_and_set::rolling(flags + 8) && !test_and_set::unprotected(flags + 8));
        let stack = at(&mut stack);
        lifo_push::unprotected(stack, nodes[1]);
        lifo_push::restarting(stack, nodes[2]);
        lifo_push::rolling(stack, nodes[3]);
        assert_eq!(lifo_pop::unprotected(stack), nodes[3]);
        assert_eq!(lifo_pop::restarting(stack), nodes[2]);
        assert_eq!(lifo_pop::rolling(stack), nodes[1]);
        fifo_enqueue::unprotected(queue, nodes[1], 5);
        fifo_enqueue::restarting(queue, nodes[2], 6);
        fifo_enqueue::rolling(queue, nodes[3], 7);
        assert_eq!(fifo_dequeue::unprotected(queue), nodes[0]);
        assert_eq!(fifo_dequeue::restarting(queue), nodes[1]);
        assert_eq!(fifo_dequeue::rolling(queue), nodes[2]);
        (linked as *mut usize).add(1).write(linked);
        linked_enqueue::unprotected(linked, nodes[1]);
        linked_enqueue::rolling(linked, nodes[2]);
        assert_eq!(linked_dequeue::unprotected(linked), nodes[1]);
        assert_eq!(linked_dequeue::rolling(linked), nodes[2]);
    }
    local();
}

/// Runs the library's sequences.
fn local() {
    let (counter, stack, queue) = (
        Counter::new(),
        Stack::<usize, 4>::new(),
        Queue::<usize, 4>::new(),
    );
    let (ring, map) = (Ring::<usize, 4>::new(), Map::<u32, usize, 4>::new());
    counter.add(2);
    assert_eq!((counter.take(), counter.sum()), (2, 0));
    assert_eq!((stack.push(3), stack.pop()), (Ok(()), Some(3)));
    assert_eq!((queue.push(4), queue.pop()), (Ok(()), Some(4)));
    assert_eq!((ring.push(5), ring.pop()), (Ok(()), Some(5)));
    let (restarting, rolling) = (
        SpinLockBy::<Restarting, _>::new(9),
        SpinLockBy::<Rolling, _>::new(9),
    );
    assert_eq!((*restarting.lock(), *rolling.lock()), (9, 9));
    assert!(map.insert(6, 7).is_ok() && map.add(6, 1).is_ok());
    assert_eq!((map.get(6), map.remove(6)), (Some(8), Some(8)));
}
