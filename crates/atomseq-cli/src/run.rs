//! `atomseq run`: a program with `libatomseq_sigmask.so`, or unchanged if that cannot help it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::arguments::Run;
use crate::process;

/// The library's file name.
const LIBRARY: &str = "libatomseq_sigmask.so";
/// Where its source is.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// The variable with another place of it.
const PLACE: &str = "ATOMSEQ_SIGMASK_LIBRARY";
/// The variable by which the library knows the process that prints statistics.
const STATISTICS: &str = "ATOMSEQ_SIGMASK_STATS";
/// Exit codes of shells.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs the program in place of this process.
pub fn run(arguments: &Run) -> ! {
    let name = arguments.command.first().expect("clap requires one");
    let Some(program) = find(name) else {
        say(&format!("cannot find {}", name.display()));
        process::exit(NOT_FOUND)
    };
    let is_script = is_executable(&program) && is_script_without_interpreter(&program);
    let mut refused = None;
    match reason_against(&program).map_or_else(library, Err) {
        Ok(library) => {
            // Behind others: what they do in place of the C library's functions, they do in place
            // of this library's.
            let mut preload = std::env::var_os("LD_PRELOAD").unwrap_or_default();
            if !preload.is_empty() {
                preload.push(":");
            }
            preload.push(library);
            // SAFETY: there is no other thread yet.
            unsafe {
                std::env::set_var("LD_PRELOAD", preload);
                if arguments.stats {
                    std::env::set_var(STATISTICS, std::process::id().to_string());
                }
            }
        }
        // The kernel refuses it; or there would be a second line if it cannot be executed.
        Err(reason) if !is_executable(&program) || is_foreign(&reason) || is_script => {
            refused = Some(reason);
        }
        Err(reason) => say(&format!("{} runs unchanged: {reason}", program.display())),
    }
    let error = execute(&program, &arguments.command);
    if is_script && error.raw_os_error() == Some(libc::ENOEXEC) {
        let shell = [OsString::from("/bin/sh"), program.into_os_string()];
        let words = arguments.command[1..].iter().cloned();
        run(&Run {
            stats: arguments.stats,
            command: shell.into_iter().chain(words).collect(),
        })
    }
    let reason = match refused {
        Some(reason) if error.raw_os_error() == Some(libc::ENOEXEC) => reason,
        _ => error.to_string(),
    };
    say(&format!("cannot execute {}: {reason}", program.display()));
    process::exit(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}

/// Why the kernel executes no such file, unless it was given an interpreter of them. It executes
/// 32-bit programs, but has a reason of its own for them.
const FOREIGN: [&str; 2] = ["it is for another processor", "it is no 64-bit ELF file"];

fn is_foreign(reason: &str) -> bool {
    // Two files are always there.
    let interpreters = std::fs::read_dir("/proc/sys/fs/binfmt_misc").map_or(0, Iterator::count);
    FOREIGN.contains(&reason) && interpreters <= 2
}

fn is_executable(program: &Path) -> bool {
    let metadata = program.metadata();
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns whether a file is one that the kernel refuses, and that `execvp` has the shell run: text
/// that does not name an interpreter.
fn is_script_without_interpreter(program: &Path) -> bool {
    let mut start = [0; 256];
    // The kernel may execute what cannot be read.
    let Ok(length) = File::open(program).and_then(|file| file.read_at(&mut start, 0)) else {
        return false;
    };
    let line = start[..length].split(|&byte| byte == b'\n').next();
    line.is_some_and(|line| !line.contains(&0) && !line.starts_with(b"#!"))
}

/// Executes the program with the mask, the handler of `SIGPIPE` and the standard streams that this
/// process got, which [`std::process::Command`] would change. Returns only with an error.
fn execute(program: &Path, arguments: &[OsString]) -> io::Error {
    let to_c = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
    let words: io::Result<Vec<_>> = arguments.iter().map(|word| to_c(word)).collect();
    let (path, words) = match (to_c(program.as_os_str()), words) {
        (Ok(path), Ok(words)) => (path, words),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(ptr::null());
    // SAFETY: strings, and a list of them with a null at its end; `SIG_IGN` and `SIG_DFL` are no
    // functions.
    unsafe {
        if !PIPE_IGNORED.load(Relaxed) {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        for (descriptor, closed) in (0..).zip(&CLOSED) {
            if closed.load(Relaxed) {
                libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        libc::execv(path.as_ptr(), pointers.as_ptr());
    }
    io::Error::last_os_error()
}

/// Whether `SIGPIPE` was ignored before Rust's runtime ignored it.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Which of the standard streams were closed before Rust's runtime opened `/dev/null` for them.
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// The C library calls this before `main`.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: zeros are a valid action, and the kernel writes one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, ptr::null(), &mut action);
        // Relaxed: before there is another thread.
        PIPE_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Relaxed);
        for (descriptor, closed) in (0..).zip(&CLOSED) {
            closed.store(libc::fcntl(descriptor, libc::F_GETFD) < 0, Relaxed);
        }
    }
}

fn say(line: &str) {
    // If standard error cannot be written either, the program runs all the same.
    let _ = writeln!(io::stderr(), "atomseq: {line}");
}

/// Returns the file that a shell would execute, or one that says why it cannot be.
fn find(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 || name.as_encoded_bytes().contains(&b'/') {
        // What cannot be looked for is no missing file: the kernel says why.
        let exists = path.try_exists().unwrap_or(true);
        return exists.then(|| path.to_path_buf());
    }
    let directories = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let files = std::env::split_paths(&directories).map(|directory| directory.join(name));
    let files: Vec<_> = files.filter(|file| file.is_file()).collect();
    let executable = files.iter().find(|file| is_executable(file));
    executable.or(files.first()).cloned()
}

/// Returns the library's path.
pub fn library() -> Result<PathBuf, String> {
    let given = std::env::var_os(PLACE).filter(|place| !place.is_empty());
    let given = given.map(PathBuf::from);
    let command = std::env::current_exe().unwrap_or_default();
    let directory = command.parent().unwrap_or(Path::new("."));
    let candidates = match given {
        Some(path) => vec![path],
        None => {
            let places = ["", "deps", "../lib", "../lib/atomseq"];
            places
                .map(|place| directory.join(place).join(LIBRARY))
                .to_vec()
        }
    };
    let Some(library) = candidates.iter().find(|path| path.exists()) else {
        return Err(format!(
            "{} is missing; in a clone of {REPOSITORY}, run `cargo build --release -p \
             atomseq-sigmask` and `cp target/release/{LIBRARY} {}/`, or set {PLACE} to the \
             file",
            candidates[0].display(),
            directory.display()
        ));
    };
    let unusable = |reason: &str| Err(format!("{} cannot be used: {reason}", library.display()));
    // Opening a FIFO would wait for a writer.
    if !library.is_file() {
        return unusable("it is no file");
    }
    // The separators of LD_PRELOAD.
    if library
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| b" :\t\n".contains(byte))
    {
        return unusable("its path has a space or a colon");
    }
    let file = match File::open(library) {
        Ok(file) => file,
        Err(error) => return unusable(&error.to_string()),
    };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    match Elf::read(&file) {
        // The dynamic linker maps what its headers say.
        Some(Elf { segments, .. }) if segments.iter().any(|one| one.part.end() > length) => {
            unusable("it is not whole")
        }
        Some(Elf { machine, .. }) if machine == MACHINE => {
            Ok(library.canonicalize().unwrap_or_else(|_| library.clone()))
        }
        _ => unusable("it is no library for this processor"),
    }
}

/// This processor's number in an ELF header.
const MACHINE: u16 = match () {
    () if cfg!(target_arch = "x86_64") => 62,
    () if cfg!(target_arch = "aarch64") => 183,
    () => 0,
};

/// Returns why a program cannot be helped; nothing if it can be, or cannot be executed.
fn reason_against(program: &Path) -> Option<String> {
    if !cfg!(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_env = "gnu"
    )) {
        return Some("there is a library for x86-64 and glibc only".into());
    }
    let mut program = program.to_path_buf();
    // Scripts may have interpreters that are scripts, to a depth that the kernel limits.
    for _ in 0..5 {
        // The kernel refuses it, and opening a FIFO would wait for a writer.
        if !program.is_file() {
            return None;
        }
        let Ok(file) = File::open(&program) else {
            return Some("it cannot be read, so it may be a program that cannot be helped".into());
        };
        let mode = file.metadata().map_or(0, |metadata| metadata.mode());
        let mut start = [0; 2];
        if file.read_exact_at(&mut start, 0).is_err() || start != *b"#!" {
            if mode & 0o6000 != 0 || has_capabilities(&program) {
                return Some("it changes its user or its privileges".into());
            }
            return match Elf::read(&file) {
                Some(elf) => elf.reason(&file),
                None => Some(reason_against_32_bits(&file).into()),
            };
        }
        let mut line = vec![0; 256];
        let length = file.read_at(&mut line, 0).unwrap_or(0);
        let line = line[2..length.max(2)].split(|&byte| byte == b'\n').next()?;
        let interpreter = line
            .split(|byte| b" \t\0".contains(byte))
            .find(|word| !word.is_empty())?;
        program = PathBuf::from(OsString::from_vec(interpreter.to_vec()));
    }
    None
}

/// Returns whether a file has capabilities: the dynamic linker then ignores `LD_PRELOAD`.
fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability".as_ptr();
    // SAFETY: two strings, and no buffer.
    unsafe { libc::getxattr(path.as_ptr(), name, ptr::null_mut(), 0) > 0 }
}

/// Returns why a file that is no 64-bit program cannot be helped: as one of 32 bits, if this kernel
/// executes it.
fn reason_against_32_bits(file: &File) -> &'static str {
    let mut header = [0; 20];
    let read = file.read_exact_at(&mut header, 0).is_ok();
    let machine = u16::from_le_bytes([header[18], header[19]]);
    match (read && header.starts_with(b"\x7fELF\x01")).then_some(machine) {
        // A kernel that does not execute it has no such file.
        Some(3) if Path::new("/proc/sys/abi/vsyscall32").exists() => "it is a 32-bit program",
        Some(MACHINE) if has_x32() => "it is a program of the x32 ABI",
        _ => FOREIGN[1],
    }
}

/// Returns whether this kernel has system calls for 32-bit programs of this processor.
fn has_x32() -> bool {
    const X32: libc::c_long = 0x4000_0000;
    // SAFETY: it only returns a number.
    cfg!(target_arch = "x86_64") && unsafe { libc::syscall(X32 | libc::SYS_getpid) } > 0
}

/// What is asked of an ELF file of 64 bits.
struct Elf {
    machine: u16,
    segments: Vec<Segment>,
    /// The names of its symbols and libraries.
    names: Option<Part>,
    /// Whether Go's linker wrote it.
    is_go: bool,
}

/// A part of the file that is mapped, or says something.
struct Segment {
    kind: u32,
    executable: bool,
    part: Part,
}

/// Bytes of the file.
#[derive(Clone, Copy)]
struct Part {
    offset: u64,
    size: u64,
}

/// How many program headers the kernel accepts, and how many section headers are read.
const HEADERS: [u32; 2] = [65_536 / 56, 65_536];

/// How many bytes of a program are searched: a few times what the largest browsers have. A file
/// with holes may have terabytes.
const SEARCHED: u64 = 1 << 29;

impl Elf {
    /// Reads the headers; returns nothing if it is another kind of file.
    fn read(file: &File) -> Option<Elf> {
        use object::elf::FileHeader64;
        use object::read::ReadCache;
        use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

        let cache = ReadCache::new(file);
        let header = FileHeader64::<object::Endianness>::parse(&cache).ok()?;
        let endian = header.endian().ok()?;
        let counts = [header.phnum(endian, &cache), header.shnum(endian, &cache)];
        let [segments, sections] = counts.map(|count| count.unwrap_or(u32::MAX));
        let segments = (segments <= HEADERS[0])
            .then(|| header.program_headers(endian, &cache))?
            .ok()?;
        let segments = segments.iter().map(|segment| Segment {
            kind: segment.p_type(endian).0,
            executable: segment.p_flags(endian).0 & object::elf::PF_X.0 != 0,
            part: Part {
                offset: segment.p_offset(endian),
                size: segment.p_filesz(endian),
            },
        });
        let sections = (sections <= HEADERS[1])
            .then(|| header.sections(endian, &cache).ok())
            .flatten();
        let names = sections.as_ref().and_then(|sections| {
            let (_, section) = sections.section_by_name(endian, b".dynstr")?;
            let (offset, size) = section.file_range(endian)?;
            Some(Part { offset, size })
        });
        let is_go = sections.is_some_and(|sections| {
            sections
                .iter()
                .filter_map(|section| sections.section_name(endian, section).ok())
                .any(|name| name.starts_with(b".note.go.") || name == b".go.buildinfo")
        });
        Some(Elf {
            machine: header.e_machine(endian).0,
            segments: segments.collect(),
            names,
            is_go,
        })
    }

    /// Returns why the program cannot be helped.
    fn reason(&self, file: &File) -> Option<String> {
        if self.machine != MACHINE {
            return Some(FOREIGN[0].into());
        }
        let interpreter = self
            .segments
            .iter()
            .find(|segment| segment.kind == object::elf::PT_INTERP.0);
        let Some(interpreter) = interpreter else {
            return Some("it is static, so no library is loaded into it".into());
        };
        let Part { offset, size } = interpreter.part;
        let mut linker = vec![0; size.min(4_096) as usize];
        if file.read_exact_at(&mut linker, offset).is_err() {
            return Some("its headers are damaged".into());
        }
        let mut linker = linker.split(|&byte| byte == 0);
        if !linker
            .next()
            .is_some_and(|linker| linker.ends_with(b"/ld-linux-x86-64.so.2"))
        {
            return Some("its C library is not glibc".into());
        }
        if self.is_go {
            return Some("Go's runtime masks signals by system calls of its own".into());
        }
        let is_executable = |segment: &&Segment| segment.executable;
        let code = self.segments.iter().filter(is_executable);
        let code = code.map(|segment| (segment.part, masks_by_system_call as Test, OWN_CALLS));
        // What is searched first is reported first.
        let names = self
            .names
            .map(|part| (part, names_sanitizer as Test, FOREMOST));
        let parts: Vec<_> = names.into_iter().chain(code).collect();
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if parts.iter().any(|(part, ..)| part.end() > length) {
            return Some("its headers are damaged".into());
        }
        let sizes = parts.iter().map(|(part, ..)| part.size);
        if sizes.fold(0, u64::saturating_add) > SEARCHED {
            return Some("it is too large to be searched for system calls".into());
        }
        parts
            .into_iter()
            .find_map(|(part, test, reason)| match part.has(file, test) {
                Ok(true) => Some(reason.into()),
                Ok(false) => None,
                Err(error) => Some(format!("it cannot be read: {error}")),
            })
    }
}

/// Returns whether bytes have what is searched for.
type Test = fn(&[u8]) -> bool;

/// Why what is searched for is a reason.
const FOREMOST: &str = "its sanitizer must be the first library";
const OWN_CALLS: &str = "it masks or handles signals by system calls of its own";

/// Returns whether names have that of one of gcc's sanitizers that must be the first library.
fn names_sanitizer(names: &[u8]) -> bool {
    [&b"\0libasan.so"[..], b"\0libhwasan.so", b"\0libtsan.so"]
        .iter()
        .any(|library| names.windows(library.len()).any(|name| name == *library))
}

impl Part {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// Searches by pieces.
    fn has(&self, file: &File, test: Test) -> io::Result<bool> {
        const PIECE: u64 = 1 << 20;
        let mut start = 0;
        while start < self.size {
            let mut code = vec![0; (self.size - start).min(PIECE) as usize];
            file.read_exact_at(&mut code, self.offset.saturating_add(start))?;
            if test(&code) {
                return Ok(true);
            }
            // What lies across the border is in the next piece.
            let across = BEFORE as u64 + 1;
            start += PIECE - across;
        }
        Ok(false)
    }
}

/// How many bytes before a system call its number is looked for.
const BEFORE: usize = 48;

/// Returns whether code makes the system calls for masks and handlers itself: the instruction, and
/// shortly before it that their number is loaded. What it takes for such is at worst not helped.
fn masks_by_system_call(code: &[u8]) -> bool {
    let mut calls = code
        .windows(2)
        .enumerate()
        .filter(|(_, bytes)| *bytes == [0x0f, 0x05]);
    calls.any(|(at, _)| {
        let before = &code[at.saturating_sub(BEFORE)..at];
        (0..before.len()).any(|start| loads_number(&before[start..]))
    })
}

/// Returns whether code starts with instructions that load the number of `rt_sigaction`,
/// `rt_sigprocmask` or `rt_sigsuspend`, of 32 or 64 bits, or as short code does.
fn loads_number(code: &[u8]) -> bool {
    let number = match *code {
        [0xb8, number, 0, 0, 0, ..] => number, // mov eax, number
        [0x48, 0xc7, 0xc0, number, 0, 0, 0, ..] => number, // mov rax, number
        [0x6a, number, 0x58, ..] => number,    // push number; pop rax
        [0x68, number, 0, 0, 0, 0x58, ..] => number, // the same, of 32 bits
        [0x31, 0xc0, 0xb0, number, ..] => number, // xor eax, eax; mov al, number
        _ => return false,
    };
    [13, 14, 130].contains(&number)
}
