//! Lowers expressions: words, the calls that have a value, addresses.

use proc_macro2::{Span, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{BinOp, Error, Expr, ExprBinary, ExprCall, ExprLit, ExprUnary, Ident, Lit, Result, UnOp};

use super::Lowering;
use crate::ir::*;
use crate::message;
use crate::parse::is_constant_name;

impl Lowering {
    /// Lowers an expression to a word.
    pub(super) fn word(&mut self, expression: &Expr) -> Result<Operand> {
        match strip(expression) {
            Expr::Lit(ExprLit {
                lit: Lit::Int(literal),
                ..
            }) => {
                if !matches!(literal.suffix(), "" | "usize") {
                    return Err(Error::new(
                        literal.span(),
                        "a literal is a word: remove its suffix",
                    ));
                }
                let value = literal.base10_parse::<u64>()?;
                if u32::try_from(value).is_err() {
                    let at = generated(literal.span());
                    self.assertions.push(Assertion {
                        holds: quote::quote_spanned!(at=> ::atomseq::generated::check::fits(#value)),
                        message: message::FITS,
                        span: literal.span(),
                    });
                }
                Ok(Operand::Constant(Constant::literal(value, literal.span())))
            }
            Expr::Lit(literal) => Err(Error::new(
                literal.span(),
                "not a word: literals in a sequence are integers",
            )),
            Expr::Path(path) => {
                let local = path.path.get_ident().filter(|_| path.qself.is_none());
                match local {
                    Some(name) if !is_constant_name(name) => self
                        .names
                        .get(&name.unraw().to_string())
                        .cloned()
                        .ok_or_else(|| {
                            Error::new(
                                name.span(),
                                format!(
                                    "unknown name `{name}`: it is neither a parameter nor a `let` \
                                     above; constants are in capitals"
                                ),
                            )
                        }),
                    _ => Ok(Operand::Constant(
                        self.named(quote::quote!(#path), path.span()),
                    )),
                }
            }
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(ExprUnary {
                op: UnOp::Not(_),
                expr,
                ..
            }) => {
                let span = expression.span();
                let word = self.word(expr)?;
                // As wide as a word: the literal is cut where words have 32 bits.
                let ones = Operand::Constant(Constant::ones(span));
                self.combine(BinaryOperator::Xor, word, ones, span)
            }
            Expr::Call(call) => self.value_call(call),
            other => Err(refuse(other)),
        }
    }

    /// Returns the constant of a path: the same for every path that certainly means the same.
    fn named(&mut self, path: TokenStream, span: Span) -> Constant {
        let key = Constant::key_of(&path, self.constants.len());
        let known = self
            .constants
            .iter()
            .find(|known| known.constant.key() == key);
        if let Some(known) = known {
            let mut constant = known.constant.clone();
            constant.span = span;
            return constant;
        }
        let (mut of, at) = (self.constants_name.clone(), generated(span));
        of.set_span(at);
        let place = format_ident!("CONSTANT_{}", self.constants.len(), span = at);
        let tokens = quote::quote_spanned!(at=> #of::#place);
        let constant = Constant::named(key, &path, tokens, span);
        self.constants.push(Named {
            place,
            path,
            constant: constant.clone(),
        });
        constant
    }

    /// Lowers a computation.
    fn binary(&mut self, binary: &ExprBinary) -> Result<Operand> {
        let operator = match binary.op {
            BinOp::Add(_) => BinaryOperator::Add,
            BinOp::Sub(_) => BinaryOperator::Subtract,
            BinOp::Mul(_) => BinaryOperator::Multiply,
            BinOp::BitAnd(_) => BinaryOperator::And,
            BinOp::BitOr(_) => BinaryOperator::Or,
            BinOp::BitXor(_) => BinaryOperator::Xor,
            BinOp::Shl(_) => BinaryOperator::ShiftLeft,
            BinOp::Shr(_) => BinaryOperator::ShiftRight,
            BinOp::Eq(_)
            | BinOp::Ne(_)
            | BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Gt(_)
            | BinOp::Ge(_) => {
                return Err(Error::new(
                    binary.span(),
                    "a comparison is not a word: use it in an `if`",
                ));
            }
            _ => {
                return Err(Error::new(
                    binary.op.span(),
                    "not in the language: the operators are + - * & | ^ << >> ! and comparisons; \
                     there are `min` and `max` besides",
                ));
            }
        };
        let a = self.word(&binary.left)?;
        let b = self.word(&binary.right)?;
        self.combine(operator, a, b, binary.span())
    }

    /// Returns the word that an operator makes of two: folded, found, or computed by a new step.
    fn combine(
        &mut self,
        operator: BinaryOperator,
        a: Operand,
        b: Operand,
        span: Span,
    ) -> Result<Operand> {
        let (a, b) = match (a, b) {
            (Operand::Constant(a), Operand::Constant(b)) => {
                return Ok(Operand::Constant(Constant::apply(operator, &a, &b, span)));
            }
            (a @ Operand::Constant(_), b) if operator.commutes() => (b, a),
            both => both,
        };
        // A sum with a constant is remembered, so that an address made from it is base and offset.
        let sum = self.sum(operator, &a, &b, span);
        if let Some(Address { base, offset }) = &sum {
            if offset.is_zero() {
                return Ok(Operand::Register(*base));
            }
        }
        let key = match &sum {
            Some(sum) => {
                let (base, offset) = sum.key();
                (BinaryOperator::Add, format!("{base:?}"), offset)
            }
            None => {
                let (mut a, mut b) = (a.key(), b.key());
                if operator.commutes() && b < a {
                    (a, b) = (b, a);
                }
                (operator, a, b)
            }
        };
        if let Some(register) = self.computed.get(&key) {
            return Ok(Operand::Register(*register));
        }
        let to = self.fresh();
        self.computed.insert(key, to);
        if let Some(sum) = sum {
            self.sums.insert(to, sum);
        }
        self.step(StepKind::Binary { to, operator, a, b }, span);
        Ok(Operand::Register(to))
    }

    /// Returns a register plus or minus a constant as an address, over the register that the first
    /// is a sum of itself.
    fn sum(
        &self,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
        span: Span,
    ) -> Option<Address> {
        let (Operand::Register(register), Operand::Constant(constant)) = (a, b) else {
            return None;
        };
        if !matches!(operator, BinaryOperator::Add | BinaryOperator::Subtract) {
            return None;
        }
        let Address { base, offset } = self.address_of(*register, span);
        Some(Address {
            base,
            offset: Constant::apply(operator, &offset, constant, span),
        })
    }

    /// Returns a register as an address.
    fn address_of(&self, register: Register, span: Span) -> Address {
        self.sums.get(&register).cloned().unwrap_or(Address {
            base: register,
            offset: Constant::literal(0, span),
        })
    }

    /// Lowers a call that has a value.
    fn value_call(&mut self, call: &ExprCall) -> Result<Operand> {
        let name = call_name(call)?;
        let span = call.span();
        if self.returning_early && name == "cas" {
            return Err(Error::new(
                span,
                "a `cas` in an early `return` would happen whether or not the branch is taken: name \
                 its result by `let` before the `if`",
            ));
        }
        if self.returning_early && name.to_string().starts_with("load") {
            return Err(Error::new(
                span,
                "a load in an early `return` would happen whether or not the branch is taken: invert \
                 the condition, and load after the `if`",
            ));
        }
        let (width, acquire) = match name.to_string().as_str() {
            "load" => (Width::Word, false),
            "load32" => (Width::Half, false),
            "load_acquire" => (Width::Word, true),
            "cpu" => {
                let [] = arguments(call)?;
                let to = self.fresh();
                self.step(StepKind::Cpu { to }, span);
                return Ok(Operand::Register(to));
            }
            "cas" => {
                let [at, expected, new] = arguments(call)?;
                let at = self.address(at)?;
                let (expected, new) = (self.word(expected)?, self.word(new)?);
                let to = self.fresh();
                self.step(
                    StepKind::CompareExchange {
                        to,
                        at,
                        expected,
                        new,
                    },
                    span,
                );
                return Ok(Operand::Register(to));
            }
            "min" | "max" => {
                let operator = match name == "min" {
                    true => BinaryOperator::Minimum,
                    false => BinaryOperator::Maximum,
                };
                let [a, b] = arguments(call)?;
                let (a, b) = (self.word(a)?, self.word(b)?);
                return self.combine(operator, a, b, span);
            }
            "prepare" | "prepare32" | "prepare_copy" | "commit" | "commit32" | "commit_release"
            | "store" | "store32" => {
                return Err(Error::new(
                    span,
                    format!("`{name}` has no value: write it as a statement of its own"),
                ));
            }
            _ => return Err(unknown_call(&name)),
        };
        let [from] = arguments(call)?;
        let from = self.address(from)?;
        let to = self.fresh();
        self.step(
            StepKind::Load {
                to,
                from,
                width,
                acquire,
            },
            span,
        );
        Ok(Operand::Register(to))
    }

    /// Lowers an address: a base and an offset.
    pub(super) fn address(&mut self, expression: &Expr) -> Result<Address> {
        let register = self.address_word(expression)?;
        Ok(self.address_of(register, expression.span()))
    }

    /// Lowers a word that is an address, which no constant is.
    pub(super) fn address_word(&mut self, expression: &Expr) -> Result<Register> {
        self.word(expression)?.register().ok_or_else(|| {
            Error::new(
                expression.span(),
                "a constant is not an address: start from a parameter or a loaded word",
            )
        })
    }
}

const NO_CALLS: &str = "no calls inside a sequence: its operations are load, load32, load_acquire, \
                        min, max, cpu, cas, prepare, prepare32, prepare_copy, commit, commit32, \
                        commit_release, store and store32";

/// Strips parentheses, and the invisible group around what a variable of a `macro_rules!` brings.
pub fn strip(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => strip(&inner.expr),
        Expr::Group(inner) => strip(&inner.expr),
        other => other,
    }
}

/// Returns the name of the operation that is called.
pub fn call_name(call: &ExprCall) -> Result<Ident> {
    match &*call.func {
        Expr::Path(path) if path.path.get_ident().is_some() => {
            Ok(path.path.segments[0].ident.clone())
        }
        other => Err(Error::new(other.span(), NO_CALLS)),
    }
}

/// Says which operations there are.
pub fn unknown_call(name: &Ident) -> Error {
    Error::new(name.span(), format!("unknown name `{name}`; {NO_CALLS}"))
}

/// Returns the arguments of a call, if it has so many.
pub fn arguments<const N: usize>(call: &ExprCall) -> Result<[&Expr; N]> {
    let arguments: Vec<&Expr> = call.args.iter().collect();
    let count = arguments.len();
    arguments.try_into().map_err(|_| {
        Error::new(
            call.span(),
            format!("wrong number of arguments: this operation takes {N}, not {count}"),
        )
    })
}

/// Says what to write instead of an expression that the language does not have.
pub fn refuse(expression: &Expr) -> Error {
    let why = match expression {
        Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) | Expr::Continue(_) | Expr::Break(_) => {
            "a backward jump: a sequence jumps forward only, so that it always ends; put the loop \
             around the sequence"
        }
        Expr::Assign(_) => "a word is assigned once: write `let` with a new name",
        Expr::MethodCall(_) | Expr::Macro(_) | Expr::Await(_) => NO_CALLS,
        Expr::If(_) | Expr::Match(_) => "the only branch of a sequence is `if … { return … }`",
        Expr::Reference(_) | Expr::Field(_) | Expr::Index(_) => {
            "words only: read memory with `load`, and reach a field by adding its offset"
        }
        Expr::Unary(_) => {
            "not in the language: the only operator of one word is `!`; write `0 - x`"
        }
        Expr::Cast(_) => "everything is a word: remove the cast",
        Expr::Path(_) | Expr::Lit(_) | Expr::Binary(_) => "this has no effect: remove it",
        _ => "not in the language of sequences",
    };
    Error::new(expression.span(), why)
}
