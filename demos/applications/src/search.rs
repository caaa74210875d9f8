//! Model elimination: a tableau of clauses whose branches are closed one by one, by an ancestor or
//! by a clause that contains the complement of the branch's last literal.
//!
//! A search goes depth first through the choices. It allocates nothing: terms are shared with the
//! problem, each as a term of a clause and the number of that clause's first variable.

use super::problem::{Literal, Place, Problem, Term};

/// The maximum length of a tableau, in choices. A branch of the search that reaches it is cut.
pub const CHOICES: usize = 256;

/// The maximum number of choices that lead to a [`Task`].
pub const PREFIX: usize = 48;

/// The maximum number of a tableau's variables, and so of a clause's.
pub const VARIABLES: usize = 1 << 13;
/// The maximum number of a tableau's literals, and so of a clause's.
pub const NODES: usize = 1 << 12;
const PAIRS: usize = 1 << 12;

/// The maximum number of steps of one unification. One that needs more is cut.
const STEPS: u32 = 1 << 14;

/// No node, and no binding.
pub const NONE: u32 = u32::MAX;

/// A term of the problem, whose variables are numbered from `base` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    pub term: u32,
    pub base: u32,
}

/// A literal of the tableau.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub literal: Literal,
    pub base: u32,
    pub parent: u32,
    depth: u32,
    /// The goal that follows when this one is closed.
    next: u32,
}

/// A goal and its alternatives: first the ancestors, from the parent up, then clauses.
#[derive(Clone, Copy, Debug)]
struct Choice {
    goal: u32,
    taken: u16,
    next: u16,
    end: u16,
    nodes: u32,
    trail: u32,
    variables: u32,
}

/// A part of the search: the choices that lead there, and the alternatives of the next one.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub length: u16,
    pub taken: [u16; PREFIX],
    pub from: u16,
    pub to: u16,
}

impl Task {
    /// All of a problem.
    pub fn root(problem: &Problem) -> Task {
        Task {
            length: 0,
            taken: [0; PREFIX],
            from: 0,
            to: problem.starts.len() as u16,
        }
    }
}

/// How a goal of a finished tableau was closed.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    /// By an ancestor.
    Ancestor(u32),
    /// By a clause, whose other literals are the nodes from here on.
    Clause(Place, u32),
}

/// How a task ended.
pub enum End {
    /// All branches are closed.
    Proof,
    /// There is no proof in it.
    Exhausted,
    /// The caller has stopped it.
    Stopped,
}

/// The memory of one thread.
pub struct Search {
    bindings: Vec<Instance>,
    trail: Vec<u32>,
    nodes: Vec<Node>,
    choices: Vec<Choice>,
    variables: u32,
    pairs: Vec<(Instance, Instance)>,
    terms: Vec<Instance>,
    steps: u32,
    /// The first of the task's own choices.
    own: usize,
    /// The maximum length of a branch.
    limit: u32,
    /// Whether a limit has cut the search.
    pub is_cut: bool,
}

impl Search {
    pub fn new() -> Search {
        let nothing = Instance {
            term: NONE,
            base: 0,
        };
        Search {
            bindings: vec![nothing; VARIABLES],
            trail: Vec::with_capacity(VARIABLES),
            nodes: Vec::with_capacity(NODES),
            choices: Vec::with_capacity(CHOICES),
            variables: 0,
            pairs: Vec::with_capacity(PAIRS),
            terms: Vec::with_capacity(PAIRS),
            steps: 0,
            own: 0,
            limit: 0,
            is_cut: false,
        }
    }

    /// Searches a task for a proof, with branches up to that length. Calls `inferred` after each
    /// inference; it returns false to end the search, and may call [`split`](Search::split).
    pub fn run(
        &mut self,
        problem: &Problem,
        task: &Task,
        limit: u32,
        mut inferred: impl FnMut(&mut Search) -> bool,
    ) -> End {
        let Some(open) = self.replay(problem, &task.taken[..usize::from(task.length)], limit)
        else {
            return End::Exhausted; // never: another thread has been there
        };
        self.own = self.choices.len();
        self.choose(problem, open);
        if let Some(choice) = self.choices.last_mut() {
            (choice.next, choice.end) = (task.from, task.to);
        }
        while self.choices.len() > self.own {
            let last = self.choices.len() - 1;
            let choice = &mut self.choices[last];
            if choice.next >= choice.end {
                self.choices.pop();
                continue;
            }
            choice.taken = choice.next;
            choice.next += 1;
            let choice = *choice;
            self.undo(&choice);
            let Some(open) = self.apply(problem, &choice) else {
                continue;
            };
            if !inferred(self) {
                return End::Stopped;
            }
            if open == NONE {
                return End::Proof;
            }
            // A goal that was closed without a binding needs no other way.
            let added = self.nodes.len() as u32 > choice.nodes;
            let is_old = |variable: &u32| *variable < choice.variables;
            if !added && !self.trail[choice.trail as usize..].iter().any(is_old) {
                self.choices[last].next = self.choices[last].end;
            }
            if !self.is_regular(problem, open) {
                continue;
            }
            match self.choices.len() < CHOICES {
                true => self.choose(problem, open),
                false => self.is_cut = true,
            }
        }
        End::Exhausted
    }

    /// Repeats choices, and returns the next goal after them, or [`NONE`] if all goals are closed.
    pub fn replay(&mut self, problem: &Problem, taken: &[u16], limit: u32) -> Option<u32> {
        let nothing = Choice {
            goal: NONE,
            taken: 0,
            next: 0,
            end: 0,
            nodes: 0,
            trail: 0,
            variables: 0,
        };
        self.undo(&nothing);
        self.choices.clear();
        self.limit = limit;
        let mut open = NONE;
        for &alternative in taken {
            self.choose(problem, open);
            let last = self.choices.last_mut()?;
            last.taken = alternative;
            last.next = last.end;
            let choice = *last;
            open = self.apply(problem, &choice)?;
        }
        Some(open)
    }

    /// Returns the choices that were taken.
    pub fn taken(&self) -> impl Iterator<Item = u16> + '_ {
        self.choices.iter().map(|choice| choice.taken)
    }

    /// Returns half of the remaining alternatives of the first choice that has some, as a task for
    /// another thread.
    pub fn split(&mut self) -> Option<Task> {
        let choices = &mut self.choices[self.own..];
        let at = choices.iter().position(|choice| choice.next < choice.end)? + self.own;
        if at > PREFIX {
            return None;
        }
        let choice = &mut self.choices[at];
        let mut task = Task {
            length: at as u16,
            taken: [0; PREFIX],
            from: choice.next + (choice.end - choice.next) / 2,
            to: choice.end,
        };
        choice.end = task.from;
        for (to, from) in task.taken.iter_mut().zip(&self.choices[..at]) {
            *to = from.taken;
        }
        Some(task)
    }

    /// Returns the literals of the tableau.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the goal of each choice, and what closed it. The first choice has no goal: it is
    /// the clause that the tableau starts with.
    pub fn closings<'s>(
        &'s self,
        problem: &'s Problem,
    ) -> impl Iterator<Item = (u32, Closing)> + 's {
        self.choices.iter().map(|choice| {
            let closing = match self.alternative(problem, choice) {
                Way::Ancestor(node) => Closing::Ancestor(node),
                Way::Clause(place) => Closing::Clause(place, choice.nodes),
            };
            (choice.goal, closing)
        })
    }

    /// Returns what an instance is bound to: a term that is no variable, or an unbound variable.
    pub fn resolve(&self, problem: &Problem, mut instance: Instance) -> Instance {
        while let Term::Variable(variable) = problem.terms[instance.term as usize] {
            let bound = self.bindings[(instance.base + variable) as usize];
            if bound.term == NONE {
                break;
            }
            instance = bound;
        }
        instance
    }

    /// Opens a goal's choice.
    fn choose(&mut self, problem: &Problem, goal: u32) {
        let end = match self.nodes.get(goal as usize) {
            None => problem.starts.len(),
            Some(node) => {
                let clauses = places(problem, node).len();
                let is_deep = node.depth >= self.limit && clauses > 0;
                self.is_cut |= is_deep;
                node.depth as usize + if is_deep { 0 } else { clauses }
            }
        };
        self.choices.push(Choice {
            goal,
            taken: 0,
            next: 0,
            end: end as u16,
            nodes: self.nodes.len() as u32,
            trail: self.trail.len() as u32,
            variables: self.variables,
        });
    }

    /// Rolls back to a choice: its nodes, bindings and variables.
    fn undo(&mut self, choice: &Choice) {
        for variable in self.trail.drain(choice.trail as usize..) {
            self.bindings[variable as usize].term = NONE;
        }
        self.nodes.truncate(choice.nodes as usize);
        self.variables = choice.variables;
    }

    fn alternative(&self, problem: &Problem, choice: &Choice) -> Way {
        let Some(node) = self.nodes.get(choice.goal as usize) else {
            let clause = problem.starts[usize::from(choice.taken)];
            let literal = u16::MAX;
            return Way::Clause(Place { clause, literal });
        };
        let taken = usize::from(choice.taken);
        match taken.checked_sub(node.depth as usize) {
            Some(clause) => Way::Clause(places(problem, node)[clause]),
            None => {
                let up = |node: u32, _| self.nodes[node as usize].parent;
                Way::Ancestor((0..taken).fold(node.parent, up))
            }
        }
    }

    /// Closes a choice's goal by the alternative that is taken. Returns the next goal, or `None` if
    /// the alternative does not close it.
    fn apply(&mut self, problem: &Problem, choice: &Choice) -> Option<u32> {
        let goal = self.nodes.get(choice.goal as usize).copied();
        let next = goal.map_or(NONE, |goal| goal.next);
        match (self.alternative(problem, choice), goal) {
            (Way::Ancestor(ancestor), Some(goal)) => {
                let ancestor = self.nodes[ancestor as usize];
                let is_complement = ancestor.literal.negative != goal.literal.negative;
                let unified =
                    is_complement && self.unify(problem, instance(&ancestor), instance(&goal));
                unified.then_some(next)
            }
            (Way::Clause(place), goal) => {
                let clause = &problem.clauses[usize::from(place.clause)];
                let base = self.variables;
                let room = self.nodes.len() + clause.literals.len() <= NODES;
                if !room || (base + clause.variables) as usize > VARIABLES {
                    self.is_cut = true;
                    return None;
                }
                self.variables += clause.variables;
                if let Some(goal) = goal {
                    let term = clause.literals[usize::from(place.literal)].atom;
                    if !self.unify(problem, Instance { term, base }, instance(&goal)) {
                        return None;
                    }
                }
                let first = self.nodes.len() as u32;
                let others = (0..).zip(&clause.literals);
                for (_, literal) in others.filter(|(at, _)| *at != place.literal) {
                    self.nodes.push(Node {
                        literal: *literal,
                        base,
                        parent: choice.goal,
                        depth: goal.map_or(0, |goal| goal.depth + 1),
                        next: self.nodes.len() as u32 + 1,
                    });
                }
                match self.nodes.len() as u32 > first {
                    true => {
                        self.nodes.last_mut()?.next = next;
                        Some(first)
                    }
                    false => Some(next),
                }
            }
            (Way::Ancestor(_), None) => None,
        }
    }

    /// Returns whether no ancestor of a goal is the same literal. A tableau with such an ancestor
    /// has a shorter proof.
    fn is_regular(&mut self, problem: &Problem, goal: u32) -> bool {
        let node = self.nodes[goal as usize];
        let mut ancestor = node.parent;
        while let Some(above) = self.nodes.get(ancestor as usize).copied() {
            if above.literal.negative == node.literal.negative
                && self.compare(problem, instance(&above), instance(&node), false)
            {
                return false;
            }
            ancestor = above.parent;
        }
        true
    }

    /// Makes two instances equal by bindings, if that is possible. Those of a failure stay until
    /// `undo`.
    fn unify(&mut self, problem: &Problem, one: Instance, other: Instance) -> bool {
        self.compare(problem, one, other, true)
    }

    /// Returns whether two instances are equal or, if it may bind, can be made equal.
    fn compare(&mut self, problem: &Problem, one: Instance, other: Instance, binds: bool) -> bool {
        self.pairs.clear();
        self.pairs.push((one, other));
        self.steps = 0;
        while let Some((one, other)) = self.pairs.pop() {
            let one = self.resolve(problem, one);
            let other = self.resolve(problem, other);
            if one == other {
                continue;
            }
            let terms = [one, other].map(|side| problem.terms[side.term as usize]);
            match terms {
                [Term::Variable(a), Term::Variable(b)] if one.base + a == other.base + b => {}
                [Term::Variable(variable), _] if binds => {
                    if !self.bind(problem, one.base + variable, other) {
                        return false;
                    }
                }
                [_, Term::Variable(variable)] if binds => {
                    if !self.bind(problem, other.base + variable, one) {
                        return false;
                    }
                }
                [
                    Term::Apply {
                        symbol: f,
                        first: left,
                        count,
                    },
                    Term::Apply {
                        symbol: g,
                        first: right,
                        ..
                    },
                ] if f == g => {
                    self.steps += 1;
                    if self.pairs.len() + count as usize > PAIRS || self.steps > STEPS {
                        self.is_cut |= binds;
                        return false;
                    }
                    for at in (0..count).rev() {
                        let argument = |first: u32, base| Instance {
                            term: problem.arguments[(first + at) as usize],
                            base,
                        };
                        let pair = (argument(left, one.base), argument(right, other.base));
                        self.pairs.push(pair);
                    }
                }
                _ => return false,
            }
        }
        true
    }

    /// Binds a variable to an instance that does not contain it.
    fn bind(&mut self, problem: &Problem, variable: u32, to: Instance) -> bool {
        self.terms.clear();
        self.terms.push(to);
        while let Some(instance) = self.terms.pop() {
            let instance = self.resolve(problem, instance);
            match problem.terms[instance.term as usize] {
                Term::Variable(inner) if instance.base + inner == variable => return false,
                Term::Variable(_) => {}
                Term::Apply { first, count, .. } => {
                    self.steps += 1;
                    if self.terms.len() + count as usize > PAIRS || self.steps > STEPS {
                        self.is_cut = true;
                        return false;
                    }
                    for at in first..first + count {
                        let term = problem.arguments[at as usize];
                        self.terms.push(Instance {
                            term,
                            base: instance.base,
                        });
                    }
                }
            }
        }
        self.bindings[variable as usize] = to;
        self.trail.push(variable);
        true
    }
}

/// An alternative.
enum Way {
    Ancestor(u32),
    Clause(Place),
}

fn instance(node: &Node) -> Instance {
    Instance {
        term: node.literal.atom,
        base: node.base,
    }
}

/// Returns the places of the complements of a node.
fn places<'p>(problem: &'p Problem, node: &Node) -> &'p [Place] {
    let symbol = problem.symbol(node.literal.atom) as usize;
    &problem.places[symbol][usize::from(!node.literal.negative)]
}
