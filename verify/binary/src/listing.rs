//! Prints code as text by which two builds can be compared: without addresses, and optionally
//! without register names.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use iced_x86::{Formatter, Instruction, IntelFormatter, OpKind, SymbolResolver, SymbolResult};

use crate::descriptor::{self, Descriptor};
use crate::executable::Executable;

/// The prefix of a window's lines.
const INSIDE: &str = "| ";

/// Returns a function, line by line: jumps to its own instructions by label, to others by name;
/// windows are marked.
pub fn function(executable: &Executable, place: Range<u64>, windows: &[Descriptor]) -> Vec<String> {
    let code = executable.instructions(place.clone());
    let targets = code.iter().map(Instruction::near_branch_target);
    let mut labels: Vec<u64> = targets.filter(|target| place.contains(target)).collect();
    labels.sort_unstable();
    labels.dedup();
    let labels: HashMap<u64, String> = labels
        .into_iter()
        .enumerate()
        .map(|(index, target)| (target, format!("L{index}")))
        .collect();
    let mut formatter = formatter(executable, labels.clone());
    // Padding may follow the last return.
    let last = code
        .iter()
        .rposition(|each| each.mnemonic() != iced_x86::Mnemonic::Int3);
    let mut lines = Vec::new();
    for instruction in &code[..last.map_or(0, |last| last + 1)] {
        if let Some(label) = labels.get(&instruction.ip()) {
            lines.push(format!("{label}:"));
        }
        let inside = windows.iter().any(|window| window.covers(instruction.ip()));
        let mark = if inside { INSIDE } else { "  " };
        let mut text = String::new();
        formatter.format(instruction, &mut text);
        lines.push(format!("{mark}{text}"));
    }
    lines
}

/// Returns the windows in a listing, with registers named in the order in which they appear.
pub fn windows<'a>(listing: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut windows: Vec<String> = Vec::new();
    let (mut names, mut inside) = (HashMap::new(), false);
    for line in listing {
        // A label inside a window belongs to a copy.
        if line.ends_with(':') {
            continue;
        }
        let Some(instruction) = line.strip_prefix(INSIDE) else {
            inside = false;
            continue;
        };
        if !inside {
            (names, inside) = (HashMap::new(), true);
            windows.push(String::new());
        }
        let window = windows.last_mut().expect("just pushed");
        window.push_str(&canonical(instruction, &mut names));
        window.push('\n');
    }
    windows
}

/// Returns a window in the form of [`windows`].
pub fn window(executable: &Executable, descriptor: &Descriptor) -> String {
    let place = descriptor.start..descriptor.end();
    let listing = function(executable, place, std::slice::from_ref(descriptor));
    windows(listing.iter().map(String::as_str)).concat()
}

/// Returns whether a window is a reviewed one, or that one with some of its registers united: the
/// compiler gives two operands of one value the same register, in optimized builds.
pub fn is_form_of(window: &str, reviewed: &str) -> bool {
    let mut united = HashMap::new();
    let (mut these, mut those) = (window.split("r#"), reviewed.split("r#"));
    these.next() == those.next()
        && these.clone().count() == those.clone().count()
        && these.zip(those).all(
            |(this, that)| match (this.split_once('.'), that.split_once('.')) {
                (Some((this, rest)), Some((that, other_rest))) => {
                    rest == other_rest && *united.entry(that).or_insert(this) == this
                }
                _ => false,
            },
        )
}

/// Renames registers, keeping their sizes, and removes the targets of jumps.
fn canonical(instruction: &str, names: &mut HashMap<&'static str, usize>) -> String {
    let (mnemonic, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
    if mnemonic.starts_with('j') {
        return mnemonic.to_string();
    }
    let mut text = format!("{mnemonic} ");
    let mut word = String::new();
    for character in operands.chars().chain(['\n']) {
        if character.is_ascii_alphanumeric() {
            word.push(character);
            continue;
        }
        match register(&word) {
            Some((register, bits)) => {
                let next = names.len();
                let name = names.entry(register).or_insert(next);
                text.push_str(&format!("r#{name}.{bits}"));
            }
            None => text.push_str(&word),
        }
        word.clear();
        text.push(character);
    }
    text.trim_end().to_string()
}

/// Returns a general register's full name, and the size of the part that the name denotes.
fn register(name: &str) -> Option<(&'static str, u32)> {
    const REGISTERS: [[&str; 4]; 16] = [
        ["rax", "eax", "ax", "al"],
        ["rbx", "ebx", "bx", "bl"],
        ["rcx", "ecx", "cx", "cl"],
        ["rdx", "edx", "dx", "dl"],
        ["rsi", "esi", "si", "sil"],
        ["rdi", "edi", "di", "dil"],
        ["rbp", "ebp", "bp", "bpl"],
        ["rsp", "esp", "sp", "spl"],
        ["r8", "r8d", "r8w", "r8b"],
        ["r9", "r9d", "r9w", "r9b"],
        ["r10", "r10d", "r10w", "r10b"],
        ["r11", "r11d", "r11w", "r11b"],
        ["r12", "r12d", "r12w", "r12b"],
        ["r13", "r13d", "r13w", "r13b"],
        ["r14", "r14d", "r14w", "r14b"],
        ["r15", "r15d", "r15w", "r15b"],
    ];
    const BITS: [u32; 4] = [64, 32, 16, 8];
    REGISTERS.iter().find_map(|parts| {
        let part = parts.iter().position(|part| *part == name)?;
        Some((parts[0], BITS[part]))
    })
}

fn formatter(executable: &Executable, labels: HashMap<u64, String>) -> IntelFormatter {
    let names = Names {
        known: Rc::clone(executable.known.get_or_init(|| known(executable))),
        labels,
    };
    let mut formatter = IntelFormatter::with_options(Some(Box::new(names)), None);
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_space_after_operand_separator(true);
    options.set_space_between_memory_add_operators(true);
    options.set_show_branch_size(false);
    formatter
}

/// Names for addresses that are the same in all listings of an executable.
pub(crate) struct Known {
    table: HashMap<u64, String>,
    symbols: Vec<(Range<u64>, String)>,
    sections: Vec<(Range<u64>, String)>,
}

fn known(executable: &Executable) -> Rc<Known> {
    let symbols = executable
        .symbols()
        .filter(|symbol| !symbol.place.is_empty())
        .map(|symbol| (symbol.place.clone(), symbol.name.clone()))
        .collect();
    let sections = executable
        .sections()
        .filter(|section| section.place.start != 0)
        .map(|section| (section.place.clone(), section.name.clone()))
        .collect();
    // An entry of the global offset table is named by its target.
    let table = executable.section(".got");
    let entries = table
        .into_iter()
        .flat_map(|table| table.place.clone().step_by(8));
    let table = entries.filter_map(|entry| {
        let target = executable.symbol_at(executable.word64(entry)?)?;
        Some((entry, target.name.clone()))
    });
    Rc::new(Known {
        table: table.collect(),
        symbols,
        sections,
    })
}

/// Names for addresses.
struct Names {
    known: Rc<Known>,
    labels: HashMap<u64, String>,
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _size: u32,
    ) -> Option<SymbolResult<'_>> {
        let is_branch =
            instruction.op_count() == 1 && instruction.op0_kind() == OpKind::NearBranch64;
        let is_address = instruction.is_ip_rel_memory_operand() || is_branch;
        if !is_address {
            return None;
        }
        let holds = |(place, _): &&(Range<u64>, String)| place.contains(&address);
        let named = self
            .labels
            .get(&address)
            .or_else(|| self.known.table.get(&address))
            .or_else(|| self.known.symbols.iter().find(holds).map(|(_, name)| name))
            .cloned();
        let name = named.unwrap_or_else(|| {
            let section = self.known.sections.iter().find(holds);
            match section.map(|(_, name)| name.as_str()) {
                Some(descriptor::SECTION) => "descriptor".to_string(),
                Some(".text") => "out_of_line".to_string(),
                Some(other) => other.to_string(),
                None => "nowhere".to_string(),
            }
        });
        Some(SymbolResult::with_string(address, name))
    }
}

#[cfg(test)]
mod tests {
    use super::is_form_of;

    #[test]
    fn only_registers_of_the_reviewed_window_are_united() {
        let reviewed = "mov [r#0.64], r#1.64\nmov [r#2.64 + 8], r#3.64\n";
        let united = "mov [r#0.64], r#1.64\nmov [r#2.64 + 8], r#1.64\n";
        assert!(is_form_of(reviewed, reviewed));
        assert!(is_form_of(united, reviewed));
        assert!(!is_form_of(reviewed, united));
        for other in [
            "mov [r#0.64], r#1.64\nmov [r#2.64 + 8], r#3.32\n",
            "mov [r#0.64], r#1.64\nmov [r#2.64 + 16], r#3.64\n",
            "mov [r#0.64], r#1.64\n",
            "",
        ] {
            assert!(!is_form_of(other, reviewed) && !is_form_of(reviewed, other));
        }
    }
}
