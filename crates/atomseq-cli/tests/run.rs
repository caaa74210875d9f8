//! `atomseq run`: what it helps, what it does not, and what it says.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atomseq"));
    command.arg("run").args(arguments).env_remove("LD_PRELOAD");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A directory of this test's own, which is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("atomseq-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_string()
    }

    fn compile(&self, name: &str, source: &str, arguments: &[&str]) -> String {
        let source = self.file(&format!("{name}.c"), source.as_bytes(), 0o644);
        let program = self.0.join(name).to_str().unwrap().to_string();
        let mut compiler = Command::new("cc");
        let compiler = compiler.args(["-o", &program, &source]).args(arguments);
        assert!(compiler.status().unwrap().success());
        program
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const MASKS: &str = r#"
#include <signal.h>
static volatile int calls;
static void handle(int signal) { calls++; }
int main(void) {
    sigset_t set, old;
    signal(SIGUSR1, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int i = 0; i < 1000; i++) {
        sigprocmask(SIG_BLOCK, &set, &old);
        if (i == 500)
            raise(SIGUSR1);
        sigprocmask(SIG_SETMASK, &old, 0);
    }
    return calls == 1 ? 7 : 1;
}
"#;

#[test]
fn a_program_makes_fewer_system_calls() {
    let directory = Directory::new("masks");
    let program = directory.compile("masks", MASKS, &[]);
    let output = run(&["--stats", "--", &program]);
    assert_eq!(output.status.code(), Some(7));
    let line =
        "atomseq: main thread: 2000 masks set, 1991 system calls saved, 1 signals deferred\n";
    assert_eq!(stderr(&output), line);
    let output = run(&[&program]);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(7), String::new())
    );
}

#[test]
fn the_exit_and_the_output_are_the_programs() {
    let output = run(&["sh", "-c", "cat; exit 3"]);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(3), String::new())
    );
    use std::os::unix::process::ExitStatusExt;
    let output = run(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    // Its arguments are not this command's.
    let output = run(&["echo", "--stats", "--", "-x"]);
    assert_eq!(stdout(&output), "--stats -- -x\n");
    // A script that does not name the shell, with the library.
    let directory = Directory::new("script");
    let lines = b"echo $# \"$2\"; grep -q sigmask /proc/$$/maps && exit 6\n";
    let script = directory.file("script", lines, 0o755);
    let output = run(&["--stats", "--", &script, "-x", "a b"]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(stdout(&output), "2 a b\n");
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("main thread"));
    let empty = run(&[&directory.file("empty", b"", 0o755)]);
    assert_eq!(
        (empty.status.code(), stderr(&empty)),
        (Some(0), String::new())
    );
}

#[test]
fn what_the_program_inherits_is_not_changed() {
    let show = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let plain = Command::new("sh").args(["-c", show]).output().unwrap();
    assert_eq!(stdout(&run(&["sh", "-c", show])), stdout(&plain));
    // With an ignored SIGPIPE and a blocked signal, by a shell that ignores it.
    let script = format!("trap '' PIPE HUP; {show}");
    let plain = Command::new("sh").args(["-c", &script]).output().unwrap();
    let atomseq = env!("CARGO_BIN_EXE_atomseq");
    let script = format!("trap '' PIPE HUP; {atomseq} run {show}");
    let ours = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(stdout(&ours), stdout(&plain));
    // Streams that are closed.
    for closed in ["<&-", "2>&-", "<&- 2>&-"] {
        let show = "ls /proc/self/fd";
        let plain = format!("{show} {closed}");
        let plain = Command::new("sh").args(["-c", &plain]).output().unwrap();
        let script = format!("{atomseq} run {show} {closed}");
        let ours = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(stdout(&ours), stdout(&plain), "{closed}");
    }
}

#[test]
fn what_cannot_be_helped_runs_unchanged() {
    let directory = Directory::new("unchanged");
    let fixed = directory.compile("static", MASKS, &["-static"]);
    let output = run(&["--stats", &fixed]);
    assert_eq!(output.status.code(), Some(7));
    let line =
        format!("atomseq: {fixed} runs unchanged: it is static, so no library is loaded into it\n");
    assert_eq!(stderr(&output), line);

    let changing = directory.compile("changing", MASKS, &[]);
    std::fs::set_permissions(&changing, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let output = run(&[&changing]);
    assert_eq!(output.status.code(), Some(7));
    assert!(
        stderr(&output).contains("runs unchanged: it changes its user"),
        "{}",
        stderr(&output)
    );

    // Each way in which compilers and people load a number.
    for load in [
        "mov $14, %%eax",
        ".byte 0x48, 0xc7, 0xc0, 14, 0, 0, 0",
        "push $14; pop %%rax",
        ".byte 0x68, 130, 0, 0, 0; pop %%rax",
        "xor %%eax, %%eax; mov $13, %%al",
    ] {
        let raw = format!(
            r#"
        int main(int count, char **arguments) {{
            if (count > 1)
                __asm__ volatile("{load}; syscall" : : : "rax", "rcx", "r11", "memory");
            return 5;
        }}"#
        );
        let raw = directory.compile("raw", &raw, &["-mno-red-zone"]);
        let output = run(&[&raw]);
        assert_eq!(output.status.code(), Some(5));
        assert!(
            stderr(&output).contains("system calls of its own"),
            "{load}: {}",
            stderr(&output)
        );
    }

    // The sanitizers themselves may not be installed.
    for name in ["libasan.so", "libtsan.so"] {
        let soname = format!("-Wl,-soname,{name}");
        let library = directory.compile(name, "", &["-shared", "-fPIC", &soname]);
        let place = format!("-Wl,-rpath,{}", directory.0.display());
        let needed = ["-Wl,--no-as-needed", &library, &place];
        let sanitized = directory.compile("sanitized", MASKS, &needed);
        let output = run(&[&sanitized]);
        assert_eq!(output.status.code(), Some(7));
        assert!(
            stderr(&output).contains("sanitizer must be the first"),
            "{}",
            stderr(&output)
        );
    }

    // The kernel ends an interpreter's name at a space, a tab, a line's end or a zero byte.
    for end in ["\n", " \n", "\t-x\n", "\0x\n"] {
        let script = directory.file("script", format!("#! \t{fixed}{end}").as_bytes(), 0o755);
        let output = run(&[&script]);
        assert_eq!(output.status.code(), Some(7));
        assert!(
            stderr(&output).contains("it is static"),
            "{end:?}: {}",
            stderr(&output)
        );
    }

    // Go marks its programs with a section.
    let go = directory.compile("go", MASKS, &[]);
    let note = directory.file("note", b"x", 0o644);
    let added = Command::new("objcopy")
        .args(["--add-section", &format!(".go.buildinfo={note}"), &go])
        .status();
    assert!(added.unwrap().success());
    let output = run(&[&go]);
    assert_eq!(output.status.code(), Some(7));
    assert!(
        stderr(&output).contains("Go's runtime"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_32_bit_program_runs_unchanged_and_says_so() {
    if !Path::new("/proc/sys/abi/vsyscall32").exists() {
        return println!("skipped: this kernel executes no 32-bit program");
    }
    const CODE: [u8; 12] = [0xb8, 1, 0, 0, 0, 0xbb, 5, 0, 0, 0, 0xcd, 0x80]; // exit(5)
    const BASE: u32 = 0x0804_8000;
    let header: [u32; 21] = [
        0x464c_457f, // magic
        0x0001_0101, // 32 bits, little-endian
        0,
        0,
        0x0003_0002, // an executable for the 386
        1,
        BASE + 84, // the entry
        52,        // where the program header is
        0,
        0,
        0x0020_0034, // the sizes of both headers
        0x0000_0001, // how many
        0,
        1, // a segment to load
        0,
        BASE,
        BASE,
        96,
        96,
        5,
        0x1000,
    ];
    let mut program: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    program.extend(CODE);
    let directory = Directory::new("bits");
    let program = directory.file("bits32", &program, 0o755);
    let output = run(&["--stats", &program]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let line = format!("atomseq: {program} runs unchanged: it is a 32-bit program\n");
    assert_eq!(stderr(&output), line);
}

/// Returns a number of this many bytes in a file.
fn number(file: &[u8], at: usize, bytes: usize) -> usize {
    let bytes = file[at..at + bytes].iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | usize::from(byte))
}

#[test]
fn terabytes_of_holes_are_not_searched() {
    const HUGE: u64 = 1 << 42;
    let directory = Directory::new("holes");
    let original = std::fs::read("/bin/true").unwrap();
    let segment = (0..number(&original, 56, 2))
        .map(|index| 64 + 56 * index)
        .find(|&at| number(&original, at, 4) == 1 && original[at + 4] & 1 != 0)
        .unwrap();
    let sections = number(&original, 40, 8);
    // The section with the names of symbols, which is mapped.
    let names = (0..number(&original, 60, 2))
        .map(|index| sections + 64 * index)
        .find(|&at| number(&original, at + 4, 4) == 3 && original[at + 8] & 2 != 0)
        .unwrap();
    for size in [segment + 32, names + 32] {
        let mut program = original.clone();
        program[size..size + 8].copy_from_slice(&HUGE.to_le_bytes());
        let program = directory.file("sparse", &program, 0o755);
        let file = std::fs::OpenOptions::new().write(true).open(&program);
        if file.unwrap().set_len(2 * HUGE).is_err() {
            return println!("skipped: this file system has no such holes");
        }
        let line = format!(
            "atomseq: {program} runs unchanged: it is too large to be searched for system calls"
        );
        let output = run(&[&program]);
        assert!(stderr(&output).starts_with(&line), "{}", stderr(&output));
    }
}

#[test]
fn bad_input_gets_one_line_and_a_shells_code() {
    let directory = Directory::new("bad");
    let one_line = |output: &Output, code, part: &str| {
        assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
        assert_eq!(stderr(output).lines().count(), 1, "{}", stderr(output));
        assert!(stderr(output).contains(part), "{}", stderr(output));
    };
    one_line(
        &run(&["no-such-program"]),
        127,
        "cannot find no-such-program",
    );
    one_line(
        &run(&["/no/such/program"]),
        127,
        "cannot find /no/such/program",
    );
    assert_eq!(run(&[]).status.code(), Some(2));
    // An option of this command's that does not exist; the program's own are passed on.
    assert_eq!(run(&["--stat", "true"]).status.code(), Some(2));
    assert_eq!(run(&["sh", "-c", "exit 4"]).status.code(), Some(4));
    one_line(&run(&["--", "--stat"]), 127, "cannot find --stat");
    // What cannot be looked for is not said to be missing: where a file has the place of a
    // directory, and a link that leads to itself.
    let under = format!("{}/program", env!("CARGO_BIN_EXE_atomseq"));
    one_line(&run(&[&under]), 126, "Not a directory");
    let circle = directory.0.join("circle").to_str().unwrap().to_string();
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    one_line(&run(&[&circle]), 126, "symbolic links");
    let plain = directory.file("plain", b"exit 4\n", 0o644);
    one_line(&run(&[&plain]), 126, "Permission denied");
    one_line(
        &run(&[directory.0.to_str().unwrap()]),
        126,
        "cannot execute",
    );
    // What is no file is not opened: that of a FIFO would wait for a writer.
    let fifo = directory.0.join("fifo").to_str().unwrap().to_string();
    let made = Command::new("mkfifo").args(["-m", "755", &fifo]).status();
    assert!(made.unwrap().success());
    one_line(&run(&[&fifo]), 126, "Permission denied");
    let orphan = directory.file("orphan", b"#!/no/such/interpreter\n", 0o755);
    one_line(&run(&[&orphan]), 127, "No such file or directory");
    // An executable segment that is said to be larger than memory.
    let mut huge = std::fs::read("/bin/sh").unwrap();
    let header = 64
        + 56 * (0..huge[56].into())
            .find(|at| huge[64 + 56 * at + 4] & 1 != 0)
            .unwrap();
    huge[header + 38] = 1;
    let huge = directory.file("huge", &huge, 0o755);
    let output = run(&[&huge]);
    assert!(
        stderr(&output).contains("its headers are damaged"),
        "{}",
        stderr(&output)
    );
    let data = directory.file("data", b"\0exit 4\n", 0o755);
    one_line(&run(&[&data]), 126, "it is no 64-bit ELF file");
    // A library that is missing, unreadable, for another processor, and where none can be named.
    let with_library = |library: &str| {
        let mut command = command(&["sh", "-c", "exit 9"]);
        command
            .env("ATOMSEQ_SIGMASK_LIBRARY", library)
            .output()
            .unwrap()
    };
    one_line(
        &with_library("/no/such/library"),
        9,
        "/no/such/library is missing",
    );
    one_line(
        &with_library("/no/such/library"),
        9,
        "run `cargo build --release -p atomseq-sigmask` and `cp target/release/libatomseq_sigmask.so /",
    );
    one_line(&with_library(&fifo), 9, "it is no file");
    let garbage = directory.file("garbage.so", b"no library", 0o644);
    one_line(&with_library(&garbage), 9, "no library for this processor");
    one_line(
        &with_library(directory.0.to_str().unwrap()),
        9,
        "cannot be used",
    );
    let mut foreign = std::fs::read("/bin/sh").unwrap();
    let half = directory.file("half.so", &foreign[..5_000], 0o644);
    one_line(&with_library(&half), 9, "it is not whole");
    foreign[18] = 183;
    let foreign = directory.file("foreign", &foreign, 0o755);
    one_line(&with_library(&foreign), 9, "no library for this processor");
    let spaced = directory.file("a b.so", b"", 0o644);
    one_line(&with_library(&spaced), 9, "a space or a colon");
    one_line(&run(&[&foreign]), 126, "it is for another processor");
    assert!(Path::new(&foreign).exists());
}

#[test]
fn other_preloaded_libraries_come_first() {
    let directory = Directory::new("others");
    let spy = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <signal.h>
        #include <unistd.h>
        int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
            static int (*next)(int, const sigset_t *, sigset_t *);
            if (!next) {
                next = (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT, "sigprocmask");
                write(1, "spy", 3);
            }
            return next(how, set, old);
        }"#;
    let spy = directory.compile("spy.so", spy, &["-shared", "-fPIC"]);
    let program = directory.compile("masks", MASKS, &[]);
    let mut command = command(&["--stats", &program]);
    let output = command.env("LD_PRELOAD", spy).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(stdout(&output).starts_with("spy"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("1991 system calls saved"),
        "{}",
        stderr(&output)
    );
}
