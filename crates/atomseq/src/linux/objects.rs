//! The loaded objects of this process: the program, its shared objects, and the notes each carries.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A loaded object's addresses and the dynamic linker's own record of it: equal identities are the
/// same object, unless it was unloaded in between and loaded again to the same place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// The first address.
    pub start: usize,
    /// The address after the last.
    pub end: usize,
    record: usize,
}

/// An object's program headers.
#[derive(Clone, Copy)]
pub struct Object {
    bias: usize,
    headers: *const Header,
    count: usize,
}

type Header = libc::Elf64_Phdr;

impl Object {
    /// An address in each of its segments. Where there are gaps between these, the C library has a record of each.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + use<> {
        let bias = self.bias;
        self.headers()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(move |header| bias.wrapping_add(header.p_vaddr as usize))
    }

    /// The notes of this name (with its final zero) and type, each by its description.
    pub fn notes(
        &self,
        name: &'static CStr,
        kind: u32,
    ) -> impl Iterator<Item = &'static [u8]> + use<> {
        let bias = self.bias;
        self.headers()
            .filter(|header| header.p_type == libc::PT_NOTE)
            .flat_map(move |header| {
                let start = bias.wrapping_add(header.p_vaddr as usize) as *const u8;
                Notes {
                    // SAFETY: the dynamic linker mapped this segment; objects that hold sequences are
                    // never unloaded (`docs::limitations`), and nobody writes to notes.
                    rest: unsafe { core::slice::from_raw_parts(start, header.p_memsz as usize) },
                    align: header.p_align.max(4) as usize,
                }
            })
            .filter(move |note| note.kind == kind && note.name == name.to_bytes_with_nul())
            .map(|note| note.description)
    }

    fn headers(&self) -> impl Iterator<Item = Header> + use<> {
        let headers = self.headers;
        // SAFETY: there are `count` of them, mapped as long as the object is.
        (0..self.count).map(move |index| unsafe { headers.add(index).read_unaligned() })
    }
}

struct Notes {
    rest: &'static [u8],
    align: usize,
}

struct Note {
    name: &'static [u8],
    kind: u32,
    description: &'static [u8],
}

impl Iterator for Notes {
    type Item = Note;

    /// `None` at the end, and at whatever is no note.
    fn next(&mut self) -> Option<Note> {
        let word = |at: usize| {
            let bytes = self.rest.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let (name, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let begin = (12 + name).next_multiple_of(self.align);
        let end = begin.checked_add(description)?;
        let note = Note {
            name: self.rest.get(12..12 + name)?,
            kind,
            description: self.rest.get(begin..end)?,
        };
        let next = end.next_multiple_of(self.align).min(self.rest.len());
        self.rest = &self.rest[next..];
        Some(note)
    }
}

/// Calls with each loaded object. Takes the dynamic linker's lock: not for signal handlers.
pub fn each(mut with: impl FnMut(Object)) {
    unsafe extern "C" fn visit<F: FnMut(Object)>(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        with: *mut c_void,
    ) -> c_int {
        // SAFETY: the C library passes a valid record, and what `each` gave it.
        let (info, with) = unsafe { (&*info, &mut *with.cast::<F>()) };
        with(Object {
            bias: info.dlpi_addr as usize,
            headers: info.dlpi_phdr,
            count: usize::from(info.dlpi_phnum),
        });
        0
    }
    fn visitor<F: FnMut(Object)>(
        _: &F,
    ) -> unsafe extern "C" fn(*mut libc::dl_phdr_info, libc::size_t, *mut c_void) -> c_int {
        visit::<F>
    }
    let visitor = visitor(&with);
    // SAFETY: the visitor matches the closure's type, and the closure outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visitor), (&raw mut with).cast()) };
}

/// glibc's record of a found object; the words it reserves, and more.
type Found = [usize; 32];
type Finder = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// `_dl_find_object`, once it was looked up and is there.
static FINDER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Looks for `_dl_find_object`, which glibc has had since 2.35. Takes the dynamic linker's lock.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub fn look_finder_up() {
    // SAFETY: looks a name up.
    let finder = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    // Release: pairs with the Acquire in `containing`.
    FINDER.store(finder, Ordering::Release);
}

/// A static program loads no objects, and musl has nothing of the kind.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
pub fn look_finder_up() {}

/// What holds an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// This object.
    Object(Identity),
    /// No loaded object.
    Nothing,
    /// There is no way to tell from a signal handler.
    Unknown,
}

/// The object that holds an address. Async-signal-safe; logarithmic in the number of objects.
pub fn containing(address: usize) -> Holder {
    // Acquire: pairs with the Release in `look_finder_up`.
    let finder = FINDER.load(Ordering::Acquire);
    if finder.is_null() {
        return Holder::Unknown;
    }
    let mut found = MaybeUninit::<Found>::zeroed();
    // SAFETY: the function has this type, and fills in a record that is smaller than `Found`.
    let (result, found) = unsafe {
        let finder: Finder = core::mem::transmute::<*mut c_void, Finder>(finder);
        (
            finder(address as *mut c_void, found.as_mut_ptr()),
            found.assume_init(),
        )
    };
    match result {
        0 => Holder::Object(Identity {
            start: found[1],
            end: found[2],
            record: found[3],
        }),
        _ => Holder::Nothing,
    }
}

/// The object at these addresses, by the headers it was loaded with. Async-signal-safe.
pub fn object(identity: Identity) -> Option<Object> {
    let length = identity.end.checked_sub(identity.start)?;
    if length < size_of::<libc::Elf64_Ehdr>() {
        return None;
    }
    // SAFETY: the dynamic linker has mapped the first page, and an ELF header fits.
    let header = unsafe { (identity.start as *const libc::Elf64_Ehdr).read_unaligned() };
    if header.e_ident[..4] != *b"\x7fELF"
        || usize::from(header.e_phentsize) != size_of::<Header>()
        || header.e_phoff as usize + usize::from(header.e_phnum) * size_of::<Header>() > length
    {
        return None;
    }
    let mut object = Object {
        bias: 0,
        headers: (identity.start + header.e_phoff as usize) as *const Header,
        count: usize::from(header.e_phnum),
    };
    let first = object
        .headers()
        .find(|header| header.p_type == libc::PT_LOAD)?;
    // The headers are where the file begins; what is loaded there says how far it was moved.
    let begin = (first.p_vaddr as usize).checked_sub(first.p_offset as usize)?;
    object.bias = identity.start.wrapping_sub(begin);
    Some(object)
}
