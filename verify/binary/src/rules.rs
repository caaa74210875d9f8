//! The rules for a descriptor and the code in its window.
//!
//! ```text
//!         lea   r, [descriptor]           before the window
//!         mov   fs:[o + 8], r             arms it
//! start:  movsxd s, fs:[o + 4]            this CPU's number, read inside
//!         imul  s, [a + …]                the area's stride
//!         add   s, [a + …]                its base: this CPU's slot
//!         cmp   dword [s], 0              its gate
//!         jne   out
//!                                         (without a slot: a comparison of s with a home, and a jump out)
//!         …                               forward branches out of the window; at most one kind of loop, the copy
//!         a store                         the commit
//! end:
//! ```
//!
//! Without a slot, the CPU's number is compared instead, and the window is left if it is out of
//! range, or of another CPU than the requested one. A window may claim: by one `lock cmpxchg` of
//! the word to which it commits, after which a failure leaves. It stores nothing before, and all
//! later branches lead to the commit.

use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use crate::descriptor::{Descriptor, SIZE};
use crate::executable::Executable;

/// The largest number of instructions of a window; a copy counts as one.
const LONGEST: usize = 32;

/// The signature before an abort address, as the operand of an instruction that never runs.
const SIGNATURE: [u8; 7] = [0x0f, 0xb9, 0x3d, 0x53, 0x30, 0x05, 0x53];

/// Returns the kernel's rules that a descriptor violates.
pub fn of_the_kernel(executable: &Executable, descriptor: &Descriptor) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_string());
        }
    };
    let is_code = |address: u64| {
        executable
            .section_at(address)
            .is_some_and(|section| section.is_code)
    };
    must(
        descriptor.address.is_multiple_of(SIZE),
        "is aligned to its size",
    );
    must(descriptor.version == 0, "has version 0");
    must(descriptor.flags == 0, "has no flags");
    must(descriptor.length > 0, "covers something");
    must(
        is_code(descriptor.start) && is_code(descriptor.end() - 1),
        "covers code",
    );
    must(is_code(descriptor.abort), "aborts to code");
    must(
        !descriptor.covers(descriptor.abort),
        "aborts to somewhere outside the window",
    );
    let before = descriptor.abort.saturating_sub(SIGNATURE.len() as u64)..descriptor.abort;
    must(
        executable.bytes(before) == SIGNATURE,
        "has the signature before its abort address",
    );
    wrong
}

/// Returns the violated rules of a restartable sequence on this CPU's slot.
pub fn of_a_sequence(executable: &Executable, descriptor: &Descriptor) -> Vec<String> {
    let window = executable.instructions(descriptor.start..descriptor.end());
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    must(
        window.iter().all(|instruction| !instruction.is_invalid())
            && window
                .last()
                .is_some_and(|last| last.next_ip() == descriptor.end()),
        "ends where an instruction ends".to_string(),
    );
    must(
        is_armed(executable, descriptor, &window),
        "is armed by the instruction before it".to_string(),
    );
    must(
        reads_cpu(&window),
        "begins with reading the number of the CPU".to_string(),
    );
    must(
        tests_gate(descriptor, &window)
            || tests_home(descriptor, &window)
            || compares_cpu(descriptor, &window)
            || is_of_this_cpu(descriptor, &window),
        "tests the gate of the slot, or compares the number of the CPU".to_string(),
    );
    let claim = window.iter().position(is_claim);
    must(
        claim.is_none_or(|claim| leaves_if_it_fails(descriptor, &window[claim..])),
        "leaves if it cannot claim".to_string(),
    );
    must(
        claim.is_none_or(|claim| !window[..claim].iter().any(writes_memory)),
        "stores nothing before it has claimed".to_string(),
    );
    let gives_back = |instruction: &Instruction| {
        let last = window.last().map(Instruction::ip);
        let claimed = claim.is_some_and(|claim| window[claim].ip() < instruction.ip());
        claimed
            && instruction.flow_control() == FlowControl::ConditionalBranch
            && Some(instruction.near_branch_target()) == last
    };
    must(
        length(&window) <= LONGEST,
        format!("has {} instructions", length(&window)),
    );
    must(
        restarts(executable, descriptor),
        "aborts to code that leaves, or restarts before the window".to_string(),
    );
    let loops = copies(&window);
    for instruction in &window {
        let in_loop = loops
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&instruction.ip()));
        must(
            stays(descriptor, instruction) || in_loop || gives_back(instruction),
            format!("`{instruction}` only continues, or leaves the window"),
        );
        must(
            !is_atomic(instruction)
                || claim.is_some_and(|claim| window[claim].ip() == instruction.ip()),
            format!("`{instruction}` is no atomic instruction"),
        );
        must(
            !changes_stack(instruction),
            format!("`{instruction}` leaves the stack alone"),
        );
    }
    must(
        window.last().is_some_and(writes_memory),
        "ends with a store".to_string(),
    );
    let commits = window.last().map(|commit| {
        window
            .iter()
            .filter(|store| same_place(store, commit))
            .count()
    });
    must(
        commits == Some(1 + usize::from(claim.is_some())),
        "stores only once to where it commits, but for a claim".to_string(),
    );
    wrong
}

/// Checks for `lea r, [descriptor]; mov fs:[o + 8], r`, where the window itself reads `fs:[o + 4]`.
fn is_armed(executable: &Executable, descriptor: &Descriptor, window: &[Instruction]) -> bool {
    let Some(function) = executable.symbol_at(descriptor.start) else {
        return false;
    };
    let before = executable.instructions(function.place.start..descriptor.start);
    let ([.., load, arm], Some(first)) = (&*before, window.first()) else {
        return false;
    };
    load.code() == Code::Lea_r64_m
        && load.is_ip_rel_memory_operand()
        && load.ip_rel_memory_address() == descriptor.address
        && arm.code() == Code::Mov_rm64_r64
        && arm.memory_segment() == Register::FS
        && arm.memory_displacement64() == 8
        && arm.memory_base() == first.memory_base()
        && arm.op1_register() == load.op0_register()
}

fn reads_cpu(window: &[Instruction]) -> bool {
    window.first().is_some_and(|first| {
        first.code() == Code::Movsxd_r64_rm32
            && first.memory_segment() == Register::FS
            && first.memory_displacement64() == 4
            && first.memory_index() == Register::None
    })
}

/// Checks that the fourth instruction compares the word at the slot's address, which the first
/// three have computed in the register.
fn tests_gate(descriptor: &Descriptor, window: &[Instruction]) -> bool {
    let [first, multiply, add, compare, branch, ..] = window else {
        return false;
    };
    let slot = first.op0_register();
    multiply.mnemonic() == Mnemonic::Imul
        && multiply.op0_register() == slot
        && add.mnemonic() == Mnemonic::Add
        && add.op0_register() == slot
        && compare.code() == Code::Cmp_rm32_imm8
        && (compare.memory_base(), compare.memory_index()) == (slot, Register::None)
        && compare.memory_displacement64() == 0
        && compare.immediate(1) == 0
        && branch.mnemonic() == Mnemonic::Jne
        && !descriptor.covers(branch.near_branch_target())
}

/// Without a slot: checks that the CPU's number is compared with a word immediately, and that
/// another CPU leaves.
fn tests_home(descriptor: &Descriptor, window: &[Instruction]) -> bool {
    let [first, compare, branch, ..] = window else {
        return false;
    };
    let here = first.op0_register();
    let compares = match compare.code() {
        Code::Cmp_r64_rm64 => compare.op0_register() == here,
        Code::Cmp_rm64_r64 => [compare.op0_register(), compare.op1_register()].contains(&here),
        _ => false,
    };
    compares
        && branch.mnemonic() == Mnemonic::Jne
        && !descriptor.covers(branch.near_branch_target())
}

/// Checks that the CPU's number is compared before anything else: that of an unregistered thread is
/// far too large.
fn compares_cpu(descriptor: &Descriptor, window: &[Instruction]) -> bool {
    let [first, compare, branch, ..] = window else {
        return false;
    };
    matches!(
        compare.code(),
        Code::Cmp_rm64_imm8 | Code::Cmp_rm64_imm32 | Code::Cmp_RAX_imm32
    ) && compare.op0_register() == first.op0_register()
        && compare.immediate(1) < 1 << 31
        && branch.mnemonic() == Mnemonic::Ja
        && !descriptor.covers(branch.near_branch_target())
}

/// Checks that the CPU's number is compared with one from a register before memory is touched, and
/// that a thread on another CPU leaves.
fn is_of_this_cpu(descriptor: &Descriptor, window: &[Instruction]) -> bool {
    let [first, rest @ ..] = window else {
        return false;
    };
    let compares = |each: &Instruction| {
        matches!(each.code(), Code::Cmp_rm64_r64 | Code::Cmp_r64_rm64)
            && [each.op0_register(), each.op1_register()].contains(&first.op0_register())
    };
    let touches_memory = |each: &Instruction| each.op_kinds().any(|kind| kind == OpKind::Memory);
    let Some(at) = rest.iter().position(compares) else {
        return false;
    };
    !rest[..=at].iter().any(touches_memory) && leaves_if_it_fails(descriptor, &rest[at..])
}

/// Returns whether the instruction is a `lock cmpxchg` of a word.
fn is_claim(instruction: &Instruction) -> bool {
    instruction.code() == Code::Cmpxchg_rm64_r64 && instruction.has_lock_prefix()
}

fn leaves_if_it_fails(descriptor: &Descriptor, from_claim: &[Instruction]) -> bool {
    from_claim.get(1).is_some_and(|branch| {
        branch.mnemonic() == Mnemonic::Jne && !descriptor.covers(branch.near_branch_target())
    })
}

/// Returns the number of instructions, a copy counted as one.
fn length(window: &[Instruction]) -> usize {
    let inside = |ip: u64| {
        copies(window)
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&ip))
    };
    let copied = window.iter().filter(|each| inside(each.ip())).count();
    window.len() - copied + copies(window).len()
}

/// Returns the first and last instruction of each copy:
/// `jmp t; c: mov w, […]; mov […], w; t: sub i, 1; jns c`.
fn copies(window: &[Instruction]) -> Vec<(u64, u64)> {
    let matches = |copy: &[Instruction]| {
        let [jump, load, store, test, again] = copy else {
            return false;
        };
        let (index, word) = (test.op0_register(), load.op0_register());
        jump.mnemonic() == Mnemonic::Jmp
            && jump.near_branch_target() == test.ip()
            && load.code() == Code::Mov_r64_rm64
            && load.memory_index() == index
            && store.code() == Code::Mov_rm64_r64
            && store.memory_index() == index
            && store.op1_register() == word
            && test.mnemonic() == Mnemonic::Sub
            && test.immediate(1) == 1
            && again.mnemonic() == Mnemonic::Jns
            && again.near_branch_target() == load.ip()
    };
    window
        .windows(5)
        .filter(|copy| matches(copy))
        .map(|copy| (copy[0].ip(), copy[4].ip()))
        .collect()
}

/// Returns whether the instruction is neither a call nor a jump, except one out of the window,
/// forward or to out-of-line code.
fn stays(descriptor: &Descriptor, instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Next => instruction.mnemonic() != Mnemonic::Syscall,
        FlowControl::ConditionalBranch => !descriptor.covers(instruction.near_branch_target()),
        _ => false,
    }
}

/// Follows the abort address to the target of its jump.
fn restarts(executable: &Executable, descriptor: &Descriptor) -> bool {
    const FARTHEST: u64 = 32;
    let handler = executable.instructions(descriptor.abort..descriptor.abort + FARTHEST);
    handler
        .iter()
        .take(2)
        .find(|instruction| instruction.flow_control() == FlowControl::UnconditionalBranch)
        .is_some_and(|jump| !descriptor.covers(jump.near_branch_target()))
}

/// Returns whether the instruction is atomic: a `lock` prefix, or an exchange with memory, which
/// needs none.
pub fn is_atomic(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    instruction.has_lock_prefix() || exchanges
}

/// Returns whether the instruction changes the stack pointer or uses the stack.
pub fn changes_stack(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let changed = factory
        .info(instruction)
        .used_registers()
        .iter()
        .any(|used| {
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            used.register().full_register() == Register::RSP && writes
        });
    instruction.is_stack_instruction() || changed
}

fn writes_memory(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction);
    used.used_memory().iter().any(|memory| {
        let writes = [
            OpAccess::Write,
            OpAccess::ReadWrite,
            OpAccess::ReadCondWrite,
        ];
        writes.contains(&memory.access()) && memory.segment() != Register::FS
    })
}

fn same_place(store: &Instruction, commit: &Instruction) -> bool {
    let place = |instruction: &Instruction| {
        (
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_displacement64(),
        )
    };
    writes_memory(store) && place(store) == place(commit)
}
