//! The work that is profiled: several threads count the words of all files in a per-CPU hash table.
//!
//! | module | what lives there |
//! |---|---|
//! | [`counts`], [`table`] | a per-CPU hash table, built with `sequence!`, that grows under the gate |
//! | [`work`] | the threads' shares of the list of files, in a per-CPU queue |
//! | [`words`], [`text`] | what a word is; interned words and their hash |

pub mod counts;
pub mod table;
pub mod text;
pub mod words;
pub mod work;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use demo_common::testing::Tree;

    use super::counts::Counts;
    use super::text::Arena;
    use super::words::{buffer, each_word};
    use super::work::Work;

    /// Every word is in two files and "the" is everywhere: enough words for tables to grow.
    #[test]
    fn threads_count_what_one_thread_counts() {
        const FILES: usize = 40;
        const WORDS: usize = 2_000;
        let tree = Tree::new("counting");
        for file in 0..FILES {
            let words = (0..WORDS).map(|word| format!("the w{} ", file / 2 * WORDS + word));
            tree.file(&format!("{file}"), words.collect::<String>().as_bytes());
        }
        tree.file(
            "binary",
            &(0..=255).cycle().take(100_000).collect::<Vec<u8>>(),
        );
        let files = demo_common::files::find(&tree.0).files;
        let mut expected: HashMap<Vec<u8>, u64> = HashMap::new();
        for file in &files {
            let file = std::fs::File::open(file).unwrap();
            let count = |word: &[u8]| *expected.entry(word.to_vec()).or_default() += 1;
            each_word(file, &mut buffer(), count).unwrap();
        }
        for threads in [1, 5] {
            let work = Work::new(&files).unwrap();
            let mut arenas: Vec<Arena> = (0..threads).map(|_| Arena::default()).collect();
            let mut counts = Counts::new().unwrap();
            std::thread::scope(|scope| {
                for arena in &mut arenas {
                    let (work, mut counter) = (&work, counts.counter(arena.store()));
                    scope.spawn(move || work.share(|word| counter.count(word)));
                }
            });
            assert_eq!(work.skipped(), 0);
            assert_eq!(counts.total(), expected.values().sum());
            let (map, _) = counts.merged();
            assert_eq!(map.len(), expected.len());
            for (word, count) in map {
                assert_eq!(expected.get(word), Some(&count));
            }
        }
    }
}
