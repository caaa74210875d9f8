//! Lowers the syntax to the intermediate representation, refusing at its own line whatever the
//! language does not have. Rules about the order of steps are in `rules`.

use std::collections::{HashMap, HashSet};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{
    BinOp, Error, Expr, ExprBinary, ExprCall, ExprIf, ExprLit, Ident, Lit, Local, Pat, Result, Stmt,
};

use super::ir::*;
use super::parse::{Item, named};

/// Lowers one function.
pub fn lower(item: Item) -> Result<Sequence> {
    let mut lowering = Lowering::new(&item);
    lowering.body(&item.body.stmts)?;
    lowering.drop_unused();
    let Lowering {
        steps,
        exits,
        result,
        shape,
        registers,
        ..
    } = lowering;
    Ok(Sequence {
        attributes: item.attributes,
        visibility: item.visibility,
        name: item.name,
        parameters: item.parameters,
        returns: item.returns,
        steps,
        exits,
        result,
        shape,
        registers,
    })
}

struct Lowering {
    names: HashMap<String, Operand>,
    /// Registers known to be another register plus a constant, so that addresses fold.
    sums: HashMap<Register, (Register, Constant)>,
    returns: Returns,
    sequence_name: Ident,
    steps: Vec<Step>,
    exits: Vec<Exit>,
    result: Vec<Operand>,
    shape: Shape,
    registers: usize,
}

impl Lowering {
    fn new(item: &Item) -> Lowering {
        let names = item
            .parameters
            .iter()
            .enumerate()
            .map(|(index, parameter)| {
                (
                    parameter.name.to_string(),
                    Operand::Register(Register(index)),
                )
            })
            .collect();
        Lowering {
            names,
            sums: HashMap::new(),
            returns: item.returns,
            sequence_name: item.name.clone(),
            steps: Vec::new(),
            exits: Vec::new(),
            result: Vec::new(),
            shape: Shape::Plain,
            registers: item.parameters.len(),
        }
    }

    fn body(&mut self, statements: &[Stmt]) -> Result<()> {
        let (last, before) = match statements.split_last() {
            Some((Stmt::Expr(last, None), before)) if !is_statement(last) => (Some(last), before),
            _ => (None, statements),
        };
        for statement in before {
            self.statement(statement)?;
        }
        let span = last.map_or(self.sequence_name.span(), Spanned::span);
        let Exit { result, shape } = self.returned(last, span)?;
        (self.result, self.shape) = (result, shape);
        Ok(())
    }

    fn statement(&mut self, statement: &Stmt) -> Result<()> {
        match statement {
            Stmt::Local(local) => self.binding(local),
            Stmt::Expr(Expr::If(branch), _) => self.early_return(branch),
            Stmt::Expr(Expr::Call(call), _) => self.effect(call),
            Stmt::Expr(Expr::Return(early), _) => Err(Error::new(
                early.span(),
                "`return` stands in an `if`; the result after the commit is the last expression",
            )),
            Stmt::Expr(other, _) => Err(refuse(other)),
            Stmt::Item(item) => Err(Error::new(item.span(), "no items inside a sequence")),
            Stmt::Macro(call) => Err(Error::new(call.span(), "no macros inside a sequence")),
        }
    }

    fn binding(&mut self, local: &Local) -> Result<()> {
        let pattern = match &local.pat {
            Pat::Type(typed) if named(&typed.ty).as_deref() == Some("Word") => &*typed.pat,
            pattern => pattern,
        };
        let Pat::Ident(name) = pattern else {
            return Err(Error::new(pattern.span(), "`let` binds one plain name"));
        };
        if name.mutability.is_some() || name.by_ref.is_some() || name.subpat.is_some() {
            return Err(Error::new(
                name.span(),
                "words are assigned once: no `mut`, no `ref`",
            ));
        }
        let Some(initial) = &local.init else {
            return Err(Error::new(local.span(), "`let` needs a value"));
        };
        if let Some((_, diverge)) = &initial.diverge {
            return Err(Error::new(
                diverge.span(),
                "no `let … else` inside a sequence",
            ));
        }
        let value = self.word(&initial.expr)?;
        self.names.insert(name.ident.to_string(), value);
        Ok(())
    }

    fn early_return(&mut self, branch: &ExprIf) -> Result<()> {
        const SHAPE: &str = "an `if` in a sequence holds one `return` and has no `else`";
        if let Some((_, other)) = &branch.else_branch {
            return Err(Error::new(other.span(), SHAPE));
        }
        let returned = match branch.then_branch.stmts.as_slice() {
            [Stmt::Expr(Expr::Return(returned), _)] => returned,
            [other, ..] => return Err(Error::new(other.span(), SHAPE)),
            [] => return Err(Error::new(branch.then_branch.span(), SHAPE)),
        };
        let (comparison, a, b) = self.condition(&branch.cond)?;
        let exit = self.returned(returned.expr.as_deref(), returned.span())?;
        self.exits.push(exit);
        let exit = self.exits.len() - 1;
        self.step(
            StepKind::Exit {
                comparison,
                a,
                b,
                exit,
            },
            branch.cond.span(),
        );
        Ok(())
    }

    fn condition(&mut self, condition: &Expr) -> Result<(Comparison, Operand, Operand)> {
        const EXPECTED: &str = "a condition is one comparison of two words";
        let Expr::Binary(binary) = strip(condition) else {
            return Err(Error::new(condition.span(), EXPECTED));
        };
        let comparison = match binary.op {
            BinOp::Eq(_) => Comparison::Equal,
            BinOp::Ne(_) => Comparison::NotEqual,
            BinOp::Lt(_) => Comparison::Less,
            BinOp::Le(_) => Comparison::LessOrEqual,
            BinOp::Gt(_) => Comparison::Greater,
            BinOp::Ge(_) => Comparison::GreaterOrEqual,
            _ => return Err(Error::new(condition.span(), EXPECTED)),
        };
        let a = self.word(&binary.left)?;
        let b = self.word(&binary.right)?;
        match (&a, &b) {
            (Operand::Constant(_), Operand::Constant(_)) => {
                Err(Error::new(condition.span(), "this condition never changes"))
            }
            // A constant stands on the right in every machine's compare.
            (Operand::Constant(_), _) => Ok((comparison.swapped(), b, a)),
            _ => Ok((comparison, a, b)),
        }
    }

    /// The words of a result, checked against the signature.
    fn returned(&mut self, returned: Option<&Expr>, span: Span) -> Result<Exit> {
        let mismatch = |what: &str| Err(Error::new(span, format!("the signature promises {what}")));
        let plain = |result, shape| Ok(Exit { result, shape });
        match (self.returns, returned.map(strip)) {
            (Returns::Nothing, None) => plain(vec![], Shape::Plain),
            (Returns::Nothing, Some(_)) => mismatch("no result"),
            (
                Returns::Bool,
                Some(Expr::Lit(ExprLit {
                    lit: Lit::Bool(value),
                    ..
                })),
            ) => plain(
                vec![],
                if value.value {
                    Shape::True
                } else {
                    Shape::False
                },
            ),
            (Returns::Bool, _) => mismatch("`true` or `false`"),
            (Returns::Words(count), Some(value)) => plain(self.words(value, count)?, Shape::Plain),
            (Returns::Words(_), None) => mismatch("a result"),
            (Returns::OptionWords(count), Some(value)) => match value {
                Expr::Path(path) if path.path.is_ident("None") => plain(vec![], Shape::None),
                Expr::Call(ExprCall { func, args, .. })
                    if is_name(func, "Some") && args.len() == 1 =>
                {
                    plain(self.words(&args[0], count)?, Shape::Some)
                }
                _ => mismatch("`Some(…)` or `None`"),
            },
            (Returns::OptionWords(_), None) => mismatch("`Some(…)` or `None`"),
        }
    }

    fn words(&mut self, value: &Expr, count: usize) -> Result<Vec<Operand>> {
        match strip(value) {
            Expr::Tuple(tuple) if tuple.elems.len() == count => tuple
                .elems
                .iter()
                .map(|element| self.word(element))
                .collect(),
            value if count == 1 => Ok(vec![self.word(value)?]),
            other => Err(Error::new(other.span(), format!("expected {count} words"))),
        }
    }

    /// A call that stands alone: a store.
    fn effect(&mut self, call: &ExprCall) -> Result<()> {
        let name = call_name(call)?;
        let span = call.span();
        let (kind, width, release) = match name.to_string().as_str() {
            "prepare" => (StoreKind::Prepare, Width::Word, false),
            "prepare32" => (StoreKind::Prepare, Width::Half, false),
            "commit" => (StoreKind::Commit, Width::Word, false),
            "commit32" => (StoreKind::Commit, Width::Half, false),
            "commit_release" => (StoreKind::Commit, Width::Word, true),
            "prepare_copy" => {
                let [to, from, words] = arguments(call)?;
                let (to, from, words) = (self.word(to)?, self.word(from)?, self.word(words)?);
                self.step(StepKind::Copy { to, from, words }, span);
                return Ok(());
            }
            "store" => {
                return Err(Error::new(
                    span,
                    "a visible store in a restartable sequence: it would happen again on every \
                     restart; use `prepare` before the commit, or make it the `commit`",
                ));
            }
            "load" | "load32" | "load_acquire" | "cpu" | "min" => {
                return Err(Error::new(
                    span,
                    format!("the result of `{name}` is not used"),
                ));
            }
            _ => return Err(unknown_call(&name)),
        };
        let [to, value] = arguments(call)?;
        let value = self.word(value)?;
        let to = self.address(to)?;
        self.step(
            StepKind::Store {
                kind,
                to,
                value,
                width,
                release,
            },
            span,
        );
        Ok(())
    }

    fn word(&mut self, expression: &Expr) -> Result<Operand> {
        match strip(expression) {
            Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => {
                if !matches!(literal.suffix(), "" | "usize") {
                    return Err(Error::new(literal.span(), "a literal here is a word: no suffix"));
                }
                let value = literal.base10_parse::<u64>()?;
                Ok(Operand::Constant(Constant::literal(value, literal.span())))
            }
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) if !is_constant_name(name) => {
                    self.names.get(&name.to_string()).cloned().ok_or_else(|| {
                        Error::new(
                            name.span(),
                            format!("unknown name `{name}`: not a parameter, not a `let` above, and constants are in capitals"),
                        )
                    })
                }
                _ => {
                    let path = &path.path;
                    Ok(Operand::Constant(Constant::named(quote::quote!(#path), path.span())))
                }
            },
            Expr::Binary(binary) => self.binary(binary),
            Expr::Call(call) => self.value_call(call),
            other => Err(refuse(other)),
        }
    }

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
                    "not in the language: the operators are + - * & | ^ << >> and comparisons",
                ));
            }
        };
        let a = self.word(&binary.left)?;
        let b = self.word(&binary.right)?;
        self.combine(operator, a, b, binary.span())
    }

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
        let to = self.fresh();
        // `register + constant` is remembered, so that an address made from it is one operand.
        if let (Operand::Register(register), Operand::Constant(constant)) = (&a, &b) {
            let zero = Constant::literal(0, span);
            let signed = match operator {
                BinaryOperator::Add => Some(constant.clone()),
                BinaryOperator::Subtract => Some(Constant::apply(
                    BinaryOperator::Subtract,
                    &zero,
                    constant,
                    span,
                )),
                _ => None,
            };
            if let Some(offset) = signed {
                let (base, before) = self
                    .sums
                    .get(register)
                    .cloned()
                    .unwrap_or((*register, zero));
                let offset = Constant::apply(BinaryOperator::Add, &before, &offset, span);
                self.sums.insert(to, (base, offset));
            }
        }
        self.step(StepKind::Binary { to, operator, a, b }, span);
        Ok(Operand::Register(to))
    }

    fn value_call(&mut self, call: &ExprCall) -> Result<Operand> {
        let name = call_name(call)?;
        let span = call.span();
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
            "min" => {
                let [a, b] = arguments(call)?;
                let (a, b) = (self.word(a)?, self.word(b)?);
                return self.combine(BinaryOperator::Minimum, a, b, span);
            }
            "prepare" | "prepare32" | "prepare_copy" | "commit" | "commit32" | "commit_release"
            | "store" => {
                return Err(Error::new(
                    span,
                    format!("`{name}` has no value: it stands alone, with a semicolon"),
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

    fn address(&mut self, expression: &Expr) -> Result<Address> {
        match self.word(expression)? {
            Operand::Register(register) => Ok(match self.sums.get(&register) {
                Some((base, offset)) => Address {
                    base: *base,
                    offset: offset.clone(),
                },
                None => Address {
                    base: register,
                    offset: Constant::literal(0, expression.span()),
                },
            }),
            Operand::Constant(_) => Err(Error::new(
                expression.span(),
                "a constant is not an address: start from a parameter or a loaded word",
            )),
        }
    }

    /// Takes out steps whose word nobody uses, such as sums that became address offsets.
    fn drop_unused(&mut self) {
        let mut used: HashSet<Register> =
            self.result.iter().filter_map(Operand::register).collect();
        let mut kept = Vec::new();
        while let Some(step) = self.steps.pop() {
            if step
                .kind
                .defines()
                .is_some_and(|register| !used.contains(&register))
            {
                continue;
            }
            used.extend(step.kind.uses());
            if let StepKind::Exit { exit, .. } = step.kind {
                used.extend(self.exits[exit].result.iter().filter_map(Operand::register));
            }
            kept.push(step);
        }
        kept.reverse();
        self.steps = kept;
    }

    fn fresh(&mut self) -> Register {
        self.registers += 1;
        Register(self.registers - 1)
    }

    fn step(&mut self, kind: StepKind, span: Span) {
        self.steps.push(Step { kind, span });
    }
}

/// Takes parentheses and blocks of macro origin off.
fn strip(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => strip(&inner.expr),
        Expr::Group(inner) => strip(&inner.expr),
        other => other,
    }
}

/// Expressions that are effects even without a semicolon after them.
fn is_statement(expression: &Expr) -> bool {
    match expression {
        Expr::If(_) | Expr::Return(_) => true,
        Expr::Call(call) => call_name(call).is_ok_and(|name| {
            let name = name.to_string();
            name.starts_with("prepare") || name.starts_with("commit") || name == "store"
        }),
        _ => false,
    }
}

fn is_constant_name(name: &Ident) -> bool {
    let name = name.to_string();
    name.chars().any(|character| character.is_ascii_uppercase())
        && !name.chars().any(|character| character.is_ascii_lowercase())
}

fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident(name))
}

fn call_name(call: &ExprCall) -> Result<Ident> {
    match &*call.func {
        Expr::Path(path) if path.path.get_ident().is_some() => {
            Ok(path.path.segments[0].ident.clone())
        }
        other => Err(Error::new(other.span(), "no calls inside a sequence")),
    }
}

fn unknown_call(name: &Ident) -> Error {
    Error::new(
        name.span(),
        format!(
            "unknown name `{name}`: a sequence makes no calls; it has load, load32, load_acquire, \
             min, cpu, prepare, prepare32, prepare_copy, commit, commit32 and commit_release"
        ),
    )
}

fn arguments<const N: usize>(call: &ExprCall) -> Result<[&Expr; N]> {
    let arguments: Vec<&Expr> = call.args.iter().collect();
    let count = arguments.len();
    arguments.try_into().map_err(|_| {
        Error::new(
            call.span(),
            format!("this takes {N} arguments, and {count} are given"),
        )
    })
}

fn refuse(expression: &Expr) -> Error {
    let why = match expression {
        Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) | Expr::Continue(_) | Expr::Break(_) => {
            "a backward jump: a sequence only jumps forward, so that it always ends"
        }
        Expr::Assign(_) => "words are assigned once: write `let` with a new name",
        Expr::MethodCall(_) | Expr::Macro(_) | Expr::Await(_) => "no calls inside a sequence",
        Expr::If(_) | Expr::Match(_) => "only `if … { return … }` chooses in a sequence",
        Expr::Reference(_) | Expr::Field(_) | Expr::Index(_) => {
            "words only: read memory with `load`, and reach a field by adding its offset"
        }
        Expr::Unary(_) => "not in the language: write `0 - x` or `x ^ MASK`",
        Expr::Cast(_) => "everything is a word: nothing to cast",
        Expr::Path(_) | Expr::Lit(_) | Expr::Binary(_) => "this has no effect",
        _ => "not in the language of sequences",
    };
    Error::new(expression.span(), why)
}
