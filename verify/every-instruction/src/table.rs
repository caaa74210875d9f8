//! The windows of this very program, as the kernel sees them: read from the section that holds the descriptors.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use object::{Object, ObjectSection, ObjectSymbol};

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
    /// The places where an interruption can fall: the instruction before `start`, all instructions, and last `end`.
    pub boundaries: Vec<usize>,
    /// The register that holds the slot from its fourth instruction on.
    pub slot: Option<Register>,
}

impl Window {
    /// Whether an interruption at this boundary restarts the sequence.
    pub fn restarts(&self, boundary: usize) -> bool {
        (self.start..self.end).contains(&self.boundaries[boundary])
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

/// Every window in a section of this program.
///
/// # Panics
///
/// If the program cannot be read or holds no descriptor: the test would check nothing.
pub fn windows(section: &str) -> Vec<Window> {
    let bytes = std::fs::read("/proc/self/exe").expect("a program can read itself");
    let file = object::File::parse(&*bytes).expect("this program is an ELF file");
    // SAFETY: looks up a number that the kernel passed at program start.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    let base = entry - file.entry() as usize;
    let table = file
        .section_by_name(section)
        .unwrap_or_else(|| panic!("this program has no section {section}"));
    let symbols = functions(&file);
    let (address, size) = (base + table.address() as usize, table.size() as usize);
    assert!(size > 0 && size % 32 == 0, "{section} has {size} bytes");
    (address..address + size)
        .step_by(32)
        .map(|descriptor| window(descriptor, base, &symbols))
        .collect()
}

fn window(descriptor: usize, base: usize, symbols: &[(Range<usize>, String)]) -> Window {
    // SAFETY: the section is part of this program's own image, relocated, and never written again.
    let [_, start, length, abort] = unsafe { *(descriptor as *const [usize; 4]) };
    let end = start + length;
    let decoded: Vec<Instruction> = instructions(start..end).collect();
    let (function, name) = symbols
        .iter()
        .find(|(range, _)| range.contains(&(start - base)))
        .unwrap_or_else(|| panic!("no function holds the window at {:#x}", start - base));
    let before = instructions(function.start + base..start)
        .last()
        .unwrap_or_else(|| panic!("{name} begins with a window that nothing arms"));
    let boundaries = [before.ip() as usize]
        .into_iter()
        .chain(decoded.iter().map(|instruction| instruction.ip() as usize))
        .chain([end])
        .collect();
    let slot = decoded
        .first()
        .filter(|first| first.mnemonic() == Mnemonic::Movsxd)
        .map(|first| first.op0_register());
    Window {
        name: name.clone(),
        address: (start - base) as u64,
        start,
        end,
        abort,
        boundaries,
        slot,
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

fn functions(file: &object::File<'_>) -> Vec<(Range<usize>, String)> {
    file.symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
        .map(|symbol| {
            let start = symbol.address() as usize;
            let name = symbol.name().unwrap_or("?");
            let name = format!("{:#}", rustc_demangle::demangle(name));
            (start..start + symbol.size() as usize, name)
        })
        .collect()
}
