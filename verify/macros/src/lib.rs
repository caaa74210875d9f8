//! Four of atomseq's macros make promises about a type that is declared elsewhere, although the
//! caller does not write `unsafe`:
//!
//! | macro | promise |
//! |---|---|
//! | `nonblocking::plain!` | `unsafe impl Plain` |
//! | `type_stable::descriptor!` | `unsafe impl Descriptor` |
//! | `#[derive(dcas::Covered)]` | `unsafe impl Covered` |
//! | `local::per_thread!` | a static of a type that is `Interruptible` and need not be dropped |
//!
//! The input of such a macro is not what the compiler finally sees: attributes add fields, remove
//! them and replace their types; a macro in a type's place expands to another type each time; names
//! that the macro uses mean something else where it is expanded. So each promise must be checked
//! against the final type. The files in `tests/ui` try to break the promises, without `unsafe` and
//! in all of these ways, and must not compile; those in `tests/ui/pass` must. Beside them are
//! programs that misuse structures and locks: lifetimes that nothing may stretch, what must stay on
//! its thread; and sequences that break a rule of the language.
//!
//! Every name that a macro takes from the standard library must mean the standard library's item,
//! even in a crate that is called `core`. `tests/paths.rs` reads the sources of all macros for
//! that, and `tests/shadowed.rs` uses them in such a crate. `tests/settings.rs` uses them in crates
//! of every edition, without preludes, and where all names that the language provides are taken;
//! [`strict`] has every lint enabled.

pub mod strict;
mod widths;

/// A constant of this crate, for a macro that names it by `$crate`.
pub mod dollar_crate {
    /// Differs from the constant of that name in `tests/ui`.
    pub const SIZE: usize = 1000;
}

/// Expects a constant of the caller's in a lock, but returns early if it is not this crate's.
#[macro_export]
macro_rules! expect_sizes {
    ($name:ident, $callers:expr) => {
        ::atomseq::sequence! {
            /// Claims.
            pub unsafe fn $name(slot: Slot, lock: Word) -> Word {
                'abort: { return 0 }
                let found = cas(lock, $callers, 1);
                if found != $crate::dollar_crate::SIZE { return 1 }
                if load(slot + 8) == 0 { commit(lock, $crate::dollar_crate::SIZE); return 2 }
                commit(lock, $crate::dollar_crate::SIZE);
                3
            }
        }
    };
}
