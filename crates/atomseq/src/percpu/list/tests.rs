//! A list returns every node once and in order, and drops those that remain.

use std::sync::Arc;

use super::*;

struct Numbered {
    _before: u32,
    link: Link,
    number: usize,
    shared: Option<Arc<()>>,
}

// SAFETY: the offset of the link.
unsafe impl Node for Numbered {
    const LINK: usize = std::mem::offset_of!(Numbered, link);
}

fn node(number: usize, shared: Option<Arc<()>>) -> Box<Numbered> {
    Box::new(Numbered {
        _before: 0,
        link: Link::new(),
        number,
        shared,
    })
}

#[test]
fn every_pushed_node_comes_out_once() {
    let list = List::new();
    (0..100).for_each(|number| list.push(node(number, None)));
    let mut numbers: Vec<usize> = std::iter::from_fn(|| list.pop())
        .map(|node| node.number)
        .collect();
    numbers.extend(list.drain().map(|node| node.number));
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_dropped_list_drops_its_nodes_once() {
    let shared = Arc::new(());
    let list = List::new();
    (0..10).for_each(|number| list.push(node(number, Some(shared.clone()))));
    let taken = list.pop().or_else(|| list.steal()).unwrap();
    assert!(taken.shared.is_some());
    drop(taken);
    assert_eq!(Arc::strong_count(&shared), 10);
    drop(list);
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn raw_nodes_keep_their_address() {
    let mut first = Numbered {
        _before: 0,
        link: Link::new(),
        number: 1,
        shared: None,
    };
    let list = List::new();
    let address = NonNull::from(&mut first);
    // SAFETY: the test does not access the node while it is in the list, and the node outlives it.
    list.push(unsafe { RawNode::new(address) });
    assert_eq!(
        list.pop().or_else(|| list.steal()).unwrap().into_inner(),
        address
    );
}
