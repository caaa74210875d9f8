//! Lowers syntax to steps, and refuses at its own line what the language does not have: statements
//! and results here, expressions in `words`. Rules about the order of steps are in `rules`.
//!
//! Words are computed where they are written, from left to right, each into a new register. Two
//! things are simplified on the way, so that the rules see equal addresses as equal:
//!
//! * A word that was computed before, by the same operator from the same words, is not computed
//!   again ([`Lowering::computed`]).
//! * A register that is another register plus a constant is remembered as such
//!   ([`Lowering::sums`]). `load(a + 8 + 8)` is a load at offset 16 from `a`, and no addition is
//!   left.

use std::collections::{HashMap, HashSet};

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    BinOp, Error, Expr, ExprBlock, ExprCall, ExprIf, ExprLit, Ident, Lit, Local, Pat, Result, Stmt,
};

use crate::ir::*;
mod words;

use self::words::{arguments, call_name, refuse, strip, unknown_call};
use crate::parse::{Item, named, no_constant_name};

/// Lowers one function.
///
/// # Errors
///
/// What the language does not have, at its place.
pub fn lower(item: Item) -> Result<Sequence> {
    let mut lowering = Lowering::new(&item);
    let end = lowering.body(&item.body.stmts)?;
    lowering.drop_unused(&end)?;
    let Lowering {
        steps,
        exits,
        abort,
        sums,
        registers,
        constants,
        assertions,
        ..
    } = lowering;
    Ok(Sequence {
        attributes: item.attributes,
        visibility: item.visibility,
        is_safe: item.is_safe,
        keyword: item.keyword,
        name: item.name,
        parameters: item.parameters,
        returns: item.returns,
        steps,
        exits,
        end,
        abort,
        registers,
        sums,
        constants,
        assertions,
    })
}

/// The sequence so far.
pub struct Lowering {
    /// The word of each name, without `r#`: to rustc `r#name` is `name`.
    pub(super) names: HashMap<String, Operand>,
    /// The registers that are another register plus a constant.
    pub(super) sums: HashMap<Register, Address>,
    /// What was computed already, by operator and the keys of its operands, and where it is.
    pub(super) computed: HashMap<(BinaryOperator, String, String), Register>,
    /// Whether the `return` of an `if` is being lowered. Its words are computed before the branch,
    /// so they are computed whether or not it is taken.
    pub(super) returning_early: bool,
    /// The named constants so far.
    pub(super) constants: Vec<Named>,
    /// What rustc is to check of literals.
    pub(super) assertions: Vec<Assertion>,
    /// The function's name.
    pub(super) sequence_name: Ident,
    /// The name of the type that holds the named constants.
    pub(super) constants_name: Ident,
    returns: Returns,
    steps: Vec<Step>,
    exits: Vec<Exit>,
    abort: Option<Exit>,
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
                    parameter.name.unraw().to_string(),
                    Operand::Register(Register(index)),
                )
            })
            .collect();
        Lowering {
            names,
            sums: HashMap::new(),
            computed: HashMap::new(),
            returning_early: false,
            constants: Vec::new(),
            assertions: Vec::new(),
            returns: item.returns,
            sequence_name: item.name.clone(),
            constants_name: constants_name(&item.name),
            steps: Vec::new(),
            exits: Vec::new(),
            abort: None,
            registers: item.parameters.len(),
        }
    }

    /// Lowers the body; returns the result at its end.
    fn body(&mut self, statements: &[Stmt]) -> Result<Exit> {
        let (last, before) = match statements.split_last() {
            Some((Stmt::Expr(last, None), before)) if !is_statement(last) => (Some(last), before),
            _ => (None, statements),
        };
        for (index, statement) in before.iter().enumerate() {
            match abort_block(statement) {
                Some(block) if index == 0 => self.abort_block(block)?,
                Some(block) => {
                    return Err(Error::new(
                        block.span(),
                        "the abort block comes first: of an interrupted attempt only the parameters are known",
                    ));
                }
                None => self.statement(statement)?,
            }
        }
        let span = last.map_or(self.sequence_name.span(), Spanned::span);
        self.returned(last, span)
    }

    /// Lowers one statement.
    fn statement(&mut self, statement: &Stmt) -> Result<()> {
        match statement {
            Stmt::Local(local) => self.binding(local),
            Stmt::Expr(expression, _) => match strip(expression) {
                Expr::If(branch) => self.early_return(branch),
                Expr::Call(call) => self.effect(call),
                Expr::Return(early) => Err(Error::new(
                    early.span(),
                    "`return` belongs in an `if`; the result after the commit is the last expression",
                )),
                other => Err(refuse(other)),
            },
            Stmt::Item(item) => Err(Error::new(item.span(), "no items inside a sequence")),
            Stmt::Macro(call) => Err(Error::new(call.span(), "no macros inside a sequence")),
        }
    }

    /// Lowers a `let`: a word and its name.
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
                "a word is assigned once: bind a plain name, without `mut`, `ref` or `@`",
            ));
        }
        no_constant_name(&name.ident)?;
        let Some(initial) = &local.init else {
            return Err(Error::new(
                local.span(),
                "a `let` needs a value: a word is assigned once",
            ));
        };
        if let Some((_, diverge)) = &initial.diverge {
            return Err(Error::new(
                diverge.span(),
                "no `let … else` inside a sequence: leave early by `if … { return … }`",
            ));
        }
        let value = self.word(&initial.expr)?;
        // Names are compared as text here. To rustc, a name that a `macro_rules!` writes differs
        // from the same name that its caller writes. If each name is bound once, no use of it can
        // mean another word than it would to rustc.
        let text = name.ident.unraw().to_string();
        if self.names.contains_key(&text) {
            return Err(Error::new(
                name.span(),
                format!(
                    "`{text}` names a word already: choose another name; names are compared as text, \
                     without `r#`, whether they are written inside or outside of a `macro_rules!`"
                ),
            ));
        }
        self.names.insert(text, value);
        Ok(())
    }

    /// Lowers `'abort: { return … }`. It makes no step: after an interruption none is left to run.
    fn abort_block(&mut self, block: &ExprBlock) -> Result<()> {
        const SHAPE: &str = "an abort block holds one `return`";
        let returned = match block.block.stmts.as_slice() {
            [Stmt::Expr(Expr::Return(returned), _)] => returned,
            [Stmt::Expr(Expr::Return(_), _), other, ..] | [other, ..] => {
                return Err(Error::new(other.span(), SHAPE));
            }
            [] => return Err(Error::new(block.block.span(), SHAPE)),
        };
        let exit = self.returned(returned.expr.as_deref(), returned.span())?;
        if let Some(step) = self.steps.first() {
            return Err(Error::new(
                step.span,
                "an abort block returns constants and parameters as they are: nothing runs there",
            ));
        }
        self.abort = Some(exit);
        Ok(())
    }

    /// Lowers `if … { return … }`: the words of the result, then the branch.
    fn early_return(&mut self, branch: &ExprIf) -> Result<()> {
        const SHAPE: &str = "an `if` in a sequence holds one `return`, before it at most the commit, \
                             and has no `else`";
        // For `if v > load(…) { commit(…); }`.
        const TURN: &str = "turn the condition round, as in `if v <= m { return }`, then commit";
        // For `if v > m { commit(…, v) } else { commit(…, m) }`.
        const CHOOSE: &str = "return early, or choose a word by `min`, `max` or arithmetic";
        if let Some((_, other)) = &branch.else_branch {
            return Err(Error::new(other.span(), format!("{SHAPE}: {CHOOSE}")));
        }
        let (commit, returned) = match branch.then_branch.stmts.as_slice() {
            [Stmt::Expr(Expr::Return(returned), _)] => (None, returned),
            [
                commit @ Stmt::Expr(called, _),
                Stmt::Expr(Expr::Return(returned), _),
            ] if is_commit(called) => (Some(commit), returned),
            [Stmt::Expr(other @ (Expr::Continue(_) | Expr::Break(_)), _)] => {
                return Err(refuse(other));
            }
            [first, .., Stmt::Expr(last, _)] | [first @ Stmt::Expr(last, _)] if is_commit(last) => {
                return Err(Error::new(first.span(), format!("{SHAPE}: {TURN}")));
            }
            [Stmt::Expr(Expr::Return(_), _), other, ..] | [other, ..] => {
                return Err(Error::new(other.span(), SHAPE));
            }
            [] => return Err(Error::new(branch.then_branch.span(), SHAPE)),
        };
        let (comparison, a, b) = self.condition(&branch.cond)?;
        self.returning_early = true;
        let commit = match commit {
            Some(commit) => {
                self.statement(commit)?;
                self.steps.pop()
            }
            None => None,
        };
        let mut exit = self.returned(returned.expr.as_deref(), returned.span())?;
        exit.commit = commit;
        self.returning_early = false;
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

    /// Lowers a condition.
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
            (Operand::Constant(_), Operand::Constant(_)) => Err(Error::new(
                condition.span(),
                "this condition compares two constants: decide it outside of the sequence",
            )),
            // Machines compare a register with a constant, not the other way round.
            (Operand::Constant(_), _) => Ok((comparison.swapped(), b, a)),
            _ => Ok((comparison, a, b)),
        }
    }

    /// Lowers a result, and checks it against the signature.
    fn returned(&mut self, returned: Option<&Expr>, span: Span) -> Result<Exit> {
        let mismatch = |what: &str| Err(Error::new(span, format!("the signature promises {what}")));
        let plain = |result, shape| {
            Ok(Exit {
                result,
                shape,
                commit: None,
                span,
            })
        };
        match (self.returns, returned.map(strip)) {
            (Returns::Nothing, None) => plain(vec![], Shape::Plain),
            (_, Some(statement)) if !is_word(statement) => Err(refuse(statement)),
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

    /// Lowers the words of a result.
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

    /// Lowers a call that stands alone: a store.
    fn effect(&mut self, call: &ExprCall) -> Result<()> {
        let name = call_name(call)?;
        let span = call.span();
        let (kind, width, release) = match name.to_string().as_str() {
            "prepare" => (StoreKind::Prepare, Width::Word, false),
            "prepare32" => (StoreKind::Prepare, Width::Half, false),
            "commit" => (StoreKind::Commit, Width::Word, false),
            "commit32" => (StoreKind::Commit, Width::Half, false),
            "store" => (StoreKind::Visible, Width::Word, false),
            "store32" => (StoreKind::Visible, Width::Half, false),
            "commit_release" => (StoreKind::Commit, Width::Word, true),
            "prepare_copy" => {
                let [to, from, words] = arguments(call)?;
                let (to, from) = (self.address_word(to)?, self.address_word(from)?);
                let words = self.word(words)?;
                self.step(StepKind::Copy { to, from, words }, span);
                return Ok(());
            }
            "load" | "load32" | "load_acquire" | "cpu" | "cas" | "min" | "max" => {
                return Err(Error::new(
                    span,
                    format!(
                        "the result of `{name}` is not used: name it by `let`, or remove the call"
                    ),
                ));
            }
            _ => return Err(unknown_call(&name)),
        };
        let [to, value] = arguments(call)?;
        let to = self.address(to)?;
        let value = self.word(value)?;
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

    /// Removes computations whose word no step reads, such as sums that became the offset of an
    /// address. A load or `cas` that no step reads is an error. After the commit nothing is
    /// removed: there every step is an error, which `rules` reports.
    fn drop_unused(&mut self, end: &Exit) -> Result<()> {
        let committed = self.steps.iter().position(Step::is_commit);
        let mut used: HashSet<Register> = end.result.iter().filter_map(Operand::register).collect();
        let mut kept = Vec::new();
        while let Some(step) = self.steps.pop() {
            let unused = step
                .kind
                .defines()
                .is_some_and(|register| !used.contains(&register));
            if unused && committed.is_none_or(|commit| self.steps.len() < commit) {
                match step.kind {
                    StepKind::Binary { .. } => continue,
                    _ => return Err(Error::new(step.span, "this word is never used: remove it")),
                }
            }
            used.extend(step.kind.uses());
            if let StepKind::Exit { exit, .. } = step.kind {
                let exit = &self.exits[exit];
                used.extend(exit.result.iter().filter_map(Operand::register));
                used.extend(exit.commit.iter().flat_map(|commit| commit.kind.uses()));
            }
            kept.push(step);
        }
        kept.reverse();
        self.steps = kept;
        Ok(())
    }

    /// Returns a new register.
    pub(super) fn fresh(&mut self) -> Register {
        self.registers += 1;
        Register(self.registers - 1)
    }

    /// Adds a step.
    pub(super) fn step(&mut self, kind: StepKind, span: Span) {
        self.steps.push(Step { kind, span });
    }
}

/// Returns the block of `'abort: { … }`.
fn abort_block(statement: &Stmt) -> Option<&ExprBlock> {
    match statement {
        Stmt::Expr(Expr::Block(block), _) => {
            let label = block.label.as_ref()?;
            (label.name.ident == "abort").then_some(block)
        }
        _ => None,
    }
}

/// Whether it is a call of a commit.
fn is_commit(expression: &Expr) -> bool {
    matches!(strip(expression), Expr::Call(call)
        if call_name(call).is_ok_and(|name| name.to_string().starts_with("commit")))
}

/// Whether it is a statement even without a semicolon after it, not a result.
fn is_statement(expression: &Expr) -> bool {
    match strip(expression) {
        Expr::If(_) | Expr::Return(_) => true,
        Expr::Call(call) => call_name(call).is_ok_and(|name| {
            let name = name.to_string();
            name.starts_with("prepare") || name.starts_with("commit") || name.starts_with("store")
        }),
        _ => false,
    }
}

/// Whether it could be a result.
fn is_word(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Path(_)
            | Expr::Lit(_)
            | Expr::Binary(_)
            | Expr::Unary(_)
            | Expr::Call(_)
            | Expr::Tuple(_)
    )
}

/// Whether it is this name.
fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident(name))
}
