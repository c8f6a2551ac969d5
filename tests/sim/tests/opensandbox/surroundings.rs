//! The parts of the cluster beside the nodes: Jobs that make snapshots, commands in containers, and tasks.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sandgate_operator::{Exec, ExecError, Key};
use sandgate_sim::model::object::{text, uid};
use sandgate_sim::model::{DeleteOptions, JOBS, Model, PODS, Part, Patch, Place};
use sandgate_sim::{Random, kubelet, restart};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::executors;
use crate::held::mark;
use crate::laws::{has_ended, running_jobs};

// A run of the simulation is on one thread.
thread_local! {
    static COMMANDS: RefCell<Commands> = const { RefCell::new(Commands::NONE) };
}

/// How long a slow command takes: so long that another try may succeed, and the pod be given away, before it.
const SLOW: Duration = Duration::from_secs(100);

/// The commands that are to be run.
struct Commands {
    last: u64,
    asked: Vec<Command>,
    /// What must not have happened.
    wrong: Option<String>,
}

/// A command that ends the container it is run in.
struct Command {
    number: u64,
    /// Some are run only after this.
    not_before: Instant,
    place: Place,
    container: String,
    /// The UID of the pod, and whose it was, when the command was asked for.
    of: Option<(String, String)>,
    /// The pod was nobody's since.
    was_free: bool,
    answer: oneshot::Sender<Result<(), ExecError>>,
}

impl Commands {
    const NONE: Self = Self { last: 0, asked: Vec::new(), wrong: None };
}

/// Commands that end the containers they are run in, sooner or later, or are lost. The answer is a failure
/// half of the time: the command ends what would answer. One that nobody waits for any more is not run.
pub(crate) struct PlayedExec;

/// Takes a command back when nobody waits for it any more.
struct Waiting(u64);

impl Drop for Waiting {
    fn drop(&mut self) {
        let number = self.0;
        // The last ones are dropped with the thread.
        let _ = COMMANDS.try_with(|commands| {
            commands.borrow_mut().asked.retain(|command| command.number != number);
        });
    }
}

impl Exec for PlayedExec {
    fn run<'a>(
        &'a self,
        pod: &'a Key,
        container: &'a str,
        _command: &'a [String],
    ) -> BoxFuture<'a, Result<(), ExecError>> {
        let place = Place::new(&PODS, &pod.namespace, &pod.name);
        let container = container.to_owned();
        let (answer, answered) = oneshot::channel();
        let number = COMMANDS.with_borrow_mut(|commands| {
            commands.last += 1;
            let number = commands.last;
            // Every other one is slower than the next try.
            let delay = if number % 2 == 0 { SLOW } else { Duration::ZERO };
            let not_before = Instant::now() + delay;
            let command = Command { number, not_before, place, container, of: None, was_free: false, answer };
            commands.asked.push(command);
            number
        });
        let waiting = Waiting(number);
        async move {
            let _waiting = waiting;
            answered.await.unwrap_or_else(|_| failed("it is lost"))
        }
        .boxed()
    }
}

fn failed(why: &str) -> Result<(), ExecError> {
    Err(ExecError::Failed(why.to_owned()))
}

/// A run begins.
pub(crate) fn begin(seed: u64) {
    let before = COMMANDS.replace(Commands::NONE);
    drop(before);
    executors::begin(seed);
}

/// Looks at whose the pods are in which a command is to be run.
pub(crate) fn follow(model: &Model) {
    executors::follow(model);
    COMMANDS.with_borrow_mut(|commands| {
        for command in &mut commands.asked {
            let Ok(pod) = model.get(&command.place) else { continue };
            match &command.of {
                None => command.of = Some((uid(pod).to_owned(), mark(pod).to_owned())),
                Some(_) => command.was_free |= mark(pod).is_empty(),
            }
        }
    });
}

/// What must not have happened, and has.
pub(crate) fn wrong() -> Option<String> {
    COMMANDS.with_borrow_mut(|commands| commands.wrong.take())
}

/// One step. Of a thousand steps `failures` make things worse.
pub(crate) fn step(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
    follow(model);
    match random.below(5) {
        0 => run_command(model, random, failures).or_else(|| run_job(model, random, failures)),
        1 => run_job(model, random, failures).or_else(|| forget_job(model, random, failures)),
        2 => executors::step(random),
        _ => None,
    }
    .or_else(|| kubelet(model, random, failures).map(|done| format!("node: {done}")))
    // Nothing is left undone because something else was looked at first.
    .or_else(|| run_command(model, random, failures))
    .or_else(|| run_job(model, random, failures))
    .or_else(|| executors::step(random))
}

fn run_command(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
    let Command { place, container, of, was_free, answer, .. } =
        COMMANDS.with_borrow_mut(|Commands { asked, .. }| {
            let due =
                |(index, command): (usize, &Command)| (command.not_before <= Instant::now()).then_some(index);
            let due: Vec<usize> = asked.iter().enumerate().filter_map(due).collect();
            if due.is_empty() { None } else { Some(asked.remove(*random.pick(&due))) }
        })?;
    // Whoever asked may be gone.
    if random.chance(failures) {
        let _ = answer.send(failed("it is lost"));
        return Some(format!("node: a command in {place} is lost"));
    }
    if let Ok(pod) = model.get(&place) {
        let is_others = of.is_some_and(|(uid_then, mark_then)| {
            uid_then != uid(pod) || (!mark(pod).is_empty() && (was_free || mark_then != mark(pod)))
        });
        if is_others {
            let wrong = format!("containers of {place} are restarted, which is {}'s by now", mark(pod));
            COMMANDS.with_borrow_mut(|commands| commands.wrong = Some(wrong));
        }
        executors::restarted(text(pod, "/status/podIP"));
    }
    restart(model, &place, &container);
    let _ = answer.send(if random.chance(500) { Ok(()) } else { failed("the connection was closed") });
    Some(format!("node: Restart {place}"))
}

fn run_job(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
    let jobs = running_jobs(model);
    if jobs.is_empty() {
        return None;
    }
    let place = random.pick(&jobs).clone();
    let fails = failures > 0 && random.chance(failures + 400);
    let status = match fails {
        true => {
            json!({ "conditions": [{ "type": "Failed", "status": "True", "message": "it did not work" }] })
        }
        false => json!({ "succeeded": 1, "conditions": [{ "type": "Complete", "status": "True" }] }),
    };
    model.patch(&place, Part::Status, &Patch::Merge(json!({ "status": status }))).ok()?;
    Some(format!("job: {place} {}", if fails { "fails" } else { "succeeds" }))
}

/// A Job that has ended is deleted after a while, whoever still wants to know.
fn forget_job(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
    let ended: Vec<Place> =
        model.list(&JOBS).filter(|job| has_ended(job)).map(|job| Place::of(&JOBS, job)).collect();
    if ended.is_empty() || !random.chance(failures) {
        return None;
    }
    let place = random.pick(&ended).clone();
    model.delete(&place, &DeleteOptions::default()).ok()?;
    Some(format!("job: {place} is forgotten"))
}
