//! Whether the sequence compiler does what a sequence says.
//!
//! [`random`] makes sequences, `build.rs` has rustc compile them into [`FORMS`], [`oracle`] knows
//! what they must do, and the tests compare. [`inputs`] makes what they are run on.

pub mod dollar_crate;
pub mod inputs;
pub mod oracle;
pub mod random;
pub mod strict;

use atomseq::percpu::{GateGuard, Slots};
use atomseq::sequence::model::{Program, Shape, Value};
use atomseq::sequence::Closed;

include!(concat!(env!("OUT_DIR"), "/sequences.rs"));

/// What `sequence!` made of a random sequence. The caller provides memory as [`random`] cuts it.
#[derive(Debug)]
pub struct Forms {
    /// The steps as data.
    pub model: &'static Program,
    /// The form for this CPU.
    pub on_cpu: Option<OnCpu>,
    /// The form under the gate.
    pub gated: Option<Gated>,
    /// The forms against signal handlers, by name.
    pub signal: &'static [(&'static str, Signal)],
}

/// A form for this CPU.
pub type OnCpu = fn(Slots<'_>, &[usize]) -> Result<Value, Closed>;
/// A form under the gate.
pub type Gated = fn(&GateGuard<'_>, &[usize]) -> Value;
/// A form against signal handlers.
pub type Signal = fn(&[usize]) -> Value;

/// Results as the model gives them.
pub trait IntoValue {
    /// The words and what they stand in.
    fn into_value(self) -> Value;
}

fn value(shape: Shape, words: &[usize]) -> Value {
    Value {
        shape,
        words: words.to_vec(),
    }
}

impl IntoValue for () {
    fn into_value(self) -> Value {
        value(Shape::Plain, &[])
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Value {
        value(if self { Shape::True } else { Shape::False }, &[])
    }
}

impl IntoValue for usize {
    fn into_value(self) -> Value {
        value(Shape::Plain, &[self])
    }
}

impl IntoValue for (usize, usize) {
    fn into_value(self) -> Value {
        value(Shape::Plain, &[self.0, self.1])
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        match self {
            None => value(Shape::None, &[]),
            Some(words) => value(Shape::Some, &words.into_value().words),
        }
    }
}
