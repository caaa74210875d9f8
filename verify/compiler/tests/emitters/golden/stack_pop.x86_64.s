    lea {t0}, [rip + 50f]
    mov qword ptr fs:[{rseq} + 8], {t0}
51:
    movsxd {t0}, dword ptr fs:[{rseq} + 4]
    imul {t0}, qword ptr [{area} + {stride}]
    add {t0}, qword ptr [{area} + {base}]
    cmp dword ptr [{t0}], 0
    jne 54f
    mov {t1}, qword ptr [{t0} + {c0}]
    mov {t2}, qword ptr [{t0} + {c1}]
    sub {t2}, {t1}
    je 60f
    mov {t3}, qword ptr [{t0} + {t2} + {c2}]
    add {t1}, 8
    mov qword ptr [{t0} + {c0}], {t1}
52:
    .pushsection .text.unlikely.atomseq, "ax", @progbits
    .byte 0x0f, 0xb9, 0x3d
    .long 0x53053053
53:
    mov {t0:e}, 2
    jmp 52b
54:
    mov {t0:e}, 3
    jmp 52b
60:
    mov {t0:e}, 1
    jmp 52b
    .popsection
    .pushsection __rseq_cs, "awR", @progbits
    .balign 32
50:
    .long 0, 0
    .quad 51b, 52b - 51b, 53b
    .popsection
    .pushsection __rseq_cs_ptr_array, "awR", @progbits
    .quad 50b
    .popsection
