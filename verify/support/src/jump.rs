//! Handlers that never return: a place to jump to, and jumps as a program makes them that knows
//! nothing of atomseq.

/// A buffer for `sigsetjmp`, larger than any C library's.
#[repr(align(16))]
struct Environment(#[allow(dead_code, reason = "the C library uses it")] [u8; 1024]);
static mut ENVIRONMENT: Environment = Environment([0; 1024]);

unsafe extern "C" {
    #[cfg_attr(target_env = "gnu", link_name = "__sigsetjmp")]
    fn sigsetjmp(environment: *mut libc::c_void, save_mask: i32) -> i32;
    fn siglongjmp(environment: *mut libc::c_void, value: i32) -> !;
}

/// What `with_target` has filled in.
pub fn environment() -> *mut libc::c_void {
    (&raw mut ENVIRONMENT).cast()
}

/// Jumps to the place where `with_target` returns, by the C library.
///
/// # Safety
///
/// `with_target` runs, and no frame between here and there has anything to drop.
pub unsafe fn back() -> ! {
    // SAFETY: the caller's promise.
    unsafe { siglongjmp(environment(), 1) }
}

/// Calls `body`, and returns when it returns or a handler jumps to `environment`. The signal mask
/// is then as it was.
pub fn with_target(body: extern "C" fn()) {
    // SAFETY: `sigsetjmp` returns twice, both times inside this block, which says that it changes
    // all that a call may change; the registers that a call must leave alone are what the jump
    // restores.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "call {setjmp}",
            "test eax, eax",
            "jne 2f",
            "call r12",
            "2:",
            setjmp = sym sigsetjmp,
            in("r12") body,
            in("rdi") environment(),
            in("rsi") 1,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "bl {setjmp}",
            "cbnz w0, 2f",
            "blr x20",
            "2:",
            setjmp = sym sigsetjmp,
            in("x20") body,
            in("x0") environment(),
            in("x1") 1,
            clobber_abi("C"),
        );
    }
}
