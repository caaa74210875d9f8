//! Whether the sequence compiler does what a sequence says.
//!
//! ```text
//! random ──> a syntax tree ──┬── text ── build.rs ── sequence! ── rustc ──> FORMS ──┐
//!                            └── oracle ──> what must come out ─────────────────────┴─ equal?
//!                                  ^                                                │
//! inputs ──> arguments, memory ────┴────────────────────────────────────────────────┘
//! ```
//!
//! The oracle interprets the tree, in Rust of its own: it shares neither code nor representation
//! with the compiler. `tests/differential.rs` runs the forms on this machine, `tests/emitters`
//! assembles AArch64 code and runs it under an emulator. `tests/legal` is about the language, and
//! so is `tests/ui` of verify-macros.

pub mod dollar_crate;
pub mod inputs;
pub mod oracle;
pub mod random;
pub mod strict;

use atomseq::percpu::{GateGuard, Slots};
use atomseq::sequence::model::{Program, Shape, Value};
use atomseq::sequence::Closed;

include!(concat!(env!("OUT_DIR"), "/seeds.rs"));

/// What `sequence!` made of a random sequence. Its caller provides memory as [`random`] cuts it.
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

/// Results in the representation of the model.
pub trait IntoValue {
    /// Returns the words and what they stand in.
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
