//! The models: how both ends are used, and what has to come out.

use std::mem::ManuallyDrop;

use loom::thread;

use crate::Library;

/// How elements go in or come out.
#[derive(Clone, Copy)]
enum Way {
    /// One by one.
    One,
    /// So many from a slice, or into one.
    Batch(usize),
    /// So many from a vector, or into one that holds something.
    Vector(usize),
    /// So many out of an iterator that is dropped then.
    Drain(usize),
}

use Way::{Batch, Drain, One, Vector};

/// A ring with so much room, through which so many elements have gone, and how often what is done
/// at each end.
struct Model {
    room: usize,
    gone: u64,
    put: (usize, Way),
    take: (usize, Way),
}

/// All of them by name, the largest last. Room for three is in four places.
pub fn all<L: Library>() -> [(&'static str, fn()); 8] {
    [
        ("two of each, room for one", || {
            pass::<L>(&Model {
                room: 1,
                gone: 0,
                put: (2, One),
                take: (2, One),
            });
        }),
        ("batches around the end", || {
            pass::<L>(&Model {
                room: 2,
                gone: 1,
                put: (2, Batch(2)),
                take: (2, Batch(2)),
            });
        }),
        ("a vector that is larger than the room", || {
            pass::<L>(&Model {
                room: 3,
                gone: 3,
                put: (2, Vector(4)),
                take: (3, One),
            });
        }),
        ("one by one into vectors", || {
            pass::<L>(&Model {
                room: 3,
                gone: 3,
                put: (3, One),
                take: (2, Vector(2)),
            });
        }),
        ("iterators that are dropped", || {
            pass::<L>(&Model {
                room: 3,
                gone: 2,
                put: (2, Batch(3)),
                take: (2, Drain(2)),
            });
        }),
        ("a batch that leaves some behind", || {
            pass::<L>(&Model {
                room: 3,
                gone: 0,
                put: (2, Batch(3)),
                take: (1, Batch(2)),
            });
        }),
        ("three of each, room for one", || {
            pass::<L>(&Model {
                room: 1,
                gone: 0,
                put: (3, One),
                take: (3, One),
            });
        }),
        ("three of each, room for two", || {
            pass::<L>(&Model {
                room: 2,
                gone: 0,
                put: (3, One),
                take: (3, One),
            });
        }),
    ]
}

impl Way {
    fn most(self) -> usize {
        match self {
            One => 1,
            Batch(most) | Vector(most) | Drain(most) => most,
        }
    }

    /// Puts elements in, numbered from `next` on; returns how many.
    fn put<L: Library>(self, producer: &mut L::Producer, next: u64) -> usize {
        let mut elements: Vec<u64> = (next..next + self.most() as u64).collect();
        match self {
            Vector(_) => {
                let put = L::append(producer, &mut elements);
                let rest = next + put as u64..next + self.most() as u64;
                assert!(elements.iter().copied().eq(rest), "{elements:?} are left");
                put
            }
            Batch(_) => L::push_batch(producer, &elements),
            One => usize::from(L::push(producer, next)),
            Drain(_) => unreachable!("nothing goes in that way"),
        }
    }

    fn take<L: Library>(self, consumer: &mut L::Consumer) -> Vec<u64> {
        match self {
            One => {
                let seen = L::peek(consumer);
                let element = L::pop(consumer);
                assert!(seen.is_none() || seen == element);
                Vec::from_iter(element)
            }
            Batch(most) => {
                let mut elements = vec![0; most];
                let taken = L::pop_batch(consumer, &mut elements);
                elements.truncate(taken);
                elements
            }
            Vector(most) => {
                let mut elements = Vec::with_capacity(1 + most);
                elements.push(99);
                let taken = L::pop_into(consumer, &mut elements);
                assert_eq!((elements.len(), elements[0]), (1 + taken, 99));
                elements.split_off(1)
            }
            Drain(most) => L::drain(consumer, most),
        }
    }
}

/// Nothing is lost, doubled or out of order.
fn pass<L: Library>(model: &Model) {
    let &Model {
        room,
        gone,
        put: (puts, put),
        take: (takes, take),
    } = model;
    let (mut producer, mut consumer) = L::ends(room);
    for number in 1..=gone {
        assert!(L::push(&mut producer, number));
        assert_eq!(L::pop(&mut consumer), Some(number));
    }
    // If the model fails before this thread begins, loom drops what the thread was given outside
    // the model, where it cannot be dropped.
    let mut producer = ManuallyDrop::new(producer);
    let putting = thread::spawn(move || {
        let mut all = 0;
        for number in 0..puts {
            let more = put.put::<L>(&mut producer, gone + 1 + all as u64);
            // The ring is empty at first.
            assert!(number > 0 || more == put.most().min(room), "only {more}");
            all += more;
        }
        drop(ManuallyDrop::into_inner(producer));
        all
    });
    let mut taken = 0;
    let mut check = |elements: Vec<u64>| {
        for element in elements {
            taken += 1;
            assert_eq!(
                element,
                gone + taken as u64,
                "lost, doubled or out of order"
            );
        }
        taken
    };
    let mut there = 0;
    for _ in 0..takes {
        there = check(take.take::<L>(&mut consumer));
    }
    let all = putting.join().unwrap();
    // Nobody puts anything in now.
    while there < all {
        let right = all.min(there + take.most());
        there = check(take.take::<L>(&mut consumer));
        assert_eq!(there, right, "not as many as there are");
    }
    assert_eq!(L::pop(&mut consumer), None, "doubled");
}
