//! The sequence compiler: [`sequence!`] turns an atomic sequence, written once in a tiny subset of
//! Rust, into one form per mechanism.
//!
//! Data flows one way: `compiler::parse` reads the syntax, `compiler::lower` makes the intermediate
//! representation (`compiler::ir`) and reports every broken rule at its line, `compiler::emit`
//! writes assembly for each architecture, `compiler::output` wraps it all into Rust.
//!
//! Beside it, [`macro@Covered`] is derived for structs of covered words.

mod covered;

use proc_macro::TokenStream;
use proc_macro2::TokenTree;

/// What makes rustc report an error where it is: `compile_error!` by its name alone. The path that
/// `syn` gives it begins with `::core` and has the caller's span, and leads elsewhere in a crate of
/// the first edition.
fn reported(error: &syn::Error) -> proc_macro2::TokenStream {
    let is_path = |token: &TokenTree| match token {
        TokenTree::Punct(mark) => mark.as_char() == ':',
        TokenTree::Ident(name) => name == "core",
        _ => false,
    };
    let tokens = error.to_compile_error().into_iter();
    tokens.filter(|token| !is_path(token)).collect()
}

/// Compiles atomic sequences; `atomseq::docs::patterns` is the guide.
///
/// A sequence has one visible store, its last instruction, so that it can be restarted wherever it
/// was interrupted (B91 2.4); or any number of them, and then an interrupted sequence is run to its
/// end before the interruption is handled (M94 2.2). What M94 2.3.1 proposes to inspect before code
/// may run as a sequence is checked here.
///
/// Each function in the macro becomes an uninhabited type of the same name with one associated
/// function for each form that its steps allow:
///
/// * `on_cpu`: atomic against every thread and signal handler on this CPU (scope `SameCpu`),
///   restarted by the Linux kernel when interrupted, or with a `cas` ended by it. No atomic
///   instruction but that one. `Err(Closed)`: nothing
///   was done, take the slow path. Its caller vouches that every address the steps reach is valid,
///   in attempts that are restarted as well, and that nobody else reads a prepared word before
///   the commit. Where there is a commit, and a `Slot` or `cpu()`.
/// * `gated`: the same steps in plain Rust, for a caller that holds the slot's gate. Where there is
///   `on_cpu` and a `Slot`.
/// * `restarting`: atomic against this thread's signal handlers (scope `SameThread`), one of which
///   starts it again (B91 3.2, with M94 2.1.2's registration). No instruction is added. Where there
///   is a commit, and neither `cpu()` nor `prepare_copy` nor `cas`. A `Slot` is a plain address.
/// * `rolling`: the same scope and cost, but it is run to its end first, in a clone (M94 2.2.2).
///   Where there is neither `cpu()` nor `prepare_copy` nor `cas`.
/// * `MODEL`: the same steps as data, for a checker to run one at a time.
///
/// # Language
///
/// Parameters are `Slot` (this CPU's slot of a per-CPU area; a plain address in `restarting` and
/// `rolling`) or `Word` (a machine word). The result is nothing, `Word`, `bool`, `(Word, Word)`, or
/// `Option` of `Word` or of a pair.
///
/// | | |
/// |---|---|
/// | `let x = …;` | names a word, by a name that no other word has |
/// | `load(a)`, `load32(a)`, `load_acquire(a)` | reads memory |
/// | `+ - * & \| ^ << >>`, `min(a, b)` | wrapping, unsigned; shifts use the count modulo the word's width |
/// | `if a == b { return … }` | leaves early; `== != < <= > >=`, unsigned |
/// | `cpu()` | this CPU's number |
/// | `prepare(a, v)`, `prepare32(a, v)`, `prepare_copy(to, from, words)` | stores that nobody may see before the commit |
/// | `commit(a, v)`, `commit32(a, v)`, `commit_release(a, v)` | the one visible store, and the end |
/// | `store(a, v)`, `store32(a, v)` | visible stores, as many as it takes; in a sequence without `prepare` and `commit`, which has `rolling` only, or after a `cas` |
/// | `let x = cas(a, old, new);` | an interlocked compare-and-swap of a word; names what was there. One at most; see below |
/// | `'abort: { return … }` | at the beginning of a sequence with a `cas`: what an interruption gives back |
/// | `if a == b { commit(a, v); return … }` | after a `cas`: leaves early by the commit that ends the sequence |
///
/// Constants are literals, which fit a word of the target, or names in capitals, by any path, of an
/// integer type, `bool` or `char`, with a value that fits a word. As a word, a named constant is at
/// most 65,535; as an offset of an address, named or not, a constant is a multiple of what is
/// accessed, at least -256 and at most 4,095 times it. The addresses of `prepare_copy` are words: a
/// named constant in them is not negative. Every other name is in lower case, and `r#` makes no
/// other name.
///
/// The arguments of a statement, the sides of an operator or a comparison and the words of a pair
/// are evaluated from left to right.
///
/// What an early `return` gives back is computed before the `if`, so it holds no load; what the
/// sequence gives back is computed before the commit. The crate must be known by the name
/// `atomseq`.
///
/// `doc`, `deprecated`, `must_use`, `inline`, `cfg` and lint levels but `forbid` may stand before a
/// sequence, and do what they do before a function: `must_use` and `inline` on each of its forms,
/// which otherwise are inlined always where they are assembly. A sequence of which no form is used
/// is dead code, as a function is that is never called; no lint is about a single form.
///
/// After a visible `store` there may be loads, which see it, and early returns. A sequence without
/// a `Slot`, `cpu()` and any store is legal as well: rolled forward, it reads all its words at one
/// time.
///
/// # Sequences with a `cas`
///
/// What a `cas` has claimed is visible to other CPUs at once, and so is every `store` after it:
/// such a sequence cannot start again. `on_cpu` makes one attempt, which the kernel ends if it
/// interrupts it. Then the result is what the abort block says, made of constants and parameters,
/// for nothing else is known; anything up to the commit may have happened, the commit not. The
/// caller must recover, and only after a fence may it trust that the attempt is over for good.
///
/// So that the interrupted attempt is the only one that leaves a claim behind, the step after the
/// `cas` returns if it failed, and every later `return` stands behind the same commit that ends the
/// sequence, which gives the claim back. Nothing is stored before the `cas`, and nothing prepared.
/// The `cas` acquires, and whoever sees a later store sees the claim.
///
/// ```text
/// unsafe fn move_both(lock: Word, a: Word, b: Word, least: Word) -> Word {
///     'abort: { return ABORTED }
///     if cpu() > HIGHEST_CPU { return UNREGISTERED }
///     let found = cas(lock, FREE, HELD);
///     if found != FREE { return BUSY }
///     let first = load(a);
///     if first < least { commit_release(lock, FREE); return TOO_FEW }
///     store(b, load(b) + first);
///     store(a, 0);
///     commit_release(lock, FREE);
///     DONE
/// }
/// ```
///
/// # Errors
///
/// Reported at the offending line: no commit or a second one, anything but a result after the
/// commit, a loop, a call, an unknown name, a visible `store` beside a `prepare`, `commit` or
/// `cpu()` where there is no `cas`, a `cas` that breaks the rules above or whose outcome is not
/// tested, a second `Slot`, a `Slot` (or an address made from it) that is returned or stored, an
/// access to the slot's gate, a prepared word (or half of one, or one that is copied to) loaded
/// before it is prepared or also committed, a loaded word that is never used, a `cpu()` or
/// `prepare_copy` in what nothing ties to a CPU, and more than 32 machine instructions or more
/// words at once than there are registers.
///
/// What two addresses have in common is seen where they start from the same word. Addresses that
/// come from different words are the caller's to keep apart. A copy counts with all the words that
/// it may have if its length is a constant, or bounded by one through `min` or `&`; a copy of any
/// other length counts as one word, and the caller keeps the rest of it apart.
#[proc_macro]
pub fn sequence(input: TokenStream) -> TokenStream {
    atomseq_compiler::compile(input.into())
        .unwrap_or_else(|error| reported(&error))
        .into()
}

/// Implements `atomseq::dcas::Covered` for a struct whose fields all are; so are its type
/// parameters, if it has any.
#[proc_macro_derive(Covered)]
pub fn covered(input: TokenStream) -> TokenStream {
    covered::derive(input.into())
        .unwrap_or_else(|error| reported(&error))
        .into()
}
