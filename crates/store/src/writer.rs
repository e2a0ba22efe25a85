//! The SQLite writer: one thread that owns the one writing connection, and on which every statement of a command runs
//! without another thread being asked.
//!
//! It takes commands from a queue, runs each in a savepoint (the first of a transaction needs none), commits what
//! comes together and answers after the commit. A command that fails rolls back its own work only; a commit that
//! fails fails all of its group.
//!
//! What comes together: whatever waits, and then as many as came together last time, as long as they keep coming (see
//! [`Company`]). Clients that are answered at once ask again at once, so a group holds together; a lone client's command
//! waits for nobody.

use crate::conn::{Conn, Link};
use crate::error::Error;
use crate::tx::{Env, Read, Tx, Woken};
use crate::wake::Wakes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rusqlite::Connection;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use taskyard_domain::{Error as Domain, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Commands that wait at most; more callers wait for a place.
const QUEUE: usize = 1024;
/// Commands in one commit at most.
const GROUP: usize = 64;
/// How long an open group waits for more commands at most, however long a commit takes.
const PATIENCE: Duration = Duration::from_millis(1);

/// A command with its caller, its type forgotten.
trait Command: Send {
    /// Runs it in the open savepoint or fresh transaction. `Some` when it may be committed.
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> BoxFuture<'a, Option<Woken>>;
    /// Answers; `commit` is what became of the group.
    fn answer(self: Box<Self>, commit: Result<()>);
}

struct Job<T, F> {
    f: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    /// Held until the answer.
    _place: OwnedSemaphorePermit,
}

impl<T, F> Command for Job<T, F>
where
    T: Send + 'static,
    F: for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, Result<T>> + Send + 'static,
{
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> BoxFuture<'a, Option<Woken>> {
        Box::pin(async move {
            let f = self.f.take()?;
            let work = async {
                let value = f(&mut *tx).await?;
                let woken = tx.finish().await?;
                Ok((value, woken))
            };
            // A panic in one command must not take the writer, and with it every later command, along.
            let outcome = AssertUnwindSafe(work).catch_unwind().await;
            match outcome.unwrap_or_else(|_| Err(Domain::internal("a command panicked in the middle of its transaction"))) {
                Ok((value, woken)) => {
                    self.result = Some(Ok(value));
                    Some(woken)
                }
                Err(error) => {
                    self.result = Some(Err(error));
                    None
                }
            }
        })
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let result = match (self.result, commit) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(Domain::internal("a command was not run")),
        };
        // A caller that stopped waiting gets no answer; what it asked for is done all the same.
        let _ = self.reply.send(result);
    }
}

enum Message {
    Command(Box<dyn Command>),
    Close(oneshot::Sender<()>),
}

/// Who came together lately, and so how long a group stays open for more.
#[derive(Debug, Clone, Copy)]
struct Company {
    /// Commands of the last group.
    size: usize,
    /// What its commit took.
    commit: Duration,
}

impl Company {
    /// How long a group that was begun then and has so many commands waits for one more: not at all once it is as
    /// large as the one before, and in all no longer than committing without that one would cost anyway.
    fn patience(self, begun: Instant, commands: usize) -> Option<Duration> {
        let left = self.commit.min(PATIENCE).saturating_sub(begun.elapsed());
        (commands < self.size && !left.is_zero()).then_some(left)
    }
}

/// The way to the writer.
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
    places: Arc<Semaphore>,
}

impl Writer {
    /// Starts the writer on its connection. It ends when the store is closed or dropped.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(conn: Connection, path: PathBuf, env: Env, wakes: Arc<Wakes>) -> Result<Self, Error> {
        let (queue, messages) = mpsc::channel();
        let tx = Tx::new(Read::new(Conn::new(Link::Sqlite(conn)), env));
        let (runtime, work) =
            (Handle::current(), Loop { messages, tx, path: path.clone(), wakes, company: Company { size: 1, commit: PATIENCE } });
        let started = std::thread::Builder::new().name("taskyard-writer".into()).spawn(move || runtime.block_on(work.run()));
        started.map_err(|source| Error::File { doing: "starting the writer of", path, source })?;
        Ok(Self { queue, places: Arc::new(Semaphore::new(QUEUE)) })
    }

    /// Hands a command over and waits for its commit.
    pub(crate) async fn write<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, Result<T>> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let job = Job { f: Some(f), result: None, reply, _place: place };
        self.queue.send(Message::Command(Box::new(job))).map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Waits for the commands before it, then closes the connection.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Message::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }
}

/// Whether a transaction is open, and with something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    No,
    Clean,
    Used,
}

struct Loop {
    messages: mpsc::Receiver<Message>,
    tx: Tx,
    path: PathBuf,
    wakes: Arc<Wakes>,
    company: Company,
}

impl Loop {
    /// Waiting blocks: the thread is the writer's own.
    async fn run(mut self) {
        let mut closing = None;
        while let Ok(message) = self.messages.recv() {
            match message {
                Message::Command(first) => closing = self.group(first).await,
                Message::Close(done) => closing = Some(done),
            }
            if closing.is_some() {
                break;
            }
        }
        // Whoever asks from now on, or still waits, hears that the store is closed.
        drop(self.messages);
        let Link::Sqlite(conn) = self.tx.read.conn.link else { return };
        if let Err((_, error)) = conn.close() {
            tracing::warn!(path = %self.path.display(), %error, "the database could not be closed cleanly; nothing committed is lost");
        }
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// What waits, or comes while an open group is patient.
    fn more(&self, begun: Instant, commands: usize) -> Option<Message> {
        if let Ok(message) = self.messages.try_recv() {
            return Some(message);
        }
        self.company.patience(begun, commands).and_then(|patience| self.messages.recv_timeout(patience).ok())
    }

    /// Runs `first` and whatever comes with it, commits, answers. A request to close is returned.
    async fn group(&mut self, first: Box<dyn Command>) -> Option<oneshot::Sender<()>> {
        let (mut closing, begun) = (None, Instant::now());
        let mut ran: Vec<Box<dyn Command>> = Vec::new();
        let mut woken: Vec<Woken> = Vec::new();
        let mut next = Some(first);
        let mut state = Ok(());
        let mut open = Open::No;
        while let Some(mut command) = next.take() {
            if state.is_ok() && open == Open::No {
                state = self.statement("BEGIN IMMEDIATE").await;
                open = Open::Clean;
            }
            if state.is_ok() && open == Open::Clean {
                // With nothing of another command in it, the transaction itself does as the savepoint.
                open = if let Some(wakes) = command.run(&mut self.tx).await {
                    woken.push(wakes);
                    Open::Used
                } else {
                    state = self.statement("ROLLBACK").await;
                    Open::No
                };
            } else if state.is_ok() {
                state = self.one(&mut *command, &mut woken).await;
            }
            ran.push(command);
            if ran.len() >= GROUP || state.is_err() {
                break;
            }
            match self.more(begun, ran.len()) {
                Some(Message::Command(command)) => next = Some(command),
                Some(Message::Close(done)) => closing = Some(done),
                None => {}
            }
        }
        if state.is_ok() && open != Open::No {
            let begun = Instant::now();
            state = self.statement("COMMIT").await;
            self.company.commit = begun.elapsed();
        }
        self.company.size = ran.len();
        if state.is_err() {
            self.recover().await;
        }
        // Whoever asked comes before those who only listen.
        for command in ran {
            command.answer(state.clone());
        }
        if state.is_ok() {
            woken.iter().for_each(|woken| self.wakes.wake(woken));
        }
        closing
    }

    /// Runs one command in its savepoint. An error here is one of the whole group.
    async fn one(&mut self, command: &mut dyn Command, woken: &mut Vec<Woken>) -> Result<()> {
        self.statement("SAVEPOINT command").await?;
        if let Some(wakes) = command.run(&mut self.tx).await {
            woken.push(wakes);
        } else {
            self.statement("ROLLBACK TO command").await?;
        }
        self.statement("RELEASE command").await
    }

    async fn statement(&mut self, sql: &str) -> Result<()> {
        self.tx.reset();
        self.tx.read.conn.exec(sql, Vec::new()).await?;
        Ok(())
    }

    /// After a failed commit or savepoint: rolls back, and takes a new connection where even that fails.
    async fn recover(&mut self) {
        // SQLite may have rolled back by itself, and then says that no transaction is open.
        let _ = self.statement("ROLLBACK").await;
        if self.statement("BEGIN IMMEDIATE").await.is_ok() && self.statement("ROLLBACK").await.is_ok() {
            return;
        }
        match crate::sqlite::open_writer(&self.path) {
            Ok(conn) => self.tx.read.conn = Conn::new(Link::Sqlite(conn)),
            Err(error) => tracing::error!(path = %self.path.display(), %error, "the database can't be written at present"),
        }
    }
}
