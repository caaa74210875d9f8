//! What the code that [`sequence!`](crate::sequence!) generates asks of this build: no section runs here.

/// Picks the slow path.
#[doc(hidden)]
#[macro_export]
macro_rules! __on_cpu {
    (x86_64 { $($x86_64:tt)* } aarch64 { $($aarch64:tt)* } otherwise { $($otherwise:tt)* }) => {
        $($otherwise)*
    };
}
