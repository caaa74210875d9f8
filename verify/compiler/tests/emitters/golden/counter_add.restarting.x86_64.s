51:
    add qword ptr [{a0} + {c0}], {a1}
52:
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
