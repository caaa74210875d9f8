//! A parameter is there once, raw identifier or not, even if one of both comes from a macro.

macro_rules! both {
    ($a:ident) => {
        atomseq::sequence! {
            pub unsafe fn refused(to: Word, $a: Word, r#a: Word) {
                store(to, $a);
            }
        }
    };
}

both!(a);

fn main() {}
