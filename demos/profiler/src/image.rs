//! What an ELF file says about its own code: the function at an address, the source line, and the
//! extents of functions that have no name.
//!
//! Addresses in this file are those that the ELF file states, before relocation.

use std::rc::Rc;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianRcSlice, RunTimeEndian, UnwindSection};
use object::elf::PF_X;
use object::{CompressionFormat, Object, ObjectSection, ObjectSegment, ObjectSymbol};
use object::{SegmentFlags, SymbolKind};

type Reader = EndianRcSlice<RunTimeEndian>;

/// The code of a file.
pub struct Image {
    code: Vec<Segment>,
    /// Sorted by address.
    functions: Vec<Function>,
    /// Start and end of functions, from the unwind tables, which stripped files still contain.
    extents: Vec<(u64, u64)>,
    lines: Option<addr2line::Context<Reader>>,
    descriptors: Option<(u64, usize)>,
}

/// An executable segment of the file, and its address.
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

struct Function {
    start: u64,
    end: u64,
    name: String,
}

/// A source line, and the innermost function inlined there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    pub file: String,
    pub line: u32,
    pub function: String,
}

impl Image {
    /// Parses a file's bytes.
    pub fn parse(data: &[u8]) -> Result<Image, object::Error> {
        let file = object::File::parse(data)?;
        Ok(Image {
            code: code(&file),
            functions: functions(&file),
            extents: extents(&file),
            lines: lines(&file),
            descriptors: file
                .section_by_name("__rseq_cs")
                .map(|section| (section.address(), section.size() as usize)),
        })
    }

    /// Returns the address of the byte at an offset of the file, if it is code.
    pub fn address(&self, offset: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        // Mappings begin at page boundaries.
        let within = |segment: &&Segment| {
            (segment.offset / PAGE * PAGE..segment.offset + segment.size).contains(&offset)
        };
        let segment = self.code.iter().find(within)?;
        Some(
            segment
                .address
                .wrapping_sub(segment.offset)
                .wrapping_add(offset),
        )
    }

    /// Returns the demangled name of the function at an address.
    pub fn function(&self, address: u64) -> Option<String> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        // Aliases and nested symbols may lie between.
        let mut candidates = self.functions[..after].iter().rev().take(8);
        let function = candidates.find(|function| address < function.end)?;
        Some(demangled(&function.name))
    }

    /// Returns the start of the function at an address, from the unwind tables.
    pub fn beginning(&self, address: u64) -> Option<u64> {
        let after = self.extents.partition_point(|(start, _)| *start <= address);
        let (start, end) = self.extents[..after].last()?;
        (address < *end).then_some(*start)
    }

    /// Returns the innermost source line at an address.
    pub fn line(&self, address: u64) -> Option<Line> {
        let mut frames = self
            .lines
            .as_ref()?
            .find_frames(address)
            .skip_all_loads()
            .ok()?;
        let frame = frames.next().ok()??;
        let location = frame.location?;
        let function = frame
            .function
            .as_ref()
            .and_then(|function| Some(demangled(&function.raw_name().ok()?)));
        Some(Line {
            file: location.file?.to_owned(),
            line: location.line?,
            function: function.unwrap_or_default(),
        })
    }

    /// Returns address and size of the `rseq_cs` descriptors.
    pub fn descriptors(&self) -> Option<(u64, usize)> {
        self.descriptors
    }
}

/// Returns a Rust name without its hash, and any other name unchanged.
fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn code(file: &object::File<'_>) -> Vec<Segment> {
    file.segments()
        .filter(|segment| match segment.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags.0 & PF_X.0 != 0,
            _ => false,
        })
        .map(|segment| {
            let (offset, size) = segment.file_range();
            Segment {
                offset,
                size,
                address: segment.address(),
            }
        })
        .collect()
}

/// Reads both symbol tables: a stripped file still names its exports.
fn functions(file: &object::File<'_>) -> Vec<Function> {
    let mut functions: Vec<Function> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            Some(Function {
                start: symbol.address(),
                end: symbol.address() + symbol.size(),
                name: symbol
                    .name()
                    .ok()
                    .filter(|name| !name.is_empty())?
                    .to_owned(),
            })
        })
        .collect();
    functions.sort_by(|a, b| (a.start, a.end, &b.name).cmp(&(b.start, b.end, &a.name)));
    // Hand-written assembly may omit the size. Then the symbol extends to the next one.
    for index in (0..functions.len().saturating_sub(1)).rev() {
        if functions[index].end == functions[index].start {
            functions[index].end = functions[index + 1].start;
        }
    }
    functions
}

fn extents(file: &object::File<'_>) -> Vec<(u64, u64)> {
    let section = |name| file.section_by_name(name);
    let Some((frames, data)) = section(".eh_frame").and_then(|frames| {
        let data = frames.data().ok()?;
        Some((frames, data))
    }) else {
        return Vec::new();
    };
    let mut bases = BaseAddresses::default().set_eh_frame(frames.address());
    if let Some(text) = section(".text") {
        bases = bases.set_text(text.address());
    }
    if let Some(got) = section(".got") {
        bases = bases.set_got(got.address());
    }
    let frames = EhFrame::new(data, endian(file));
    let mut extents = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(function) = entry else {
            continue;
        };
        if let Ok(function) = function.parse(EhFrame::cie_from_offset) {
            let start = function.initial_address();
            extents.push((start, start.saturating_add(function.len())));
        }
    }
    extents.sort_unstable();
    extents
}

/// Reads the debugging information, unless it is missing or compressed.
fn lines(file: &object::File<'_>) -> Option<addr2line::Context<Reader>> {
    file.section_by_name(".debug_info")?;
    let load = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = file
            .section_by_name(id.name())
            .and_then(|section| section.compressed_data().ok())
            .filter(|data| data.format == CompressionFormat::None)
            .map_or(&[][..], |data| data.data);
        Ok(EndianRcSlice::new(Rc::from(data), endian(file)))
    };
    let dwarf = gimli::Dwarf::load(load).ok()?;
    addr2line::Context::from_dwarf(dwarf).ok()
}

fn endian(file: &object::File<'_>) -> RunTimeEndian {
    match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    }
}
