//! The windows of this very program, as the kernel sees them: read from the section that holds the
//! descriptors.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use object::{Object, ObjectSection, ObjectSymbol};

use super::trap::{Kind, Stop};

/// Where the descriptors of `sequence!` lie.
pub const SECTION: &str = "__rseq_cs";

const LONGEST_INSTRUCTION: usize = 15;

/// The instructions that one descriptor covers.
#[derive(Clone, Debug)]
pub struct Window {
    /// The function it lies in.
    pub name: String,
    /// The first instruction's address in the program's file.
    pub address: u64,
    /// The first instruction.
    pub start: usize,
    /// Behind the last instruction.
    pub end: usize,
    /// Where the kernel continues an interrupted thread.
    pub abort: usize,
    /// The places where an interruption can fall: the instruction before `start`, all instructions,
    /// and last `end`.
    pub boundaries: Vec<usize>,
    /// The register that holds the slot from its fourth instruction on; `None` if it has no slot.
    pub slot: Option<Register>,
}

impl Window {
    /// Whether an interruption at this boundary restarts the sequence.
    pub fn restarts(&self, boundary: usize) -> bool {
        (self.start..self.end).contains(&self.boundaries[boundary])
    }

    /// Interrupts at the first instruction.
    pub fn at_start(&self, kind: Kind) -> Stop {
        Stop::in_window(self.start, self.abort, kind)
    }

    /// The instruction at a boundary, for messages.
    pub fn describe(&self, boundary: usize) -> String {
        let address = self.boundaries[boundary];
        let place = match address {
            address if address < self.start => "before the first",
            address if address == self.end => "after the last",
            _ => "inside",
        };
        let instruction = instructions(address..address + LONGEST_INSTRUCTION).next();
        let text = instruction.map_or_else(String::new, |instruction| instruction.to_string());
        format!("{}, boundary {boundary} ({place}): {text}", self.name)
    }
}

/// This program, as it lies in memory.
pub struct Program {
    base: usize,
    text: Range<usize>,
    sections: Vec<(String, Range<usize>)>,
    /// By their start; of several at one place, the first of the file is the last here.
    functions: Vec<(Range<usize>, String)>,
}

impl Program {
    /// Reads the program's file.
    pub fn this() -> Program {
        let bytes = std::fs::read("/proc/self/exe").expect("a program can read itself");
        let file = object::File::parse(&*bytes).expect("this program is an ELF file");
        // SAFETY: looks up a number that the kernel passed at program start.
        let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
        let base = entry - file.entry() as usize;
        let place = |address: u64, size: u64| {
            let start = base + address as usize;
            start..start + size as usize
        };
        let sections: Vec<(String, Range<usize>)> = file
            .sections()
            .map(|section| {
                let name = section.name().unwrap_or("?").to_string();
                (name, place(section.address(), section.size()))
            })
            .collect();
        let mut functions: Vec<(Range<usize>, String)> = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
            .map(|symbol| {
                let name = rustc_demangle::demangle(symbol.name().unwrap_or("?"));
                (place(symbol.address(), symbol.size()), format!("{name:#}"))
            })
            .collect();
        functions.reverse();
        functions.sort_by_key(|(place, _)| place.start);
        let text = sections
            .iter()
            .find(|(name, _)| name == ".text")
            .map(|(_, place)| place.clone())
            .expect("a program has code");
        Program {
            base,
            text,
            sections,
            functions,
        }
    }

    /// Where a section lies.
    pub fn section(&self, name: &str) -> Option<Range<usize>> {
        let section = self.sections.iter().find(|(found, _)| found == name);
        section.map(|(_, place)| place.clone())
    }

    /// How far an address of the program is from the same place in its file.
    pub fn base(&self) -> usize {
        self.base
    }

    /// The function that holds an address: where it lies, and its name.
    pub fn function_at(&self, address: usize) -> Option<(Range<usize>, &str)> {
        let (place, name) = self.function(address)?;
        Some((place.clone(), name))
    }

    /// All functions: where each lies, and its name.
    pub fn functions(&self) -> impl Iterator<Item = (Range<usize>, &str)> {
        let functions = self.functions.iter();
        functions.map(|(place, name)| (place.clone(), name.as_str()))
    }

    /// Its code.
    pub fn text(&self) -> Range<usize> {
        self.text.clone()
    }

    /// Every window whose descriptor lies in a section.
    ///
    /// # Panics
    ///
    /// If there is none: the test would check nothing.
    pub fn windows(&self, section: &str) -> Vec<Window> {
        let table = self.section(section);
        let table = table.unwrap_or_else(|| panic!("this program has no section {section}"));
        let size = table.len();
        assert!(
            size > 0 && size.is_multiple_of(32),
            "{section} has {size} bytes"
        );
        let descriptors = table.step_by(32);
        descriptors
            .map(|descriptor| self.window(descriptor))
            .collect()
    }

    /// The function at an address and the distance from its start, for messages.
    pub fn place(&self, address: usize) -> String {
        self.function(address).map_or_else(
            || format!("{address:#x}"),
            |(function, name)| format!("{name}+{:#x}", address - function.start),
        )
    }

    fn function(&self, address: usize) -> Option<&(Range<usize>, String)> {
        let after = self
            .functions
            .partition_point(|(function, _)| function.start <= address);
        let mut before = self.functions[..after].iter().rev();
        before.find(|(function, _)| function.contains(&address))
    }

    fn window(&self, descriptor: usize) -> Window {
        // SAFETY: the section is part of this program's own image, relocated, and never written
        // again.
        let [_, start, length, abort] = unsafe { *(descriptor as *const [usize; 4]) };
        let end = start + length;
        let decoded: Vec<Instruction> = instructions(start..end).collect();
        let (function, name) = self
            .function(start)
            .unwrap_or_else(|| panic!("no function holds the window at {start:#x}"));
        let before = instructions(function.start..start)
            .last()
            .unwrap_or_else(|| panic!("{name} begins with a window that nothing arms"));
        let inside = decoded.iter().map(|instruction| instruction.ip() as usize);
        let boundaries = [before.ip() as usize]
            .into_iter()
            .chain(inside)
            .chain([end]);
        let slot = match &*decoded {
            [number, multiply, ..]
                if number.mnemonic() == Mnemonic::Movsxd
                    && multiply.mnemonic() == Mnemonic::Imul
                    && multiply.op0_register() == number.op0_register() =>
            {
                Some(number.op0_register())
            }
            _ => None,
        };
        Window {
            name: name.clone(),
            address: (start - self.base) as u64,
            start,
            end,
            abort,
            boundaries: boundaries.collect(),
            slot,
        }
    }
}

/// Decodes code of this program.
pub fn instructions(range: Range<usize>) -> impl Iterator<Item = Instruction> {
    // SAFETY: the caller's range lies in this program's text, which is readable.
    let code = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) };
    let mut decoder = Decoder::with_ip(64, code, range.start as u64, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
        .inspect(|instruction| assert!(!instruction.is_invalid(), "not an instruction"))
}
