//! What is mapped where in a process, from the text of `/proc/self/maps`.

use std::ops::Range;

/// What lies at these addresses.
#[derive(Clone, Debug)]
pub struct Mapping<'a> {
    /// The addresses.
    pub range: Range<usize>,
    /// Where in the file they begin.
    pub offset: usize,
    /// The file, or what the kernel calls it.
    pub name: &'a str,
}

/// All that have a name.
pub fn named(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hexadecimal = |word| usize::from_str_radix(word, 16).ok();
        Some(Mapping {
            range: hexadecimal(start)?..hexadecimal(end)?,
            offset: hexadecimal(words.nth(1)?)?,
            name: words.nth(2)?,
        })
    })
}
