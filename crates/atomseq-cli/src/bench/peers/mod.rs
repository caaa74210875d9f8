//! What the field uses instead: each peer in its best documented configuration (padded where its
//! users would pad, backing off where its users would back off), behind the same small trait as
//! atomseq's own structure.

pub mod counts;
#[cfg(target_arch = "x86_64")]
pub mod crate_mwcas;
pub mod crossbeam;
pub mod double_word;
pub mod flat_combining;
pub mod harris_michael;
pub mod herlihy;
#[cfg(target_os = "linux")]
pub mod kernel_mask;
pub mod locks;
pub mod malloc;
pub mod mutexed;
pub mod page_tree;
pub mod pairs;
#[cfg(target_os = "linux")]
pub mod tagged;
pub mod treiber;
