//! Systems without emulation.

use std::sync::atomic::AtomicU32;

use super::Error;

pub mod trap {
    //! By an undefined instruction: not here.

    use super::{AtomicU32, Error};

    pub fn start() -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    pub fn test_and_set(_word: &AtomicU32) -> bool {
        panic!("{}", Error::Unsupported)
    }
}

pub mod call {
    //! By a system call: not here.

    pub use super::trap::{start, test_and_set};
}
