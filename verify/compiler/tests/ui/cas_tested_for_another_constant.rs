//! What was expected and what is tested read the same, and are constants of two crates.

pub mod dollar_crate {
    pub const SIZE: usize = 1;
}

macro_rules! expect {
    ($name:ident) => {
        verify_compiler::expect_sizes!($name, $crate::dollar_crate::SIZE);
    };
}

expect!(refused);

fn main() {}
