//! Sequences around one copy. What is loaded, prepared and committed lies among the words that the
//! copy reads and prepares, so some of these sequences break a rule, and numbers alone decide
//! which.
//!
//! This is the test of the compiler's `ranges`: the same question, whether two stretches of memory
//! overlap or one covers the other, is answered here over plain numbers of words, and there over
//! offsets and lengths that are literals, named constants, or bounded by either.

use super::generate::Generator;
use super::Expression::{self, Binary, Constant, Literal, Load, Name};
use super::{Kind, Outcome, Parameter, Program, Returns, Statement};

/// How many words of the slot, or of its bulk memory, everything here lies in.
const WORDS: u64 = 13;

/// A stretch of words of the slot, or of the bulk memory.
#[derive(Clone, Copy)]
struct Words {
    in_slot: bool,
    first: u64,
    /// How many at least: of a copy whose length the sequence bounds, none.
    min: u64,
    /// How many at most.
    max: u64,
}

impl Words {
    /// Whether the two may have a word in common.
    fn meet(&self, other: &Words) -> bool {
        self.in_slot == other.in_slot
            && self.first < other.first + other.max
            && other.first < self.first + self.max
    }

    /// Whether all words of the other are certainly among these.
    fn hold(&self, other: &Words) -> bool {
        self.in_slot == other.in_slot
            && self.first <= other.first
            && other.first + other.max <= self.first + self.min
    }
}

/// What a sequence does with memory, in order.
enum Use {
    Load(Words),
    Prepare(Words),
    /// From the first to the second.
    Copy(Words, Words),
    Commit(Words),
}

impl Use {
    /// Returns what it reads.
    fn reads(&self) -> Option<&Words> {
        match self {
            Use::Load(words) | Use::Copy(words, _) => Some(words),
            _ => None,
        }
    }

    /// Returns what it prepares.
    fn prepares(&self) -> Option<&Words> {
        match self {
            Use::Prepare(words) | Use::Copy(_, words) => Some(words),
            _ => None,
        }
    }
}

/// Whether nothing is read before it is prepared, and the committed word is not prepared. A copy
/// counts among its own later preparations: a restart begins it anew.
fn keep_the_rules(uses: &[Use]) -> bool {
    uses.iter().enumerate().all(|(index, this)| {
        let (before, from_here_on) = uses.split_at(index);
        let mut before = before.iter().filter_map(Use::prepares);
        if let Use::Commit(words) = this {
            return !before.any(|prepared| prepared.meet(words));
        }
        let Some(read) = this.reads() else {
            return true;
        };
        let mut later = from_here_on.iter().filter_map(Use::prepares);
        before.any(|prepared| prepared.hold(read)) || !later.any(|prepared| prepared.meet(read))
    })
}

/// Returns the sequence of a seed that keeps the rules, or one that breaks one: draws until it is
/// so.
pub(super) fn generate(seed: u64, keeps: bool) -> Program {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let (program, uses) = any(seed, random.fork());
        if keep_the_rules(&uses) == keeps {
            return program;
        }
    }
}

/// Draws a sequence, and what it does with memory.
fn any(seed: u64, random: fastrand::Rng) -> (Program, Vec<Use>) {
    let parameters = vec![
        Parameter::Word,
        Parameter::Bulk,
        Parameter::Slot,
        Parameter::Word,
    ];
    let mut generator = Generator::new(Kind::Copying, &parameters, random);
    let (mut statements, mut uses) = (Vec::new(), Vec::new());
    let mut loaded = Vec::new();
    for _ in 0..generator.random.usize(0..3) {
        loaded.push(generator.load_among(&mut statements, &mut uses));
    }
    if generator.one_in(2) {
        let (words, to) = generator.word_among();
        uses.push(Use::Prepare(words));
        let value = Name(generator.recent_number());
        statements.push(Statement::Prepare(to, value, 8));
    }
    generator.copy_among(&mut statements, &mut uses);
    if generator.one_in(2) {
        loaded.push(generator.load_among(&mut statements, &mut uses));
    }
    if generator.one_in(3) {
        let (words, to) = generator.word_among();
        uses.push(Use::Prepare(words));
        let value = Name(generator.recent_number());
        statements.push(Statement::Prepare(to, value, 8));
    }
    // Every word that was loaded goes into what is committed and returned, so a wrong load shows.
    let sum = loaded.into_iter().fold(Name(0), |sum, name| {
        Binary("+", Box::new(sum), Box::new(Name(name)))
    });
    let sum = match sum {
        Binary(..) => Name(generator.bind(&mut statements, sum)),
        sum => sum,
    };
    let (words, to) = generator.word_among();
    uses.push(Use::Commit(words));
    statements.push(Statement::Commit(to, sum.clone(), 8, false));
    let program = Program {
        kind: Kind::Copying,
        name: format!("s{seed}"),
        parameters,
        statements,
        returns: Returns::Words(1),
        end: Outcome::Words(vec![sum]),
        abort: None,
    };
    (program, uses)
}

impl Generator {
    /// Draws a word of either memory, and its address.
    fn word_among(&mut self) -> (Words, Expression) {
        let in_slot = self.one_in(2);
        self.words_among(in_slot, (1, 1), 8)
    }

    /// Draws so many words of a memory, at least and at most, and their address.
    fn words_among(
        &mut self,
        in_slot: bool,
        (min, max): (u64, u64),
        room: u64,
    ) -> (Words, Expression) {
        let first = self.random.u64(0..=WORDS - max);
        let (base, begin) = match in_slot {
            true => (self.slot, 8),
            false => (self.pointers[0], 0),
        };
        let words = Words {
            in_slot,
            first,
            min,
            max,
        };
        (words, self.written(base, begin + 8 * first, room))
    }

    /// Adds a load.
    fn load_among(&mut self, statements: &mut Vec<Statement>, uses: &mut Vec<Use>) -> usize {
        let (words, from) = self.word_among();
        uses.push(Use::Load(words));
        let name = self.bind(statements, Load(Box::new(from), 8, false));
        self.numbers.push(name);
        name
    }

    /// Adds a copy, whose length is a literal or a named constant, or bounded by one.
    fn copy_among(&mut self, statements: &mut Vec<Statement>, uses: &mut Vec<Use>) {
        let (max, bound) = self.bound_of_copy();
        let number = Name(self.recent_number());
        let (min, length) = match self.random.usize(0..5) {
            0 | 1 => (max, bound),
            2 => (0, Binary("min", Box::new(number), Box::new(bound))),
            3 => (0, Binary("&", Box::new(number), Box::new(bound))),
            _ => {
                let bounded = Binary("&", Box::new(number), Box::new(bound));
                let other = Name(self.recent_number());
                (0, Binary("min", Box::new(bounded), Box::new(other)))
            }
        };
        let length = match self.one_in(3) {
            true => Name(self.bind(statements, length)),
            false => length,
        };
        let in_slot = self.one_in(2);
        let (to_words, to) = self.words_among(in_slot, (min, max), 8 * max + 8);
        let in_slot = self.one_in(3) != in_slot;
        let (from_words, from) = self.words_among(in_slot, (min, max), 8 * max + 8);
        uses.push(Use::Copy(from_words, to_words));
        statements.push(Statement::Copy(to, from, length));
    }

    /// Draws a number of words, and a way to write it.
    fn bound_of_copy(&mut self) -> (u64, Expression) {
        let (two, eight) = (|| Box::new(Constant(2)), || Box::new(Constant(3)));
        let words = self.random.u64(1..5);
        let bound = match self.random.usize(0..6) {
            0 | 1 => Literal(words),
            2 => *two(),
            3 => Binary("+", two(), Box::new(Literal(words - 1))),
            4 => Binary(">>", eight(), Box::new(Literal(words - 1))),
            _ => Binary("min", eight(), Box::new(Literal(words))),
        };
        (bound.constant().expect("it is made of constants"), bound)
    }
}
