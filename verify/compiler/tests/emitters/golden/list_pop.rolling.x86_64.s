    xor {status:e}, {status:e}
51:
    mov {t0}, qword ptr [{a0} + {c0}]
    test {t0}, {t0}
    je 60f
    mov {t1}, qword ptr [{t0}]
    mov qword ptr [{a0} + {c0}], {t1}
52:
    .pushsection .text.unlikely.atomseq, "ax", @progbits
60:
    mov {status:e}, 1
    jmp 52b
    .popsection
    .pushsection .text.atomseq_clone, "ax", @progbits
57:
    mov {t0}, qword ptr [{a0} + {c0}]
    test {t0}, {t0}
    {{disp32}} je 160f
    mov {t1}, qword ptr [{t0}]
    mov qword ptr [{a0} + {c0}], {t1}
    call qword ptr [rsp]
    .long 52b - .
160:
    call qword ptr [rsp]
    .long 60b - .
58:
    .popsection
    .pushsection .note.atomseq, "aR", @note
    .balign 4
    .long 12, 20, 2
    .asciz "atomseq"
    .long 0
    .long 51b - .
    .long 52b - .
    .long 57b - .
    .long 58b - .
    .weak __ehdr_start
    .hidden __ehdr_start
    .long __ehdr_start - .
    .popsection
