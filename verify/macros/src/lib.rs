//! Four of atomseq's macros make promises about a type that is declared elsewhere, without the
//! caller's writing `unsafe`:
//!
//! | macro | promise |
//! |---|---|
//! | `nonblocking::plain!` | `unsafe impl Plain` |
//! | `memory::descriptor!` | `unsafe impl Descriptor` |
//! | `#[derive(dcas::Covered)]` | `unsafe impl Covered` |
//! | `local::per_thread!` | a static of a type that is `Interruptible` and need not be dropped |
//!
//! What such a macro is given is not what the compiler finally sees: attributes add fields, remove
//! them and replace their types; a macro in a type's place expands to another type each time; names
//! that the macro uses mean something else where it is expanded. So each promise has to be checked
//! against the final type. The files in `tests/ui` try to break it, without `unsafe` and in all of
//! these ways, and must not compile; those in `tests/ui/pass` must.
//!
//! What a macro takes from the standard library must be the standard library's, also in a crate
//! that is called `core`: `tests/paths.rs` reads the sources of all macros for that, and
//! `tests/shadowed.rs` uses them in such a crate. `tests/settings.rs` uses them in crates of every
//! edition, without preludes, and where all names that the language brings along are taken;
//! [`strict`] has every lint on.

pub mod strict;
mod widths;
