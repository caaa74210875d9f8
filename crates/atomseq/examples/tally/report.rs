//! Runs the ways in turn, compares what they counted, and prints it all.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use atomseq::percpu::Error;

use super::arguments::Options;
use super::files::{self, Found, Skipped};
use super::progress;
use super::text::{Arena, Map};
use super::ways::{self, Outcome, WAYS};
use super::work::Work;

/// How long a way took at best, and what it held.
struct Timed {
    name: &'static str,
    best: Duration,
    entries: usize,
}

/// Does everything; `false` if the counts differ, or nothing could be counted with.
pub fn tally(
    options: &Options,
    show_progress: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<bool> {
    let mut found = files::find(&options.directory);
    report(&found.skipped, err)?;
    match compare(options, show_progress, &mut found, out, err) {
        Ok(all_agree) => all_agree,
        Err(error) => writeln!(err, "tally: {error}").map(|()| false),
    }
}

/// The outer error is of atomseq, the inner one of the output.
fn compare(
    options: &Options,
    show_progress: bool,
    found: &mut Found,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<io::Result<bool>, Error> {
    // The check goes first, and brings the files into memory for the others.
    let mut arena = Arena::default();
    let work = Work::new(&found.files)?;
    let label = "one thread";
    let (took, expected) = timed(label, &work, found.bytes, show_progress, |work| {
        Ok(ways::alone(work, &mut arena))
    })?;
    let (bytes, words) = (work.statistics.bytes.sum(), work.statistics.words.sum());
    let printed = print_input(options, &work, found.skipped.len(), &expected.map, out);
    let unreadable = work.into_skipped();
    let printed = printed.and_then(|()| report(&unreadable, err));
    if let Err(error) = printed {
        return Ok(Err(error));
    }
    let unreadable: HashSet<PathBuf> = unreadable.into_iter().map(|skip| skip.path).collect();
    found.files.retain(|path| !unreadable.contains(path));

    let mut times: Vec<Timed> = Vec::new();
    for run in 0..options.runs {
        for (index, (name, way)) in WAYS.iter().enumerate() {
            let mut arenas: Vec<Arena> = (0..options.threads).map(|_| Arena::default()).collect();
            let work = Work::new(&found.files)?;
            let (took, outcome) = timed(name, &work, bytes, show_progress, |work| {
                way(work, &mut arenas)
            })?;
            let judged = report(&work.into_skipped(), err)
                .and_then(|()| differ(name, &outcome.map, &expected.map, err));
            match judged {
                Ok(false) => {}
                Ok(true) => return Ok(Ok(false)),
                Err(error) => return Ok(Err(error)),
            }
            let entries = outcome.entries;
            match run {
                0 => times.push(Timed {
                    name,
                    best: took,
                    entries,
                }),
                _ => times[index].best = times[index].best.min(took),
            }
        }
    }
    times.push(Timed {
        name: "one thread (the check)*",
        best: took,
        entries: expected.entries,
    });
    Ok(print_times(options, &times, bytes, words, out).map(|()| true))
}

fn timed<'a>(
    label: &str,
    work: &Work<'_>,
    total: u64,
    show_progress: bool,
    way: impl FnOnce(&Work<'_>) -> Result<Outcome<'a>, Error>,
) -> Result<(Duration, Outcome<'a>), Error> {
    progress::during(label, &work.statistics.bytes, total, show_progress, || {
        let start = Instant::now();
        let outcome = way(work)?;
        Ok((start.elapsed(), outcome))
    })
}

fn report(skipped: &[Skipped], err: &mut dyn Write) -> io::Result<()> {
    skipped
        .iter()
        .try_for_each(|path| writeln!(err, "tally: {path}"))
}

/// Do the counts differ? Says where.
fn differ(
    name: &str,
    counted: &Map<'_>,
    expected: &Map<'_>,
    err: &mut dyn Write,
) -> io::Result<bool> {
    let words = expected.keys().chain(counted.keys());
    let different = words
        .map(|word| (word, counted.get(word), expected.get(word)))
        .find(|(_, counted, expected)| counted != expected);
    let Some((word, counted, expected)) = different else {
        return Ok(false);
    };
    writeln!(
        err,
        "tally: the counts differ: {name} found {:?} {} times, one thread {} times; unless a file \
         changed meanwhile, that is a fault",
        String::from_utf8_lossy(word),
        counted.unwrap_or(&0),
        expected.unwrap_or(&0),
    )?;
    Ok(true)
}

fn print_input(
    options: &Options,
    work: &Work<'_>,
    skipped: usize,
    map: &Map<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let statistics = &work.statistics;
    let files = statistics.files.sum();
    let half = statistics.sizes.snapshot().quantile(0.5).unwrap_or(0);
    writeln!(out, "Directory  {:?}", options.directory)?;
    if let Some(chosen) = options.chosen {
        writeln!(out, "           {chosen}")?;
    }
    writeln!(
        out,
        "Files      {}, {} bytes; half of them have at most {}; skipped: {}",
        grouped(files),
        grouped(statistics.bytes.sum()),
        grouped(half),
        grouped((skipped + work.skipped()) as u64),
    )?;
    writeln!(
        out,
        "Words      {}, of which {} different",
        grouped(statistics.words.sum()),
        grouped(map.len() as u64)
    )?;
    writeln!(out, "atomseq    {}\n", atomseq::status())?;

    let mut words: Vec<(&[u8], u64)> = map.iter().map(|(word, count)| (*word, *count)).collect();
    words.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
    words.truncate(options.top);
    for (word, count) in &words {
        const SHOWN: usize = 60;
        let shown = String::from_utf8_lossy(&word[..word.len().min(SHOWN)]);
        let more = if word.len() > SHOWN { "…" } else { "" };
        writeln!(
            out,
            "{:>15}  {}{more}",
            grouped(*count),
            shown.escape_debug()
        )?;
    }
    if !words.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

fn print_times(
    options: &Options,
    times: &[Timed],
    bytes: u64,
    words: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Options { threads, runs, .. } = options;
    writeln!(
        out,
        "{:<26}{:>10}{:>10}{:>12}{:>14}",
        format!("{threads} threads, best of {runs}"),
        "seconds",
        "MB/s",
        "Mwords/s",
        "entries"
    )?;
    for way in times {
        let seconds = way.best.as_secs_f64();
        writeln!(
            out,
            "{:<26}{seconds:>10.3}{:>10.0}{:>12.2}{:>14}",
            way.name,
            bytes as f64 / 1e6 / seconds,
            words as f64 / 1e6 / seconds,
            grouped(way.entries as u64),
        )?;
    }
    writeln!(
        out,
        "* once, before the others, and so with files that may not have been in memory yet\n"
    )?;
    writeln!(out, "All counts agree.")?;
    let [per_cpu, others @ .., _check] = times else {
        return Ok(());
    };
    for other in others {
        let ratio = other.best.as_secs_f64() / per_cpu.best.as_secs_f64();
        let name = other.name;
        match ratio {
            1.02.. => writeln!(
                out,
                "Per-CPU tables beat {name}: {ratio:.2} times the speed."
            )?,
            0.98.. => writeln!(
                out,
                "Per-CPU tables and {name} are equally fast, within 2 %."
            )?,
            _ => writeln!(
                out,
                "Per-CPU tables lose to {name}: {ratio:.2} times the speed."
            )?,
        }
    }
    writeln!(
        out,
        "Thread-local maps hold a word once a thread, per-CPU tables once a CPU, locked maps once."
    )
}

/// A number with its digits in threes.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_differ_are_told() {
        let map = |words: &[(&'static [u8], u64)]| words.iter().copied().collect::<Map>();
        let expected = map(&[(b"a", 1), (b"b", 2)]);
        let told = |counted: &Map| {
            let mut err = Vec::new();
            let differ = differ("a way", counted, &expected, &mut err).unwrap();
            (differ, String::from_utf8(err).unwrap())
        };
        assert_eq!(told(&expected), (false, String::new()));
        for (counted, sentence) in [
            (
                map(&[(b"a", 1), (b"b", 3)]),
                "\"b\" 3 times, one thread 2 times",
            ),
            (map(&[(b"a", 1)]), "\"b\" 0 times, one thread 2 times"),
            (
                map(&[(b"a", 1), (b"b", 2), (b"c", 1)]),
                "\"c\" 1 times, one thread 0 times",
            ),
        ] {
            let (differ, told) = told(&counted);
            assert!(differ && told.contains(sentence), "{told}");
        }
    }

    #[test]
    fn digits_come_in_threes() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
