//! Where [`per_thread!`](crate::local::per_thread!) keeps its statics: here, in thread-local
//! storage of the initial-exec model.

/// The address of this thread's copy of a constant.
///
/// A static whose section is named like the initial image of thread-local storage is put there by
/// LLVM (and by linkers, which look at the section's flags): `.tdata` and what begins with
/// `.tdata.`. Its symbol then is an offset into each thread's storage, which is what the assembly
/// in `arch/` asks the linker for. A backend that did not know the name would make the link fail:
/// the two disagree about what the symbol is.
///
/// Items of a macro are not hygienic: the static has a name that no caller's expression means.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_storage {
    ($type:ty, $value:expr) => {{
        #[unsafe(link_section = ".tdata.atomseq")]
        static __ATOMSEQ_IMAGE: $crate::generated::Image<$type> =
            $crate::generated::Image::new($value);
        // `$type` may name another type each time it is expanded. The type of the copy is therefore
        // the image's own.
        $crate::generated::Image::copy_at(
            || &__ATOMSEQ_IMAGE,
            $crate::__thread_address!(__ATOMSEQ_IMAGE),
        )
    }};
}
