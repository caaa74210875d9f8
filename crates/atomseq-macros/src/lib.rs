//! The macros of atomseq: [`sequence!`] turns an atomic sequence, written once in a small subset of
//! Rust, into one form for each mechanism; [`macro@Covered`] is derived for structs of covered
//! words. The compiler behind `sequence!` is the crate `atomseq-compiler`.

mod covered;

use proc_macro::TokenStream;
use proc_macro2::TokenTree;

/// Returns the tokens that make rustc report an error where it is: `compile_error!` by its name
/// alone. The path that `syn` writes begins with `::core` and has the caller's span; in a crate of
/// the 2015 edition it leads elsewhere.
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
/// was interrupted (B91 2.4). Or it has any number of visible stores; then an interrupted sequence
/// is run to its end before the interruption is handled (M94 2.2). M94 2.3.1 proposes to inspect
/// code before it may run as a sequence; the macro checks it while it compiles.
///
/// Each function in the macro becomes an uninhabited type of the same name with one associated
/// function for each form that its steps allow:
///
/// | form | atomic against | cost | exists for |
/// |---|---|---|---|
/// | `on_cpu` | every thread and signal handler on this CPU (scope `SameCpu`) | no atomic instruction but a `cas` | a commit, and a `Slot` or `cpu()` |
/// | `gated` | the same, because its caller holds the gate of the slot | plain Rust | what has `on_cpu` and a `Slot` |
/// | `restarting` | this thread's signal handlers (scope `SameThread`) | no instruction is added | a commit, and neither `cpu()` nor `prepare_copy` nor `cas` |
/// | `rolling` | the same | no instruction is added | neither `cpu()` nor `prepare_copy` nor `cas` |
/// | `MODEL` | | the steps as data, for a checker to run one at a time | every sequence |
///
/// A form is called as a function of that type, in an `unsafe` block; `on_cpu` and `gated` of a
/// [plain `fn`](#plain-functions) are called without one. A form takes one argument for each
/// parameter, in their order: a `usize` for a `Word`, and for a `Slot` what the table says. `R` is
/// the result, with `usize` for `Word`.
///
/// | form | call of `f(slot: Slot, word: Word, …) -> R` | a `Slot` is |
/// |---|---|---|
/// | `on_cpu` | `f::on_cpu(area.slots(), word, …) -> Result<R, Closed>` | `percpu::Slots` |
/// | `gated` | `f::gated(&gate, word, …) -> R` | `&percpu::GateGuard` |
/// | `restarting`, `rolling` | `f::rolling(address, word, …) -> R` | an address, a `usize` |
///
/// A sequence without a `Slot` has no such argument. Calling a form that does not exist for the
/// steps of a sequence is an error: that of `on_cpu` states the reason. In
/// `atomseq::docs::patterns`, section 3 calls `on_cpu` and `gated`, and section 7 `rolling`.
///
/// * `on_cpu` is restarted by the Linux kernel when it is interrupted, or with a `cas` ended by it.
///   It returns `Err(Closed)` if nothing visible was done and the caller should take the slow path.
///   Its caller vouches that every address the steps reach is valid, in attempts that are restarted
///   as well, and that no other thread or handler reads a prepared word before the commit.
/// * `restarting` is restarted by the handler that interrupted it (B91 3.2, with the registration
///   of M94 2.1.2). `rolling` is first run to its end, in a clone (M94 2.2.2). In both a `Slot` is
///   a plain address.
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
/// | `+ - * & \| ^ << >>`, `!a`, `min(a, b)`, `max(a, b)` | wrapping, unsigned; shifts use the count modulo the word's width |
/// | `if a == b { return … }` | returns early; `== != < <= > >=`, unsigned |
/// | `cpu()` | this CPU's number |
/// | `prepare(a, v)`, `prepare32(a, v)`, `prepare_copy(to, from, words)` | stores that no other thread or handler may read before the commit |
/// | `commit(a, v)`, `commit32(a, v)`, `commit_release(a, v)` | the one visible store, and the end |
/// | `store(a, v)`, `store32(a, v)` | visible stores, any number; in a sequence without `prepare` and `commit`, which has `rolling` only, or after a `cas` |
/// | `let x = cas(a, old, new);` | an atomic compare-and-swap of a word; names the word that was there. At most one; see below |
/// | `'abort: { return … }` | at the beginning of a sequence with a `cas`: the result of an interrupted attempt |
/// | `if a == b { commit(a, v); return … }` | after a `cas`: returns early, by the commit that ends the sequence |
///
/// Constants are literals, which fit a word of the target, or names in capitals, by any path, of an
/// integer type, `bool` or `char`, with a value that fits a word. As a word, a constant may have
/// any value. A constant expression that contains a named constant and exceeds 65,535 takes a
/// register, like a parameter; the others are part of an instruction. As an offset of an address, a
/// constant, named or not, is a multiple of the bytes that are accessed, at least -256 and at most
/// 4,095 times them. Every other name is in lower case, and `r#` makes no other name.
///
/// An access at a constant offset from a `Slot` stays within its fifteen words, at the offsets 8 to
/// 127. Bulk memory follows them in an area that has some. Only the area knows its size, so an
/// offset that leads there is written with a constant whose name is `BULK`, such as
/// `slot + Area::BULK + 16`.
///
/// The arguments of a statement, the sides of an operator or a comparison, and the words of a pair
/// are evaluated from left to right.
///
/// The result of an early `return` is computed before the `if`, so it contains no load; the result
/// of the sequence is computed before the commit. The crate must be known by the name `atomseq`.
///
/// `doc`, `deprecated`, `must_use`, `inline`, `cfg` and lint levels except `forbid` may stand
/// before a sequence. They mean what they mean before a function; `must_use` and `inline` apply to
/// each form. Forms in assembly are `#[inline(always)]` unless another `inline` is given. A
/// sequence of which no form is used is dead code, like a function that is never called: the
/// compiler then warns that the enum of its name is never used, since that is what the forms belong
/// to. No lint is about a single form.
///
/// After a visible `store` there may be loads, which see it, and early returns. A sequence without
/// a `Slot`, `cpu()` and any store is legal as well: rolled forward, it reads all its words at one
/// time.
///
/// # Plain functions
///
/// A sequence may be a plain `fn` instead of an `unsafe fn`. Its forms `on_cpu` and `gated` are
/// then safe, and a crate that forbids unsafe code may define and call them. The compiler proves
/// that every access is an atomic one of a whole word of the slot. So a plain `fn` takes a `Slot`,
/// has a commit, and reaches the slot at constant offsets within its words; it contains no
/// `load32`, `prepare32`, `commit32` and `prepare_copy`, and names no bulk memory.
///
/// ```text
/// fn raise(slot: Slot, value: Word) {
///     let maximum = load(slot + MAXIMUM);
///     if value <= maximum { return }
///     commit(slot + MAXIMUM, value);
/// }
/// ```
///
/// Any code that has an `Area` can thus store any word in its slots. An `unsafe fn` that relies on
/// what is there, for example takes a word for an address, is sound only on an area that the other
/// code cannot reach, in a private field. `restarting` and `rolling` remain unsafe, because a
/// `Slot` is any address there.
///
/// # Sequences with a `cas`
///
/// The claim of a `cas` is visible to other CPUs at once, and so is every `store` after it. So such
/// a sequence is not restarted: `on_cpu` makes one attempt, which the kernel ends if it interrupts
/// it. The result is then that of the abort block, made of constants and parameters, for nothing
/// else is known. Any steps but the commit may have taken effect. The caller recovers, and only
/// after a fence may it rely on the attempt being over.
///
/// An interrupted attempt is the only one that leaves a claim in memory: the step after the `cas`
/// returns if it failed, and every later `return` stands behind the same commit that ends the
/// sequence, which releases the claim. Nothing is computed between the `cas` and that test, so the
/// first of these returns words that are known by then. Nothing is stored before the `cas`, and
/// nothing is prepared. The `cas` acquires, and a thread that sees a later store sees the claim.
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
/// Reported at the offending line, with what to write instead:
///
/// * no commit or a second one, or anything but a result after the commit;
/// * a loop, a call, an unknown name;
/// * a visible `store` beside a `prepare`, `commit` or `cpu()` where there is no `cas`;
/// * a `cas` that breaks the rules above, or whose outcome is not tested;
/// * a second `Slot`, or a `Slot` (or an address made from it) that is returned or stored;
/// * an access at a constant offset from the slot that is outside of its words: to the gate, or to
///   what follows the words, unless the offset is written with the name `BULK`;
/// * a prepared word (or half of one, or one that is copied to) that is loaded before it is
///   prepared, or also committed;
/// * a loaded word that is never used;
/// * a `cpu()` or `prepare_copy` in a sequence that nothing ties to a CPU;
/// * an access in a plain `fn` that is not to a whole word of the slot at a constant offset;
/// * more than 32 machine instructions, or more words at once than there are registers.
///
/// Two addresses are compared if they start from the same word. Addresses that come from different
/// words are the caller's to keep apart. A copy counts with all the words that it may have if its
/// length is a constant, or bounded by one through `min` or `&`. A copy of any other length counts
/// as one word, and the caller keeps the rest of it apart.
#[proc_macro]
pub fn sequence(input: TokenStream) -> TokenStream {
    atomseq_compiler::compile(input.into())
        .unwrap_or_else(|error| reported(&error))
        .into()
}

/// Compiles atomic sequences as [`sequence!`] does, and for each scheme of M94 as well. It is
/// `atomseq_papers::sequence!`, which describes it.
#[cfg(feature = "schemes")]
#[proc_macro]
pub fn sequence_with_schemes(input: TokenStream) -> TokenStream {
    atomseq_compiler::compile_with_schemes(input.into())
        .unwrap_or_else(|error| reported(&error))
        .into()
}

/// Implements `atomseq::dcas::Covered` for a struct whose fields all implement it. Its type
/// parameters are required to.
#[proc_macro_derive(Covered)]
pub fn covered(input: TokenStream) -> TokenStream {
    covered::derive(input.into())
        .unwrap_or_else(|error| reported(&error))
        .into()
}
