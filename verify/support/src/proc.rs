//! What `/proc` says of this process: its mappings, its memory.

use std::ops::Range;

/// Reads a file in `/proc/self`.
fn read(name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/self/{name}"));
    text.unwrap_or_else(|error| panic!("/proc/self/{name}: {error}"))
}

/// Returns the text of `/proc/self/maps`, for [`mappings`].
pub fn maps() -> String {
    read("maps")
}

/// What lies at these addresses.
#[derive(Clone, Debug)]
pub struct Mapping<'a> {
    /// The addresses.
    pub range: Range<usize>,
    /// Can it be written?
    pub is_writable: bool,
    /// Where in the file they begin.
    pub offset: usize,
    /// The file, or what the kernel calls it; empty for memory without a name.
    pub name: &'a str,
}

/// All mappings, in the order of their addresses.
pub fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hexadecimal = |word| usize::from_str_radix(word, 16).ok();
        Some(Mapping {
            range: hexadecimal(start)?..hexadecimal(end)?,
            is_writable: words.next()?.starts_with("rw"),
            offset: hexadecimal(words.next()?)?,
            name: words.nth(2).unwrap_or_default(),
        })
    })
}

/// The size of a page, in bytes.
pub fn page() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// How many pages of addresses this process has.
pub fn pages_of_addresses() -> usize {
    statm(0)
}

/// About how many pages of memory this process has: the kernel adds up the threads' counts rarely.
pub fn pages_in_memory() -> usize {
    statm(1)
}

fn statm(word: usize) -> usize {
    let text = read("statm");
    let word = text.split_whitespace().nth(word);
    word.and_then(|word| word.parse().ok()).expect("a number")
}

/// How many kilobytes of memory this process has, exactly.
pub fn kilobytes_in_memory() -> usize {
    let text = read("smaps_rollup");
    let (_, after) = text.split_once("Rss:").expect("a line of that name");
    let kilobytes = after.split_whitespace().next();
    kilobytes
        .and_then(|word| word.parse().ok())
        .expect("a number")
}

/// Lets this process have so many bytes of addresses, until it is called again.
pub fn limit_addresses(bytes: usize) {
    // SAFETY: reads the limit into one, and sets one for this process. The hard limit stays, so
    // that a later call can raise the limit.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(bytes as libc::rlim_t);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
    }
}
