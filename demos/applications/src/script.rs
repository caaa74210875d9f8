//! Scripts of file operations, their commands, and a model of a file system in which they are run
//! first.

use std::collections::BTreeMap;

use super::disk::{BLOCK, Geometry, NAME, Operation, Refusal};
use super::server::{Files, PATH};

/// A line of a script.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// `mkdir PATH`
    MakeDirectory(String),
    /// `write PATH BYTES`: makes a file of text.
    Write(String, usize),
    /// `copy FROM TO`
    Copy(String, String),
    /// `search PATH WORD`: counts a word in a file.
    Search(String, String),
    /// `list PATH`
    List(String),
    /// `compile FROM TO`: makes a file with a checksum of each line of another one.
    Compile(String, String),
    /// `rename PATH NAME`
    Rename(String, String),
    /// `remove PATH`
    Remove(String),
}

/// The maximum number of bytes that `write` writes.
const MAX_BYTES: usize = 1 << 20;

/// The maximum number of a script's commands.
const MAX_COMMANDS: usize = 5_000;

/// The maximum size of a client's files, in blocks: 16 MiB.
const MAX_BLOCKS: usize = (16 << 20) / BLOCK;

/// The longest path in a script: the client's directory comes before it.
const MAX_PATH: usize = PATH - 16;

/// Reads a script for a client, each of which has a directory of its own. An error is a sentence
/// with file and line.
pub fn parse(name: &str, text: &str, client: usize) -> Result<Vec<(usize, Command)>, String> {
    let mut commands = vec![(0, Command::MakeDirectory(format!("/client{client}")))];
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or("");
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = |what: String| format!("{name}:{line}: {what}");
        if !words.is_empty() && commands.len() > MAX_COMMANDS {
            return Err(wrong(format!("more than {MAX_COMMANDS} commands")));
        }
        // A zero ends a name on the disk.
        let is_name = |name: &str| name.len() <= NAME && !name.contains('\0');
        let path = |path: &str| {
            let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
            let is_path = names.peek().is_some() && names.all(is_name);
            match is_path && path.len() <= MAX_PATH {
                true => Ok(format!("/client{client}/{path}")),
                false => Err(wrong(format!(
                    "{path:?} is no path of up to {MAX_PATH} bytes, with names of up to {NAME} bytes and without zeros"
                ))),
            }
        };
        commands.push((line, match words[..] {
            [] => continue,
            ["mkdir", one] => Command::MakeDirectory(path(one)?),
            ["write", one, bytes] => match bytes.parse() {
                Ok(bytes) if bytes <= MAX_BYTES => Command::Write(path(one)?, bytes),
                _ => return Err(wrong(format!("{bytes:?} is no number of bytes up to {MAX_BYTES}"))),
            },
            ["copy", from, to] => Command::Copy(path(from)?, path(to)?),
            ["search", one, word] if word.len() < BLOCK => Command::Search(path(one)?, word.into()),
            ["list", one] => Command::List(path(one)?),
            ["compile", from, to] => Command::Compile(path(from)?, path(to)?),
            ["rename", one, to] if is_name(to) && !to.contains('/') => {
                Command::Rename(path(one)?, to.into())
            }
            ["rename", _, to] => {
                return Err(wrong(format!("{to:?} is no name of up to {NAME} bytes, without \"/\"")));
            }
            ["remove", one] => Command::Remove(path(one)?),
            [word, ..] => {
                return Err(wrong(format!(
                    "{word:?} with {} words after it is no command; they are: mkdir PATH, write PATH BYTES, \
                     copy FROM TO, search PATH WORD, list PATH, compile FROM TO, rename PATH NAME, remove PATH",
                    words.len() - 1
                )));
            }
        }));
    }
    match commands.len() {
        1 => Err(format!("{name} has no command")),
        _ => Ok(commands),
    }
}

/// Returns the script that is run if none is given: a tree of sources is made, copied, listed,
/// searched and compiled, and some of it is renamed and removed.
pub fn default() -> String {
    let mut text = String::new();
    for directory in 0..4 {
        text += &format!("mkdir src{directory}\nmkdir copy{directory}\nmkdir obj{directory}\n");
        for file in 0..8 {
            let bytes = 500 + 1237 * (8 * directory + file) % 9000;
            text += &format!("write src{directory}/file{file}.c {bytes}\n");
        }
        for file in 0..8 {
            text += &format!("copy src{directory}/file{file}.c copy{directory}/file{file}.c\n");
        }
        text += &format!("list src{directory}\nlist copy{directory}\n");
        for file in 0..8 {
            text += &format!("search copy{directory}/file{file}.c lock\n");
        }
        for file in 0..8 {
            text += &format!("compile copy{directory}/file{file}.c obj{directory}/file{file}.o\n");
        }
        for file in 0..4 {
            text += &format!("rename obj{directory}/file{file}.o part{file}.o\n");
            text += &format!("remove src{directory}/file{file}.c\n");
        }
    }
    text
}

/// Words of the files that scripts make.
const WORDS: [&[u8]; 8] = [
    b"lock ",
    b"thread ",
    b"section ",
    b"atomic;\n",
    b"restart ",
    b"kernel ",
    b"block\n",
    b"word ",
];

/// A digest of all results that a program has got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Digest(u64);

impl Digest {
    pub const NEW: Digest = Digest(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Runs a command. Allocates nothing.
pub fn execute(
    command: &Command,
    files: &mut impl Files,
    digest: &mut Digest,
) -> Result<(), Refusal> {
    let mut data = [0; BLOCK];
    match command {
        Command::MakeDirectory(path) => {
            files.call(Operation::MakeDirectory, path, 0, &mut data, 0)?
        }
        Command::Write(path, bytes) => {
            files.call(Operation::Create, path, 0, &mut data, 0)?;
            let mut text = (0..).flat_map(|n: u64| {
                WORDS[(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize].iter()
            });
            for start in (0..*bytes).step_by(BLOCK) {
                let length = BLOCK.min(bytes - start);
                for (to, from) in data[..length].iter_mut().zip(&mut text) {
                    *to = *from;
                }
                files.call(Operation::Append, path, 0, &mut data, length)?;
            }
            0
        }
        Command::Copy(from, to) => {
            files.call(Operation::Create, to, 0, &mut data, 0)?;
            let mut offset = 0;
            loop {
                let read = files.call(Operation::Read, from, offset, &mut data, 0)?;
                if read == 0 {
                    break;
                }
                files.call(Operation::Append, to, 0, &mut data, read)?;
                offset += read;
            }
            offset
        }
        Command::Search(path, word) => {
            // The end of a block may be the beginning of the word, so blocks overlap.
            let (mut offset, mut found, word) = (0_usize, 0, word.as_bytes());
            loop {
                let read = files.call(Operation::Read, path, offset, &mut data, 0)?;
                found += data[..read]
                    .windows(word.len())
                    .filter(|part| *part == word)
                    .count();
                if read < BLOCK {
                    break found;
                }
                offset += read + 1 - word.len();
            }
        }
        Command::List(path) => {
            let mut number = 0;
            loop {
                let length = files.call(Operation::Entry, path, number, &mut data, 0)?;
                if length == 0 {
                    break number;
                }
                digest.add(&data[..length]);
                number += 1;
            }
        }
        Command::Compile(from, to) => {
            files.call(Operation::Create, to, 0, &mut data, 0)?;
            let (mut offset, mut line) = (0, Digest::NEW);
            loop {
                let read = files.call(Operation::Read, from, offset, &mut data, 0)?;
                if read == 0 {
                    break;
                }
                let (mut object, mut length) = ([0; BLOCK], 0);
                for byte in &data[..read] {
                    line.add(&[*byte]);
                    // A checksum that does not fit into the block is continued with the next line.
                    if *byte == b'\n' && length + 8 <= BLOCK {
                        object[length..length + 8].copy_from_slice(&line.0.to_le_bytes());
                        length += 8;
                        line = Digest::NEW;
                    }
                }
                files.call(Operation::Append, to, 0, &mut object, length)?;
                offset += read;
            }
            offset
        }
        Command::Rename(path, to) => {
            data[..to.len()].copy_from_slice(to.as_bytes());
            files.call(Operation::Rename, path, 0, &mut data, to.len())?
        }
        Command::Remove(path) => files.call(Operation::Remove, path, 0, &mut data, 0)?,
    }
    .to_le_bytes()
    .iter()
    .for_each(|byte| digest.add(&[*byte]));
    Ok(())
}

/// A file system as a map, in which directories have no contents. It shares no code with the disk.
#[derive(Debug, Default)]
pub struct Model {
    pub tree: BTreeMap<String, Option<Vec<u8>>>,
    /// The names in each directory, in the order of the disk's entries.
    names: BTreeMap<String, Vec<String>>,
}

impl Model {
    /// Runs a client's script. An error is a sentence with file and line.
    pub fn run(
        &mut self,
        name: &str,
        commands: &[(usize, Command)],
    ) -> Result<(Digest, Geometry), String> {
        let (mut digest, mut peak) = (Digest::NEW, Geometry::default());
        for (line, command) in commands {
            let done = execute(command, self, &mut digest);
            done.map_err(|refusal| format!("{name}:{line}: {refusal}"))?;
            let sizes = self.tree.values().map(|content| match content {
                Some(content) => content.len().div_ceil(BLOCK),
                // As if each directory contained all files and directories.
                None => 1 + self.tree.len() / (BLOCK / 32),
            });
            peak.blocks = peak.blocks.max(sizes.clone().sum());
            peak.longest = peak.longest.max(sizes.max().unwrap_or(0));
            peak.inodes = peak.inodes.max(self.tree.len());
            if peak.blocks > MAX_BLOCKS {
                let max = MAX_BLOCKS * BLOCK;
                return Err(format!(
                    "{name}:{line}: the files take more than {max} bytes"
                ));
            }
        }
        Ok((digest, peak))
    }
}

impl Files for Model {
    fn call(
        &mut self,
        operation: Operation,
        path: &str,
        offset: usize,
        data: &mut [u8; BLOCK],
        length: usize,
    ) -> Result<usize, Refusal> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let Some((name, above)) = names.split_last() else {
            return Err(Refusal::NotFound);
        };
        let path_of = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("/{name}"))
                .collect::<String>()
        };
        for length in 1..names.len() {
            match self.tree.get(&path_of(&names[..length])) {
                None => return Err(Refusal::NotFound),
                Some(Some(_)) => return Err(Refusal::NotADirectory),
                Some(None) => {}
            }
        }
        let (path, above) = (path_of(&names), path_of(above));
        let there = self.tree.contains_key(&path);
        let is_file = self.tree.get(&path).is_some_and(Option::is_some);
        let makes = matches!(operation, Operation::MakeDirectory | Operation::Create);
        if !there && !makes {
            return Err(Refusal::NotFound);
        }
        let siblings = self.names.entry(above.clone()).or_default();
        match operation {
            Operation::MakeDirectory | Operation::Create => {
                let content = (operation == Operation::Create).then(Vec::new);
                if there && !(is_file && content.is_some()) {
                    return Err(Refusal::Exists);
                }
                if !there {
                    siblings.push(name.to_string());
                }
                self.tree.insert(path, content);
                Ok(0)
            }
            Operation::Remove => {
                if self.names.get(&path).is_some_and(|names| !names.is_empty()) {
                    return Err(Refusal::NotEmpty);
                }
                let siblings = self.names.entry(above).or_default();
                if let Some(at) = siblings.iter().position(|sibling| sibling == name) {
                    siblings.swap_remove(at);
                }
                self.tree.remove(&path);
                Ok(0)
            }
            Operation::Rename => {
                let to = String::from_utf8_lossy(&data[..length]).into_owned();
                let target = format!("{above}/{to}");
                if self.tree.contains_key(&target) {
                    return Err(Refusal::Exists);
                }
                for sibling in siblings.iter_mut().filter(|sibling| *sibling == name) {
                    *sibling = to.clone();
                }
                let is_below = |key: &String| {
                    key.strip_prefix(&path)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let moved: Vec<_> = self
                    .tree
                    .keys()
                    .filter(|key| is_below(key))
                    .cloned()
                    .collect();
                for key in moved {
                    let now = format!("{target}{}", &key[path.len()..]);
                    if let Some(content) = self.tree.remove(&key) {
                        self.tree.insert(now.clone(), content);
                    }
                    if let Some(names) = self.names.remove(&key) {
                        self.names.insert(now, names);
                    }
                }
                Ok(length)
            }
            Operation::Entry if is_file => Err(Refusal::NotADirectory),
            Operation::Entry => {
                let entry = self.names.get(&path).and_then(|names| names.get(offset));
                let entry = entry.map_or("", String::as_str).as_bytes();
                data[..entry.len()].copy_from_slice(entry);
                Ok(entry.len())
            }
            Operation::Read | Operation::Append => {
                let Some(Some(content)) = self.tree.get_mut(&path) else {
                    return Err(Refusal::IsADirectory);
                };
                if operation == Operation::Append {
                    content.extend_from_slice(&data[..length]);
                    return Ok(length);
                }
                let part = content.get(offset..).unwrap_or(&[]);
                let part = &part[..part.len().min(BLOCK)];
                data[..part.len()].copy_from_slice(part);
                Ok(part.len())
            }
        }
    }
}
