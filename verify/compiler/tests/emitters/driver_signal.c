// Calls emitted sequences, as run_signal.rs asks on standard input, on memory at a fixed address, and
// interrupts each once before one of its instructions: that instruction is replaced by an undefined
// one, and the handler of the signal does what the row of the sequence says. Rows are read from the
// notes of this program.

#define _GNU_SOURCE
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARENA_BYTES = 2048, ARGUMENTS = 8, TEMPORARIES = 32, MAX_ROWS = 4096 };
static char *const arena = (char *)0x200000000;

typedef uint64_t sequence(const uint64_t *arguments, uint64_t *temporaries);
struct entry { sequence *function; uint64_t scratch; };
extern const struct entry sequences[];

struct row { uint64_t start, end, clone, limit; };
static struct row rows[MAX_ROWS];
static size_t row_count;

static uint64_t follow(const int32_t *place) { return *place == 0 ? 0 : (uint64_t)place + *place; }

static int read_notes(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_NOTE || header->p_align > 4)
            continue;
        const char *at = (const char *)info->dlpi_addr + header->p_vaddr, *end = at + header->p_memsz;
        while (at < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note, *words = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == 2 && note->n_namesz == 12 && memcmp(name, "atomseq\0\0\0\0", 12) == 0) {
                const int32_t *offsets = (const void *)words;
                if (note->n_descsz != 20 || row_count == MAX_ROWS)
                    exit(5);
                rows[row_count++] = (struct row){follow(offsets), follow(offsets + 1),
                                                 follow(offsets + 2), follow(offsets + 3)};
            }
            at = words + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 0;
}

// What is interrupted: the sequence, the place, and the instruction that stood there.
static const struct row *row;
static uint64_t scratch, interrupted_at;
static uint32_t replaced;
static volatile sig_atomic_t interrupted;

// What an end of a clone finds on its stack: where to go, and room for the place behind it. It goes
// to an undefined instruction, whose handler uses the stack below.
static uint64_t whole_stack[8192] __attribute__((aligned(16)));
static uint64_t *const clone_stack = whole_stack + 8190;
static uint64_t interrupted_stack;
extern const char back_from_clone[];
__asm__(".text\n.balign 4\nback_from_clone: udf #0\n");

// A sequence that is restarted wrongly may jump anywhere.
static sigjmp_buf before_call;
static void on_fault(int signal);

static void write_instruction(uint64_t at, uint32_t instruction) {
    *(volatile uint32_t *)at = instruction;
    __builtin___clear_cache((char *)at, (char *)at + 4);
}

static void on_undefined(int signal, siginfo_t *info, void *context) {
    (void)info;
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    uint64_t pc = machine->pc;
    if (pc == interrupted_at && !interrupted) {
        interrupted = 1;
        write_instruction(pc, replaced);
        if (row->clone) {
            clone_stack[0] = (uint64_t)back_from_clone;
            clone_stack[1] = 0;
            interrupted_stack = machine->sp;
            machine->sp = (uint64_t)clone_stack;
            machine->pc = row->clone + (pc - row->start);
        } else {
            for (int i = 0; i < 31; i++)
                if (scratch >> i & 1)
                    machine->regs[i] = 0x5c7a7c4b00d1e5aa;
            machine->pc = row->start;
        }
    } else if (pc == (uint64_t)back_from_clone && row->clone <= clone_stack[1]
               && clone_stack[1] < row->limit) {
        const char *place = (const char *)clone_stack[1];
        int32_t offset;
        memcpy(&offset, place, 4);
        machine->sp = interrupted_stack;
        machine->pc = (uint64_t)place + offset;
    } else {
        on_fault(signal);
    }
}

static void on_fault(int signal) { siglongjmp(before_call, signal); }

int main(void) {
    void *mapped = mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != arena)
        return 2;
    dl_iterate_phdr(read_notes, NULL);
    struct sigaction action = {.sa_sigaction = on_undefined, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    struct { uint64_t sequence; int64_t at; uint64_t arguments[ARGUMENTS]; } request;
    while (fread(&request, sizeof request, 1, stdin) == 1 && fread(arena, ARENA_BYTES, 1, stdin) == 1) {
        if (request.sequence >= row_count)
            return 6;
        struct entry entry = sequences[request.sequence];
        row = &rows[request.sequence];
        uint64_t function = (uint64_t)entry.function;
        if (row->start <= function || row->end < row->start || row->end > function + 4096)
            return 7;
        struct { uint64_t left, interrupted, temporaries[TEMPORARIES]; } answer = {0};
        scratch = entry.scratch;
        interrupted = 0;
        interrupted_at = 0;
        if (request.at >= 0) {
            interrupted_at = row->start + 4 * request.at;
            uint64_t page = interrupted_at & -4096;
            if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
                return 8;
            replaced = *(const uint32_t *)interrupted_at;
            write_instruction(interrupted_at, 0);
        }
        answer.left = sigsetjmp(before_call, 1) == 0
            ? entry.function(request.arguments, answer.temporaries) : UINT64_MAX;
        answer.interrupted = interrupted;
        if (request.at >= 0 && !interrupted)
            write_instruction(interrupted_at, replaced);
        fwrite(&answer, sizeof answer, 1, stdout);
        fwrite(arena, ARENA_BYTES, 1, stdout);
    }
    return 0;
}
