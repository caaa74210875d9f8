//! The rows of an executable's table of sequences, as a signal handler finds them: notes, each with
//! five offsets relative to their own addresses. And the rules for a row's code.
//!
//! ```text
//! start:  …                       no call, no jump but out; at most 32 instructions
//! end:
//! clone:  …                       the same instructions, each as long; branches lead to ends
//!         call [rsp]; .long end - .
//!         call [rsp]; .long exit - .     for every branch, in their order
//! limit:
//! ```

use std::ops::Range;

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, Register};

use crate::executable::Executable;
use crate::rules::{changes_stack, is_atomic};

/// The section in which `sequence!` puts notes.
pub const SECTION: &str = ".note.atomseq";

/// The sizes of the name and of the description, the type, and the padded name.
const HEAD: &[u8] = b"\x0c\0\0\0\x14\0\0\0\x02\0\0\0atomseq\0\0\0\0\0";
/// The size of a note.
const SIZE: u64 = 44;

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The sequence.
    pub place: Range<u64>,
    /// Its clone, including the clone's ends.
    pub clone: Option<Range<u64>>,
    /// The function that contains the sequence.
    pub function: String,
}

/// Returns all rows of a section, and the violations found in the table.
pub fn rows(executable: &Executable, section: &str) -> (Vec<Row>, Vec<String>) {
    let Some(table) = executable.section(section) else {
        return (vec![], vec![format!("there is no section {section}")]);
    };
    let mut wrong = Vec::new();
    let size = table.place.end - table.place.start;
    if size == 0 || !size.is_multiple_of(SIZE) || table.alignment != 4 {
        wrong.push(format!(
            "{section} has {size} bytes, aligned to {}",
            table.alignment
        ));
    }
    let mut rows = Vec::new();
    for note in table.place.clone().step_by(SIZE as usize) {
        if executable.bytes(note..note + HEAD.len() as u64) != HEAD {
            wrong.push(format!("at {note:#x} is no note of a row"));
            continue;
        }
        let address = |index: u64| {
            let place = note + HEAD.len() as u64 + 4 * index;
            match executable.word32(place) {
                Some(0) | None => None,
                Some(offset) => Some(place.wrapping_add_signed(i64::from(offset as i32))),
            }
        };
        match [0, 1, 2, 3].map(address) {
            [Some(start), Some(end), None, None] => rows.push((start..end, None)),
            [Some(start), Some(end), Some(clone), Some(limit)] => {
                rows.push((start..end, Some(clone..limit)));
            }
            addresses => wrong.push(format!("a row with the addresses {addresses:x?}")),
        }
    }
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(place, clone)| Row {
            function: executable.symbol_at(place.start).map_or_else(
                || format!("{:#x}", place.start),
                |symbol| symbol.name.clone(),
            ),
            place,
            clone,
        })
        .collect();
    wrong.extend(overlaps(&rows));
    (rows, wrong)
}

/// Checks that no address belongs to two sequences, two clones, or one of each.
fn overlaps(rows: &[Row]) -> Vec<String> {
    let mut places: Vec<(&Range<u64>, &str)> = Vec::new();
    for row in rows {
        places.push((&row.place, &row.function));
        places.extend(row.clone.as_ref().map(|clone| (clone, &*row.function)));
    }
    places.sort_by_key(|(place, _)| place.start);
    places
        .windows(2)
        .filter(|pair| pair[0].0.end > pair[1].0.start)
        .map(|pair| format!("the rows of {} and {} overlap", pair[0].1, pair[1].1))
        .collect()
}

const LONGEST_SEQUENCE: usize = 32;
/// The return to the handler that runs the clone, and the address at which to continue.
const BACK_BYTES: u64 = 3;
const END_BYTES: u64 = BACK_BYTES + 4;

/// Returns the rules that a row violates.
pub fn of_a_row(executable: &Executable, row: &Row) -> Vec<String> {
    let code = executable.instructions(row.place.clone());
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let whole = row.place.is_empty()
        || code
            .last()
            .is_some_and(|last| last.next_ip() == row.place.end)
            && code.iter().all(|each| !each.is_invalid());
    must(whole, "ends where an instruction ends".to_string());
    let count = code.len();
    must(
        count <= LONGEST_SEQUENCE,
        format!("has {count} instructions"),
    );
    for each in &code {
        must(
            stays(row, each),
            format!("`{each}` only continues, or leaves the sequence"),
        );
        must(
            !is_atomic(each),
            format!("`{each}` is no atomic instruction"),
        );
        must(
            !changes_stack(each),
            format!("`{each}` leaves the stack alone"),
        );
        must(
            !each.is_ip_rel_memory_operand(),
            format!("`{each}` is the same in another place"),
        );
    }
    if let Some(clone) = &row.clone {
        wrong.extend(of_a_clone(executable, row, &code, clone));
    }
    wrong
}

/// Returns whether the instruction is neither a call nor a jump, except a branch out of the
/// sequence.
fn stays(row: &Row, instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Next => instruction.mnemonic() != Mnemonic::Syscall,
        FlowControl::ConditionalBranch => {
            let target = instruction.near_branch_target();
            !(row.place.start..=row.place.end).contains(&target)
        }
        _ => false,
    }
}

fn of_a_clone(
    executable: &Executable,
    row: &Row,
    code: &[Instruction],
    clone: &Range<u64>,
) -> Vec<String> {
    let length = row.place.end - row.place.start;
    let cloned = executable.instructions(clone.start..clone.start + length);
    if cloned.len() != code.len() {
        return vec!["its clone has as many instructions".to_string()];
    }
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let mut end = clone.start + length;
    let lands = |end: u64| landing(executable, clone, end);
    must(
        lands(end) == Some(row.place.end),
        "its clone's end leads to its end".to_string(),
    );
    for (own, its) in code.iter().zip(&cloned) {
        let same_place = own.ip() - row.place.start == its.ip() - clone.start;
        must(
            same_place && own.len() == its.len(),
            format!("`{its}` is as long as `{own}`"),
        );
        if own.flow_control() != FlowControl::ConditionalBranch {
            let bytes = |each: &Instruction| executable.bytes(each.ip()..each.next_ip());
            must(bytes(own) == bytes(its), format!("`{its}` is `{own}`"));
            continue;
        }
        end += END_BYTES;
        must(
            own.code() == its.code(),
            format!("`{its}` is the branch `{own}`"),
        );
        must(
            its.near_branch_target() == end,
            format!("`{its}` leads to its own end"),
        );
        let exit = own.near_branch_target();
        must(
            lands(end) == Some(exit),
            format!("the end of `{its}` leads to {exit:#x}"),
        );
    }
    must(
        end + END_BYTES == clone.end,
        "its clone ends with its ends".to_string(),
    );
    wrong
}

/// Returns the target of one of a clone's ends, if there is an end.
fn landing(executable: &Executable, clone: &Range<u64>, end: u64) -> Option<u64> {
    let place = end + BACK_BYTES;
    let [instruction] = *executable.instructions(end..place) else {
        return None;
    };
    let inside = end + END_BYTES <= clone.end;
    let is_call_of_stack_top = instruction.code() == Code::Call_rm64
        && instruction.memory_base() == Register::RSP
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == 0;
    let offset = executable.word32(place)? as i32;
    (is_call_of_stack_top && inside).then(|| place.wrapping_add_signed(offset.into()))
}
