// Prints what a program sees of signals and masks. Run with and without the library, the output is
// the same. Each case runs in a child process; its exit status is part of the output. `show` is what
// programs started by a case run: it prints the masks that they inherit.
#define _GNU_SOURCE
#include <aio.h>
#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mntent.h>
#include <poll.h>
#include <pthread.h>
#include <resolv.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <utmpx.h>

extern char **environ;
static const char *self;

static void ignore_result(long result) { (void)result; }

static uint64_t word(const sigset_t *set) { return *(const uint64_t *)set; }

static sigset_t set_of(const int *signals)
{
    sigset_t set;
    sigemptyset(&set);
    while (*signals)
        sigaddset(&set, *signals++);
    return set;
}
#define SET(...) set_of((const int[]){__VA_ARGS__, 0})

static uint64_t mask_now(void)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return word(&now);
}
static void show_mask(const char *when) { printf("%s: mask %016lx\n", when, mask_now()); }

static uint64_t pending_now(void)
{
    sigset_t set;
    memset(&set, 0, sizeof set);
    sigpending(&set);
    return word(&set);
}
static void show_pending(const char *when) { printf("%s: pending %016lx\n", when, pending_now()); }

static void block(int signal)
{
    sigset_t set = SET(signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
}
static void unblock(int signal)
{
    sigset_t set = SET(signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static volatile int calls, quiet;

static void handler(int signal) { calls++; if (!quiet) printf("  handler %d\n", signal); }

static void details(int signal, siginfo_t *info, void *context)
{
    ucontext_t *frame = context;
    calls++;
    int own = info->si_pid == getpid() && info->si_uid == getuid();
    printf("  handler %d code %d own %d value %d mask %016lx before %016lx\n", signal, info->si_code,
           info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE ? own : -1,
           info->si_code == SI_QUEUE ? info->si_value.sival_int : -1, mask_now(),
           word(&frame->uc_sigmask));
}

static void install(int signal, void (*function)(int, siginfo_t *, void *), int flags, sigset_t mask)
{
    struct sigaction action = {.sa_sigaction = function, .sa_flags = flags | SA_SIGINFO, .sa_mask = mask};
    if (sigaction(signal, &action, NULL))
        printf("  cannot handle %d: %d\n", signal, errno);
}
static void install_plain(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(signal, &action, NULL))
        printf("  cannot handle %d: %d\n", signal, errno);
}
static sigset_t none(void) { sigset_t set; sigemptyset(&set); return set; }
static sigset_t all(void) { sigset_t set; sigfillset(&set); return set; }

static void queue(int signal, int value)
{
    sigqueue(getpid(), signal, (union sigval){.sival_int = value});
}

static void show_status(const char *what, int status)
{
    if (WIFEXITED(status))
        printf("%s: exit %d\n", what, WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        printf("%s: killed %d\n", what, WTERMSIG(status));
    else if (WIFSTOPPED(status))
        printf("%s: stopped %d\n", what, WSTOPSIG(status));
    else if (WIFCONTINUED(status))
        printf("%s: continued\n", what);
    else
        printf("%s: %x\n", what, status);
}

// Runs a function in a child and prints how it ended.
static void in_child(const char *what, void (*function)(int), int argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        function(argument);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    show_status(what, status);
}

static void show_action(const char *what, int signal)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (sigaction(signal, NULL, &action)) {
        printf("  %s: %d is refused: %d\n", what, signal, errno);
        return;
    }
    const char *name = action.sa_handler == SIG_DFL ? "default"
        : action.sa_handler == SIG_IGN ? "ignore"
        : action.sa_handler == handler ? "handler"
        : action.sa_sigaction == details ? "details" : "another";
    printf("  %s: %d %s flags %x mask %016lx restorer %d\n", what, signal, name, action.sa_flags, word(&action.sa_mask),
           action.sa_restorer != NULL);
}

// ---- The mask

static void procmask(void)
{
    sigset_t old, set;
    show_mask("start");
    install_plain(SIGUSR1, 0);
    for (int round = 0; round < 2; round++) {
        set = SET(SIGUSR1, SIGUSR2, SIGTERM, SIGCHLD, SIGRTMIN + 1);
        memset(&old, 0, sizeof old);
        printf("block %d\n", sigprocmask(SIG_BLOCK, &set, &old));
        printf("old %016lx\n", word(&old));
        show_mask("blocked");
        set = SET(SIGUSR2);
        printf("unblock %d\n", pthread_sigmask(SIG_UNBLOCK, &set, &old));
        printf("old %016lx\n", word(&old));
        show_mask("unblocked");
        // In place.
        set = SET(SIGHUP);
        printf("set %d\n", sigprocmask(SIG_SETMASK, &set, &set));
        printf("old %016lx\n", word(&set));
        show_mask("set");
        set = none();
        sigprocmask(SIG_SETMASK, &set, NULL);
    }
    memset(&set, 0xff, sizeof set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    show_mask("everything");
    set = none();
    sigprocmask(SIG_SETMASK, &set, NULL);
    memset(&set, 0xff, sizeof set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    show_mask("everything again");
    errno = 0;
    printf("bad how %d", sigprocmask(17, &set, NULL));
    printf(" errno %d\n", errno);
    printf("bad how %d\n", pthread_sigmask(17, &set, NULL));
    printf("no set %d\n", sigprocmask(17, NULL, &set));
    show_mask("end");
}

static void raw(void)
{
    uint64_t set = 1ul << (SIGUSR1 - 1), old = 7;
    install_plain(SIGUSR1, 0);
    printf("%ld\n", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, 8));
    printf("old %016lx\n", old);
    show_mask("blocked");
    raise(SIGUSR1);
    show_pending("raised");
    printf("%ld\n", syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, &old, 8));
    printf("old %016lx\n", old);
    show_mask("unblocked");
    errno = 0;
    printf("%ld", syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, &old, 16));
    printf(" errno %d\n", errno);
    printf("%d\n", syscall(SYS_getpid) == getpid());
    struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } action;
    printf("%ld ", syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8));
    printf("%d %lx %016lx\n", action.handler == (void *)handler, action.flags, action.mask);
    action.mask = 1 << (SIGUSR2 - 1);
    printf("%ld\n", syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8));
    show_action("raw", SIGUSR1);
    raise(SIGUSR1);
    printf("pages %d\n", syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != -1);
}

static void old_masks(void)
{
    install_plain(SIGUSR1, 0);
    printf("%x\n", sigblock(sigmask(SIGUSR1) | sigmask(SIGKILL)));
    printf("%x\n", sigblock(sigmask(SIGUSR2)));
    show_mask("blocked");
    printf("%x\n", siggetmask());
    raise(SIGUSR1);
    printf("%x\n", sigsetmask(sigmask(SIGUSR2)));
    show_mask("set");
    printf("%d\n", sighold(SIGUSR1));
    raise(SIGUSR1);
    show_mask("held");
    printf("%d\n", sigrelse(SIGUSR1));
    show_mask("released");
    errno = 0;
    printf("%d", sighold(1000));
    printf(" errno %d\n", errno);
    errno = 0;
    printf("%d", sigrelse(0));
    printf(" errno %d\n", errno);
    errno = 0;
    printf("%d", sighold(SIGKILL));
    printf(" errno %d\n", errno);
    show_mask("end");
}

// ---- Delivery

static void deliver(int signal)
{
    install(signal, details, 0, none());
    for (int round = 0; round < 3; round++) {
        block(signal);
        queue(signal, 100 + round);
        queue(signal, 200 + round);
        kill(getpid(), signal);
        printf("calls %d\n", calls);
        show_pending("blocked");
        unblock(signal);
        printf("calls %d\n", calls);
        show_pending("unblocked");
        raise(signal);
        block(signal);
        raise(signal);
        pthread_kill(pthread_self(), signal);
        show_pending("raised");
        sigset_t set = none();
        sigprocmask(SIG_SETMASK, &set, NULL);
        printf("calls %d\n", calls);
    }
}
static void every_signal(void)
{
    for (int signal = 1; signal <= SIGRTMAX; signal += signal > SIGRTMIN + 2 ? 9 : 1)
        if (signal != 32 && signal != 33 && signal != SIGKILL && signal != SIGSTOP) {
            printf("signal %d\n", signal);
            in_child("delivered", deliver, signal);
        }
}

static void order(void)
{
    const int signals[] = {SIGTERM, SIGRTMIN + 3, SIGUSR2, SIGHUP, SIGRTMIN, SIGUSR1, SIGSEGV, SIGINT, SIGCHLD};
    sigset_t set = none();
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        install(signals[i], details, 0, all());
        sigaddset(&set, signals[i]);
    }
    for (int round = 0; round < 2; round++) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
            for (int value = 0; value < 4; value++)
                queue(signals[i], value);
        show_pending("queued");
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        show_pending("delivered");
    }
    // Several come at once: the process is stopped meanwhile.
    signal(SIGCHLD, SIG_DFL);
    const int kinds[] = {SIGRTMIN + 3, SIGUSR1};
    for (int i = 0; i < 2; i++) {
        block(kinds[i]);
        fflush(stdout);
        volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            kill(parent, SIGSTOP);
            usleep(20000);
            for (int value = 0; value < 4; value++)
                sigqueue(parent, kinds[i], (union sigval){.sival_int = value});
            *done = 1;
            kill(parent, SIGCONT);
            _exit(0);
        }
        while (!*done)
            ;
        show_pending("stopped");
        unblock(kinds[i]);
        waitpid(child, NULL, 0);
    }
}

static void default_action(int signal)
{
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    for (int round = 0; round < 2; round++) {
        block(signal);
        kill(getpid(), signal);
        show_pending("blocked");
        show_action("default", signal);
        if (round == 0) {
            // Taken, and not delivered.
            sigset_t set = SET(signal);
            siginfo_t info;
            printf("wait %d ", sigwaitinfo(&set, &info));
            printf("code %d\n", info.si_code);
            unblock(signal);
        }
    }
    fflush(stdout);
    unblock(signal);
    printf("alive\n");
}
static void unblocked_default(int signal)
{
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    block(signal);
    unblock(signal);
    block(signal);
    unblock(signal);
    printf("before\n");
    fflush(stdout);
    kill(getpid(), signal);
    printf("alive\n");
}
// The handler of a signal that comes after the one that ends the process, and blocks that.
static void says_so(int signal)
{
    printf("handler %d\n", signal);
    fflush(stdout);
}
static void default_first(int signal)
{
    sigset_t both = SET(signal, SIGUSR1);
    struct sigaction action = {.sa_handler = says_so, .sa_mask = both};
    sigaction(SIGUSR1, &action, NULL);
    sigprocmask(SIG_BLOCK, &both, NULL);
    // The kernel delivers a thread's signals before the process's.
    pthread_sigqueue(pthread_self(), signal, (union sigval){1});
    kill(getpid(), SIGUSR1);
    printf("before\n");
    fflush(stdout);
    sigprocmask(SIG_UNBLOCK, &both, NULL);
    printf("alive\n");
}
static void defaults(void)
{
    in_child("first", default_first, SIGTERM);
    for (int signal = 1; signal <= SIGRTMIN; signal++)
        if (signal != 32 && signal != 33 && signal != SIGKILL && signal != SIGSTOP && signal != SIGTSTP
            && signal != SIGTTIN && signal != SIGTTOU) {
            printf("signal %d\n", signal);
            in_child("pending", default_action, signal);
            in_child("unblocked", unblocked_default, signal);
        }
}

static void ignored_one(int number)
{
    signal(number, SIG_IGN);
    raise(number);
    show_pending("ignored");
    block(number);
    raise(number);
    show_pending("blocked");
    install_plain(number, 0);
    unblock(number);
    printf("calls %d\n", calls);
    block(number);
    raise(number);
    show_pending("blocked with a handler");
    signal(number, SIG_IGN);
    show_pending("ignored then");
    raise(number);
    show_pending("raised then");
    signal(number, SIG_DFL);
    show_pending("default then");
    signal(number, SIG_IGN);
    unblock(number);
    raise(number);
    install_plain(number, 0);
    show_pending("end");
    raise(number);
    printf("calls %d\n", calls);
    // Blocked without the kernel's knowledge, then changed.
    block(number);
    signal(number, SIG_DFL);
    raise(number);
    show_pending("blocked, then default");
    install_plain(number, 0);
    unblock(number);
    printf("calls %d\n", calls);
}
static void ignored(void)
{
    const int signals[] = {SIGUSR1, SIGCHLD, SIGWINCH, SIGPIPE, SIGTERM, SIGURG, SIGRTMIN, SIGCONT};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        in_child("ignored", ignored_one, signals[i]);
}

static void child_signals(void)
{
    for (int round = 0; round < 3; round++) {
        if (round == 1) {
            struct sigaction action = {.sa_handler = SIG_DFL};
            sigaction(SIGCHLD, &action, NULL);
        } else
            install(SIGCHLD, details, SA_NOCLDSTOP, none());
        block(SIGCHLD);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            _exit(7 + round);
        siginfo_t info;
        memset(&info, 0, sizeof info);
        waitid(P_PID, child, &info, WEXITED | WNOWAIT);
        show_pending("exited");
        if (round == 2) {
            unblock(SIGCHLD);
        } else {
            sigset_t set = SET(SIGCHLD);
            memset(&info, 0, sizeof info);
            printf("wait %d\n", sigwaitinfo(&set, &info));
            printf("code %d child %d status %d\n", info.si_code, info.si_pid == child, info.si_status);
            unblock(SIGCHLD);
        }
        waitpid(child, NULL, 0);
    }
    printf("calls %d\n", calls);
}

// ---- Handlers

static void nesting(int signal, siginfo_t *info, void *context)
{
    printf("  enter %d mask %016lx before %016lx\n", signal, mask_now(), word(&((ucontext_t *)context)->uc_sigmask));
    if (calls++ < 4) {
        raise(SIGUSR1);
        raise(SIGUSR2);
        raise(SIGRTMIN);
        raise(SIGTERM);
        show_pending("  inside");
    }
    printf("  leave %d\n", signal);
}
static void handlers(void)
{
    install(SIGUSR1, nesting, 0, SET(SIGUSR2, SIGINT));
    install(SIGUSR2, nesting, SA_NODEFER, none());
    install(SIGTERM, nesting, 0, all());
    install(SIGRTMIN, nesting, 0, SET(SIGTERM));
    const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGRTMIN};
    for (int i = 0; i < 4; i++) {
        calls = 0;
        raise(signals[i]);
        show_mask("after");
        show_pending("after");
        calls = 0;
        block(SIGUSR2);
        raise(signals[i]);
        show_mask("after");
        show_pending("after");
        unblock(SIGUSR2);
    }
}

static void one_shot(void)
{
    const int signals[] = {SIGUSR1, SIGRTMIN + 1};
    for (int i = 0; i < 2; i++) {
        install(signals[i], details, SA_RESETHAND, SET(SIGUSR2));
        show_action("installed", signals[i]);
        block(signals[i]);
        raise(signals[i]);
        show_action("deferred", signals[i]);
        unblock(signals[i]);
        show_action("delivered", signals[i]);
    }
    in_child("twice", unblocked_default, SIGUSR1);
}

static void changes_context(int signal, siginfo_t *info, void *context)
{
    ucontext_t *frame = context;
    printf("  handler %d mask %016lx before %016lx and %016llx\n", signal, mask_now(), word(&frame->uc_sigmask),
           (long long)frame->uc_mcontext.gregs[REG_OLDMASK]);
    sigaddset(&frame->uc_sigmask, SIGHUP);
    sigaddset(&frame->uc_sigmask, SIGKILL);
    sigdelset(&frame->uc_sigmask, SIGUSR2);
}
static void context_masks(void)
{
    install_plain(SIGUSR2, 0);
    install_plain(SIGHUP, 0);
    install(SIGUSR1, changes_context, 0, none());
    for (int round = 0; round < 3; round++) {
        block(SIGUSR2);
        raise(SIGUSR2);
        raise(SIGUSR1);
        show_mask("after");
        show_pending("after");
        raise(SIGHUP);
        show_pending("hup");
        unblock(SIGHUP);
        show_mask("end");
    }
}

static void changes_handlers(int number)
{
    printf("  handler %d\n", number);
    signal(SIGUSR2, SIG_IGN);
    raise(SIGUSR2);
    show_pending("  ignored");
}
static void handler_in_handler(void)
{
    for (int round = 0; round < 3; round++) {
        install_plain(SIGUSR2, 0);
        struct sigaction action = {.sa_handler = changes_handlers};
        sigaction(SIGUSR1, &action, NULL);
        block(SIGUSR2);
        raise(SIGUSR1);
        raise(SIGUSR2);
        show_pending("blocked");
        install_plain(SIGUSR2, 0);
        unblock(SIGUSR2);
        show_mask("end");
    }
}

static void blocks_for_good(int signal)
{
    printf("  handler %d\n", signal);
    sigset_t set = SET(SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    show_mask("  inside");
}
static void mask_in_handler(void)
{
    struct sigaction action = {.sa_handler = blocks_for_good};
    sigaction(SIGUSR1, &action, NULL);
    install_plain(SIGHUP, 0);
    raise(SIGUSR1);
    show_mask("after");
    block(SIGHUP);
    raise(SIGUSR1);
    show_mask("after");
    raise(SIGHUP);
    show_pending("after");
    unblock(SIGHUP);
}

static void actions(void)
{
    printf("%d\n", signal(SIGUSR1, handler) == SIG_DFL);
    show_action("signal", SIGUSR1);
    printf("%d\n", signal(SIGUSR1, SIG_IGN) == handler);
    show_action("signal", SIGUSR1);
    printf("%d\n", siginterrupt(SIGUSR1, 1));
    printf("%d\n", signal(SIGUSR1, handler) == SIG_IGN);
    show_action("interrupting", SIGUSR1);
    printf("%d\n", siginterrupt(SIGUSR1, 0));
    show_action("restarting", SIGUSR1);
    printf("%d\n", ssignal(SIGUSR1, SIG_DFL) == handler);
    printf("%d\n", bsd_signal(SIGUSR2, handler) == SIG_DFL);
    show_action("bsd_signal", SIGUSR2);
    printf("%d\n", sysv_signal(SIGUSR2, handler) == handler);
    show_action("sysv_signal", SIGUSR2);
    raise(SIGUSR2);
    show_action("delivered", SIGUSR2);
    printf("%d\n", sigset(SIGUSR2, handler) == SIG_DFL);
    show_action("sigset", SIGUSR2);
    printf("%d\n", sigset(SIGUSR2, SIG_HOLD) == handler);
    show_mask("held");
    raise(SIGUSR2);
    printf("%d\n", sigset(SIGUSR2, SIG_HOLD) == SIG_HOLD);
    printf("%d\n", sigset(SIGUSR2, handler) == SIG_HOLD);
    show_mask("released");
    printf("%d\n", sigignore(SIGTERM));
    show_action("sigignore", SIGTERM);
    install(SIGTERM, details, SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_NOCLDWAIT, all());
    show_action("flags", SIGTERM);
    struct sigaction action, old;
    sigaction(SIGTERM, NULL, &action);
    action.sa_handler = SIG_IGN;
    memset(&old, 0, sizeof old);
    sigaction(SIGTERM, &action, &old);
    printf("%d %x\n", old.sa_sigaction == details, old.sa_flags);
    show_action("as it was", SIGTERM);
    sigaction(SIGTERM, &old, &action);
    printf("%d %x\n", action.sa_handler == SIG_IGN, action.sa_flags);
    show_action("again", SIGTERM);
    const int bad[] = {0, -1, 65, 1000, SIGKILL, SIGSTOP, 32, 33};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        int result = signal(bad[i], handler) == SIG_ERR;
        printf("signal %d: %d %d\n", bad[i], result, errno);
        errno = 0;
        struct sigaction new = {.sa_handler = handler};
        result = sigaction(bad[i], &new, NULL);
        printf("sigaction %d: %d %d\n", bad[i], result, errno);
        errno = 0;
        result = sigset(bad[i], SIG_IGN) == SIG_ERR;
        printf("sigset %d: %d %d\n", bad[i], result, errno);
        errno = 0;
        result = siginterrupt(bad[i], 1);
        printf("siginterrupt %d: %d %d\n", bad[i], result, errno);
        errno = 0;
        result = sigignore(bad[i]);
        printf("sigignore %d: %d %d\n", bad[i], result, errno);
        show_action("query", bad[i]);
    }
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (signal != 32 && signal != 33)
            show_action("all", signal);
}

// ---- Waiting

static void later(int microseconds)
{
    struct itimerval time = {.it_value = {.tv_usec = microseconds}};
    setitimer(ITIMER_REAL, &time, NULL);
}

static void suspend(void)
{
    install(SIGUSR1, details, 0, SET(SIGTERM));
    install(SIGALRM, details, 0, none());
    sigset_t wait = SET(SIGUSR2, SIGINT);
    for (int round = 0; round < 2; round++) {
        block(SIGUSR1);
        block(SIGHUP);
        raise(SIGUSR1);
        errno = 0;
        printf("sigsuspend %d", sigsuspend(&wait));
        printf(" errno %d\n", errno);
        show_mask("after");
        later(20000);
        errno = 0;
        printf("sigsuspend %d", sigsuspend(&wait));
        printf(" errno %d\n", errno);
        show_mask("after");
        struct timespec zero = {0, 0}, second = {1, 0};
        raise(SIGUSR1);
        printf("ppoll %d\n", ppoll(NULL, 0, &zero, NULL));
        show_pending("no mask");
        printf("ppoll %d", ppoll(NULL, 0, &second, &wait));
        printf(" errno %d\n", errno);
        show_mask("after");
        later(20000);
        printf("ppoll %d", ppoll(NULL, 0, &second, &wait));
        printf(" errno %d\n", errno);
        raise(SIGUSR1);
        printf("pselect %d\n", pselect(0, NULL, NULL, NULL, &zero, NULL));
        printf("pselect %d", pselect(0, NULL, NULL, NULL, &second, &wait));
        printf(" errno %d\n", errno);
        show_mask("after");
        int epoll = epoll_create1(0);
        struct epoll_event event;
        raise(SIGUSR1);
        printf("epoll_pwait %d\n", epoll_pwait(epoll, &event, 1, 0, NULL));
        printf("epoll_pwait %d", epoll_pwait(epoll, &event, 1, 1000, &wait));
        printf(" errno %d\n", errno);
        show_mask("after");
        raise(SIGUSR1);
        printf("epoll_pwait2 %d", epoll_pwait2(epoll, &event, 1, &second, &wait));
        printf(" errno %d\n", errno);
        show_mask("after");
        close(epoll);
        raise(SIGUSR1);
        printf("sigpause %d", sigpause(SIGUSR1));
        printf(" errno %d\n", errno);
        show_mask("after");
        // Nothing waits: the mask is the thread's own again.
        unblock(SIGUSR1);
        raise(SIGUSR1);
        show_mask("end");
        int ends[2];
        ignore_result(pipe(ends));
        ignore_result(write(ends[1], "x", 1));
        struct pollfd ready = {.fd = ends[0], .events = POLLIN};
        printf("ppoll %d\n", ppoll(&ready, 1, &second, &wait));
        raise(SIGUSR1);
        close(ends[0]);
        close(ends[1]);
    }
}

static void nested_suspend_handler(int signal)
{
    printf("  enter %d\n", signal);
    show_mask("  inside");
    if (signal == SIGUSR1) {
        raise(SIGUSR2);
        raise(SIGHUP);
        sigset_t wait = SET(SIGINT);
        // The C library leaves its own signals in the mask of a wait.
        *(uint64_t *)&wait |= 3ull << 31;
        raise(SIGTERM);
        sigsuspend(&wait);
        show_mask("  inside again");
        show_pending("  inside again");
    }
    printf("  leave %d\n", signal);
}
static void nested_suspend(void)
{
    struct sigaction action = {.sa_handler = nested_suspend_handler, .sa_mask = SET(SIGTERM)};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    block(SIGUSR1);
    block(SIGHUP);
    raise(SIGUSR1);
    sigset_t wait = SET(SIGUSR2);
    sigsuspend(&wait);
    show_mask("after");
    show_pending("after");
}

static void waits(void)
{
    sigset_t set = SET(SIGUSR1, SIGUSR2, SIGRTMIN, SIGCHLD);
    siginfo_t info;
    int number;
    install_plain(SIGUSR1, 0);
    install_plain(SIGALRM, 0);
    for (int round = 0; round < 2; round++) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGUSR1);
        number = 0;
        int result = sigwait(&set, &number);
        printf("sigwait %d %d\n", result, number);
        queue(SIGRTMIN, 5);
        queue(SIGRTMIN, 6);
        queue(SIGUSR2, 7);
        queue(SIGCHLD, 8);
        for (int i = 0; i < 4; i++) {
            result = sigwaitinfo(&set, &info);
            printf("sigwaitinfo %d code %d value %d\n", result, info.si_code, info.si_value.sival_int);
        }
        struct timespec time = {0, 1000000};
        errno = 0;
        printf("sigtimedwait %d", sigtimedwait(&set, &info, &time));
        printf(" errno %d\n", errno);
        later(20000);
        time.tv_sec = 2;
        errno = 0;
        printf("sigtimedwait %d", sigtimedwait(&set, &info, &time));
        printf(" errno %d\n", errno);
        raise(SIGUSR1);
        printf("sigtimedwait %d\n", sigtimedwait(&set, NULL, &time));
        show_pending("end");
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    // From another process, while this one waits.
    sigprocmask(SIG_BLOCK, &set, NULL);
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(20000);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    int result = sigwaitinfo(&set, &info);
    printf("from a child %d code %d %d\n", result, info.si_code, info.si_pid == child);
    waitpid(child, NULL, 0);
}

static void descriptors(void)
{
    sigset_t set = SET(SIGUSR1, SIGRTMIN, SIGTERM);
    install_plain(SIGUSR1, 0);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int descriptor = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    for (int round = 0; round < 2; round++) {
        printf("nothing %ld\n", (long)read(descriptor, &info, sizeof info));
        queue(SIGUSR1, 3);
        queue(SIGRTMIN, 4);
        kill(getpid(), SIGTERM);
        struct pollfd ready = {.fd = descriptor, .events = POLLIN};
        printf("poll %d\n", poll(&ready, 1, 1000));
        while (read(descriptor, &info, sizeof info) > 0)
            printf("read %d code %d value %d\n", info.ssi_signo, info.ssi_code, info.ssi_int);
        // Blocked without the kernel's knowledge from here on.
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        sigprocmask(SIG_BLOCK, &set, NULL);
    }
    queue(SIGUSR1, 3);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("calls %d\n", calls);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

// Sends SIGALRM every 100 ms. Not by a timer: for a process with a periodic one, the kernel is told
// each mask from then on.
static pid_t repeatedly(void)
{
    pid_t parent = getpid(), sender = fork();
    if (sender == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            usleep(100000);
            if (getppid() != parent)
                _exit(0);
            kill(parent, SIGALRM);
        }
    }
    return sender;
}

// Reads as the C library does from glibc 2.41 on: the number of the call is in memory.
static long reads_by_memory(int descriptor, char *bytes, long count)
{
    long result;
    __asm__ volatile("sub $128, %%rsp\n push %1\n push %1\n mov 8(%%rsp), %%rax\n syscall\n add $144, %%rsp"
                     : "=a"(result)
                     : "r"((long)SYS_read), "D"(descriptor), "S"(bytes), "d"(count)
                     : "rcx", "r11", "memory");
    return result;
}

// The number is what was tested, as in `read` up to glibc 2.33; or the frame pointer says where it is; or
// it comes after a jump whose distance could be a prefix; or an argument comes after it, as in `stat` of
// old programs from glibc 2.43 on.
#define CALLS(name, before, after)                                                                \
    static long name(long number, long a, char *b, long c)                                        \
    {                                                                                             \
        register long d __asm__("r10") = 0;                                                       \
        long result;                                                                              \
        __asm__ volatile(before "\n syscall\n" after                                              \
                         : "=a"(result), "+S"(b)                                                  \
                         : "0"(number), "D"(a), "d"(c), "r"(d)                                    \
                         : "rcx", "r11", "memory");                                               \
        return result;                                                                            \
    }
CALLS(reads_by_test, "test %%eax, %%eax\n jne . + 4", "")
CALLS(reads_by_frame, "sub $128, %%rsp\n push %%rax\n push %%rbp\n lea -8(%%rsp), %%rbp\n mov 16(%%rbp), %%rax",
      "pop %%rbp\n add $136, %%rsp")
CALLS(reads_after_jump, "clc\n .byte 0x72, 0x43\n mov $0, %%eax", "")
CALLS(waits_by_moves, "mov $61, %%eax\n mov %%rdx, %%rsi", "")

// What a signal interrupts, and what one that is blocked does not. One that interrupts is repeated:
// on a busy machine, the first may come before the call. And the call would last for long.
static void interruptions_of(int flags)
{
    int ends[2];
    char buffer[100];
    ignore_result(pipe(ends));
    install_plain(SIGALRM, flags);
    quiet = 1;
    FILE *file = fdopen(ends[0], "r");
    for (int blocked = 0; blocked < 2; blocked++) {
        printf("flags %x, blocked %d\n", flags, blocked);
#define INTERRUPTED(name, call)                                                                   \
    do {                                                                                          \
        if (blocked)                                                                              \
            block(SIGALRM);                                                                       \
        calls = 0;                                                                                \
        errno = 0;                                                                                \
        double start = seconds();                                                                 \
        pid_t sender = blocked ? 0 : repeatedly();                                                \
        if (blocked)                                                                              \
            later(100000);                                                                        \
        long result = (call);                                                                     \
        int error = errno;                                                                        \
        int full = blocked && seconds() - start > 0.24;                                                     \
        int before = calls;                                                                       \
        if (sender) {                                                                             \
            kill(sender, SIGKILL);                                                                \
            while (waitpid(sender, NULL, 0) < 0) {}                                               \
        }                                                                                         \
        unblock(SIGALRM);                                                                         \
        printf("%s: %ld errno %d full %d ", name, result, result < 0 ? error : 0, full);          \
        if (blocked)                                                                              \
            printf("calls %d %d\n", before, calls);                                               \
        else                                                                                      \
            printf("called %d\n", before > 0);                                                    \
    } while (0)
        int ends_early = !blocked && !(flags & SA_RESTART);
        // Nothing restarts these.
        int milliseconds = blocked ? 250 : 10000;
        struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        struct timeval microseconds = {time.tv_sec, time.tv_nsec / 1000};
        struct pollfd wait = {.fd = ends[0], .events = POLLIN};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        INTERRUPTED("nanosleep", nanosleep(&time, NULL));
        INTERRUPTED("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
        INTERRUPTED("usleep", usleep(milliseconds * 1000));
        INTERRUPTED("poll", poll(&wait, 1, milliseconds));
        INTERRUPTED("ppoll", ppoll(&wait, 1, &time, NULL));
        INTERRUPTED("select", select(ends[0] + 1, &set, NULL, NULL, &microseconds));
        int epoll = epoll_create1(0);
        struct epoll_event event;
        INTERRUPTED("epoll_wait", epoll_wait(epoll, &event, 1, milliseconds));
        close(epoll);
        sem_t semaphore;
        sem_init(&semaphore, 0, 0);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += ends_early ? 10 : 0;
        until.tv_nsec += 250000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        INTERRUPTED("sem_timedwait", sem_timedwait(&semaphore, &until));
        fflush(stdout);
        // A byte arrives after 250 ms, or after a second if the read ends before.
        int written = ends_early ? 1000000 : 250000;
#define WRITER()                                                                                  \
    do {                                                                                          \
        fflush(stdout);                                                                           \
        if ((writer = fork()) == 0) {                                                             \
            usleep(written);                                                                      \
            ignore_result(write(ends[1], "x\n", 2));                                              \
            _exit(0);                                                                             \
        }                                                                                         \
    } while (0)
        pid_t writer;
        WRITER();
        INTERRUPTED("read", read(ends[0], buffer, 2));
        waitpid(writer, NULL, 0);
        if (ends_early)
            ignore_result(read(ends[0], buffer, 2));
        if (blocked) {
            WRITER();
            INTERRUPTED("fgets", fgets(buffer, sizeof buffer, file) != NULL);
            waitpid(writer, NULL, 0);
            WRITER();
            INTERRUPTED("read by memory", reads_by_memory(ends[0], buffer, 2));
            waitpid(writer, NULL, 0);
            WRITER();
            INTERRUPTED("read by test", reads_by_test(SYS_read, ends[0], buffer, 2));
            waitpid(writer, NULL, 0);
            WRITER();
            INTERRUPTED("read by frame", reads_by_frame(SYS_read, ends[0], buffer, 2));
            waitpid(writer, NULL, 0);
            WRITER();
            INTERRUPTED("read after jump", reads_after_jump(SYS_read, ends[0], buffer, 2));
            waitpid(writer, NULL, 0);
            WRITER();
            INTERRUPTED("wait by moves", waits_by_moves(SYS_wait4, writer, NULL, 0) == writer);
        }
        fflush(stdout);
        if ((writer = fork()) == 0) {
            usleep(written);
            _exit(3);
        }
        int status = 0;
        INTERRUPTED("waitpid", waitpid(writer, &status, 0) == writer);
        if (status == 0)
            waitpid(writer, NULL, 0);
    }
}
static void interruptions(void)
{
    interruptions_of(0);
    interruptions_of(SA_RESTART);
}

// ---- Stacks and faults

static char alternate[65536];
static void on_stack(int signal, siginfo_t *info, void *context)
{
    char here;
    stack_t now;
    sigaltstack(NULL, &now);
    printf("  handler %d on %d flags %d saved %d\n", signal, &here >= alternate && &here < alternate + sizeof alternate,
           now.ss_flags, ((ucontext_t *)context)->uc_stack.ss_sp == alternate);
}
static void stacks(void)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
    printf("%d\n", sigaltstack(&stack, &old));
    printf("%d\n", old.ss_flags);
    install(SIGUSR1, on_stack, SA_ONSTACK, none());
    install(SIGUSR2, on_stack, 0, none());
    for (int round = 0; round < 2; round++) {
        block(SIGUSR1);
        block(SIGUSR2);
        raise(SIGUSR1);
        raise(SIGUSR2);
        printf("raised\n");
        unblock(SIGUSR1);
        unblock(SIGUSR2);
        raise(SIGUSR1);
        raise(SIGUSR2);
    }
    stack.ss_flags = SS_DISABLE;
    printf("%d\n", sigaltstack(&stack, &old));
    printf("%d %d\n", old.ss_sp == alternate, old.ss_flags);
    raise(SIGUSR1);
}

static sigjmp_buf recovery;
static void recover(int signal) { printf("  fault %d\n", signal); siglongjmp(recovery, 1); }
static void fault(void) { *(volatile int *)16 = 1; }
static void overflow(volatile char *above)
{
    volatile char here[4096];
    here[0] = *above;
    overflow(here);
    here[1] = 1;
}

static void blocked_fault(int handled)
{
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    if (handled)
        install_plain(SIGSEGV, 0);
    block(SIGSEGV);
    fault();
}
static void ignored_fault(int number)
{
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    signal(SIGSEGV, SIG_IGN);
    fault();
}
static void aborts(int kind)
{
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    if (kind & 1)
        install_plain(SIGABRT, 0);
    if (kind & 2)
        block(SIGABRT);
    fflush(stdout);
    setvbuf(stdout, NULL, _IONBF, 0);
    // As `assert` does within the C library: past the library that is preloaded.
    if (kind & 4)
        ((void (*)(void))dlsym(dlopen("libc.so.6", RTLD_LAZY), "abort"))();
    abort();
}
static void faults(void)
{
    struct sigaction action = {.sa_handler = recover};
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 3; round++) {
        if (sigsetjmp(recovery, 1) == 0)
            fault();
        show_mask("recovered");
    }
    // The old action cannot be stored: the new one is installed nevertheless.
    struct sigaction *volatile nowhere = (struct sigaction *)8;
    struct sigaction ignoring = {.sa_handler = SIG_IGN};
    if (sigsetjmp(recovery, 1) == 0)
        sigaction(SIGUSR1, &ignoring, nowhere);
    show_mask("old action");
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    printf("ignored %d\n", now.sa_handler == SIG_IGN);
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 2; round++) {
        if (sigsetjmp(recovery, 1) == 0) {
            char here = 0;
            overflow(&here);
        }
        show_mask("overflowed");
    }
    for (int handled = 0; handled < 2; handled++)
        in_child("blocked", blocked_fault, handled);
    in_child("ignored", ignored_fault, 0);
    for (int kind = 0; kind < 8; kind++)
        in_child("abort", aborts, kind);
}

// ---- Jumps and contexts

static sigjmp_buf buffer;
static void jump_away(int signal) { calls++; siglongjmp(buffer, 5); }
static void jump_plainly(int signal) { longjmp(buffer, 6); }

static void jumps(void)
{
    install_plain(SIGUSR2, 0);
    for (int save = 0; save < 2; save++) {
        block(SIGUSR1);
        volatile int round = 0;
        int result = sigsetjmp(buffer, save);
        printf("result %d\n", result);
        show_mask("here");
        if (round++ < 3) {
            block(SIGUSR2);
            unblock(SIGUSR1);
            raise(SIGUSR2);
            show_pending("jumping");
            if (round == 1)
                siglongjmp(buffer, round);
            if (round == 2)
                longjmp(buffer, 0);
            _longjmp(buffer, 9);
        }
        sigset_t set = none();
        sigprocmask(SIG_SETMASK, &set, NULL);
    }
    int (*plain)(jmp_buf) = (void *)setjmp;
    (void)plain;
    struct sigaction action = {.sa_handler = jump_away};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = jump_plainly;
    sigaction(SIGTERM, &action, NULL);
    for (int save = 0; save < 2; save++) {
        volatile int times = 0;
        int result = sigsetjmp(buffer, save);
        printf("result %d\n", result);
        show_mask("from a handler");
        unblock(SIGUSR1);
        if (times++ < 3)
            raise(SIGUSR1);
        times = 0;
        result = sigsetjmp(buffer, save);
        printf("result %d\n", result);
        show_mask("from a handler");
        unblock(SIGTERM);
        if (times++ < 2)
            raise(SIGTERM);
    }
    // Signals that come while a handler jumps away are not lost.
    calls = 0;
    volatile int sent = 0;
    sigsetjmp(buffer, 1);
    if (sent++ < 100) {
        block(SIGUSR1);
        raise(SIGUSR1);
        unblock(SIGUSR1);
    }
    printf("calls %d\n", calls);
}

static ucontext_t main_context, first, second;
static char first_stack[65536], second_stack[65536];

static void arguments(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j)
{
    printf("arguments %d %d %d %d %d %d %d %d %d %d\n", a, b, c, d, e, f, g, h, i, j);
    show_mask("inside");
}
static void few(int a, int b) { printf("arguments %d %d\n", a, b); }
static void alternate_masks(void)
{
    show_mask("coroutine");
    fesetround(FE_DOWNWARD);
    for (int i = 0; i < 3; i++) {
        sigset_t set = SET(SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGUSR1);
        show_pending("coroutine");
        swapcontext(&first, &main_context);
        printf("rounding %d\n", fegetround() == FE_DOWNWARD);
        show_mask("coroutine again");
        show_pending("coroutine again");
    }
}
static volatile int reached, reached_copy;
static void contexts(void)
{
    // A copy has a rounding mode of its own.
    fesetround(FE_UPWARD);
    getcontext(&first);
    int is_upward = (__builtin_ia32_stmxcsr() & 0x6000) == 0x4000;
    fesetround(FE_TONEAREST);
    if (reached_copy++ == 0) {
        second = first;
        first.__fpregs_mem.mxcsr = __builtin_ia32_stmxcsr();
        setcontext(&second);
    }
    printf("upward %d\n", is_upward);
    install_plain(SIGUSR1, 0);
    printf("%d\n", getcontext(&first));
    printf("mask %016lx\n", word(&first.uc_sigmask));
    first.uc_stack.ss_sp = first_stack;
    first.uc_stack.ss_size = sizeof first_stack;
    first.uc_link = &main_context;
    sigaddset(&first.uc_sigmask, SIGUSR2);
    makecontext(&first, (void (*)(void))arguments, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    block(SIGHUP);
    printf("%d\n", swapcontext(&main_context, &first));
    show_mask("back");
    getcontext(&first);
    makecontext(&first, (void (*)(void))few, 2, 11, -12);
    printf("%d\n", swapcontext(&main_context, &first));
    getcontext(&first);
    sigset_t saved = first.uc_sigmask;
    sigemptyset(&first.uc_sigmask);
    makecontext(&first, alternate_masks, 0);
    for (int i = 0; i < 3; i++) {
        printf("%d\n", swapcontext(&main_context, &first));
        printf("rounding %d\n", fegetround() == FE_TONEAREST);
        show_mask("main");
        show_pending("main");
        unblock(SIGUSR1);
    }
    swapcontext(&main_context, &first);
    show_mask("finished");
    (void)saved;
    block(SIGUSR1);
    raise(SIGUSR1);
    getcontext(&second);
    show_mask("second");
    if (reached++ == 0) {
        sigdelset(&second.uc_sigmask, SIGUSR1);
        setcontext(&second);
    }
    if (reached == 2) {
        sigaddset(&second.uc_sigmask, SIGTERM);
        setcontext(&second);
    }
    // A context that is saved and restored at once: its mask is read before it is stored.
    sigaddset(&second.uc_sigmask, SIGTTIN);
    printf("%d\n", swapcontext(&second, &second));
    show_mask("same");
    printf("mask %016lx\n", word(&second.uc_sigmask));
}
static void ends_in_context(int argument)
{
    getcontext(&first);
    first.uc_stack.ss_sp = second_stack;
    first.uc_stack.ss_size = sizeof second_stack;
    first.uc_link = NULL;
    makecontext(&first, (void (*)(void))few, 2, 1, 2);
    setcontext(&first);
}
static void last_context(void) { in_child("no link", ends_in_context, 0); }

static void switching(int signal, siginfo_t *info, void *context)
{
    printf("  switch %d mask %016lx\n", signal, mask_now());
    swapcontext(&main_context, &first);
    printf("  returned mask %016lx\n", mask_now());
}
static void in_coroutine(void)
{
    show_mask("coroutine");
    raise(SIGUSR2);
    show_pending("coroutine");
}
static void contexts_in_handlers(void)
{
    install(SIGUSR1, switching, 0, SET(SIGUSR2));
    install_plain(SIGUSR2, 0);
    getcontext(&first);
    first.uc_stack.ss_sp = first_stack;
    first.uc_stack.ss_size = sizeof first_stack;
    first.uc_link = &main_context;
    makecontext(&first, in_coroutine, 0);
    raise(SIGUSR1);
    show_mask("end");
}

// ---- Processes

static void show_inherited(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[200];
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6)
            || !strncmp(line, "SigPnd", 6) || !strncmp(line, "ShdPnd", 6))
            printf("    %s", line);
    fclose(status);
    fflush(stdout);
}

static void execs(int kind)
{
    install_plain(SIGUSR1, 0);
    signal(SIGHUP, SIG_IGN);
    block(SIGUSR1);
    block(SIGTERM);
    if (kind & 1) {
        block(SIGHUP);
        kill(getpid(), SIGUSR1);
        kill(getpid(), SIGTERM);
    }
    char *const argv[] = {(char *)self, "show", NULL};
    fflush(stdout);
    switch (kind / 2) {
    case 0: execv(self, argv); break;
    case 1: execve(self, argv, environ); break;
    case 2: execvp(self, argv); break;
    case 3: execvpe(self, argv, environ); break;
    case 4: execl(self, self, "show", (char *)NULL); break;
    case 5: execlp(self, self, "show", (char *)NULL); break;
    case 6: execle(self, self, "show", (char *)NULL, environ); break;
    case 7: fexecve(open(self, O_RDONLY | O_CLOEXEC), argv, environ); break;
    case 8: execveat(AT_FDCWD, self, argv, environ, 0); break;
    case 9:
        execl(self, self, "show", "a", "b", "c", "d", "e", "f", "g", (char *)NULL);
        break;
    }
    printf("not executed\n");
}
static void executing(void)
{
    for (int kind = 0; kind < 20; kind++)
        in_child("exec", execs, kind);
    block(SIGUSR1);
    errno = 0;
    printf("%d", execl("/nonexistent", "x", (char *)NULL));
    printf(" errno %d\n", errno);
    show_mask("still here");
}

static void spawn(posix_spawnattr_t *attributes)
{
    char *const argv[] = {(char *)self, "show", NULL};
    pid_t child;
    int status = -1;
    fflush(stdout);
    int result = posix_spawn(&child, self, NULL, attributes, argv, environ);
    waitpid(child, &status, 0);
    printf("posix_spawn %d status %d\n", result, status);
    result = posix_spawnp(&child, self, NULL, attributes, argv, environ);
    waitpid(child, &status, 0);
    printf("posix_spawnp %d status %d\n", result, status);
}
static void children(void)
{
    install_plain(SIGUSR1, 0);
    install_plain(SIGINT, 0);
    block(SIGUSR1);
    raise(SIGUSR1);
    fflush(stdout);
    int status;
    pid_t child = fork();
    if (child == 0) {
        show_mask("child");
        show_pending("child");
        raise(SIGUSR1);
        unblock(SIGUSR1);
        fflush(stdout);
        _exit(4);
    }
    waitpid(child, &status, 0);
    show_status("fork", status);
    show_pending("parent");
    unblock(SIGUSR1);
    block(SIGUSR1);
    block(SIGINT);
    // The child must not change what the parent has.
    for (int round = 0; round < 3; round++) {
        fflush(stdout);
        child = vfork();
        if (child == 0) {
            sigset_t set = SET(SIGTERM);
            sigprocmask(SIG_SETMASK, &set, NULL);
            signal(SIGINT, SIG_DFL);
            signal(SIGUSR1, SIG_IGN);
            if (round == 0)
                _exit(6);
            if (round == 1 && vfork() == 0) {
                sigprocmask(SIG_UNBLOCK, &set, NULL);
                _exit(0);
            }
            execl(self, self, "show", (char *)NULL);
            _exit(5);
        }
        show_mask("parent");
        waitpid(child, &status, 0);
        show_status("vfork", status);
        show_action("parent", SIGINT);
        show_action("parent", SIGUSR1);
        raise(SIGINT);
        raise(SIGUSR1);
        show_pending("parent");
        unblock(SIGINT);
        unblock(SIGUSR1);
        block(SIGUSR1);
        block(SIGINT);
    }
    spawn(NULL);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t set = SET(SIGHUP, SIGRTMIN);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    spawn(&attributes);
    char command[5000];
    snprintf(command, sizeof command, "%s show", self);
    unblock(SIGINT);
    block(SIGINT);
    fflush(stdout);
    printf("system %d\n", system(command));
    fflush(stdout);
    unblock(SIGINT);
    block(SIGINT);
    FILE *pipe = popen(command, "r");
    char line[200];
    while (fgets(line, sizeof line, pipe))
        printf("from a pipe %s", line);
    printf("pclose %d\n", pclose(pipe));
    show_mask("end");
}

static void stops(int kind)
{
    const int signals[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    setpgid(0, 0);
    for (int i = 0; i < 3; i++) {
        block(signals[i]);
        if (kind == 2)
            install_plain(signals[i], 0);
        kill(getpid(), signals[i]);
        show_pending("stop");
        if (kind == 0) {
            kill(getpid(), SIGCONT);
            show_pending("continued");
        }
        fflush(stdout);
        unblock(signals[i]);
        printf("on\n");
    }
    block(SIGCONT);
    install_plain(SIGCONT, 0);
    kill(getpid(), SIGCONT);
    show_pending("continue");
    block(SIGTSTP);
    kill(getpid(), SIGTSTP);
    show_pending("stop");
    kill(getpid(), SIGCONT);
    show_pending("continue");
    unblock(SIGTSTP);
    unblock(SIGCONT);
}
static void job_control(void)
{
    install(SIGCHLD, details, 0, none());
    for (int kind = 0; kind < 3; kind++) {
        fflush(stdout);
        block(SIGCHLD);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGCHLD, SIG_DFL);
            stops(kind);
            fflush(stdout);
            _exit(0);
        }
        int status;
        do {
            waitpid(child, &status, WUNTRACED);
            show_status("child", status);
            if (WIFSTOPPED(status))
                kill(child, SIGCONT);
        } while (WIFSTOPPED(status));
        unblock(SIGCHLD);
    }
}

// ---- Threads

static pthread_barrier_t barrier;
static void *inherits(void *argument)
{
    printf("thread mask %016lx pending %016lx\n", mask_now(), pending_now());
    sigset_t set = SET(SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    show_mask("thread");
    return NULL;
}
static int inherits_too(void *argument) { inherits(argument); return 0; }

static pthread_t receiver;
static void who(int signal) { calls++; printf("  handler %d in the thread %d\n", signal, pthread_self() == receiver); }

static void *receives(void *argument)
{
    pthread_barrier_wait(&barrier);
    // The process's signal comes here; the main thread blocks it.
    for (int i = 0; i < 1000 && calls < 1; i++)
        usleep(1000);
    pthread_barrier_wait(&barrier);
    sigset_t set = SET(SIGUSR1, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    show_pending("thread");
    int number;
    sigwait(&set, &number);
    printf("sigwait %d\n", number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    show_pending("thread");
    return NULL;
}
static void with_threads(void)
{
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    raise(SIGUSR1);
    pthread_t thread;
    pthread_create(&thread, NULL, inherits, NULL);
    pthread_join(thread, NULL);
    show_mask("main");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    sigset_t set = SET(SIGTERM);
    pthread_attr_setsigmask_np(&attributes, &set);
    pthread_create(&thread, &attributes, inherits, NULL);
    pthread_join(thread, NULL);
    thrd_t other;
    thrd_create(&other, inherits_too, NULL);
    thrd_join(other, NULL);
    unblock(SIGUSR1);
    struct sigaction action = {.sa_handler = who};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    calls = 0;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&receiver, NULL, receives, NULL);
    block(SIGUSR1);
    pthread_barrier_wait(&barrier);
    kill(getpid(), SIGUSR1);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    pthread_kill(receiver, SIGUSR2);
    pthread_sigqueue(receiver, SIGUSR1, (union sigval){.sival_int = 1});
    show_pending("main");
    pthread_barrier_wait(&barrier);
    pthread_join(receiver, NULL);
    unblock(SIGUSR1);
    printf("calls %d\n", calls);
}

static void *signals_first(void *argument)
{
    kill(getpid(), SIGUSR1);
    pthread_kill(*(pthread_t *)argument, SIGUSR2);
    return NULL;
}
// Signals blocked before there were threads are blocked for what they send.
static void threads_later(void)
{
    install_plain(SIGUSR1, 0);
    install_plain(SIGUSR2, 0);
    block(SIGUSR1);
    block(SIGUSR2);
    pthread_t main = pthread_self(), thread;
    pthread_create(&thread, NULL, signals_first, &main);
    pthread_join(thread, NULL);
    show_pending("sent");
    unblock(SIGUSR2);
    unblock(SIGUSR1);
    show_pending("end");
}

// What is pending of a signal that is ignored stays so when a thread starts.
static void *returns(void *argument) { return argument; }
static void ignored_later(void)
{
    static const int signals[] = {SIGHUP, SIGUSR1, SIGCHLD, SIGCONT, SIGURG, SIGWINCH};
    for (int i = 0; i < 6; i++)
        install_plain(signals[i], i < 4 ? 0 : SA_RESETHAND);
    for (int i = 0; i < 4; i++)
        signal(signals[i], i < 2 ? SIG_IGN : SIG_DFL);
    raise(SIGURG);
    raise(SIGWINCH);
    for (int i = 0; i < 6; i++) {
        block(signals[i]);
        raise(signals[i]);
    }
    show_pending("alone");
    pthread_t thread;
    pthread_create(&thread, NULL, returns, NULL);
    pthread_join(thread, NULL);
    show_pending("threads");
    for (int i = 0; i < 4; i++)
        show_action("ignored", signals[i]);
}

// ---- Timers

static volatile int overrun;
static void on_timer(int signal, siginfo_t *info, void *context)
{
    calls++;
    overrun += info->si_overrun;
    if (info->si_code != SI_TIMER || info->si_value.sival_int != 77)
        printf("  code %d\n", info->si_code);
}
// Its default action also comes if a timer's signal was pending with it, and that timer is deleted.
static void sent_before_timer(int signal)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
    struct itimerspec time = {.it_value.tv_nsec = 1};
    timer_t timer;
    block(signal);
    kill(getpid(), signal);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &time, NULL))
        _exit(1);
    while (timer_gettime(timer, &time) == 0 && time.it_value.tv_sec + time.it_value.tv_nsec != 0)
        ;
    timer_delete(timer);
    unblock(signal);
}
static void timers(void)
{
    in_child("sent before a timer", sent_before_timer, SIGUSR2);
    install(SIGUSR1, on_timer, 0, none());
    for (int round = 0; round < 2; round++) {
        // Blocked without the kernel's knowledge before there is a timer.
        block(SIGUSR1);
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77};
        timer_t timer;
        printf("%d\n", timer_create(CLOCK_MONOTONIC, &event, &timer));
        struct itimerspec time = {.it_value.tv_nsec = 5000000, .it_interval.tv_nsec = 5000000}, stop = {0};
        calls = overrun = 0;
        timer_settime(timer, 0, &time, NULL);
        double start = seconds();
        while (seconds() - start < 0.06)
            ;
        timer_settime(timer, 0, &stop, NULL);
        printf("calls %d\n", calls);
        unblock(SIGUSR1);
        printf("calls %d overruns %d\n", calls, overrun >= 9);
        timer_delete(timer);
    }
    install_plain(SIGALRM, 0);
    block(SIGALRM);
    struct itimerval every = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    double start = seconds();
    while (seconds() - start < 0.05)
        ;
    setitimer(ITIMER_REAL, &never, NULL);
    calls = 0;
    unblock(SIGALRM);
    printf("calls %d\n", calls);
}

// Addresses that a system call checks: the first is how abseil asks whether memory is readable.
static void bad_addresses(void)
{
    char *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long words[4] = {0}, old = 0, internal = 3UL << 31;
#define TRY(...) (errno = 0, printf("%ld ", syscall(__VA_ARGS__)), printf("errno %d\n", errno))
    TRY(SYS_rt_sigprocmask, ~0, bad, NULL, 8);
    TRY(SYS_rt_sigprocmask, ~0, words, NULL, 8);
    TRY(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8);
    TRY(SYS_rt_sigprocmask, SIG_BLOCK, NULL, bad, 8);
    TRY(SYS_rt_sigprocmask, SIG_BLOCK, &internal, bad, 8);
    TRY(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &old, 8);
    printf("mask %016lx\n", old);
    TRY(SYS_rt_sigaction, SIGUSR1, NULL, bad, 8);
    TRY(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8);
    TRY(SYS_rt_sigaction, SIGUSR1, NULL, -8L, 8);
    TRY(SYS_rt_sigaction, 33, NULL, words, 8);
    TRY(SYS_rt_sigaction, 65, NULL, words, 8);
    printf("%d %d\n", sigprocmask(77, (sigset_t *)words, NULL), errno);
}

static void signals_itself(void)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1) : "rcx", "r11", "memory");
}

// Code that blocks signals to run on a stack that has no room for them.
static void small_stacks(void)
{
    static char memory[32768];
    memset(memory, 0x5a, sizeof memory);
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    static ucontext_t here, there;
    getpid(); // so that it is not looked for there
    getcontext(&there);
    there.uc_stack.ss_sp = memory + 16384;
    there.uc_stack.ss_size = 1024;
    there.uc_link = &here;
    makecontext(&there, signals_itself, 0);
    swapcontext(&here, &there);
    int overwritten = 0;
    for (int i = 0; i < 16384; i++)
        overwritten += memory[i] != 0x5a;
    printf("overwritten %d\n", overwritten);
    show_pending("back");
    unblock(SIGUSR1);
}

// Code at the start of a mapping, of which the library must not read what is before.
static void start_of_mapping(void)
{
    unsigned char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code + 4096, "\xeb\xfe\x0f\x05\xc3", 5); // a loop; a system call and a return
    mprotect(code, 4096, PROT_NONE);
    mprotect(code + 4096, 4096, PROT_READ | PROT_EXEC);
    struct sigaction action = {.sa_handler = jump_away};
    sigaction(SIGALRM, &action, NULL);
    if (!sigsetjmp(buffer, 1)) {
        ualarm(20000, 0);
        __asm__ volatile("jmp *%0" : : "r"(code + 4096), "a"(-4L));
    }
    puts("left by the handler");
    install_plain(SIGALRM, 0);
    memcpy(mmap(code + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), "\x0f\x05\xc3", 3);
    mprotect(code + 4096, 4096, PROT_READ | PROT_EXEC);
    ualarm(20000, 0);
    block(SIGALRM);
    struct timespec time = {0, 100000000};
    long result;
    __asm__ volatile("call *%1" : "=a"(result) : "r"(code + 4096), "a"(SYS_nanosleep), "D"(&time), "S"(0L) : "rcx", "r11", "memory");
    unblock(SIGALRM);
    printf("calls %d\n", calls);
}

// System calls of the program's own, in which the last instruction before the call sets or uses r8,
// not the number. One may end for a signal that is blocked, but no other call is made in its place.
#define SENDS(name, sets_r8)                                                                      \
    static long name(int socket, const char *bytes, long count)                                   \
    {                                                                                             \
        register long flags __asm__("r10") = 0, size __asm__("r9") = 0;                           \
        long result;                                                                              \
        __asm__ volatile(sets_r8 "\n syscall" : "=a"(result)                                      \
                         : "a"(SYS_sendto), "D"(socket), "S"(bytes), "d"(count), "r"(flags), "r"(size) \
                         : "r8", "rcx", "r11", "memory");                                         \
        return result;                                                                            \
    }
SENDS(sends_short, "xor %%r8d, %%r8d")
SENDS(sends_long, ".byte 0x4d, 0x31, 0xc0") // xor r8, r8
SENDS(sends_moved, "mov $0, %%r8d")
SENDS(sends_behind, "lea -260(%%rdi), %%r8\n lea 260(%%r8), %%edi") // 260 is fchownat
static int sent_to __attribute__((used));
SENDS(sends_widened, "lea sent_to-260(%%rip), %%r8\n movslq 260(%%r8), %%rdi")
SENDS(sends_tested, "xor %%r8d, %%r8d\n test %%r8, %%r8\n jne . + 4")

static void own_numbers(void)
{
    static long (*const sends[])(int, const char *, long)
        = {sends_short, sends_long, sends_moved, sends_behind, sends_widened, sends_tested};
    static char much[65536];
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        int ends[2];
        ignore_result(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
        sent_to = ends[0];
        ignore_result(write(ends[1], "received", 9));
        while (send(ends[0], much, sizeof much, MSG_DONTWAIT) > 0) {}
        install_plain(SIGUSR1, 0);
        block(SIGUSR1);
        fflush(stdout);
        pid_t parent = getpid(), other = fork();
        if (other == 0) {
            usleep(100000);
            kill(parent, SIGUSR1);
            usleep(20000);
            while (recv(ends[1], much, sizeof much, MSG_DONTWAIT) > 0) {}
            _exit(0);
        }
        unblock(SIGUSR1);
        block(SIGUSR1);
        char bytes[] = "sent here";
        long result;
        do
            result = sends[i](ends[0], bytes, sizeof bytes);
        while (result == -EINTR);
        printf("%ld %s\n", result, bytes);
        waitpid(other, NULL, 0);
        unblock(SIGUSR1);
        close(ends[0]);
        close(ends[1]);
    }
}

static char clone_stack[65536];
static int clears_mask(void *argument)
{
    sigset_t clear = none();
    sigprocmask(SIG_SETMASK, &clear, NULL);
    if (argument)
        signal(SIGUSR1, SIG_DFL);
    show_mask("child");
    _exit(7);
}

// A child on this very memory, as of vfork.
static void shared_memory(void)
{
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    for (long argument = 0; argument < 2; argument++) {
        pid_t child = clone(clears_mask, clone_stack + sizeof clone_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)argument);
        int status;
        waitpid(child, &status, 0);
        show_status("clone", status);
        show_mask("parent");
        raise(SIGUSR1);
        show_pending("parent");
        unblock(SIGUSR1);
        printf("calls %d\n", calls);
        block(SIGUSR1);
    }
    printf("%d ", clone(clears_mask, clone_stack + sizeof clone_stack, CLONE_VM | CLONE_VFORK | CLONE_THREAD | SIGCHLD, NULL));
    printf("%d\n", errno);
    show_mask("refused");
    for (int has_stack = 0; has_stack < 2; has_stack++) {
        char *stack = has_stack ? clone_stack + sizeof clone_stack : NULL;
        printf("%d ", clone(has_stack ? NULL : clears_mask, stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
        printf("%d\n", errno);
    }
    ignore_result(wait(NULL));
}

// The child must not overwrite the return address of `syscall`.
static void raw_vfork(void)
{
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    fflush(stdout);
    volatile size_t size = 4096;
    pid_t child = syscall(SYS_vfork);
    if (child == 0)
        clears_mask(alloca(size));
    waitpid(child, NULL, 0);
    show_mask("parent");
    raise(SIGUSR1);
    show_pending("parent");
    unblock(SIGUSR1);
}

// A child on this memory that has this process's handlers too.
static int replaces_handler(void *argument)
{
    install(SIGUSR1, details, 0, none());
    _exit(0);
}
static void shared_handlers(void)
{
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    const int flags = CLONE_VM | CLONE_VFORK | CLONE_SIGHAND | SIGCHLD;
    if (clone(replaces_handler, clone_stack + sizeof clone_stack, flags, NULL) < 0)
        abort();
    wait(NULL);
    unblock(SIGUSR1);
    block(SIGUSR1);
    raise(SIGUSR1);
    show_pending("blocked");
    unblock(SIGUSR1);
}

static void raises(int signal) { calls++; raise(SIGUSR1); }

// A handler ends a call, and a blocked signal comes as it returns.
static void ended_call(void)
{
    install_plain(SIGUSR1, 0);
    struct sigaction action = {.sa_handler = raises, .sa_mask = SET(SIGUSR1)};
    sigaction(SIGALRM, &action, NULL);
    int ends[2];
    ignore_result(pipe(ends));
    FILE *file = fdopen(ends[0], "r");
    for (int i = 0; i < 3; i++) {
        // Again after a second, which ends a call that was restarted.
        struct itimerval timer = {.it_value.tv_usec = 20000, .it_interval.tv_sec = 1}, never = {0};
        setitimer(ITIMER_REAL, &timer, NULL);
        block(SIGUSR1);
        char line[10];
        errno = 0;
        char *read = fgets(line, sizeof line, file);
        printf("line %d EINTR %d calls %d\n", read != NULL, errno == EINTR, calls);
        setitimer(ITIMER_REAL, &never, NULL);
        show_pending("ended");
        clearerr(file);
        unblock(SIGUSR1);
    }
}

// The system calls that wait with a mask.
static void raw_waits(void)
{
    install(SIGALRM, details, 0, none());
    block(SIGALRM);
    block(SIGUSR2);
    sigset_t wait = SET(SIGINT);
    struct { sigset_t *set; size_t size; } pair = {&wait, 8};
    struct epoll_event event;
    int epoll = epoll_create1(0);
    for (int i = 0; i < 4; i++) {
        ualarm(20000, 0);
        errno = 0;
        long result = i == 0   ? syscall(SYS_rt_sigsuspend, &wait, 8)
                      : i == 1 ? syscall(SYS_ppoll, NULL, 0, NULL, &wait, 8)
                      : i == 2 ? syscall(SYS_pselect6, 0, NULL, NULL, NULL, NULL, &pair)
                               : syscall(SYS_epoll_pwait, epoll, &event, 1, -1, &wait, 8);
        printf("%ld errno %d\n", result, errno);
        show_mask("after");
    }
    struct timespec soon = {0, 1000000};
    printf("%ld\n", syscall(SYS_ppoll, NULL, 0, &soon, NULL, 8));
    printf("%ld ", syscall(SYS_rt_sigsuspend, 16L, 8));
    printf("errno %d\n", errno);
    printf("%ld ", syscall(SYS_pselect6, 0, NULL, NULL, NULL, &soon, 16L));
    printf("errno %d\n", errno);
}

// A handler of a signal that comes before or after the system call of ppoll waits itself, or leaves.
static volatile int depth, entered, wrong;
static void inner(int signal)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    calls++;
    wrong += !sigismember(&now, SIGUSR2);
}
static void outer(int signal)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    entered += depth++ > 0;
    int before = calls, blocked = sigismember(&now, SIGUSR2), wrong_before = wrong;
    struct itimerval soon = {{0, 60}, {0, 100}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &soon, NULL);
    while (calls < before + 2)
        pause();
    setitimer(ITIMER_REAL, &never, NULL);
    if (!blocked)
        wrong = wrong_before;
    depth--;
    if (blocked)
        siglongjmp(buffer, 1);
}
static void around_waits(void)
{
    struct sigaction action = {.sa_handler = inner};
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = outer;
    sigaction(SIGUSR1, &action, NULL);
    block(SIGUSR2);
    sigset_t wait = none();
    struct timespec zero = {0, 0};
    struct pollfd none_polled = {-1, 0, 0};
    static double start;
    static pid_t parent, child;
    start = seconds();
    parent = getpid();
    if (!sigsetjmp(buffer, 1)) {
        // No handler jumps before `child` is known.
        block(SIGUSR1);
        child = fork();
        while (child == 0 && kill(parent, SIGUSR1) == 0)
            usleep(300);
        if (child == 0)
            _exit(0);
        unblock(SIGUSR1);
    }
    while (seconds() - start < 2)
        for (int i = 0; i < 100; i++)
            ppoll(&none_polled, 1, &zero, &wait);
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0)
        ;
    printf("entered while it ran %d, wrong masks %d\n", entered, wrong);
}

static ucontext_t moving, first_home, second_home, *volatile home = &first_home;
static sem_t to_second, to_first;
static void preempted(int signal) { swapcontext(&moving, home); }
static void moves(void)
{
    raise(SIGUSR1);
    calls++;
    swapcontext(&moving, home);
}
static void *continues(void *argument)
{
    sem_wait(&to_second);
    home = &second_home;
    swapcontext(&second_home, &moving);
    show_mask("second thread");
    sem_post(&to_first);
    return NULL;
}

// A context that was preempted in a handler goes on in another thread.
static void moved_contexts(void)
{
    sem_init(&to_second, 0, 0);
    sem_init(&to_first, 0, 0);
    struct sigaction action = {.sa_handler = preempted};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, continues, NULL);
    getcontext(&moving);
    moving.uc_stack.ss_sp = first_stack;
    moving.uc_stack.ss_size = sizeof first_stack;
    makecontext(&moving, moves, 0);
    swapcontext(&first_home, &moving);
    block(SIGUSR2);
    sem_post(&to_second);
    sem_wait(&to_first);
    show_mask("first thread");
    install_plain(SIGUSR2, 0);
    unblock(SIGUSR2);
    pthread_kill(pthread_self(), SIGUSR2);
    printf("calls %d\n", calls);
    pthread_join(thread, NULL);
}

// Sets what a filter returns for one system call, and for all others.
static void filter_call(int number, unsigned result, unsigned otherwise)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, result),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        abort();
}

// The kernel refuses an action.
static void refused_actions(void)
{
    install_plain(SIGUSR1, 0);
    filter_call(SYS_rt_sigaction, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
    struct sigaction action = {.sa_handler = jump_away};
    printf("%d ", sigaction(SIGUSR1, &action, NULL));
    printf("%d\n", errno);
    raise(SIGUSR1);
}

// A filter refuses what would queue a signal again. Set by the kernel's call itself, it is as one that
// the process had from the start.
static void filtered(int kind)
{
    static const int refused[] = {SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_kill, SYS_tgkill};
    struct sock_filter filter[7] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    const int last = kind < 3 ? 4 : 1;
    for (int i = 0; i < last; i++)
        filter[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], last - i, 0);
    filter[last + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[last + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {last + 3, filter};
    struct itimerval soon = {.it_value = {0, 1}};
    long result = 0;
    install_plain(SIGALRM, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    switch (kind) {
    case 0: prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program); break;
    case 1: syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program); break;
    case 2: syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program); break;
    default:
        __asm__ volatile("syscall" : "=a"(result)
                         : "a"(SYS_prctl), "D"(PR_SET_SECCOMP), "S"(SECCOMP_MODE_FILTER), "d"(&program)
                         : "rcx", "r11", "memory");
    }
    block(SIGALRM);
    if (kind < 3) {
        setitimer(ITIMER_REAL, &soon, NULL);
        do
            getitimer(ITIMER_REAL, &soon);
        while (soon.it_value.tv_usec);
    } else {
        kill(getpid(), SIGALRM);
        kill(getpid(), SIGALRM);
    }
    printf("  handled %d, result %ld\n", calls, result);
    unblock(SIGALRM);
    printf("  handled %d\n", calls);
}
static void filters(void)
{
    for (int kind = 0; kind < 4; kind++)
        in_child("filter", filtered, kind);
}

// A filter that lets a program only exit.
static void exits(int kind)
{
    filter_call(SYS_exit_group, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
    if (kind)
        exit(0);
    _exit(0);
}
static void filtered_exits(void)
{
    in_child("_exit", exits, 0);
    in_child("exit", exits, 1);
}

// A program that handles system calls itself: by a filter, or by user dispatch.
static volatile char dispatches;
static volatile int trapped, traps;
static void traps_call(int signal, siginfo_t *info, void *context)
{
    dispatches = 0;
    trapped = info->si_syscall;
    traps++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
}
static void handles_call(int number)
{
    struct sigaction action = {.sa_sigaction = traps_call, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGSYS, &action, NULL);
    install_plain(SIGUSR1, 0);
    sigset_t set = SET(SIGUSR1);
    long result;
    if (number == 0)
        printf("  dispatch %d\n", prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &dispatches));
    else
        filter_call(number, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
    fflush(stdout);
    if (number == 0) {
        dispatches = 1;
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getppid) : "rcx", "r11", "memory");
        printf("  result %ld\n", result);
    }
    result = sigprocmask(SIG_BLOCK, &set, NULL);
    printf("  mask %ld, traps %d\n", result, traps);
    action.sa_sigaction = traps_call;
    result = sigaction(SIGUSR2, &action, NULL);
    printf("  action %ld, traps %d\n", result, traps);
    result = sigaction(SIGSYS, NULL, &old);
    printf("  old action %ld, %d, traps %d\n", result, old.sa_sigaction == traps_call, traps);
    raise(SIGUSR1);
    printf("  handled %d, trapped %d, traps %d\n", calls, trapped, traps);
}
static void handled_calls(void)
{
    static const int numbers[] = {0, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_getpid, SYS_gettid, SYS_mmap};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        in_child("handles calls", handles_call, numbers[i]);
}

// There is no more memory to be had.
static void without_memory(void)
{
    struct rlimit none = {1, 1};
    struct sock_filter filter = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &filter};
    sigset_t set = SET(SIGUSR1);
    printf("limit %d\n", setrlimit(RLIMIT_AS, &none));
    for (int signal = 1; signal < 32; signal++) {
        if (signal == SIGKILL || signal == SIGSTOP)
            continue;
        errno = 77;
        struct sigaction action = {.sa_handler = handler};
        for (int flags = 0; flags < 4; flags++) {
            action.sa_flags = (flags & 1 ? SA_RESTART : 0) | (flags & 2 ? SA_NODEFER : 0);
            sigaddset(&action.sa_mask, 1 + (signal + flags) % 31);
            if (sigaction(signal, &action, NULL) || errno != 77)
                printf("action of %d: %d\n", signal, errno);
        }
    }
    printf("mask %d, %d\n", sigprocmask(SIG_BLOCK, &set, NULL), errno);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("filter %d, %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), errno);
    raise(SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("handled %d, %d\n", calls, errno);
}

// A timer with an interval stops until its signal is dequeued.
static void interval_timers(void)
{
    for (int alarm = 0; alarm < 2; alarm++) {
        install_plain(SIGALRM, 0);
        block(SIGALRM);
        struct itimerval timer = {{0, 100000}, {0, 500}}, now;
        if (alarm)
            ualarm(500, 100000);
        else
            setitimer(ITIMER_REAL, &timer, NULL);
        double start = seconds();
        while (seconds() - start < 0.05)
            ;
        getitimer(ITIMER_REAL, &now);
        printf("running %d\n", now.it_value.tv_usec > 10);
        signal(SIGALRM, SIG_IGN);
        install_plain(SIGALRM, 0);
        unblock(SIGALRM);
        getitimer(ITIMER_REAL, &now);
        printf("running %d\n", now.it_value.tv_usec > 10);
    }
}

// Handler and flags belong together, whatever other threads install.
static volatile int stop;
static void installs(int which)
{
    struct sigaction action = {.sa_handler = which ? handler : jump_plainly, .sa_flags = which ? SA_ONSTACK : SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}
static void *installs_many(void *argument)
{
    for (int i = 0; !stop; i++)
        installs(i & 1);
    return NULL;
}
static int torn(void)
{
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    return (action.sa_handler == handler) != !!(action.sa_flags & SA_ONSTACK);
}
static void actions_of_threads(void)
{
    pthread_t threads[2];
    installs(0);
    for (int i = 0; i < 2; i++)
        pthread_create(threads + i, NULL, installs_many, NULL);
    int mixed = 0;
    for (int i = 0; i < 20000; i++)
        mixed += torn();
    // A child of fork while another thread installs one.
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            install_plain(SIGUSR2, 0);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("mixed %d, last %d\n", mixed, torn());
}

// ---- What a random program found

static void zero_wait(const char *what)
{
    sigset_t empty = none();
    int result = ppoll(NULL, 0, &(struct timespec){0, 0}, &empty);
    printf("%s: ppoll %d %d\n", what, result, result < 0 ? errno : 0);
    result = pselect(0, NULL, NULL, NULL, &(struct timespec){0, 0}, &empty);
    printf("%s: pselect %d %d\n", what, result, result < 0 ? errno : 0);
}

static void ignored_default(int signal_number)
{
    signal(signal_number, handler);
    raise(signal_number);
    signal(signal_number, SIG_DFL);
    block(signal_number);
    raise(signal_number);
    show_pending("blocked");
    zero_wait("ignored");
    show_action("afterwards", signal_number);
    unblock(signal_number);
    block(signal_number);
    show_action("afterwards", signal_number);
}
static void ignored_defaults(void)
{
    in_child("SIGWINCH", ignored_default, SIGWINCH);
    in_child("SIGCHLD", ignored_default, SIGCHLD);
    in_child("SIGURG", ignored_default, SIGURG);
}

static void shows_pending(int signal)
{
    printf("  handler %d\n", signal);
    show_pending("  handler");
    show_action("in the handler", signal);
}
static void one_shot_twice(void)
{
    const int signals[] = {SIGWINCH, SIGCHLD};
    for (int i = 0; i < 2; i++) {
        struct sigaction action = {.sa_handler = shows_pending, .sa_flags = SA_RESETHAND};
        sigaction(signals[i], &action, NULL);
        block(signals[i]);
        raise(signals[i]);
        kill(getpid(), signals[i]);
        show_action("blocked", signals[i]);
        unblock(signals[i]);
        show_pending("unblocked");
        show_action("unblocked", signals[i]);
    }
}

static void waits_for_default(int kind)
{
    block(SIGTERM);
    block(SIGUSR1);
    sigset_t empty = none();
    if (kind == 3) {
        raise(SIGTERM);
    } else if (fork() == 0) {
        usleep(20000);
        kill(getppid(), SIGTERM);
        _exit(0);
    }
    switch (kind) {
    case 0: sigsuspend(&empty); break;
    case 1: ppoll(NULL, 0, NULL, &empty); break;
    case 2: pselect(0, NULL, NULL, NULL, NULL, &empty); break;
    case 3: zero_wait("pending"); break;
    }
    printf("  it lives\n");
}
static void defaults_in_waits(void)
{
    for (int kind = 0; kind < 4; kind++)
        in_child("waits", waits_for_default, kind);
}

static ucontext_t preempted_context, scheduler_context;
static void signal_stack(long size)
{
    // The kernel checks these bounds; what `printf` needs below them is there.
    char *memory = mmap(NULL, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&(stack_t){.ss_sp = memory + 65536, .ss_size = size}, NULL);
}
static void fills(volatile char *bytes, int size, char value)
{
    for (int i = 0; i < size; i++)
        bytes[i] = value;
}
static int has_only(volatile char *bytes, int size, char value)
{
    for (int i = 0; i < size; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}
static void uses_most(int signal)
{
    volatile char bytes[4096];
    fills(bytes, sizeof bytes, 7);
    kill(getpid(), SIGUSR2);
    printf("  handler %d, its frame is whole: %d\n", signal, has_only(bytes, sizeof bytes, 7));
    show_mask("  handler");
}
static void uses_more(int signal)
{
    volatile char bytes[9000];
    fills(bytes, sizeof bytes, 9);
    calls++;
}
static void is_preempted(int signal)
{
    volatile char bytes[6000];
    fills(bytes, sizeof bytes, 5);
    block(SIGUSR2);
    swapcontext(&preempted_context, &scheduler_context);
    printf("  handler %d, its frame is whole: %d\n", signal, has_only(bytes, sizeof bytes, 5));
}
static void schedules(void)
{
    block(SIGUSR2);
    for (int i = 0; i < 3; i++)
        kill(getpid(), SIGUSR2);
    show_pending("scheduler");
    show_mask("scheduler");
    setcontext(&preempted_context);
}
static void small_signal_stack(int argument)
{
    // Room for one frame and the handler, not for another frame.
    signal_stack(sysconf(_SC_MINSIGSTKSZ) + 4096 + 1536);
    install_plain(SIGUSR2, 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = uses_most, .sa_flags = SA_ONSTACK}, NULL);
    block(SIGUSR2);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        printf("calls %d\n", calls);
        unblock(SIGUSR2);
        block(SIGUSR2);
        printf("calls %d\n", calls);
    }
}
static void left_signal_stack(int argument)
{
    static char stack[65536];
    signal_stack(65536);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = uses_more, .sa_flags = SA_ONSTACK}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = is_preempted, .sa_flags = SA_ONSTACK}, NULL);
    getcontext(&scheduler_context);
    scheduler_context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
    scheduler_context.uc_link = NULL;
    makecontext(&scheduler_context, schedules, 0);
    block(SIGUSR2);
    raise(SIGUSR1);
    unblock(SIGUSR2);
    printf("calls %d\n", calls);
}
static void unmapped_signal_stack(int is_raw)
{
    stack_t stack = {.ss_size = 65536};
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_ONSTACK}, NULL);
    // A stack of the child, which is not its parent's.
    if (vfork() == 0) {
        sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL);
        _exit(0);
    }
    block(SIGUSR1);
    for (int round = 0; round < 2; round++) {
        stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ignore_result(is_raw ? syscall(SYS_sigaltstack, &stack, NULL) : sigaltstack(&stack, NULL));
        unblock(SIGUSR1);
        // From here on there is no stack.
        block(SIGUSR1);
        munmap(stack.ss_sp, stack.ss_size);
        raise(SIGUSR1);
        show_pending("unmapped");
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    unblock(SIGUSR1);
    errno = 0;
    printf("%ld", syscall(SYS_sigaltstack, 16, NULL));
    printf(" errno %d\n", errno);
}
static void signal_stacks(void)
{
    in_child("small", small_signal_stack, 0);
    in_child("left", left_signal_stack, 0);
    in_child("unmapped", unmapped_signal_stack, 0);
    in_child("unmapped, raw", unmapped_signal_stack, 1);
}

static void queued_for_thread(void)
{
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    pthread_sigqueue(pthread_self(), SIGUSR1, (union sigval){.sival_int = 5});
    kill(getpid(), SIGUSR1);
    unblock(SIGUSR1);
    printf("calls %d\n", calls);
}

static void uninterrupted(void)
{
    install_plain(SIGALRM, 0);
    block(SIGALRM);
    later(20000);
    printf("thrd_sleep %d\n", thrd_sleep(&(struct timespec){0, 100000000}, NULL));
    unblock(SIGALRM);
    later(20000);
    printf("thrd_sleep %d\n", thrd_sleep(&(struct timespec){0, 100000000}, NULL));
}

static volatile int in_wait;
static void cleans_up(void *what) { show_mask(what); }
static void sleeps(int signal) { in_wait = 1; pause(); }
static void *is_cancelled(void *argument)
{
    sigset_t others = SET(SIGUSR2);
    block(SIGUSR1);
    pthread_cleanup_push(cleans_up, "cleanup");
    in_wait = 1;
    switch ((long)argument) {
    case 0: sigsuspend(&others); break;
    case 1: ppoll(NULL, 0, NULL, &others); break;
    case 2: pselect(0, NULL, NULL, NULL, NULL, &others); break;
    case 3: pause(); break;
    case 4: in_wait = 0; unblock(SIGUSR1); raise(SIGUSR1); break;
    }
    pthread_cleanup_pop(0);
    return NULL;
}
static void cancelled(void)
{
    signal(SIGUSR1, sleeps);
    for (long kind = 0; kind < 5; kind++) {
        pthread_t thread;
        void *result = NULL;
        in_wait = 0;
        pthread_create(&thread, NULL, is_cancelled, (void *)kind);
        while (!in_wait)
            usleep(1000);
        usleep(20000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("cancelled %d\n", result == PTHREAD_CANCELED);
    }
}

static int step, sends_at;
static void on_step(int signal, siginfo_t *info, void *context)
{
    if (step++ != sends_at)
        return;
    kill(getpid(), SIGUSR1);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
static void *is_blocked(void *argument)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    *(int *)argument = sigismember(&set, SIGUSR1);
    return NULL;
}
/* A blocked signal arrives before an instruction of the call that starts the first thread. */
static void starts_thread(int at)
{
    static int (*volatile create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = pthread_create;
    int blocked = 0;
    pthread_t thread;
    sends_at = at;
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    sigaction(SIGTRAP, &action, NULL);
    install_plain(SIGUSR1, 0);
    block(SIGUSR1);
    asm volatile("pushf; orq $0x100, (%%rsp); popf" ::: "memory", "cc");
    create(&thread, NULL, is_blocked, &blocked);
    pthread_join(thread, NULL);
    sigset_t set, pending;
    sigprocmask(SIG_BLOCK, NULL, &set);
    sigpending(&pending);
    _exit(!(blocked && calls == 0 && sigismember(&set, SIGUSR1) && sigismember(&pending, SIGUSR1)));
}
/* A trap ends the process where all signals are blocked: no signal arrives there. */
static void starting_threads(void)
{
    int right = 0, wrong = 0;
    for (int at = 0; at < 700; at += at < 60 ? 1 : 10) {
        int status;
        pid_t child = fork();
        if (child == 0)
            starts_thread(at);
        waitpid(child, &status, 0);
        right += status == 0;
        wrong += status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
    }
    printf("right %d, wrong %d\n", right > 20, wrong);
}

static void edits(int signal, siginfo_t *info, void *context)
{
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR2);
}
static void *does_nothing(void *argument) { return NULL; }
static void edited_masks(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, does_nothing, NULL);
    pthread_join(thread, NULL);
    install(SIGUSR1, edits, 0, none());
    block(SIGUSR1);
    raise(SIGUSR1);
    // The handler runs in this call, after the change.
    unblock(SIGUSR1);
    show_mask("edited");
    sigjmp_buf there;
    if (!sigsetjmp(there, 1)) {
        unblock(SIGUSR2);
        siglongjmp(there, 1);
    }
    show_mask("restored");
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0)
        _exit(mask_now() == 1 << (SIGUSR2 - 1));
    int status;
    waitpid(child, &status, 0);
    show_status("child", status);
    show_mask("afterwards");
}

static void executes_with_timer(int argument)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{1, 0}, {0, 100000}}, NULL);
    execl(self, self, "timed", (char *)NULL);
}
static void inherits_timer(void)
{
    struct itimerval now;
    install_plain(SIGALRM, 0);
    block(SIGALRM);
    double start = seconds();
    while (seconds() - start < 0.3)
        ;
    getitimer(ITIMER_REAL, &now);
    printf("  running %d\n", now.it_value.tv_sec != 0 || now.it_value.tv_usec > 10);
}
static void inherited_timers(void) { in_child("timed", executes_with_timer, 0); }

// While the C library blocks SIGCHLD by itself, in `system`.
static void reaps(int signal)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        calls++;
}
static int to_child;
static void masks_meanwhile(int signal, siginfo_t *info, void *context)
{
    siginfo_t child;
    ignore_result(write(to_child, "\n", 1));
    show_mask("  handler");
    printf("  before %016lx\n", word(&((ucontext_t *)context)->uc_sigmask));
    while (waitid(P_ALL, 0, &child, WEXITED | WNOWAIT) < 0)
        ;
    block(SIGUSR1);
    unblock(SIGUSR1);
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGHUP);
}
// A handler changes the action of a signal that `system` ignores meanwhile.
static void changes_interrupt(int signal)
{
    pthread_t thread;
    install_plain(SIGINT, 0);
    if (signal == SIGUSR2)
        pthread_create(&thread, NULL, does_nothing, NULL);
    if (signal == SIGALRM)
        siglongjmp(buffer, 1);
}
static void interrupt_after_jump(int number)
{
    sigaction(number, &(struct sigaction){.sa_handler = changes_interrupt}, NULL);
    // Whether the C library restores the action depends on where the handler comes.
    if (sigsetjmp(buffer, 1) == 0)
        system("kill -ALRM $PPID; sleep 0.1");
    block(SIGINT);
    raise(SIGINT);
    show_pending("after the jump");
    fflush(stdout);
    _exit(0);
}
static void interrupt_after_system(int kind)
{
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = changes_interrupt}, NULL);
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = changes_interrupt}, NULL);
    void (*old)(int) = kind % 3 == 0 ? SIG_DFL : kind % 3 == 1 ? SIG_IGN : says_so;
    signal(SIGINT, old);
    printf("%x\n", system(kind < 3 ? "kill -USR1 $PPID; true" : "kill -USR2 $PPID; true"));
    struct sigaction action;
    sigaction(SIGINT, NULL, &action);
    printf("is the old action %d\n", action.sa_handler == old);
    block(SIGINT);
    raise(SIGINT);
    show_pending("blocked");
    show_action("blocked", SIGINT);
    fflush(stdout);
    unblock(SIGINT);
    printf("calls %d\n", calls);
}
// `system` lets SIGCHLD in when it has restored all else: what its handler changes stays.
static void changes_at_end(int signal, siginfo_t *info, void *context)
{
    install_plain(SIGINT, 0);
    install_plain(SIGQUIT, 0);
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGHUP);
}
static void interrupt_at_end_of_system(int kind)
{
    signal(SIGINT, kind ? says_so : SIG_DFL);
    if (kind == 2)
        signal(SIGINT, SIG_IGN);
    sigset_t set = none();
    install(SIGCHLD, changes_at_end, 0, set);
    printf("%x\n", system("exit 3"));
    show_mask("at the end");
    raise(SIGINT);
    raise(SIGQUIT);
    printf("calls %d\n", calls);
}
static void actions_in_system(void)
{
    for (int kind = 0; kind < 3; kind++)
        in_child("end of system", interrupt_at_end_of_system, kind);
    for (int kind = 0; kind < 6; kind++)
        in_child("system", interrupt_after_system, kind);
    in_child("jump", interrupt_after_jump, SIGALRM);
}
// What a command's status is, what it inherits, and what is left of it when a handler jumps away.
static void show_interrupts(const char *what)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGCHLD};
    struct sigaction action;
    printf("  %s:", what);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], NULL, &action);
        printf(" %s", action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "default" : "handled");
    }
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    pthread_setcanceltype(type, NULL);
    printf(", mask %016lx, %d\n", mask_now(), type);
}
// The shell waits until its parent waits for it: until then that is in `vfork`.
#define WAITED_FOR "until grep -q 'State:.S' /proc/$PPID/status; do :; done; "
static void commands_within(int signal)
{
    show_interrupts("within");
    printf("  status %x\n", system("kill -INT $$; exit 2"));
    show_interrupts("after the inner one");
}
static void jumps_away(int signal) { siglongjmp(buffer, 1); }
static void reaps_command(int signal) { show_interrupts(waitpid(-1, NULL, WNOHANG) > 0 ? "reaped" : "waited for"); }
static void run_commands(int kind)
{
    char line[200];
    dup2(open("/dev/null", O_WRONLY), 2);
    signal(SIGINT, kind % 3 == 0 ? SIG_DFL : kind % 3 == 1 ? SIG_IGN : handler);
    signal(SIGUSR1, commands_within);
    signal(SIGUSR2, jumps_away);
    signal(SIGCHLD, kind < 3 ? SIG_DFL : reaps_command);
    block(SIGHUP);
    pthread_setcanceltype(kind % 2 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, NULL);
    printf("%d\n", system(NULL));
    static const char *commands[] = {"exit 3", "kill -INT $$", "kill -TERM $$", "no_such_command_here 2>&-", "",
                                     "grep -i 'sig[bi]' /proc/self/status", WAITED_FOR "kill -USR1 $PPID; sleep 0.05",
                                     "kill -INT $PPID; exit 4", "kill -QUIT $PPID; exit 5", "-c true 2>&-", "+x"};
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
        fflush(stdout);
        errno = 0;
        printf("%s: %x\n", commands[i], system(commands[i]));
        show_interrupts("afterwards");
    }
    if (sigsetjmp(buffer, 1) == 0) {
        snprintf(line, sizeof line, WAITED_FOR "kill -USR2 %d; sleep 10; echo not killed", getpid());
        system(line);
    }
    show_interrupts("jumped");
    printf("children %d\n", waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    struct rlimit none = {1, 1};
    setrlimit(RLIMIT_NPROC, &none);
    ignore_result(setuid(65534));
    errno = 0;
    int status = system("exit 3");
    printf("no processes: %x, %d\n", status, errno);
    show_interrupts("afterwards");
}
// A handler starts a thread, whose command is still running when the interrupted call returns.
static pthread_t runner;
static void *runs_command(void *unused)
{
    printf("  status %x\n", system("echo >&8; read line <&7; kill -INT $$; exit 2"));
    return NULL;
}
static void starts_command(int signal)
{
    char byte;
    pthread_create(&runner, NULL, runs_command, NULL);
    ignore_result(read(9, &byte, 1));
    printf("  status %x\n", system("kill -INT $$; exit 2"));
}
static void run_command_of_thread(int kind)
{
    int ready[2], end[2];
    ignore_result(pipe(ready));
    ignore_result(pipe(end));
    dup2(end[0], 7);
    dup2(ready[1], 8);
    dup2(ready[0], 9);
    signal(SIGINT, kind == 0 ? SIG_DFL : kind == 1 ? SIG_IGN : handler);
    signal(SIGUSR1, starts_command);
    signal(SIGCHLD, SIG_DFL);
    printf("%x\n", system(WAITED_FOR "kill -USR1 $PPID; exit 3"));
    ignore_result(write(end[1], "\n", 1));
    pthread_join(runner, NULL);
    show_interrupts("afterwards");
}
// A handler lets another context run, whose command is still running, too.
static ucontext_t outer_context, inner_context;
static volatile int is_inner;
static void switches(int signal)
{
    is_inner = !is_inner;
    swapcontext(is_inner ? &outer_context : &inner_context, is_inner ? &inner_context : &outer_context);
}
static void inner_command(void)
{
    printf("  status %x\n", system(WAITED_FOR "kill -USR1 $PPID; read line <&7; kill -INT $PPID; exit 4"));
    show_interrupts("inner");
    is_inner = 0;
}
static void run_command_of_context(int kind)
{
    int end[2];
    ignore_result(pipe(end));
    dup2(end[0], 7);
    signal(SIGINT, kind == 0 ? SIG_DFL : kind == 1 ? SIG_IGN : handler);
    signal(SIGUSR1, switches);
    signal(SIGCHLD, SIG_DFL);
    getcontext(&inner_context);
    inner_context.uc_stack = (stack_t){.ss_sp = malloc(65536), .ss_size = 65536};
    inner_context.uc_link = &outer_context;
    makecontext(&inner_context, inner_command, 0);
    printf("%x\n", system(WAITED_FOR "kill -USR1 $PPID; exit 3"));
    show_interrupts("outer");
    ignore_result(write(end[1], "\n", 1));
    if (!is_inner)
        switches(0);
    show_interrupts("afterwards");
}
static void commands(void)
{
    for (int kind = 0; kind < 6; kind++)
        in_child("commands", run_commands, kind);
    for (int kind = 0; kind < 3; kind++)
        in_child("command of a thread", run_command_of_thread, kind);
    for (int kind = 0; kind < 3; kind++)
        in_child("command of a context", run_command_of_context, kind);
}
// What the C library blocks by itself is not saved when a thread jumps or switches afterwards.
static void hidden_from_jumps(void)
{
    const stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    pthread_t thread;
    pthread_create(&thread, NULL, does_nothing, NULL);
    pthread_join(thread, NULL);
    signal(SIGCHLD, SIG_DFL);
    for (int round = 0; round < 3; round++) {
        printf("%x\n", system("kill -ALRM $PPID; read line <&9; exit 3"));
        if (sigsetjmp(buffer, 1) == 0)
            siglongjmp(buffer, 1);
        show_mask("after the jump");
        ucontext_t here, there;
        getcontext(&there);
        there.uc_stack = stack;
        there.uc_link = &here;
        makecontext(&there, (void (*)(void))sched_yield, 0);
        swapcontext(&here, &there);
        printf("saved %016lx\n", word(&here.uc_sigmask));
        block(round ? SIGCHLD : SIGUSR2);
    }
}
static void hidden_masks(void)
{
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = reaps, .sa_flags = SA_RESTART}, NULL);
    install(SIGALRM, masks_meanwhile, SA_RESTART, none());
    install_plain(SIGUSR1, 0);
    int ends[2];
    ignore_result(pipe(ends));
    dup2(ends[0], 9);
    to_child = ends[1];
    for (int round = 0; round < 3; round++) {
        // It exits when the handler runs.
        printf("%x", system("kill -ALRM $PPID; read line <&9; exit 3"));
        printf(" reaped %d\n", calls);
        block(round ? SIGCHLD : SIGUSR2);
        show_mask("afterwards");
    }
    unblock(SIGCHLD);
    hidden_from_jumps();
}

// A signal that is blocked does not end `close` before what was sent has arrived.
static void closing(int kind)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct linger linger = {1, 1};
    static char bytes[65536];
    int listening = socket(AF_INET, SOCK_STREAM, 0), sending = socket(AF_INET, SOCK_STREAM, 0);
    ignore_result(bind(listening, (struct sockaddr *)&address, sizeof address));
    ignore_result(getsockname(listening, (struct sockaddr *)&address, &length));
    ignore_result(listen(listening, 1));
    ignore_result(connect(sending, (struct sockaddr *)&address, sizeof address));
    ignore_result(accept(listening, NULL, NULL));
    fcntl(sending, F_SETFL, O_NONBLOCK);
    while (write(sending, bytes, sizeof bytes) > 0)
        ;
    fcntl(sending, F_SETFL, 0);
    setsockopt(sending, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    FILE *file = kind == 2 ? fdopen(sending, "w") : NULL;
    install_plain(SIGALRM, 0);
    block(SIGALRM);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 100000}}, NULL);
    double start = seconds();
    printf("%d", kind == 0 ? close(sending) : kind == 1 ? dup2(listening, sending) != sending
           : kind == 2 ? fclose(file) : kind == 3 ? close_range(sending, sending, 0)
           : (closefrom(sending), 0));
    printf(" waited %d\n", seconds() - start > 0.8);
    unblock(SIGALRM);
}
static void closes(void)
{
    for (int kind = 0; kind < 5; kind++)
        in_child("closing", closing, kind);
}

// What a thread that is cancelled in a call with another mask saves in its cleanup.
static void saves_mask(void *unused)
{
    sigjmp_buf buffer;
    ucontext_t here, there;
    static volatile int back;
    (void)unused;
    if (!sigsetjmp(buffer, 1))
        printf("  saved %016lx\n", word(&buffer[0].__saved_mask));
    back = 0;
    getcontext(&there);
    if (!back) {
        back = 1;
        // The mask of before: nothing is left to do for one that looks at an old one only.
        there.uc_sigmask = SET(SIGTRAP);
        swapcontext(&here, &there);
    }
    printf("  swapped %016lx\n", word(&here.uc_sigmask));
    show_mask("  swapped");
}
static void *waits_for_cancellation(void *unused)
{
    sigset_t set = SET(SIGTERM, SIGUSR2), before = SET(SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_cleanup_push(saves_mask, NULL);
    sigsuspend(&set);
    pthread_cleanup_pop(0);
    return unused;
}
static void saved_in_cleanup(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waits_for_cancellation, NULL);
    usleep(50000);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

// System calls that wait with a mask, and have no function in the C library.
static void waits_of_devices(void)
{
    sigset_t own = SET(SIGUSR1, SIGHUP), during = SET(SIGUSR2);
    for (int kind = 0; kind < 4; kind++) {
        unsigned long context = 0;
        unsigned parameters[30] = {0};
        int ring = kind ? (int)syscall(SYS_io_uring_setup, 4, parameters) : -1;
        if (kind ? ring < 0 : syscall(SYS_io_setup, 4, &context)) {
            printf("none\n");
            continue;
        }
        install(SIGUSR1, details, 0, none());
        sigprocmask(SIG_SETMASK, &own, NULL);
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            usleep(50000);
            _exit(kill(parent, SIGUSR1));
        }
        struct { const sigset_t *set; size_t size; } sized = {&during, 8};
        struct { const sigset_t *set; uint64_t size, time; } extended = {&during, 8, 0};
        struct timespec second = {1, 0};
        char events[32];
        if (kind == 3) {
            // The queue's end: there is one request, which does nothing.
            char *queue = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
            *(unsigned *)(queue + parameters[11]) = 1;
            munmap(queue, 4096);
        }
        errno = 0;
        if (kind == 0)
            syscall(SYS_io_pgetevents, context, 1L, 1L, events, &second, &sized);
        else if (kind == 1)
            syscall(SYS_io_uring_enter, ring, 0, 1, 1, &during, 8L);
        else if (kind == 2)
            syscall(SYS_io_uring_enter, ring, 0, 1, 1 | 8, &extended, sizeof extended);
        else // a signal that ends the wait does not fail the call
            printf("submitted %ld\n", syscall(SYS_io_uring_enter, ring, 1, 2, 1, &during, 8L));
        printf("error %d\n", errno);
        show_mask("after");
        waitpid(child, NULL, 0);
    }
}

// Calls that a file system in user space may end for a signal, of a file that is not there, or of one
// that need not be. This process is the file system, by `ptrace`: it ends the call for a signal that
// the kernel does not block.
int pivot_root(const char *, const char *);
int delete_module(const char *, unsigned);
#define NONE "/proc/self/none"
#define FILE_CALLS(CALL)                                                                          \
    CALL(stat(NONE, &status)) CALL(lstat(NONE, &status)) CALL(fstat(0, &status))                  \
    CALL(fstatat(-1, NONE, &status, 0)) CALL(statx(-1, NONE, 0, 0, &extended))                    \
    CALL(lseek(-1, 0, SEEK_DATA)) CALL(access(NONE, R_OK)) CALL(faccessat(-1, NONE, R_OK, 0))     \
    CALL(truncate(NONE, 0)) CALL(ftruncate(-1, 0)) CALL(getdents64(-1, &status, 100))             \
    CALL(chdir(NONE)) CALL(fchdir(-1)) CALL(rename(NONE, NONE)) CALL(renameat(-1, NONE, -1, NONE)) \
    CALL(renameat2(-1, NONE, -1, NONE, 1)) CALL(mkdir(NONE "/a", 0)) CALL(mkdirat(-1, NONE "/a", 0)) \
    CALL(rmdir(NONE)) CALL(link(NONE, NONE)) CALL(linkat(-1, NONE, -1, NONE, 0)) CALL(unlink(NONE)) \
    CALL(unlinkat(-1, NONE, 0)) CALL(symlink("a", NONE "/a")) CALL(symlinkat("a", -1, NONE "/a")) \
    CALL(readlink(NONE, bytes, 9)) CALL(readlinkat(-1, NONE, bytes, 9)) CALL(chmod(NONE, 0))      \
    CALL(fchmod(-1, 0)) CALL(fchmodat(-1, NONE, 0, 0)) CALL(chown(NONE, 0, 0)) CALL(fchown(-1, 0, 0)) \
    CALL(lchown(NONE, 0, 0)) CALL(fchownat(-1, NONE, 0, 0, 0)) CALL(utimensat(-1, NONE, NULL, 0)) \
    CALL(mknod(NONE "/a", S_IFREG, 0)) CALL(statfs(NONE, &system)) CALL(fstatfs(-1, &system))      \
    CALL(getxattr(NONE, "user.a", bytes, 9)) CALL(setxattr(NONE, "user.a", "", 0, 0))             \
    CALL(listxattr(NONE, bytes, 9)) CALL(fremovexattr(-1, "user.a")) CALL(syncfs(-1))             \
    CALL(inotify_add_watch(-1, NONE, IN_OPEN)) CALL(-(fopen(NONE, "r") == NULL))                   \
    CALL(-(opendir(NONE) == NULL)) CALL(-(setmntent(NONE, "r") == NULL))                            \
    CALL(acct(NONE)) CALL(swapon(NONE, 0)) CALL(swapoff(NONE)) CALL(pivot_root(NONE, NONE))       \
    CALL(quotactl(QCMD(Q_SYNC, USRQUOTA), NONE, 0, NULL)) CALL(delete_module(NONE, O_NONBLOCK))   \
    NEWER_FILE_CALLS(CALL)
#if __GLIBC_PREREQ(2, 36)
#define NEWER_FILE_CALLS(CALL)                                                                    \
    CALL(open_tree(-1, NONE, 0)) CALL(fspick(-1, NONE, 0)) CALL(move_mount(-1, NONE, -1, NONE, 0)) \
    CALL(mount_setattr(-1, NONE, 0, &(struct mount_attr){.attr_set = 1}, sizeof(struct mount_attr)))
#else
#define NEWER_FILE_CALLS(CALL)
#endif
static void asks_file_system(int kind)
{
    struct stat status;
    struct statx extended;
    struct statfs system;
    char bytes[9];
    long result = 0;
    const char *name = NULL;
    int at = 0, error;
#define ASK(call) if (at++ == kind) { name = #call; result = call; error = errno; }
    block(SIGALRM);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    FILE_CALLS(ASK)
    int before = calls;
    unblock(SIGALRM);
    printf("%s: %ld errno %d calls %d %d\n", name, result, result < 0 ? error : 0, before, calls);
    fflush(stdout);
    _exit(0);
}
static int stops_at_call(pid_t process)
{
    int status;
    ptrace(PTRACE_SYSCALL, process, NULL, NULL);
    waitpid(process, &status, 0);
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}
static void file_systems(void)
{
#define COUNT(call) count++;
    int count = 0, status;
    FILE_CALLS(COUNT)
    install_plain(SIGALRM, 0);
    quiet = 1;
    for (int kind = 0; kind < count; kind++) {
        uint64_t mask = 0;
        long signal = 0, number = SYS_tgkill;
        fflush(stdout);
        pid_t process = fork();
        if (process == 0)
            asks_file_system(kind);
        waitpid(process, &status, 0);
        // `raise` comes first: its system calls end, and others begin.
        while ((number == SYS_tgkill || number == SYS_rt_sigprocmask) && stops_at_call(process))
            number = ptrace(PTRACE_PEEKUSER, process, offsetof(struct user, regs.orig_rax), NULL);
        ptrace(PTRACE_GETSIGMASK, process, 8, &mask);
        int ends = !(mask & 1ul << (SIGALRM - 1));
        if (ends)
            ptrace(PTRACE_POKEUSER, process, offsetof(struct user, regs.orig_rax), -1L);
        stops_at_call(process);
        if (ends)
            ptrace(PTRACE_POKEUSER, process, offsetof(struct user, regs.rax), (long)-EINTR);
        syscall(SYS_tgkill, process, process, SIGALRM);
        while (ptrace(PTRACE_CONT, process, NULL, signal), waitpid(process, &status, 0), WIFSTOPPED(status))
            signal = WSTOPSIG(status);
    }
}

// A job in the background is stopped for setting its terminal, and gets a signal that it blocks before
// it goes on in the foreground.
static void sets_terminal(int kind)
{
    struct termios terminal;
    setpgid(0, 0);
    tcgetattr(0, &terminal);
    block(SIGALRM);
    int result = tcsetattr(0, kind, &terminal), error = errno, before = calls;
    unblock(SIGALRM);
    printf("%d: %d errno %d calls %d %d\n", kind, result, result < 0 ? error : 0, before, calls);
}
static void leads_jobs(int terminal)
{
    int status;
    setsid();
    close(0);
    if (open(ptsname(terminal), O_RDWR) || tcgetpgrp(0) != getpid())
        printf("no terminal: %d\n", errno);
    install_plain(SIGALRM, 0);
    quiet = 1;
    for (int kind = TCSANOW; kind <= TCSAFLUSH; kind++) {
        fflush(stdout);
        pid_t job = fork();
        if (job == 0) {
            sets_terminal(kind);
            exit(0);
        }
        waitpid(job, &status, WUNTRACED);
        printf("stopped %d\n", WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTOU);
        kill(job, SIGALRM);
        block(SIGTTOU);
        tcsetpgrp(0, job);
        kill(job, SIGCONT);
        waitpid(job, NULL, 0);
        tcsetpgrp(0, getpid());
        unblock(SIGTTOU);
    }
}
static void terminals(void)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(terminal);
    unlockpt(terminal);
    in_child("jobs", leads_jobs, terminal);
}

// `abort` unblocks its signal before the handler runs, until glibc 2.41.
static void aborting_blocked(int flags)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    install(SIGABRT, details, flags, none());
    block(SIGABRT);
    abort();
}
static void asserting_blocked(int flags)
{
    ignore_result(freopen("/dev/null", "w", stderr) == NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    install(SIGABRT, details, flags, none());
    block(SIGABRT);
    block(SIGUSR1);
    assert(flags < 0);
}
// A signal that is blocked arrives when `abort` has unblocked its own.
static void interrupted_abort(void)
{
    int status;
    long signal = 0;
    fflush(stdout);
    pid_t process = fork();
    if (process == 0) {
        install_plain(SIGUSR1, 0);
        block(SIGABRT);
        block(SIGUSR1);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        abort();
    }
    waitpid(process, &status, 0);
    while (stops_at_call(process)) {
        long number = ptrace(PTRACE_PEEKUSER, process, offsetof(struct user, regs.orig_rax), NULL);
        long how = ptrace(PTRACE_PEEKUSER, process, offsetof(struct user, regs.rdi), NULL);
        if (number == SYS_rt_sigprocmask && how == SIG_UNBLOCK) {
            stops_at_call(process);
            kill(process, SIGUSR1);
            break;
        }
    }
    while (ptrace(PTRACE_CONT, process, NULL, signal), waitpid(process, &status, 0), WIFSTOPPED(status))
        signal = WSTOPSIG(status);
    show_status("interrupted", status);
}
static void aborts_blocked(void)
{
    interrupted_abort();
    in_child("aborting", aborting_blocked, 0);
    in_child("aborting", aborting_blocked, SA_NODEFER);
    in_child("asserting", asserting_blocked, 0);
}

// A default action ends all threads at once, also if the signal was blocked before there were any.
static void *ends_all(void *argument)
{
    // The first thread handles no signal by then.
    usleep(100000);
    kill(getpid(), SIGTERM);
    ignore_result(write(1, "a thread goes on\n", 17));
    return NULL;
}
static void ends_threads(int argument)
{
    pthread_t thread;
    block(SIGTERM);
    unblock(SIGTERM);
    show_action("default", SIGTERM);
    fflush(stdout);
    pthread_create(&thread, NULL, ends_all, NULL);
    // Waits for a child, as after `vfork`.
    if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
        usleep(500000);
        _exit(0);
    }
    for (;;)
        pause();
}
static void defaults_of_threads(void) { in_child("threads", ends_threads, 0); }

// A handler runs with the flags of its own action, whatever another thread installs.
static char switched_stack[65536];
static volatile int misplaced;
static int is_on_stack(void)
{
    volatile char here;
    return (uintptr_t)&here - (uintptr_t)switched_stack < sizeof switched_stack;
}
static void expects_stack(int signal) { misplaced |= !is_on_stack(); }
static void expects_none(int signal) { misplaced |= is_on_stack(); }
static void *is_signalled(void *argument)
{
    const stack_t stack = {.ss_sp = switched_stack, .ss_size = sizeof switched_stack};
    sigaltstack(&stack, NULL);
    while (!stop)
        raise(SIGUSR1);
    return NULL;
}
static void *switches_actions(void *argument)
{
    const struct sigaction actions[] = {{.sa_handler = expects_none}, {.sa_handler = expects_stack, .sa_flags = SA_ONSTACK}};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int i = 1; i <= 200000; i++)
        sigaction(SIGUSR1, &actions[i % 2], NULL);
    return NULL;
}
static void switched_actions(void)
{
    pthread_t thread, switching;
    signal(SIGUSR1, expects_none);
    pthread_create(&thread, NULL, is_signalled, NULL);
    // One thread alone never changes an action twice while the kernel calls a handler.
    pthread_create(&switching, NULL, switches_actions, NULL);
    switches_actions(NULL);
    pthread_join(switching, NULL);
    stop = 1;
    pthread_join(thread, NULL);
    printf("misplaced %d\n", misplaced);
}

// A child of `fork` of a child of `vfork` has memory of its own.
static void shows_mask(int signal) { show_mask("  handler"); }
static void forked_in_vfork(int argument)
{
    signal(SIGUSR1, shows_mask);
    raise(SIGUSR1);
    block(SIGUSR1);
    raise(SIGUSR1);
    show_pending("blocked");
    unblock(SIGUSR1);
}
static int new_numbers(void) { return unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID); }
// Its child has the number of the child of `vfork`, in another namespace, and starts a thread.
static void numbered_in_vfork(int argument)
{
    signal(SIGUSR1, shows_mask);
    if (new_numbers())
        printf("no namespaces\n");
    block(SIGUSR1);
    if (fork() == 0) {
        pthread_t thread;
        int blocked = -1;
        pthread_create(&thread, NULL, is_blocked, &blocked);
        pthread_join(thread, NULL);
        printf("  blocked in a thread %d\n", blocked);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}
static void vforks_first(int argument)
{
    if (new_numbers())
        printf("no namespaces\n");
    fflush(stdout);
    if (vfork() == 0) {
        in_child("numbered", numbered_in_vfork, 0);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}
static void forks_in_vfork(void)
{
    fflush(stdout);
    if (vfork() == 0) {
        in_child("forked", forked_in_vfork, 0);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    forked_in_vfork(0);
    in_child("first", vforks_first, 0);
}

// A signal that stops the process ends this wait too: a handler that runs then is not in it.
static void show_mask_of(int signal) { show_mask("  handler"); }
static char state_of(pid_t process)
{
    char name[40], state = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    FILE *file = fopen(name, "r");
    if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
        abort();
    fclose(file);
    return state;
}
static void stopped_waits(void)
{
    sigset_t set = none();
    struct epoll_event event;
    int waited = epoll_create1(0);
    signal(SIGUSR1, show_mask_of);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        while (state_of(parent) != 'S')
            usleep(1000);
        kill(parent, SIGSTOP);
        while (state_of(parent) != 'T')
            usleep(1000);
        kill(parent, SIGUSR1);
        kill(parent, SIGCONT);
        _exit(0);
    }
    int result = epoll_pwait(waited, &event, 1, -1, &set);
    printf("%d %d\n", result, errno == EINTR);
    show_mask("afterwards");
    waitpid(child, NULL, 0);
}

// A child of vfork is killed while it waits with another mask, and its parent sleeps where it was.
static void sleeps_below(int bytes, struct timespec *left)
{
    volatile char *room = alloca(bytes);
    struct timespec time = {10, 0};
    room[0] = 1;
    printf("%d ", nanosleep(&time, left));
    room[0] = 2;
}
static void killed_in_vfork(void)
{
    union { sigset_t set; struct timespec left; } shared;
    signal(SIGUSR1, show_mask_of);
    for (int bytes = 64; bytes < 600; bytes += 128) {
        int numbers[2];
        ignore_result(pipe(numbers));
        fflush(stdout);
        pid_t parent = getpid(), other = fork(), waiting;
        if (other == 0) {
            ignore_result(read(numbers[0], &waiting, sizeof waiting));
            while (state_of(waiting) != 'S')
                usleep(1000);
            kill(waiting, SIGKILL);
            // The parent has waited for it, and sleeps.
            while (kill(waiting, 0) == 0 || state_of(parent) != 'S')
                usleep(1000);
            kill(parent, SIGUSR1);
            _exit(0);
        }
        shared.set = all();
        sigdelset(&shared.set, SIGUSR1);
        if ((waiting = vfork()) == 0) {
            pid_t self = getpid();
            ignore_result(write(numbers[1], &self, sizeof self));
            sigsuspend(&shared.set);
            _exit(0);
        }
        waitpid(waiting, NULL, 0);
        sleeps_below(bytes, &shared.left);
        printf("errno %d\n", errno);
        waitpid(other, NULL, 0);
        close(numbers[0]);
        close(numbers[1]);
    }
}

// A thread that the kernel has sent into a handler, and that is stopped there, calls that handler
// although another thread has installed 63 others since. The first of them were installed before.
static volatile int *go_on, *reported;
#define REPORTS(n) static void report_##n(int signal) { *reported = n; }
REPORTS(0) REPORTS(1) REPORTS(2) REPORTS(3)
static void (*reports[])(int) = {report_0, report_1, report_2, report_3};
static void install_report(int number)
{
    // Number and handler, of which the mask makes many actions.
    struct sigaction action = {.sa_handler = reports[number / 64 % 4]};
    for (int i = 0; i < 6; i++)
        if (number % 64 >> i & 1)
            sigaddset(&action.sa_mask, 40 + i);
    sigaction(SIGUSR1, &action, NULL);
}
static void *is_stopped_at_handler(void *argument)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    *(volatile pid_t *)argument = syscall(SYS_gettid);
    raise(SIGUSR1);
    _exit(0);
}
static void installs_meanwhile(int before, volatile pid_t *thread)
{
    pthread_t started;
    for (int i = 0; i < before; i++)
        install_report(i);
    install_report(before - 63);
    pthread_create(&started, NULL, is_stopped_at_handler, (void *)thread);
    while (!*go_on)
        usleep(1000);
    for (int i = before; i < before + 63; i++)
        install_report(i);
    *go_on = 0;
    pause();
}
static void stopped_at_handlers(void)
{
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    go_on = &shared[0];
    reported = &shared[1];
    for (int before = 64; before <= 192; before += 64) {
        int status;
        shared[2] = 0;
        *reported = -1;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            installs_meanwhile(before, &shared[2]);
        while (!shared[2])
            usleep(1000);
        if (waitpid(shared[2], &status, __WALL) < 0 || WSTOPSIG(status) != SIGUSR1)
            abort();
        ptrace(PTRACE_SINGLESTEP, shared[2], NULL, (void *)(long)SIGUSR1);
        waitpid(shared[2], &status, __WALL);
        *go_on = 1;
        while (*go_on)
            usleep(1000);
        ptrace(PTRACE_CONT, shared[2], NULL, NULL);
        waitpid(shared[2], &status, __WALL);
        waitpid(child, &status, 0);
        printf("before %d: called %d\n", before, *reported);
    }
}

// A child of `fork` may have its parent's number, in a namespace of its own: it changes an action
// although a thread of the parent was changing one.
static void *changes_action(void *argument)
{
    for (;;)
        signal(SIGUSR1, expects_none);
}
static int finishes(pid_t child, int most)
{
    int status;
    for (int i = 0; i < most; i++, usleep(10000))
        if (waitpid(child, &status, WNOHANG) == child)
            return status == 0;
    kill(child, SIGKILL);
    return 0;
}
static void forks_with_number(void)
{
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, changes_action, NULL);
    usleep(2000);
    if (unshare(CLONE_NEWPID))
        _exit(1);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGUSR1, expects_none);
        _exit(getpid() != 1);
    }
    _exit(!finishes(child, 300));
}
static void same_number(void)
{
    int hung = 0;
    for (int i = 0; i < 20 && !hung; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (new_numbers())
                _exit(0);
            pid_t first = fork();
            if (first == 0)
                forks_with_number();
            _exit(!finishes(first, 400));
        }
        hung += !finishes(child, 500);
    }
    printf("hung %d\n", hung);
    printf(new_numbers() ? "no namespaces\n" : "");
}

// A wait lets a signal in whose default action the first process of a namespace does not have: it is
// blocked again afterwards.
static volatile int first_calls;
static void counts_first(int signal) { first_calls++; }
static void waits_as_first(void)
{
    sigset_t none = SET(0);
    block(SIGTERM);
    raise(SIGTERM);
    ppoll(NULL, 0, &(struct timespec){0, 1000000}, &none);
    show_pending("waited");
    struct sigaction once = {.sa_handler = counts_first, .sa_flags = SA_RESETHAND};
    sigaction(SIGTERM, &once, NULL);
    raise(SIGTERM);
    printf("blocked: called %d\n", first_calls);
    unblock(SIGTERM);
    printf("not blocked: called %d\n", first_calls);
    fflush(stdout);
    _exit(getpid() != 1);
}
static void first_process(void)
{
    if (new_numbers()) {
        printf("no namespaces\n");
        return;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        waits_as_first();
    printf("finishes %d\n", finishes(child, 500));
}

// The C library waits for the lock of a file until a handler of its own for SIGALRM ends that, which
// is blocked.
static void locks_of_accounts(void)
{
    char name[] = "/tmp/atomseq-accounts-XXXXXX";
    int file = mkstemp(name), ready[2];
    if (file < 0 || pipe(ready))
        abort();
    utmpxname(name);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK};
        ignore_result(fcntl(file, F_SETLKW, &lock) || write(ready[1], "", 1));
        usleep(200000);
        kill(parent, SIGALRM);
        usleep(200000);
        _exit(0);
    }
    char byte;
    ignore_result(read(ready[0], &byte, 1));
    install_plain(SIGALRM, 0);
    block(SIGALRM);
    const struct utmpx account = {.ut_type = USER_PROCESS, .ut_id = "x"};
    setutxent();
    printf("written %d\n", pututxline(&account) != NULL);
    show_pending("blocked");
    unblock(SIGALRM);
    waitpid(child, NULL, 0);
    unlink(name);
}

static unsigned long stored[sizeof(sigset_t) / sizeof(long)];
static void shows_stored(int signal)
{
    printf("    the handler finds %lx\n", stored[0]);
    stored[0] = ~0ul;
}
static void *returns_at_once(void *unused) { return unused; }
// The old mask is there when a signal is delivered, also once there was another thread. What the
// handler makes of it does not change the mask, which `sigsetjmp` saves without a system call.
static void stores_old_mask(void)
{
    signal(SIGUSR1, shows_stored);
    sigset_t set, none;
    sigemptyset(&none);
    set = none;
    sigaddset(&set, SIGUSR1);
    for (int threads = 0; threads < 2; threads++) {
        for (int i = 0; i < 7; i++) {
            const int how = i % 2 ? SIG_SETMASK : SIG_UNBLOCK;
            sigprocmask(SIG_BLOCK, &set, NULL);
            raise(SIGUSR1);
            stored[0] = 0x5555;
            if (i < 2)
                sigprocmask(how, i % 2 ? &none : &set, (sigset_t *)stored);
            else if (i < 4)
                syscall(SYS_rt_sigprocmask, how, i % 2 ? &none : &set, stored, 8);
            else if (i < 6) {
                // The sets are the same memory.
                stored[0] = i % 2 ? 0 : word(&set);
                syscall(SYS_rt_sigprocmask, how, stored, stored, 8);
            } else {
                errno = 0;
                printf("%ld ", syscall(SYS_rt_sigprocmask, how, &set, 16L, 8));
                printf("errno %d\n", errno);
            }
            show_mask("  afterwards");
            sigjmp_buf now;
            ignore_result(sigsetjmp(now, 1));
            printf("  saved %016lx\n", word((const sigset_t *)&now->__saved_mask));
        }
        pthread_t thread;
        pthread_create(&thread, NULL, returns_at_once, NULL);
        pthread_join(thread, NULL);
    }
}

// A call that the C library makes to connect to a server which has no room for it: a resolver by
// TCP. The server makes room, and answers, once the signal was there.
static void answers(int server, pid_t client)
{
    unsigned char message[100];
    for (int times = 0; times < 5; times++) {
        usleep(10000);
        if (state_of(client) != 'S')
            times = 0;
    }
    kill(client, SIGALRM);
    usleep(50000);
    accept(server, NULL, NULL);
    int connection = accept(server, NULL, NULL);
    int length = (int)read(connection, message, sizeof message);
    message[4] |= 0x80;
    message[5] |= NXDOMAIN;
    _exit(write(connection, message, length) != length);
}
static void connects(void)
{
    struct __res_state resolver;
    unsigned char query[100], answer[100];
    socklen_t size = sizeof *resolver.nsaddr_list;
    int server = socket(AF_INET, SOCK_STREAM, 0), filler = socket(AF_INET, SOCK_STREAM, 0);
    memset(&resolver, 0, sizeof resolver);
    res_ninit(&resolver);
    resolver.nscount = 1;
    resolver.options |= RES_USEVC;
    resolver.nsaddr_list[0] = (struct sockaddr_in){AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    struct sockaddr *address = (struct sockaddr *)resolver.nsaddr_list;
    if (bind(server, address, size) || getsockname(server, address, &size) || listen(server, 0)
        || connect(filler, address, size)) {
        printf("no server: %d\n", errno);
        return;
    }
    install_plain(SIGALRM, 0);
    block(SIGALRM);
    int length = res_nmkquery(&resolver, QUERY, "a", C_IN, T_A, NULL, 0, NULL, query, sizeof query);
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        answers(server, parent);
    int received = res_nsend(&resolver, query, length, answer, sizeof answer);
    printf("sent %d, received %d\n", length, received);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unblock(SIGALRM);
}

#define CASE(name) {#name, name}
static const struct { const char *name; void (*run)(void); } cases[] = {
    CASE(procmask), CASE(raw), CASE(old_masks), CASE(every_signal), CASE(order), CASE(defaults), CASE(ignored),
    CASE(child_signals), CASE(handlers), CASE(one_shot), CASE(context_masks), CASE(handler_in_handler),
    CASE(mask_in_handler), CASE(actions), CASE(suspend), CASE(nested_suspend), CASE(waits), CASE(descriptors),
    CASE(interruptions), CASE(stacks), CASE(faults), CASE(jumps), CASE(contexts), CASE(last_context),
    CASE(contexts_in_handlers), CASE(executing), CASE(children), CASE(job_control), CASE(with_threads),
    CASE(threads_later), CASE(timers), CASE(bad_addresses), CASE(small_stacks), CASE(start_of_mapping),
    CASE(own_numbers), CASE(raw_vfork),
    CASE(shared_memory), CASE(ended_call), CASE(raw_waits), CASE(around_waits), CASE(moved_contexts),
    CASE(refused_actions), CASE(filters), CASE(actions_of_threads), CASE(interval_timers),
    CASE(ignored_defaults), CASE(one_shot_twice), CASE(defaults_in_waits), CASE(signal_stacks),
    CASE(queued_for_thread), CASE(uninterrupted), CASE(cancelled), CASE(inherited_timers),
    CASE(edited_masks), CASE(starting_threads), CASE(hidden_masks), CASE(closes),
    CASE(actions_in_system), CASE(commands),
    CASE(saved_in_cleanup), CASE(waits_of_devices), CASE(file_systems), CASE(aborts_blocked),
    CASE(defaults_of_threads), CASE(switched_actions), CASE(forks_in_vfork), CASE(locks_of_accounts), CASE(same_number),
    CASE(first_process),
    CASE(stopped_waits), CASE(killed_in_vfork), CASE(stopped_at_handlers), CASE(stores_old_mask),
    CASE(handled_calls), CASE(without_memory),
    CASE(ignored_later), CASE(filtered_exits), CASE(shared_handlers), CASE(connects),
    CASE(terminals),
};
static void (*running)(void);
static void run_case(int argument) { running(); }

int main(int count, char **arguments)
{
    self = arguments[0];
    if (count > 1 && !strcmp(arguments[1], "show")) {
        printf("    %d arguments\n", count);
        show_inherited();
        return 0;
    }
    if (count > 1 && !strcmp(arguments[1], "timed")) {
        inherits_timer();
        return 0;
    }
    int ran = 0;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count < 2 || !strcmp(arguments[1], cases[i].name)) {
            printf("---- %s\n", cases[i].name);
            running = cases[i].run;
            in_child(cases[i].name, run_case, 0);
            ran++;
        }
    return ran == 0;
}
