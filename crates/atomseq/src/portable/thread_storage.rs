//! Where [`per_thread!`](crate::local::per_thread!) keeps its statics: here, in the standard
//! library's thread-locals, with a constant for an initial value and without a destructor.

/// The address of this thread's copy of a constant. Items of a macro are not hygienic: the static
/// has a name that no caller's expression means.
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
