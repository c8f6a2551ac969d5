//! What is seen of a task's process, and what that makes of the task.

use jiff::Timestamp;
use sandgate_executor_wire::{
    EXIT_KILLED, ProcessStatus, REASON_CRASHED, REASON_TIMEOUT, Running, Task, Terminated, Waiting,
};

use crate::clock;
use crate::record::{Record, State, Status, SubStatus};

/// The files and processes of a task at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nobody has claimed its start.
    Unstarted,
    /// Its shim lives.
    Running { started: Timestamp },
    /// Its exit code is known.
    Exited { code: i32, started: Option<Timestamp>, finished: Timestamp },
    /// It was started, and is gone without an exit code.
    Vanished { started: Timestamp },
}

/// The status of a task whose processes are gone, for good.
pub(crate) fn ended(record: &Record, seen: &Seen, now: Timestamp) -> Option<Status> {
    let (code, started, finished) = match *seen {
        Seen::Unstarted | Seen::Running { .. } => return None,
        Seen::Exited { code, started, finished } => (Some(code), started, finished),
        Seen::Vanished { started } => (None, Some(started), now),
    };
    let (exit_code, reason, message) = match (record.sandgate.timed_out_at, code) {
        (Some(_), _) => (EXIT_KILLED, REASON_TIMEOUT, timeout_message(record)),
        (None, None) => (EXIT_KILLED, REASON_CRASHED, "the process ended and left no exit code".to_owned()),
        (None, Some(0)) => (0, "Succeeded", String::new()),
        (None, Some(code)) => (code, "Failed", String::new()),
    };
    Some(Status {
        state: if exit_code == 0 { State::Succeeded } else { State::Failed },
        sub_statuses: vec![SubStatus {
            reason: reason.to_owned(),
            message,
            exit_code,
            started_at: started,
            finished_at: Some(finished),
        }],
    })
}

fn timeout_message(record: &Record) -> String {
    format!("the task ran longer than its timeout of {} seconds", record.timeout().unwrap_or_default())
}

/// The status of a task that runs.
pub(crate) fn running(started: Timestamp) -> Status {
    let of_process = SubStatus { started_at: Some(started), ..SubStatus::default() };
    Status { state: State::Running, sub_statuses: vec![of_process] }
}

/// Why a task waits, for an answer.
pub(crate) fn waiting(reason: &str, message: impl Into<String>) -> ProcessStatus {
    let waiting = Waiting { reason: reason.to_owned(), message: message.into() };
    ProcessStatus { waiting: Some(waiting), ..ProcessStatus::default() }
}

/// The task as the API says it. `hindrance` is why it could not be started yet.
pub(crate) fn answer(record: &Record, hindrance: Option<&str>) -> Task {
    Task {
        name: record.name.clone(),
        deletion_timestamp: record.deletion_timestamp.map(clock::text),
        process: record.process.clone(),
        pod_template_spec: record.pod_template_spec.clone(),
        process_status: Some(process_status(record, hindrance)),
        pod_status: None,
    }
}

fn process_status(record: &Record, hindrance: Option<&str>) -> ProcessStatus {
    let none = SubStatus::default();
    let sub = record.status.sub_statuses.first().unwrap_or(&none);
    let started_at = sub.started_at.map(clock::text);
    if record.status.state.is_final() {
        let terminated = Terminated {
            exit_code: sub.exit_code,
            signal: None,
            reason: sub.reason.clone(),
            message: sub.message.clone(),
            started_at,
            finished_at: sub.finished_at.map(clock::text),
        };
        return ProcessStatus { terminated: Some(terminated), ..ProcessStatus::default() };
    }
    if started_at.is_some() {
        return ProcessStatus { running: Some(Running { started_at }), ..ProcessStatus::default() };
    }
    match hindrance {
        Some(message) => waiting("StartFailed", message),
        None => waiting("Pending", ""),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandgate_executor_wire::{Process, Task};

    use super::{Seen, answer, ended, running};
    use crate::record::{Record, State};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_780_000_000 + second).unwrap()
    }

    fn record() -> Record {
        let process = Process { timeout_seconds: Some(60), ..Process::default() };
        Record::new(Task { name: "t".to_owned(), process: Some(process), ..Task::default() }, 1)
    }

    fn exited(code: i32) -> Seen {
        Seen::Exited { code, started: Some(at(1)), finished: at(2) }
    }

    fn told(record: &Record) -> serde_json::Value {
        serde_json::to_value(answer(record, None).process_status).unwrap()
    }

    #[test]
    fn a_task_that_has_not_started_waits() {
        assert_eq!(ended(&record(), &Seen::Unstarted, at(9)), None);
        assert_eq!(told(&record()), serde_json::json!({"waiting": {"reason": "Pending"}}));
    }

    #[test]
    fn a_task_that_cannot_start_says_why() {
        let told = answer(&record(), Some("no main container")).process_status.unwrap().waiting.unwrap();
        assert_eq!((told.reason.as_str(), told.message.as_str()), ("StartFailed", "no main container"));
    }

    #[test]
    fn a_task_that_runs_says_since_when() {
        let record = Record { status: running(at(0)), ..record() };
        assert_eq!(told(&record), serde_json::json!({"running": {"startedAt": "2026-05-28T20:26:40Z"}}));
    }

    #[test]
    fn exit_code_0_is_success_and_every_other_a_failure() {
        for (code, state, reason) in [(0, State::Succeeded, "Succeeded"), (3, State::Failed, "Failed")] {
            let status = ended(&record(), &exited(code), at(9)).unwrap();
            assert_eq!(status.state, state);
            let record = Record { status, ..record() };
            let want = serde_json::json!({"terminated": {
                "exitCode": code, "reason": reason,
                "startedAt": "2026-05-28T20:26:41Z", "finishedAt": "2026-05-28T20:26:42Z",
            }});
            assert_eq!(told(&record), want);
        }
    }

    #[test]
    fn a_timeout_is_137_however_the_process_ended() {
        let mut record = record();
        record.sandgate.timed_out_at = Some(at(61));
        for seen in [exited(0), exited(143), Seen::Vanished { started: at(1) }] {
            let status = ended(&record, &seen, at(70)).unwrap();
            let sub = &status.sub_statuses[0];
            assert_eq!(
                (status.state, sub.exit_code, sub.reason.as_str()),
                (State::Failed, 137, "TaskTimeout")
            );
            assert_eq!(sub.message, "the task ran longer than its timeout of 60 seconds");
        }
    }

    #[test]
    fn a_process_that_left_no_exit_code_has_crashed() {
        let status = ended(&record(), &Seen::Vanished { started: at(1) }, at(9)).unwrap();
        let sub = &status.sub_statuses[0];
        assert_eq!((sub.exit_code, sub.reason.as_str()), (137, "ProcessCrashed"));
        assert_eq!((sub.started_at, sub.finished_at), (Some(at(1)), Some(at(9))));
    }
}
