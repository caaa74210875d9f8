//! Golden files: listings of whole functions of an optimized build, several in a file, each under a
//! heading `# name`. A listing begins with a line that names the compiler that made it.
//!
//! `BLESS=1` rewrites them.

use std::path::PathBuf;

/// Returns the compiler's name, the first line of a listing.
pub fn compiler() -> String {
    format!("; {}", env!("COMPILER"))
}

/// Returns whether golden files are to be rewritten.
pub fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Returns the path of a golden file.
pub fn path(file: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
    directory.join(format!("{file}.txt"))
}

/// A golden file.
pub struct Golden {
    file: PathBuf,
    /// Names and listings, in the order in which they are in the file.
    listings: Vec<(String, String)>,
}

impl Golden {
    /// Reads a file; one that is missing has no listings.
    pub fn read(file: &str) -> Golden {
        let file = path(file);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let mut listings: Vec<(String, String)> = Vec::new();
        for line in text.split_inclusive('\n') {
            match (line.strip_prefix("# "), listings.last_mut()) {
                (Some(name), _) => listings.push((name.trim_end().to_owned(), String::new())),
                (None, Some((_, listing))) => listing.push_str(line),
                (None, None) => {}
            }
        }
        Golden { file, listings }
    }

    /// Returns the listing of a function.
    pub fn listing(&self, name: &str) -> Option<&str> {
        let found = self.listings.iter().find(|(of, _)| of == name);
        found.map(|(_, listing)| listing.as_str())
    }

    /// Writes the listing of a function into the file.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn bless(&mut self, name: &str, listing: &str) {
        match self.listings.iter_mut().find(|(of, _)| of == name) {
            Some((_, old)) => *old = listing.to_owned(),
            None => self.listings.push((name.to_owned(), listing.to_owned())),
        }
        let listings = self.listings.iter();
        let text: String = listings
            .map(|(name, text)| format!("# {name}\n{text}"))
            .collect();
        std::fs::write(&self.file, text).expect("golden files can be written");
    }
}
