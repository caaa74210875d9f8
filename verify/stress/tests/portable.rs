//! Nothing is lost, doubled or torn where the library is built for a system without sections.
#![cfg(all(target_os = "linux", not(atomseq_sections)))]

use std::time::Duration;

use verify_stress::lengthened;
use verify_stress::trial::{Trial, run};

#[test]
fn in_a_portable_build() {
    let figures = run(Trial {
        length: lengthened(Duration::from_millis(800)),
        workers: 4,
        forks: false,
    });
    println!("stress: in_a_portable_build: {figures}");
    assert!(figures.operations > 1000 && figures.signals > 50 && figures.moves > 50);
}
