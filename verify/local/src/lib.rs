//! Tests of `atomseq::local` with real signals. In this file: their shared helpers.
#![cfg(target_os = "linux")]

pub mod ledger;
pub mod trials;

use std::ffi::{CString, c_void};
use std::path::PathBuf;

/// The shared object, which stays loaded, and its functions.
#[derive(Debug)]
pub struct Loaded(*mut c_void);

impl Loaded {
    /// Loads the object.
    ///
    /// # Panics
    ///
    /// If the dynamic linker refuses, with its message.
    pub fn open() -> Loaded {
        let path = CString::new(object().into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: a path that ends in a zero byte, of an object whose only constructors are the
        // standard library's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: after a failure there is a message, valid until the next call.
            let why = unsafe { std::ffi::CStr::from_ptr(libc::dlerror()) };
            panic!("{path:?}: {why:?}");
        }
        Loaded(handle)
    }

    /// Returns one of its functions.
    ///
    /// # Panics
    ///
    /// If there is no function of that name.
    pub fn function(&self, name: &str) -> extern "C" fn(u64) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: an open object and a name.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!address.is_null(), "no {name:?} in the object");
        // SAFETY: every function there has this type.
        unsafe { std::mem::transmute(address) }
    }
}

/// `examples/loaded.rs`, which cargo builds with the tests, as `…/examples/libloaded.so`.
fn object() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let object = profile.join("examples/libloaded.so");
    assert!(
        object.exists(),
        "no {object:?}: `cargo build -p verify-local --examples` builds it, as `cargo test` does unless \
         tests are selected by name"
    );
    object
}
