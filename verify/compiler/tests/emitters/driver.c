// Calls emitted sequences, as run.rs asks on standard input, on memory at a fixed address and a
// struct rseq of its own, because emulated kernels have none. Checks what the kernel would check of
// each descriptor: version, flags, that the abort address lies outside, and the signature before it.

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_BYTES = 2048, ARGUMENTS = 8, TEMPORARIES = 32, SIGNATURE = (int)0xd428bc00 };
static char *const arena = (char *)0x200000000;

struct rseq { uint32_t cpu_id_start, cpu_id; uint64_t rseq_cs; uint32_t flags; };
struct rseq_cs { uint32_t version, flags; uint64_t start, length, abort; };

static struct rseq rseq __attribute__((aligned(32)));

typedef uint64_t sequence(const uint64_t *arguments, uint64_t *temporaries, uint64_t rseq);
extern sequence *const sequences[];

static int sound(uint64_t descriptor) {
    const struct rseq_cs *cs = (const void *)descriptor;
    int32_t signature;
    memcpy(&signature, (const char *)cs->abort - 4, 4);
    return descriptor % 32 == 0 && cs->version == 0 && cs->flags == 0 && signature == SIGNATURE
        && cs->abort - cs->start >= cs->length;
}

int main(void) {
    void *mapped = mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != arena)
        return 2;
    uint64_t offset = (uint64_t)&rseq - (uint64_t)__builtin_thread_pointer();
    struct { uint64_t sequence; int64_t cpu; uint64_t arguments[ARGUMENTS]; } request;
    while (fread(&request, sizeof request, 1, stdin) == 1 && fread(arena, ARENA_BYTES, 1, stdin) == 1) {
        struct { uint64_t left, armed, temporaries[TEMPORARIES]; } answer = {0};
        rseq.cpu_id = (uint32_t)request.cpu;
        rseq.rseq_cs = 0;
        answer.left = sequences[request.sequence](request.arguments, answer.temporaries, offset);
        answer.armed = rseq.rseq_cs != 0;
        if (answer.armed && !sound(rseq.rseq_cs))
            return 3;
        fwrite(&answer, sizeof answer, 1, stdout);
        fwrite(arena, ARENA_BYTES, 1, stdout);
    }
    return 0;
}
