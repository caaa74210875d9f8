//! An executable's sections, symbols, code and relocated words.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

use crate::listing::Known;

/// An executable file, read completely.
pub struct Executable {
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    /// Words that the loader fills in, by address.
    relocated: HashMap<u64, u64>,
    /// The names in its listings, from the first listing on.
    pub(crate) known: OnceCell<Rc<Known>>,
}

/// A part of the program.
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its address range.
    pub place: Range<u64>,
    /// Its alignment.
    pub alignment: u64,
    /// Whether it contains code.
    pub is_code: bool,
    bytes: Vec<u8>,
}

/// A function or a variable.
pub struct Symbol {
    /// Its name, without a hash.
    pub name: String,
    /// Its address range.
    pub place: Range<u64>,
    /// Whether it is a function.
    pub is_function: bool,
}

impl Executable {
    /// Reads the running program.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn this() -> Executable {
        Executable::read(&std::fs::read("/proc/self/exe").expect("a program can read itself"))
    }

    /// Parses an executable.
    ///
    /// # Panics
    ///
    /// If it is not a 64-bit ELF executable.
    pub fn read(bytes: &[u8]) -> Executable {
        let file = ElfFile64::<object::Endianness>::parse(bytes).expect("a 64-bit ELF file");
        let sections = file.sections().map(|section| Section {
            name: section.name().unwrap_or("?").to_string(),
            place: section.address()..section.address() + section.size(),
            alignment: section.align(),
            is_code: section.kind() == SectionKind::Text,
            bytes: section.data().unwrap_or_default().to_vec(),
        });
        let symbols = file.symbols().filter_map(|symbol| {
            let is_function = match symbol.kind() {
                SymbolKind::Text => true,
                SymbolKind::Data => false,
                _ => return None,
            };
            let name = rustc_demangle::demangle(symbol.name().ok()?);
            Some(Symbol {
                name: format!("{name:#}"),
                place: symbol.address()..symbol.address() + symbol.size(),
                is_function,
            })
        });
        let relocations = file.dynamic_relocations().into_iter().flatten();
        let relocated = relocations
            .filter(|(_, relocation)| relocation.target() == RelocationTarget::Absolute)
            .map(|(place, relocation)| (place, relocation.addend() as u64));
        Executable {
            sections: sections.collect(),
            symbols: symbols.collect(),
            relocated: relocated.collect(),
            known: OnceCell::new(),
        }
    }

    /// Returns a section by its name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Returns the section that contains an address.
    pub fn section_at(&self, address: u64) -> Option<&Section> {
        let mut loaded = self
            .sections
            .iter()
            .filter(|section| section.place.start != 0);
        loaded.find(|section| section.place.contains(&address))
    }

    /// Returns every section.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter()
    }

    /// Returns every function and variable.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter()
    }

    /// Returns a function by its name.
    pub fn function(&self, name: &str) -> Option<&Symbol> {
        let mut functions = self.symbols.iter().filter(|symbol| symbol.is_function);
        functions.find(|symbol| symbol.name == name)
    }

    /// Returns the function or variable that contains an address.
    pub fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        let mut symbols = self.symbols.iter();
        symbols.find(|symbol| symbol.place.contains(&address))
    }

    /// Returns bytes as stored in the file; empty if there are none.
    pub fn bytes(&self, place: Range<u64>) -> &[u8] {
        let Some(section) = self.section_at(place.start) else {
            return &[];
        };
        let from = (place.start - section.place.start) as usize;
        let to = (place.end - section.place.start) as usize;
        section.bytes.get(from..to).unwrap_or_default()
    }

    /// Returns a word of four bytes.
    pub fn word32(&self, address: u64) -> Option<u32> {
        let bytes = self.bytes(address..address + 4);
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    /// Returns a word of eight bytes, as it is when the program is loaded at address zero.
    pub fn word64(&self, address: u64) -> Option<u64> {
        if let Some(word) = self.relocated.get(&address) {
            return Some(*word);
        }
        let bytes = self.bytes(address..address + 8);
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns the instructions in a range.
    pub fn instructions(&self, place: Range<u64>) -> Vec<Instruction> {
        let code = self.bytes(place.clone());
        Decoder::with_ip(64, code, place.start, DecoderOptions::NONE)
            .into_iter()
            .collect()
    }
}
