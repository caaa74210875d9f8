//! The notes of the assembled object file, read back: where each sequence and its clone lie, that
//! the clone is the same but for where it branches, and where each of its ends leads. Instructions
//! are recognized by their bits, so that nothing is shared with the emitter.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex};

use super::inspect::{all, branch, leaves_for_good};
use super::tools;
use atomseq_compiler::emit::LONGEST;
use atomseq_compiler::forms::{Form, Protection};

const NOTE_BYTES: usize = 12 + 12 + 20;

/// An address in an object file.
type Place = (SectionIndex, u64);

struct Sections<'a>(object::File<'a>);

impl Sections<'_> {
    /// Returns what the relocation at this place of a section leads to.
    fn target(&self, section: SectionIndex, at: u64) -> Option<Place> {
        let section = self.0.section_by_index(section).expect("of this file");
        let (_, relocation) = section.relocations().find(|(offset, _)| *offset == at)?;
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            panic!("addresses are symbols");
        };
        let symbol = self.0.symbol_by_index(symbol).expect("of this file");
        let address = symbol.address().wrapping_add_signed(relocation.addend());
        Some((symbol.section_index().expect("code"), address))
    }

    /// Returns the instruction at a place.
    fn word(&self, (section, at): Place) -> u32 {
        let section = self.0.section_by_index(section).expect("of this file");
        let data = section.data().expect("not compressed");
        u32::from_le_bytes(data[at as usize..at as usize + 4].try_into().unwrap())
    }
}

#[test]
fn rows_and_clones_are_as_a_handler_needs_them() {
    if !tools::are_there(&[tools::ASSEMBLER]) {
        return;
    }
    let unprotected = all(Form::Signal(Protection::None));
    for (directory, protection) in [
        ("inspect-none", Protection::None),
        ("inspect-restart", Protection::Restart),
        ("inspect-rollforward", Protection::Rollforward),
    ] {
        // Only what commits has the form that restarts.
        let all: Vec<_> = unprotected
            .iter()
            .filter(|(_, emitted)| {
                let commits = emitted.sequence.steps.iter().any(|step| step.is_commit());
                commits || protection != Protection::Restart
            })
            // A sequence without an instruction has no row.
            .filter(|(_, emitted)| emitted.assembly.instructions > 0)
            .map(|(name, emitted)| (name, emitted.again(Form::Signal(protection))))
            .collect();
        let text: String = all
            .iter()
            .map(|(name, emitted)| emitted.functions(name))
            .collect();
        let file = tools::assemble(&tools::directory(directory), &text);
        let data = std::fs::read(file).expect("just written");
        let sections = Sections(object::File::parse(&*data).expect("an ELF file"));
        let notes = sections.0.section_by_name(".note.atomseq");
        if protection == Protection::None {
            assert!(notes.is_none(), "nothing protects these");
            continue;
        }
        let notes = notes.expect("there are rows");
        let bytes = notes.data().expect("not compressed");
        assert_eq!(bytes.len(), all.len() * NOTE_BYTES, "a note a sequence");
        assert_eq!(notes.align(), 4);
        let object::SectionFlags::Elf { sh_flags, .. } = notes.flags() else {
            panic!("ELF has such flags");
        };
        assert_eq!(sh_flags.0, 0x20_0002, "allocated, read-only, retained");
        let mut instructions = 0;
        for (index, note) in bytes.chunks_exact(NOTE_BYTES).enumerate() {
            assert_eq!(
                note[..24],
                *b"\x0c\0\0\0\x14\0\0\0\x02\0\0\0atomseq\0\0\0\0\0"
            );
            let at = |word: u64| (index * NOTE_BYTES) as u64 + 24 + 4 * word;
            let place = |word| sections.target(notes.index(), at(word));
            let (start, end) = (place(0).expect("a start"), place(1).expect("an end"));
            let name = &all[index].0;
            instructions += check(&sections, name, start, end);
            match (protection, place(2), place(3)) {
                (Protection::Rollforward, Some(clone), Some(limit)) => {
                    check_clone(&sections, name, (start, end), (clone, limit));
                }
                (Protection::Restart, None, None) => {
                    assert_eq!(note[32..40], [0; 8], "{name}: no clone");
                }
                _ => panic!("{name}: half a clone, or one too many"),
            }
        }
        println!("{} rows, {instructions} instructions", all.len());
        assert!(instructions > 1000);
    }
}

/// Checks a sequence; returns the number of its instructions.
fn check(sections: &Sections<'_>, name: &str, start: Place, end: Place) -> usize {
    assert_eq!(start.0, end.0, "{name}: in one section");
    let count = ((end.1 - start.1) / 4) as usize;
    assert!(count <= LONGEST, "{name}: {count} instructions");
    for at in (start.1..end.1).step_by(4) {
        let word = sections.word((start.0, at));
        assert!(!leaves_for_good(word), "{name}: {word:#x} calls or returns");
        if let Some(to) = branch(word, at) {
            assert!(
                to >= end.1,
                "{name}: {word:#x} branches to {to:#x}, not out and forward"
            );
        }
    }
    count
}

/// Checks a clone against its sequence, instruction by instruction, and each of its ends.
fn check_clone(
    sections: &Sections<'_>,
    name: &str,
    (start, end): (Place, Place),
    (clone, limit): (Place, Place),
) {
    assert_eq!(clone.0, limit.0, "{name}: in one section");
    let length = end.1 - start.1;
    // An end: adr x16, place; str x16, [sp, #8]; ldr x16, [sp]; ret x16; place: .long to - place.
    let back = |at: u64| {
        assert!(at + 20 <= limit.1, "{name}: an end beyond the limit");
        let words = [0, 4, 8, 12].map(|offset| sections.word((clone.0, at + offset)));
        let expected = [0x1000_0090, 0xf900_07f0, 0xf940_03f0, 0xd65f_0200];
        assert_eq!(words, expected, "{name}: no way back at {at:#x}");
        sections
            .target(clone.0, at + 16)
            .expect("an end says where to go on")
    };
    assert_eq!(
        back(clone.1 + length),
        end,
        "{name}: the end leads to the end"
    );
    let mut ends = 1;
    for offset in (0..length).step_by(4) {
        let (own, its) = (start.1 + offset, clone.1 + offset);
        let (a, b) = (sections.word((start.0, own)), sections.word((clone.0, its)));
        match (branch(a, own), branch(b, its)) {
            (None, None) => assert_eq!(a, b, "{name}: another instruction"),
            (Some(to), Some(end_at)) => {
                // Bits 5 to 23 hold how far.
                assert_eq!(a & !0x00ff_ffe0, b & !0x00ff_ffe0, "{name}: another branch");
                assert_eq!(back(end_at), (start.0, to), "{name}: the same exit");
                ends += 1;
            }
            _ => panic!("{name}: a branch in one of both"),
        }
    }
    assert_eq!(
        clone.1 + length + 20 * ends,
        limit.1,
        "{name}: as many ends as ways out"
    );
}
