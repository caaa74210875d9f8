//! Draws the words of a sequence: addresses in memory, numbers, conditions and results.

use super::generate::{Generator, Part};
use super::Expression::{self, Binary, Constant, Cpu, Literal, Load, Name, Not};
use super::{Kind, Outcome, Returns, Statement, BACK, CONSTANTS};

impl Generator {
    /// Draws a part of memory.
    pub(super) fn any_part(&mut self) -> Part {
        *self.pick(&[Part::Read, Part::Prepared, Part::Committed])
    }

    /// Draws the bytes of an access.
    pub(super) fn width(&mut self) -> u64 {
        if self.one_in(3) {
            4
        } else {
            8
        }
    }

    /// Draws an address in a part of memory, with room for so many bytes behind it.
    pub(super) fn address(&mut self, part: Part, width: u64, room: u64) -> Expression {
        let in_slot = self.one_in(2);
        let (from, to) = match (in_slot, part) {
            (true, Part::Read) => (8, 48),
            (true, Part::Prepared) => (48, 88),
            (true, Part::Committed) => (88, 112),
            (false, Part::Read) => (0, 192),
            (false, Part::Prepared) => (192, 384),
            (false, Part::Committed) => (384, 448),
        };
        let base = if in_slot {
            self.slot
        } else {
            *self.pick(&self.pointers.clone())
        };
        let words = (to - from - room) / 8 + 1;
        let mut offset = from + 8 * self.random.u64(0..words);
        if width == 4 && self.random.bool() {
            offset += 4;
        }
        // By a pointer that was moved out of the compiler's sight: the offset compensates.
        if !in_slot && !self.far.is_empty() && self.random.bool() {
            let (base, bytes) = *self.pick(&self.far.clone());
            let offset = offset as i64 - bytes;
            return match room == 8 && self.random.bool() {
                true => Self::back(Self::offset(Name(base), offset + 8)),
                false => Self::offset(Name(base), offset),
            };
        }
        // With an index that only the run knows: a sum of two registers.
        if words >= 4 && !self.plain && self.one_in(3) {
            let start = from + if width == 4 { offset % 8 } else { 0 };
            let mask = Literal(if words >= 8 { 7 } else { 3 });
            // Loads in addresses show in which order arguments are evaluated. Not where every way
            // out repeats the commit, which must load nothing.
            let number = match self.kind != Kind::Claiming && self.one_in(3) {
                true => {
                    let word = Self::plus(Name(self.slot), 8 + 8 * self.random.u64(0..5));
                    Load(Box::new(word), 8, self.one_in(3))
                }
                false => Name(*self.pick(&self.numbers.clone())),
            };
            let index = Binary("&", Box::new(number), Box::new(mask));
            let index = match self.random.bool() {
                true => Binary("<<", Box::new(index), Box::new(Literal(3))),
                false => Binary("*", Box::new(index), Box::new(Constant(3))),
            };
            let (base, start) = (Name(base), Literal(start));
            let indexed = match self.random.usize(0..3) {
                0 => Binary("+", Box::new(base), Box::new(index)),
                1 => Binary("+", Box::new(index), Box::new(base)),
                _ => {
                    let back = Binary("-", Box::new(Literal(0)), Box::new(index));
                    Binary("-", Box::new(base), Box::new(back))
                }
            };
            return match self.random.bool() {
                true => Binary("+", Box::new(indexed), Box::new(start)),
                false => Binary("+", Box::new(start), Box::new(indexed)),
            };
        }
        self.written(base, offset, room)
    }

    /// Returns the address so many bytes behind a name's, written in one of several ways that mean
    /// the same: `n + 48`, `(n + FORTY) + 8`, `n + (EIGHT + 40)`, `(n + 56) - EIGHT`,
    /// `(n + 56) + BACK`.
    pub(super) fn written(&mut self, base: usize, offset: u64, room: u64) -> Expression {
        match self.random.usize(0..5) {
            0 if offset >= 40 => {
                let named = Binary("+", Box::new(Name(base)), Box::new(Constant(4)));
                Self::plus(named, offset - 40)
            }
            1 if offset >= 8 => {
                let rest = Binary("+", Box::new(Constant(3)), Box::new(Literal(offset - 8)));
                Binary("+", Box::new(Name(base)), Box::new(rest))
            }
            2 => {
                let further = Self::plus(Name(base), offset + 8);
                Binary("-", Box::new(further), Box::new(Constant(3)))
            }
            // Not for a copy: its addresses are words, and a negative name is none.
            3 if room == 8 => Self::back(Self::plus(Name(base), offset + 8)),
            _ => Self::plus(Name(base), offset),
        }
    }

    /// Returns the address eight bytes before, by the negative constant.
    fn back(address: Expression) -> Expression {
        Binary("+", Box::new(address), Box::new(Constant(BACK)))
    }

    /// Draws a literal, often at a limit of some instruction's immediate.
    pub(super) fn literal(&mut self) -> Expression {
        let any = self.random.u64(..);
        Literal(*self.pick(&[
            0,
            1,
            7,
            63,
            64,
            4095,
            4096,
            65_536,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            1 << 63,
            (1 << 63) - 1,
            u64::MAX,
            u64::MAX - 1,
            0xffff_ffff_8000_0000,
            0xffff_ffff_7fff_ffff,
            0xffff_0000_1234_ffff,
            any,
            any & 0xff,
        ]))
    }

    /// Draws a named constant, or an expression over one. If no large one is part of it, its value
    /// is at most 65,535 too.
    fn constant(&mut self) -> Expression {
        if self.one_in(3) {
            // The last one, the widest, half of the time.
            let index = self.random.usize(BACK..CONSTANTS.len() + 2);
            let large = Constant(index.min(CONSTANTS.len() - 1));
            return match self.random.usize(0..6) {
                0 | 1 => Not(Box::new(large)),
                2 => {
                    let operator = *self.pick(&["+", "-", "*", "&", "|", "^", "min", "max"]);
                    Binary(operator, Box::new(large), Box::new(self.literal()))
                }
                _ => large,
            };
        }
        let (a, b) = (self.random.usize(0..BACK), self.random.usize(0..BACK));
        if self.one_in(2) {
            return Constant(a);
        }
        let other = match self.random.bool() {
            true => Constant(b),
            false => Literal(self.random.u64(0..64)),
        };
        let operator = *self.pick(&["+", "-", "*", "&", "|", "^", "<<", ">>", "min", "max"]);
        let both = Binary(operator, Box::new(Constant(a)), Box::new(other));
        match both.constant() {
            Some(value) if value <= 65_535 => both,
            _ => Constant(a),
        }
    }

    /// Draws a word without a load.
    pub(super) fn leaf(&mut self) -> Expression {
        match self.random.usize(0..6) {
            0 => self.literal(),
            1 => self.constant(),
            2 if self.one_in(4) => Name(*self.pick(&self.pointers.clone())),
            3 if self.one_in(3) => Not(Box::new(Name(self.recent_number()))),
            _ => Name(self.recent_number()),
        }
    }

    /// Draws a load: of a word that was prepared before, or of a part that the rules permit.
    pub(super) fn load(&mut self) -> Expression {
        if !self.prepared.is_empty() && self.one_in(3) {
            let (address, width) = self.pick(&self.prepared.clone()).clone();
            return Load(Box::new(address), width, width == 8 && self.one_in(6));
        }
        let width = self.width();
        let part = if matches!(self.kind, Kind::Storing | Kind::Claiming | Kind::Reading) {
            self.any_part()
        } else if self.one_in(4) {
            Part::Committed
        } else {
            Part::Read
        };
        let acquire = width == 8 && self.one_in(6);
        Load(Box::new(self.address(part, width, 8)), width, acquire)
    }

    /// Draws an expression of at most this depth.
    pub(super) fn number(&mut self, depth: usize) -> Expression {
        match self.random.usize(0..8) {
            0 => self.leaf(),
            1 if self.one_in(3) && matches!(self.kind, Kind::OnCpu | Kind::Claiming) => Cpu,
            2 | 3 => self.load(),
            _ if depth == 0 => self.leaf(),
            4 if self.one_in(3) => {
                let (operator, name) = (self.operator(), self.recent_number());
                Binary(operator, Box::new(Name(name)), Box::new(Name(name)))
            }
            5 => {
                let word = match self.random.usize(0..4) {
                    0 => self.load(),
                    1 => {
                        let (operator, a, b) = (self.operator(), self.leaf(), self.leaf());
                        self.operation(operator, a, b)
                    }
                    _ => self.number(depth - 1),
                };
                match word.is_constant() {
                    true => Not(Box::new(Name(self.recent_number()))),
                    false => Not(Box::new(word)),
                }
            }
            _ => {
                let operator = self.operator();
                let (a, b) = (self.number(depth - 1), self.number(depth - 1));
                self.operation(operator, a, b)
            }
        }
    }

    /// Draws an operator.
    fn operator(&mut self) -> &'static str {
        self.pick::<&'static str>(&[
            "+", "+", "-", "-", "*", "&", "|", "^", "<<", ">>", "min", "max",
        ])
    }

    /// Returns an operation. Two constants are kept apart: folded, they might leave their range.
    pub(super) fn operation(
        &mut self,
        operator: &'static str,
        a: Expression,
        b: Expression,
    ) -> Expression {
        let a = if a.is_constant() && b.is_constant() {
            Name(self.recent_number())
        } else {
            a
        };
        Binary(operator, Box::new(a), Box::new(b))
    }

    /// Draws the sides of a comparison.
    pub(super) fn condition(&mut self) -> (Expression, Expression) {
        let name = Name(self.recent_number());
        let kinds = if self.plain { 1..3 } else { 0..4 };
        let (a, b) = match self.random.usize(kinds) {
            // True one time in four or so: both ways run.
            0 => {
                let low = Binary("&", Box::new(name), Box::new(Literal(3)));
                (low, Literal(self.random.u64(0..4)))
            }
            1 if self.plain => (self.load(), self.leaf()),
            1 => (self.load(), self.load()),
            2 if self.one_in(6) => (name.clone(), name),
            2 => (name, self.number(1)),
            _ => (self.load(), self.leaf()),
        };
        if self.one_in(4) {
            (b, a)
        } else {
            (a, b)
        }
    }

    /// Draws a result. It contains no load, which in an early return would be refused.
    pub(super) fn outcome(&mut self, returns: Returns) -> Outcome {
        let words = |generator: &mut Self, count| {
            (0..count)
                .map(|_| {
                    let leaf = generator.leaf();
                    match generator.one_in(3) {
                        true => {
                            let other = Name(generator.recent_number());
                            generator.operation("+", other, leaf)
                        }
                        false => leaf,
                    }
                })
                .collect()
        };
        match returns {
            Returns::Nothing => Outcome::Words(vec![]),
            Returns::Bool => Outcome::Flag(self.random.bool()),
            Returns::Words(count) => Outcome::Words(words(self, count)),
            Returns::OptionWords(_) if self.one_in(3) => Outcome::None,
            Returns::OptionWords(count) => Outcome::Some(words(self, count)),
        }
    }

    /// Returns the same result with its computations bound to names, before the commit.
    pub(super) fn bound(&mut self, outcome: Outcome, statements: &mut Vec<Statement>) -> Outcome {
        let mut bind = |words: Vec<Expression>| {
            words
                .into_iter()
                .map(|word| match word {
                    Binary(..) | Not(_) => Name(self.bind(statements, word)),
                    word => word,
                })
                .collect()
        };
        match outcome {
            Outcome::Words(words) => Outcome::Words(bind(words)),
            Outcome::Some(words) => Outcome::Some(bind(words)),
            other => other,
        }
    }
}
