//! `parthenon-n` of B91: a theorem prover whose threads search for a proof in parallel. Each tries
//! other alternatives of the same choices (or-parallelism).
//!
//! A board counts all inferences under one lock, and reports whether threads are idle. If so, a
//! working thread turns half of its alternatives into a task. The thread that takes the task
//! repeats the choices that lead to it. When all threads are idle, the limit on the length of
//! branches grows by one.

use super::package::{Application, Lock, Package, Thread, Waiters};
use super::problem::Problem;
use super::proof::Proof;
use super::search::{CHOICES, End, Search, Task};

/// A problem, and how to search.
pub struct Parthenon {
    pub problem: Problem,
    pub threads: usize,
    /// The maximum number of inferences, after which the search gives up.
    pub inferences: u64,
    /// Whether the result contains the proof.
    pub prints: bool,
}

/// The maximum number of tasks that wait for a thread.
const TASKS: usize = 64;

/// What the threads share.
pub struct Shared<P: Package> {
    board: Lock<P, Board>,
    pool: Lock<P, Pool>,
}

/// The state that each inference reads and changes.
#[derive(Default)]
struct Board {
    inferences: u64,
    /// Whether threads wait for tasks.
    is_hungry: bool,
    is_over: bool,
}

struct Pool {
    tasks: Vec<Task>,
    /// The number of threads that wait, or were woken and have not looked for a task yet.
    idle: usize,
    waiters: Waiters,
    /// The maximum length of a branch.
    limit: u32,
    /// Whether this limit, or another one, has cut the search.
    is_cut: bool,
    is_over: bool,
    /// The choices of a proof, and their number.
    proof: Option<([u16; CHOICES], usize)>,
}

impl Parthenon {
    /// Ends the search for all threads.
    fn end<P: Package>(&self, shared: &Shared<P>, pool: &mut Pool, thread: &Thread<'_, P>) {
        pool.is_over = true;
        thread.lock(&shared.board).is_over = true;
        thread.wake_all(std::mem::take(&mut pool.waiters));
    }

    /// Waits for a task. `None` if the search is over.
    fn take<P: Package>(
        &self,
        shared: &Shared<P>,
        thread: &Thread<'_, P>,
        search: &mut Search,
    ) -> Option<(Task, u32)> {
        let mut pool = thread.lock(&shared.pool);
        pool.is_cut |= std::mem::take(&mut search.is_cut);
        loop {
            if pool.is_over {
                return None;
            }
            if let Some(task) = pool.tasks.pop() {
                return Some((task, pool.limit));
            }
            if pool.idle + 1 == self.threads {
                // Nothing is left up to this limit.
                if !pool.is_cut {
                    self.end(shared, &mut pool, thread);
                    return None;
                }
                pool.is_cut = false;
                pool.limit += 1;
                pool.tasks.push(Task::root(&self.problem));
                continue;
            }
            pool.idle += 1;
            thread.lock(&shared.board).is_hungry = true;
            pool = thread.wait(&shared.pool, pool, |pool| &mut pool.waiters);
            pool.idle -= 1;
        }
    }

    /// Turns some of a search's alternatives into a task, if threads wait for one.
    fn give<P: Package>(&self, shared: &Shared<P>, thread: &Thread<'_, P>, search: &mut Search) {
        let mut pool = thread.lock(&shared.pool);
        let mut woken = None;
        if pool.tasks.len() < pool.idle.min(TASKS) {
            let Some(task) = search.split() else { return };
            pool.tasks.push(task);
            woken = pool.waiters.take();
        }
        let is_hungry = pool.tasks.len() < pool.idle.min(TASKS);
        thread.lock(&shared.board).is_hungry = is_hungry;
        drop(pool);
        thread.wake(woken);
    }
}

// SAFETY: the search allocates nothing (`search`), tasks are copied, and the pool has room for all
// that wait. What threads share is in locks.
unsafe impl Application for Parthenon {
    type Shared<P: Package> = Shared<P>;
    type Local = Search;

    fn threads(&self) -> usize {
        self.threads
    }

    fn shared<P: Package>(&self) -> Shared<P> {
        let mut tasks = Vec::with_capacity(TASKS + 1);
        tasks.push(Task::root(&self.problem));
        Shared {
            board: Lock::<P, _>::new(Board::default()),
            pool: Lock::<P, _>::new(Pool {
                tasks,
                idle: 0,
                waiters: Waiters::default(),
                limit: 1,
                is_cut: false,
                is_over: false,
                proof: None,
            }),
        }
    }

    fn local(&self, _index: usize) -> Search {
        Search::new()
    }

    fn work<P: Package>(&self, shared: &Shared<P>, search: &mut Search, thread: &Thread<'_, P>) {
        while let Some((task, limit)) = self.take(shared, thread, search) {
            let end = search.run(&self.problem, &task, limit, |search| {
                let mut board = thread.lock(&shared.board);
                board.inferences += 1;
                let (is_hungry, is_over) = (board.is_hungry, board.is_over);
                let is_too_long = board.inferences >= self.inferences;
                drop(board);
                if is_hungry {
                    self.give(shared, thread, search);
                }
                !is_over && !is_too_long
            });
            if !matches!(end, End::Exhausted) {
                let mut pool = thread.lock(&shared.pool);
                if matches!(end, End::Proof) && pool.proof.is_none() {
                    let mut proof = ([0; CHOICES], 0);
                    for (to, taken) in proof.0.iter_mut().zip(search.taken()) {
                        *to = taken;
                        proof.1 += 1;
                    }
                    pool.proof = Some(proof);
                }
                self.end(shared, &mut pool, thread);
            }
        }
    }

    fn judge<P: Package>(&self, shared: Shared<P>) -> Result<String, String> {
        let (pool, board) = (shared.pool.into_inner(), shared.board.into_inner());
        let (name, inferences) = (&self.problem.name, board.inferences);
        let Some((taken, length)) = pool.proof else {
            return Ok(match inferences >= self.inferences {
                true => format!("{name}: gave up after {inferences} inferences"),
                false => format!("{name}: satisfiable, there is no proof"),
            });
        };
        let proof = Proof::of(&self.problem, &taken[..length], pool.limit)
            .map_err(|sentence| format!("{name}: {sentence}"))?;
        proof
            .check(&self.problem)
            .map_err(|error| format!("{name}: {error}"))?;
        let lengths = format!("{length} choices, branches up to {}", pool.limit);
        Ok(match self.prints {
            true => format!("{name}: proved ({lengths})\n{}", proof.text(&self.problem)),
            false => format!("{name}: proved ({lengths})"),
        })
    }
}
