//! A proof that was found, and its check. The check shares nothing with the search: it compares
//! terms, without bindings or unification.

use std::collections::HashMap;
use std::fmt::Write;

use super::problem::{Clause, Problem, Term};
use super::search::{Closing, Instance, Search};

/// A term. Variables that the proof leaves open are constants here.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Open(u32),
    Apply(u32, Vec<Tree>),
}

/// A literal of the tableau.
#[derive(Debug)]
pub struct Step {
    pub negative: bool,
    pub atom: Tree,
    /// The number of the literal above it.
    pub parent: Option<usize>,
    /// The alternative that closed it, if it is closed.
    pub closing: Option<Closing>,
}

/// The maximum depth of a term, and the maximum number of terms of a proof. A search shares parts
/// of terms, which are written out here: a short proof may have terms of any size.
const DEPTH: usize = 1_000;
const TERMS: usize = 1 << 20;

/// A closed tableau.
#[derive(Debug)]
pub struct Proof {
    /// The clause at its root, whose literals come first.
    pub start: u16,
    pub steps: Vec<Step>,
}

impl Proof {
    /// Repeats a search's choices, and takes the proof from them. An error is a sentence.
    pub fn of(problem: &Problem, taken: &[u16], limit: u32) -> Result<Proof, &'static str> {
        const NO_PROOF: &str = "the choices that were found lead to no proof";
        let mut search = Search::new();
        search.replay(problem, taken, limit).ok_or(NO_PROOF)?;
        let mut room = TERMS;
        let steps = search.nodes().iter().map(|node| {
            let (term, base) = (node.literal.atom, node.base);
            Some(Step {
                negative: node.literal.negative,
                atom: tree(&search, problem, Instance { term, base }, DEPTH, &mut room)?,
                parent: usize::try_from(node.parent)
                    .ok()
                    .filter(|_| node.parent != u32::MAX),
                closing: None,
            })
        });
        let steps: Option<Vec<Step>> = steps.collect();
        let mut steps =
            steps.ok_or("a proof was found, whose terms are too large to be checked")?;
        let mut start = None;
        for (goal, closing) in search.closings(problem) {
            match (steps.get_mut(goal as usize), closing) {
                (Some(step), closing) => step.closing = Some(closing),
                (None, Closing::Clause(place, _)) => start = Some(place.clause),
                (None, Closing::Ancestor(_)) => return Err(NO_PROOF),
            }
        }
        let start = start.ok_or(NO_PROOF)?;
        Ok(Proof { start, steps })
    }

    /// Checks that every branch is closed by an ancestor with the same atom and the other sign, or
    /// by an instance of a clause with the complement, and that the root is an instance of a
    /// clause. An error is a sentence.
    pub fn check(&self, problem: &Problem) -> Result<(), String> {
        let clause = |number: u16| &problem.clauses[usize::from(number)];
        self.check_instance(problem, clause(self.start), None, 0)?;
        for (at, step) in self.steps.iter().enumerate() {
            match step.closing {
                None => return Err(format!("literal {at} of the proof is open")),
                Some(Closing::Ancestor(ancestor)) => {
                    let mut above = step.parent;
                    while above.is_some_and(|above| above != ancestor as usize) {
                        above = above.and_then(|above| self.steps[above].parent);
                    }
                    let ancestor = above.map(|above| &self.steps[above]);
                    let closes = ancestor.is_some_and(|ancestor| {
                        ancestor.negative != step.negative && ancestor.atom == step.atom
                    });
                    if !closes {
                        return Err(format!("literal {at} is not closed by its ancestor"));
                    }
                }
                Some(Closing::Clause(place, first)) => {
                    let closed = Some((usize::from(place.literal), at));
                    self.check_instance(problem, clause(place.clause), closed, first as usize)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that literals are an instance of a clause: those from `first` on, and in the place of
    /// one of them, if it closes a literal, the complement of that.
    fn check_instance(
        &self,
        problem: &Problem,
        clause: &Clause,
        closes: Option<(usize, usize)>,
        first: usize,
    ) -> Result<(), String> {
        let wrong = |what: &str| format!("{what} of {}, from literal {first} on", clause.name);
        let mut values = HashMap::new();
        let mut child = first;
        for (at, literal) in clause.literals.iter().enumerate() {
            let (step, negative, parent) = match closes {
                Some((place, closed)) if place == at => {
                    let step = self.steps.get(closed);
                    (step, !literal.negative, None)
                }
                _ => {
                    child += 1;
                    let parent = Some(closes.map(|(_, closed)| closed));
                    (self.steps.get(child - 1), literal.negative, parent)
                }
            };
            let step = step.ok_or_else(|| wrong("there are too few literals"))?;
            // A parent comes before its children, so the tableau is a tree.
            let is_child = parent.is_none_or(|parent| {
                step.parent == parent && parent.is_none_or(|parent| parent < child - 1)
            });
            let is_instance = matches(problem, literal.atom, &step.atom, &mut values);
            if !(is_child && is_instance && step.negative == negative) {
                return Err(wrong("the literals are no instance"));
            }
        }
        Ok(())
    }

    /// Returns the proof as text, with a line for each literal.
    pub fn text(&self, problem: &Problem) -> String {
        let name = |clause: u16| &problem.clauses[usize::from(clause)].name;
        let mut text = format!("{}: start with {}\n", problem.name, name(self.start));
        for (at, step) in self.steps.iter().enumerate() {
            let sign = if step.negative { "~ " } else { "" };
            let _ = write!(text, "{at:>5}  {sign}{}  ", term_text(problem, &step.atom));
            let _ = match step.closing {
                Some(Closing::Ancestor(ancestor)) => writeln!(text, "[{ancestor} above]"),
                Some(Closing::Clause(place, _)) => writeln!(text, "[{}]", name(place.clause)),
                None => writeln!(text, "[open]"),
            };
        }
        text
    }
}

/// Returns an instance with the bindings of a search applied. `None` if it is deeper than `depth`,
/// or has more terms than `room`, from which they are subtracted.
fn tree(
    search: &Search,
    problem: &Problem,
    instance: Instance,
    depth: usize,
    room: &mut usize,
) -> Option<Tree> {
    let depth = depth.checked_sub(1)?;
    *room = room.checked_sub(1)?;
    let Instance { term, base } = search.resolve(problem, instance);
    Some(match problem.terms[term as usize] {
        Term::Variable(variable) => Tree::Open(base + variable),
        Term::Apply {
            symbol,
            first,
            count,
        } => {
            let arguments = &problem.arguments[first as usize..][..count as usize];
            let arguments = arguments
                .iter()
                .map(|&term| tree(search, problem, Instance { term, base }, depth, room));
            Tree::Apply(symbol, arguments.collect::<Option<_>>()?)
        }
    })
}

/// Returns whether a term is an instance of a pattern, with the same values for the same variables.
fn matches(problem: &Problem, pattern: u32, term: &Tree, values: &mut HashMap<u32, Tree>) -> bool {
    match (problem.terms[pattern as usize], term) {
        (Term::Variable(variable), term) => {
            values.entry(variable).or_insert_with(|| term.clone()) == term
        }
        (
            Term::Apply {
                symbol,
                first,
                count,
            },
            Tree::Apply(other, arguments),
        ) => {
            let patterns = &problem.arguments[first as usize..][..count as usize];
            symbol == *other
                && patterns.len() == arguments.len()
                && patterns
                    .iter()
                    .zip(arguments)
                    .all(|(&pattern, term)| matches(problem, pattern, term, values))
        }
        (Term::Apply { .. }, Tree::Open(_)) => false,
    }
}

fn term_text(problem: &Problem, term: &Tree) -> String {
    match term {
        Tree::Open(number) => format!("X{number}"),
        Tree::Apply(symbol, arguments) => {
            let name = &problem.symbols[*symbol as usize].0;
            let arguments: Vec<_> = arguments
                .iter()
                .map(|term| term_text(problem, term))
                .collect();
            match arguments.is_empty() {
                true => name.clone(),
                false => format!("{name}({})", arguments.join(", ")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A problem, and its proof by the first choices that work.
    fn proved(text: &str) -> (Problem, Result<Proof, &'static str>) {
        let problem = Problem::parse("test", text).unwrap();
        let root = super::super::search::Task::root(&problem);
        let mut search = Search::new();
        search.run(&problem, &root, 5, |_| true);
        let taken: Vec<u16> = search.taken().collect();
        let proof = Proof::of(&problem, &taken, 5);
        (problem, proof)
    }

    /// A proof of p(a).
    fn proof() -> (Problem, Proof) {
        let text = "cnf(one, axiom, p(X) | ~ q(X)). cnf(two, axiom, q(a) | q(b)). cnf(three, axiom, ~ q(b) | q(a)). \
                    cnf(goal, negated_conjecture, ~ p(a)).";
        let (problem, proof) = proved(text);
        (problem, proof.unwrap())
    }

    /// Each variable is twice in the value of the one before.
    #[test]
    fn a_proof_of_large_terms_is_reported() {
        let of_depth = |depth: usize| {
            let (mut one, mut other) = ("X0".to_string(), "f(Y1, Y1)".to_string());
            for n in 1..depth {
                one += &format!(", X{n}, X{n}");
                other += &format!(", Y{n}, f(Y{m}, Y{m})", m = n + 1);
            }
            let text =
                format!("cnf(one, axiom, p({one})). cnf(goal, negated_conjecture, ~ p({other})).");
            proved(&text)
        };
        let (problem, proof) = of_depth(5);
        proof.unwrap().check(&problem).unwrap();
        assert!(of_depth(40).1.unwrap_err().contains("too large"));
    }

    #[test]
    fn a_proof_is_accepted_and_every_change_of_it_is_not() {
        let (problem, proof) = proof();
        proof.check(&problem).unwrap();
        assert!(
            proof.text(&problem).contains("~ p(a)  [one]"),
            "{}",
            proof.text(&problem)
        );
        for at in 0..proof.steps.len() {
            let other = || self::proof().1;
            let mut signed = other();
            signed.steps[at].negative ^= true;
            let mut renamed = other();
            renamed.steps[at].atom = Tree::Open(77);
            let mut open = other();
            open.steps[at].closing = None;
            let mut moved = other();
            moved.steps[at].parent = Some(proof.steps.len() - 1);
            for wrong in [signed, renamed, open, moved] {
                assert!(wrong.check(&problem).is_err(), "{at}: {wrong:?}");
            }
        }
    }
}
