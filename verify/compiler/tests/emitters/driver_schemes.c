// Calls emitted sequences inside a scheme of M94, as run_schemes.rs asks on standard input, on memory
// at a fixed address, and interrupts each once before one of its instructions: that instruction is
// replaced by an undefined one, whose handler finds the sequence as the scheme says, arms its end,
// and lets it continue. The end must lead back to the handler.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { ARENA_BYTES = 2048, ARGUMENTS = 8, TEMPORARIES = 32, MOST_INSTRUCTIONS = 160 };
static char *const arena = (char *)0x200000000;

// The numbers of the schemes in the compiler.
enum { DYN_JUMP, DYN_FAULT, HYB_JUMP, DESIGNATED };
extern const uint64_t count, scheme, level;

typedef uint64_t sequence(const uint64_t *arguments, uint64_t *temporaries, uint64_t *words);
struct entry { sequence *function; uint64_t start; };
extern const struct entry sequences[];

enum { UDF = 0, BRK = 0xd42a6a60, NOP = 0xd503201f, BR_X17 = 0xd61f0220, REGISTER = 17 };
static const uint64_t FAULTING = 1ULL << 55;

// The thread's words: inAS, destAddr, falseOrFault.
static uint64_t no_end = 0, words[3];

// What is interrupted, and what is made of it.
static uint64_t interrupted_at, end, landmark;
static uint32_t replaced;
static volatile sig_atomic_t interrupted;
enum { NOT, OUTSIDE, ROLLED, ROLLING };

extern const char back[];
__asm__(".text\n.balign 4\nback: udf #1\n");

static sigjmp_buf before_call;
static void on_fault(int signal) { siglongjmp(before_call, signal); }

static uint32_t code(uint64_t at) { return *(const volatile uint32_t *)at; }

static void write_instruction(uint64_t at, uint32_t instruction) {
    *(volatile uint32_t *)at = instruction;
    __builtin___clear_cache((char *)at, (char *)at + 4);
}

// Finds the sequence around pc and arms its end; returns whether there is one.
static int arm(mcontext_t *machine, uint64_t pc) {
    switch (scheme) {
    case DYN_JUMP:
    case HYB_JUMP:
        end = machine->regs[REGISTER];
        if (scheme == DYN_JUMP ? words[0] != 0 : end <= pc || end - pc > 4 * MOST_INSTRUCTIONS)
            return 0;
        if (code(end - 8) != BR_X17 || code(end - 4) != level)
            return 0;
        machine->regs[REGISTER] = (uint64_t)back;
        return 1;
    case DYN_FAULT:
        end = words[1];
        if (end == 0 || pc >= end)
            return 0;
        words[2] = FAULTING;
        return 1;
    default:
        for (uint64_t at = pc; at < pc + 4 * MOST_INSTRUCTIONS; at += 4)
            if (code(at) == NOP && (code(at + 4) & 0xffe0001f) == 0xd280001f) {
                uint64_t start = at - (code(at + 4) >> 5 & 0xffff);
                if (pc <= start || pc >= at)
                    return 0;
                landmark = at;
                end = at + 8;
                write_instruction(at, BRK);
                return 1;
            }
        return 0;
    }
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)info;
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    uint64_t pc = machine->pc;
    if (pc == interrupted_at && interrupted == NOT) {
        write_instruction(pc, replaced);
        interrupted = arm(machine, pc) ? ROLLING : OUTSIDE;
    } else if (interrupted == ROLLING && pc == (uint64_t)back) {
        machine->regs[REGISTER] = end;
        machine->pc = end;
        interrupted = ROLLED;
    } else if (interrupted == ROLLING && scheme == DYN_FAULT && machine->regs[REGISTER] == FAULTING) {
        words[1] = 0;
        words[2] = (uint64_t)&no_end;
        machine->pc = end;
        interrupted = ROLLED;
    } else if (interrupted == ROLLING && scheme == DESIGNATED && pc == landmark) {
        write_instruction(landmark, NOP);
        machine->pc = end;
        interrupted = ROLLED;
    } else {
        on_fault(signal);
    }
}

int main(void) {
    void *mapped = mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != arena)
        return 2;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    const int signals[] = {SIGILL, SIGTRAP, SIGSEGV, SIGBUS};
    for (int i = 0; i < 4; i++)
        sigaction(signals[i], &action, NULL);
    struct { uint64_t sequence; int64_t at; uint64_t arguments[ARGUMENTS]; } request;
    while (fread(&request, sizeof request, 1, stdin) == 1 && fread(arena, ARENA_BYTES, 1, stdin) == 1) {
        if (request.sequence >= count)
            return 6;
        struct entry entry = sequences[request.sequence];
        struct { uint64_t left, interrupted, temporaries[TEMPORARIES]; } answer = {0};
        words[0] = 1;
        words[1] = 0;
        words[2] = (uint64_t)&no_end;
        interrupted = NOT;
        interrupted_at = 0;
        if (request.at >= 0) {
            interrupted_at = entry.start + 4 * request.at;
            uint64_t page = entry.start & -4096;
            if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
                return 8;
            replaced = code(interrupted_at);
            write_instruction(interrupted_at, UDF);
        }
        answer.left = sigsetjmp(before_call, 1) == 0
            ? entry.function(request.arguments, answer.temporaries, words) : UINT64_MAX;
        // What never came back is wrong, and so is a registration that is still there.
        if (interrupted == ROLLING || words[0] == 0 || words[1] != 0)
            answer.left = UINT64_MAX;
        answer.interrupted = interrupted;
        if (request.at >= 0 && interrupted == NOT)
            write_instruction(interrupted_at, replaced);
        fwrite(&answer, sizeof answer, 1, stdout);
        fwrite(arena, ARENA_BYTES, 1, stdout);
    }
    return 0;
}
