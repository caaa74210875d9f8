//! Where a sequence may stand, and with what before it.
#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_qualifications
)]
#![deny(
    trivial_casts,
    trivial_numeric_casts,
    single_use_lifetimes,
    unused_lifetimes
)]
#![deny(
    unused_results,
    elided_lifetimes_in_paths,
    keyword_idents,
    let_underscore_drop
)]
#![deny(rust_2018_idioms, nonstandard_style, unused)]

const OFFSET: usize = 8;

mod inner {
    atomseq::sequence! {
        /// Seen in the crate.
        pub(crate) unsafe fn shared(slot: Slot, a: Word) -> Word {
            let old = load(slot + super::OFFSET);
            if old == super::OFFSET { return a - super::OFFSET + 7 }
            commit(slot + super::OFFSET, a);
            old
        }

        pub(super) unsafe fn upwards(slot: Slot, a: Word) -> Option<(Word, Word)> {
            commit(slot + super::OFFSET, a);
            Some((a, (8)))
        }

        pub(in crate::places::inner) unsafe fn inside(slot: Slot, a: Word) { commit(slot + 8, a); }

        unsafe fn private(slot: Slot, a: Word) { commit(slot + 8, a); }
    }

    /// Uses what only this module sees.
    pub(crate) fn models() -> [&'static str; 2] {
        [inside::MODEL.name, private::MODEL.name]
    }
}

atomseq::sequence! {
    /// Documented, and left out where it has no use.
    #[cfg(not(any()))]
    #[allow(non_snake_case)]
    pub(crate) unsafe fn Camel(slot: Slot, a: Word) { commit(slot + 8, a); }

    /// Never there.
    #[cfg(any())]
    pub(crate) unsafe fn absent(slot: Slot, a: Word) { commit(slot + NO_SUCH_CONSTANT, a); }

    #[doc(hidden)]
    #[deprecated(note = "to see that it is heeded")]
    #[expect(dead_code, reason = "the lint finds the type, and nothing else")]
    pub(crate) unsafe fn old(slot: Slot, a: Word) { commit(slot + 8, a); }
}

/// From a macro, with the parts it is given.
macro_rules! setter {
    ($(#[$doc:meta])* $name:ident, $offset:expr_2021, $word:ty) => {
        atomseq::sequence! {
            $(#[$doc])*
            pub(crate) unsafe fn $name(slot: Slot, value: $word) -> Word {
                let place = slot + $offset;
                let old = load(place);
                commit(place, value + $offset);
                old
            }
        }
    };
}

setter!(
    /// Sets the second word.
    set_second, OFFSET + 8, Word
);

#[test]
fn places_compiles() {
    atomseq::sequence! {
        unsafe fn local(slot: Slot, a: Word) { commit(slot + 8, a); }
    }
    let area = atomseq::percpu::Area::try_new(0).unwrap();
    // SAFETY: it touches only the slot.
    if unsafe { local::on_cpu(area.slots(), 7) }.is_err() {
        // SAFETY: it touches only the slot, and the gate is held.
        area.on_slow_path(|held| unsafe { local::gated(held, 7) });
    }
    assert_eq!(
        (0..area.cpus())
            .map(|cpu| area.peek(cpu, OFFSET))
            .sum::<usize>(),
        7
    );
    let names = [
        inner::shared::MODEL.name,
        inner::upwards::MODEL.name,
        set_second::MODEL.name,
    ];
    assert_eq!(names, ["shared", "upwards", "set_second"]);
    assert_eq!(inner::models(), ["inside", "private"]);
    assert_eq!(Camel::MODEL.name, "Camel");
}
