//! The descriptors of an executable, as the kernel reads them (`struct rseq_cs`).

use crate::executable::Executable;

/// The section in which `sequence!` puts descriptors.
pub const SECTION: &str = "__rseq_cs";
/// The section in which it puts their addresses.
pub const POINTERS: &str = "__rseq_cs_ptr_array";

/// The size of a descriptor, and its alignment.
pub const SIZE: u64 = 32;

/// One descriptor.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// The descriptor's address.
    pub address: u64,
    /// The layout's version.
    pub version: u32,
    /// Its flags.
    pub flags: u32,
    /// The first instruction of the window.
    pub start: u64,
    /// The length of the window in bytes.
    pub length: u64,
    /// The address at which an interrupted thread continues.
    pub abort: u64,
    /// The function that contains the window.
    pub function: String,
}

impl Descriptor {
    /// Returns the address after the last instruction.
    pub fn end(&self) -> u64 {
        self.start.wrapping_add(self.length)
    }

    /// Returns whether the window contains this address.
    pub fn covers(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.length
    }

    /// Returns whether this is the section that start-up interrupts on purpose. It is not a
    /// sequence: it commits nothing.
    pub fn is_self_test(&self) -> bool {
        self.function.starts_with("__atomseq_") && self.function.ends_with("_watch")
    }
}

/// Returns all descriptors of a section, and the violations found in the tables.
pub fn descriptors(
    executable: &Executable,
    section: &str,
    pointers: &str,
) -> (Vec<Descriptor>, Vec<String>) {
    let mut wrong = Vec::new();
    let Some(table) = executable.section(section) else {
        return (vec![], vec![format!("there is no section {section}")]);
    };
    let size = table.place.end - table.place.start;
    if size == 0 || !size.is_multiple_of(SIZE) || !table.alignment.is_multiple_of(SIZE) {
        wrong.push(format!(
            "{section} has {size} bytes, aligned to {}",
            table.alignment
        ));
    }
    let descriptors: Vec<Descriptor> = table
        .place
        .clone()
        .step_by(SIZE as usize)
        .filter_map(|address| descriptor(executable, address))
        .collect();
    let mut listed: Vec<u64> = executable
        .section(pointers)
        .into_iter()
        .flat_map(|section| section.place.clone().step_by(8))
        .filter_map(|address| executable.word64(address))
        .collect();
    listed.sort_unstable();
    if listed
        != descriptors
            .iter()
            .map(|each| each.address)
            .collect::<Vec<_>>()
    {
        wrong.push(format!(
            "{pointers} lists {} addresses, not those of the {} descriptors",
            listed.len(),
            descriptors.len()
        ));
    }
    let mut windows: Vec<&Descriptor> = descriptors.iter().collect();
    windows.sort_by_key(|window| window.start);
    for pair in windows.windows(2) {
        if pair[0].end() > pair[1].start {
            wrong.push(format!(
                "the windows of {} and {} overlap",
                pair[0].function, pair[1].function
            ));
        }
    }
    (descriptors, wrong)
}

fn descriptor(executable: &Executable, address: u64) -> Option<Descriptor> {
    let start = executable.word64(address + 8)?;
    Some(Descriptor {
        address,
        version: executable.word32(address)?,
        flags: executable.word32(address + 4)?,
        start,
        length: executable.word64(address + 16)?,
        abort: executable.word64(address + 24)?,
        function: executable
            .symbol_at(start)
            .map_or_else(|| format!("{start:#x}"), |symbol| symbol.name.clone()),
    })
}
