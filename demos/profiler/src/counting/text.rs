//! Interned words, and their hash. The bytes of an interned word do not move while its arena lives,
//! so that one address identifies the word.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Hashes a word's bytes: multiplies and folds, eight bytes at a time.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    const START: u64 = 0x9e37_79b9_7f4a_7c15;
    let length = bytes.len();
    let mut state = START ^ length as u64;
    let byte = |at: usize| u64::from(bytes[at]);
    let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let mut at = 0;
    while at + 8 < length {
        state = fold(state ^ eight(at));
        at += 8;
    }
    // The last eight bytes may overlap bytes hashed before. That takes fewer branches than a loop.
    let last = match length {
        8.. => eight(length - 8),
        4.. => u64::from(four(0)) | u64::from(four(length - 4)) << 32,
        1.. => byte(0) | byte(length / 2) << 8 | byte(length - 1) << 16,
        0 => 0,
    };
    fold(state ^ last)
}

#[inline]
fn fold(value: u64) -> u64 {
    let product = u128::from(value) * 0xd6e8_feb8_6659_fd93;
    product as u64 ^ (product >> 64) as u64
}

/// An interned word: the address of its header, which its bytes follow.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    header: NonNull<Header>,
    arena: PhantomData<&'a [u8]>,
}

#[repr(C)]
struct Header {
    hash: u64,
    length: usize,
}

// SAFETY: a shared slice; its bytes do not change any more.
unsafe impl Send for Text<'_> {}
// SAFETY: a shared slice; its bytes do not change any more.
unsafe impl Sync for Text<'_> {}

impl<'a> Text<'a> {
    #[inline]
    pub fn hash(self) -> u64 {
        // SAFETY: `Store::text` wrote the header, which lives for `'a`.
        unsafe { self.header.as_ref() }.hash
    }

    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        // SAFETY: `Store::text` wrote the header and that many bytes behind it, which live for
        // `'a`.
        unsafe {
            let length = self.header.as_ref().length;
            std::slice::from_raw_parts(self.header.add(1).cast().as_ptr(), length)
        }
    }

    /// Returns the address, which is never 0.
    pub fn address(self) -> usize {
        self.header.as_ptr().expose_provenance()
    }

    /// Returns the text at an address.
    ///
    /// # Safety
    ///
    /// The [`address`](Text::address) of a text that lives for `'a`.
    #[inline]
    pub unsafe fn at(address: usize) -> Text<'a> {
        let header = std::ptr::with_exposed_provenance_mut(address);
        Text {
            // SAFETY: the caller promises a text's address, and no text is at 0.
            header: unsafe { NonNull::new_unchecked(header) },
            arena: PhantomData,
        }
    }
}

type Chunk = [MaybeUninit<u64>];

/// The memory of one thread's texts.
#[derive(Default)]
pub struct Arena {
    chunks: Vec<NonNull<Chunk>>,
}

// SAFETY: an arena owns its chunks.
unsafe impl Send for Arena {}

impl Arena {
    /// Returns a store, whose texts live as long as this borrow of the arena.
    pub fn store(&mut self) -> Store<'_> {
        Store {
            arena: self,
            next: NonNull::dangling(),
            left: 0,
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: `Store::text` leaked this box, and the lifetime of its texts is over.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

/// Copies words into an arena.
pub struct Store<'a> {
    arena: &'a mut Arena,
    next: NonNull<MaybeUninit<u64>>,
    /// The words of memory left from `next` on.
    left: usize,
}

// SAFETY: `next` points into a chunk of the arena, which the store borrows exclusively.
unsafe impl Send for Store<'_> {}

impl<'a> Store<'a> {
    /// The minimum size of a chunk, in words.
    const CHUNK: usize = 8192;

    /// Copies a word into the arena.
    pub fn text(&mut self, hash: u64, bytes: &[u8]) -> Text<'a> {
        let words = (size_of::<Header>() + bytes.len()).div_ceil(size_of::<u64>());
        if words > self.left {
            let chunk = Box::new_uninit_slice(words.max(Self::CHUNK));
            self.left = chunk.len();
            let chunk = NonNull::from(Box::leak(chunk));
            self.arena.chunks.push(chunk);
            self.next = chunk.cast();
        }
        let header = self.next.cast::<Header>();
        // SAFETY: the `words` words from `next` on are in the chunk and unused. They are aligned
        // for the header and have room for it and the bytes.
        unsafe {
            header.write(Header {
                hash,
                length: bytes.len(),
            });
            let to = header.add(1).cast::<u8>();
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            self.next = self.next.add(words);
        }
        self.left -= words;
        Text {
            header,
            arena: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_changes_the_hash() {
        for length in 0..40 {
            let zeroes = vec![0; length];
            let mut seen = std::collections::HashSet::from([hash(&zeroes)]);
            for at in 0..length {
                let mut bytes = zeroes.clone();
                bytes[at] = 1;
                assert!(seen.insert(hash(&bytes)), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn stored_texts_do_not_change() {
        let mut arena = Arena::default();
        let mut store = arena.store();
        let words: Vec<Vec<u8>> = (0..3000).map(|length| vec![length as u8; length]).collect();
        let texts: Vec<Text> = words
            .iter()
            .map(|word| store.text(hash(word), word))
            .collect();
        for (text, word) in texts.iter().zip(&words) {
            assert_eq!(text.bytes(), word);
            assert_eq!(text.hash(), hash(word));
            // SAFETY: the address of a text whose arena is alive.
            assert_eq!(unsafe { Text::at(text.address()) }.bytes(), word);
        }
    }
}
