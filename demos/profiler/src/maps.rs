//! The mappings of this process, from `/proc/self/maps`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of that file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: usize,
    pub end: usize,
    /// The offset in the mapped file.
    pub offset: u64,
    /// The file, a name in brackets such as `[vdso]`, or nothing.
    pub path: PathBuf,
    /// Whether the file was removed or replaced after it was mapped.
    pub deleted: bool,
}

impl Mapping {
    /// Returns the name to print.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        match name.is_empty() {
            true => "anonymous memory".to_owned(),
            false => name.to_string_lossy().into_owned(),
        }
    }
}

/// Reads the mappings of this process, sorted by address.
pub fn read() -> io::Result<Vec<Mapping>> {
    Ok(parse(&std::fs::read(Path::new("/proc/self/maps"))?))
}

/// Returns the mapping that contains an address.
pub fn find(mappings: &[Mapping], address: usize) -> Option<&Mapping> {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    let mapping = &mappings[after.checked_sub(1)?];
    (address < mapping.end).then_some(mapping)
}

fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

/// Parses `start-end permissions offset device inode      path`.
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_ascii_start();
        let end = rest
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after;
        std::str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let [_permissions, offset, _device, _inode] = [field()?, field()?, field()?, field()?];
    let path = rest.trim_ascii_start();
    let (path, deleted) = match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        path: PathBuf::from(OsString::from_vec(unescaped(path))),
        deleted,
    })
}

/// Replaces `\012`, which the kernel writes for a line feed in a name.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match after.strip_prefix(b"012").filter(|_| *first == b'\\') {
            Some(after) => {
                bytes.push(b'\n');
                rest = after;
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let text = b"\
5590c0a00000-5590c0a26000 r-xp 00001000 08:01 131 /bin/with a space\n\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
7f0000002000-7f0000003000 r-xp 00000000 08:01 7                          /tmp/line\\012feed (deleted)\n\
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n\
not a mapping\n";
        let mappings = parse(text);
        let names: Vec<String> = mappings.iter().map(Mapping::name).collect();
        assert_eq!(
            names,
            ["with a space", "anonymous memory", "line\nfeed", "[vdso]"]
        );
        let first = &mappings[0];
        assert_eq!(
            (first.start, first.end),
            (0x5590_c0a0_0000, 0x5590_c0a2_6000)
        );
        assert_eq!((first.offset, first.deleted), (0x1000, false));
        assert!(mappings[2].deleted);
        assert_eq!(find(&mappings, first.start), Some(first));
        assert_eq!(find(&mappings, first.end - 1), Some(first));
        assert_eq!(find(&mappings, first.end), None);
        assert_eq!(find(&mappings, 0), None);
    }

    #[test]
    fn a_function_of_this_process_is_in_its_executable() {
        let mappings = read().unwrap();
        let here = find(
            &mappings,
            parse_line as fn(&[u8]) -> Option<Mapping> as usize,
        );
        let exe = std::env::current_exe().unwrap();
        assert_eq!(here.map(|mapping| mapping.path.clone()), Some(exe));
    }
}
