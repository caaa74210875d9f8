//! From program counters to names, after the run: the mapped file, and the symbols in it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use super::image::{Image, Line};
use super::maps::{self, Mapping};

/// The code at a program counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The function's name, or the object and an address if it has none.
    pub function: String,
    /// Whether `function` is a name.
    pub named: bool,
    /// The executable, shared object or other mapping.
    pub object: String,
}

/// Names the code of this process.
pub struct Names {
    mappings: Vec<Mapping>,
    /// Keyed by the path or name of the mapping; `None` if it could not be read.
    images: HashMap<String, Option<Rc<Image>>>,
    /// A sentence for each that could not be read.
    unreadable: Vec<String>,
}

impl Names {
    /// Reads the current mappings. Code that was unmapped before has no name.
    pub fn new() -> Names {
        let (mappings, unreadable) = match maps::read() {
            Ok(mappings) => (mappings, Vec::new()),
            Err(error) => (
                Vec::new(),
                vec![format!(
                    "/proc/self/maps cannot be read, so no function has a name: {error}"
                )],
            ),
        };
        Names {
            mappings,
            images: HashMap::new(),
            unreadable,
        }
    }

    /// Returns the code at a program counter.
    pub fn place(&mut self, program_counter: usize) -> Place {
        let Some(mapping) = maps::find(&self.mappings, program_counter).cloned() else {
            return Place {
                function: format!("{program_counter:#x}"),
                named: false,
                object: "not mapped".to_owned(),
            };
        };
        let object = mapping.name();
        let offset = (program_counter - mapping.start) as u64 + mapping.offset;
        let image = self.image(&mapping);
        let known = image.and_then(|image| Some((image.address(offset)?, image)));
        let name = known
            .as_ref()
            .and_then(|(address, image)| image.function(*address));
        let named = name.is_some();
        let function = name.unwrap_or_else(|| {
            // Samples in one function without a name still count as one function.
            let nameless =
                known.map(|(address, image)| image.beginning(address).unwrap_or(address));
            format!("{object}+{:#x}", nameless.unwrap_or(offset))
        });
        Place {
            function,
            named,
            object,
        }
    }

    /// Returns the innermost source line at a program counter, if there is debugging information.
    pub fn line(&mut self, program_counter: usize) -> Option<Line> {
        let mapping = maps::find(&self.mappings, program_counter)?.clone();
        let offset = (program_counter - mapping.start) as u64 + mapping.offset;
        let image = self.image(&mapping)?;
        image.line(image.address(offset)?)
    }

    /// Returns the abort addresses of all restartable sections, and where each section starts, for
    /// the objects that contain these program counters.
    pub fn restarts(
        &mut self,
        program_counters: impl Iterator<Item = usize>,
    ) -> HashMap<usize, usize> {
        let mut objects: HashMap<String, Mapping> = HashMap::new();
        for program_counter in program_counters {
            if let Some(mapping) = maps::find(&self.mappings, program_counter) {
                objects
                    .entry(key(mapping))
                    .or_insert_with(|| mapping.clone());
            }
        }
        let mut restarts = HashMap::new();
        for mapping in objects.values() {
            if let Some(image) = self.image(mapping) {
                restarts.extend(restarts_of(mapping, &image).unwrap_or_default());
            }
        }
        restarts
    }

    /// Returns a sentence for each file that could not be read.
    pub fn into_unreadable(self) -> Vec<String> {
        self.unreadable
    }

    fn image(&mut self, mapping: &Mapping) -> Option<Rc<Image>> {
        let key = key(mapping);
        if let Some(image) = self.images.get(&key) {
            return image.clone();
        }
        let parsed = data(mapping).and_then(|data| match data {
            Some(data) => Image::parse(&data).map(Some).map_err(io::Error::other),
            None => Ok(None),
        });
        let image = parsed.unwrap_or_else(|error| {
            let name = &mapping.path;
            self.unreadable.push(format!(
                "{name:?} cannot be read, so its functions have no names: {error}"
            ));
            None
        });
        let image = image.map(Rc::new);
        self.images.insert(key, image.clone());
        image
    }
}

fn key(mapping: &Mapping) -> String {
    mapping.path.to_string_lossy().into_owned()
}

/// Reads the mapped file; `None` if the mapping has no file.
fn data(mapping: &Mapping) -> io::Result<Option<Vec<u8>>> {
    // The kernel's own shared object is only in memory.
    if mapping.path == Path::new("[vdso]") {
        return memory(mapping.start, mapping.end - mapping.start).map(Some);
    }
    if !mapping.path.is_absolute() {
        return Ok(None);
    }
    if !mapping.deleted {
        return fs::read(&mapping.path).map(Some);
    }
    // The file of this very program is available even if it was rebuilt meanwhile.
    let this = fs::read_link("/proc/self/exe")?;
    let mut mapped = mapping.path.clone().into_os_string();
    mapped.push(" (deleted)");
    match this.as_os_str() == mapped {
        true => fs::read("/proc/self/exe").map(Some),
        false => Err(io::Error::other(
            "it was removed or replaced after it was mapped",
        )),
    }
}

/// Reads memory of this process.
fn memory(address: usize, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, address as u64)?;
    Ok(bytes)
}

/// Reads the descriptors, `struct rseq_cs` of 32 bytes: two 32-bit words, then start, length and
/// abort address. Returns start by abort address.
fn restarts_of(mapping: &Mapping, image: &Image) -> Option<HashMap<usize, usize>> {
    let (address, length) = image.descriptors()?;
    let moved = (mapping.start as u64).wrapping_sub(image.address(mapping.offset)?);
    let bytes = memory(moved.wrapping_add(address) as usize, length).ok()?;
    let word = |descriptor: &[u8], at: usize| {
        let bytes: [u8; 8] = descriptor[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes) as usize
    };
    Some(
        bytes
            .chunks_exact(32)
            .map(|descriptor| (word(descriptor, 24), word(descriptor, 8)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_this_file() -> u32 {
        line!()
    }

    #[test]
    fn the_programs_own_functions_have_names_and_lines() {
        let address = a_function_of_this_file as fn() -> u32 as usize;
        let mut names = Names::new();
        let place = names.place(address);
        assert!(
            place.named && place.function.ends_with("::a_function_of_this_file"),
            "{place:?}"
        );
        let exe = std::env::current_exe().unwrap();
        assert_eq!(place.object, exe.file_name().unwrap().to_str().unwrap());
        let line = names.line(address).unwrap();
        assert!(line.file.ends_with("src/names.rs"), "{line:?}");
        assert!(
            line.line.abs_diff(a_function_of_this_file()) <= 2,
            "{line:?}"
        );
        // The unwind tables have the same start as the symbol.
        let mapping = maps::find(&names.mappings, address).unwrap().clone();
        let image = names.image(&mapping).unwrap();
        let own = image
            .address((address - mapping.start) as u64 + mapping.offset)
            .unwrap();
        assert_eq!(image.beginning(own + 1), Some(own));
        assert_eq!(names.into_unreadable(), Vec::<String>::new());
    }

    #[test]
    fn exports_of_shared_libraries_have_names() {
        let mut names = Names::new();
        // The address in the library itself, not that of a stub in this program.
        // SAFETY: looks up a symbol; the name ends in zero.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, c"getppid".as_ptr()) } as usize;
        let place = names.place(address);
        assert!(
            place.named && place.function.contains("getppid"),
            "{place:?}"
        );
    }

    #[test]
    fn the_kernels_own_object_has_names_too() {
        let mut names = Names::new();
        let vdso = names
            .mappings
            .iter()
            .find(|mapping| mapping.name() == "[vdso]")
            .cloned();
        let image = names.image(&vdso.unwrap()).unwrap();
        assert!((0..0x4000).any(|address| {
            image
                .function(address)
                .is_some_and(|name| name.contains("gettime"))
        }));
    }

    #[test]
    fn code_without_a_name_is_shown_by_object_and_address() {
        let mut names = Names::new();
        let nowhere = names.place(16);
        assert_eq!((nowhere.function.as_str(), nowhere.named), ("0x10", false));
        let on_the_stack = 0u8;
        let place = names.place(&raw const on_the_stack as usize);
        assert!(
            !place.named && place.function.starts_with(&format!("{}+0x", place.object)),
            "{place:?}"
        );
    }

    #[test]
    fn sections_are_found_by_their_abort_address() {
        // Links the sections of the table, at least.
        super::super::samples::Samples::new(1).unwrap().record(1);
        let mut names = Names::new();
        let here = a_function_of_this_file as fn() -> u32 as usize;
        let restarts = names.restarts([here].into_iter());
        if !atomseq::status().is_active() {
            return;
        }
        assert!(restarts.len() > 10, "{}", restarts.len());
        for (abort, start) in restarts {
            assert!(names.place(start).object == names.place(abort).object);
            assert!(names.place(start).named, "{start:#x}");
        }
    }
}
