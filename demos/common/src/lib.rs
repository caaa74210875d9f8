//! What the demos share.
//!
//! | module | what lives there |
//! |---|---|
//! | [`files`] | the regular files under a directory, and why others were skipped |
//! | [`options`] | from a command line to options, help or one sentence and an exit status |
//! | [`progress`] | a bar on standard error, on a terminal only |
//! | [`report`] | numbers as the demos print them |
//! | [`threads`] | CPUs and pinned threads, and what the kernel counts of a thread |
//! | [`timer`] | a POSIX timer of one thread (Linux) |
//! | [`testing`] | what the demos' tests share: directories of files, captured runs |

pub mod files;
pub mod options;
pub mod progress;
pub mod report;
pub mod testing;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod timer;
