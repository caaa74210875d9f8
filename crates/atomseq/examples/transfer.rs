//! Shows a double compare-and-swap: transfers between accounts change two words at once, and no
//! thread ever sees money missing.
//!
//! ```text
//! cargo run --release -p atomseq --example transfer
//! ```
//!
//! The two words may be anywhere in the domain. A thread that is preempted or stopped in the middle
//! of a transfer does not block the others. On Linux a transfer takes one atomic instruction.

use atomseq::dcas::{Cell, Change, Domain};

const ACCOUNTS: usize = 8;
const BALANCE: u64 = 1000;
const TRANSFERS: usize = 20_000;

type Bank = Domain<[Cell; ACCOUNTS]>;

/// Moves an amount, or returns `false` if the balance is too low.
fn transfer(bank: &Bank, from: usize, to: usize, amount: u64) -> bool {
    loop {
        let [source, target] = bank.load_all([&bank[from], &bank[to]]);
        if source < amount {
            return false;
        }
        let changed = bank.compare_exchange_pair(
            Change::of(&bank[from], source, source - amount),
            Change::of(&bank[to], target, target + amount),
        );
        // An error means that another thread changed a balance meanwhile: try again.
        if changed.is_ok() {
            return true;
        }
    }
}

/// Returns the sum of all balances at one time.
fn total(bank: &Bank) -> u64 {
    let accounts: [&Cell; ACCOUNTS] = std::array::from_fn(|account| &bank[account]);
    bank.load_all(accounts).iter().sum()
}

/// Makes many transfers, and returns how many had enough money.
fn work(bank: &Bank, thread: usize) -> usize {
    let accounts = |n: usize| ((n * 7 + thread) % ACCOUNTS, (n * 3 + thread + 1) % ACCOUNTS);
    let pairs = (0..TRANSFERS).map(accounts).filter(|(from, to)| from != to);
    pairs
        .zip((1..=100).cycle())
        .filter(|((from, to), amount)| transfer(bank, *from, *to, *amount))
        .count()
}

fn main() {
    let bank: Bank = Domain::new(std::array::from_fn(|_| Cell::new(BALANCE)));
    let all = ACCOUNTS as u64 * BALANCE;
    let (mut done, mut audits) = (0, 0);
    std::thread::scope(|scope| {
        let bank = &bank;
        let workers = [0, 1, 2, 3].map(|thread| scope.spawn(move || work(bank, thread)));
        loop {
            assert_eq!(total(bank), all, "no audit finds money missing");
            audits += 1;
            if workers.iter().all(|worker| worker.is_finished()) {
                break;
            }
            std::thread::yield_now();
        }
        let counts = workers.map(|worker| worker.join().expect("no panic"));
        done = counts.iter().sum();
    });

    println!("{done} transfers between {ACCOUNTS} accounts by 4 threads");
    println!(
        "{audits} audits meanwhile and one at the end: {} in all accounts",
        total(&bank)
    );
    assert_eq!(total(&bank), all);
}
