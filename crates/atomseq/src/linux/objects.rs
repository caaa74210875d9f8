//! The loaded objects of this process: the program, its shared objects, and the notes each carries.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

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
    /// An address in each of its segments. Where there are gaps between these, the C library has a
    /// record of each.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + use<> {
        let bias = self.bias;
        self.headers()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(move |header| bias.wrapping_add(header.p_vaddr as usize))
    }

    /// The notes of this kind, each by its description.
    pub fn notes(&self, kind: &'static NoteKind) -> impl Iterator<Item = &'static [u8]> + use<> {
        let bias = self.bias;
        let object = *self;
        let is_loaded = move |note: &Header| {
            let holds = |part: Header| {
                let offset = note.p_vaddr.wrapping_sub(part.p_vaddr);
                let rest = part.p_filesz.checked_sub(offset);
                part.p_type == libc::PT_LOAD && rest.is_some_and(|rest| rest >= note.p_memsz)
            };
            object.headers().any(holds)
        };
        let is_note = move |header: &Header| header.p_type == libc::PT_NOTE && is_loaded(header);
        self.headers().filter(is_note).flat_map(move |header| {
            let start = bias.wrapping_add(header.p_vaddr as usize) as *const u8;
            // SAFETY: the dynamic linker mapped this segment; objects that hold sequences are
            // never unloaded (`docs::limitations`), and no code writes to notes.
            kind.find(unsafe { core::slice::from_raw_parts(start, header.p_memsz as usize) })
        })
    }

    /// Does one of its segments, which may be read and executed, hold all of this?
    pub fn has_code(&self, place: core::ops::Range<usize>) -> bool {
        self.headers().any(|part| {
            let start = self.bias.wrapping_add(part.p_vaddr as usize);
            let end = start.saturating_add(part.p_filesz as usize);
            part.p_type == libc::PT_LOAD
                && part.p_flags & (libc::PF_R | libc::PF_X) == libc::PF_R | libc::PF_X
                && start <= place.start
                && place.end <= end
        })
    }

    /// How far a note was moved since this object was linked, if by its own place the linker's
    /// `__ehdr_start` is at `beginning`. `None`: there is no way to know.
    pub fn moved(&self, beginning: usize) -> Option<isize> {
        let is_first = |part: &Header| part.p_type == libc::PT_LOAD && part.p_offset == 0;
        // Without its own headers in memory, an object has no such symbol.
        let Some(first) = self.headers().find(is_first) else {
            return Some(0);
        };
        let now = self.bias.wrapping_add(first.p_vaddr as usize);
        let moved = now.wrapping_sub(beginning) as isize;
        // What makes room in a program of fixed addresses moves its beginning.
        (moved == 0 || first.p_vaddr == 0).then_some(moved)
    }

    /// Does [`object`] find these headers by this identity of the object's?
    pub fn is_found_by(&self, identity: Identity) -> bool {
        let begins = |part: Header| {
            let start = self.bias.wrapping_add(part.p_vaddr as usize);
            part.p_type == libc::PT_LOAD
                && part.p_offset == 0
                && part.p_flags & libc::PF_R != 0
                && start == identity.start
        };
        self.headers().any(begins)
            && object(identity).is_some_and(|found| found.headers == self.headers)
    }

    fn headers(&self) -> impl Iterator<Item = Header> + use<> {
        let headers = self.headers;
        // SAFETY: there are `count` of them, mapped as long as the object is.
        (0..self.count).map(move |index| unsafe { headers.add(index).read_unaligned() })
    }
}

/// What notes begin with, and how long they are.
pub struct NoteKind {
    /// The length of the name and its zeros, a multiple of four; the length of the description; the
    /// type.
    pub head: [u32; 3],
    /// The name and its zeros.
    pub name: &'static [u8],
}

impl NoteKind {
    /// The descriptions of such notes in a segment. They are looked for at every multiple of four,
    /// for notes cannot be walked everywhere: those whose lengths are multiples of four alone may
    /// be in a segment, a linker script's, whose alignment is eight.
    fn find(&'static self, segment: &'static [u8]) -> impl Iterator<Item = &'static [u8]> {
        let NoteKind { head, name } = self;
        let begin = size_of_val(head) + name.len();
        let word = |note: &[u8], index: usize| note[4 * index..].first_chunk().copied();
        segment
            .windows(begin + head[1] as usize)
            .step_by(4)
            .filter(move |note| {
                (0..3).all(|index| word(note, index) == Some(head[index].to_ne_bytes()))
                    && note[size_of_val(head)..begin] == **name
            })
            .map(move |note| &note[begin..])
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

/// Looks for `_dl_find_object`, which glibc has had since 2.35, once. Takes the dynamic linker's
/// lock.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub fn look_finder_up() {
    static IS_LOOKED_UP: AtomicBool = AtomicBool::new(false);
    // Acquire: pairs with the Release below, so that this thread finds what was found.
    if IS_LOOKED_UP.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: looks a name up.
    let finder = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    // Release: pairs with the Acquire in `containing`.
    FINDER.store(finder, Ordering::Release);
    IS_LOOKED_UP.store(true, Ordering::Release);
}

/// A static program loads no objects, and musl has nothing of the kind.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
pub fn look_finder_up() {}

/// Does [`containing`] tell?
pub fn is_finder_known() -> bool {
    // Acquire: as in `containing`.
    !FINDER.load(Ordering::Acquire).is_null()
}

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

const SMALLEST_PAGE: usize = 4096;

/// The object at these addresses, by the headers it was loaded with. Async-signal-safe.
pub fn object(identity: Identity) -> Option<Object> {
    let length = identity.end.checked_sub(identity.start)?;
    if length < size_of::<libc::Elf64_Ehdr>() {
        return None;
    }
    // SAFETY: the dynamic linker has mapped the first page of the file, and an ELF header fits.
    let header = unsafe { (identity.start as *const libc::Elf64_Ehdr).read_unaligned() };
    if header.e_ident[..4] != *b"\x7fELF" || usize::from(header.e_phentsize) != size_of::<Header>()
    {
        return None;
    }
    // Headers may be anywhere in the file; on its first page they are where the file is mapped.
    let end = header.e_phoff as usize + usize::from(header.e_phnum) * size_of::<Header>();
    if end > length.min(SMALLEST_PAGE) {
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

#[cfg(test)]
mod tests {
    use super::*;

    static KIND: NoteKind = NoteKind {
        head: [12, 8, 3],
        name: b"notes of us\0",
    };

    fn note(head: [u32; 3], name: &[u8], description: &[u8]) -> Vec<u8> {
        let head = head.map(u32::to_ne_bytes).concat();
        [&head, name, description].concat()
    }

    fn found(segment: Vec<u8>) -> Vec<&'static [u8]> {
        KIND.find(segment.leak()).collect()
    }

    /// A file whose headers are at its end, which may be mapped at another offset or not at all.
    #[test]
    fn headers_are_trusted_on_the_first_page_only() {
        let object_with_headers_at = |offset: u64| {
            let file = vec![0u64; 4 * SMALLEST_PAGE / 8].leak();
            let start = file.as_mut_ptr() as usize;
            // SAFETY: zeros are a header of each kind.
            let mut header: libc::Elf64_Ehdr = unsafe { core::mem::zeroed() };
            header.e_ident[..4].copy_from_slice(b"\x7fELF");
            header.e_phentsize = size_of::<Header>() as u16;
            header.e_phnum = 1;
            header.e_phoff = offset;
            // SAFETY: as above.
            let mut part: Header = unsafe { core::mem::zeroed() };
            part.p_type = libc::PT_LOAD;
            // SAFETY: places in the file's memory.
            unsafe {
                (start as *mut libc::Elf64_Ehdr).write(header);
                ((start + offset as usize) as *mut Header).write(part);
            }
            object(Identity {
                start,
                end: start + 4 * SMALLEST_PAGE,
                record: 0,
            })
        };
        assert!(object_with_headers_at(64).is_some());
        assert!(object_with_headers_at(2 * SMALLEST_PAGE as u64).is_none());
    }

    /// Notes that no part of the file's memory holds are not looked at.
    #[test]
    fn notes_are_in_memory() {
        let segment = note(KIND.head, KIND.name, b"12345678").leak();
        let (start, length) = (segment.as_ptr() as u64, segment.len() as u64);
        let notes = |loaded: u64| {
            // SAFETY: zeros are a header.
            let mut headers: [Header; 2] = unsafe { core::mem::zeroed() };
            headers[0].p_type = libc::PT_LOAD;
            headers[1].p_type = libc::PT_NOTE;
            for header in &mut headers {
                header.p_vaddr = start;
                header.p_memsz = length;
                header.p_filesz = loaded;
            }
            let headers = Box::leak(Box::new(headers));
            let object = Object {
                bias: 0,
                headers: headers.as_ptr(),
                count: 2,
            };
            object.notes(&KIND).count()
        };
        assert_eq!((notes(length), notes(length - 1)), (1, 0));
    }

    /// Between notes of any length, at either alignment.
    #[test]
    fn notes_are_found_among_others_of_any_length() {
        let own = |description: &[u8; 8]| note(KIND.head, KIND.name, description);
        for lengths in 0..64_usize {
            let other =
                |bytes: usize| note([4, 4 * bytes as u32, 1], b"GNU\0", &vec![7; 4 * bytes]);
            let mut segment = [
                other(lengths % 8),
                own(b"the 1st "),
                other(lengths / 8),
                own(b"the 2nd "),
            ]
            .concat();
            segment.extend([0; 4]);
            assert_eq!(found(segment), [b"the 1st ", b"the 2nd "], "{lengths}");
        }
    }

    #[test]
    fn other_notes_are_not_taken_for_these() {
        assert_eq!(found(note(KIND.head, KIND.name, &[1; 8])), [[1; 8]]);
        for head in [[8, 8, 3], [12, 4, 3], [12, 8, 4]] {
            assert!(found(note(head, KIND.name, &[1; 8])).is_empty(), "{head:?}");
        }
        assert!(found(note(KIND.head, b"notes of all", &[1; 8])).is_empty());
        assert!(
            found(note(KIND.head, KIND.name, &[1; 7])).is_empty(),
            "it is cut off"
        );
        assert!(found(Vec::new()).is_empty());
    }
}
