//! The report.

use std::io::{self, Write};
use std::path::Path;

use demo_common::report::{grouped, percent};

use super::Measured;
use super::format::{last_two, without_arguments};
use super::options::Options;
use super::passes::{Outcome, Plan};
use super::profile::Function;

/// The contents of the report.
pub struct Findings<'f> {
    pub options: &'f Options,
    pub directory: &'f Path,
    /// A sentence about the directory if it is the default one.
    pub chosen: Option<&'static str>,
    pub plan: &'f Plan,
    pub measured: &'f Measured,
}

/// Prints the report.
pub fn print(findings: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    print_work(findings, out)?;
    print_functions(findings, out)?;
    print_ticks(findings, out)?;
    print_sequences(findings, out)?;
    print_pace(findings, out)?;
    let outcome = &findings.measured.outcome;
    match outcome.books.timers {
        // Without timers their cost is not known.
        0 => Ok(()),
        _ => print_cost(outcome, out),
    }
}

fn print_work(findings: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (plan, outcome) = (findings.plan, &findings.measured.outcome);
    writeln!(out, "Directory  {:?}", findings.directory)?;
    if let Some(chosen) = findings.chosen {
        writeln!(out, "           {chosen}")?;
    }
    writeln!(
        out,
        "Work       {} threads count the words of {} files, {} times with timers ({:.1} s), {} without",
        plan.threads,
        grouped(plan.files() as u64),
        outcome.pairs.len(),
        outcome.seconds(),
        outcome.pairs.len(),
    )?;
    writeln!(
        out,
        "Skipped    {}",
        grouped(plan.skipped.len() as u64 + outcome.unread)
    )?;
    writeln!(out, "atomseq    {}\n", atomseq::status())
}

fn print_functions(findings: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (profile, top) = (&findings.measured.profile, findings.options.top);
    writeln!(
        out,
        "{:>12}{:>8}  function, and its hottest lines",
        "samples", "%"
    )?;
    for function in profile.functions.iter().take(top) {
        print_function(function, profile.samples, out)?;
    }
    let others = profile.functions.iter().skip(top);
    let (count, samples) = others.fold((0, 0), |(count, samples), function| {
        (count + 1, samples + function.samples)
    });
    if count > 0 {
        writeln!(
            out,
            "{:>12}{:>8.1}  {count} others",
            grouped(samples),
            percent(samples, profile.samples)
        )?;
    }
    writeln!(
        out,
        "{:>12}{:>8.1}  in functions with a name; {} distinct program counters\n",
        grouped(profile.named),
        percent(profile.named, profile.samples),
        grouped(profile.program_counters as u64),
    )
}

fn print_function(function: &Function, all: u64, out: &mut dyn Write) -> io::Result<()> {
    /// Lines below a tenth of the function's samples are not printed.
    const MIN_SHARE: f64 = 10.0;
    let place = &function.place;
    writeln!(
        out,
        "{:>12}{:>8.1}  {}  ({})",
        grouped(function.samples),
        percent(function.samples, all),
        place.function,
        place.object
    )?;
    for (line, samples) in function.lines.iter().take(3) {
        let share = percent(*samples, function.samples);
        if share >= MIN_SHARE {
            let file = last_two(&line.file);
            let inlined = match line.function == place.function || line.function.is_empty() {
                true => String::new(),
                false => format!(", inlined from {}", without_arguments(&line.function)),
            };
            writeln!(
                out,
                "{:>22}{share:>8.0} %  {file}:{}{inlined}",
                "", line.line
            )?;
        }
    }
    Ok(())
}

fn print_ticks(findings: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (books, accounts) = (
        &findings.measured.outcome.books,
        &findings.measured.accounts,
    );
    let (used, entries) = findings.measured.fullest;
    let seen = accounts.entries - accounts.strangers + books.overruns;
    let rows = [
        (
            "ticks by the clock",
            books.ticks,
            format!("{} Hz, {} timers", findings.options.frequency, books.timers),
        ),
        ("handler entries", accounts.entries, String::new()),
        ("  recorded", accounts.recorded, String::new()),
        (
            "  dropped, no room",
            accounts.no_room,
            format!(
                "the fullest CPU used {} of {} entries",
                grouped(used as u64),
                grouped(entries as u64)
            ),
        ),
        (
            "  dropped, no tick",
            accounts.strangers,
            "the signal came from elsewhere".to_owned(),
        ),
        (
            "overruns",
            books.overruns,
            format!(
                "ticks that expired while one was pending; the threads were on a CPU {:.0} % of the time",
                on_cpu(findings)
            ),
        ),
        (
            "after the last entry",
            books.after_last,
            "ticks after the last one that a thread handled".to_owned(),
        ),
    ];
    for (name, number, remark) in rows {
        writeln!(out, "{:<22}{:>14}  {remark}", name, grouped(number))?;
    }
    let accounted = seen + books.after_last;
    writeln!(
        out,
        "{:<22}{:>14}  ticks, or {:.3} %",
        "not accounted for",
        books.ticks as i64 - accounted as i64,
        100.0 * (books.ticks as f64 - accounted as f64) / books.ticks.max(1) as f64,
    )?;
    for (why, threads) in &findings.measured.outcome.unwatched {
        writeln!(
            out,
            "{threads} times a thread was refused a timer: {why} (raise `ulimit -i`: timers count as pending \
             signals)"
        )?;
    }
    writeln!(out)
}

/// Returns how much of the passes with timers the threads were on a CPU, in per cent.
fn on_cpu(findings: &Findings<'_>) -> f64 {
    let outcome = &findings.measured.outcome;
    let cpu: f64 = outcome.pairs.iter().map(|(_, with)| with.cpu).sum();
    100.0 * cpu / (outcome.seconds() * findings.plan.threads as f64)
}

fn print_sequences(findings: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (books, profile) = (&findings.measured.outcome.books, &findings.measured.profile);
    let rows = [
        (
            books.restarted,
            "restarted by atomseq: sequences shared with the handler",
        ),
        (books.rolled_forward, "rolled forward by atomseq: likewise"),
        (
            books.left_alone,
            "left inside: the rollforward did not reach its end in time",
        ),
        (
            profile.restarted,
            "restarted by the kernel: per-CPU sequences, interrupted by a tick or preempted",
        ),
    ];
    writeln!(out, "Ticks that interrupted a sequence")?;
    for (number, what) in rows {
        writeln!(
            out,
            "{:>12}{:>8.2} %  {what}",
            grouped(number),
            percent(number, profile.samples)
        )?;
    }
    writeln!(out)
}

fn print_pace(findings: &Findings<'_>, out: &mut dyn Write) -> io::Result<()> {
    let ((half, nine_in_ten), outcome) =
        (findings.measured.words_a_tick, &findings.measured.outcome);
    writeln!(
        out,
        "Words between two ticks: median {}, ninth decile {}; longest word: {} bytes",
        grouped(half),
        grouped(nine_in_ten),
        grouped(outcome.longest as u64),
    )?;
    writeln!(
        out,
        "Words counted by the threads {}, taken by their handlers {}, after the last tick {}\n",
        grouped(outcome.words),
        grouped(outcome.books.words),
        grouped(outcome.rest.0),
    )
}

fn print_cost(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    // CPU time, because other processes may use this machine too.
    let mut costs: Vec<f64> = outcome
        .pairs
        .iter()
        .map(|(without, with)| 100.0 * (with.cpu / without.cpu - 1.0))
        .collect();
    costs.sort_by(f64::total_cmp);
    let at = |part: f64| costs[((costs.len() - 1) as f64 * part).round() as usize];
    let cost = at(0.5);
    let more = if cost > 0.0 { "more" } else { "less" };
    writeln!(
        out,
        "With timers the same work took {:.2} % {more} CPU time (median of {} pairs of passes, quartiles \
         {:+.2} % and {:+.2} %).",
        cost.abs(),
        costs.len(),
        at(0.25),
        at(0.75),
    )?;
    let entries = outcome.books.entries.max(1) as f64;
    // The true cost is not negative, so a negative quartile is noise.
    if at(0.25) <= 0.0 {
        writeln!(
            out,
            "Passes differ by more than that: the cost of profiling is below the noise."
        )?;
    } else {
        let without: f64 = outcome.pairs.iter().map(|(without, _)| without.cpu).sum();
        writeln!(
            out,
            "That is {:.1} µs for each handled tick: interrupt, signal, handler, and cold caches.",
            1e6 * without * cost / 100.0 / entries
        )?;
    }
    writeln!(
        out,
        "The handler itself took {:.2} µs on average, including preemptions.",
        outcome.books.inside as f64 / 1e3 / entries
    )
}
