// Executes one call instruction by instruction, once for each, and sends a signal there. The first
// argument is the call, the second after how many instructions the next signal comes. Exits with 1
// if the signal's handler runs although the signal is blocked, also after the handler of another
// signal has interrupted the return of a third one's, if it does not find the old action of the call
// that installs it, if what the handler of another signal does makes it be lost or not be
// blocked, if a signal that its handler's mask does not contain is not handled at once, if the
// process aborts because the handler ends the thread, if a signal that is handled on a signal stack
// is blocked lazily after a handler has jumped out of the call that sets the stack and it was made
// again, or if a backtrace of the handler does not reach the start of the program.
// With a capital letter as the call, it also exits with 1 if the signal is lost or comes twice, if
// its handler does not find the old mask of the call that unblocks the signal, if the handler
// replaces the old mask of the call that blocks the signal, or if a mask is wrong afterwards.
#define _GNU_SOURCE
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int handled;
static char signal_stack[65536];

static void set(int signal, void (*handler)(int), int flags)
{
    struct sigaction new = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(signal, &new, NULL))
        abort();
}
static void handle(int signal) { handled = 1; }
// The kernel's. The old one has all flags until the call has stored it.
static struct { void (*handler)(int); unsigned long flags, restorer, mask; } action, old_action = {.flags = ~0ul};
static void finds_old(int signal) { handled = old_action.flags == ~0ul; }
static void ignore(int signal) {}
static void install(int signal) { set(SIGALRM, handle, 0); }
static void *wait_for_end(void *unused) { for (;;) pause(); }
static volatile int has_thread;
static void start_thread(int signal)
{
    pthread_t thread;
    has_thread = 1;
    if (pthread_create(&thread, NULL, wait_for_end, NULL))
        abort();
}
static void *start;
static void *find_start(void)
{
    void *addresses[64];
    return addresses[backtrace(addresses, 64) - 1];
}
static void trace(int signal) { handled |= find_start() != start; }
// Calls that the library makes of its own assembly, all of which come back to here.
static void contexts_and_jumps(void)
{
    static ucontext_t here, there;
    static char stack[65536];
    static volatile int is_back;
    jmp_buf jump;
    sigjmp_buf with_mask;
    setjmp(jump);
    sigsetjmp(with_mask, 1);
    getcontext(&there);
    if (is_back++ == 0)
        swapcontext(&here, &there);
    if (is_back == 2)
        setcontext(&there);
    // The mask that it restores is another one.
    sigaddset(&there.uc_sigmask, SIGUSR2);
    if (is_back == 3)
        swapcontext(&here, &there);
    there.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
    makecontext(&there, (void (*)(void))contexts_and_jumps, 4, 1, 2, 3, 4);
    if (vfork() == 0)
        _exit(0);
}
static sigset_t replaced;
static volatile int saw_change;
// Of a signal that no call blocks: looks whether the mask has changed, and replaces the old mask.
static void replace(int signal)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    saw_change = sigismember(&now, SIGHUP);
    memset(&replaced, 0x55, sizeof replaced);
}
static void end_thread(int signal) { pthread_exit(NULL); }
static volatile int calls;
static void count_call(int signal) { calls++; }
// A signal that the mask does not contain is handled before `raise` returns.
static void raise_other(int signal)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    int before = calls;
    handled |= !sigismember(&now, SIGUSR2) && raise(SIGUSR2) == 0 && calls == before;
}
static void reset(int signal) { set(SIGALRM, SIG_DFL, 0); }
static sigjmp_buf again;
static void jump_back(int signal) { siglongjmp(again, 1); }
static void *return_at_once(void *unused) { return unused; }
static void start_and_join(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, return_at_once, NULL) || pthread_join(thread, NULL))
        abort();
}
static void (*installed(void))(int)
{
    struct sigaction now;
    return sigaction(SIGALRM, NULL, &now) ? SIG_ERR : now.sa_handler;
}

static unsigned long kernels_mask(void)
{
    unsigned long mask = 0;
    long result;
    register long size __asm__("r10") = sizeof mask;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_rt_sigprocmask), "D"(SIG_BLOCK), "S"(NULL), "d"(&mask), "r"(size)
                     : "rcx", "r11", "memory");
    return mask;
}

// The parent executes by steps what is between the stop and `getppid`.
static int child(char call)
{
    const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    const struct itimerval often = {{1000, 0}, {1000, 0}};
    struct sigevent event = {.sigev_signo = SIGALRM};
    timer_t timer;
    sigset_t alarms, pending, others;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    set(SIGALRM, call == 'k' ? ignore : handle, strchr("js", call) ? SA_ONSTACK : 0);
    syscall(SYS_rt_sigaction, SIGALRM, NULL, &action, 8);
    action.handler = finds_old;
    set(SIGVTALRM, strchr("bn", call) ? start_thread : strchr("xyz", call) ? replace : install, 0);
    if (call == 'e')
        start_and_join();
    sigemptyset(&others);
    sigaddset(&others, SIGHUP);
    if (strchr("yz", call)) // not lazy
        sigaddset(&others, SIGBUS);
    if (strchr("pq", call)) {
        start = find_start();
        set(SIGALRM, trace, 0);
    }
    if (strchr("aem", call))
        set(SIGALRM, end_thread, 0);
    if (call == 'g') {
        set(SIGUSR2, count_call, 0);
        set(SIGALRM, raise_other, 0);
    }
    if (strchr("hl", call)) { // of the other: the handler is on a signal stack, or resets SIGALRM's
        sigaltstack(&stack, NULL);
        set(SIGUSR2, count_call, 0);
        set(SIGVTALRM, call == 'h' ? ignore : reset, call == 'h' ? SA_ONSTACK : 0);
    }
    if (call == 'j')
        set(SIGVTALRM, jump_back, 0);
    if (call == 'x') { // lazy from the start
        sighold(SIGHUP);
        sigrelse(SIGHUP);
    }
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (strchr("abegjkmpqrxyz", call) == NULL)
        sigprocmask(SIG_BLOCK, &alarms, NULL);
    sigsetjmp(again, 1);
    raise(SIGSTOP);
    switch (call) {
    case 'a': set(SIGUSR2, handle, 0); break;
    case 'e': case 'm': sighold(SIGUSR2); sigrelse(SIGUSR2); break;
    case 'p': sighold(SIGUSR2); close(-1); sigrelse(SIGUSR2); break;
    case 'b':
        sighold(SIGUSR2);
        handled = has_thread && !(kernels_mask() & 1ul << (SIGUSR2 - 1));
        break;
    case 'n':
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
        handled = !(kernels_mask() & 1ul << (SIGALRM - 1));
        break;
    case 'g': case 'h': case 'l': raise(SIGUSR2); break;
    case 'q': contexts_and_jumps(); break;
    case 'x': case 'y': sigprocmask(SIG_BLOCK, &others, &replaced); break;
    case 'z': syscall(SYS_rt_sigprocmask, SIG_BLOCK, &others, &replaced, 8); break;
    case 'i': case 'r': set(SIGALRM, SIG_IGN, 0); break;
    case 'k': syscall(SYS_rt_sigaction, SIGALRM, &action, &old_action, 8); break;
    case 'd': set(SIGALRM, SIG_DFL, 0); break;
    case 'o': set(SIGALRM, handle, SA_RESETHAND); break;
    case 's': sigaltstack(&stack, NULL); break;
    case 'j':
        sigaltstack(&stack, NULL);
        sighold(SIGALRM);
        handled = !(kernels_mask() & 1ul << (SIGALRM - 1));
        break;
    case 'c': timer_create(CLOCK_REALTIME, &event, &timer); break;
    case 't': setitimer(ITIMER_REAL, &often, NULL); break;
    default: return 2;
    }
    syscall(SYS_getppid);
    if (strchr("hl", call)) // blocked
        raise(SIGALRM);
    if (strchr("xyz", call))
        return saw_change != (*(unsigned char *)&replaced == 0x55);
    if (call != 'r')
        return handled;
    // Ignored or not, a signal that is blocked becomes pending.
    sigprocmask(SIG_BLOCK, &alarms, NULL);
    int is_ignored = installed() == SIG_IGN;
    raise(SIGALRM);
    sigpending(&pending);
    return is_ignored && !sigismember(&pending, SIGALRM);
}

static unsigned long word(const sigset_t *set) { return *(const unsigned long *)set; }
static volatile int is_blocked;
static volatile int early, times;
// All ones until the call that unblocks the signal has stored the old mask.
static sigset_t old;
// Whether the handler writes to the memory where the call that blocks the signal stores it.
static int replaces_old;
static void count_signal(int signal)
{
    times++;
    early |= is_blocked || *(volatile unsigned long *)&old == ~0ul;
    if (replaces_old)
        sigprocmask(SIG_BLOCK, NULL, &old);
}
static void does_nothing(void) {}
static ucontext_t home, other;
static char context_stack[65536], small_stack[8192];

// Calls after which SIGALRM is blocked; before most of them, too.
static int masks(char call)
{
    const int also = call == 'P' ? SIGTERM : call == 'H' ? SIGUSR2 : 0;
    const struct timespec zero = {0, 0};
    const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    const struct itimerval often = {{1000, 0}, {1000, 0}};
    sigset_t alarms, none, now;
    sigjmp_buf buffer;
    int ends[2];
    sigemptyset(&none);
    alarms = none;
    sigaddset(&alarms, SIGALRM);
    set(SIGALRM, count_signal, 0);
    set(SIGVTALRM, handle, SA_ONSTACK);
    if (call == 'T')
        setitimer(ITIMER_REAL, &often, NULL);
    if (call == 'B')
        sigaltstack(&stack, NULL);
    if (pipe(ends) || write(ends[1], "", 1) != 1)
        abort();
    sigprocmask(SIG_BLOCK, &alarms, NULL);
    getcontext(&other);
    other.uc_stack = (stack_t){.ss_sp = context_stack, .ss_size = sizeof context_stack};
    if (call == 'M')
        other.uc_stack = (stack_t){.ss_sp = small_stack, .ss_size = sizeof small_stack};
    other.uc_link = &home;
    if (call != 'M')
        makecontext(&other, does_nothing, 0);
    if (call == 'J' && sigsetjmp(buffer, 1))
        goto end;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    is_blocked = strchr("CJKNOTUW", call) == NULL;
    replaces_old = strchr("NOT", call) != NULL;
    if (call == 'U' || call == 'W')
        *(unsigned long *)&old = ~0ul;
    else if (!is_blocked)
        sigprocmask(SIG_SETMASK, &none, NULL);
    raise(SIGSTOP);
    switch (call) {
    case 'B': raise(SIGVTALRM); break;
    case 'C': swapcontext(&home, &other); sigprocmask(SIG_BLOCK, &alarms, NULL); break;
    case 'F': if (fork() == 0) _exit(0); break;
    case 'H': sighold(SIGUSR2); break;
    case 'J': siglongjmp(buffer, 1);
    case 'K': sigprocmask(SIG_BLOCK, &alarms, NULL); break;
    case 'L': ppoll(NULL, 0, &zero, &alarms); break;
    case 'M': makecontext(&other, does_nothing, 0); break;
    case 'N': case 'T': sigprocmask(SIG_BLOCK, &alarms, &old); early |= word(&old) != 0; break;
    case 'O': sigprocmask(SIG_SETMASK, &alarms, &old); early |= word(&old) != 0; break;
    case 'P': sighold(SIGTERM); break;
    case 'R': if (read(ends[0], ends, 1) != 1) abort(); break;
    case 'S': swapcontext(&home, &other); break;
    case 'U': sigprocmask(SIG_UNBLOCK, &alarms, &old); sigprocmask(SIG_BLOCK, &alarms, NULL); break;
    case 'V': if (vfork() == 0) _exit(0); break;
    case 'W': syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &alarms, &old, 8); sigprocmask(SIG_BLOCK, &alarms, NULL); break;
    default: return 2;
    }
end:
    is_blocked = 1;
    syscall(SYS_getppid);
    unsigned long expected = word(&alarms) | (also ? 1ul << (also - 1) : 0);
    sigprocmask(SIG_BLOCK, NULL, &now);
    int wrong = word(&now) != expected;
    // The kernel knows the mask afterwards.
    sigpending(&now);
    wrong |= kernels_mask() != expected || times + sigismember(&now, SIGALRM) != 1;
    is_blocked = 0;
    sigprocmask(SIG_SETMASK, &none, NULL);
    return early || wrong || times != 1 || kernels_mask() != 0;
}

int main(int count, char **arguments)
{
    char call = arguments[1][0];
    int stride = atoi(arguments[2]), wrong = 0, signals = 0, status;
    for (int steps = 0;; steps += stride, signals++) {
        pid_t process = fork();
        if (process == 0)
            _exit(call < 'a' ? masks(call) : child(call));
        waitpid(process, &status, 0);
        long signal = 0;
        for (int i = 0; i < steps; i++) {
            ptrace(PTRACE_SINGLESTEP, process, NULL, signal);
            waitpid(process, &status, 0);
            if (!WIFSTOPPED(status))
                return 3;
            // The call may raise signals.
            signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
            if (ptrace(PTRACE_PEEKUSER, process, 8 * ORIG_RAX, NULL) == SYS_getppid) {
                kill(process, SIGKILL);
                printf("%d signals, %d wrong\n", signals, wrong);
                return wrong != 0;
            }
        }
        syscall(SYS_tgkill, process, process, strchr("bhjlnrxyz", call) ? SIGVTALRM : SIGALRM);
        while (ptrace(PTRACE_CONT, process, NULL, signal), waitpid(process, &status, 0), WIFSTOPPED(status)) {
            signal = WSTOPSIG(status);
            if (signal == SIGTRAP || signal == SIGSTOP)
                signal = 0;
        }
        wrong += status != 0;
    }
}
