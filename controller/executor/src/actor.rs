//! The thread that owns the manager, and the handle to it.
//!
//! One thread, because what it does is files and processes, which block, and because two commands must not be
//! half done at once. The server never waits for the disk.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use sandgate_executor_wire::Task;
use tokio::sync::oneshot;

use crate::clock;
use crate::manager::{Manager, Moment, Refused, Settings};
use crate::store::StoreError;

/// What can be asked of the manager.
pub(crate) enum Command {
    List,
    Get(String),
    Create(Box<Task>),
    Set(Vec<Task>),
    Delete(String),
}

/// What it answers.
pub(crate) enum Answer {
    Tasks(Vec<Task>),
    Task(Box<Task>),
    NotFound,
    Deleted,
}

type Replied = Result<Answer, Refused>;

enum Message {
    Command(Command, oneshot::Sender<Replied>),
    /// A child has ended.
    Look,
}

/// Sends commands to the thread. It ends when the last handle is gone.
#[derive(Clone)]
pub(crate) struct Handle(Sender<Message>);

/// The thread has ended, which it does only by a panic.
#[derive(Debug, thiserror::Error)]
#[error("the thread of the tasks has ended")]
pub(crate) struct Gone;

impl Handle {
    pub(crate) async fn ask(&self, command: Command) -> Result<Replied, Gone> {
        let (reply, replied) = oneshot::channel();
        self.0.send(Message::Command(command, reply)).map_err(|_| Gone)?;
        replied.await.map_err(|_| Gone)
    }

    /// Lets it look at the processes now.
    pub(crate) fn look(&self) -> Result<(), Gone> {
        self.0.send(Message::Look).map_err(|_| Gone)
    }
}

/// Recovers the tasks and starts the thread.
pub(crate) fn start(settings: Settings) -> Result<(Handle, JoinHandle<()>), StoreError> {
    let manager = Manager::recover(settings, clock::now())?;
    let (sender, receiver) = channel();
    Ok((Handle(sender), thread::spawn(move || work(manager, &receiver))))
}

fn moment() -> Moment {
    Moment { now: clock::now(), instant: Instant::now() }
}

fn work(mut manager: Manager, receiver: &Receiver<Message>) {
    loop {
        let message = match manager.look(moment()) {
            Some(time) => match receiver.recv_timeout(time) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            },
            None => match receiver.recv() {
                Ok(message) => message,
                Err(_) => return,
            },
        };
        if let Message::Command(command, reply) = message {
            // What has happened since the last look is in the answer.
            manager.look(moment());
            // Who has asked may be gone.
            let _ = reply.send(obey(&mut manager, command));
        }
    }
}

fn obey(manager: &mut Manager, command: Command) -> Replied {
    match command {
        Command::List => Ok(Answer::Tasks(manager.list())),
        Command::Get(name) => {
            Ok(manager.get(&name).map_or(Answer::NotFound, |task| Answer::Task(Box::new(task))))
        }
        Command::Create(task) => {
            let name = task.name.clone();
            let created = manager.create(*task)?;
            manager.look(moment());
            Ok(Answer::Task(Box::new(manager.get(&name).unwrap_or(created))))
        }
        Command::Set(wanted) => {
            manager.set(wanted, moment())?;
            manager.look(moment());
            Ok(Answer::Tasks(manager.list()))
        }
        Command::Delete(name) => manager.delete(&name, moment()).map(|()| Answer::Deleted),
    }
}
