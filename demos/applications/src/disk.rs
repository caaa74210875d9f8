//! A file system in memory: a table of inodes, a table of blocks, and a lock around each of them.
//! Directories are files of entries. Nothing is allocated once it is made.
//!
//! A path is walked hand over hand: a directory stays locked until the next one is locked. So an
//! inode cannot be freed between the search for its entry and its lock. Locks are acquired
//! downwards: an inode before its blocks, and those before the list of free inodes and blocks.

use std::collections::BTreeMap;
use std::fmt;

use super::package::{Guard, Lock, Package, Thread};

/// The size of a block, in bytes.
pub const BLOCK: usize = 1024;

/// The maximum length of a name, in bytes.
pub const NAME: usize = 27;

/// An entry of a directory: a name, padded with zeros, and an inode's number.
const ENTRY: usize = NAME + 5;

const ROOT: u32 = 0;

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    NoSpace,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NotFound => "there is no such file or directory",
            Refusal::Exists => "the name exists already",
            Refusal::NotADirectory => "a part of the path is not a directory",
            Refusal::IsADirectory => "that is a directory",
            Refusal::NotEmpty => "the directory is not empty",
            Refusal::NoSpace => "the disk is full",
        })
    }
}

/// The operations of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Operation {
    /// Makes a directory.
    #[default]
    MakeDirectory,
    /// Makes a file, or empties an existing one.
    Create,
    /// Removes a file or an empty directory.
    Remove,
    /// Gives a file or directory another name in its directory. The data is the name.
    Rename,
    /// Reads up to a block from an offset.
    Read,
    /// Appends the data.
    Append,
    /// Reads the name of a directory's entry, or zero bytes after the last one.
    Entry,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    File,
    Directory,
}

struct Inode {
    kind: Kind,
    size: usize,
    blocks: Vec<u32>,
}

struct Free {
    inodes: Vec<u32>,
    blocks: Vec<u32>,
}

/// The size of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    /// Files and directories, the root included.
    pub inodes: usize,
    pub blocks: usize,
    /// The blocks of the largest file or directory.
    pub longest: usize,
}

/// The file system.
pub struct Disk<P: Package> {
    inodes: Vec<Lock<P, Inode>>,
    blocks: Vec<Lock<P, [u8; BLOCK]>>,
    free: Lock<P, Free>,
}

/// A directory, a place for a name in it, and that name.
type Parent<'a, 'n, P> = (Guard<'a, P, Inode>, &'n [u8]);

impl<P: Package> Disk<P> {
    /// Makes an empty disk.
    pub fn new(geometry: Geometry) -> Self {
        let inode = |number| {
            let kind = if number == 0 {
                Kind::Directory
            } else {
                Kind::File
            };
            let blocks = Vec::with_capacity(geometry.longest);
            Lock::<P, _>::new(Inode {
                kind,
                size: 0,
                blocks,
            })
        };
        let block = |_| Lock::<P, _>::new([0; BLOCK]);
        Disk {
            inodes: (0..geometry.inodes).map(inode).collect(),
            blocks: (0..geometry.blocks).map(block).collect(),
            free: Lock::<P, _>::new(Free {
                inodes: (1..geometry.inodes as u32).rev().collect(),
                blocks: (0..geometry.blocks as u32).rev().collect(),
            }),
        }
    }

    /// Performs an operation. Returns the number of bytes that were read or appended.
    pub fn operate(
        &self,
        thread: &Thread<'_, P>,
        operation: Operation,
        path: &[u8],
        offset: usize,
        data: &mut [u8; BLOCK],
        length: usize,
    ) -> Result<usize, Refusal> {
        let data = &mut data[..];
        match operation {
            Operation::MakeDirectory => self.make(thread, path, Kind::Directory),
            Operation::Create => self.make(thread, path, Kind::File),
            Operation::Remove => self.remove(thread, path),
            Operation::Rename => self.rename(thread, path, &data[..length]),
            Operation::Read => {
                let file = self.open(thread, path, Kind::File)?;
                Ok(self.read(thread, &file, offset, data))
            }
            Operation::Append => {
                let mut file = self.open(thread, path, Kind::File)?;
                let end = file.size;
                self.write(thread, &mut file, end, &data[..length])
            }
            Operation::Entry => {
                let directory = self.open(thread, path, Kind::Directory)?;
                let mut entry = [0; ENTRY];
                let read = self.read(thread, &directory, offset * ENTRY, &mut entry);
                let name = name_of(&entry);
                data[..name.len()].copy_from_slice(name);
                Ok(if read == 0 { 0 } else { name.len() })
            }
        }
    }

    fn make(&self, thread: &Thread<'_, P>, path: &[u8], kind: Kind) -> Result<usize, Refusal> {
        let (mut parent, name) = self.parent(thread, path)?;
        if let Ok((_, number)) = self.find(thread, &parent, name) {
            let mut file = thread.lock(&self.inodes[number as usize]);
            return match kind == Kind::File && file.kind == Kind::File {
                true => {
                    self.shorten(thread, &mut file, 0);
                    Ok(0)
                }
                false => Err(Refusal::Exists),
            };
        }
        let number = thread.lock(&self.free).inodes.pop();
        let number = number.ok_or(Refusal::NoSpace)?;
        thread.lock(&self.inodes[number as usize]).kind = kind;
        let mut entry = [0; ENTRY];
        entry[..name.len()].copy_from_slice(name);
        entry[NAME + 1..].copy_from_slice(&number.to_ne_bytes());
        let end = parent.size;
        let written = self.write(thread, &mut parent, end, &entry);
        if written.is_err() {
            thread.lock(&self.free).inodes.push(number);
        }
        written.map(|_| 0)
    }

    fn remove(&self, thread: &Thread<'_, P>, path: &[u8]) -> Result<usize, Refusal> {
        let (mut parent, name) = self.parent(thread, path)?;
        let (place, number) = self.find(thread, &parent, name)?;
        let mut inode = thread.lock(&self.inodes[number as usize]);
        if inode.kind == Kind::Directory && inode.size > 0 {
            return Err(Refusal::NotEmpty);
        }
        self.shorten(thread, &mut inode, 0);
        drop(inode);
        // The last entry takes the place.
        let mut last = [0; ENTRY];
        let end = parent.size - ENTRY;
        self.read(thread, &parent, end, &mut last);
        self.write(thread, &mut parent, place, &last)?;
        self.shorten(thread, &mut parent, end);
        thread.lock(&self.free).inodes.push(number);
        Ok(0)
    }

    fn rename(&self, thread: &Thread<'_, P>, path: &[u8], to: &[u8]) -> Result<usize, Refusal> {
        let (mut parent, name) = self.parent(thread, path)?;
        let (place, number) = self.find(thread, &parent, name)?;
        if self.find(thread, &parent, to).is_ok() {
            return Err(Refusal::Exists);
        }
        let mut entry = [0; ENTRY];
        entry[..to.len()].copy_from_slice(to);
        entry[NAME + 1..].copy_from_slice(&number.to_ne_bytes());
        self.write(thread, &mut parent, place, &entry)?;
        Ok(to.len())
    }

    /// Locks the directory above a path, and returns the path's last name.
    fn parent<'a, 'n>(
        &'a self,
        thread: &Thread<'_, P>,
        path: &'n [u8],
    ) -> Result<Parent<'a, 'n, P>, Refusal> {
        let mut directory = thread.lock(&self.inodes[ROOT as usize]);
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty());
        let mut name = names.next().unwrap_or(b"/");
        for next in names {
            let (_, number) = self.find(thread, &directory, name)?;
            let below = thread.lock(&self.inodes[number as usize]);
            if below.kind != Kind::Directory {
                return Err(Refusal::NotADirectory);
            }
            directory = below;
            name = next;
        }
        Ok((directory, name))
    }

    /// Locks a file or directory.
    fn open(
        &self,
        thread: &Thread<'_, P>,
        path: &[u8],
        kind: Kind,
    ) -> Result<Guard<'_, P, Inode>, Refusal> {
        let (parent, name) = self.parent(thread, path)?;
        let inode = match name {
            b"/" => parent,
            name => {
                let (_, number) = self.find(thread, &parent, name)?;
                thread.lock(&self.inodes[number as usize])
            }
        };
        match (inode.kind == kind, kind) {
            (true, _) => Ok(inode),
            (false, Kind::File) => Err(Refusal::IsADirectory),
            (false, Kind::Directory) => Err(Refusal::NotADirectory),
        }
    }

    /// Returns the offset of a name's entry in a directory, and the number of its inode.
    fn find(
        &self,
        thread: &Thread<'_, P>,
        directory: &Inode,
        name: &[u8],
    ) -> Result<(usize, u32), Refusal> {
        for (number, block) in directory.blocks.iter().enumerate() {
            let block = thread.lock(&self.blocks[*block as usize]);
            let start = number * BLOCK;
            let filled = (directory.size - start).min(BLOCK);
            for (at, entry) in block[..filled].chunks_exact(ENTRY).enumerate() {
                if name_of(entry) == name {
                    let bytes = [
                        entry[NAME + 1],
                        entry[NAME + 2],
                        entry[NAME + 3],
                        entry[NAME + 4],
                    ];
                    return Ok((start + at * ENTRY, u32::from_ne_bytes(bytes)));
                }
            }
        }
        Err(Refusal::NotFound)
    }

    /// Reads from an offset until the buffer is full or the file ends. Returns the number of bytes.
    fn read(&self, thread: &Thread<'_, P>, file: &Inode, offset: usize, to: &mut [u8]) -> usize {
        let length = to.len().min(file.size.saturating_sub(offset));
        let mut done = 0;
        while done < length {
            let at = (offset + done) % BLOCK;
            let part = (BLOCK - at).min(length - done);
            let block = file.blocks[(offset + done) / BLOCK];
            let block = thread.lock(&self.blocks[block as usize]);
            to[done..done + part].copy_from_slice(&block[at..at + part]);
            done += part;
        }
        length
    }

    /// Writes at an offset up to the end of the file. Changes nothing if there is no space.
    fn write(
        &self,
        thread: &Thread<'_, P>,
        file: &mut Inode,
        offset: usize,
        data: &[u8],
    ) -> Result<usize, Refusal> {
        let size = file.size.max(offset + data.len());
        while file.blocks.len() < size.div_ceil(BLOCK) {
            // A file's list of blocks does not grow.
            let has_room = file.blocks.len() < file.blocks.capacity();
            let block = thread.lock(&self.free).blocks.pop_if(|_| has_room);
            let Some(block) = block else {
                let before = file.size;
                self.shorten(thread, file, before);
                return Err(Refusal::NoSpace);
            };
            file.blocks.push(block);
        }
        let mut done = 0;
        while done < data.len() {
            let at = (offset + done) % BLOCK;
            let part = (BLOCK - at).min(data.len() - done);
            let block = file.blocks[(offset + done) / BLOCK];
            let mut block = thread.lock(&self.blocks[block as usize]);
            block[at..at + part].copy_from_slice(&data[done..done + part]);
            done += part;
        }
        file.size = size;
        Ok(data.len())
    }

    fn shorten(&self, thread: &Thread<'_, P>, file: &mut Inode, size: usize) {
        file.size = size;
        while file.blocks.len() > size.div_ceil(BLOCK) {
            if let Some(block) = file.blocks.pop() {
                thread.lock(&self.free).blocks.push(block);
            }
        }
    }

    /// Returns all files with their contents, and all directories without, by path. The caller is
    /// alone.
    pub fn tree(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let (thread, mut tree) = (Thread::alone(), BTreeMap::new());
        let mut directories = vec![String::new()];
        while let Some(above) = directories.pop() {
            let names = format!("{above}/");
            for number in 0.. {
                let mut name = [0; BLOCK];
                let read = self.operate(
                    &thread,
                    Operation::Entry,
                    names.as_bytes(),
                    number,
                    &mut name,
                    0,
                );
                let Ok(length @ 1..) = read else { break };
                let path = format!("{above}/{}", String::from_utf8_lossy(&name[..length]));
                let file = self.open(&thread, path.as_bytes(), Kind::File).ok();
                let content = file.map(|file| {
                    let mut content = vec![0; file.size];
                    self.read(&thread, &file, 0, &mut content);
                    content
                });
                if content.is_none() {
                    directories.push(path.clone());
                }
                tree.insert(path, content);
            }
        }
        tree
    }
}

/// Returns the name of an entry.
fn name_of(entry: &[u8]) -> &[u8] {
    let end = entry.iter().position(|byte| *byte == 0);
    &entry[..end.unwrap_or(NAME).min(NAME)]
}
