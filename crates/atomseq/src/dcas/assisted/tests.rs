use super::*;
use crate::dcas::Mechanism;

const LAST: u64 = (1 << 48) - 1;

/// Two words, 1 and 2, and a lock at the last version.
struct Old {
    line: RevocableLock,
    words: [AtomicU64; 2],
}

impl Old {
    fn new() -> Old {
        let line = RevocableLock::new();
        line.lock.store(LAST << 16, Ordering::SeqCst);
        let words = [1, 2].map(AtomicU64::new);
        Old { line, words }
    }

    fn part(&self, index: usize, new: u64) -> Part {
        Part {
            word: &raw const self.words[index],
            old: 1 + index as u64,
            new,
        }
    }

    fn has(&self, version: u64, words: [u64; 2]) {
        assert_eq!(self.line.begin(), version);
        assert_eq!(
            [0, 1].map(|index| self.words[index].load(Ordering::SeqCst)),
            words
        );
    }
}

/// Versions have 48 bits. After the last one they wrap around.
#[test]
fn after_the_last_version_comes_the_first() {
    let works = Mechanism::Assisted.or_kcas() == Mechanism::Assisted;
    let changed = |change: fn(&Old) -> bool| {
        let old = Old::new();
        old.has(LAST, [1, 2]);
        assert!(change(&old));
        old.has(0, [3, 4]);
    };
    // A thread without sections.
    changed(|old| {
        let [a, b] = [old.part(0, 3), old.part(1, 4)];
        // SAFETY: the words are covered by this lock alone, and outlive the call.
        unsafe {
            old.line
                .compared_slowly(None, a.word, a.old, a.new, b.word, b.old, b.new)
        }
    });
    changed(|old| {
        let [a, b] = [old.part(0, 3), old.part(1, 4)];
        // SAFETY: the words are covered by this lock alone, and outlive the call.
        unsafe {
            old.line
                .since_slowly(None, LAST, a.word, a.new, b.word, b.new)
        }
    });
    if !works {
        return;
    }
    // An interruption uses the last version up, and counts as a modification.
    let old = Old::new();
    // SAFETY: the words are covered by this lock alone, and outlive the call.
    assert!(unsafe { old.line.exchange(old.part(0, 3), old.part(1, 4)) });
    assert!(old.line.begin() < 10);
    let old = Old::new();
    // SAFETY: the words are covered by this lock alone, and outlive the call.
    match unsafe { old.line.store_pair_if(LAST, old.part(0, 3), old.part(1, 4)) } {
        true => old.has(0, [3, 4]),
        false => old.has(0, [1, 2]),
    }
    // A holder that was stopped at the last version is revoked.
    for is_claimed in [false, true] {
        let old = Old::new();
        old.line.abandon(old.part(0, 3), old.part(1, 4));
        if is_claimed {
            old.line.abandon_claim();
        }
        old.has(0, [1, 2]);
    }
}
