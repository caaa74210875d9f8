    mov {status:w}, wzr
51:
    ldr {t0}, [{a0}, #{c0}]
    cbz {t0}, 60f
    ldr {t1}, [{t0}]
    str {t1}, [{a0}, #{c0}]
52:
    .subsection 1
60:
    mov {status:w}, #1
    b 52b
    .subsection 0
    .pushsection .note.atomseq, "aR", @note
    .balign 4
    .long 12, 20, 2
    .asciz "atomseq"
    .long 0
    .long 51b - .
    .long 52b - .
    .long 0
    .long 0
    .weak __ehdr_start
    .hidden __ehdr_start
    .long __ehdr_start - .
    .popsection
