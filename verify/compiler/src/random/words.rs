//! The words of a sequence: addresses in memory, numbers, conditions and results.

use super::generate::{Generator, Part};
use super::Expression::{self, Binary, Constant, Cpu, Literal, Load, Name};
use super::{Kind, Outcome, Returns, Statement, BACK};

impl Generator {
    pub(super) fn any_part(&mut self) -> Part {
        *self.pick(&[Part::Read, Part::Prepared, Part::Committed])
    }

    pub(super) fn width(&mut self) -> u64 {
        if self.one_in(3) {
            4
        } else {
            8
        }
    }

    /// An address in a part of memory, with room for so many bytes after it.
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
        if !in_slot && !self.far.is_empty() && self.random.bool() {
            let (base, bytes) = *self.pick(&self.far.clone());
            let offset = offset as i64 - bytes;
            return match room == 8 && self.random.bool() {
                true => Self::back(Self::offset(Name(base), offset + 8)),
                false => Self::offset(Name(base), offset),
            };
        }
        // An index only the run knows.
        if words >= 4 && !self.plain && self.one_in(3) {
            let start = from + if width == 4 { offset % 8 } else { 0 };
            let mask = Literal(if words >= 8 { 7 } else { 3 });
            // Loads in addresses show in which order arguments are evaluated. What a `cas` claims
            // is given back by a commit that loads nothing.
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

    /// The address so many bytes after a name's, in one of the ways in which one writes it.
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
            // A copy's addresses are words, which no negative name may be in.
            3 if room == 8 => Self::back(Self::plus(Name(base), offset + 8)),
            _ => Self::plus(Name(base), offset),
        }
    }

    /// Eight bytes before, by the constant's name.
    fn back(address: Expression) -> Expression {
        Binary("+", Box::new(address), Box::new(Constant(BACK)))
    }

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

    /// A named constant, or an expression that rustc evaluates to a value that is as small.
    fn constant(&mut self) -> Expression {
        let (a, b) = (self.random.usize(0..BACK), self.random.usize(0..BACK));
        if self.one_in(2) {
            return Constant(a);
        }
        let other = match self.random.bool() {
            true => Constant(b),
            false => Literal(self.random.u64(0..64)),
        };
        let operator = *self.pick(&["+", "-", "*", "&", "|", "^", "<<", ">>", "min"]);
        let both = Binary(operator, Box::new(Constant(a)), Box::new(other));
        match both.constant() {
            Some(value) if value <= 65_535 => both,
            _ => Constant(a),
        }
    }

    /// A word without a load, never a constant alone where one would be folded.
    pub(super) fn leaf(&mut self) -> Expression {
        match self.random.usize(0..6) {
            0 => self.literal(),
            1 => self.constant(),
            2 if self.one_in(4) => Name(*self.pick(&self.pointers.clone())),
            _ => Name(self.recent_number()),
        }
    }

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
            _ => {
                let operator = self.operator();
                let (a, b) = (self.number(depth - 1), self.number(depth - 1));
                self.operation(operator, a, b)
            }
        }
    }

    fn operator(&mut self) -> &'static str {
        self.pick::<&'static str>(&["+", "+", "-", "-", "*", "&", "|", "^", "<<", ">>", "min"])
    }

    /// Constants are kept apart from each other, for together they may leave their range.
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

    pub(super) fn condition(&mut self) -> (Expression, Expression) {
        let name = Name(self.recent_number());
        let kinds = if self.plain { 1..3 } else { 0..4 };
        let (a, b) = match self.random.usize(kinds) {
            // Taken now and then.
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

    /// A result: no load, for an early one would be made whether it is taken or not.
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

    /// The same result, its computations bound to names before the commit.
    pub(super) fn bound(&mut self, outcome: Outcome, statements: &mut Vec<Statement>) -> Outcome {
        let mut bind = |words: Vec<Expression>| {
            words
                .into_iter()
                .map(|word| match word {
                    Binary(..) => Name(self.bind(statements, word)),
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
