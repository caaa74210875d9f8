//! Every structure by each mechanism.

use super::*;
use crate::dcas::Mechanism;

mod arrays;
mod linked;
mod list;
mod one_visitor;
mod plain;
mod ref_list;

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// Without optimization, and under k-CAS, the portable build's only mechanism, everything takes longer.
const SCALE: usize = if cfg!(any(not(atomseq_sections), debug_assertions)) {
    1
} else {
    8
};
