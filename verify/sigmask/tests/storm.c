// Masks and unmasks while another process sends signals. Each signal is sent when the one before was
// handled, so none may be lost; a handler that runs while the program blocks it came early.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { volatile long handled, stop; } *shared;
static volatile int blocked;
static volatile long early;

static void handle(int signal)
{
    if (blocked)
        early++;
    shared->handled++;
}

int main(int count, char **arguments)
{
    long rounds = count > 1 ? atol(arguments[1]) : 1000000;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        long sent = 0;
        while (!shared->stop) {
            if (kill(parent, SIGUSR1))
                _exit(2);
            sent++;
            while (shared->handled < sent && !shared->stop)
                ;
        }
        // The last one is handled too.
        for (int i = 0; i < 10000 && shared->handled < sent; i++)
            usleep(1000);
        _exit(shared->handled == sent ? 0 : 3);
    }
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (long i = 0; i < rounds; i++) {
        sigprocmask(SIG_BLOCK, &set, &old);
        blocked = 1;
        for (volatile int work = 0; work < 3; work++)
            ;
        blocked = 0;
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    shared->stop = 1;
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    printf("%ld handled, %ld early, status %d\n", shared->handled, early, status);
    return shared->handled == 0 || early != 0 || status != 0;
}
