//! The loaded objects of this process (the program and its shared objects), and their notes.

use core::ffi::{c_int, c_void};
#[cfg(any(
    feature = "unstable-internals",
    all(target_env = "gnu", not(target_feature = "crt-static"))
))]
use core::sync::atomic::AtomicBool;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The identity of a loaded object: its addresses and the dynamic linker's record of it. Equal
/// identities mean the same object, unless it was unloaded and loaded again at the same place in
/// between.
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
    /// Iterates over one address in each of the object's segments. If there are gaps between
    /// segments, the C library keeps a record of each.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + use<> {
        let bias = self.bias;
        self.headers()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(move |header| bias.wrapping_add(header.p_vaddr as usize))
    }

    /// Iterates over the descriptions of all notes of this kind.
    pub fn notes(&self, kind: &'static NoteKind) -> Notes {
        Notes {
            object: *self,
            kind,
            headers: 0,
            rest: &[],
        }
    }

    /// Returns whether a loaded segment of the object contains this segment.
    fn is_loaded(&self, segment: &Header) -> bool {
        for index in 0..self.count {
            let part = self.header(index);
            let offset = segment.p_vaddr.wrapping_sub(part.p_vaddr);
            let rest = part.p_filesz.checked_sub(offset);
            if part.p_type == libc::PT_LOAD && rest.is_some_and(|rest| rest >= segment.p_memsz) {
                return true;
            }
        }
        false
    }

    /// Returns whether one readable and executable segment contains the whole range.
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

    /// Returns how far the object was moved since it was linked, if the linker's `__ehdr_start` is
    /// at `beginning` according to the note. `None`: this cannot be determined.
    pub fn moved(&self, beginning: usize) -> Option<isize> {
        let is_first = |part: &Header| part.p_type == libc::PT_LOAD && part.p_offset == 0;
        // An object whose own headers are not in memory has no such symbol.
        let Some(first) = self.headers().find(is_first) else {
            return Some(0);
        };
        let now = self.bias.wrapping_add(first.p_vaddr as usize);
        let moved = now.wrapping_sub(beginning) as isize;
        // A tool that makes room in a program with fixed addresses moves its beginning.
        (moved == 0 || first.p_vaddr == 0).then_some(moved)
    }

    /// Returns whether [`object`] finds these headers from the object's identity.
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

    /// Returns whether the object was linked with `-z nodelete`.
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    fn is_linked_to_stay(&self) -> bool {
        // As ELF defines them; the crate `libc` does not.
        const DT_FLAGS_1: usize = 0x6fff_fffb;
        const DF_1_NODELETE: usize = 8;
        let is_dynamic = |part: &Header| part.p_type == libc::PT_DYNAMIC && self.is_loaded(part);
        self.headers().filter(is_dynamic).any(|part| {
            let start = self.bias.wrapping_add(part.p_vaddr as usize) as *const [usize; 2];
            let count = part.p_memsz as usize / size_of::<[usize; 2]>();
            // SAFETY: `count` entries lie in a loaded segment of the object, which stays loaded
            // while the caller looks at it. The dynamic linker writes to other entries only, and
            // has done so before it lists the object.
            let entry = |index| unsafe { start.add(index).read_unaligned() };
            (0..count)
                .map(entry)
                .take_while(|[tag, _]| *tag != 0)
                .any(|[tag, value]| tag == DT_FLAGS_1 && value & DF_1_NODELETE != 0)
        })
    }

    fn headers(&self) -> impl Iterator<Item = Header> + use<> {
        let object = *self;
        (0..self.count).map(move |index| object.header(index))
    }

    /// Returns the header with this index, which is less than `count`.
    fn header(&self, index: usize) -> Header {
        // SAFETY: the dynamic linker or the ELF header reported `count` headers at this address.
        // They stay mapped while the object is loaded.
        unsafe { self.headers.add(index).read_unaligned() }
    }
}

/// The notes of one kind in an object. Loops rather than adapters of iterators: a signal handler
/// may have little stack, of which adapters take much without optimisation.
pub struct Notes {
    object: Object,
    kind: &'static NoteKind,
    /// The number of headers that were examined.
    headers: usize,
    /// The part of the last header's segment that was not searched yet.
    rest: &'static [u8],
}

impl Iterator for Notes {
    type Item = &'static [u8];

    fn next(&mut self) -> Option<&'static [u8]> {
        loop {
            if let Some(description) = self.kind.find(&mut self.rest) {
                return Some(description);
            }
            if self.headers == self.object.count {
                return None;
            }
            let header = self.object.header(self.headers);
            self.headers += 1;
            if header.p_type == libc::PT_NOTE && self.object.is_loaded(&header) {
                let start = self.object.bias.wrapping_add(header.p_vaddr as usize) as *const u8;
                // SAFETY: the segment is a note inside a loaded segment of the object, checked by
                // `is_loaded`, so the dynamic linker has mapped it. The object stays loaded
                // meanwhile: it is being enumerated, or a signal has interrupted its code. No code
                // writes to notes.
                self.rest = unsafe { core::slice::from_raw_parts(start, header.p_memsz as usize) };
            }
        }
    }
}

/// The fixed start of a kind of note.
pub struct NoteKind {
    /// The length of the padded name, a multiple of four; the length of the description; the type.
    pub head: [u32; 3],
    /// The name and its padding zeros.
    pub name: &'static [u8],
}

impl NoteKind {
    /// The description of the first such note in the rest of a segment, which then begins after the
    /// note's beginning. Notes are looked for at every multiple of four, for they cannot be walked
    /// everywhere: those whose lengths are multiples of four alone may be in a segment, a linker
    /// script's, whose alignment is eight.
    fn find(&self, rest: &mut &'static [u8]) -> Option<&'static [u8]> {
        let begin = size_of_val(&self.head) + self.name.len();
        let end = begin + self.head[1] as usize;
        while rest.len() >= end {
            let note = *rest;
            *rest = &note[4..];
            if self.is_at(note) {
                return Some(&note[begin..end]);
            }
        }
        *rest = &[];
        None
    }

    fn is_at(&self, note: &[u8]) -> bool {
        let NoteKind { head, name } = self;
        for (index, word) in head.iter().enumerate() {
            if note[4 * index..4 * index + 4] != word.to_ne_bytes() {
                return false;
            }
        }
        note[size_of_val(head)..].starts_with(name)
    }
}

/// Calls `with` for each loaded object. Takes the dynamic linker's lock, so it must not be called
/// in a signal handler.
pub fn each(mut with: impl FnMut(Object)) {
    unsafe extern "C" fn visit<F: FnMut(Object)>(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        with: *mut c_void,
    ) -> c_int {
        // SAFETY: the C library passes a valid record, and the pointer that `each` gave it: that of
        // a live `F`, which nothing else uses meanwhile.
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
    // SAFETY: the visitor is instantiated for the closure's type, and the closure outlives the
    // call.
    unsafe { libc::dl_iterate_phdr(Some(visitor), (&raw mut with).cast()) };
}

/// glibc's record of a found object; the words it reserves, and more.
type Found = [usize; FOUND_WORDS];
const FOUND_WORDS: usize = 32;
type Finder = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// The address of `_dl_find_object`, or null if it was not looked up or does not exist.
static FINDER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Looks up `_dl_find_object`, which glibc has had since 2.35, once. Takes the dynamic linker's
/// lock.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub fn look_finder_up() {
    static IS_LOOKED_UP: AtomicBool = AtomicBool::new(false);
    // Acquire: pairs with the Release below, so that this thread sees `FINDER`.
    if IS_LOOKED_UP.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the name is null-terminated; the look-up has no other requirement.
    let finder = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    // Release: the first pairs with the Acquire in `containing`, the second with the Acquire above.
    FINDER.store(finder, Ordering::Release);
    IS_LOOKED_UP.store(true, Ordering::Release);
}

/// Does nothing: a static program loads no objects, and musl lacks the function.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
pub fn look_finder_up() {}

/// Returns whether [`containing`] can answer.
pub fn is_finder_known() -> bool {
    // Acquire: pairs with the Release in `look_finder_up`.
    !FINDER.load(Ordering::Acquire).is_null()
}

/// The holder of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// A loaded object.
    Object(Identity),
    /// No loaded object.
    Nothing,
    /// It cannot be determined in a signal handler.
    Unknown,
}

/// Returns the object that contains an address. Async-signal-safe; logarithmic in the number of
/// objects.
pub fn containing(address: usize) -> Holder {
    // Acquire: pairs with the Release in `look_finder_up`.
    let finder = FINDER.load(Ordering::Acquire);
    if finder.is_null() {
        return Holder::Unknown;
    }
    // Passed by its address only: without optimisation each copy would take room on a handler's
    // stack.
    let mut found: Found = [0; FOUND_WORDS];
    // SAFETY: the function has this type, and fills in a record that is smaller than `Found`.
    let result = unsafe {
        let finder: Finder = core::mem::transmute::<*mut c_void, Finder>(finder);
        finder(address as *mut c_void, &raw mut found)
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

/// Keeps the object that contains this code loaded until the process ends, whatever `dlclose` is
/// called for. The kernel and the C library call functions of it (handlers, the exit hook, fork
/// handlers), and the kernel reads the descriptors of its sections.
///
/// Objects that the program was started with are never unloaded, and left alone: the dynamic linker
/// must not be entered again by an allocator that it has called, which only they can contain. Does
/// nothing either where another library's `dlopen` does not find the object. Takes the lock of the
/// dynamic linker that `dlsym` takes, which a fork does not copy.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub fn pin() {
    /// As glibc defines it; the crate `libc` does not.
    const RTLD_NODELETE: c_int = 0x1000;
    // The address of a hidden symbol, which no other object defines for this one.
    let own = crate::arch::signal_entry(0) as usize;
    let Some((name, record)) = (!is_pin_off()).then(|| record_of(own)).flatten() else {
        return;
    };
    if has_started_with(record) {
        return;
    }
    let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | RTLD_NODELETE;
    // The handle is not closed. That alone would keep the object, unless other code closes more
    // handles than it has opened.
    // SAFETY: the name is the dynamic linker's own, of an object that stays loaded while this code
    // runs. Nothing is loaded, so no constructor runs.
    unsafe { libc::dlopen(name, how) };
}

/// The public part of the dynamic linker's record of an object.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
#[repr(C)]
struct Record {
    bias: usize,
    name: *const core::ffi::c_char,
    dynamic: *const c_void,
    next: AtomicPtr<Record>,
}

/// Returns the name and the record of the object that contains `address`.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
fn record_of(address: usize) -> Option<(*const core::ffi::c_char, *mut Record)> {
    const RTLD_DL_LINKMAP: c_int = 2;
    // SAFETY: the description is plain data, for which zero is valid.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    let mut record = core::ptr::null_mut();
    let address = address as *const c_void;
    // SAFETY: any address may be asked for; the description and the record's address, which the
    // last argument asks for, are valid for writes.
    let is_found = unsafe { libc::dladdr1(address, &mut found, &mut record, RTLD_DL_LINKMAP) };
    (is_found != 0 && !record.is_null()).then_some((found.dli_fname, record.cast()))
}

/// Returns whether the object was loaded at the start of the program.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
fn has_started_with(object: *mut Record) -> bool {
    Started::look_up().is_some_and(|started| started.has(object))
}

/// The objects that were loaded at the start of the program: the program itself, and what precedes
/// the dynamic linker in its list. Objects that are loaded later follow it. So do a few that were
/// loaded at the start, which are not recognized.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
struct Started {
    first: *mut Record,
    linker: *mut Record,
}

#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
impl Started {
    /// Takes the dynamic linker's lock.
    fn look_up() -> Option<Started> {
        /// What the dynamic linker keeps for debuggers, up to its list.
        #[repr(C)]
        struct Debug {
            version: c_int,
            first: AtomicPtr<Record>,
        }
        // SAFETY: the name is null-terminated; the look-up has no other requirement.
        let debug = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) };
        let (_, linker) = record_of(debug as usize)?;
        // SAFETY: the address of this record, which the dynamic linker never removes.
        let first = unsafe { &(*debug.cast::<Debug>()).first };
        // Relaxed: the list was begun before the program started.
        let first = first.load(Ordering::Relaxed);
        Some(Started { first, linker })
    }

    /// Takes no lock.
    fn has(&self, object: *mut Record) -> bool {
        let mut record = self.first;
        while record != self.linker && !record.is_null() {
            if record == object {
                return true;
            }
            // SAFETY: it precedes the dynamic linker, so it was loaded at the start of the program
            // and is never unloaded.
            let next = unsafe { &(*record).next };
            // Relaxed: these links were made before the program started, and stay.
            record = next.load(Ordering::Relaxed);
        }
        false
    }
}

/// Recognizes the objects that are never unloaded.
pub(crate) struct Lasting {
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    started: Option<Started>,
}

impl Lasting {
    /// Takes the dynamic linker's lock.
    pub fn look_up() -> Lasting {
        Lasting {
            #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
            started: Started::look_up(),
        }
    }

    /// Returns whether this object is certainly never unloaded: it was loaded at the start of the
    /// program, contains this code ([`pin`]), or was linked with `-z nodelete`. Takes no lock.
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    pub fn has(&self, object: Object, identity: Identity) -> bool {
        let own = crate::arch::signal_entry(0) as usize;
        let is_of_start = |started: &Started| started.has(identity.record as *mut Record);
        (identity.start..identity.end).contains(&own)
            || self.started.as_ref().is_some_and(is_of_start)
            || object.is_linked_to_stay()
    }

    /// Returns `true`: a static program unloads nothing, and musl's `dlclose` neither.
    #[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
    pub fn has(&self, _: Object, _: Identity) -> bool {
        true
    }
}

/// Does nothing: a static program unloads nothing, and musl's `dlclose` neither.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
pub fn pin() {}

#[cfg(feature = "unstable-internals")]
static PIN_OFF: AtomicBool = AtomicBool::new(false);

/// Makes [`pin`] do nothing.
///
/// # Safety
/// Unloading the object then leaves pointers to it. For tests that expect this.
#[cfg(feature = "unstable-internals")]
pub unsafe fn turn_pin_off() {
    PIN_OFF.store(true, Ordering::Relaxed);
}

/// Returns whether a test has turned [`pin`] off.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
fn is_pin_off() -> bool {
    #[cfg(feature = "unstable-internals")]
    return PIN_OFF.load(Ordering::Relaxed);
    #[cfg(not(feature = "unstable-internals"))]
    false
}

const SMALLEST_PAGE: usize = 4096;

/// Returns the object with this identity, by the headers it was loaded with. Async-signal-safe.
pub fn object(identity: Identity) -> Option<Object> {
    let length = identity.end.checked_sub(identity.start)?;
    if length < size_of::<libc::Elf64_Ehdr>() {
        return None;
    }
    // SAFETY: the dynamic linker has mapped the object's first page, and an ELF header fits into
    // `length`, checked above.
    let header = unsafe { (identity.start as *const libc::Elf64_Ehdr).read_unaligned() };
    if header.e_ident[..4] != *b"\x7fELF" || usize::from(header.e_phentsize) != size_of::<Header>()
    {
        return None;
    }
    // Headers may be anywhere in the file. On its first page they are at their file offset.
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
    // The file starts at the identity's start. The address that its first loaded segment was linked
    // at gives the distance moved.
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
        let mut rest: &'static [u8] = segment.leak();
        core::iter::from_fn(|| KIND.find(&mut rest)).collect()
    }

    /// The headers are at the end of the file, which may be mapped at another offset or not at all.
    #[test]
    fn headers_are_trusted_on_the_first_page_only() {
        let object_with_headers_at = |offset: u64| {
            let file = vec![0u64; 4 * SMALLEST_PAGE / 8].leak();
            let start = file.as_mut_ptr() as usize;
            // SAFETY: the header is plain data, for which zero is valid.
            let mut header: libc::Elf64_Ehdr = unsafe { core::mem::zeroed() };
            header.e_ident[..4].copy_from_slice(b"\x7fELF");
            header.e_phentsize = size_of::<Header>() as u16;
            header.e_phnum = 1;
            header.e_phoff = offset;
            // SAFETY: the header is plain data, for which zero is valid.
            let mut part: Header = unsafe { core::mem::zeroed() };
            part.p_type = libc::PT_LOAD;
            // SAFETY: both addresses are inside the memory of the file, which this test owns.
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

    /// Notes outside every loaded segment are ignored.
    #[test]
    fn notes_are_in_memory() {
        let segment = note(KIND.head, KIND.name, b"12345678").leak();
        let (start, length) = (segment.as_ptr() as u64, segment.len() as u64);
        let notes = |loaded: u64| {
            // SAFETY: the headers are plain data, for which zero is valid.
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

    /// Notes of any length before and after, with either alignment.
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
