//! Lifetimes that no structure may stretch. An element that goes in with a short lifetime would
//! come out with a long one, from every structure that is reached by shared reference. And a
//! reference from a static would outlive its thread.

use std::sync::atomic::AtomicUsize;

use atomseq::percpu::{Batch, Link, Node, Source};
use atomseq::{local, nonblocking, percpu};

type Forever = &'static String;

fn nonblocking_stack<'a>(stack: &nonblocking::Stack<Forever>, short: &'a String) {
    let same: &nonblocking::Stack<&'a String> = stack;
    same.push(short).unwrap();
}

fn nonblocking_queue<'a>(queue: &nonblocking::Queue<Forever>, short: &'a String) {
    let same: &nonblocking::Queue<&'a String> = queue;
    same.push(short).unwrap();
}

fn linked_stack<'a>(stack: &nonblocking::LinkedStack<Forever>, short: &'a String) {
    let same: &nonblocking::LinkedStack<&'a String> = stack;
    same.push(short).unwrap();
}

fn ref_list<'a>(list: &nonblocking::RefList<Forever>, short: &'a String) {
    let same: &nonblocking::RefList<&'a String> = list;
    same.push_front(short).unwrap();
}

fn one_visitor_list<'a>(list: &nonblocking::OneVisitorList<Forever>, short: &'a String) {
    let same: &nonblocking::OneVisitorList<&'a String> = list;
    same.push_front(short).unwrap();
}

fn producer<'a, 'ring: 'a>(
    producer: nonblocking::spsc::Producer<'ring, Forever>,
) -> nonblocking::spsc::Producer<'a, &'a String> {
    producer
}

fn percpu_stack<'a>(stack: &percpu::Stack<Forever>, short: &'a String) {
    let same: &percpu::Stack<&'a String> = stack;
    same.push(short).unwrap();
}

fn percpu_queue<'a>(queue: &percpu::Queue<Forever>, short: &'a String) {
    let same: &percpu::Queue<&'a String> = queue;
    same.push(short).unwrap();
}

fn percpu_ring<'a>(ring: &percpu::Ring<Forever>, short: &'a String) {
    let same: &percpu::Ring<&'a String> = ring;
    same.push(short).unwrap();
}

#[repr(C)]
struct Named<'a> {
    link: Link,
    name: &'a String,
}

// SAFETY: the offset of the link.
unsafe impl Node for Named<'_> {
    const LINK: usize = std::mem::offset_of!(Named<'_>, link);
}

fn percpu_list<'a>(list: &percpu::List<Box<Named<'static>>>, name: &'a String) {
    let same: &percpu::List<Box<Named<'a>>> = list;
    let link = Link::new();
    same.push(Box::new(Named { link, name }));
}

struct Nothing;

impl<'a> Source<&'a String> for Nothing {
    fn refill(&self, _: &mut Batch<&'a String>) {}
    fn spill(&self, _: &mut Batch<&'a String>) {}
}

fn percpu_pool<'a>(pool: &percpu::Pool<Forever, Nothing>, short: &'a String) {
    let same: &percpu::Pool<&'a String, Nothing> = pool;
    same.put(short);
}

fn local_stack<'a>(stack: &local::Stack<Forever, 4>, short: &'a String) {
    let same: &local::Stack<&'a String, 4> = stack;
    same.push(short).unwrap();
}

fn local_queue<'a>(queue: &local::Queue<Forever, 4>, short: &'a String) {
    let same: &local::Queue<&'a String, 4> = queue;
    same.push(short).unwrap();
}

fn local_ring<'a>(ring: &local::Ring<Forever, 4>, short: &'a String) {
    let same: &local::Ring<&'a String, 4> = ring;
    same.push(short).unwrap();
}

fn local_map_keys<'a>(map: &local::Map<Forever, u32, 4>, short: &'a String) {
    let same: &local::Map<&'a String, u32, 4> = map;
    same.insert(short, 1).unwrap();
}

fn local_map_values<'a>(map: &local::Map<u32, Forever, 4>, short: &'a String) {
    let same: &local::Map<u32, &'a String, 4> = map;
    same.insert(1, short).unwrap();
}

local::per_thread! {
    static HITS: AtomicUsize = AtomicUsize::new(0);
}

fn kept_from_with() {
    let kept: &'static AtomicUsize = HITS.with(|hits| hits);
    std::thread::spawn(move || kept);
}

fn main() {}
