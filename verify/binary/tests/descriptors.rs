//! Checks every descriptor of this executable, and compares its fast paths with the listings in
//! `golden/`.
//!
//! `BLESS=1 cargo test --release -p verify-binary` rewrites the golden files.

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

/// Comparison with the listings in `golden/`.
///
/// A listing is a whole function of an optimized build. With the compiler that made the listing,
/// the whole function must be the same. With another one, or without optimization, the windows must
/// be the same except for the choice of registers.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod golden {
    use std::collections::BTreeSet;

    use verify_binary::descriptor::Descriptor;
    use verify_binary::executable::Executable;
    use verify_binary::golden::{Golden, compiler, is_blessing, path};
    use verify_binary::listing::is_form_of;
    use verify_binary::{fast_path, listing, rules};

    use crate::operations::NAMES;

    const OPTIMIZED: bool = !cfg!(debug_assertions);

    /// Compares everything; returns the differences.
    pub fn compare(executable: &Executable, sequences: &[Descriptor]) -> Vec<String> {
        let bless = is_blessing();
        if bless && !OPTIMIZED {
            return vec!["golden files are of optimized builds: add --release".to_string()];
        }
        let mut wrong = Vec::new();
        let mut reviewed = BTreeSet::new();
        let mut whole = 0;
        for name in NAMES {
            let Some(function) = executable.function(name) else {
                wrong.push(format!("{name} is not in the executable"));
                continue;
            };
            let place = function.place.clone();
            let fresh = listing::function(executable, place.clone(), sequences);
            let operation = name.trim_start_matches("fast_");
            let mut file = Golden::read(file_of(operation));
            if bless {
                file.bless(
                    operation,
                    &format!("{}\n{}\n", compiler(), fresh.join("\n")),
                );
            }
            let Some(golden) = file.listing(operation) else {
                wrong.push(format!(
                    "{operation} has no listing in {}.txt",
                    file_of(operation)
                ));
                continue;
            };
            let mut golden = golden.lines();
            let made_by = golden.next().unwrap_or_default();
            let golden: Vec<&str> = golden.collect();
            reviewed.extend(listing::windows(golden.iter().copied()));
            if OPTIMIZED {
                wrong.extend(check_fast_path(executable, name, sequences));
                if made_by == compiler() {
                    whole += 1;
                    wrong.extend(difference(name, &golden, &fresh));
                }
            }
        }
        let present: BTreeSet<String> = sequences
            .iter()
            .map(|descriptor| listing::window(executable, descriptor))
            .collect();
        // Windows that are on no operation's fast path.
        let others = path("others");
        if bless {
            let is_form = |window: &&String| {
                let mut known = reviewed.iter().chain(&present);
                known.any(|known| known != *window && is_form_of(window, known))
            };
            let others_now: Vec<&str> = present
                .difference(&reviewed)
                .filter(|window| !is_form(window))
                .map(String::as_str)
                .collect();
            std::fs::write(&others, others_now.join("\n")).expect("golden files can be written");
        }
        let text = std::fs::read_to_string(&others).unwrap_or_default();
        let windows = text.split("\n\n").map(str::trim_end);
        reviewed.extend(windows.map(|window| format!("{window}\n")));
        for window in &reviewed {
            if !present.iter().any(|present| is_form_of(present, window)) {
                wrong.push(format!(
                    "a window of a golden file is in no function:\n{window}"
                ));
            }
        }
        for window in &present {
            if !reviewed.iter().any(|reviewed| is_form_of(window, reviewed)) {
                wrong.push(format!("a window is in no golden file:\n{window}"));
            }
        }
        println!(
            "golden: {} of {} functions compared whole; {} different windows compared",
            whole,
            NAMES.len(),
            present.len()
        );
        wrong
    }

    /// Returns the golden file of an operation: one for each structure.
    fn file_of(operation: &str) -> &str {
        match operation.split('_').next() {
            Some("test" | "biased") => "locks",
            structure => structure.expect("the first word"),
        }
    }

    fn difference(name: &str, golden: &[&str], fresh: &[String]) -> Option<String> {
        let fresh: Vec<&str> = fresh.iter().map(String::as_str).collect();
        (golden != fresh).then(|| {
            format!(
                "{name} differs from its golden file; if it should, run with BLESS=1. It is now:\n{}",
                fresh.join("\n")
            )
        })
    }

    /// Checks that an undisturbed operation commits without any atomic instruction, or with the one
    /// that claims or makes the change.
    fn check_fast_path(
        executable: &Executable,
        name: &str,
        sequences: &[Descriptor],
    ) -> Option<String> {
        let function = executable.function(name)?;
        let way = match name.starts_with("fast_nonblocking_queue") {
            true => fast_path::through_one(executable, function.place.clone(), rules::is_atomic),
            false => fast_path::through(executable, function.place.clone(), sequences),
        };
        let Some(way) = way else {
            return Some(format!(
                "{name}: no way leads through what commits to the return"
            ));
        };
        let inside = way
            .iter()
            .filter(|each| sequences.iter().any(|window| window.covers(each.ip())))
            .count();
        let atomic = way.iter().filter(|each| rules::is_atomic(each)).count();
        println!(
            "  {name}: {} instructions, {inside} of them in the window; {atomic} atomic",
            way.len()
        );
        let claims = ["fast_dcas_exchange", "fast_nonblocking"];
        let expected = usize::from(claims.iter().any(|claim| name.starts_with(claim)));
        (atomic != expected).then(|| {
            format!("{name} has {atomic} atomic instructions on its fast path, not {expected}")
        })
    }
}
