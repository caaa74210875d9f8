//! The context that the kernel saves when it interrupts a thread, and restores when the handler
//! returns.

use core::ffi::{c_int, c_void};

use crate::arch::place;

/// The third argument of a signal handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context(*mut libc::ucontext_t);

impl Context {
    /// Wraps a handler's third argument.
    ///
    /// # Safety
    /// `context` must be the third argument of a handler that runs on this thread, and must not be
    /// used after the handler has returned.
    pub unsafe fn new(context: *mut c_void) -> Context {
        Context(context.cast())
    }

    /// Creates a context for a handler that this thread calls itself: the caller's program counter,
    /// stack pointer and frame pointer, and `mask`. All else stays zero. The `Context` must not be
    /// used after `memory` is gone.
    #[inline(always)]
    pub fn of_caller(memory: &mut libc::ucontext_t, mask: u64) -> Context {
        let context = Context(memory);
        let [counter, stack, frame] = place();
        context.set_program_counter(counter);
        context.set_stack_pointer(stack);
        context.set_frame_pointer(frame);
        context.set_mask(mask);
        context
    }

    fn set_frame_pointer(self, address: usize) {
        // SAFETY: the context is valid, by the contract of `new` or because `of_caller` made it
        // from live memory, and the field is inside it.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            let place = &raw mut (*self.0).uc_mcontext.gregs[libc::REG_RBP as usize];
            #[cfg(target_arch = "aarch64")]
            let place = &raw mut (*self.0).uc_mcontext.regs[29];
            place.cast::<usize>().write(address);
        }
    }

    /// Returns the pointer that the kernel passed.
    pub fn as_ptr(self) -> *mut c_void {
        self.0.cast()
    }

    #[cfg(target_arch = "x86_64")]
    fn program_counter_place(self) -> *mut usize {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs[libc::REG_RIP as usize]).cast() }
    }

    #[cfg(target_arch = "aarch64")]
    fn program_counter_place(self) -> *mut usize {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.pc).cast() }
    }

    /// Returns the address of the next instruction.
    pub fn program_counter(self) -> usize {
        // SAFETY: the place is a register in a valid context, an aligned word.
        unsafe { self.program_counter_place().read() }
    }

    /// Sets the address of the next instruction.
    pub fn set_program_counter(self, address: usize) {
        // SAFETY: the place is a register in a valid context, which this handler owns.
        unsafe { self.program_counter_place().write(address) }
    }

    #[cfg(target_arch = "x86_64")]
    fn stack_pointer_place(self) -> *mut usize {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs[libc::REG_RSP as usize]).cast() }
    }

    #[cfg(target_arch = "aarch64")]
    fn stack_pointer_place(self) -> *mut usize {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.sp).cast() }
    }

    /// Returns the stack pointer of the interrupted code.
    pub fn stack_pointer(self) -> usize {
        // SAFETY: the place is a register in a valid context, an aligned word.
        unsafe { self.stack_pointer_place().read() }
    }

    /// Sets the stack pointer that the interrupted code continues with.
    pub fn set_stack_pointer(self, address: usize) {
        // SAFETY: the place is a register in a valid context, which this handler owns.
        unsafe { self.stack_pointer_place().write(address) }
    }

    /// Returns whether the handler runs on the alternate stack and the interrupted code on another
    /// one.
    pub fn is_on_other_stack(self) -> bool {
        // SAFETY: the context is valid, and the kernel has filled in the thread's alternate stack.
        // Its size is 0 if there is none, and in a context from `of_caller`.
        let stack = unsafe { &(*self.0).uc_stack };
        let start = stack.ss_sp.addr();
        let alternate = start..start + stack.ss_size;
        let here = 0_u8;
        alternate.contains(&(&raw const here).addr()) && !alternate.contains(&self.stack_pointer())
    }

    /// Returns the address of the registers, which are in the kernel's order.
    #[cfg(target_arch = "x86_64")]
    pub fn registers(self) -> *mut c_void {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs).cast() }
    }

    /// Returns the address of the registers, which are in the kernel's order.
    #[cfg(target_arch = "aarch64")]
    pub fn registers(self) -> *mut c_void {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.regs).cast() }
    }

    /// Returns the three arguments of a function, if the interrupted code is at its start.
    pub fn arguments(self) -> [usize; 3] {
        let registers: *const u64 = self.registers().cast();
        #[cfg(target_arch = "x86_64")]
        const ARGUMENTS: [c_int; 3] = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX];
        #[cfg(target_arch = "aarch64")]
        const ARGUMENTS: [c_int; 3] = [0, 1, 2];
        // SAFETY: the numbers are those of registers in a valid context.
        ARGUMENTS.map(|number| unsafe { registers.add(number as usize).read() as usize })
    }

    /// Returns the number of the system call, if the interrupted code is directly before one.
    pub fn system_call(self) -> usize {
        let registers: *const u64 = self.registers().cast();
        #[cfg(target_arch = "x86_64")]
        const NUMBER: c_int = libc::REG_RAX;
        #[cfg(target_arch = "aarch64")]
        const NUMBER: c_int = 8;
        // SAFETY: the number is that of a register in a valid context.
        unsafe { registers.add(NUMBER as usize).read() as usize }
    }

    fn mask_place(self) -> *mut u64 {
        // SAFETY: the context is valid, by the contract of `new`. The kernel's set is the first 8
        // bytes of the C library's.
        unsafe { (&raw mut (*self.0).uc_sigmask).cast() }
    }

    /// Returns the signal mask of the interrupted code.
    pub fn mask(self) -> u64 {
        // SAFETY: the place is 8 aligned bytes in a valid context.
        unsafe { self.mask_place().read() }
    }

    /// Sets the signal mask that the interrupted code continues with.
    pub fn set_mask(self, mask: u64) {
        // SAFETY: the place is 8 aligned bytes in a valid context, which this handler owns.
        unsafe { self.mask_place().write(mask) }
    }

    /// Sets whether the interrupted code takes single steps by itself, as in another context. Only
    /// x86-64 has that as a flag of the thread.
    pub fn copy_trap_flag(self, from: Context) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both contexts are valid, and this handler owns the one that it writes.
        unsafe {
            const TRAP: i64 = 0x100;
            let place =
                |context: Context| &raw mut (*context.0).uc_mcontext.gregs[libc::REG_EFL as usize];
            let others = *place(self) & !TRAP;
            *place(self) = others | *place(from) & TRAP;
        }
        #[cfg(target_arch = "aarch64")]
        let _ = from;
    }

    /// Clears the processor's flags that no function may find set: single steps, direction and
    /// alignment checks on x86-64.
    pub fn clear_flags_for_call(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the place is a register in a valid context, which this handler owns.
        unsafe {
            (*self.0).uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x40500;
        }
    }

    fn flags_place(self) -> *mut u64 {
        // SAFETY: the context is valid, by the contract of `new`, so the field is inside it; this
        // only computes an address.
        unsafe { (&raw mut (*self.0).uc_flags).cast() }
    }

    /// Returns the kernel's flags about the frame, in the lowest bits. The kernel clears the other
    /// bits when it creates the frame, and ignores them when the handler returns.
    pub fn flags(self) -> u64 {
        // SAFETY: the place is an aligned word in a valid context.
        unsafe { self.flags_place().read() }
    }

    /// Sets the flags.
    pub fn set_flags(self, flags: u64) {
        // SAFETY: the place is an aligned word in a valid context, which this handler owns.
        unsafe { self.flags_place().write(flags) }
    }

    /// Copies general registers, flags, stack pointer and program counter from another context.
    /// Vector registers stay unchanged.
    pub fn copy_registers(self, from: Context) {
        // The words end with rsp, rip and the flags on x86-64, before the fault information. On
        // AArch64 they are x0 to x30, sp, pc and pstate.
        #[cfg(target_arch = "x86_64")]
        const WORDS: usize = libc::REG_EFL as usize + 1;
        #[cfg(target_arch = "aarch64")]
        const WORDS: usize = 31 + 3;
        // SAFETY: both contexts are valid and belong to nested handlers of this thread, so they do
        // not overlap, and each holds this many words of registers.
        unsafe {
            let (to, from): (*mut u64, *const u64) =
                (self.registers().cast(), from.registers().cast());
            to.copy_from_nonoverlapping(from, WORDS);
        }
    }
}
