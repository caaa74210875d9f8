//! The sections of OS-assisted DCAS: two change words, two roll a change back. `line` is the
//! address of a `RevocableLock`, whose first field is the lock word.

use super::{HIGHEST_CPU, LOG, RevocableLock, SPARE};
use crate::dcas::lock::{
    ABORTED, BELOW_VERSION, BUSY, DONE, ELSEWHERE, HELD, ID, LOST, REFUSED, UNLOGGED, UNREGISTERED,
    VERSION,
};

crate::sequence! {
    /// Changes two words if both have their old values.
    pub(super) unsafe fn exchange(
        line: Word, first: Word, old_first: Word, new_first: Word, second: Word, old_second: Word, new_second: Word,
    ) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let free = load(line);
        // Literals, because AArch64 encodes them in its instructions: BELOW_VERSION, VERSION and
        // HELD.
        if (free & 0xffff) != 0 { return BUSY }
        let freed = free + 0x1_0000;
        let found = cas(line, free, free + own + 0x4000);
        if found != free { return BUSY }
        if load(first) != old_first { commit_release(line, freed); return REFUSED }
        if load(second) != old_second { commit_release(line, freed); return REFUSED }
        store(line + LOG, first);
        store(line + LOG + 8, old_first);
        store(line + LOG + 16, second);
        store(line + LOG + 24, old_second);
        store(line + LOG + 32, free);
        store(first, new_first);
        store(second, new_second);
        commit_release(line, freed);
        DONE
    }

    /// Stores to two words if the version is unchanged (GC96, note 5). The words are not compared.
    pub(super) unsafe fn store_pair_if(
        line: Word, free: Word, first: Word, new_first: Word, second: Word, new_second: Word,
    ) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let freed = free + 0x1_0000;
        let found = cas(line, free, free + own + 0x4000);
        if found != free { return REFUSED }
        store(line + LOG, first);
        store(line + LOG + 8, load(first));
        store(line + LOG + 16, second);
        store(line + LOG + 24, load(second));
        store(line + LOG + 32, free);
        store(first, new_first);
        store(second, new_second);
        commit_release(line, freed);
        DONE
    }

    /// Restores the words of a revoked exchange, if the claim still stands.
    pub(super) unsafe fn roll_back(
        line: Word, claim: Word, freed: Word, first: Word, old_first: Word, second: Word, old_second: Word,
    ) -> Word {
        if cpu() > HIGHEST_CPU { return UNREGISTERED }
        if load(line) != claim { return LOST }
        prepare(first, old_first);
        prepare(second, old_second);
        commit_release(line, freed);
        DONE
    }

    /// Restores the words of a holder whose CPU this thread is on. That holder was interrupted and
    /// never resumes.
    pub(super) unsafe fn roll_back_here(line: Word, held: Word, free: Word) -> Word {
        let own = cpu();
        if own != (held & 0x3fff) { return ELSEWHERE }
        if load(line) != held { return LOST }
        if load(line + LOG + 32) != free { return UNLOGGED }
        let first = load(line + LOG);
        let old_first = load(line + LOG + 8);
        let second = load(line + LOG + 16);
        let old_second = load(line + LOG + 24);
        prepare(first, old_first);
        prepare(second, old_second);
        commit_release(line, free + 0x1_0000);
        DONE
    }
}

const _: () =
    assert!(VERSION == 0x1_0000 && BELOW_VERSION == 0xffff && HELD == 0x4000 && ID == 0x3fff);
const _: () = assert!(LOG == std::mem::offset_of!(RevocableLock, log));
const _: () = assert!(
    SPARE == std::mem::offset_of!(RevocableLock, spare) && size_of::<RevocableLock>() == 64
);

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(in crate::dcas) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &exchange::MODEL,
    &store_pair_if::MODEL,
    &roll_back::MODEL,
    &roll_back_here::MODEL,
];
