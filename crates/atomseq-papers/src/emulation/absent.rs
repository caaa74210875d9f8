//! The replacement on systems without emulation.

use std::sync::atomic::AtomicU32;

use super::Error;

pub mod trap {
    //! Emulation of an undefined instruction: unsupported here.

    use super::{AtomicU32, Error};

    pub fn start() -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    pub fn test_and_set(_word: &AtomicU32) -> bool {
        panic!("{}", Error::Unsupported)
    }
}

pub mod call {
    //! Emulation by a system call: unsupported here.

    pub use super::trap::{start, test_and_set};
}
