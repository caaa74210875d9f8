//! The negative control of the demo's own check.

use demo_common::testing::Tree;
use demo_common::threads;

use super::copying::{Error, Job, Outcome, copy};
use super::files::Input;
use super::locks::Std;
use super::mechanisms::Mechanism;
use super::options::Plan;

/// Copies correctly, and reports a wrong checksum.
fn copies_wrongly(job: &Job<'_>) -> Result<Outcome, Error> {
    copy::<Std>(job).map(|outcome| Outcome {
        checksum: outcome.checksum ^ 1,
        ..outcome
    })
}

static WRONG: Mechanism = Mechanism {
    name: "wrong",
    about: "",
    one_cpu: false,
    prepare: || Ok(()),
    copy: copies_wrongly,
};

#[test]
fn a_wrong_copy_is_detected() {
    let tree = Tree::new("procon-wrong");
    tree.file("input", b"abc");
    let plan = Plan {
        input: Input::new(&tree.0.join("input"), None).unwrap(),
        output: None,
        mechanisms: vec![&WRONG],
        cpus: [threads::cpus().unwrap()[0]; 2],
        slots: 64,
        block: 64,
        runs: 1,
        left_out: Vec::new(),
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = super::copy(&plan, &mut out, &mut err).unwrap();
    let err = String::from_utf8(err).unwrap();
    assert_eq!((code, out.len()), (1, 0), "{err}");
    assert!(
        err.contains("the checksum of the copy is") && err.contains("the mutex is faulty"),
        "{err}"
    );
}
