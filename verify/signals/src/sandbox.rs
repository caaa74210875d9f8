//! Sandboxes that refuse system calls, for the calling thread and what it starts.

/// `BPF` instructions: load a word, compare, return.
const LOAD: u16 = 0x20;
const IS_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Offsets into what a filter sees: the number of the call, and the low half of the sixth argument.
const NUMBER: u32 = 0;
const SIXTH: u32 = 16 + 5 * 8;

/// Refuses these calls with `EPERM` from now on.
pub fn refuse(calls: &[i64]) {
    let mut code = vec![statement(LOAD, NUMBER)];
    for &call in calls {
        code.push(jump(call as u32, 0, 1));
        code.push(statement(
            RETURN,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ));
    }
    code.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    install(&code);
}

/// Lets this call raise `SIGSYS` from now on, unless its sixth argument is `password`.
pub fn trap(call: i64, password: u32) {
    install(&[
        statement(LOAD, NUMBER),
        jump(call as u32, 0, 3),
        statement(LOAD, SIXTH),
        jump(password, 1, 0),
        statement(RETURN, libc::SECCOMP_RET_TRAP),
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
    ]);
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(value: u32, equal: u8, other: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: IS_EQUAL,
        jt: equal,
        jf: other,
        k: value,
    }
}

fn install(code: &[libc::sock_filter]) {
    let program = libc::sock_fprog {
        len: code.len() as u16,
        filter: code.as_ptr().cast_mut(),
    };
    // SAFETY: a program that the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let result = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}
