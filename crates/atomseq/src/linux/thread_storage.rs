//! The storage of [`per_thread!`](crate::local::per_thread!) statics: thread-local storage of the
//! initial-exec model.

/// Evaluates to the address of this thread's copy of a constant.
///
/// LLVM places a static into the initial image of thread-local storage if its section is named
/// `.tdata` or starts with `.tdata.` (linkers look at the section's flags). Its symbol is then an
/// offset into each thread's storage, which is what the assembly in `arch/` requests from the
/// linker. A backend that did not know the name would make the link fail, because the two would
/// disagree about the symbol's kind.
///
/// Items in a macro are not hygienic, so the static has a name that no caller's expression refers
/// to.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_storage {
    ($type:ty, $value:expr) => {{
        #[unsafe(link_section = ".tdata.atomseq")]
        static __ATOMSEQ_IMAGE: $crate::generated::Image<$type> =
            $crate::generated::Image::new($value);
        // `$type` may expand to another type each time, so the copy takes its type from the image.
        // No code may refer to the image itself, not even code that never runs: the linker would
        // refuse it. The compiler omits this branch, also where dead code is linked.
        $crate::generated::Image::copy_at(
            if false {
                $crate::generated::standard::Some(&__ATOMSEQ_IMAGE)
            } else {
                $crate::generated::standard::None
            },
            $crate::__thread_address!(__ATOMSEQ_IMAGE),
        )
    }};
}
