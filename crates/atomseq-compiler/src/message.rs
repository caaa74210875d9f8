//! Sentences that the compiler reports of literals, and an assertion of named constants. A literal
//! breaks a rule while the macro expands, a named constant when rustc evaluates it: the user reads
//! the same.

/// The range of a word that one instruction holds on every architecture, where no register is left
/// for another one.
pub const IMMEDIATE: &str = "this constant expression contains a named constant that is larger \
                             than 65,535 and so takes a register, and none is left: load words \
                             later, pass fewer parameters, or write the constant as a literal";

/// Alignment of an access.
pub const MULTIPLE: &str = "an offset is a multiple of the bytes that are loaded or stored there; \
                            remove a tag with `^`";

/// The range of an offset, which every architecture's loads and stores hold.
pub const REACHABLE: &str = "an offset is at least -256 and at most 4,095 times the bytes that are \
                             loaded or stored there; pass a larger one as a parameter";

/// The width of a word.
pub const FITS: &str = "a literal in a sequence fits a word of the target";

/// An offset that folding made different at the two widths.
pub const WIDTH: &str = "an offset is the same whether words have 32 bits or 64; \
                         pass another one as a parameter";

/// A rule that takes two constants for one because they read the same.
pub const ALIKE: &str = "two constants here read the same and differ, because their paths begin at \
                         different crates or depend on their place; use one `const` for both";

/// The words that a sequence may reach from its slot.
pub const IN_SLOT: &str = "outside the words of the slot, which lie at the offsets 8 to 127, behind the gate; bulk memory \
     begins at `Area::BULK`, and is reached by that name: `slot + Area::BULK + 16`";
