//! The command as its users run it: what it prints, and how it ends.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn atomseq(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atomseq"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    atomseq(arguments)
        .output()
        .expect("the command was built with the tests")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the command prints UTF-8")
}

/// The records of a benchmark that must end well and say nothing else.
fn records(arguments: &[&str]) -> Vec<Value> {
    let output = run(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    assert_eq!(
        text(&output.stderr),
        "",
        "without a terminal there is no progress bar"
    );
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |record| record["kind"] == kind)
}

/// The cases that `--help` lists for an experiment.
fn listed_cases(experiment: &str) -> BTreeSet<String> {
    let help = text(&run(&["bench", "--help"]).stdout);
    let heading = format!("  {experiment}: ");
    let cases = help
        .lines()
        .skip_while(|line| !line.starts_with(&heading))
        .skip(1);
    let cases = cases
        .skip_while(|line| !line.starts_with("    "))
        .take_while(|line| line.starts_with("    "));
    // The rest of a line that was too long has no second column.
    let cases = cases.filter(|line| line.trim_start().contains("  "));
    cases
        .filter_map(|line| Some(line.split_whitespace().next()?.to_string()))
        .collect()
}

/// The cases of an experiment at one number of threads that have a record which says why they have
/// no figures. Those of atomseq's own would have ended the benchmark with another exit code, so
/// these are peers', or the machine was too busy to measure them.
fn wrong_cases(records: &[Value], experiment: &str, threads: u64) -> BTreeSet<String> {
    let here = |record: &&Value| record["experiment"] == experiment && record["threads"] == threads;
    let wrong = of_kind(records, "wrong").filter(here).map(|wrong| {
        assert!(wrong["peer"] == true || wrong["untried"] == true, "{wrong}");
        assert!(wrong["fault"].is_string(), "{wrong}");
        let found = wrong["found"].as_array().expect("a list of counts");
        match wrong["expected"].is_null() {
            true => assert!(found.is_empty(), "{wrong}"),
            false => assert!(
                found.iter().any(|count| *count != wrong["expected"]),
                "{wrong}"
            ),
        }
        wrong["case"]
            .as_str()
            .expect("a case has a name")
            .to_string()
    });
    wrong.collect()
}

/// Checks the fields of every record, that measures and ratios are complete but for cases that a
/// record leaves out, and that ratios agree with each other.
fn check_records(records: &[Value], experiment: &str, threads: &[u64]) {
    assert_eq!(records[0]["kind"], "environment");
    assert_eq!(of_kind(records, "environment").count(), 1);
    let mut cases = listed_cases(experiment);
    assert!(!cases.is_empty(), "--help lists the cases of {experiment}");
    if records[0]["gates"] == false {
        let needs_one = |case: &String| {
            let is_cpus = case.ends_with(":cpu") || case.starts_with("cpu-");
            is_cpus || case.starts_with("os-assisted")
        };
        cases.retain(|case| !needs_one(case));
    }
    let listed = cases;
    for &threads in threads {
        let wrong = wrong_cases(records, experiment, threads);
        assert!(wrong.is_subset(&listed), "{wrong:?}");
        let cases: BTreeSet<_> = listed.difference(&wrong).cloned().collect();
        let here =
            |record: &&Value| record["experiment"] == experiment && record["threads"] == threads;
        let mut measured = BTreeSet::new();
        for measure in of_kind(records, "measure").filter(here) {
            measured.insert(
                measure["case"]
                    .as_str()
                    .expect("a case has a name")
                    .to_string(),
            );
            assert!(measure["unit"].is_string());
            assert!(
                measure["runs"].as_u64().is_some_and(|runs| runs >= 5),
                "{measure}"
            );
            let [min, p10, median, p99, max] =
                ["min", "p10", "median", "p99", "max"].map(|field| number(measure, field));
            assert!(
                0.0 < min && min <= p10 && p10 <= median && median <= p99 && p99 <= max,
                "{measure}"
            );
        }
        assert_eq!(measured, cases, "{experiment} with {threads} threads");

        let workload = |case: &str| {
            case.split_once(':')
                .map_or(String::new(), |(workload, _)| workload.to_string())
        };
        let mut wanted = BTreeSet::new();
        for a in &cases {
            wanted.extend(
                cases
                    .iter()
                    .filter(|b| a != *b && workload(a) == workload(b))
                    .map(|b| (a.clone(), b.clone())),
            );
        }
        let mut compared = BTreeSet::new();
        for ratio in of_kind(records, "ratio").filter(here) {
            let name = |field: &str| {
                ratio[field]
                    .as_str()
                    .expect("a case has a name")
                    .to_string()
            };
            assert!(
                compared.insert((name("numerator"), name("denominator"))),
                "twice: {ratio}"
            );
            let [min, median, max] = ["min", "median", "max"].map(|field| number(ratio, field));
            assert!(0.0 < min && min <= median && median <= max, "{ratio}");
        }
        assert_eq!(compared, wanted, "{experiment} with {threads} threads");
    }
    let all: BTreeSet<_> = of_kind(records, "measure")
        .filter_map(|record| record["threads"].as_u64())
        .collect();
    assert_eq!(all, threads.iter().copied().collect());
}

fn number(record: &Value, field: &str) -> f64 {
    record[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} is a number in {record}"))
}

#[test]
fn bench_prints_complete_records() {
    // Asked for twice, measured once.
    let records = records(&[
        "bench",
        "percpu-counter",
        "percpu-counter",
        "--threads",
        "1,2,1",
        "--quick",
        "--json",
    ]);
    check_records(&records, "percpu-counter", &[1, 2]);
    assert!(of_kind(&records, "measure").all(|measure| measure["unit"] == "ns/op"));
    let environment = &records[0];
    for field in [
        "atomseq", "commit", "rustc", "profile", "date", "cpu", "cpus", "governor", "kernel",
        "pinned",
    ] {
        assert!(environment.get(field).is_some(), "{field} in {environment}");
    }
    assert!(environment["rseq"]["active"].is_boolean());
    assert_eq!(environment["threads"], serde_json::json!([1, 2]));
}

#[test]
fn every_container_passes_its_check_with_more_threads_than_cpus() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let check = |experiment: &str| {
        // Half of the threads of a flow produce.
        let threads = if experiment.starts_with("flow-") {
            (cpus + 1).next_multiple_of(2)
        } else {
            cpus + 1
        };
        let asked = ["bench", experiment, "--threads", &(cpus + 1).to_string()];
        let records = records(&[&asked[..], &["--quick", "--json"]].concat());
        check_records(&records, experiment, &[threads]);
        assert!(of_kind(&records, "measure").all(|measure| measure["oversubscribed"] == true));
    };
    // Each takes the time it is given; beside the others it makes fewer rounds in it, which is as
    // good here.
    std::thread::scope(|scope| {
        for experiment in [
            "percpu-stack",
            "percpu-queue",
            "percpu-ring",
            "percpu-pool",
            "dcas",
            "nonblocking-stack",
            "nonblocking-queue",
            "nonblocking-list",
            "nonblocking-map",
            "nonblocking-priority",
            "flow-queue",
            "flow-stack",
            "flow-pool",
        ] {
            let check = &check;
            scope.spawn(move || check(experiment));
        }
    });
}

#[test]
fn footprint_has_two_workloads_and_its_own_threads() {
    let records = records(&[
        "bench",
        "percpu-footprint",
        "--threads",
        "3",
        "--quick",
        "--json",
    ]);
    check_records(&records, "percpu-footprint", &[1_000]);
    for measure in of_kind(&records, "measure") {
        let unit = if measure["case"]
            .as_str()
            .is_some_and(|case| case.starts_with("bytes:"))
        {
            "bytes"
        } else {
            "ns"
        };
        assert_eq!(measure["unit"], unit);
    }
}

/// Unprotected sequences cannot be interrupted on purpose without the signal being seen; portable
/// builds have none else.
#[cfg(target_os = "linux")]
const PROTECTED: bool = cfg!(atomseq_sections);

#[cfg(target_os = "linux")]
#[test]
fn signal_experiments_stand_beside_what_was_published() {
    let records = records(&["bench", "signal-sequence", "--quick", "--json"]);
    // Nobody asked for a number of threads: one says all.
    check_records(&records, "signal-sequence", &[1]);
    let cells: Vec<_> = of_kind(&records, "published").collect();
    assert_eq!(cells.iter().filter(|cell| cell["table"] == "1").count(), 54);
    let cell = cells
        .iter()
        .find(|c| (&c["technique"], &c["program"]) == (&"sigprocmask".into(), &"LIFO".into()))
        .expect("M94 has it");
    assert_eq!(
        (&cell["value"], &cell["unit"]),
        (&3045.0.into(), &"cycles".into())
    );
    assert_eq!(cell["cases"], serde_json::json!(["lifo:sigprocmask"]));
    let overheads: BTreeSet<_> = of_kind(&records, "overhead")
        .filter_map(|overhead| Some((overhead["case"].as_str()?, overhead["over"].as_str()?)))
        .collect();
    assert!(
        overheads.contains(&("fifo:rolling", "fifo:none")),
        "{overheads:?}"
    );
    // All but the four bare forms.
    assert_eq!(overheads.len(), listed_cases("signal-sequence").len() - 4);
}

#[cfg(target_os = "linux")]
#[test]
fn masks_and_deliveries_have_complete_records() {
    let asked = [
        "bench",
        "signal-mask",
        "--threads",
        "2",
        "--quick",
        "--json",
    ];
    check_records(&records(&asked), "signal-mask", &[2]);
    if PROTECTED {
        let asked = [
            "bench",
            "rollforward-cost",
            "--threads",
            "2",
            "--quick",
            "--json",
        ];
        let records = records(&asked);
        check_records(&records, "rollforward-cost", &[1]);
        assert!(of_kind(&records, "published").all(|figure| figure["table"].is_null()));
    } else {
        assert_eq!(run(&["bench", "rollforward-cost"]).status.code(), Some(2));
    }
}

#[test]
fn locks_are_measured_alone_spread_and_crowded() {
    let records = records(&["bench", "mutex", "--quick", "--json"]);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut threads = vec![1, cpus, 4 * cpus];
    threads.dedup();
    check_records(&records, "mutex", &threads);
    for measure in of_kind(&records, "measure") {
        let crowded = measure["threads"].as_u64() > Some(cpus);
        assert_eq!(measure["oversubscribed"], crowded, "{measure}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn stopped_threads_and_crowds_have_complete_records() {
    for (experiment, unit, threads) in [("stall", "ns", 2), ("oversubscription", "ns/op", 32)] {
        let records = records(&["bench", experiment, "--threads", "3", "--quick", "--json"]);
        check_records(&records, experiment, &[threads]);
        assert!(of_kind(&records, "measure").all(|measure| measure["unit"] == unit));
    }
}

#[test]
fn biased_locks_are_measured_by_workload() {
    let asked = ["bench", "biased", "--threads", "7", "--quick", "--json"];
    let records = records(&asked);
    // One at home, one elsewhere, whatever is asked for.
    check_records(&records, "biased", &[2]);
    for measure in of_kind(&records, "measure") {
        let at_home = measure["case"]
            .as_str()
            .is_some_and(|case| case.starts_with("home:"));
        assert_eq!(measure["oversubscribed"], at_home, "{measure}");
    }
    let untried = of_kind(&records, "wrong").filter(|wrong| wrong["untried"] == true);
    let cpus = records[0]["cpus"].as_array().expect("a list").len();
    // Four locks in each of the four workloads that need another CPU.
    assert_eq!(untried.count(), if cpus < 2 { 16 } else { 0 });
}

#[cfg(target_os = "linux")]
#[test]
fn b91s_tables_stand_beside_what_was_published() {
    if !PROTECTED {
        assert_eq!(run(&["bench", "b91-table1"]).status.code(), Some(2));
        return;
    }
    let asked = [
        "bench",
        "b91-table1",
        "b91-table2",
        "b91-table4",
        "--quick",
        "--json",
    ];
    let all = records(&asked);
    for (experiment, threads, cells) in [
        ("b91-table1", 1, 5),
        ("b91-table2", 2, 8),
        ("b91-table4", 1, 24),
    ] {
        let records: Vec<_> = all
            .iter()
            .filter(|record| record["kind"] == "environment" || record["experiment"] == experiment)
            .cloned()
            .collect();
        check_records(&records, experiment, &[threads]);
        let published = of_kind(&records, "published");
        let in_table = published.filter(|cell| cell["table"].is_string()).count();
        assert_eq!(in_table, cells, "{experiment}");
        // Two threads of one CPU.
        let shared = experiment == "b91-table2";
        assert!(of_kind(&records, "measure").all(|measure| measure["oversubscribed"] == shared));
    }
    let over = |case: &str, over: &str| {
        let mut overheads = of_kind(&all, "overhead");
        overheads.any(|record| record["case"] == case && record["over"] == over)
    };
    assert!(over("restart-branch", "loop"));
    assert!(over("restart-branch", "restart-inlined"), "the linkage");
    let linkage = of_kind(&all, "published")
        .find(|cell| cell["technique"] == "Linkage Time" && cell["machine"] == "Intel 486");
    let linkage = linkage.expect("B91 has it");
    assert_eq!(
        (&linkage["value"], &linkage["unit"]),
        (&0.3.into(), &"µs".into())
    );
    let cases = [
        "cpu-branch",
        "cpu-inlined",
        "restart-branch",
        "restart-inlined",
    ];
    let cases = serde_json::json!(cases);
    assert_eq!(linkage["cases"], cases);
}

#[cfg(target_os = "linux")]
#[test]
fn doctor_tries_what_signals_need() {
    let output = run(&["doctor", "--json"]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let signals = &diagnosis["signals"];
    let expected = if PROTECTED {
        Value::Bool(true)
    } else {
        Value::Null
    };
    for field in ["restart", "rollforward", "mask"] {
        assert_eq!(signals[field], expected, "{field} in {signals}");
    }
    let sequences = signals["sequences"].as_u64();
    assert_eq!(sequences.is_some_and(|sequences| sequences > 0), PROTECTED);
    assert_eq!(signals["managed"], serde_json::json!([]));
    let text = text(&run(&["doctor"]).stdout);
    let expected = if PROTECTED {
        "verified: restart, rollforward, mask"
    } else {
        "sequences run with all signals blocked"
    };
    assert!(text.contains(expected), "{text}");
}

#[test]
fn bench_shows_case_median_and_ratio_and_the_rest_when_asked() {
    let asked = ["bench", "percpu-counter", "--threads", "1", "--quick"];
    let output = run(&asked);
    let brief = text(&output.stdout);
    assert!(output.status.success());
    assert!(brief.contains("\npercpu-counter · 1 thread\n"), "{brief}");
    let head = |text: &str| {
        let line = text.lines().find(|line| line.starts_with(" case "));
        let words = line.expect("a table has a head").split_whitespace();
        words.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(head(&brief), ["case", "ns/op", "ratio", "to", "rseq"]);
    let row = brief.lines().find(|line| line.starts_with(" mutex "));
    let row = row.expect("each case has a row");
    assert!(row.contains(" × (") && row.contains(" to "), "{row}");
    assert!(!brief.ends_with("\n\n"), "{brief}");
    let verbose = text(&run(&[&asked[..], &["--verbose"]].concat()).stdout);
    let columns = "case ns/op min p10 p99 max ratio to rseq from to runs";
    assert_eq!(head(&verbose).join(" "), columns);
}

#[cfg(target_os = "linux")]
#[test]
fn a_papers_table_is_printed_where_its_experiment_is_named() {
    let output = run(&["bench", "signal-mask", "--quick"]);
    let text = text(&output.stdout);
    assert!(output.status.success());
    assert!(text.contains("\nM94, Table 1: "), "{text}");
}

#[test]
fn the_page_has_the_machine_the_method_the_tables_and_the_losses() {
    let output = run(&[
        "bench",
        "percpu-counter",
        "kcas-reclamation",
        "--threads",
        "1",
        "--quick",
        "--markdown",
    ]);
    let page = text(&output.stdout);
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
    let parts = [
        "# Benchmarks\n",
        "Written by `atomseq bench --quick --markdown`",
        "| processor | ",
        "| compiler | rustc ",
        "\n## How it was measured\n",
        "\n## percpu-counter\n\nAdding to a count that all threads share.\n\n1 thread:\n",
        "\n| case | what it is | ns/op | ratio to `rseq` |\n|---|---|---:|---|\n| `rseq` | percpu::Counter | ",
        "\n| `interlocked` | one AtomicU64 for all threads, fetch_add | ",
        "\n## kcas-reclamation\n",
        "\n## Where atomseq loses\n",
    ];
    let mut rest = page.as_str();
    for part in parts {
        let (_, after) = (rest.split_once(part)).unwrap_or_else(|| panic!("{part} in {page}"));
        rest = after;
    }
}

#[test]
fn without_a_command_there_is_one_page() {
    let output = run(&[]);
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "progress needs a terminal");
    assert!(page.lines().count() <= 45, "{page}");
    assert!(
        !page.contains('\x1b'),
        "colour is for terminals only: {page}"
    );
    assert!(page.starts_with("atomseq "), "{page}");
    for works in ["per-CPU sequences", "signal sequences", "two-word CAS"] {
        assert!(page.contains(&format!("\n  {works} ")), "{page}");
    }
    let table = page.split("\n\n").nth(1).expect("a table");
    let rows: Vec<_> = table
        .lines()
        .skip(1)
        .filter(|line| !line.contains("in brackets"))
        .collect();
    assert!((1..=12).contains(&rows.len()), "{page}");
    for row in rows {
        let is_measured = row.contains(" × (") && row.contains(" to ");
        assert!(is_measured || row.contains("not measured: "), "{row}");
    }
    assert!(page.contains("\natomseq loses "), "{page}");
    assert!(page.contains("\nNext: atomseq doctor, "), "{page}");
}

/// Each lock's mechanism.
fn mechanisms(output: &Output) -> Vec<String> {
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let locks = diagnosis["mutual_exclusion"].as_array().expect("a list");
    let by = locks.iter().map(|lock| {
        assert!(
            lock["why"].as_str().is_some_and(|why| why.len() > 20),
            "{lock}"
        );
        lock["by"].as_str().expect("a name").to_string()
    });
    by.collect()
}

#[test]
fn doctor_says_which_mechanism_each_lock_uses() {
    let active = atomseq::status().gates_active();
    let home = if active { "section" } else { "interlocked" };
    let now = mechanisms(&run(&["doctor", "--json"]));
    assert_eq!(now[..4], ["interlocked", home, home, home]);
    let off = |arguments: &[&str]| {
        let mut command = atomseq(arguments);
        command.env("ATOMSEQ_DISABLE_RSEQ", "1");
        command
            .output()
            .expect("the command was built with the tests")
    };
    let without = mechanisms(&off(&["doctor", "--json"]));
    assert_eq!(without[..4], ["interlocked"; 4]);
    assert_eq!(
        without[4..],
        now[4..],
        "handlers have nothing to do with it"
    );
    let doctor = text(&off(&["doctor"]).stdout);
    let line = "  mutex::Biased (Machine): interlocked\n    per-CPU sequences cannot be fenced: ";
    assert!(doctor.contains(line), "{doctor}");
}

#[test]
fn doctor_prints_one_object() {
    let output = run(&["doctor", "--json"]);
    assert!(output.status.success());
    let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let rseq = &diagnosis["rseq"];
    let active = rseq["active"].as_bool().expect("active is a boolean");
    assert_eq!(rseq["registered_by"].is_null(), !active);
    assert_eq!(rseq["reason"].is_null(), active);
    for field in ["gates", "membarrier", "cpus", "kernel", "libc", "uses"] {
        assert!(diagnosis.get(field).is_some(), "{field} in {diagnosis}");
    }
}

#[test]
fn what_is_switched_off_is_said() {
    let off = |arguments: &[&str]| {
        atomseq(arguments)
            .env("ATOMSEQ_DISABLE_RSEQ", "1")
            .output()
            .expect("it runs")
    };
    let diagnosis: Value =
        serde_json::from_slice(&off(&["doctor", "--json"]).stdout).expect("one JSON object");
    assert_eq!(diagnosis["rseq"]["active"], false);
    assert!(diagnosis["rseq"]["reason"].is_string());
    assert!(
        diagnosis["uses"]
            .as_array()
            .is_some_and(|uses| uses.iter().all(|of| of["path"] != "section"))
    );
    let doctor = text(&off(&["doctor"]).stdout);
    assert!(
        doctor.contains("What to do\n  Per-CPU sequences are off: "),
        "{doctor}"
    );
    let path = |of: &str| {
        let uses = diagnosis["uses"].as_array();
        let mut named = uses
            .into_iter()
            .flatten()
            .filter(|r#use| r#use["structure"] == of);
        named.next().map(|r#use| r#use["path"].clone())
    };
    assert_eq!(path("nonblocking::List"), Some("k-cas".into()));
    let dcas = text(&off(&["bench", "dcas", "--threads", "1", "--quick"]).stdout);
    assert!(
        dcas.contains("(os-assisted, cpu) are left out") && dcas.contains("\n k-cas "),
        "{dcas}"
    );
    assert!(!dcas.contains("\n os-assisted "), "{dcas}");
    let bench = text(&off(&["bench", "percpu-counter", "--threads", "1", "--quick"]).stdout);
    assert!(
        bench.contains("Per-CPU sections do not run on this machine"),
        "{bench}"
    );
}

#[test]
fn bad_arguments_end_in_a_sentence_and_exit_code_2() {
    for (arguments, sentence) in [
        (
            &["bench", "percpu-nothing"][..],
            "there is no such experiment; there are percpu-counter, ",
        ),
        (
            &["bench", "--threads", "0"],
            "nothing can be measured without a thread",
        ),
        (&["bench", "--threads", "-1"], "not a number of threads"),
        (&["bench", "--threads", "two"], "not a number of threads"),
        (&["bench", "--threads", "1,,2"], "not a number of threads"),
        (
            &["bench", "--threads", "1000000"],
            "that many threads would measure the scheduler",
        ),
        (
            &["bench", "--threads", "99999999999999999999999"],
            "not a number of threads",
        ),
        (&["bench", "--threads"], "a value is required"),
        (&["bench", "--json", "--markdown"], "cannot be used with"),
        (&["bench", "--json", "--verbose"], "cannot be used with"),
        (&["bench", "--fast"], "unexpected argument '--fast'"),
        (&["doctor", "now"], "unexpected argument 'now'"),
        (&["fly"], "unrecognized subcommand 'fly'"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let message = text(&output.stderr);
        assert!(message.contains(sentence), "{arguments:?}: {message}");
    }
}

#[test]
fn help_lists_everything() {
    let help = text(&run(&["--help"]).stdout);
    for command in ["doctor", "bench"] {
        assert!(help.contains(command), "{help}");
    }
    let help = text(&run(&["bench", "--help"]).stdout);
    for option in [
        "--threads",
        "--quick",
        "--json",
        "--verbose",
        "--markdown",
        "[EXPERIMENT]...",
        "percpu-footprint",
        // What the records may contain that `wrong_cases` reads.
        "`wrong`",
        "`untried`",
        "null",
    ] {
        assert!(help.contains(option), "{option} in {help}");
    }
    assert!(run(&["--version"]).status.success());
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    for arguments in [
        &[
            "bench",
            "percpu-pool",
            "--threads",
            "1",
            "--quick",
            "--json",
        ][..],
        &["doctor"],
        &[],
    ] {
        let mut child = atomseq(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command was built with the tests");
        drop(child.stdout.take());
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .expect("it is piped")
            .read_to_string(&mut stderr)
            .expect("it is UTF-8");
        assert!(child.wait().expect("it ends").success(), "{stderr}");
        assert_eq!(stderr, "");
    }
}
