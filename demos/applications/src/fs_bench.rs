//! `fs-bench` of B91: clients that run a script of file operations, and a multithreaded file server
//! that executes them.

use std::collections::BTreeMap;

use super::disk::Geometry;
use super::package::{Application, Lock, Package, Thread};
use super::script::{Command, Digest, Model, execute, parse};
use super::server::{Client, Server};

/// A script for each client, and its results.
pub struct FsBench {
    scripts: Vec<Vec<(usize, Command)>>,
    servers: usize,
    /// The results of a run of each script in a model.
    expected: Vec<Digest>,
    tree: BTreeMap<String, Option<Vec<u8>>>,
    geometry: Geometry,
}

/// What the threads share.
pub struct Shared<P: Package> {
    server: Server<P>,
    digests: Lock<P, Vec<Option<Digest>>>,
}

impl FsBench {
    /// Reads the script for each client, and runs it in the model. An error is a sentence.
    pub fn new(name: &str, text: &str, servers: usize, clients: usize) -> Result<FsBench, String> {
        let mut bench = FsBench {
            scripts: Vec::new(),
            servers,
            expected: Vec::new(),
            tree: BTreeMap::new(),
            geometry: Geometry {
                inodes: 1,
                blocks: 2 + clients / 16,
                longest: 2 + clients / 16,
            },
        };
        for client in 0..clients {
            let mut model = Model::default();
            let script = parse(name, text, client)?;
            let (digest, peak) = model.run(name, &script)?;
            bench.scripts.push(script);
            bench.expected.push(digest);
            bench.tree.append(&mut model.tree);
            // Room for the peaks of all clients at once.
            bench.geometry.inodes += peak.inodes + 1;
            bench.geometry.blocks += peak.blocks + 1;
            bench.geometry.longest = bench.geometry.longest.max(peak.longest + 1);
        }
        Ok(bench)
    }
}

// SAFETY: scripts are parsed and disks made before; `execute`, the client and the server allocate
// nothing. A path fits into a message, as `parse` has checked.
unsafe impl Application for FsBench {
    type Shared<P: Package> = Shared<P>;
    type Local = ();

    fn threads(&self) -> usize {
        self.servers + self.scripts.len()
    }

    fn shared<P: Package>(&self) -> Shared<P> {
        Shared {
            server: Server::new(self.geometry, self.scripts.len()),
            digests: Lock::<P, _>::new(vec![None; self.scripts.len()]),
        }
    }

    fn local(&self, _index: usize) {}

    fn work<P: Package>(&self, shared: &Shared<P>, (): &mut (), thread: &Thread<'_, P>) {
        let Some(number) = thread.index.checked_sub(self.servers) else {
            return shared.server.serve(thread);
        };
        let mut client = Client::new(&shared.server, thread, number);
        let mut digest = Digest::NEW;
        let mut script = self.scripts[number].iter();
        let is_done = script.all(|(_, command)| execute(command, &mut client, &mut digest).is_ok());
        drop(client);
        thread.lock(&shared.digests)[number] = is_done.then_some(digest);
    }

    fn judge<P: Package>(&self, shared: Shared<P>) -> Result<String, String> {
        let digests = shared.digests.into_inner();
        if let Some(client) =
            (0..self.scripts.len()).find(|n| digests[*n] != Some(self.expected[*n]))
        {
            return Err(format!(
                "client {client} has seen other results than in a sequential run"
            ));
        }
        let tree = shared.server.disk.tree();
        if tree != self.tree {
            return Err("the files are not those of a sequential run".to_string());
        }
        let bytes: usize = tree.values().flatten().map(Vec::len).sum();
        Ok(format!(
            "{} files and directories, {bytes} bytes, as in a sequential run",
            tree.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atomseq::mutex::{Interlocked, RawMutex, TestAndSet};

    use super::super::package::on_kernel_threads;
    use super::*;

    /// Runs a script of two clients, after a change of what is expected.
    fn judged(change: impl FnOnce(&mut FsBench)) -> Result<String, String> {
        let script = "mkdir d\nwrite d/a 2000\nsearch d/a lock\nlist d";
        let mut bench = FsBench::new("script", script, 2, 2)?;
        change(&mut bench);
        let interventions = Interlocked::interventions;
        let run = on_kernel_threads::<FsBench, RawMutex>(&Arc::new(bench), interventions);
        run.map(|outcome| outcome.result)
    }

    #[test]
    fn other_results_and_other_files_are_refused() {
        assert!(judged(|_| ()).is_ok());
        let seen = judged(|bench| bench.expected[1] = Digest::NEW);
        assert!(
            seen.unwrap_err()
                .starts_with("client 1 has seen other results")
        );
        let files = judged(|bench| drop(bench.tree.remove("/client0/d/a")));
        assert!(files.unwrap_err().contains("not those of a sequential run"));
        let content = judged(|bench| {
            let file = bench.tree.get_mut("/client1/d/a");
            file.and_then(Option::as_mut).unwrap()[1999] ^= 1;
        });
        assert!(
            content
                .unwrap_err()
                .contains("not those of a sequential run")
        );
        let full = judged(|bench| bench.geometry.blocks -= 6);
        assert!(full.is_err());
    }
}
