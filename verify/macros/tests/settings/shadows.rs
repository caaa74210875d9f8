//! A glob import of this module changes the meaning of every name in the language's preludes, and
//! of those that the macros use themselves.

macro_rules! types {
    ($($name:ident)*) => { $(pub(crate) struct $name;)* };
}

types! {
    usize u8 u16 u32 u64 u128 isize i8 i16 i32 i64 i128 bool char str f32 f64
    Option Some None Result Ok Err Box String Vec
}

macro_rules! traits {
    ($($name:ident)*) => { $(pub(crate) trait $name {})* };
}

traits! {
    Send Sync Sized Copy Clone Drop Unpin Fn FnMut FnOnce From Into Default PartialEq Eq PartialOrd Ord AsRef
    Iterator IntoIterator ToString ToOwned
}

macro_rules! modules {
    ($($name:ident)*) => { $(pub(crate) mod $name {})* };
}

modules! { core std alloc atomseq internals standard sequence percpu local memory nonblocking dcas }

/// A pattern of one of these names would compare with the constant.
macro_rules! constants {
    ($($name:ident)*) => { $(pub(crate) const $name: () = ();)* };
}

constants! {
    r0 r1 r2 r3 r4 r5 r6 r7 r8 t0 t1 t2 t3 t4 status restarts given _quiet address pointer block visit field_0 field_1
    plain descriptor value slot_0 size_of align_of drop IMAGE STORED MODEL CONSTANT_0 CONSTANT_1
}

macro_rules! asm { ($($anything:tt)*) => { compile_error!("the caller's"); }; }
macro_rules! assert { ($($anything:tt)*) => { compile_error!("the caller's"); }; }
macro_rules! concat { ($($anything:tt)*) => { compile_error!("the caller's"); }; }
macro_rules! derive { ($($anything:tt)*) => { compile_error!("the caller's"); }; }
macro_rules! panic { ($($anything:tt)*) => { compile_error!("the caller's"); }; }
macro_rules! thread_local { ($($anything:tt)*) => { compile_error!("the caller's"); }; }

/// Methods of every type, which take it by value: where a receiver would be borrowed, these have
/// precedence. `get` is not among them, because the standard library's `thread_local!` calls it as
/// a method.
macro_rules! methods {
    ($($name:ident)*) => {
        pub(crate) trait Taking: crate::language::marker::Sized {
            $(fn $name(self) -> ! { loop {} })*
        }
        impl<T> Taking for T {}
    };
}

methods! {
    base area stride rseq_offset address cpu again none with cast as_ptr load store wrapping_add wrapping_sub
    wrapping_mul wrapping_shl wrapping_shr min new copy_at clone each_word word operand enter
}
