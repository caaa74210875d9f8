//! `fs-bench` of B91: clients that run a script of file operations, and a multithreaded file server
//! that does them.

use std::collections::BTreeMap;

use super::disk::Geometry;
use super::package::{Application, Lock, Package, Thread};
use super::script::{Command, Digest, Model, execute, parse};
use super::server::{Client, Server};

/// A script for each client, and what comes of it.
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
            // The clients' largest needs, all at once. Copies grow while their sources are there.
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
