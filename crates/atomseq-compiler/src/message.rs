//! Messages.

pub const IMMEDIATE: &str = "a named constant in a sequence is at most 65,535";
pub const MULTIPLE: &str =
    "an offset is a multiple of what is loaded or stored; take a tag off with `^`";
pub const REACHABLE: &str = "an offset is at least -256 and at most 4,095 times what is \
                             loaded or stored; pass a larger one as a parameter";
pub const FITS: &str = "a literal in a sequence fits a word of the target";
pub const WIDTH: &str =
    "an offset is the same whether words have 32 bits or 64; pass another one as a parameter";
pub const ALIKE: &str = "two constants here read the same and differ, for their paths begin at different crates or \
     hold what depends on its place; use one `const` for both";
pub const IN_SLOT: &str = "outside the slot's words: they begin at the offset 8, after the gate";
