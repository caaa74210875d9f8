//! The storage of [`per_thread!`](crate::local::per_thread!) statics: the standard library's
//! thread-locals, with a constant initial value and no destructor.

/// Evaluates to the address of this thread's copy of a constant. Items in a macro are not hygienic,
/// so the static has a name that no caller's expression refers to.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_storage {
    ($type:ty, $value:expr) => {{
        $crate::generated::standard::thread_local!(static __ATOMSEQ_STORED: $crate::generated::standard::ManuallyDrop<$type> = const {
            $crate::generated::standard::ManuallyDrop::new($value)
        });
        $crate::generated::standard::LocalKey::with(&__ATOMSEQ_STORED, |__atomseq_value| &raw const **__atomseq_value)
    }};
}
