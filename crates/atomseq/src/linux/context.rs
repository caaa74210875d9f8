//! The context that the kernel saves when it interrupts a thread, and restores when the handler
//! returns.

use core::ffi::{c_int, c_void};

use crate::arch::place;

/// What a handler gets as its third argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context(*mut libc::ucontext_t);

impl Context {
    /// # Safety
    /// `context` is the third argument of a handler that runs on this thread, and is not used after
    /// it returned.
    pub unsafe fn new(context: *mut c_void) -> Context {
        Context(context.cast())
    }

    /// A context for a handler that this thread calls itself: program counter, stack pointer and
    /// frame pointer of the caller, and `mask`. All else is zero, and `Context` must not be used
    /// after `memory` is gone.
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
        // SAFETY: valid by the promise made to `new`, or made in `of_caller`.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            let place = &raw mut (*self.0).uc_mcontext.gregs[libc::REG_RBP as usize];
            #[cfg(target_arch = "aarch64")]
            let place = &raw mut (*self.0).uc_mcontext.regs[29];
            place.cast::<usize>().write(address);
        }
    }

    /// As the kernel passed it.
    pub fn as_ptr(self) -> *mut c_void {
        self.0.cast()
    }

    #[cfg(target_arch = "x86_64")]
    fn program_counter_place(self) -> *mut usize {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs[libc::REG_RIP as usize]).cast() }
    }

    #[cfg(target_arch = "aarch64")]
    fn program_counter_place(self) -> *mut usize {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_mcontext.pc).cast() }
    }

    /// The instruction that comes next.
    pub fn program_counter(self) -> usize {
        // SAFETY: a register in a valid context.
        unsafe { self.program_counter_place().read() }
    }

    /// Changes which instruction comes next.
    pub fn set_program_counter(self, address: usize) {
        // SAFETY: as above; this handler owns its context.
        unsafe { self.program_counter_place().write(address) }
    }

    #[cfg(target_arch = "x86_64")]
    fn stack_pointer_place(self) -> *mut usize {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs[libc::REG_RSP as usize]).cast() }
    }

    #[cfg(target_arch = "aarch64")]
    fn stack_pointer_place(self) -> *mut usize {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_mcontext.sp).cast() }
    }

    /// The stack pointer of the interrupted code.
    pub fn stack_pointer(self) -> usize {
        // SAFETY: a register in a valid context.
        unsafe { self.stack_pointer_place().read() }
    }

    /// Changes which stack the interrupted code goes on with.
    pub fn set_stack_pointer(self, address: usize) {
        // SAFETY: as above; this handler owns its context.
        unsafe { self.stack_pointer_place().write(address) }
    }

    /// Does the handler that was given this context run on the alternate stack, and the interrupted
    /// code on another one?
    pub fn is_on_other_stack(self) -> bool {
        // SAFETY: the thread's alternate stack, in a valid context; of size 0 if there is none, or
        // in one that was made up.
        let stack = unsafe { &(*self.0).uc_stack };
        let start = stack.ss_sp.addr();
        let alternate = start..start + stack.ss_size;
        let here = 0_u8;
        alternate.contains(&(&raw const here).addr()) && !alternate.contains(&self.stack_pointer())
    }

    /// The registers, in the kernel's order.
    #[cfg(target_arch = "x86_64")]
    pub fn registers(self) -> *mut c_void {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs).cast() }
    }

    /// The registers, in the kernel's order.
    #[cfg(target_arch = "aarch64")]
    pub fn registers(self) -> *mut c_void {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_mcontext.regs).cast() }
    }

    /// The three arguments of a function, of which the interrupted code is at the beginning.
    pub fn arguments(self) -> [usize; 3] {
        let registers: *const u64 = self.registers().cast();
        #[cfg(target_arch = "x86_64")]
        const ARGUMENTS: [c_int; 3] = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX];
        #[cfg(target_arch = "aarch64")]
        const ARGUMENTS: [c_int; 3] = [0, 1, 2];
        // SAFETY: registers in a valid context.
        ARGUMENTS.map(|number| unsafe { registers.add(number as usize).read() as usize })
    }

    /// The number of the system call, of which the interrupted code is in front.
    pub fn system_call(self) -> usize {
        let registers: *const u64 = self.registers().cast();
        #[cfg(target_arch = "x86_64")]
        const NUMBER: c_int = libc::REG_RAX;
        #[cfg(target_arch = "aarch64")]
        const NUMBER: c_int = 8;
        // SAFETY: a register in a valid context.
        unsafe { registers.add(NUMBER as usize).read() as usize }
    }

    fn mask_place(self) -> *mut u64 {
        // SAFETY: valid by the promise made to `new`; the kernel's set is the first 8 bytes of the
        // C library's.
        unsafe { (&raw mut (*self.0).uc_sigmask).cast() }
    }

    /// The mask of the interrupted code.
    pub fn mask(self) -> u64 {
        // SAFETY: 8 bytes in a valid context.
        unsafe { self.mask_place().read() }
    }

    /// Changes the mask that the interrupted code goes on with.
    pub fn set_mask(self, mask: u64) {
        // SAFETY: as above; this handler owns its context.
        unsafe { self.mask_place().write(mask) }
    }

    fn flags_place(self) -> *mut u64 {
        // SAFETY: valid by the promise made to `new`; only an address is made.
        unsafe { (&raw mut (*self.0).uc_flags).cast() }
    }

    /// What the kernel says about the frame, in the lowest bits. The others it clears when it makes
    /// the frame and ignores when the handler returns.
    pub fn flags(self) -> u64 {
        // SAFETY: a word in a valid context.
        unsafe { self.flags_place().read() }
    }

    /// Changes that word.
    pub fn set_flags(self, flags: u64) {
        // SAFETY: as above; this handler owns its context.
        unsafe { self.flags_place().write(flags) }
    }

    /// Takes over general registers, flags, stack pointer and program counter; vector registers
    /// stay as they are.
    pub fn copy_registers(self, from: Context) {
        // The x86-64 kernel's order ends with rsp, rip and the flags, before what it tells about
        // faults; AArch64's with sp, pc and pstate, after x0 to x30.
        #[cfg(target_arch = "x86_64")]
        const WORDS: usize = libc::REG_EFL as usize + 1;
        #[cfg(target_arch = "aarch64")]
        const WORDS: usize = 31 + 3;
        // SAFETY: two valid contexts of this thread's handlers, one inside the other.
        unsafe {
            let (to, from): (*mut u64, *const u64) =
                (self.registers().cast(), from.registers().cast());
            to.copy_from_nonoverlapping(from, WORDS);
        }
    }
}
