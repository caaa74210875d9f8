//! Lowers the syntax to the intermediate representation, refusing at its own line whatever the
//! language does not have: statements and results here, expressions in `words`. Rules about the
//! order of steps are in `rules`.

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

pub struct Lowering {
    /// Without `r#`, for rustc takes a name with it and without for the same.
    pub(super) names: HashMap<String, Operand>,
    /// Registers known to be another register plus a constant, so that addresses fold.
    pub(super) sums: HashMap<Register, Address>,
    /// What was computed already, and where it is: the same words are computed once, so the rules
    /// see the same address as the same.
    pub(super) computed: HashMap<(BinaryOperator, String, String), Register>,
    /// Inside the `return` of an `if`, whose words are computed whether it is taken or not.
    pub(super) returning_early: bool,
    /// The named constants so far.
    pub(super) constants: Vec<Named>,
    pub(super) assertions: Vec<Assertion>,
    pub(super) sequence_name: Ident,
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
                        "the abort block comes first: of an interrupted attempt nothing is known but \
                         the parameters",
                    ));
                }
                None => self.statement(statement)?,
            }
        }
        let span = last.map_or(self.sequence_name.span(), Spanned::span);
        self.returned(last, span)
    }

    fn statement(&mut self, statement: &Stmt) -> Result<()> {
        match statement {
            Stmt::Local(local) => self.binding(local),
            Stmt::Expr(expression, _) => match strip(expression) {
                Expr::If(branch) => self.early_return(branch),
                Expr::Call(call) => self.effect(call),
                Expr::Return(early) => Err(Error::new(
                    early.span(),
                    "`return` stands in an `if`; the result after the commit is the last expression",
                )),
                other => Err(refuse(other)),
            },
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
        no_constant_name(&name.ident)?;
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
        // Names are compared as text, but to rustc those that a `macro_rules!` brings along differ
        // from those that its caller wrote. Where each name is bound once, no use of it means
        // another word than rustc would say.
        let text = name.ident.unraw().to_string();
        if self.names.contains_key(&text) {
            return Err(Error::new(
                name.span(),
                format!(
                    "`{text}` is a word already: give each a name of its own; names from inside and from outside \
                     of a `macro_rules!` are compared as text"
                ),
            ));
        }
        self.names.insert(text, value);
        Ok(())
    }

    /// `'abort: { return … }`: no step, for no step is left to run.
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
                "an abort block returns constants and parameters as they are: it computes nothing",
            ));
        }
        self.abort = Some(exit);
        Ok(())
    }

    fn early_return(&mut self, branch: &ExprIf) -> Result<()> {
        const SHAPE: &str = "an `if` in a sequence holds one `return`, before it at most the commit, \
                             and has no `else`";
        if let Some((_, other)) = &branch.else_branch {
            return Err(Error::new(other.span(), SHAPE));
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
            "load" | "load32" | "load_acquire" | "cpu" | "cas" | "min" => {
                return Err(Error::new(
                    span,
                    format!("the result of `{name}` is not used"),
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

    /// Takes out computations whose word nobody uses, such as sums that became address offsets.
    /// After the commit nothing is taken out: there it is an error.
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
                    _ => return Err(Error::new(step.span, "this word is never used")),
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

    pub(super) fn fresh(&mut self) -> Register {
        self.registers += 1;
        Register(self.registers - 1)
    }

    pub(super) fn step(&mut self, kind: StepKind, span: Span) {
        self.steps.push(Step { kind, span });
    }
}

/// `'abort: { … }`.
fn abort_block(statement: &Stmt) -> Option<&ExprBlock> {
    match statement {
        Stmt::Expr(Expr::Block(block), _) => {
            let label = block.label.as_ref()?;
            (label.name.ident == "abort").then_some(block)
        }
        _ => None,
    }
}

fn is_commit(expression: &Expr) -> bool {
    matches!(strip(expression), Expr::Call(call)
        if call_name(call).is_ok_and(|name| name.to_string().starts_with("commit")))
}

/// Expressions that are effects even without a semicolon after them.
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

/// Could it be a result?
fn is_word(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Path(_) | Expr::Lit(_) | Expr::Binary(_) | Expr::Call(_) | Expr::Tuple(_)
    )
}

fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident(name))
}
