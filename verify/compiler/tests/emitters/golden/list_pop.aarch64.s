    mov {status:w}, wzr
    mrs {t0}, tpidr_el0
    add {t0}, {t0}, {rseq}
    adrp {t1}, 50f
    add {t1}, {t1}, :lo12:50f
    str {t1}, [{t0}, #8]
51:
    ldrsw {t1}, [{t0}, #4]
    madd {t1}, {t1}, {stride}, {a0}
    load-acquire {t2:w}, [{t1}]
    cbnz {t2:w}, 54f
    ldr {t2}, [{t1}, #{c0}]
    cbz {t2}, 60f
    ldr {t3}, [{t2}]
    str {t3}, [{t1}, #{c0}]
52:
    .subsection 1
    .inst 0xd428bc00
53:
    mov {status:w}, #2
    b 52b
54:
    mov {status:w}, #3
    b 52b
60:
    mov {status:w}, #1
    b 52b
    .subsection 0
    .pushsection __rseq_cs, "awR", @progbits
    .balign 32
50:
    .long 0, 0
    .quad 51b, 52b - 51b, 53b
    .popsection
    .pushsection __rseq_cs_ptr_array, "awR", @progbits
    .quad 50b
    .popsection
