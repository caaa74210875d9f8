//! Sequences that every object of these tests carries, and what must be found of them.
//!
//! `examples/probe.rs` is a program, `examples/plugin.rs` a shared object. Each links this crate,
//! and atomseq, by itself: where both are loaded, there are two atomseqs, and each must find the
//! sequences of both.

#![cfg(atomseq_sections)]

use atomseq::internals::inspect::inspect;
use atomseq::internals::table::{self, Row};

mod sequences {
    atomseq::sequence! {
        /// Takes the first of a list.
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

/// A function that holds copies of sequences.
pub struct Holder {
    /// Where it begins.
    pub function: extern "C" fn(usize, usize) -> usize,
    /// How many copies that restart.
    pub restarting: usize,
    /// How many copies that are rolled forward.
    pub rolling: usize,
}

/// How far from its begin a function's sequences may be.
const FARTHEST: usize = 512;

extern "C" fn restarts(list: usize, _: usize) -> usize {
    // SAFETY: called by `run` alone, with words of its own.
    unsafe { sequences::take::restarting(list) }
}

extern "C" fn rolls(list: usize, words: usize) -> usize {
    // SAFETY: as above.
    unsafe {
        sequences::both::rolling(words, words + 8, 7);
        sequences::take::rolling(list)
    }
}

extern "C" fn mixes(list: usize, words: usize) -> usize {
    // SAFETY: as above.
    unsafe {
        let first = sequences::take::restarting(list);
        sequences::both::unprotected(words, words + 8, first);
        first ^ sequences::take::restarting(list) ^ sequences::take::rolling(list)
    }
}

/// The functions of this object that hold sequences.
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

/// Runs each, so that no optimizer can leave one out.
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

/// Is all of this object in the table as it is now?
///
/// # Errors
///
/// What is missing, or wrong.
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
        // Another function may follow so soon.
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

/// Is a row found strictly inside, and nowhere else?
///
/// # Errors
///
/// Where it is not.
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

/// What a plugin offers under the name `plugin`.
#[repr(C)]
pub struct Plugin {
    /// Its functions that hold sequences.
    pub holders: &'static [Holder; 3],
    /// Refreshes its own table, and looks for these in it; how many rows there are, or 0.
    pub check: extern "C" fn(&[Holder; 3]) -> usize,
    /// Start, end, clone and limit of the first sequence in one of its holders.
    pub row: extern "C" fn(usize, &mut [usize; 4]),
}
