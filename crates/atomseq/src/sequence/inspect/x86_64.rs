//! The x86-64 instructions that `emit/x86_64` writes.

use super::{Branch, Instruction, Machine};

pub const MACHINE: Machine = Machine {
    decode,
    longest: 15,
    // call qword ptr [rsp]
    back: &[0xff, 0x14, 0x24],
    // int3, over the first byte; a second one is padding between functions
    is_breakpoint: |code, at| at == 0 && code.first() == Some(&0xcc) && code.get(1) != Some(&0xcc),
};

/// The operands that follow an opcode.
#[derive(Clone, Copy)]
enum Form {
    /// A register and a register or memory, then the given number of immediate bytes.
    Operands(usize),
    /// A register and memory.
    Address,
    /// An operation in the register field, which must be one of the bits; a register or memory;
    /// then the given number of immediate bytes.
    Group(u8, usize),
    /// rax and a four-byte immediate.
    Accumulator,
    /// A register in the opcode, and an eight-byte immediate, or a four-byte one without REX.W.
    MoveImmediate,
    /// A four-byte branch offset.
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
        // an operation on a register or memory and a register, in either direction
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
        // imul, cmovb, cmova
        0xaf | 0x42 | 0x47 => Form::Operands(0),
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

/// rsp or esp, which no operand of a sequence uses.
const STACK_POINTER: u8 = 4;

/// Returns the length of the bytes that encode the operands. `None` if they use the stack pointer,
/// or an address relative to the instruction, which would differ in a clone.
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
        // In mode 0 this base means an address relative to the instruction.
        return (mode != 0 || base != 5).then_some(1 + displacement);
    }
    let base = code.get(1)? & 7;
    let is_stack = base == STACK_POINTER && !extends_base;
    // In mode 0 this base means an absolute address.
    let is_absolute = mode == 0 && base == 5;
    (!is_stack && !is_absolute).then_some(2 + displacement)
}
