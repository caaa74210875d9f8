//! The rows of an executable's table of sequences, as a signal handler finds them: notes, each with
//! five offsets from their own places.

use std::ops::Range;

use crate::executable::Executable;

/// Where `sequence!` puts notes.
pub const SECTION: &str = ".note.atomseq";

/// Sizes of the name and of the description, the type, and the name with its zeros.
const HEAD: &[u8] = b"\x0c\0\0\0\x14\0\0\0\x02\0\0\0atomseq\0\0\0\0\0";
/// A note's size.
const SIZE: u64 = 44;

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The sequence.
    pub place: Range<u64>,
    /// Its clone with its ends.
    pub clone: Option<Range<u64>>,
    /// The function that the sequence lies in.
    pub function: String,
}

/// All rows of a section, and what is wrong with the table.
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

/// No address may belong to two sequences, two clones, or one of each.
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
