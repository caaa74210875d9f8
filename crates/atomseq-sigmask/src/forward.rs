//! Functions that are the C library's, once the kernel knows the mask.

use crate::arch::published;
use crate::real::{Function, address, function};
use crate::thread::{self, Thread};
use crate::{action, mask, statistics};

/// Gives the macro `$then` the names of all functions of the C library that are called.
macro_rules! all_functions {
    ($then:ident) => {
        $crate::forward::published_functions! { $then
            // These are exported elsewhere.
            sigaction sigsuspend ppoll __ppoll_chk pselect epoll_pwait epoll_pwait2
            siglongjmp longjmp _longjmp __longjmp_chk __sigsetjmp pthread_sigmask
            execl execle execlp syscall clone vfork dlopen timer_create setitimer ualarm
            pthread_create thrd_create mq_notify getaddrinfo_a
            aio_read aio_write aio_fsync lio_listio aio_read64 aio_write64 aio_fsync64 lio_listio64
            system _exit _Exit quick_exit prctl
            // These are not: what a program defines by their names is not called in their place.
            exit getenv
        }
    };
}
pub(crate) use all_functions;

/// Gives the macro `$then` the names of those that show the mask, hand it on, or wait.
macro_rules! published_functions {
    ($then:ident $($more:ident)*) => {
        $then! {
            $($more)*
            // They show the mask, or hand it on.
            sigpending sigwait sigwaitinfo sigtimedwait signalfd
            // A signal that it sends to a thread would be queued again for the process.
            pthread_sigqueue
            execv execve execvp execvpe execveat fexecve
            posix_spawn posix_spawnp popen wordexp
            // A signal can interrupt them.
            read __read __read_chk pread pread64 readv preadv preadv64 preadv2 preadv64v2
            write __write pwrite pwrite64 writev pwritev pwritev64 pwritev2 pwritev64v2
            open open64 openat openat64 creat creat64 fcntl fcntl64 ioctl flock lockf lockf64
            poll __poll __poll_chk select __select epoll_wait
            nanosleep __nanosleep clock_nanosleep usleep sleep thrd_sleep pause
            close __close close_range closefrom dup2 __dup2 dup3 fclose freopen freopen64
            fallocate fallocate64 posix_fallocate posix_fallocate64
            wait __wait wait3 wait4 waitpid __waitpid waitid pclose
            accept accept4 connect __connect recv __recv_chk recvfrom __recvfrom_chk recvmsg recvmmsg
            send __send sendto sendmsg sendmmsg sendfile sendfile64 splice tee vmsplice
            copy_file_range fsync fdatasync msync tcdrain tcsetattr getpass getrandom getentropy
            sem_wait sem_timedwait sem_clockwait msgrcv msgsnd semop semtimedop
            mq_send mq_receive mq_timedsend mq_timedreceive aio_suspend aio_suspend64
            getaddrinfo gethostbyname gethostbyaddr getnameinfo
            // A file system in user space may end them for a signal, or the kernel does.
            acct swapon swapoff quotactl pivot_root init_module delete_module
            open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
            faccessat euidaccess eaccess
            // They wait for a lock until their own handler of SIGALRM ends that.
            pututxline pututline getutxent getutent getutent_r getutxid getutid getutid_r getutxline
            getutline getutline_r updwtmp updwtmpx login logout logwtmp lckpwdf getlogin getlogin_r
            __getlogin_r_chk
            pthread_join
        }
    };
}
pub(crate) use published_functions;

/// Calls a function of the C library.
#[inline(always)]
unsafe fn call(function: Function, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    // SAFETY: the C library's function, which takes at most six words, and the caller's promise.
    unsafe {
        let call = function!(
            function,
            fn(usize, usize, usize, usize, usize, usize) -> usize
        );
        call(a, b, c, d, e, f)
    }
}
published_functions! { published }

/// Exports functions after which nothing is lazy: they start a thread, or, as `system`, change
/// actions and the mask by themselves, which handlers may find and change meanwhile.
macro_rules! ends_laziness {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> usize {
            thread::end_laziness();
            // SAFETY: as of those that wait.
            unsafe { call(Function::$name, [a, b, c, d, e, f]) }
        }
    )*};
}
ends_laziness! {
    system
    pthread_create thrd_create mq_notify getaddrinfo_a
    aio_read aio_write aio_fsync lio_listio aio_read64 aio_write64 aio_fsync64 lio_listio64
}

/// Exports functions that end the process without destructors.
macro_rules! ends {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(a: usize) -> usize {
            statistics::print();
            // SAFETY: as of those that wait.
            unsafe { call(Function::$name, [a, 0, 0, 0, 0, 0]) }
        }
    )*};
}
ends!(_exit _Exit quick_exit);

/// For assembly: publishes the mask, and returns the function's address.
pub extern "C-unwind" fn publish(function: Function) -> usize {
    if let Some(thread) = Thread::current() {
        thread.publish();
    }
    address(function)
}

/// As [`publish`], and there will be another thread, or a filter of system calls.
pub extern "C-unwind" fn several(function: Function) -> usize {
    thread::end_laziness();
    // The counts do not change any more, and a filter may kill for what prints them.
    statistics::print();
    address(function)
}

/// `rt_sigaction`, `rt_sigprocmask` and `sigaltstack` by `syscall(3)`.
pub unsafe extern "C-unwind" fn known_system_call(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    size: usize,
) -> i64 {
    let result = if number == libc::SYS_sigaltstack {
        // SAFETY: the caller's promise.
        unsafe { action::sigaltstack(a, b) }
    } else if size != 8 {
        mask::fail(libc::EINVAL)
    } else if number == libc::SYS_rt_sigprocmask {
        mask::kernels_sigprocmask(a as i32, b, c)
    } else {
        // SAFETY: the caller's promise.
        unsafe { action::kernels_sigaction(a as i32, b, c) }
    };
    result.into()
}
