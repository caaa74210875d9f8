//! Checks every descriptor of this executable, and compares its fast paths with those kept in
//! `golden/`.
//!
//! `BLESS=1 cargo test --release -p verify-binary` writes the golden files anew.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod golden;
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod operations;

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_binary::descriptor::{self, descriptors};
    use verify_binary::executable::Executable;
    use verify_binary::rules;

    operations::run();
    let executable = Executable::this();
    let (descriptors, mut wrong) =
        descriptors(&executable, descriptor::SECTION, descriptor::POINTERS);
    let (self_tests, sequences): (Vec<_>, Vec<_>) = descriptors
        .into_iter()
        .partition(|descriptor| descriptor.is_self_test());
    if self_tests.len() != 1 {
        wrong.push(format!("there are {} self-tests", self_tests.len()));
    }
    let mut say = |descriptor: &descriptor::Descriptor, rules: Vec<String>| {
        let function = &descriptor.function;
        wrong.extend(
            rules
                .iter()
                .map(|rule| format!("{function}: not so: {rule}")),
        );
    };
    for descriptor in self_tests.iter().chain(&sequences) {
        say(descriptor, rules::of_the_kernel(&executable, descriptor));
    }
    for descriptor in &sequences {
        say(descriptor, rules::of_a_sequence(&executable, descriptor));
    }
    println!(
        "binary: {} descriptors of sequences, 1 of the self-test; {} violations",
        sequences.len(),
        wrong.len()
    );
    wrong.extend(golden::compare(&executable, &sequences));
    for violation in &wrong {
        println!("violation: {violation}");
    }
    if !wrong.is_empty() {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("binary: does not apply, for sections are not built here");
}
