//! Every wrong sequence is found out, for the right reason.

use verify_model::broken;
use verify_model::checker::check;

#[test]
fn every_wrong_sequence_is_found_out() {
    let all = broken::all();
    let (mut states, mut attempts) = (0, 0);
    for broken in &all {
        let why = broken.why;
        let violation = match check(broken) {
            Ok(explored) => panic!("not found out: {why}\n{explored}"),
            Err(violation) => violation,
        };
        println!("model: found out: {why}:\n{violation}");
        assert!(
            (broken.expected)(&violation.fault),
            "{why}: another fault\n{violation}"
        );
        states += violation.explored.states;
        attempts += violation.explored.attempts;
    }
    println!(
        "model: {} wrong sequences found out, after {attempts} attempts in {states} states",
        all.len()
    );
    assert!(all.len() >= 20 && states > all.len() && attempts > all.len());
}
