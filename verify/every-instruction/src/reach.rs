//! Finds the functions of this program that can run at all.
//!
//! A descriptor prevents the linker from dropping the function that contains it, even one that was
//! inlined into all of its callers. Such a copy cannot be interrupted, because no code leads to it.
//! To find these, everything reachable is collected: from the program's entry and all addresses in
//! its data, along every address that code names.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind};

/// The reachable functions, by their addresses in the file.
pub struct Reachable {
    functions: Vec<Range<u64>>,
    reached: HashSet<usize>,
}

impl Reachable {
    /// Follows this program's code; the addresses in section `descriptors` itself do not count.
    pub fn of_this_program(descriptors: &str) -> Reachable {
        let bytes = std::fs::read("/proc/self/exe").expect("a program can read itself");
        let file =
            ElfFile64::<object::Endianness>::parse(&*bytes).expect("this program is an ELF file");
        let mut functions: Vec<Range<u64>> = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| symbol.address()..symbol.address() + symbol.size())
            .collect();
        functions.sort_by_key(|function| (function.start, function.end));
        functions.dedup_by_key(|function| function.start);
        let mut reachable = Reachable {
            functions,
            reached: HashSet::new(),
        };
        let mut roots: Vec<u64> = [file.entry()]
            .into_iter()
            .chain(file.dynamic_symbols().map(|symbol| symbol.address()))
            .chain(addresses_in_data(&file, descriptors))
            .collect();
        // Code outside of all functions, such as the C library's start-up code.
        let texts: Vec<(u64, &[u8])> = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .map(|section| (section.address(), section.data().unwrap_or_default()))
            .collect();
        for (address, code) in &texts {
            if reachable
                .functions_in(*address, code.len() as u64)
                .is_empty()
            {
                roots.extend(named(*address, code));
            }
        }
        while let Some(address) = roots.pop() {
            let Some(function) = reachable.function(address) else {
                continue;
            };
            if !reachable.reached.insert(function) {
                continue;
            }
            let range = reachable.functions[function].clone();
            let text = texts
                .iter()
                .find(|(start, code)| (*start..start + code.len() as u64).contains(&range.start));
            if let Some((start, code)) = text {
                let code = &code[(range.start - start) as usize..(range.end - start) as usize];
                roots.extend(named(range.start, code));
            }
        }
        reachable
    }

    /// Returns whether the function at this address of the file is reachable.
    pub fn leads_to(&self, address: u64) -> bool {
        self.function(address)
            .is_none_or(|function| self.reached.contains(&function))
    }

    fn function(&self, address: u64) -> Option<usize> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        after
            .checked_sub(1)
            .filter(|function| self.functions[*function].contains(&address))
    }

    fn functions_in(&self, address: u64, length: u64) -> &[Range<u64>] {
        let from = |address: u64| {
            self.functions
                .partition_point(|function| function.start < address)
        };
        &self.functions[from(address)..from(address + length)]
    }
}

/// Returns every address that relocated data holds, except those in the descriptors.
fn addresses_in_data(file: &ElfFile64<'_>, descriptors: &str) -> Vec<u64> {
    let own: Vec<Range<u64>> = file
        .sections()
        .filter(|section| {
            section
                .name()
                .is_ok_and(|name| name.starts_with(descriptors))
        })
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let relocations = file
        .dynamic_relocations()
        .expect("a program that can move lists the addresses it holds");
    relocations
        .filter(|(place, _)| !own.iter().any(|section| section.contains(place)))
        .filter(|(_, relocation)| relocation.target() == RelocationTarget::Absolute)
        .map(|(_, relocation)| relocation.addend() as u64)
        .collect()
}

/// Returns every address that an instruction names: branch targets, and addresses relative to the
/// instruction.
fn named(address: u64, code: &[u8]) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut addresses = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction
            .op_kinds()
            .any(|kind| kind == OpKind::NearBranch64)
        {
            addresses.push(instruction.near_branch_target());
        }
        if instruction.is_ip_rel_memory_operand() {
            addresses.push(instruction.ip_rel_memory_address());
        }
    }
    addresses
}
