//! How standard output is shown: colour and width are those of a terminal, if it is one.

use std::io::{self, IsTerminal};

/// Colours, as the numbers of their escape sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For headings.
    Bold = 1,
    /// For what needs no attention.
    Dim = 2,
    /// For losses.
    Red = 31,
    /// For gains.
    Green = 32,
}

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// How many columns a line has; `None` where lines have no end, as in a file.
    pub width: Option<usize>,
    /// Whether it has colours.
    pub colour: bool,
}

impl Terminal {
    /// No terminal: a file or a pipe.
    pub const NONE: Self = Self {
        width: None,
        colour: false,
    };

    /// Standard output of this process.
    pub fn here() -> Self {
        if !io::stdout().is_terminal() {
            return Self::NONE;
        }
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            width: width(),
            colour: !set("NO_COLOR") && !is_dumb,
        }
    }

    /// Colours a text, where there are colours.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        match self.colour && !text.is_empty() {
            true => format!("\x1b[{}m{text}\x1b[0m", colour as u8),
            false => text.to_string(),
        }
    }
}

#[cfg(unix)]
fn width() -> Option<usize> {
    // SAFETY: numbers, for which zero is a value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills in the structure given.
    let known = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &mut size) } == 0;
    (known && size.ws_col > 0).then_some(size.ws_col.into())
}

#[cfg(not(unix))]
fn width() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_has_colours() {
        assert_eq!(Terminal::NONE.paint(Colour::Red, "text"), "text");
        let terminal = Terminal {
            width: Some(80),
            colour: true,
        };
        assert_eq!(terminal.paint(Colour::Red, "text"), "\x1b[31mtext\x1b[0m");
        assert_eq!(terminal.paint(Colour::Red, ""), "");
    }
}
