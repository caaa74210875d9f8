//! x86-64's instructions, as `emit/x86_64` writes them.

use super::{Branch, Instruction, Machine};

pub const MACHINE: Machine = Machine {
    decode,
    longest: 15,
    // call qword ptr [rsp]
    back: &[0xff, 0x14, 0x24],
    // int3, over the first byte; a second one is padding between functions
    is_breakpoint: |code, at| at == 0 && code.first() == Some(&0xcc) && code.get(1) != Some(&0xcc),
};

/// What follows an opcode.
#[derive(Clone, Copy)]
enum Form {
    /// A register and a register or memory, then so many bytes of immediate.
    Operands(usize),
    /// A register and memory.
    Address,
    /// An operation in the place of the register, one of these (a bit each); a register or memory,
    /// then so many bytes.
    Group(u8, usize),
    /// rax, and four bytes.
    Accumulator,
    /// A register in the opcode, and a word of immediate, or half of one without REX.W.
    MoveImmediate,
    /// Where to, four bytes.
    Branch,
}

/// add, or, and, sub, xor, cmp, by their numbers in a group.
const ARITHMETIC: u8 = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
/// shl, shr.
const SHIFTS: u8 = 1 << 4 | 1 << 5;
/// mov.
const MOVE: u8 = 1 << 0;

fn one_byte(opcode: u8) -> Option<Form> {
    Some(match opcode {
        // mov, either way; test
        0x8b | 0x89 | 0x85 => Form::Operands(0),
        // op register or memory, register, and the other way round
        _ if opcode < 0x40 && ARITHMETIC >> (opcode >> 3) & 1 == 1 => match opcode & 7 {
            1 | 3 => Form::Operands(0),
            5 => Form::Accumulator,
            _ => return None,
        },
        0x81 => Form::Group(ARITHMETIC, 4),
        0x83 => Form::Group(ARITHMETIC, 1),
        0xc7 => Form::Group(MOVE, 4),
        // by an immediate, by one, by cl
        0xc1 => Form::Group(SHIFTS, 1),
        0xd1 | 0xd3 => Form::Group(SHIFTS, 0),
        // imul with an immediate
        0x69 => Form::Operands(4),
        0x6b => Form::Operands(1),
        0x8d => Form::Address,
        0xb8..=0xbf => Form::MoveImmediate,
        _ => return None,
    })
}

fn two_bytes(opcode: u8) -> Option<Form> {
    Some(match opcode {
        // imul, cmovb
        0xaf | 0x42 => Form::Operands(0),
        // jb, jae, je, jne, jbe, ja
        0x82..=0x87 => Form::Branch,
        _ => return None,
    })
}

fn decode(code: &[u8]) -> Option<Instruction> {
    let byte = |at: usize| code.get(at).copied();
    let rex = byte(0).filter(|byte| byte & 0xf0 == 0x40);
    let mut at = usize::from(rex.is_some());
    let rex = rex.unwrap_or(0);
    let mut opcode = byte(at)?;
    let form = match opcode {
        0x0f => {
            at += 1;
            opcode = byte(at)?;
            two_bytes(opcode)?
        }
        _ => one_byte(opcode)?,
    };
    at += 1;
    let mut branch = None;
    let bytes = match form {
        Form::Operands(immediate) => at + operands(&code[at..], rex, true)? + immediate,
        Form::Address if byte(at)? >> 6 == 3 => return None,
        Form::Address => at + operands(&code[at..], rex, true)?,
        Form::Group(operations, immediate) => {
            let operation = byte(at)? >> 3 & 7;
            if operations >> operation & 1 == 0 {
                return None;
            }
            at + operands(&code[at..], rex, false)? + immediate
        }
        Form::Accumulator => at + 4,
        // mov esp, rsp
        Form::MoveImmediate if opcode & 7 == STACK_POINTER && rex & 1 == 0 => return None,
        Form::MoveImmediate => at + if rex & 8 != 0 { 8 } else { 4 },
        Form::Branch => {
            let offset = i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?);
            branch = Some(Branch {
                offset: offset as isize + at as isize + 4,
                rest: u32::from(rex) << 8 | u32::from(opcode),
            });
            at + 4
        }
    };
    (bytes <= code.len()).then_some(Instruction { bytes, branch })
}

/// rsp and esp: no operand of a sequence.
const STACK_POINTER: u8 = 4;

/// How long the bytes are that name the operands; `None` for what names the stack pointer, or where
/// the instruction itself lies, which differs in a clone.
fn operands(code: &[u8], rex: u8, has_register: bool) -> Option<usize> {
    let (extends_register, extends_base) = (rex & 4 != 0, rex & 1 != 0);
    let first = *code.first()?;
    let (mode, register, base) = (first >> 6, first >> 3 & 7, first & 7);
    if has_register && register == STACK_POINTER && !extends_register {
        return None;
    }
    if mode == 3 {
        return (base != STACK_POINTER || extends_base).then_some(1);
    }
    let displacement = [0, 1, 4][usize::from(mode)];
    if base != 4 {
        // Without a displacement, this base means where the instruction lies.
        return (mode != 0 || base != 5).then_some(1 + displacement);
    }
    let base = code.get(1)? & 7;
    let is_stack = base == STACK_POINTER && !extends_base;
    // And this one means none at all.
    let is_absolute = mode == 0 && base == 5;
    (!is_stack && !is_absolute).then_some(2 + displacement)
}
