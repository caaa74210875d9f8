// Executes one call instruction by instruction, once for each, and sends a signal there. The first
// argument is the call, the second after how many instructions the next signal comes. Exits with 1
// if the signal's handler runs although the signal is blocked, or if what the handler of another
// signal does to it makes it be lost.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
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
static void install(int signal) { set(SIGALRM, handle, 0); }
static void (*installed(void))(int)
{
    struct sigaction now;
    return sigaction(SIGALRM, NULL, &now) ? SIG_ERR : now.sa_handler;
}

// The parent executes by steps what is between the stop and `getppid`.
static int child(char call)
{
    const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    const struct itimerval often = {{1000, 0}, {1000, 0}};
    struct sigevent event = {.sigev_signo = SIGALRM};
    timer_t timer;
    sigset_t alarms, pending;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    set(SIGALRM, handle, call == 's' ? SA_ONSTACK : 0);
    set(SIGVTALRM, install, 0);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (call != 'r')
        sigprocmask(SIG_BLOCK, &alarms, NULL);
    raise(SIGSTOP);
    switch (call) {
    case 'i': case 'r': set(SIGALRM, SIG_IGN, 0); break;
    case 'd': set(SIGALRM, SIG_DFL, 0); break;
    case 'o': set(SIGALRM, handle, SA_RESETHAND); break;
    case 's': sigaltstack(&stack, NULL); break;
    case 'c': timer_create(CLOCK_REALTIME, &event, &timer); break;
    case 't': setitimer(ITIMER_REAL, &often, NULL); break;
    default: return 2;
    }
    syscall(SYS_getppid);
    if (call != 'r')
        return handled;
    // Ignored or not, a signal that is blocked becomes pending.
    sigprocmask(SIG_BLOCK, &alarms, NULL);
    int is_ignored = installed() == SIG_IGN;
    raise(SIGALRM);
    sigpending(&pending);
    return is_ignored && !sigismember(&pending, SIGALRM);
}

int main(int count, char **arguments)
{
    char call = arguments[1][0];
    int stride = atoi(arguments[2]), wrong = 0, signals = 0, status;
    for (int steps = 0;; steps += stride, signals++) {
        pid_t process = fork();
        if (process == 0)
            _exit(child(call));
        waitpid(process, &status, 0);
        for (int i = 0; i < steps; i++) {
            ptrace(PTRACE_SINGLESTEP, process, NULL, NULL);
            waitpid(process, &status, 0);
            if (!WIFSTOPPED(status))
                return 3;
            if (ptrace(PTRACE_PEEKUSER, process, 8 * ORIG_RAX, NULL) == SYS_getppid) {
                kill(process, SIGKILL);
                printf("%d signals, %d wrong\n", signals, wrong);
                return wrong != 0;
            }
        }
        syscall(SYS_tgkill, process, process, call == 'r' ? SIGVTALRM : SIGALRM);
        long signal = 0;
        while (ptrace(PTRACE_CONT, process, NULL, signal), waitpid(process, &status, 0), WIFSTOPPED(status)) {
            signal = WSTOPSIG(status);
            if (signal == SIGTRAP || signal == SIGSTOP)
                signal = 0;
        }
        wrong += status != 0;
    }
}
