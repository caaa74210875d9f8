//! Every structure by each mechanism.

use super::*;
use crate::dcas::Mechanism;

mod arrays;

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];
