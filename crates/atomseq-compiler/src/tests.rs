//! What is emitted for single features, by its text. That emitted code does what a sequence says is
//! checked by running it, in `verify-compiler`.

use crate::emit::{Assembly, Line, aarch64, x86_64};
use crate::forms::Form;
use crate::sequences;

fn both(text: &str) -> [Assembly; 2] {
    let tokens = text.parse().expect("tokens");
    let sequence = sequences(tokens).expect("functions").remove(0);
    let sequence = sequence.unwrap_or_else(|error| panic!("{error}"));
    [
        x86_64::emit(&sequence, Form::OnCpu),
        aarch64::emit(&sequence, Form::OnCpu),
    ]
}

fn text(assembly: &Assembly) -> String {
    assembly
        .lines
        .iter()
        .map(|line| match line {
            Line::Text(text) => format!("{text}\n"),
            Line::Acquire(operands) => format!("acquire {operands}\n"),
            Line::Interlocked { lse, exclusive } => format!("{lse}\nor {exclusive}\n"),
        })
        .collect()
}

#[test]
fn a_sequence_is_inlined_as_its_caller_says() {
    let count = |attribute: &str, text: &str| {
        let sequence = format!("{attribute} unsafe fn f(slot: Slot) {{ commit(slot + 8, 1); }}");
        let compiled = crate::compile(sequence.parse().expect("tokens")).expect("it is legal");
        compiled.to_string().matches(text).count()
    };
    // `on_cpu`, `restarting`, `rolling` and `unprotected`; a restart is out of line, whatever the
    // caller says.
    assert_eq!(count("", "inline (always)"), 4);
    assert_eq!(count("", "inline (never)"), 1);
    assert_eq!(count("#[inline(never)]", "inline (always)"), 0);
    assert_eq!(count("#[inline(never)]", "inline (never)"), 6);
    assert_eq!(count("#[inline]", "[inline]"), 5);
}

/// A literal length may differ where words have 32 bits. Then rustc judges, by the target, what the
/// copy overlaps.
#[test]
fn a_length_that_differs_in_32_bits_is_judged_by_rustc() {
    let is_left_to_rustc = |words: &str, rest: &str| {
        let text = format!(
            "unsafe fn copies(slot: Slot, a: Word) {{
                prepare_copy(slot + 16, a, {words});
                {rest}
            }}"
        );
        let sequence = sequences(text.parse().expect("tokens")).expect("a function");
        let sequence = sequence.into_iter().next().expect("one").expect("legal");
        let holds = |assertion: &crate::ir::Assertion| assertion.holds.to_string();
        sequence
            .assertions
            .iter()
            .any(|a| holds(a).contains("by_width"))
    };
    // Four words, or none.
    let covered = "prepare(slot + 24, load(slot + 24)); commit(slot + 8, a);";
    assert!(is_left_to_rustc("(1 << 16) * (1 << 16) >> 30", covered));
    assert!(!is_left_to_rustc("4", covered));
    // One word, or three; of at most so many, too.
    let committed = "commit(slot + 32, a);";
    assert!(is_left_to_rustc("(2 >> 32) + 1", committed));
    assert!(is_left_to_rustc("min(a, (2 >> 32) + 1)", committed));
    assert!(!is_left_to_rustc("1", committed));
}

#[test]
fn an_update_in_place_is_one_instruction_on_x86_64_either_way_round() {
    for update in ["load(slot + 8) + amount", "amount + load(slot + 8)"] {
        let [x86_64, _] = both(&format!(
            "unsafe fn add(slot: Slot, amount: Word) {{ commit(slot + 8, {update}); }}"
        ));
        assert!(text(&x86_64).contains("add qword ptr [{t0} + 8], {a1}"));
        assert_eq!(x86_64.instructions, 6);
    }
}

#[test]
fn a_word_used_again_is_not_folded_away() {
    let [x86_64, _] = both(
        "unsafe fn add(slot: Slot, amount: Word) -> Word {
            let old = load(slot + 8);
            commit(slot + 8, old + amount);
            old
        }",
    );
    assert!(text(&x86_64).contains("mov {t1}, qword ptr [{t0} + 8]"));
}

#[test]
fn what_is_computed_twice_is_computed_once() {
    let [_, aarch64] = both(
        "unsafe fn twice(slot: Slot, a: Word, b: Word) {
            let first = a + (b << 3);
            prepare(first, b);
            let second = a + (b << 3);
            commit(slot + 8, load(second));
        }",
    );
    assert_eq!(text(&aarch64).matches("lsl {t").count(), 1);
}

#[test]
fn a_difference_too_large_for_one_instruction_is_not_one() {
    let [x86_64, _] = both(
        "unsafe fn far(slot: Slot, a: Word, b: Word) {
            prepare(b, a - 0xffff_ffff_8000_0000);
            commit(slot + 8, a);
        }",
    );
    assert!(!text(&x86_64).contains("2147483648]"), "{}", text(&x86_64));
}

#[test]
fn a_difference_sets_the_zero_flag_itself() {
    let [x86_64, _] = both(
        "unsafe fn takes(slot: Slot, a: Word) -> Option<Word> {
            let left = load(slot + 8) - a;
            if left == 0 { return None }
            commit(slot + 8, left);
            Some(left)
        }",
    );
    assert!(!text(&x86_64).contains("test"), "{}", text(&x86_64));
    let [x86_64, _] = both(
        "unsafe fn compares(slot: Slot, a: Word) -> Option<Word> {
            let left = load(slot + 8) - a;
            let other = load(slot + 16) - a;
            if left == 0 { return None }
            commit(slot + 8, other);
            Some(left)
        }",
    );
    assert!(text(&x86_64).contains("test"), "{}", text(&x86_64));
}

#[test]
fn the_register_of_the_slot_serves_as_status() {
    let [x86_64, aarch64] = both(
        "unsafe fn takes(slot: Slot) -> Option<Word> {
            let word = load(slot + 8);
            if word == 0 { return None }
            commit(slot + 8, 0);
            Some(word)
        }",
    );
    let slot = x86_64
        .slot_as_status
        .expect("a word is returned, and there is a slot");
    assert!(text(&x86_64).contains(&format!("mov {{t{slot}:e}}, 1")));
    assert!(!x86_64.names("status"));
    assert!(aarch64.slot_as_status.is_none() && aarch64.names("status"));
}

#[test]
fn a_claim_is_released_by_the_last_instruction() {
    let [x86_64, aarch64] = both(
        "unsafe fn exchange(slot: Slot, lock: Word, a: Word, old: Word, new: Word) -> Word {
            'abort: { return 9 }
            let found = cas(lock, 0, 1);
            if found != 0 { return 8 }
            if load(a) != old { commit(lock, 0); return 7 }
            if load(a + 8) != old { commit(lock, 0); return 7 }
            store(a, new);
            commit(lock, 0);
            6
        }",
    );
    let text = [text(&x86_64), text(&aarch64)];
    let [intel, arm] = text.each_ref().map(String::as_str);
    assert!(
        intel.contains("lock cmpxchg qword ptr [{a1}], {t"),
        "{intel}"
    );
    // The flags of the exchange decide, and the status is set once for both ways out.
    assert!(!intel.contains(", rax") && intel.contains("\njne 60f\nmov {status:e}, 2\n"));
    assert_eq!(intel.matches("jne 49f").count(), 2);
    assert!(intel.contains("xor {status:e}, {status:e}\n49:\nmov qword ptr [{a1}], 0\n52:"));
    assert!(x86_64.fixed == ["rax"] && x86_64.slot_as_status.is_none());
    assert!(arm.contains("casa ") && arm.contains("ldaxr ") && arm.contains("dmb ishst"));
    assert!(arm.contains("mov {status:w}, wzr\n49:\nstr xzr, [{a1}]\n52:"));
    assert!(arm.find("dmb ishst") < arm.find("str {a4}, [{a2}]"));
}

/// What it returns is computed before the test, as at every early return, and so after the `cas`.
#[test]
fn a_test_of_a_claim_that_returns_a_computed_word_is_refused_for_that() {
    let refused = |failed: &str| {
        let text = format!(
            "unsafe fn claim(slot: Slot, lock: Word) -> Word {{
                'abort: {{ return 0 }}
                let found = cas(lock, 0, 1);
                if found != 0 {{ return {failed} }}
                commit(lock, 0);
                1
            }}"
        );
        let tokens = text.parse().expect("tokens");
        crate::compile(tokens).err().map(|error| error.to_string())
    };
    assert_eq!(refused("found"), None);
    let reason = refused("found + 1").expect("a step between the two");
    assert!(
        reason.starts_with("nothing is computed between"),
        "{reason}"
    );
}

#[test]
fn both_kinds_of_exchange_name_a_scratch_register_without_another_use() {
    let [_, arm] = both(
        "unsafe fn claim(lock: Word, a: Word) -> (Word, Word) {
            'abort: { return (0, 0) }
            let here = cpu();
            if here > 65535 { return (1, 0) }
            let found = cas(lock, 0, 1);
            if found != 0 { return (2, 0) }
            store(a, here);
            commit(lock, 0);
            (3, here)
        }",
    );
    let exchange = |line: &Line| match line {
        Line::Interlocked { lse, exclusive } => Some([lse.clone(), exclusive.clone()]),
        _ => None,
    };
    let texts = arm.lines.iter().find_map(exchange).expect("a `cas`");
    for temporary in 0..arm.temporaries {
        let name = |text: &String| {
            text.contains(&format!("{{t{temporary}}}"))
                || text.contains(&format!("{{t{temporary}:"))
        };
        assert_eq!(name(&texts[0]), name(&texts[1]), "{texts:?}");
    }
}

#[test]
fn a_parameter_that_no_step_reads_is_no_operand() {
    let [x86_64, aarch64] = both(
        "unsafe fn ignores(slot: Slot, a: Word, b: Word) -> Word {
            commit(slot + 8, a);
            b
        }",
    );
    // A slot's base comes from its area on x86-64, and as an operand on AArch64.
    assert!(x86_64.names("area") && aarch64.reads_parameter(0));
    for assembly in [x86_64, aarch64] {
        assert!(assembly.reads_parameter(1));
        assert!(!assembly.reads_parameter(2));
    }
}
