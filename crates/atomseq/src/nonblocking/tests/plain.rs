//! Tests of `Plain`, values that may be copied while they are overwritten.

use super::*;
use crate::nonblocking::plain::Words;

fn words<T>() -> Words<T> {
    // SAFETY: all zeros is a valid `Words`.
    unsafe { std::mem::zeroed() }
}

fn survives<T: Plain + PartialEq + std::fmt::Debug>(value: T, count: usize) {
    let words = words::<T>();
    assert_eq!(Words::<T>::COUNT, count);
    words.store(value);
    assert_eq!(words.load(), value);
}

#[test]
fn values_of_all_sizes_survive() {
    survives((), 0);
    survives(0xabu8, 1);
    survives([1u8, 2, 3, 4, 5], 1);
    survives([0x0123_4567u32; 3], 2);
    survives(u128::MAX - 5, 2);
    survives(-1.5f64, 1);
    survives(std::cmp::Reverse([7u16; 9]), 3);
    survives([[1u64; 3]; 5], 15);
}

plain! {
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Mixed {
        large: u64,
        middle: [u16; 2],
        small: [u8; 4],
    }
}

#[test]
fn declared_structs_survive() {
    survives(
        Mixed {
            large: u64::MAX,
            middle: [1, 2],
            small: *b"abcd",
        },
        2,
    );
}

/// The padding behind a value of five bytes is written too; it belongs to the words.
#[test]
fn no_byte_beside_the_words_changes() {
    let all: [Words<[u8; 5]>; 3] = std::array::from_fn(|_| words());
    all[0].store([1; 5]);
    all[2].store([3; 5]);
    all[1].store([2; 5]);
    assert_eq!(all.each_ref().map(Words::load), [[1; 5], [2; 5], [3; 5]]);
}

/// A shared reference may write only what lies in a cell. Miri finds a word that does not.
#[test]
fn all_bytes_of_the_words_lie_in_the_cell() {
    fn check<T: Plain>() {
        let words = words::<T>();
        assert_eq!(size_of_val(&words.0), size_of_val(&words));
    }
    check::<()>();
    check::<u8>();
    check::<[u8; 33]>();
    check::<u64>();
    check::<u128>();
}
