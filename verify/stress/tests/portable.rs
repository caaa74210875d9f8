//! No value is lost, duplicated or torn where the library is built without sequences.
#![cfg(all(target_os = "linux", not(atomseq_sections)))]

use std::time::Duration;

use verify_stress::{conserve, lengthened};

#[test]
fn in_a_portable_build() {
    let each = lengthened(Duration::from_millis(80));
    // Portable builds do not watch forks.
    conserve("in_a_portable_build", each, |target| target != "fork");
}
