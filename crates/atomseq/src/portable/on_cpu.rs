//! What the code that [`sequence!`](crate::sequence!) generates asks of this build: no section runs
//! here.

/// There is no `struct rseq`, and no section that would look for it.
pub fn rseq_offset() -> isize {
    0
}

/// Picks what every processor runs.
#[doc(hidden)]
#[macro_export]
macro_rules! __assembly {
    (x86_64 { $($x86_64:tt)* } aarch64 { $($aarch64:tt)* } otherwise { $($otherwise:tt)* }) => {
        $($otherwise)*
    };
}
