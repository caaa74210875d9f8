//! The applications as programs: right results with every mechanism, the paper's cells, and the
//! messages about bad input.

use demo_common::testing::{self, Run, Tree, number};

fn run(arguments: &[&str]) -> Run {
    testing::run(demo_applications::run, arguments)
}

/// Returns the cells of a row: name, three times, emulations, restarts, blocks, found held,
/// acquisitions, page faults.
fn row(run: &Run, mechanism: &str) -> Vec<String> {
    run.row(mechanism, 10)
}

/// Returns whether this platform has all mechanisms.
fn has_all() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

/// Runs with all mechanisms, and checks their counts.
fn with_every_mechanism(arguments: &[&str], result: &str) {
    let run = run(&[arguments, &["--all", "--runs=1"]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(
        run.out.contains(result) && run.out.contains("All results are right."),
        "{}",
        run.out
    );
    for mechanism in demo_applications::all() {
        if run.out.contains(&format!("Left out: {}: ", mechanism.name)) {
            assert!(!has_all(), "{}", run.out);
            continue;
        }
        let row = row(&run, mechanism.name);
        let (held, acquisitions) = (number(&row[7]), number(&row[8]));
        assert!(held <= acquisitions && acquisitions > 0, "{row:?}");
        // Each acquisition is emulated at least once, and nothing else is.
        let is_emulated =
            mechanism.name.starts_with("emulation-") || mechanism.name.ends_with("-trap");
        assert!(
            !is_emulated && row[4] == "-" || number(&row[4]) >= acquisitions,
            "{row:?}"
        );
    }
}

fn problem(name: &str) -> String {
    format!("{}/problems/{name}.p", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn parthenon_proves_with_every_mechanism() {
    for threads in ["1", "3"] {
        let result = "agatha: proved";
        with_every_mechanism(
            &["parthenon", &problem("agatha"), "--threads", threads],
            result,
        );
    }
}

#[test]
fn fs_bench_is_right_with_every_mechanism() {
    let tree = Tree::new("applications-script");
    let script = b"mkdir a\nwrite a/x 3000 # a comment\ncopy a/x y\nsearch y lock\nlist a\ncompile y z\nrename y w\nremove a/x\nremove a\n";
    let path = tree.file("script", script).0.join("script");
    let path = path.to_str().unwrap();
    with_every_mechanism(
        &["fs-bench", path, "--servers=2", "--clients=3"],
        "9 files and directories",
    );
}

#[test]
fn text_format_is_right_with_every_mechanism() {
    let tree = Tree::new("applications-text");
    let text = "one and two make three, and\nthree of these are many\n\n  a second paragraph\n\n"
        .repeat(30);
    let path = tree.file("text", text.as_bytes()).0.join("text");
    let path = path.to_str().unwrap();
    with_every_mechanism(
        &["text-format", path, "--width=20", "--formatters=2"],
        "120 lines of cost 510",
    );
}

#[test]
fn proofs_are_printed_and_satisfiable_problems_are_reported() {
    let tree = Tree::new("applications-problems");
    let file = |name: &str, text: &str| {
        tree.file(name, text.as_bytes());
        tree.0.join(name).to_str().unwrap().to_string()
    };
    let by = "--mechanism=on-cpu";
    let equal = file(
        "equal.p",
        "cnf(a, axiom, f(a) = b). cnf(b, axiom, a = c). cnf(c, negated_conjecture, f(c) != b).",
    );
    let includes = file("main.p", "/* both */ include('equal.p'). % and\n");
    let proved = run(&["parthenon", &equal, &includes, "--proof", "--runs=1", by]);
    assert_eq!(proved.code, 0, "{}", proved.err);
    assert!(
        proved.out.contains("equal: proved") && proved.out.contains("main: proved"),
        "{}",
        proved.out
    );
    assert!(proved.out.contains("[substitution]"), "{}", proved.out);
    let open = file(
        "open.p",
        "cnf(a, axiom, p(a) | q(X)). cnf(b, axiom, ~ p(X)). cnf(c, axiom, ~ q(b) | $false | $true).",
    );
    let open = run(&["parthenon", &open, "--runs=1", by]);
    assert!(
        open.out.contains("open: satisfiable, there is no proof"),
        "{}{}",
        open.out,
        open.err
    );
    let endless = file(
        "endless.p",
        "cnf(a, axiom, p(X) | ~ p(f(X))). cnf(b, axiom, p(a)). cnf(c, axiom, ~ p(b)).",
    );
    let endless = run(&["parthenon", &endless, "--inferences=5000", "--runs=1", by]);
    assert!(
        endless.out.contains("endless: gave up after 500"),
        "{}",
        endless.out
    );
}

#[test]
fn the_papers_cells_are_printed() {
    let run = run(&[
        "parthenon",
        &problem("agatha"),
        "--runs=1",
        "--mechanism=interlocked",
    ]);
    let cells = |name: &str| {
        let line = run.out.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..]
            .split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cells("B91: emulation"),
        ["26.1", "1,576,714", "-", "610", "603"]
    );
    assert_eq!(cells("B91: restartable"), ["18.6", "-", "7", "499", "387"]);
}

#[test]
fn bad_input_is_refused_in_a_sentence() {
    let tree = Tree::new("applications-bad");
    let file = |name: &str, text: &str| {
        tree.file(name, text.as_bytes());
        tree.0.join(name).to_str().unwrap().to_string()
    };
    let no_dot = file("dot.p", "cnf(a, axiom, p(a)).\n\ncnf(b, axiom, p(b))\n");
    let sign = file("sign.p", "\ncnf(a, axiom, p(a) & q(b)).\n");
    let first_order = file("fof.p", "fof(a, axiom, ! [X] : p(X)).\n");
    let deep = file(
        "deep.p",
        &format!(
            "cnf(a, axiom, p({}a{})).\n",
            "f(".repeat(300),
            ")".repeat(300)
        ),
    );
    let itself = file("itself.p", "include('itself.p').\n");
    let variable = file("variable.p", "cnf(a, axiom, X | p).\n");
    let quote = file("quote.p", "cnf('a, axiom, p).\n");
    let empty = file("empty.p", "% nothing\n");
    let command = file("command", "mkdir a\nmove a b\n");
    let bytes = file("bytes", "write a many\n");
    let name = file("name", &format!("mkdir {}\n", "n".repeat(40)));
    let missing = file("missing", "mkdir a\n\ncopy b c\n");
    let zero = file("zero", "mkdir a\0b\n");
    let renamed = file("renamed", "mkdir a\nrename a b/c\n");
    let many = file("many", &"mkdir a\n".repeat(6000));
    let large: String = (0..17).map(|n| format!("write f{n} 1048576\n")).collect();
    let large = file("large", &large);
    let wide = file(
        "wide.p",
        &format!("cnf(a, axiom, p({}a)).\n", "a,".repeat(300)),
    );
    let long = file(
        "long.p",
        &format!("cnf(a, axiom, {}p).\n", "p | ".repeat(5000)),
    );
    let variables = (0..9000).map(|n| match n % 250 {
        0 => format!("p(X{n}"),
        249 => format!(", X{n}) | "),
        _ => format!(", X{n}"),
    });
    let variables: String = variables.collect();
    let variables = file("variables.p", &format!("cnf(a, axiom, {variables}p).\n"));
    let clauses = file("clauses.p", &"cnf(a, axiom, $false).\n".repeat(40_000));
    let directory = tree.0.to_str().unwrap().to_string();
    std::fs::write(tree.0.join("bytes.p"), b"cnf(a, axiom, \xff).").unwrap();
    let not_text = tree.0.join("bytes.p").to_str().unwrap().to_string();
    let blank = file("blank", " \n\n");
    for (arguments, sentence) in [
        (
            &["parthenon", "/no/such/file"][..],
            "/no/such/file cannot be read",
        ),
        (&["parthenon", "--threads=0"], "0 is not in 1..=64"),
        (
            &["parthenon", &no_dot],
            "dot.p:4: \".\" expected, and the text ends",
        ),
        (
            &["parthenon", &sign],
            "sign.p:2: \"|\", \",\" or \")\" expected, not \"&\"",
        ),
        (
            &["parthenon", &first_order],
            "fof.p:1: fof is not in clause normal form",
        ),
        (&["parthenon", &deep], "deep.p:1: terms are nested deeper"),
        (
            &["parthenon", &itself],
            "itself.p:1: an include inside too many others",
        ),
        (
            &["parthenon", &variable],
            "variable.p:1: a variable is no formula",
        ),
        (
            &["parthenon", &quote],
            "quote.p:1: a quoted name without end",
        ),
        (&["parthenon", &empty], "0 clauses"),
        (&["parthenon", &wide], "wide.p:1: a term has more than 256"),
        (
            &["parthenon", &long],
            "long.p:1: a clause has more than 4096",
        ),
        (
            &["parthenon", &variables],
            "variables.p:1: a clause has more than 8192 variables",
        ),
        (&["parthenon", &clauses], "40000 clauses of 0 literals"),
        (&["parthenon", &not_text], "bytes.p is not UTF-8"),
        (&["parthenon", &directory], " cannot be read: "),
        (&["text-format", "/dev/zero"], "/dev/zero has more than"),
        (&[], "requires a subcommand"),
        (
            &["fs-bench", "/no/such/file"],
            "/no/such/file cannot be read",
        ),
        (
            &["fs-bench", &command],
            "command:2: \"move\" with 2 words after it is no command",
        ),
        (
            &["fs-bench", &bytes],
            "bytes:1: \"many\" is no number of bytes",
        ),
        (&["fs-bench", &name], "name:1: "),
        (&["fs-bench", &zero], "zero:1: "),
        (
            &["fs-bench", &renamed],
            "renamed:2: \"b/c\" is no name of up to 27 bytes",
        ),
        (&["fs-bench", &many], "many:5001: more than 5000 commands"),
        (&["fs-bench", &large], "large:16: the files take more than"),
        (&["fs-bench", &not_text], "bytes.p is not UTF-8"),
        (&["fs-bench", &missing], "missing:3: there is no such file"),
        (&["fs-bench", "--servers=0"], "0 is not in 1..=32"),
        (
            &["text-format", "/no/such/file"],
            "/no/such/file cannot be read",
        ),
        (&["text-format", &blank], "the text has no words"),
        (&["text-format", "--width=0"], "0 is not in 1..=1000"),
        (
            &["text-format", "--mechanism=none"],
            "there is no mechanism \"none\"; give one of on-cpu, ",
        ),
        (&["procon"], "unrecognized subcommand"),
    ] {
        let run = run(arguments);
        assert_eq!(
            (run.code, run.out.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            run.err
        );
        assert!(run.err.contains(sentence), "{arguments:?}: {}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    }
    let help = run(&["--help"]);
    assert!(
        help.code == 0 && help.out.contains("coroutine-trap"),
        "{}",
        help.out
    );
}
