//! The work: the modules of the example `tally`.

#[path = "../../tally/arguments.rs"]
pub mod arguments;
#[path = "../../tally/counts.rs"]
pub mod counts;
#[path = "../../tally/files.rs"]
pub mod files;
#[path = "../../tally/table.rs"]
pub mod table;
#[path = "../../tally/text.rs"]
pub mod text;
#[path = "../../tally/words.rs"]
pub mod words;
#[path = "../../tally/work.rs"]
pub mod work;
