//! When pages go back, and what a reader of an old address finds.

use std::time::Duration;

use super::*;

fn stable_for(milliseconds: u64) -> Pool<Words> {
    let options = Pool::options().stable_for(Duration::from_millis(milliseconds));
    options.limit(20_000).try_build().unwrap()
}

/// Allocates and frees this many descriptors, and returns references to them.
fn churn(pool: &Pool<Words>, descriptors: usize) -> Vec<Reference<'_, Words>> {
    let allocated: Vec<_> = (0..descriptors).map(|_| pool.allocate().unwrap()).collect();
    for words in &allocated {
        words.iter().for_each(|word| word.store(7, Relaxed));
    }
    allocated.iter().map(Allocated::reference).collect()
}

fn contents(reference: &Reference<'_, Words>) -> usize {
    reference.descriptor()[0].load(Relaxed)
}

#[test]
fn nothing_goes_back_for_ever() {
    let pool = limited(20_000);
    let references = churn(&pool, 10_000);
    assert_eq!((pool.trim(), pool.trim()), (0, 0));
    assert!(references.iter().all(|reference| contents(reference) == 7));
}

/// Not every system can discard memory and keep its addresses. In the portable build, freed memory
/// is reused and stays.
#[cfg(not(atomseq_sections))]
#[test]
fn a_portable_build_gives_nothing_back() {
    let pool = stable_for(0);
    let references = churn(&pool, 10_000);
    assert_eq!(pool.trim(), 0);
    assert!(references.iter().all(|reference| contents(reference) == 7));
    assert_eq!(all(&pool).len(), 20_000);
}

#[cfg(atomseq_sections)]
mod on_linux {
    use std::thread::sleep;
    use std::time::Instant;

    use super::*;
    use crate::clock::refusal;
    use crate::platform;
    use crate::type_stable::moment::Moment;

    #[test]
    fn pages_go_back_after_the_time_and_not_before() {
        let pool = stable_for(40);
        let references = churn(&pool, 10_000);
        let first = Instant::now();
        let mut given = pool.trim();
        // Trims repeatedly: before the time nothing goes back, and the contents stay.
        while given == 0 {
            let kept = references.iter().all(|reference| contents(reference) == 7);
            assert!(kept, "contents were gone early");
            sleep(Duration::from_millis(3));
            given = pool.trim();
        }
        assert!(first.elapsed() > Duration::from_millis(40));
        // The first trim may have been held up between two pages, whose times differ then.
        while given < 10_000 * 64 {
            sleep(Duration::from_millis(3));
            given += pool.trim();
        }
        assert!(references.iter().all(|reference| contents(reference) == 0));
        assert_eq!(pool.trim(), 0, "given back twice");
    }

    /// Negative control of the test above: without the time, the contents are gone at once.
    #[test]
    fn without_the_time_contents_are_gone_at_once() {
        let pool = stable_for(0);
        let references = churn(&pool, 10_000);
        assert!(pool.trim() >= 10_000 * 64);
        assert!(references.iter().all(|reference| contents(reference) == 0));
    }

    #[test]
    fn a_page_of_which_something_is_in_use_stays() {
        let pool = stable_for(0);
        let per_page = pool.shared().geometry().per_page;
        let mut allocated = all(&pool);
        allocated.sort_by_key(Allocated::address);
        // One descriptor of every second page.
        let kept: Vec<_> = allocated
            .into_iter()
            .enumerate()
            .filter(|(number, _)| number % (2 * per_page) == 5)
            .map(|(_, words)| words)
            .collect();
        kept.iter().for_each(|words| words[0].store(9, Relaxed));
        let pages = pool.shared().geometry().pages();
        let given = pool.trim() / pool.shared().geometry().page;
        assert_eq!(given, pages - kept.len());
        assert!(kept.iter().all(|words| words[0].load(Relaxed) == 9));
    }

    /// A page used between two trims starts again, although both find it all free.
    #[test]
    fn a_page_in_use_between_two_trims_has_not_been_free() {
        let pool = stable_for(30);
        churn(&pool, 10);
        assert_eq!(pool.trim(), 0);
        sleep(Duration::from_millis(35));
        churn(&pool, 10);
        assert_eq!(pool.trim(), 0, "used a moment ago");
        sleep(Duration::from_millis(35));
        assert!(pool.trim() > 0);
    }

    #[test]
    fn what_was_given_back_is_used_again_and_versions_go_on() {
        let pool = stable_for(0);
        let mut old = Vec::new();
        for _ in 0..5 {
            let references = churn(&pool, 3000);
            let current = references.iter().any(Reference::is_current);
            assert!(!current && references.iter().all(|reference| !old.contains(reference)));
            let addresses: BTreeSet<_> = references.iter().map(Reference::address).collect();
            assert_eq!(addresses.len(), 3000, "one was given twice");
            old.extend(references);
            assert!(pool.trim() > 0);
            assert!(old.iter().all(|reference| !reference.is_current()));
        }
        // The whole range is allocatable: no descriptor was lost.
        assert_eq!(all(&pool).len(), 20_000);
    }

    /// A trim without a clock records nothing and gives nothing back. The next one continues from
    /// earlier records.
    #[test]
    fn without_a_clock_no_time_passes() {
        let pool = stable_for(40);
        let references = churn(&pool, 10_000);
        let after = |milliseconds| Some(Moment::after(Duration::from_millis(milliseconds)));
        let trims = |now| pool.trim_by(platform::discard, || now) > 0;
        assert!(!trims(None) && !trims(after(1_000)) && !trims(None));
        assert!(references.iter().all(|reference| contents(reference) == 7));
        assert!(trims(after(1_041)) && !trims(None));
        let at_once = stable_for(0);
        churn(&at_once, 10_000);
        assert!(at_once.trim_by(platform::discard, || None) > 0);
        assert_eq!(refusal::during(|| pool.trim()), 0);
    }

    /// If the system refuses the discard (as for locked memory), nothing has changed.
    #[test]
    fn a_page_that_the_system_leaves_is_as_it_was() {
        unsafe fn refuse(_start: std::ptr::NonNull<u8>, _bytes: usize) -> bool {
            false
        }
        let pool = stable_for(0);
        let references = churn(&pool, 10_000);
        assert_eq!(pool.trim_by(refuse, crate::type_stable::now), 0);
        assert!(references.iter().all(|reference| contents(reference) == 7));
        assert_eq!(all(&pool).len(), 20_000);
    }

    /// Another mapping may follow a page that the limit cuts short.
    #[test]
    fn a_page_that_the_limit_cuts_goes_back_up_to_its_end() {
        type Large = [AtomicU64; 5000];
        for limit in 1..20 {
            let options = Pool::<Large>::options().stable_for(Duration::ZERO);
            let pool = options.limit(limit).try_build().unwrap();
            let allocated = all(&pool);
            assert_eq!(allocated.len(), limit);
            for one in &allocated {
                one.iter().for_each(|word| word.store(9, Relaxed));
            }
            drop(allocated);
            let geometry = *pool.shared().geometry();
            let (full, rest) = (limit / geometry.per_page, limit % geometry.per_page);
            let rest = (rest * geometry.stride).next_multiple_of(platform::page_size());
            assert_eq!(pool.trim(), full * geometry.page + rest);
            let zeroed =
                |one: &Allocated<'_, Large>| one.iter().all(|word| word.load(Relaxed) == 0);
            assert!(all(&pool).iter().all(zeroed));
        }
    }

    /// A page consists of several system pages, one of which the program has locked. The system
    /// discards those before it, then reports a failure.
    #[test]
    fn a_page_that_the_system_takes_in_part_is_whole() {
        type Large = [AtomicU64; 100];
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let options = Pool::<Large>::options().stable_for(Duration::ZERO);
            let pool = options.limit(9).try_build().unwrap();
            let system = platform::page_size();
            assert_eq!(pool.shared().geometry().page, 2 * system);
            let mut allocated = all(&pool);
            let page = pool.shared().pages().next().unwrap().2;
            let locked = page.start.addr().get() + system;
            // SAFETY: the address is the second system page of the pool's only page, which is
            // mapped.
            let result = unsafe { libc::mlock(locked as *const _, system) };
            assert_eq!(result, 0, "a page to lock");
            for round in 1..4 {
                let old: Vec<_> = allocated.iter().map(Allocated::reference).collect();
                allocated
                    .iter()
                    .for_each(|one| one[0].store(round, Relaxed));
                // Frees in no particular order, so the links are mixed.
                while !allocated.is_empty() {
                    allocated.swap_remove(allocated.len() / 2);
                }
                assert_eq!(pool.trim(), 0);
                let gone = old
                    .iter()
                    .filter(|one| one.descriptor()[0].load(Relaxed) == 0);
                assert!((1..9).contains(&gone.count()), "not in part");
                allocated = all(&pool);
                assert_eq!(addresses(&allocated).len(), 9, "one was given twice");
                assert!(!old.iter().any(Reference::is_current));
            }
            sender.send(allocated.len()).unwrap();
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(9));
    }

    /// Returns how a reader of an old address ends in a child process, after a trim by `discard`.
    fn reader_ends(discard: crate::type_stable::trim::Discard) -> i32 {
        let pool = stable_for(0);
        let references = churn(&pool, 10_000);
        // SAFETY: the child trims, reads memory and exits. It needs nothing that another thread of
        // the parent could hold at the fork: the trim takes gates, and forks wait until those are
        // free.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            pool.trim_by(discard, crate::type_stable::now);
            let all_zero = references.iter().all(|reference| contents(reference) == 0);
            // SAFETY: ends only the child process.
            unsafe { libc::_exit(if all_zero { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process, forked above, and the status is a valid
        // `i32`.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        status
    }

    /// Unmapped pages crash the reader; pages that were given back do not.
    #[test]
    fn a_reader_of_an_old_address_survives_because_addresses_are_kept() {
        unsafe fn unmap(start: std::ptr::NonNull<u8>, bytes: usize) -> bool {
            // SAFETY: none: the pages are still in use. The test shows the resulting crash, in a
            // child.
            unsafe { platform::unmap(start, bytes) };
            true
        }
        let kept = reader_ends(platform::discard);
        assert!(libc::WIFEXITED(kept) && libc::WEXITSTATUS(kept) == 0);
        let unmapped = reader_ends(unmap);
        assert!(libc::WIFSIGNALED(unmapped), "the control found nothing");
        assert_eq!(libc::WTERMSIG(unmapped), libc::SIGSEGV);
    }

    /// Returns how many bytes of the pool's pages are resident.
    fn resident(pool: &Pool<Words>) -> usize {
        let system = platform::page_size();
        let pages = pool.shared().pages();
        let of_page = |start: std::ptr::NonNull<u8>, bytes: usize| {
            let mut held = vec![0u8; bytes / system];
            // SAFETY: the range is whole pages of a mapping, and the vector has a byte for each
            // page.
            let result = unsafe { libc::mincore(start.as_ptr().cast(), bytes, held.as_mut_ptr()) };
            assert_eq!(result, 0);
            held.iter().filter(|byte| **byte & 1 != 0).count() * system
        };
        pages
            .map(|(_, _, page)| of_page(page.start, page.bytes()))
            .sum()
    }

    #[test]
    fn the_system_has_the_memory_again() {
        let pool = stable_for(0);
        churn(&pool, 20_000);
        let before = resident(&pool);
        assert!(
            before >= 20_000 * 64,
            "{before} bytes: the measure measures nothing"
        );
        let given = pool.trim();
        assert_eq!(given, before);
        assert_eq!(resident(&pool), 0);
    }

    /// Memory is bounded over long churn: the max number in use determines it, not the number of
    /// allocations.
    #[test]
    fn memory_has_a_ceiling_over_long_churn() {
        let pool = stable_for(1);
        let mut random = 99u32;
        let mut held = Vec::new();
        let mut highest = 0;
        for round in 0..300_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if held.len() < 1000 && (held.is_empty() || random >> 31 == 0) {
                held.push(pool.allocate().unwrap());
            } else {
                held.swap_remove((random >> 8) as usize % held.len());
            }
            if round % 20_000 == 0 {
                pool.trim();
                highest = highest.max(resident(&pool));
            }
        }
        // The descriptors in use, those that the stacks hold, and a partly used page for each CPU.
        let stacks = 64 * crate::percpu::Area::try_new(0).unwrap().cpus();
        let ceiling = (1000 + stacks + 64 * 4) * 64 * 2;
        assert!(
            highest > 0 && highest <= ceiling,
            "{highest} bytes of {ceiling}"
        );
    }
}
