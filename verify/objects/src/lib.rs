//! Sequences that every object of these tests contains, and the checks of the rows found.
//!
//! `src/bin/probe.rs` is a program, `examples/plugin.rs` a shared object. Each links this crate,
//! and atomseq, independently: where both are loaded, there are two atomseqs, and each must find
//! the sequences of both.

#![cfg(atomseq_sections)]

use atomseq::internals::inspect::inspect;
use atomseq::internals::table::{self, Row};

mod sequences {
    atomseq::sequence! {
        /// Removes the first node of a list.
        pub(super) unsafe fn take(list: Word) -> Word {
            let first = load(list);
            if first == 0 { return 0 }
            let next = load(first);
            commit(list, next);
            first
        }

        /// Stores twice.
        pub(super) unsafe fn both(a: Word, b: Word, value: Word) {
            store(a, value);
            store(b, value);
        }
    }
}

/// A function that contains copies of sequences.
pub struct Holder {
    /// The function itself.
    pub function: extern "C" fn(usize, usize) -> usize,
    /// The number of restartable copies.
    pub restarting: usize,
    /// The number of rolling copies.
    pub rolling: usize,
}

/// The largest distance of a sequence from the beginning of its function.
const FARTHEST: usize = 512;

extern "C" fn restarts(list: usize, _: usize) -> usize {
    // SAFETY: called by `run` alone, with words of its own.
    unsafe { sequences::take::restarting(list) }
}

extern "C" fn rolls(list: usize, words: usize) -> usize {
    // SAFETY: called by `run` alone, with words of its own.
    unsafe {
        sequences::both::rolling(words, words + 8, 7);
        sequences::take::rolling(list)
    }
}

extern "C" fn mixes(list: usize, words: usize) -> usize {
    // SAFETY: called by `run` alone, with words of its own.
    unsafe {
        let first = sequences::take::restarting(list);
        sequences::both::unprotected(words, words + 8, first);
        first ^ sequences::take::restarting(list) ^ sequences::take::rolling(list)
    }
}

/// The functions of this object that contain sequences.
pub static HOLDERS: [Holder; 3] = [
    Holder {
        function: restarts,
        restarting: 1,
        rolling: 0,
    },
    Holder {
        function: rolls,
        restarting: 0,
        rolling: 2,
    },
    Holder {
        function: mixes,
        restarting: 2,
        rolling: 1,
    },
];

/// Runs each, so that no optimizer can remove one.
pub fn run() {
    for holder in &HOLDERS {
        let last = [0usize; 2];
        let mut list = last.as_ptr() as usize;
        let mut words = [0usize; 2];
        let list = &raw mut list as usize;
        let result = (std::hint::black_box(holder.function))(list, words.as_mut_ptr() as usize);
        assert!(result == last.as_ptr() as usize && words[0] == words[1]);
    }
}

/// Checks that all sequences of this object are in the current table; returns the number of rows.
///
/// # Errors
///
/// What is missing or wrong.
pub fn check(holders: &[Holder; 3]) -> Result<usize, String> {
    let rows: Vec<Row> = table::rows().collect();
    if table::refused() > 0 {
        return Err(format!("{} rows were refused", table::refused()));
    }
    for (index, holder) in holders.iter().enumerate() {
        let begin = holder.function as usize;
        let own = || {
            rows.iter()
                .filter(|row| row.start.wrapping_sub(begin) < FARTHEST)
        };
        // Another function may follow within this distance.
        let restarting = own().filter(|row| row.clone.is_none()).count();
        let rolling = own().filter(|row| row.clone.is_some()).count();
        if restarting < holder.restarting || rolling < holder.rolling {
            return Err(format!(
                "holder {index} has {restarting} and {rolling} rows"
            ));
        }
    }
    rows.iter().try_for_each(edges)?;
    Ok(rows.len())
}

/// Checks that a row is found strictly inside, and nowhere else.
///
/// # Errors
///
/// The address where the look-up is wrong.
pub fn edges(row: &Row) -> Result<(), String> {
    // SAFETY: a row of a loaded object.
    unsafe { inspect(row) }.map_err(|refused| refused.to_string())?;
    let must = |holds: bool, what: &str| match holds {
        true => Ok(()),
        false => Err(format!("{what}: {row:x?}")),
    };
    must(table::find(row.start).is_none(), "found at its start")?;
    must(table::find(row.end).is_none(), "found at its end")?;
    for pc in row.start + 1..row.end {
        must(table::find(pc) == Some(*row), "not found inside")?;
        must(table::find_clone(pc).is_none(), "found as a clone")?;
    }
    let Some(clone) = row.clone else {
        return Ok(());
    };
    for pc in clone.start..clone.limit {
        must(
            table::find_clone(pc) == Some(*row),
            "not found in its clone",
        )?;
        must(
            table::find(pc).is_none(),
            "its clone is found as a sequence",
        )?;
    }
    for pc in [clone.start - 1, clone.limit] {
        must(
            table::find_clone(pc) != Some(*row),
            "found beside its clone",
        )?;
    }
    Ok(())
}

/// The interface of a plugin, under the name `plugin`.
#[repr(C)]
pub struct Plugin {
    /// Its functions that contain sequences.
    pub holders: &'static [Holder; 3],
    /// Refreshes its own table, and finds these in it; returns the number of rows, or 0.
    pub check: extern "C" fn(&[Holder; 3]) -> usize,
    /// Returns start, end, clone and limit of the first sequence in one of its holders.
    pub row: extern "C" fn(usize, &mut [usize; 4]),
}
