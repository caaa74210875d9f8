//! The input, the output and their checksums.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crc32fast::Hasher;

/// The bytes read or written at a time.
pub const CHUNK: usize = 1 << 16;

/// A file that can be copied.
pub struct Input {
    pub path: PathBuf,
    /// A sentence about the file if it is the default one.
    pub chosen: Option<&'static str>,
    pub bytes: u64,
}

impl Input {
    /// Checks that the path is a regular file that is not empty. An error is a sentence.
    pub fn new(path: &Path, chosen: Option<&'static str>) -> Result<Input, String> {
        let shown = path.display();
        let cannot = |error: io::Error| format!("{shown} cannot be read: {error}");
        // Before the file is opened: opening a pipe would wait for a writer.
        let about = fs::metadata(path).map_err(cannot)?;
        if about.is_dir() {
            return Err(format!("{shown} is a directory; give a file"));
        }
        if !about.is_file() {
            return Err(format!(
                "{shown} is not a regular file, so a copy cannot be compared with it; give a regular file"
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

    /// Returns the compiler's largest library, or this program if there is no compiler.
    pub fn default() -> Result<Input, String> {
        if let Some(path) = compiler() {
            return Input::new(&path, Some("the compiler's largest library"));
        }
        let program = std::env::current_exe()
            .map_err(|error| format!("there is no default file: {error}; give a file"))?;
        Input::new(
            &program,
            Some("this program itself, because there is no compiler"),
        )
    }

    /// Returns the checksum. Calls `tick` with the bytes read by each step.
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

/// The destination of the copy.
pub struct Output {
    file: Option<(File, PathBuf)>,
    hasher: Hasher,
    pub bytes: u64,
}

impl Output {
    /// Creates the file, or discards the bytes without a path.
    pub fn create(path: Option<&Path>) -> io::Result<Output> {
        let open = |path: &Path| Ok::<_, io::Error>((File::create(path)?, path.to_path_buf()));
        Ok(Output {
            file: path.map(open).transpose()?,
            hasher: Hasher::new(),
            bytes: 0,
        })
    }

    /// Appends bytes.
    pub fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        match &mut self.file {
            Some((file, _)) => file.write_all(chunk),
            None => Ok(()),
        }
    }

    /// Returns the checksum of the bytes received, and that of the file if it is a regular one.
    pub fn finish(self) -> io::Result<(u32, Option<u32>)> {
        let written = match self.file {
            Some((file, path)) if file.metadata()?.is_file() => Some(checksum(&path, |_| {})?),
            _ => None,
        };
        Ok((self.hasher.finalize(), written))
    }
}

/// Returns whether writing to `output` would overwrite `input`.
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
