//! A file server: threads that take requests from a port, execute them on the disk, and answer.
//!
//! A client writes its message into its mailbox and puts the mailbox's number into the port. A
//! server copies the message, executes the request, and writes the answer into the mailbox.

use super::disk::{BLOCK, Disk, Geometry, Operation, Refusal};
use super::package::{Lock, Package, Thread, Waiters};

/// The longest path, in bytes.
pub const PATH: usize = 128;

/// A request, and then its answer.
#[derive(Clone)]
struct Message {
    operation: Operation,
    path: [u8; PATH],
    path_length: usize,
    offset: usize,
    data: [u8; BLOCK],
    length: usize,
    answer: Option<Result<usize, Refusal>>,
}

impl Message {
    const EMPTY: Message = Message {
        operation: Operation::MakeDirectory,
        path: [0; PATH],
        path_length: 0,
        offset: 0,
        data: [0; BLOCK],
        length: 0,
        answer: None,
    };
}

struct Mailbox {
    message: Message,
    waiters: Waiters,
}

struct Port {
    /// The numbers of the mailboxes with a new message, the oldest first: a ring with room for all.
    queue: Vec<usize>,
    first: usize,
    filled: usize,
    clients: usize,
    waiters: Waiters,
}

/// The server and its clients' mailboxes.
pub struct Server<P: Package> {
    pub disk: Disk<P>,
    port: Lock<P, Port>,
    mailboxes: Vec<Lock<P, Mailbox>>,
}

impl<P: Package> Server<P> {
    /// Makes a server for that many clients.
    pub fn new(geometry: Geometry, clients: usize) -> Self {
        let mailbox = |_| {
            let (message, waiters) = (Message::EMPTY, Waiters::default());
            Lock::<P, _>::new(Mailbox { message, waiters })
        };
        Server {
            disk: Disk::new(geometry),
            port: Lock::<P, _>::new(Port {
                queue: vec![0; clients],
                first: 0,
                filled: 0,
                clients,
                waiters: Waiters::default(),
            }),
            mailboxes: (0..clients).map(mailbox).collect(),
        }
    }

    /// Serves until all clients have disconnected.
    pub fn serve(&self, thread: &Thread<'_, P>) {
        let mut message = Message::EMPTY;
        loop {
            let mut port = thread.lock(&self.port);
            while port.filled == 0 && port.clients > 0 {
                port = thread.wait(&self.port, port, |port| &mut port.waiters);
            }
            if port.filled == 0 {
                return;
            }
            let client = port.queue[port.first];
            port.first = (port.first + 1) % port.queue.len();
            port.filled -= 1;
            drop(port);
            message.clone_from(&thread.lock(&self.mailboxes[client]).message);
            let Message {
                operation,
                path,
                path_length,
                offset,
                data,
                length,
                ..
            } = &mut message;
            let path = &path[..*path_length];
            let answer = self
                .disk
                .operate(thread, *operation, path, *offset, data, *length);
            message.answer = Some(answer);
            let mut mailbox = thread.lock(&self.mailboxes[client]);
            mailbox.message.clone_from(&message);
            let woken = mailbox.waiters.take();
            drop(mailbox);
            thread.wake(woken);
        }
    }
}

/// A client's end of the connection. Its drop disconnects the client.
pub struct Client<'a, P: Package> {
    server: &'a Server<P>,
    thread: &'a Thread<'a, P>,
    number: usize,
}

impl<'a, P: Package> Client<'a, P> {
    /// Returns the end of the client with that number.
    pub fn new(server: &'a Server<P>, thread: &'a Thread<'a, P>, number: usize) -> Self {
        Client {
            server,
            thread,
            number,
        }
    }
}

impl<P: Package> Drop for Client<'_, P> {
    fn drop(&mut self) {
        let mut port = self.thread.lock(&self.server.port);
        port.clients -= 1;
        if port.clients == 0 {
            let waiters = std::mem::take(&mut port.waiters);
            drop(port);
            self.thread.wake_all(waiters);
        }
    }
}

/// The interface of a file system.
pub trait Files {
    /// Performs an operation on a path. `data` holds the `length` bytes to write, and afterwards
    /// the bytes that were read. Returns their number.
    fn call(
        &mut self,
        operation: Operation,
        path: &str,
        offset: usize,
        data: &mut [u8; BLOCK],
        length: usize,
    ) -> Result<usize, Refusal>;
}

impl<P: Package> Files for Client<'_, P> {
    fn call(
        &mut self,
        operation: Operation,
        path: &str,
        offset: usize,
        data: &mut [u8; BLOCK],
        length: usize,
    ) -> Result<usize, Refusal> {
        let Client {
            server,
            thread,
            number,
        } = *self;
        let mut mailbox = thread.lock(&server.mailboxes[number]);
        let message = &mut mailbox.message;
        message.operation = operation;
        message.path[..path.len()].copy_from_slice(path.as_bytes());
        message.path_length = path.len();
        message.offset = offset;
        message.data[..length].copy_from_slice(&data[..length]);
        message.length = length;
        message.answer = None;
        drop(mailbox);
        let mut port = thread.lock(&server.port);
        let last = (port.first + port.filled) % port.queue.len();
        port.queue[last] = number;
        port.filled += 1;
        let woken = port.waiters.take();
        drop(port);
        thread.wake(woken);
        let mut mailbox = thread.lock(&server.mailboxes[number]);
        loop {
            if let Some(answer) = mailbox.message.answer {
                data.copy_from_slice(&mailbox.message.data);
                return answer;
            }
            mailbox = thread.wait(&server.mailboxes[number], mailbox, |mailbox| {
                &mut mailbox.waiters
            });
        }
    }
}
