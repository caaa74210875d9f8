//! Each crate is written in the language of its `rust-version`, which is 1.87 for all that programs
//! depend on, and so is what `sequence!` expands to. clippy's `incompatible_msrv` reports functions
//! of the standard library that are newer; no lint is about syntax. This test knows what the
//! language has gained since, and finds it in the syntax tree.
//!
//! What only types decide is not seen: `_` for a constant parameter of a path, and the bounds and
//! coercions that a newer compiler accepts.

use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The minor version of the workspace.
const OLDEST: u32 = 87;

/// What is newer than Rust 1.87: since which minor version, and what it is.
#[derive(Default)]
struct Newer(Vec<(u32, &'static str)>);

/// Whether a chain of `&&` contains a `let`.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Whether a token with this text is among these, at any depth.
fn contains(tokens: TokenStream, text: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => contains(group.stream(), text),
        other => other.to_string() == text,
    })
}

impl<'ast> Visit<'ast> for Newer {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if matches!(binary.op, syn::BinOp::And(_))
            && (has_let(&binary.left) || has_let(&binary.right))
        {
            self.0.push((88, "a chain of `let`"));
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if arm.guard.as_ref().is_some_and(|(_, guard)| has_let(guard)) {
            self.0.push((95, "`if let` as a guard"));
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        if matches!(*repeat.len, syn::Expr::Infer(_)) {
            self.0.push((89, "an inferred length"));
        }
        visit::visit_expr_repeat(self, repeat);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else {
            return;
        };
        let has = |text| contains(list.tokens.clone(), text);
        if list.path.is_ident("unsafe") && has("naked") {
            self.0.push((88, "a naked function"));
        }
        if (list.path.is_ident("cfg") || list.path.is_ident("cfg_attr"))
            && (has("true") || has("false"))
        {
            self.0.push((88, "a constant `cfg`"));
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        match name.as_deref() {
            Some("cfg_select") => self.0.push((95, "`cfg_select!`")),
            Some("asm" | "global_asm" | "naked_asm") if contains(call.tokens.clone(), "cfg") => {
                self.0.push((93, "`cfg` inside `asm!`"));
            }
            _ => {}
        }
    }
}

/// Returns what is newer in a file.
fn newer(text: &str) -> syn::Result<Vec<(u32, &'static str)>> {
    let mut newer = Newer::default();
    newer.visit_file(&syn::parse_file(text)?);
    Ok(newer.0)
}

/// Adds the Rust files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            // What `ui` holds must not compile.
            if !path.ends_with("tests/ui") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the minor version in the manifest of the crate that a file belongs to.
fn rust_version(file: &Path) -> u32 {
    let mut directories = file
        .ancestors()
        .map(|directory| directory.join("Cargo.toml"));
    let manifest = directories.find(|path| path.exists()).expect("a crate");
    let manifest = std::fs::read_to_string(manifest).expect("a manifest");
    let own = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"1."));
    own.map_or(OLDEST, |version| {
        version
            .trim_end_matches('"')
            .parse()
            .expect("a minor version")
    })
}

#[test]
fn all_crates_keep_to_their_rust_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut files, mut checked) = (Vec::new(), 0);
    for directory in ["crates", "demos", "verify"] {
        collect(&root.join(directory), &mut files);
    }
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of text");
        // A fragment that other files include need not be a file of its own.
        let Ok(found) = newer(&text) else {
            println!("not looked at: {}", file.display());
            continue;
        };
        let known = rust_version(&file);
        let newer: Vec<_> = found.iter().filter(|(since, _)| *since > known).collect();
        assert!(newer.is_empty(), "{}: {newer:?}", file.display());
        checked += 1;
    }
    println!("{checked} files");
    assert!(checked > 600);
}

#[test]
fn so_does_what_a_sequence_expands_to() {
    for (name, text) in [
        (
            "restarted",
            "fn f(slot: Slot, a: Word) -> Option<Word> {
                let old = load(slot + FIRST);
                if old == LIMIT { return None }
                commit(slot + FIRST, max(a, old));
                Some(old)
            }",
        ),
        (
            "rolled",
            "unsafe fn f(a: Word) { store(a, 1); store(a + 8, 2); }",
        ),
        (
            "claimed",
            "unsafe fn f(slot: Slot, lock: Word) -> Word {
                'abort: { return 1 }
                let found = cas(lock, 0, 1);
                if found != 0 { return 2 }
                commit(lock, 0);
                0
            }",
        ),
    ] {
        let tokens = text.parse().expect("tokens");
        let expansion = atomseq_compiler::compile(tokens).expect("a sequence");
        let found = newer(&expansion.to_string()).expect("items");
        assert_eq!(found, [], "{name}");
    }
}

/// The control: each of these is found, and what is older is not.
#[test]
fn newer_syntax_is_found() {
    for text in [
        "fn f(a: Option<u8>) { if let Some(a) = a && a > 1 {} }",
        "fn f(a: Option<u8>) { while true && let Some(_) = a {} }",
        "fn f(a: u8) { match a { x if let Some(_) = x.checked_add(1) => {} _ => {} } }",
        "fn f() { let a: [u8; 2] = [0; _]; }",
        "#[unsafe(naked)] extern \"C\" fn f() { naked_asm!(\"ret\") }",
        "#[cfg(all(unix, true))] fn f() {}",
        "fn f() { unsafe { asm!(\"nop\", #[cfg(unix)] \"nop\") } }",
        "fn f() { cfg_select! { unix => {} _ => {} } }",
    ] {
        assert_eq!(newer(text).expect("a file").len(), 1, "{text}");
    }
    let older = "
        #[cfg(all(unix, feature = \"true\"))]
        fn f(a: Option<u8>) {
            if let Some(a) = a { let _ = a == 1 && a < 2; }
            let Some(b) = a else { return };
            let c: [u8; 2] = [0; 2];
            match b { x if x > 1 && x < 3 => {} _ => {} }
            unsafe { asm!(\"jmp {l}\", l = label {}) }
        }";
    assert_eq!(newer(older).expect("a file"), []);
}
