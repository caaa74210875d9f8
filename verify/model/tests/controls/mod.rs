//! Models of the library's own sources: they hold for the sources as they are, and one of them
//! finds out each variant with a protection less. `build.rs` writes the variants and asks for the
//! controls; in which orders a model runs is an explorer's business (`loom.rs`, `shuttle.rs`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Who runs models, in one order after the other.
pub trait Explorer {
    /// Panics with what goes wrong in one of them.
    fn run(self, model: impl Fn() + Send + Sync + 'static);
}

/// A model by name, and who runs it.
pub type Attempt<E> = (&'static str, E, fn());

/// Returns in how many orders a model ran, and what went wrong in the last one.
fn explore(explorer: impl Explorer, model: fn()) -> (usize, Option<String>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&runs);
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explorer.run(move || {
            counting.fetch_add(1, Ordering::Relaxed);
            model();
        });
    }));
    (runs.load(Ordering::Relaxed), explored.err().map(sentence))
}

fn sentence(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(sentence) => *sentence,
        Err(panic) => (*panic.downcast::<&str>().expect("a sentence")).to_owned(),
    }
}

/// Asserts that nothing goes wrong; returns in how many orders.
pub fn holds(what: &str, (name, explorer, model): Attempt<impl Explorer>) -> usize {
    let (runs, wrong) = explore(explorer, model);
    assert_eq!(wrong, None, "{name}, in order {runs}");
    println!("model: {what}: {name}: holds in {runs} orders");
    runs
}

/// Asserts that something goes wrong in one of the attempts, which are made one after the other.
pub fn is_found_out<E: Explorer>(what: &str, attempts: impl Iterator<Item = Attempt<E>>) {
    let mut all = 0;
    for (name, explorer, model) in attempts {
        let (runs, wrong) = explore(explorer, model);
        all += runs;
        if let Some(wrong) = wrong {
            let line = wrong.lines().next().unwrap_or_default();
            println!("model: {what}: found out by {name}, in order {runs} ({all} in all): {line}");
            return;
        }
    }
    panic!("{what}: nobody noticed in {all} orders");
}

/// A test for each variant of these names, all that there are: the attempts that `attempts::<L>()`
/// returns have to find it out.
macro_rules! controls {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let what = concat!(module_path!(), "::", stringify!($name));
            controls::is_found_out(what, attempts::<$name::This>());
        }
    )*};
}
