//! The rows of this program's own table of sequences, read from the notes in its file by code that
//! shares nothing with the library's.

use std::ops::Range;

use iced_x86::Mnemonic;

use verify_support::code::table::{Program, instructions};
use verify_support::code::trap;

/// The section that holds the notes.
pub const SECTION: &str = ".note.atomseq";

/// One copy of one sequence.
#[derive(Clone, Debug)]
pub struct Row {
    /// The function that contains it.
    pub name: String,
    /// The first instruction's address in the program's file.
    pub address: u64,
    /// The first instruction.
    pub start: usize,
    /// The address after the last instruction.
    pub end: usize,
    /// The addresses where a signal can arrive: each instruction, and `end`.
    pub boundaries: Vec<usize>,
    /// The clone of a rolling sequence.
    pub clone: Option<Range<usize>>,
}

impl Row {
    /// Returns whether the sequence is in progress when its next instruction is this one.
    pub fn is_inside(&self, pointer: usize) -> bool {
        self.start < pointer && pointer < self.end
    }

    /// Returns the clone's instruction for one of the sequence's.
    pub fn in_clone(&self, pointer: usize) -> Option<usize> {
        let clone = self.clone.as_ref()?;
        Some(pointer - self.start + clone.start)
    }

    /// Returns the addresses in the clone where a signal can arrive: after its first instruction,
    /// which is never run, up to the jump that ends it. Empty for a sequence of one instruction,
    /// inside of which no signal can arrive.
    pub fn clone_boundaries(&self) -> Vec<usize> {
        if self.boundaries.len() <= 2 {
            return Vec::new();
        }
        let inside = self
            .boundaries
            .iter()
            .filter(|pointer| **pointer > self.start);
        inside
            .filter_map(|pointer| self.in_clone(*pointer))
            .collect()
    }

    /// Returns the kinds of its instructions, whatever registers they use.
    pub fn code(&self) -> Vec<Mnemonic> {
        instructions(self.start..self.end)
            .map(|instruction| instruction.mnemonic())
            .collect()
    }

    /// Describes the instruction at an address, for messages.
    pub fn describe(&self, address: usize) -> String {
        let text = instructions(address..address + 15)
            .next()
            .map_or_else(String::new, |instruction| instruction.to_string());
        let clone = self.clone.as_ref().filter(|clone| clone.contains(&address));
        let (place, distance) = match clone {
            Some(clone) => ("clone", address - clone.start),
            None => ("sequence", address.wrapping_sub(self.start)),
        };
        format!("{}, {place}+{distance:#x}: {text}", self.name)
    }
}

/// Returns every row of a program.
///
/// # Panics
///
/// If there is none, or one that violates the format of rows.
pub fn of(program: &Program) -> Vec<Row> {
    let section = program
        .section(SECTION)
        .expect("this program has sequences for signals");
    let (mut rows, mut at) = (Vec::new(), section.start);
    while at < section.end {
        // SAFETY: three words of a section of this program's image, which is mapped and never
        // written.
        let [name, description, kind] = unsafe { *(at as *const [u32; 3]) };
        let place = at + 12 + (name as usize).next_multiple_of(4);
        rows.push(row(program, place, description, kind));
        at = place + (description as usize).next_multiple_of(4);
    }
    assert_eq!(at, section.end, "the notes fill their section");
    assert!(!rows.is_empty(), "this program has no sequence for signals");
    rows
}

/// Makes a program, and the clones of these rows, writable for breakpoints.
pub fn unlock(program: &Program, rows: &[Row]) {
    trap::unlock(program.text());
    for clone in rows.iter().filter_map(|row| row.clone.as_ref()) {
        trap::unlock(clone.start..clone.end + 1);
    }
}

/// Returns a function as if it were a sequence: for code that is in no table.
///
/// # Panics
///
/// If there is no such function.
pub fn of_function(program: &Program, name: &str) -> Row {
    let mut functions = program.functions();
    let function = functions.find(|(_, found)| found.ends_with(name));
    let (place, name) = function.expect("a function of this name");
    let mut boundaries: Vec<usize> = starts(place.clone());
    boundaries.push(place.end);
    Row {
        name: name.to_string(),
        address: (place.start - program.base()) as u64,
        start: place.start,
        end: place.end,
        boundaries,
        clone: None,
    }
}

fn starts(range: Range<usize>) -> Vec<usize> {
    instructions(range)
        .map(|instruction| instruction.ip() as usize)
        .collect()
}

fn row(program: &Program, place: usize, size: u32, kind: u32) -> Row {
    assert_eq!(
        (size, kind),
        (20, 2),
        "a row is five words, and has a type of its own"
    );
    let target = |index: usize| {
        let word = place + 4 * index;
        // SAFETY: a word of the note.
        let offset = unsafe { *(word as *const i32) };
        (offset != 0).then(|| word.wrapping_add_signed(offset as isize))
    };
    let start = target(0).expect("a sequence starts somewhere");
    let end = target(1).expect("a sequence ends somewhere");
    let clone = target(2).zip(target(3)).map(|(start, limit)| start..limit);
    let mut boundaries = starts(start..end);
    boundaries.push(end);
    let (_, name) = program
        .function_at(start)
        .expect("a function holds the sequence");
    if let Some(clone) = &clone {
        let lengths = |pointers: &[usize]| -> Vec<usize> {
            pointers.windows(2).map(|pair| pair[1] - pair[0]).collect()
        };
        let mut copies = starts(clone.start..clone.start + (end - start));
        copies.push(clone.start + (end - start));
        assert_eq!(
            lengths(&boundaries),
            lengths(&copies),
            "{name}: the clone's instructions are as long"
        );
    }
    Row {
        name: name.to_string(),
        address: (start - program.base()) as u64,
        start,
        end,
        boundaries,
        clone,
    }
}
