//! Programs that others wrote do the same with the library.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use verify_sigmask::{compile, output, with, without};

/// Runs a program both ways, and compares output and exit code.
fn same(program: &str, arguments: &[&str]) {
    let expected = output(without(Path::new(program)).args(arguments));
    assert!(!expected.stdout.is_empty(), "{program} prints something");
    let found = output(with(Path::new(program)).args(arguments));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&found.stdout), text(&expected.stdout));
    assert_eq!(text(&found.stderr), text(&expected.stderr));
    assert_eq!(found.status.code(), expected.status.code());
}

#[test]
fn bash_and_perl_do_the_same() {
    same(
        "bash",
        &[
            "-c",
            "trap 'echo usr1' USR1; trap 'echo chld' CHLD; kill -USR1 $$; for i in 1 2 3; do (exit $i); echo $?; done
             sleep 0.05 & wait $!; echo $?; echo $(echo a | cat | tr a b); trap '' TERM; kill -TERM $$; trap - TERM
             bash -c 'kill -TERM $$'; echo $?; set -m; sleep 0.05 & fg; jobs; echo done",
        ],
    );
    same(
        "perl",
        &[
            "-MPOSIX",
            "-e",
            "$SIG{USR1} = sub { print qq(usr1\\n) }; $SIG{ALRM} = sub { die qq(alarm\\n) };
             my $set = POSIX::SigSet->new(SIGUSR1); my $old = POSIX::SigSet->new;
             for (1 .. 3) { sigprocmask(SIG_BLOCK, $set, $old); kill USR1 => $$; print qq(blocked\\n);
                 sigprocmask(SIG_SETMASK, $old); print qq(on\\n) }
             eval { ualarm(20000) if 0; alarm 1; select(undef, undef, undef, 5); }; print $@;
             print `echo child`; system('exit 3'); print $? >> 8, qq(\\n);
             my $pid = fork; if (!$pid) { sleep 5; exit 1 } kill TERM => $pid; waitpid $pid, 0; print $? & 127, qq(\\n);",
        ],
    );
}

/// Each further library would cost every program that is started a tenth of a millisecond.
#[test]
fn the_library_loads_the_c_library_alone() {
    let loaded = output(with(Path::new("true")).env("LD_TRACE_LOADED_OBJECTS", "1"));
    let loaded = String::from_utf8_lossy(&loaded.stdout).into_owned();
    let is_known = |line: &&str| {
        let known = ["linux-vdso", "atomseq_sigmask", "libc.so", "ld-linux"];
        known.iter().any(|name| line.contains(name))
    };
    assert!(loaded.contains("atomseq_sigmask"), "{loaded}");
    assert_eq!(loaded.lines().find(|line| !is_known(line)), None);
}

/// Writes and compiles a C program or library of these lines, and returns its path.
fn build(name: &str, source: &str, arguments: &[&str]) -> std::path::PathBuf {
    let path = std::env::current_exe().expect("the path of this test");
    let text = path.with_extension(format!("{name}.c"));
    let path = path.with_extension(name);
    std::fs::write(&text, source).expect("a file beside the test");
    let mut compiler = std::process::Command::new("cc");
    let compiled = compiler.arg("-o").arg(&path).arg(&text).args(arguments);
    assert!(output(compiled).status.success(), "{name} compiles");
    path
}

/// A handler throws an exception out of a call that waits with another mask; which one, says the
/// argument.
const THROWS: &str = r#"
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>
static void handle(int) { throw std::runtime_error("interrupted"); }
int main(int, char **arguments)
{
    struct sigaction action = {};
    action.sa_handler = handle;
    sigaction(SIGALRM, &action, nullptr);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    sigemptyset(&set);
    timespec second = {5, 0};
    epoll_event event;
    int events = epoll_create1(0);
    alarm(1);
    try {
        switch (arguments[1][0]) {
        case 's': sigsuspend(&set); break;
        case 'p': ppoll(nullptr, 0, &second, &set); break;
        case 'l': pselect(0, nullptr, nullptr, nullptr, &second, &set); break;
        case 'e': epoll_pwait(events, &event, 1, 5000, &set); break;
        }
    } catch (std::exception &error) {
        puts(error.what());
    }
    sigprocmask(SIG_BLOCK, nullptr, &set);
    printf("%d\n", sigismember(&set, SIGALRM));
}
"#;

#[test]
fn a_handler_throws_an_exception_out_of_a_wait() {
    let path = std::env::current_exe().expect("the path of this test");
    let text = path.with_extension("throws.cc");
    let program = path.with_extension("throws");
    std::fs::write(&text, THROWS).expect("a file beside the test");
    let mut compiler = std::process::Command::new("c++");
    compiler
        .arg("-fnon-call-exceptions")
        .arg("-o")
        .arg(&program);
    assert!(output(compiler.arg(&text)).status.success(), "it compiles");
    for call in ["s", "p", "l", "e"] {
        same(&program.to_string_lossy(), &[call]);
    }
}

#[test]
fn a_plugin_does_not_bind_past_the_library() {
    let plugin = build(
        "plugin",
        "#include <signal.h>
         void block(int s) { sigset_t x; sigemptyset(&x); sigaddset(&x, s); sigprocmask(SIG_BLOCK, &x, 0); }",
        &["-shared", "-fPIC"],
    );
    let program = build(
        "opens",
        "#define _GNU_SOURCE
         #include <dlfcn.h>
         #include <signal.h>
         #include <stdio.h>
         static int n; static void a(int s) { n++; }
         int main(int c, char **v) {
             void *d = dlopen(v[1], RTLD_NOW | RTLD_DEEPBIND); if (!d) return 1;
             signal(SIGUSR1, a); ((void (*)(int))dlsym(d, \"block\"))(SIGUSR1);
             sigset_t s; sigemptyset(&s); sigprocmask(SIG_SETMASK, &s, 0);
             raise(SIGUSR1); printf(\"%d\\n\", n); }",
        &[],
    );
    same(
        program.to_str().expect("UTF-8"),
        &[plugin.to_str().expect("UTF-8")],
    );
}

/// A filter that lets a program only write and exit.
const FILTER: &str = "
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static void enter(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {5, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
";

#[test]
fn a_filter_of_a_constructor_does_not_end_the_program() {
    let source = format!("{FILTER} __attribute__((constructor)) void enters(void) {{ enter(); }}");
    let library = build("filters", &source, &["-shared", "-fPIC"]);
    let program = build(
        "filtered",
        "#include <unistd.h>
         void enters(void); void *keep = enters;
         int main(void) { return write(1, \"in\\n\", 3) != 3; }",
        &[library.to_str().expect("UTF-8")],
    );
    same(program.to_str().expect("UTF-8"), &[]);
}

#[test]
fn a_program_defines_functions_of_the_same_names() {
    // With `signal` below `sigaction`: the C library has it the other way round.
    let program = build(
        "defines",
        "#include <setjmp.h>
         #include <signal.h>
         #include <stdio.h>
         #include <stdlib.h>
         #include <ucontext.h>
         #include <unistd.h>
         char **environ;
         int kill(pid_t p, int s) { puts(\"kill\"); return 0; }
         int posix_spawn(void) { puts(\"posix_spawn\"); return -1; }
         int posix_spawnattr_init(void *a) { puts(\"init\"); return -1; }
         pid_t waitpid(pid_t p, int *s, int o) { puts(\"waitpid\"); return -1; }
         int sigaction(int s, const struct sigaction *a, struct sigaction *o) {
             puts(\"sigaction\"); return a && signal(s, a->sa_handler) == SIG_ERR ? -1 : 0; }
         int sigsuspend(const sigset_t *s) { puts(\"sigsuspend\"); return sigpause(*(int *)s); }
         char *getenv(const char *n) { puts(\"getenv\"); return 0; }
         int getitimer(int w, void *v) { puts(\"getitimer\"); return -1; }
         pid_t getpid(void) { puts(\"getpid\"); return 1; }
         void exit(int s) { puts(\"exit\"); fflush(stdout); _exit(s); }
         static ucontext_t last; static char stack[65536]; static void ends(void) {}
         static int n; static void handle(int s) { n++; }
         static sigjmp_buf out; static void leave(int s) { siglongjmp(out, 1); }
         int main(void) {
             setvbuf(stdout, NULL, _IONBF, 0); setenv(\"MINE\", \"value\", 1);
             printf(\"%x\\n\", system(\"echo $MINE; exit 3\")); signal(SIGALRM, leave);
             if (!sigsetjmp(out, 1)) { alarm(1); system(\"exec sleep 10; echo not killed\"); }
             puts(\"left\");
             struct sigaction a = {.sa_handler = handle}; sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1);
             printf(\"%d\\n\", sigaction(SIGUSR1, &a, NULL));
             sigprocmask(SIG_BLOCK, &s, NULL); raise(SIGUSR1); sigemptyset(&s); sigsuspend(&s);
             printf(\"%d\\n\", n);
             getcontext(&last); last.uc_link = NULL;
             last.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
             makecontext(&last, ends, 0); setcontext(&last); }",
        &["-w"],
    );
    same(program.to_str().expect("UTF-8"), &[]);
}

#[test]
fn another_library_looks_symbols_up() {
    // It looks behind itself, where this library is.
    let hook = build(
        "hook",
        "#define _GNU_SOURCE
         #include <dlfcn.h>
         void *dlsym(void *handle, const char *name) {
             static void *(*real)(void *, const char *);
             if (!real) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.2.5\");
             return real(handle, name); }",
        &["-shared", "-fPIC"],
    );
    for order in ["hook:library", "library:hook"] {
        let preload = order
            .replace("hook", &hook.to_string_lossy())
            .replace("library", &verify_sigmask::library().to_string_lossy());
        let mut command = without(Path::new("env"));
        command.arg(format!("LD_PRELOAD={preload}"));
        let found = output(command.args(["sh", "-c", "kill -0 $$; (exit 3); echo $?"]));
        assert_eq!(found.stdout, b"3\n", "{order}: {:?}", found.status);
    }
}

#[test]
fn two_copies_of_the_library_are_as_one() {
    let (first, program) = (verify_sigmask::library(), compile("conformance.c"));
    let second = first.with_file_name("second_copy_of_the_library.so");
    std::fs::copy(&first, &second).expect("a copy");
    for case in ["raw", "every_signal", "handlers", "suspend", "children"] {
        let expected = output(without(&program).arg(case));
        let preload = format!("{}:{}", first.display(), second.display());
        let found = output(without(&program).arg(case).env("LD_PRELOAD", preload));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&found.stdout), text(&expected.stdout));
    }
}

/// A filter refuses to say which process and which thread this is. To `kill`, the error number is
/// all processes: the filter ends the program that passes it.
const UNNUMBERED: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int handled;
static void handle(int signal) { handled++; }
static void filter(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {7, filter};
    long result;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // Not by a function, which the library would see.
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(SYS_prctl), "D"(PR_SET_SECCOMP), "S"(SECCOMP_MODE_FILTER), "d"(&program)
                     : "rcx", "r11", "memory");
    if (result)
        _exit(1);
}
int main(int count, char **arguments)
{
    if (arguments[1][0] == 'b') {
        filter();
        execl(arguments[0], arguments[0], "inherited", NULL);
    }
    struct itimerval soon = {.it_value = {0, 1}};
    sigset_t set;
    signal(SIGALRM, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    if (arguments[1][0] == 'l')
        filter();
    sigprocmask(SIG_BLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    do
        getitimer(ITIMER_REAL, &soon);
    while (soon.it_value.tv_usec);
    printf("handled %d\n", handled);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("handled %d\n", handled);
}
"#;

#[test]
fn a_signal_is_not_sent_to_processes_of_an_error_number() {
    let program = build("unnumbered", UNNUMBERED, &[]);
    same(program.to_str().expect("UTF-8"), &["before"]);
    // The signal is dropped.
    let late = output(with(&program).arg("late"));
    assert_eq!(late.status.code(), Some(0), "{:?}", late.status);
    assert!(late.stdout.starts_with(b"handled 0\n"));
}

#[test]
fn a_child_of_vfork_does_not_take_its_parents_line() {
    let program = build(
        "vforks",
        "#include <unistd.h>
         #include <sys/wait.h>
         int main(void) { int p = vfork(); if (p == 0) _exit(127); waitpid(p, 0, 0); }",
        &[],
    );
    // The shell's number is the program's, which it becomes.
    let mut command = without(Path::new("sh"));
    command.args(["-c", "ATOMSEQ_SIGMASK_STATS=$$ LD_PRELOAD=$1 exec $2", "sh"]);
    command.arg(verify_sigmask::library()).arg(program);
    let printed = output(&mut command).stderr;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.starts_with("atomseq: main thread: "), "{printed}");
}

#[test]
fn statistics_go_to_the_standard_error_of_the_start() {
    let directory = std::env::current_exe().expect("the path of this test");
    let data = directory.with_extension("data");
    // What it does with number 2 before it exits, how it exits, and whether a line is printed.
    let cases = [
        ("close(2);", "return 3;", true),
        (
            "close(2); open(v[1], O_CREAT | O_TRUNC | O_WRONLY, 0600);",
            "return 3;",
            true,
        ),
        (
            "close(2); open(v[1], O_CREAT | O_TRUNC | O_WRONLY, 0600);",
            "_exit(3);",
            true,
        ),
        ("clearenv();", "quick_exit(3);", true),
        ("enter();", "return 3;", true),
        // A daemon that has closed its standard error does not keep its reader waiting.
        (
            "struct stat a, b; fstat(2, &a); int child = fork(), found = 0; if (!child) { close(2);
             for (int i = 3; i < 2000; i++) found |= !fstat(i, &b) && a.st_ino == b.st_ino;
             _exit(found); }
             waitpid(child, &found, 0);",
            "return found ? 4 : 3;",
            true,
        ),
        (
            "for (int i = 2; i < 2000; i++) close(i); open(v[1], O_CREAT | O_TRUNC | O_WRONLY, 0600);",
            "return 3;",
            false,
        ),
    ];
    for (index, (first, last, prints)) in cases.into_iter().enumerate() {
        let source = format!(
            "{FILTER}
             #include <fcntl.h>
             #include <stdlib.h>
             #include <sys/stat.h>
             #include <sys/wait.h>
             #include <unistd.h>
             int main(int c, char **v) {{ {first} {last} }}"
        );
        let program = build(&format!("ends{index}"), &source, &["-w"]);
        let _ = std::fs::write(&data, "");
        let mut command = without(Path::new("sh"));
        command.args([
            "-c",
            "ATOMSEQ_SIGMASK_STATS=$$ LD_PRELOAD=$1 exec $2 $3",
            "sh",
        ]);
        command
            .arg(verify_sigmask::library())
            .arg(program)
            .arg(&data);
        let printed = output(&mut command);
        let line = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert_eq!(
            line.starts_with("atomseq: main thread: "),
            prints,
            "{first} {last} {line}"
        );
        assert_eq!(printed.status.code(), Some(3));
        assert_eq!(std::fs::read(&data).expect("a file"), b"", "{first}");
    }
    // Without a reader, the exit is still the program's.
    let program = build("exits", "int main(void) { return 3; }", &[]);
    let mut command = without(Path::new("bash"));
    let line = "{ sh -c 'sleep 0.2; ATOMSEQ_SIGMASK_STATS=$$ LD_PRELOAD=$0 exec $1' $0 $1; echo $?; } 2> >(exec true)";
    command
        .args(["-c", line])
        .arg(verify_sigmask::library())
        .arg(&program);
    assert_eq!(output(&mut command).stdout, b"3\n");
    // Nor where its file may not grow.
    let mut command = without(Path::new("bash"));
    let line = "ulimit -f 0; ATOMSEQ_SIGMASK_STATS=$$ LD_PRELOAD=$0 exec $1 2> $2";
    command
        .args(["-c", line])
        .arg(verify_sigmask::library())
        .args([&program, &data]);
    assert_eq!(output(&mut command).status.code(), Some(3));
}

#[test]
fn valgrind_ignores_what_a_handler_makes_of_a_mask() {
    let program = build(
        "blocks",
        "#include <signal.h>
         static int n; static void a(int s) { n++; }
         int main(void) { sigset_t s; signal(SIGUSR1, a); sigemptyset(&s); sigaddset(&s, SIGUSR1);
             sigprocmask(SIG_BLOCK, &s, 0); raise(SIGUSR1); if (n) return 1;
             sigprocmask(SIG_UNBLOCK, &s, 0); return n == 1 ? 7 : 2; }",
        &[],
    );
    let mut command = with(Path::new("valgrind"));
    command.args(["-q", "--tool=none"]).arg(program);
    let output = output(&mut command);
    if output.status.code() == Some(127) {
        return println!("skipped: there is no valgrind");
    }
    assert_eq!(
        output.status.code(),
        Some(7),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns where a source package of Debian was unpacked, by `apt-get source`: no package has the
/// tests of bash or perl compiled. The names are in `.ci/soak`, which does that.
fn source(variable: &str) -> Option<PathBuf> {
    let place = std::env::var_os(variable).map(PathBuf::from);
    if place.is_none() {
        println!("skipped: {variable} is not set");
    }
    place
}

/// Runs each of a suite's files both ways, and compares what `results` makes of its output. What
/// differs by chance is equal in one of three attempts.
fn same_results(
    directory: &Path,
    program: &str,
    files: &[PathBuf],
    environment: &[(&str, &str)],
    results: fn(&str) -> Vec<String>,
) -> usize {
    let run = |mut command: std::process::Command, file: &Path| {
        let output = output(
            command
                .current_dir(directory)
                .arg(file)
                .envs(environment.iter().copied())
                .stdin(std::process::Stdio::null()),
        );
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            results(&String::from_utf8_lossy(&text)),
        )
    };
    let mut compared = 0;
    for file in files {
        let mut attempt = 0;
        let (expected, found) = loop {
            let expected = run(without(Path::new(program)), file);
            let found = run(with(Path::new(program)), file);
            attempt += 1;
            if expected == found || attempt == 3 {
                break (expected, found);
            }
        };
        assert_eq!(found, expected, "{}", file.display());
        compared += expected.1.len();
    }
    compared
}

/// Returns the files of a directory with this start and end of their names.
fn files(directory: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory of tests");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(start) && name.ends_with(end)
        })
        .collect();
    files.sort();
    files
}

#[test]
#[ignore = "needs bash's source package, and minutes"]
fn the_tests_of_bash_have_the_same_results() {
    let Some(place) = source("ATOMSEQ_BASH_SOURCE") else {
        return;
    };
    let tests = place.join("tests");
    for helper in ["recho", "zecho", "printenv", "xcase"] {
        let text = place.join("support").join(format!("{helper}.c"));
        let mut compiler = std::process::Command::new("cc");
        let compiled = compiler.arg("-w").arg("-o").arg(tests.join(helper));
        let compiled = compiled.arg(text).arg("-I").arg(&place);
        let compiled = output(compiled.arg("-I").arg(place.join("include")));
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{helper}: {said}");
    }
    let mut scripts = files(&tests, "run-", "");
    let all = ["run-all", "run-minimal", "run-gprof"];
    scripts.retain(|path| !all.iter().any(|all| path.ends_with(all)));
    let path = format!(
        "{}:{}",
        tests.display(),
        std::env::var("PATH").expect("a path")
    );
    let results = place.join("results").display().to_string();
    let environment = [
        ("THIS_SH", "/bin/bash"),
        ("PATH", &path),
        ("BASH_TSTOUT", &results),
    ];
    // Process numbers differ.
    let lines = |text: &str| {
        let is_number = |word: &&str| word.len() > 3 && word.bytes().all(|b| b.is_ascii_digit());
        let words = |line: &str| {
            let words = line.split(|letter: char| !letter.is_ascii_digit());
            words
                .filter(is_number)
                .fold(line.to_string(), |line, number| line.replace(number, "N"))
        };
        text.lines().map(words).collect()
    };
    let compared = same_results(&tests, "sh", &scripts, &environment, lines);
    assert!(compared > scripts.len(), "they print something");
    println!("bash: {} files, {compared} lines", scripts.len());
}

#[test]
#[ignore = "needs perl's source package, and minutes"]
fn the_tests_of_perl_have_the_same_results() {
    let Some(place) = source("ATOMSEQ_PERL_SOURCE") else {
        return;
    };
    let results = |text: &str| {
        let is_result = |line: &&str| {
            let line = line.trim_start();
            line.starts_with("ok ") || line.starts_with("not ok ")
        };
        // Names have addresses and the order of hashes in them.
        let number = |line: &str| line.split(" - ").next().unwrap_or_default().to_string();
        text.lines()
            .filter(is_result)
            .map(|line| number(line.split(" #").next().unwrap_or_default()))
            .collect()
    };
    // The interpreter that some of them run.
    let _ = std::os::unix::fs::symlink("/usr/bin/perl", place.join("t/perl"));
    let mut compared = 0;
    let mut count = 0;
    for (directory, under) in [
        ("t", "op"),
        ("t", "io"),
        ("t", "cmd"),
        ("ext/POSIX", "t"),
        ("dist/Time-HiRes", "t"),
    ] {
        let directory = place.join(directory);
        let scripts = files(&directory.join(under), "", ".t");
        compared += same_results(&directory, "perl", &scripts, &[], results);
        count += scripts.len();
    }
    assert!(compared > count, "they print something");
    println!("perl: {count} files, {compared} results");
}

/// Returns what each test of CPython's `test.regrtest` did, from the file that `--junit-xml` names.
fn outcomes(report: &str) -> BTreeMap<String, &'static str> {
    let tests = report.split("<testcase ").skip(1);
    let outcome = |test: &str| {
        let (_, name) = test.split_once("name=\"")?;
        let (name, _) = name.split_once('"')?;
        let kinds = [
            ("<error", "error"),
            ("<failure", "failure"),
            ("<skipped", "skipped"),
        ];
        let kind = kinds.iter().find(|(mark, _)| test.contains(mark));
        Some((name.to_string(), kind.map_or("passed", |(_, kind)| kind)))
    };
    tests.filter_map(outcome).collect()
}

/// CPython's own tests that touch signals: Debian's package `libpython3.11-testsuite`, or another
/// interpreter's. Each test of a module has the same outcome, in one of three attempts.
#[test]
#[ignore = "takes minutes"]
fn the_tests_of_cpython_have_the_same_results() {
    let report = std::env::current_exe().expect("the path of this test");
    let report = report.with_extension("xml");
    let results = |mut command: std::process::Command, test: &str| {
        let _ = std::fs::remove_file(&report);
        let output = output(
            command
                .args(["-m", "test", "-u", "walltime", "--junit-xml"])
                .arg(&report)
                .arg(test)
                .stdin(std::process::Stdio::null()),
        );
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        (output.status.code(), outcomes(&text))
    };
    let mut compared = 0;
    for test in [
        "test_signal",
        "test_threadsignals",
        "test_subprocess",
        "test_asyncio",
        "test_eintr",
        "test_faulthandler",
        "test_fork1",
        "test_io",
        "test_os",
        "test_poll",
        "test_epoll",
        "test_posix",
        "test_pty",
        "test_select",
        "test_selectors",
        "test_threading",
        "test_wait3",
        "test_wait4",
    ] {
        let mut attempt = 0;
        let (expected, found) = loop {
            let expected = results(without(Path::new("python3")), test);
            let found = results(with(Path::new("python3")), test);
            attempt += 1;
            if expected == found || attempt == 3 {
                break (expected, found);
            }
        };
        assert!(!expected.1.is_empty(), "{test} ran no test");
        let different: Vec<_> = expected
            .1
            .iter()
            .filter(|(name, outcome)| found.1.get(*name) != Some(*outcome))
            .collect();
        assert_eq!(found, expected, "{test}: {different:?}");
        println!("{test}: {} outcomes", expected.1.len());
        compared += expected.1.len();
    }
    println!("CPython: {compared} outcomes");
}
