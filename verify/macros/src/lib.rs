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
//! its thread.
//!
//! Every name that a macro takes from the standard library must mean the standard library's item,
//! even in a crate that is called `core`. `tests/paths.rs` reads the sources of all macros for
//! that, and `tests/shadowed.rs` uses them in such a crate. `tests/settings.rs` uses them in crates
//! of every edition, without preludes, and where all names that the language provides are taken;
//! [`strict`] has every lint enabled.

pub mod strict;
mod widths;
