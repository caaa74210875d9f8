//! The structures of `atomseq::local`.

mod containers;
mod counter;
mod map;
mod ring;

use crate::scenario::Check;

pub fn check(checker: &mut impl Check) {
    counter::check(checker);
    containers::check(checker);
    ring::check(checker);
    map::check(checker);
}
