//! The schemes of M94 around the steps of a sequence: how a handler finds that it has interrupted
//! one (M94 2.1), and how it regains control at the end of a rollforward (M94 2.2).
//!
//! | scheme | registration | control comes back by | added on x86-64 | on AArch64 |
//! |---|---|---|---|---|
//! | `DynJump` (M94 3.1) | a word that says whether the thread is inside | a computed jump | 4 | 4 |
//! | `DynFault` (M94 3.2) | a word that holds the end's address | a load that faults | 5 | 5 |
//! | `HybJump` (M94 3.3) | a register that holds the end's address, as a hint | a computed jump | 2 | 2 |
//! | `Designated` (M94 2.1.1) | the code itself: a landmark at the end | code rewriting: a trap over the landmark | 1, which does nothing | 2, which do nothing |
//!
//! # Registers
//!
//! | operand | what it is |
//! |---|---|
//! | r11; x17 on AArch64 | the well-known register: where the sequence ends. No step uses it |
//! | `word` | the address of the thread's words; in `DynJump` and `DynFault` |
//! | `level` | a number: handlers of signals of a higher level do not wait. In the schemes that jump |
//! | `status` | as elsewhere; in a sequence with an early return |
//!
//! The thread's words are `[word]`: 0 inside a sequence of `DynJump`; `[word + 8]`: the end of the
//! sequence of `DynFault` that the thread is inside, or 0; `[word + 16]`: the address of a zero,
//! from which a handler makes one that faults.
//!
//! # x86-64
//!
//! ```text
//! DynJump                        DynFault                       HybJump            Designated
//!
//!   xor  status, status            xor  status, status            xor status, …      xor status, …
//!   lea  r11, [rip + after]        lea  r11, [rip + end]          lea r11, [rip + after]
//!   mov  [word], 0                 mov  [word + 8], r11
//! start:                         start:                         start:             start:
//!   …                              …                              …                  …
//! end:                           end:                           end:               end:
//!   mov  [word], r11               mov  r11, [word + 16]          jmp r11            nop [rax + landmark]
//!   jmp  r11                       mov  r11, [r11]              exit0:
//!   .long level                    mov  [word + 8], r11           mov status, 1
//! after:                                                          jmp r11
//!   out of line:                   out of line:                   .long level        out of line:
//! exit0: mov status, 1; jmp end  exit0: mov status, 1; jmp end  after:             exit0: …; jmp end
//! ```
//!
//! An early return reaches the end of the registration like any other way out. In `HybJump` it
//! stays between `start` and `after`, because a handler decodes from the interrupted instruction to
//! `after` and accepts only branches that stay before it (M94 4.2). There the jump over the early
//! returns is the one that the scheme has anyway.
//!
//! # The landmark
//!
//! A landmark is an instruction that does nothing and that no compiler writes. It says how many
//! bytes before it the sequence starts. On x86-64 it is one instruction with a displacement of
//! [`LANDMARK`] plus that number. On AArch64 it is a `nop`, which may be rewritten while other CPUs
//! execute it, then a `movz` of the number to the zero register.

use super::builder::label::{END, EXIT, SCHEME_END, START};
use super::{Assembly, Line, NamedWords, aarch64, x86_64};
use crate::forms::{Form, Protection};
use crate::ir::Sequence;

/// A scheme of M94.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Dynamic registration, and a computed jump (M94 3.1).
    DynJump,
    /// Dynamic registration, and a controlled fault (M94 3.2).
    DynFault,
    /// Hybrid registration, and a computed jump (M94 3.3).
    HybJump,
    /// Designated sequences (M94 2.1.1), and code rewriting (M94 2.2.1).
    Designated,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 4] = [
        Scheme::DynJump,
        Scheme::DynFault,
        Scheme::HybJump,
        Scheme::Designated,
    ];
}

/// The displacement in x86-64's landmark, without the number of bytes.
pub const LANDMARK: u32 = 0x5351_0000;

/// What an architecture puts around the steps.
struct Frame {
    /// `status = 0`, and how to set it to another number.
    clear_status: &'static str,
    set_status: fn(usize) -> String,
    /// Goes to a label.
    go: &'static str,
    /// Goes where the well-known register says.
    jump: &'static str,
    /// What encloses code out of line.
    out_of_line: [&'static str; 2],
    /// The well-known register.
    register: &'static str,
    enter: fn(Scheme) -> Vec<String>,
    leave: fn(Scheme) -> Vec<String>,
}

/// Emits a sequence with a scheme around it for x86-64.
pub fn x86_64(sequence: &Sequence, scheme: Scheme, named_words: NamedWords) -> Assembly {
    let frame = Frame {
        clear_status: "xor {status:e}, {status:e}",
        set_status: |number| format!("mov {{status:e}}, {number}"),
        go: "jmp",
        jump: "jmp r11",
        out_of_line: [
            ".pushsection .text.unlikely.atomseq, \"ax\", @progbits",
            ".popsection",
        ],
        register: "r11",
        enter: |scheme| match scheme {
            Scheme::DynJump => vec![
                // r11 = destAddr = after
                format!("lea r11, [rip + {SCHEME_END}f]"),
                // inAS = TRUE, which is 0 as in M94: FALSE is then the address in r11
                "mov qword ptr [{word}], 0".into(),
            ],
            Scheme::DynFault => vec![
                // r11 = end
                format!("lea r11, [rip + {END}f]"),
                // destAddr = end, which also means that inAS is TRUE
                "mov qword ptr [{word} + 8], r11".into(),
            ],
            // r11 = destAddr = after
            Scheme::HybJump => vec![format!("lea r11, [rip + {SCHEME_END}f]")],
            Scheme::Designated => vec![],
        },
        leave: |scheme| match scheme {
            // inAS = FALSE; then to `after`, or to the handler
            Scheme::DynJump => vec!["mov qword ptr [{word}], r11".into(), "jmp r11".into()],
            Scheme::DynFault => vec![
                // r11 = falseOrFault
                "mov r11, qword ptr [{word} + 16]".into(),
                // r11 = *falseOrFault: 0, or a fault
                "mov r11, qword ptr [r11]".into(),
                // destAddr = 0: inAS is FALSE
                "mov qword ptr [{word} + 8], r11".into(),
            ],
            // to `after`, or to the handler
            Scheme::HybJump => vec!["jmp r11".into()],
            Scheme::Designated => vec![
                // nop dword ptr [rax + landmark]
                ".byte 0x0f, 0x1f, 0x80".into(),
                format!(".long {LANDMARK} + ({END}b - {START}b)"),
            ],
        },
    };
    let plain = x86_64::emit_with(sequence, Form::Signal(Protection::None), named_words);
    frame.around(plain, sequence, scheme)
}

/// Emits a sequence with a scheme around it for AArch64. There are as many instructions as the
/// table above says, with x17 for r11, `adr` for `lea`, `br` for `jmp`, and `xzr` for 0.
pub fn aarch64(sequence: &Sequence, scheme: Scheme, named_words: NamedWords) -> Assembly {
    let frame = Frame {
        clear_status: "mov {status:w}, wzr",
        set_status: |number| format!("mov {{status:w}}, #{number}"),
        go: "b",
        jump: "br x17",
        out_of_line: [".subsection 1", ".subsection 0"],
        register: "x17",
        enter: |scheme| match scheme {
            Scheme::DynJump => vec![
                // x17 = destAddr = after
                format!("adr x17, {SCHEME_END}f"),
                // inAS = TRUE
                "str xzr, [{word}]".into(),
            ],
            Scheme::DynFault => vec![
                // x17 = end
                format!("adr x17, {END}f"),
                // destAddr = end: inAS is TRUE
                "str x17, [{word}, #8]".into(),
            ],
            // x17 = destAddr = after
            Scheme::HybJump => vec![format!("adr x17, {SCHEME_END}f")],
            Scheme::Designated => vec![],
        },
        leave: |scheme| match scheme {
            // inAS = FALSE; then to `after`, or to the handler
            Scheme::DynJump => vec!["str x17, [{word}]".into(), "br x17".into()],
            Scheme::DynFault => vec![
                // x17 = falseOrFault
                "ldr x17, [{word}, #16]".into(),
                // x17 = *falseOrFault: 0, or a fault
                "ldr x17, [x17]".into(),
                // destAddr = 0: inAS is FALSE
                "str x17, [{word}, #8]".into(),
            ],
            // to `after`, or to the handler
            Scheme::HybJump => vec!["br x17".into()],
            Scheme::Designated => vec![
                // where the trap goes
                "nop".into(),
                // movz xzr, #(end - start)
                format!(".long 0xd280001f + (({END}b - {START}b) << 5)"),
            ],
        },
    };
    let plain = aarch64::emit_with(sequence, Form::Signal(Protection::None), named_words);
    frame.around(plain, sequence, scheme)
}

impl Frame {
    /// Puts a scheme around the steps of an unprotected form. Every way out passes through the end.
    fn around(&self, mut plain: Assembly, sequence: &Sequence, scheme: Scheme) -> Assembly {
        let text = |text: &str| Line::Text(text.to_string());
        let label = |at: usize| Line::Text(format!("{at}:"));
        let mut lines = Vec::new();
        let exits = sequence.exits.len();
        if exits > 0 {
            // Before the registration: a rollforward finds it 0.
            lines.push(text(self.clear_status));
        }
        lines.extend((self.enter)(scheme).into_iter().map(Line::Text));
        lines.push(label(START));
        let body = lines.len()..lines.len() + plain.body.len();
        lines.extend_from_slice(&plain.lines[plain.body.clone()]);
        lines.push(label(END));
        lines.extend((self.leave)(scheme).into_iter().map(Line::Text));
        let early =
            (0..exits).map(|exit| [label(EXIT + exit), Line::Text((self.set_status)(exit + 1))]);
        let level = text(".long {level}");
        match scheme {
            Scheme::HybJump => {
                lines.extend(early.flat_map(|[at, set]| [at, set, text(self.jump)]));
                lines.extend([level, label(SCHEME_END)]);
            }
            _ => {
                if scheme == Scheme::DynJump {
                    lines.extend([level, label(SCHEME_END)]);
                }
                if exits > 0 {
                    lines.push(text(self.out_of_line[0]));
                    let go = Line::Text(format!("{} {END}b", self.go));
                    lines.extend(early.flat_map(|[at, set]| [at, set, go.clone()]));
                    lines.push(text(self.out_of_line[1]));
                }
            }
        }
        if scheme != Scheme::Designated {
            plain.fixed.push(self.register);
        }
        Assembly {
            lines,
            body,
            ..plain
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these lines are instructions. A landmark on x86-64 is two directives.
    fn instructions(lines: &[Line]) -> usize {
        let is_instruction = |line: &&Line| match line {
            Line::Text(text) if text.ends_with(':') => false,
            Line::Text(text) if text.starts_with(".byte 0x0f, 0x1f") => true,
            Line::Text(text) if text.contains("0xd280001f") => true,
            Line::Text(text) => !text.starts_with('.'),
            _ => true,
        };
        lines.iter().filter(is_instruction).count()
    }

    fn sequence(text: &str) -> Sequence {
        let mut sequences = crate::sequences(text.parse().expect("tokens")).expect("functions");
        sequences
            .remove(0)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The table at the top of this file.
    #[test]
    fn a_scheme_adds_as_many_instructions_as_it_says() {
        let text = "unsafe fn both(words: Word) { store(words, 1); store(words + 8, 1); }";
        let sequence = sequence(text);
        for (scheme, on_x86_64, on_aarch64) in [
            (Scheme::DynJump, 4, 4),
            (Scheme::DynFault, 5, 5),
            (Scheme::HybJump, 2, 2),
            (Scheme::Designated, 1, 2),
        ] {
            type Emit = fn(&Sequence, Scheme, NamedWords) -> Assembly;
            type Plain = fn(&Sequence, Form) -> Assembly;
            for (emit, plain, added) in [
                (x86_64 as Emit, x86_64::emit as Plain, on_x86_64),
                (aarch64, aarch64::emit, on_aarch64),
            ] {
                let plain = plain(&sequence, Form::Signal(Protection::None));
                let emitted = emit(&sequence, scheme, NamedWords::Immediates);
                let (own, its) = (&plain.lines[plain.body.clone()], &emitted.lines);
                assert_eq!(
                    own,
                    &its[emitted.body.clone()],
                    "{scheme:?}: the steps are the same"
                );
                assert_eq!(instructions(its), instructions(own) + added, "{scheme:?}");
            }
        }
    }

    /// A way out that does not pass through the end would leave the registration behind, or a
    /// rollforward without an end.
    #[test]
    fn every_way_out_passes_through_the_end() {
        let text = "unsafe fn pop(list: Word) -> bool {
            let first = load(list);
            if first == 0 { return false }
            commit(list, load(first));
            true
        }";
        let sequence = sequence(text);
        for scheme in Scheme::ALL {
            for emit in [x86_64, aarch64] {
                let emitted = emit(&sequence, scheme, NamedWords::Immediates);
                let at = emitted
                    .lines
                    .iter()
                    .position(|line| *line == Line::Text("60:".into()));
                let exit = &emitted.lines[at.expect("the early return")..];
                let Line::Text(leaves) = &exit[2] else {
                    panic!("a jump is text");
                };
                let expected = match scheme {
                    Scheme::HybJump => ["jmp r11", "br x17"],
                    _ => ["jmp 52b", "b 52b"],
                };
                assert!(expected.contains(&leaves.as_str()), "{scheme:?}: {leaves}");
                assert!(emitted.names("status") && !emitted.names("exit0"));
            }
        }
    }
}
