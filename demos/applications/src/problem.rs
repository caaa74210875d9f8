//! Clauses, and the reader of TPTP's clause normal form: `cnf(name, role, (p(X) | ~ q(f(X)))).`

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::options::read_text;
use super::search::{NODES, VARIABLES};

/// A term, by its number in the problem: a variable of its clause, or a symbol and a range of
/// [`Problem::arguments`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Term {
    Variable(u32),
    Apply { symbol: u32, first: u32, count: u32 },
}

/// An atom, or its negation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Literal {
    pub negative: bool,
    pub atom: u32,
}

/// A disjunction of literals.
#[derive(Debug)]
pub struct Clause {
    pub name: String,
    pub literals: Vec<Literal>,
    pub variables: u32,
}

/// A literal of a clause.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub clause: u16,
    pub literal: u16,
}

/// A set of clauses, to be refuted.
#[derive(Debug, Default)]
pub struct Problem {
    pub name: String,
    pub clauses: Vec<Clause>,
    pub terms: Vec<Term>,
    pub arguments: Vec<u32>,
    /// The names of symbols, and their numbers of arguments.
    pub symbols: Vec<(String, u32)>,
    numbers: HashMap<(String, u32), u32>,
    /// By symbol: the places of its positive literals and of its negative ones.
    pub places: Vec<[Vec<Place>; 2]>,
    /// The clauses without a positive literal: a refutation needs one of them.
    pub starts: Vec<u16>,
}

/// The maximum depth of a term in a file.
const DEPTH: usize = 200;

/// The maximum number of a term's arguments.
const ARGUMENTS: usize = 256;

/// The maximum number of a problem's clauses and of its literals, so that the places of a literal
/// have 16-bit numbers.
const LITERALS: usize = 1 << 15;

/// The maximum depth of files that include each other.
const INCLUSIONS: usize = 16;

impl Problem {
    /// Reads a file and those that it includes. An error is a sentence with file and line.
    pub fn read(path: &Path) -> Result<Problem, String> {
        let name = path.file_stem().unwrap_or_default();
        let mut problem = Problem::named(&name.to_string_lossy());
        problem.include(path, 0)?;
        problem.finish()
    }

    /// Reads a text that includes nothing.
    pub fn parse(name: &str, text: &str) -> Result<Problem, String> {
        let mut problem = Problem::named(name);
        Reader::new(&mut problem, Path::new(name), text, INCLUSIONS).all()?;
        problem.finish()
    }

    fn named(name: &str) -> Problem {
        Problem {
            name: name.to_string(),
            ..Problem::default()
        }
    }

    fn include(&mut self, path: &Path, depth: usize) -> Result<(), String> {
        Reader::new(self, path, &read_text(path)?, depth).all()
    }

    fn finish(mut self) -> Result<Problem, String> {
        if self.numbers.contains_key(&("=".to_string(), 2)) {
            let axioms: u64 = self
                .symbols
                .iter()
                .map(|(_, count)| u64::from(*count))
                .sum();
            if axioms > LITERALS as u64 {
                return Err(format!(
                    "{} needs {axioms} axioms of equality, one for each argument of each symbol; up to {LITERALS} are \
                     possible",
                    self.name
                ));
            }
            let axioms = self.equality();
            Reader::new(&mut self, Path::new("equality"), &axioms, INCLUSIONS).all()?;
        }
        let literals: usize = self
            .clauses
            .iter()
            .map(|clause| clause.literals.len())
            .sum();
        let clauses = self.clauses.len();
        if clauses == 0 || clauses.max(literals) > LITERALS {
            return Err(format!(
                "{} has {clauses} clauses of {literals} literals in all; give 1 to {LITERALS} clauses, and up to as many \
                 literals",
                self.name
            ));
        }
        self.places
            .resize_with(self.symbols.len(), Default::default);
        for (number, clause) in self.clauses.iter().enumerate() {
            if clause.literals.iter().all(|literal| literal.negative) {
                self.starts.push(number as u16);
            }
            for (at, literal) in clause.literals.iter().enumerate() {
                let place = Place {
                    clause: number as u16,
                    literal: at as u16,
                };
                let symbol = self.symbol(literal.atom);
                self.places[symbol as usize][usize::from(literal.negative)].push(place);
            }
        }
        Ok(self)
    }

    /// Returns the symbol of a term, or `u32::MAX` if the term is a variable.
    pub fn symbol(&self, term: u32) -> u32 {
        match self.terms[term as usize] {
            Term::Apply { symbol, .. } => symbol,
            Term::Variable(_) => u32::MAX,
        }
    }

    /// Returns the axioms of equality for the symbols of the problem, as text.
    fn equality(&self) -> String {
        let mut text = "cnf(reflexivity, axiom, X = X).\n\
                        cnf(symmetry, axiom, X != Y | Y = X).\n\
                        cnf(transitivity, axiom, X != Y | Y != Z | X = Z).\n"
            .to_string();
        let literals = self.clauses.iter().flat_map(|clause| &clause.literals);
        let predicates: HashSet<u32> = literals.map(|literal| self.symbol(literal.atom)).collect();
        for (number, (name, count)) in (0..).zip(&self.symbols) {
            for at in (0..*count).filter(|_| name != "=") {
                let arguments = |other: &str| {
                    let names = (0..*count).map(|n| {
                        if n == at {
                            other.into()
                        } else {
                            format!("A{n}")
                        }
                    });
                    names.collect::<Vec<_>>().join(", ")
                };
                let (left, right) = (arguments("X"), arguments("Y"));
                text += &match predicates.contains(&number) {
                    true => format!(
                        "cnf(substitution, axiom, X != Y | ~ {name}({left}) | {name}({right})).\n"
                    ),
                    false => format!(
                        "cnf(substitution, axiom, X != Y | {name}({left}) = {name}({right})).\n"
                    ),
                };
            }
        }
        text
    }

    fn number(&mut self, name: &str, count: u32) -> u32 {
        let next = self.symbols.len() as u32;
        let key = (name.to_string(), count);
        *self.numbers.entry(key.clone()).or_insert_with(|| {
            self.symbols.push(key);
            next
        })
    }

    fn apply(&mut self, name: &str, arguments: &[u32]) -> u32 {
        let count = arguments.len() as u32;
        let symbol = self.number(name, count);
        let first = self.arguments.len() as u32;
        self.arguments.extend(arguments);
        self.add(Term::Apply {
            symbol,
            first,
            count,
        })
    }

    fn add(&mut self, term: Term) -> u32 {
        self.terms.push(term);
        self.terms.len() as u32 - 1
    }
}

/// Reads one text into a problem.
struct Reader<'a> {
    problem: &'a mut Problem,
    path: &'a Path,
    rest: &'a str,
    text: &'a str,
    /// The variables of the clause that is being read.
    variables: Vec<String>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn new(problem: &'a mut Problem, path: &'a Path, text: &'a str, depth: usize) -> Reader<'a> {
        Reader {
            problem,
            path,
            rest: text,
            text,
            variables: Vec::new(),
            depth,
        }
    }

    fn all(mut self) -> Result<(), String> {
        while let Some(word) = self.word()? {
            match word {
                "cnf" => self.clause()?,
                "include" => self.inclusion()?,
                "fof" | "tff" | "thf" | "tcf" => {
                    return Err(self.wrong(&format!(
                        "{word} is not in clause normal form; clausify it first, for example by `eprover --cnf`"
                    )));
                }
                _ => return Err(self.expected("cnf or include", word)),
            }
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> String {
        let read = &self.text[..self.text.len() - self.rest.len()];
        let line = 1 + read.matches('\n').count();
        format!("{}:{line}: {what}", self.path.display())
    }

    fn expected(&self, what: &str, found: &str) -> String {
        match found {
            "" => self.wrong(&format!("{what} expected, and the text ends")),
            found => self.wrong(&format!("{what} expected, not {found:?}")),
        }
    }

    /// Takes the next word or sign; `None` at the end.
    fn word(&mut self) -> Result<Option<&'a str>, String> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with('%') {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/");
                let end = end.ok_or_else(|| self.wrong("a comment without end"))?;
                self.rest = &self.rest[end + 2..];
            } else {
                break;
            }
        }
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
        let length = match first {
            '\'' | '"' => {
                let end = self.rest[1..].find([first, '\n']);
                let end = end.filter(|end| self.rest[1 + end..].starts_with(first));
                2 + end.ok_or_else(|| self.wrong("a quoted name without end"))?
            }
            first if is_part(first) => self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()),
            '!' if self.rest.starts_with("!=") => 2,
            first => first.len_utf8(),
        };
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(Some(word))
    }

    fn peek(&mut self) -> Result<&'a str, String> {
        let rest = self.rest;
        let word = self.word()?.unwrap_or("");
        // Only what follows comments and space is kept.
        self.rest = if word.is_empty() { self.rest } else { rest };
        Ok(word)
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.word()? {
            Some(word) if word == sign => Ok(()),
            found => Err(self.expected(&format!("{sign:?}"), found.unwrap_or(""))),
        }
    }

    fn name(&mut self, what: &str) -> Result<&'a str, String> {
        let word = self.word()?.unwrap_or("");
        let is_name = word.starts_with(|c: char| c.is_ascii_alphanumeric() || "_$'\"".contains(c));
        match is_name {
            true => Ok(word),
            false => Err(self.expected(what, word)),
        }
    }

    fn inclusion(&mut self) -> Result<(), String> {
        self.expect("(")?;
        let file = self.name("a quoted file")?.trim_matches('\'');
        self.expect(")")?;
        self.expect(".")?;
        if self.depth >= INCLUSIONS {
            return Err(self.wrong("an include inside too many others"));
        }
        let beside = self.path.parent().unwrap_or(Path::new("")).join(file);
        let library = std::env::var_os("TPTP").map(|root| PathBuf::from(root).join(file));
        let path = match library {
            Some(library) if !beside.exists() => library,
            _ => beside,
        };
        let included = self.problem.include(&path, self.depth + 1);
        included.map_err(|error| self.wrong(&error))
    }

    fn clause(&mut self) -> Result<(), String> {
        self.expect("(")?;
        let name = self.name("a name")?.to_string();
        self.expect(",")?;
        self.name("a role")?;
        self.expect(",")?;
        self.variables.clear();
        let mut literals = Vec::new();
        let mut is_true = false;
        let parentheses = self.peek()? == "(";
        if parentheses {
            self.expect("(")?;
        }
        loop {
            match self.literal()? {
                Fact::Literal(_) if literals.len() == NODES => {
                    return Err(self.wrong(&format!("a clause has more than {NODES} literals")));
                }
                Fact::Literal(literal) => literals.push(literal),
                Fact::Constant(value) => is_true |= value,
            }
            if self.peek()? != "|" {
                break;
            }
            self.expect("|")?;
        }
        if parentheses {
            self.expect(")")?;
        }
        match self.word()? {
            Some(")") => {}
            // What follows is about the clause's origin.
            Some(",") => {
                let mut open = 1;
                while open > 0 {
                    match self.word()? {
                        Some("(" | "[") => open += 1,
                        Some(")" | "]") => open -= 1,
                        Some(_) => {}
                        None => return Err(self.expected("\")\"", "")),
                    }
                }
            }
            found => return Err(self.expected("\"|\", \",\" or \")\"", found.unwrap_or(""))),
        }
        self.expect(".")?;
        if !is_true {
            self.problem.clauses.push(Clause {
                name,
                literals,
                variables: self.variables.len() as u32,
            });
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<Fact, String> {
        let mut negative = false;
        while self.peek()? == "~" {
            self.expect("~")?;
            negative = !negative;
        }
        let left = self.term(0)?;
        let sign = self.peek()?;
        let atom = match sign {
            "=" | "!=" => {
                self.expect(sign)?;
                negative ^= sign == "!=";
                let right = self.term(0)?;
                self.problem.apply("=", &[left, right])
            }
            _ => left,
        };
        match self.problem.terms[atom as usize] {
            Term::Variable(_) => Err(self.wrong("a variable is no formula; an atom is expected")),
            Term::Apply { symbol, .. } => {
                Ok(match self.problem.symbols[symbol as usize].0.as_str() {
                    "$true" => Fact::Constant(!negative),
                    "$false" => Fact::Constant(negative),
                    _ => Fact::Literal(Literal { negative, atom }),
                })
            }
        }
    }

    fn term(&mut self, depth: usize) -> Result<u32, String> {
        if depth == DEPTH {
            return Err(self.wrong(&format!("terms are nested deeper than {DEPTH}")));
        }
        let name = self.name("a term")?;
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            let known = self.variables.iter().position(|variable| variable == name);
            let number = known.unwrap_or(self.variables.len());
            if number == VARIABLES {
                return Err(self.wrong(&format!("a clause has more than {VARIABLES} variables")));
            }
            if known.is_none() {
                self.variables.push(name.to_string());
            }
            return Ok(self.problem.add(Term::Variable(number as u32)));
        }
        let mut arguments = Vec::new();
        if self.peek()? == "(" {
            self.expect("(")?;
            loop {
                if arguments.len() == ARGUMENTS {
                    return Err(self.wrong(&format!("a term has more than {ARGUMENTS} arguments")));
                }
                arguments.push(self.term(depth + 1)?);
                match self.word()? {
                    Some(",") => {}
                    Some(")") => break,
                    found => return Err(self.expected("\",\" or \")\"", found.unwrap_or(""))),
                }
            }
        }
        Ok(self.problem.apply(name, &arguments))
    }
}

/// A literal, or a constant truth value.
enum Fact {
    Literal(Literal),
    Constant(bool),
}
