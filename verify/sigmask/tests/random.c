// Does what a random number says with signals and masks, and prints what it sees. The same number
// prints the same with the library and without. A second argument starts another thread first.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static uint64_t state;
static unsigned below(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % limit;
}

// Writes a line without a function of the library: a call of those publishes the mask.
#define SAY(...) do { char line[300]; say(line, snprintf(line, sizeof line, __VA_ARGS__)); } while (0)
static void say(const char *line, long length)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(1), "D"(1), "S"(line), "d"(length) : "rcx", "r11", "memory");
}

static const int signals[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGALRM, SIGCHLD, SIGWINCH, SIGPIPE, SIGIO, SIGURG,
                              SIGVTALRM, SIGCONT, 34, 35, 64, SIGSEGV, SIGABRT, SIGTRAP, SIGXCPU};
static int any(void) { return signals[below(sizeof signals / sizeof *signals)]; }

typedef unsigned long long Word;
static Word word(const sigset_t *set) { return *(const Word *)set; }
static sigset_t some(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = below(5); i > 0; i--)
        sigaddset(&set, any());
    if (!below(20))
        sigfillset(&set);
    return set;
}
static Word mask(void)
{
    sigset_t now;
    sigemptyset(&now);
    below(2) ? pthread_sigmask(SIG_BLOCK, NULL, &now) : sigprocmask(17, NULL, &now);
    return word(&now);
}
static Word pending(void)
{
    sigset_t now;
    sigemptyset(&now);
    sigpending(&now);
    return word(&now);
}

static int depth, steps, descriptor = -1, in_context;
static pid_t self;
static sigjmp_buf buffers[8];
static int is_set[8];
static ucontext_t context, home;
static char context_stack[4 << 20], signal_stack[4 << 20];

static void step(void);
static void nested(int limit)
{
    depth++;
    for (int i = depth < 5 ? below(limit) : 0; i > 0; i--)
        step();
    depth--;
}

static void details(int signal, siginfo_t *info, void *frame)
{
    sigset_t *before = &((ucontext_t *)frame)->uc_sigmask;
    SAY("[%d code %d value %d mask %llx before %llx pending %llx\n", signal, info->si_code,
        info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, mask(), word(before), pending());
    nested(4);
    if (!below(6)) {
        below(2) ? sigaddset(before, any()) : sigdelset(before, any());
        SAY("edited %llx\n", word(before));
    }
    if (!below(12) && is_set[depth]) {
        SAY("jumps\n");
        siglongjmp(buffers[depth], 1);
    }
    SAY("]%d mask %llx\n", signal, mask());
}
static void plain(int signal)
{
    SAY("<%d mask %llx pending %llx\n", signal, mask(), pending());
    nested(2);
    SAY(">%d\n", signal);
}
static int known(void (*handler)(int))
{
    return handler == SIG_DFL ? 0 : handler == SIG_IGN ? 1 : handler == SIG_ERR ? 2 : handler == SIG_HOLD ? 3
        : handler == plain ? 4 : (void *)handler == (void *)details ? 5 : 6;
}

static void installs(int signal)
{
    const int flags[] = {SA_RESTART, SA_NODEFER, SA_RESETHAND, SA_ONSTACK};
    struct sigaction new = {.sa_mask = some()}, old;
    memset(&old, 0, sizeof old);
    for (int i = below(3); i > 0; i--)
        new.sa_flags |= flags[below(4)];
    if (below(3)) {
        new.sa_flags |= SA_SIGINFO;
        new.sa_sigaction = details;
    } else {
        new.sa_handler = plain;
    }
    int result = sigaction(signal, &new, &old);
    SAY("sigaction %d %x: %d, was %d %x %llx\n", signal, new.sa_flags, result, known(old.sa_handler), old.sa_flags,
        word(&old.sa_mask));
}

static void in_coroutine(void)
{
    SAY("context mask %llx\n", mask());
    nested(3);
    SAY("context mask %llx\n", mask());
    in_context = 0;
}
static void runs_context(void)
{
    if (in_context || depth > 0)
        return;
    in_context = 1;
    getcontext(&context);
    context.uc_stack = (stack_t){.ss_sp = context_stack, .ss_size = sizeof context_stack};
    context.uc_link = &home;
    if (below(2)) {
        sigset_t set = some();
        memcpy(&context.uc_sigmask, &set, sizeof(Word));
    }
    makecontext(&context, in_coroutine, 0);
    swapcontext(&home, &context);
    SAY("back with mask %llx\n", mask());
}
static void restores_context(void)
{
    ucontext_t here;
    volatile int again = 0;
    getcontext(&here);
    SAY("getcontext %d: mask %llx, %llx\n", again, mask(), word(&here.uc_sigmask));
    if (again++)
        return;
    sigset_t set = some();
    if (below(2))
        memcpy(&here.uc_sigmask, &set, sizeof(Word));
    step();
    setcontext(&here);
}
static void jumps(void)
{
    int here = depth, saves = below(2);
    if (is_set[here])
        return;
    is_set[here] = 1;
    SAY("sigsetjmp %d: mask %llx\n", saves, mask());
    int result = sigsetjmp(buffers[here], saves);
    for (int i = result ? 0 : 1 + below(3); i > 0; i--)
        step();
    depth = here;
    is_set[here] = 0;
    SAY("sigsetjmp returned %d: mask %llx\n", result, mask());
}

// What a child inherits. No signal of it may come at another time: those of children are blocked.
static void has_child(int kind)
{
    sigset_t children, old;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, &old);
    int status = 0, ends[2];
    char text[300];
    long length = 0, count;
    if (pipe(ends))
        abort();
    pid_t child = kind & 1 ? vfork() : fork();
    if (child == 0 && kind & 2) {
        dup2(ends[1], 1);
        execlp("grep", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status", NULL);
    }
    if (child == 0)
        _exit(mask() % 251);
    close(ends[1]);
    while ((count = read(ends[0], text + length, sizeof text - 1 - length)) > 0 || (count < 0 && errno == EINTR))
        length += count > 0 ? count : 0;
    close(ends[0]);
    text[length] = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    SAY("child %d %x %s\n", kind, status, text);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

// Several signals come at once: a child sends them while this process is stopped.
static int is_stopped(pid_t process)
{
    char name[40], state = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    FILE *file = fopen(name, "r");
    int found = file && fscanf(file, "%*d %*s %c", &state) == 1 && state == 'T';
    if (file)
        fclose(file);
    return found;
}
static void gets_several(int signal)
{
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGCONT);
    sigprocmask(SIG_BLOCK, &blocked, &old);
    // Alone: the kernel gets the whole mask if it must know another signal of it.
    sigaddset(&blocked, signal);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    SAY("several %d\n", signal);
    volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        kill(self, SIGSTOP);
        while (!is_stopped(self))
            usleep(500);
        for (int i = 1; i <= 3; i++)
            sigqueue(self, signal, (union sigval){.sival_int = i});
        *done = 1;
        kill(self, SIGCONT);
        _exit(0);
    }
    while (!*done)
        ;
    munmap((void *)done, 4096);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void suspends(void)
{
    sigset_t now, all;
    sigpending(&now);
    sigfillset(&all);
    for (int signal = 1; signal <= 64; signal++) {
        struct sigaction action;
        if (signal == 32 || signal == 33 || !sigismember(&now, signal) || sigaction(signal, NULL, &action)
            || known(action.sa_handler) < 4)
            continue;
        sigdelset(&all, signal);
        int result = sigsuspend(&all);
        SAY("sigsuspend %d %d mask %llx\n", result, errno, mask());
        return;
    }
}

static void step(void)
{
    if (++steps > 400)
        return;
    sigset_t set = some(), old;
    int signal = any(), how = below(3), result;
    union sigval value = {below(1000)};
    const struct timespec zero = {0, 0};
    siginfo_t info;
    memset(&info, 0, sizeof info);
    sigemptyset(&old);
    switch (below(27)) {
    case 0: case 1: case 2:
        sigprocmask(how, &set, &old);
        SAY("sigprocmask %d %llx was %llx is %llx\n", how, word(&set), word(&old), mask());
        break;
    case 3: case 4:
        pthread_sigmask(how, &set, NULL);
        SAY("pthread_sigmask %d %llx\n", how, mask());
        break;
    case 5: case 6: SAY("kill %d\n", signal); kill(self, signal); break;
    case 7: SAY("raise %d\n", signal); raise(signal); break;
    case 8: case 9: SAY("sigqueue %d\n", signal); sigqueue(self, signal, value); break;
    case 10: SAY("pthread_kill %d\n", signal); pthread_kill(pthread_self(), signal); break;
    case 11: SAY("pthread_sigqueue %d\n", signal); pthread_sigqueue(pthread_self(), signal, value); break;
    case 12: SAY("pending %llx\n", pending()); break;
    case 13: case 14: installs(signal); break;
    case 15: SAY("signal %d %d\n", signal, known(below(2) ? (void (*)(int))bsd_signal(signal, SIG_IGN) : sigset(signal, plain))); break;
    case 16:
        signal = below(2) ? SIGCHLD : SIGWINCH;
        SAY("default %d\n", known((void (*)(int))bsd_signal(signal, SIG_DFL)));
        break;
    case 17:
        result = sigtimedwait(&set, &info, &zero);
        SAY("sigtimedwait %llx: %d %d\n", word(&set), result, result > 0 ? info.si_code : errno);
        break;
    case 18: case 19:
        SAY("pending %llx\n", pending());
        result = below(2) ? ppoll(NULL, 0, &zero, &set) : pselect(0, NULL, NULL, NULL, &zero, &set);
        SAY("waited with %llx: %d %d, mask %llx\n", word(&set), result, result < 0 ? errno : 0, mask());
        break;
    case 20: suspends(); break;
    case 21: jumps(); break;
    case 22: restores_context(); break;
    case 23: runs_context(); break;
    case 24: has_child(below(4)); break;
    case 25: gets_several(signal); break;
    case 26:
        if (descriptor < 0) {
            descriptor = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
        } else {
            struct signalfd_siginfo found;
            result = read(descriptor, &found, sizeof found);
            SAY("signalfd %d\n", result > 0 ? (int)found.ssi_signo : 0);
            close(descriptor);
            descriptor = -1;
        }
        break;
    }
}

static void *waits(void *argument)
{
    for (;;)
        pause();
}

int main(int count, char **arguments)
{
    state = strtoull(count > 1 ? arguments[1] : "1", NULL, 10) * 0x9e3779b97f4a7c15 + 12345;
    for (int i = 0; i < 20; i++)
        below(2);
    self = getpid();
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    if (below(2))
        sigaltstack(&stack, NULL);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        installs(signals[i]);
    if (count > 2) {
        sigset_t all, old;
        pthread_t thread;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &old);
        pthread_create(&thread, NULL, waits, NULL);
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    while (steps < 200)
        step();
    SAY("end mask %llx pending %llx\n", mask(), pending());
    _exit(0);
}
