//! Tests of `PageMap`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::type_stable::Error;

/// A sequence of numbers that are as good as random.
fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) % below
    }
}

type Model = BTreeMap<u64, u64>;

/// A few pages that are close together, and a few that are not.
fn some_page(pages: u64, number: &mut impl FnMut(u64) -> u64) -> u64 {
    let near = number(4) + 62;
    match number(4) {
        0 => near,
        1 => near + 64 * number(3),
        2 => near + 8192 * number(3),
        _ => pages - 1 - number(3) * (pages / 4),
    }
}

/// Performs one operation on a map and on the model, and compares the results.
fn both<const BITS: u32>(
    map: &PageMap<u64, BITS>,
    model: &mut Model,
    number: &mut impl FnMut(u64) -> u64,
) {
    let page = some_page(PageMap::<u64, BITS>::PAGES, number);
    let value = number(1 << 31) << 33 | number(1 << 31);
    let unloaded = |model: &mut Model, size: u64| {
        let first = page & !(size - 1);
        let of_them: Vec<_> = model
            .range(first..first + size)
            .map(|(p, v)| (*p, *v))
            .collect();
        model.retain(|page, _| !(first..first + size).contains(page));
        of_them
    };
    let mut written = Vec::new();
    match number(12) {
        0..4 => assert_eq!(map.insert(page, value), Ok(model.insert(page, value))),
        4 | 5 => assert_eq!(map.remove(page), model.remove(&page)),
        6 | 7 => assert_eq!(map.get(page), model.get(&page).copied()),
        8 => {
            let before = model.get(&page).copied();
            model.entry(page).and_modify(|there| *there ^= value);
            assert_eq!(map.update(page, |there| there ^ value), before);
        }
        9 => {
            let first = page & !63;
            let expected = |index: usize| model.get(&(first + index as u64)).copied();
            assert_eq!(
                map.snapshot(page),
                std::array::from_fn::<_, 64, _>(expected)
            );
        }
        10 => {
            let count = map.unload(page, |page, value| written.push((page, value)));
            assert_eq!(written, unloaded(model, 64));
            assert_eq!(count, written.len());
        }
        _ => {
            let count = map.unload_subtree(page, |page, value| written.push((page, value)));
            assert_eq!(written, unloaded(model, 8192));
            assert_eq!(count, written.len());
        }
    }
}

fn matches_its_model<const BITS: u32>(map: &PageMap<u64, BITS>) {
    let (mut model, mut number) = (Model::new(), numbers(BITS.into()));
    for _ in 0..3_000 * SCALE {
        both(map, &mut model, &mut number);
    }
}

#[test]
fn it_matches_its_model() {
    for mechanism in MECHANISMS {
        matches_its_model(&PageMap::forced(mechanism));
        matches_its_model(&PageMap::wide_forced(mechanism));
    }
}

/// Every operation is interrupted by others right after each read of the version, as by a signal
/// handler or another CPU: leaves are unloaded and used again under it.
#[test]
fn an_interrupted_operation_matches_its_model() {
    for mechanism in MECHANISMS {
        let mut number = numbers(3);
        for round in 0..1_000 * SCALE {
            let (map, mut model) = (PageMap::forced(mechanism), Model::new());
            for _ in 0..number(8) {
                both(&map, &mut model, &mut number);
            }
            let (page, value) = (
                some_page(PageMap::<u64>::PAGES, &mut number),
                number(1 << 30),
            );
            let mut left = 1 + round % 3;
            let gap = |version| {
                if left > 0 {
                    left -= 1;
                    (0..3).for_each(|_| both(&map, &mut model, &mut number));
                }
                version
            };
            match round % 3 {
                0 => {
                    let old = map.insert_between(page, value, gap);
                    assert_eq!(old, Ok(model.insert(page, value)));
                }
                1 => {
                    let old = map.remove_between(page, gap);
                    assert_eq!(old, model.remove(&page));
                }
                _ => {
                    let found = map.get_between(page, gap);
                    assert_eq!(found, model.get(&page).copied());
                }
            }
            for near in 0..600 {
                assert_eq!(map.get(near), model.get(&near).copied());
            }
        }
    }
}

plain! {
    #[derive(Debug, PartialEq)]
    struct Fourteen {
        words: [u16; 7],
    }
}

/// Entries of every size keep all their bytes.
#[test]
fn an_entry_keeps_its_bytes() {
    fn keeps<T: Plain + PartialEq + std::fmt::Debug>(values: &[T]) {
        for mechanism in MECHANISMS {
            let map = PageMap::forced(mechanism);
            for (page, value) in (60..).zip(values) {
                assert_eq!(map.insert(page, *value), Ok(None));
            }
            for (page, value) in (60..).zip(values) {
                assert_eq!(map.get(page), Some(*value));
            }
        }
    }
    keeps(&[(), ()]);
    keeps(&[0_u8, 1, 0xff]);
    keeps(&[0, 1, -1, i32::MIN]);
    keeps(&[[0_u8; 7], [0xff; 7], [1, 2, 3, 4, 5, 6, 7]]);
    keeps(&[[0_u8; 8], [0xff; 8], [1, 2, 3, 4, 5, 6, 7, 8]]);
    keeps(&[0, 1, u64::MAX, 1 << 63, 1 << 56, 0xff << 56]);
    keeps(&[0.0, -0.5, f64::MIN_POSITIVE]);
    let words = [0xffff, 0, 0x8001, 3, 4, 5, 0xfffe];
    keeps(&[Fourteen { words }, Fourteen { words: [0xffff; 7] }]);
}

#[test]
fn there_is_nothing_beyond_the_address_space() {
    let map = PageMap::<u64>::new();
    for page in [PageMap::<u64>::PAGES, 1 << 36, u64::MAX] {
        assert_eq!(map.insert(page, 1), Err(Error::TooLarge));
        assert_eq!((map.get(page), map.remove(page)), (None, None));
        assert_eq!(map.update(page, |_| unreachable!()), None);
        assert_eq!(map.unload(page, |_, _| unreachable!()), 0);
        assert_eq!(map.unload_subtree(page, |_, _| unreachable!()), 0);
        assert_eq!((map.snapshot(page), map.version(page)), ([None; 64], None));
    }
    assert_eq!(map.insert(PageMap::<u64>::PAGES - 1, 1), Ok(None));
    assert_eq!(PageMap::<u64>::PAGES, 1 << 20);
    assert_eq!(PageMap::<u64, 48>::PAGES, 1 << 36);
}

/// Tables come back: with room for two, many are added and unloaded, one after the other, also by
/// unloads that panic.
#[test]
fn unloaded_tables_are_used_again() {
    for mechanism in MECHANISMS {
        let map = PageMap::<u64, 48>::made(mechanism, Some(2)).unwrap();
        for round in 0..500 {
            let first = round * 8192;
            for page in [first, first + 1, first + 64] {
                assert_eq!(map.insert(page, page), Ok(None), "{mechanism:?}, {round}");
            }
            assert_eq!(map.insert(first + 128, 0), Err(Error::LimitReached));
            match round % 4 {
                0 => {
                    assert_eq!(map.unload(first, |_, _| ()), 2);
                    assert_eq!(map.unload_subtree(first, |_, _| ()), 1);
                }
                1 => assert_eq!(map.unload_subtree(first, |_, _| ()), 3),
                2 => {
                    let panics = || map.unload_subtree(first, |_, _| panic!("planned"));
                    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                }
                _ => {
                    let panics = || map.unload(first, |_, _| panic!("planned"));
                    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                    assert_eq!(map.unload_subtree(first, |_, _| ()), 1);
                }
            }
            assert_eq!(map.get(first), None);
        }
    }
}

/// The children of the root stay, with their versions, when all below them is unloaded.
#[test]
fn a_child_of_the_root_is_never_deleted() {
    for mechanism in MECHANISMS {
        let map = PageMap::<u64>::forced(mechanism);
        map.insert(5, 5).unwrap();
        let before = map.version(5).unwrap();
        assert_eq!(map.unload_subtree(5, |_, _| ()), 1);
        let after = map.version(5).unwrap();
        assert!(after > before, "{mechanism:?}");
        map.insert(5, 6).unwrap();
        assert!(map.version(5).unwrap() > after, "{mechanism:?}");
        assert_eq!(map.version(8192).map(Version::number), Some(1));
    }
}

/// Threads insert into, remove from and unload the same leaves, while others look entries up. An
/// entry is twice its page, and a number that each insertion counts: no lookup finds a torn one, or
/// one of another page.
#[test]
fn lookups_go_on_while_subtrees_are_unloaded() {
    const PAGES: u64 = 3 * 8192;
    let entry = |page: u64, round: u64| [page as u32, !page as u32, round as u32];
    for mechanism in MECHANISMS {
        let (map, done) = (
            PageMap::<[u32; 3]>::forced(mechanism),
            AtomicBool::new(false),
        );
        let (map, done) = (&map, &done);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut number = numbers(thread);
                    while !done.load(Ordering::Relaxed) {
                        let page = number(PAGES / 64) * 64 + number(4);
                        if let Some([low, inverse, _]) = map.get(page) {
                            assert_eq!([low, inverse], [page as u32, !page as u32]);
                        }
                        for (found, page) in map.snapshot(page).iter().zip(page & !63..) {
                            let pair = found.map(|[low, inverse, _]| [low, inverse]);
                            assert!(pair.is_none_or(|pair| pair == [page as u32, !page as u32]));
                        }
                    }
                });
            }
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut number = numbers(10 + thread);
                        let (mut inserted, mut taken) = (0, 0);
                        for round in 0..3_000 * SCALE as u64 {
                            let page = number(PAGES / 64) * 64 + number(4);
                            match number(8) {
                                0 => {
                                    taken += map.unload(page, |page, [low, ..]| {
                                        assert_eq!(low, page as u32);
                                    })
                                }
                                1 => {
                                    taken += map.unload_subtree(page, |page, [low, ..]| {
                                        assert_eq!(low, page as u32);
                                    })
                                }
                                2 => taken += usize::from(map.remove(page).is_some()),
                                _ => {
                                    let old = map.insert(page, entry(page, round)).unwrap();
                                    inserted += usize::from(old.is_none());
                                }
                            }
                        }
                        (inserted, taken)
                    })
                })
                .collect();
            let counts = writers.into_iter().map(|writer| writer.join());
            let counts: Vec<_> = counts.collect();
            done.store(true, Ordering::Relaxed);
            let mut left = 0;
            for page in (0..PAGES).step_by(8192) {
                left += map.unload_subtree(page, |_, _| ());
            }
            let counts = counts.into_iter().map(|count| count.unwrap());
            let (inserted, taken) = counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            assert_eq!(inserted, taken + left, "{mechanism:?}");
        });
    }
}
