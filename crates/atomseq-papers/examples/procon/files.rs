//! Where the input comes from, and where the output goes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crc32fast::Hasher;

/// How much is read or written at a time.
pub const CHUNK: usize = 1 << 16;

/// A file that can be copied.
pub struct Input {
    pub path: PathBuf,
    /// Why this one, if nobody asked for it.
    pub chosen: Option<&'static str>,
    pub bytes: u64,
}

impl Input {
    /// A regular file that is not empty; or a sentence.
    pub fn new(path: &Path, chosen: Option<&'static str>) -> Result<Input, String> {
        let shown = path.display();
        let cannot = |error: io::Error| format!("{shown} cannot be read: {error}");
        // Before it is opened: a pipe would wait for somebody to write.
        let about = fs::metadata(path).map_err(cannot)?;
        if about.is_dir() {
            return Err(format!("{shown} is a directory; give a file"));
        }
        if !about.is_file() {
            return Err(format!(
                "{shown} is not a regular file, so what comes out could not be compared with it; give a file"
            ));
        }
        File::open(path).map_err(cannot)?;
        match about.len() {
            0 => Err(format!(
                "{shown} is empty, so there is nothing to copy; give a larger file"
            )),
            bytes => Ok(Input {
                path: path.to_path_buf(),
                chosen,
                bytes,
            }),
        }
    }

    /// A large file that is there wherever Rust is: the compiler, else this program.
    pub fn default() -> Result<Input, String> {
        if let Some(path) = compiler() {
            return Input::new(&path, Some("the compiler's largest library"));
        }
        let program = std::env::current_exe()
            .map_err(|error| format!("there is no compiler to copy: {error}; give a file"))?;
        Input::new(
            &program,
            Some("this program itself, for there is no compiler"),
        )
    }

    /// The checksum of all of it; `tick` hears how much was read.
    pub fn checksum(&self, tick: impl FnMut(u64)) -> io::Result<u32> {
        checksum(&self.path, tick)
    }
}

fn compiler() -> Option<PathBuf> {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output();
    let answer = asked.ok().filter(|answer| answer.status.success())?;
    let sysroot = String::from_utf8(answer.stdout).ok()?;
    let libraries = fs::read_dir(Path::new(sysroot.trim_end()).join("lib")).ok()?;
    let sized = libraries.filter_map(|entry| {
        let entry = entry.ok()?;
        let about = entry.metadata().ok()?;
        about.is_file().then(|| (about.len(), entry.path()))
    });
    sized.max().map(|(_, path)| path)
}

fn checksum(path: &Path, mut tick: impl FnMut(u64)) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK];
    let mut hasher = Hasher::new();
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(length) => {
                hasher.update(&chunk[..length]);
                tick(length as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What is made of the bytes that come out.
pub struct Output {
    file: Option<(File, PathBuf)>,
    hasher: Hasher,
    pub bytes: u64,
}

impl Output {
    /// Into this file, or nowhere.
    pub fn create(path: Option<&Path>) -> io::Result<Output> {
        let open = |path: &Path| Ok::<_, io::Error>((File::create(path)?, path.to_path_buf()));
        Ok(Output {
            file: path.map(open).transpose()?,
            hasher: Hasher::new(),
            bytes: 0,
        })
    }

    /// Adds to it.
    pub fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        match &mut self.file {
            Some((file, _)) => file.write_all(chunk),
            None => Ok(()),
        }
    }

    /// The checksum of what came, and of what can be read from the file, if it is a regular one.
    pub fn finish(self) -> io::Result<(u32, Option<u32>)> {
        let written = match self.file {
            Some((file, path)) if file.metadata()?.is_file() => Some(checksum(&path, |_| {})?),
            _ => None,
        };
        Ok((self.hasher.finalize(), written))
    }
}

/// Would writing to `output` destroy `input`?
pub fn are_the_same(input: &Path, output: &Path) -> bool {
    match (fs::canonicalize(input), fs::canonicalize(output)) {
        (Ok(input), Ok(output)) => input == output || are_linked(&input, &output),
        _ => false,
    }
}

#[cfg(unix)]
fn are_linked(input: &Path, output: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::metadata(input), fs::metadata(output)) {
        (Ok(input), Ok(output)) => (input.dev(), input.ino()) == (output.dev(), output.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn are_linked(_input: &Path, _output: &Path) -> bool {
    false
}
