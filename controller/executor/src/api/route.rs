//! From a request to an answer.

use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, StatusCode};
use sandgate_executor_wire::{GET_TASKS, HEALTH, MAX_REQUEST, SET_TASKS, TASKS, Task};

use super::answer::{self, Answered};
use super::token::Tokens;
use crate::actor::{Answer, Command, Handle};

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Health,
    Get,
    Set,
    Create,
    Read(String),
    Delete(String),
    Method(&'static str),
    Unknown,
}

fn route(method: &Method, path: &str) -> Route {
    let reads = *method == Method::GET || *method == Method::HEAD;
    match path {
        HEALTH if reads => Route::Health,
        HEALTH => Route::Method("GET"),
        GET_TASKS if reads => Route::Get,
        GET_TASKS => Route::Method("GET"),
        SET_TASKS if *method == Method::POST => Route::Set,
        SET_TASKS => Route::Method("POST"),
        TASKS if *method == Method::POST => Route::Create,
        TASKS => Route::Method("POST"),
        _ => {
            let name = path.strip_prefix(TASKS).and_then(|rest| rest.strip_prefix('/'));
            match name.filter(|name| !name.is_empty() && !name.contains('/')).and_then(decoded) {
                Some(name) if reads => Route::Read(name),
                Some(name) if *method == Method::DELETE => Route::Delete(name),
                Some(_) => Route::Method("GET, DELETE"),
                None => Route::Unknown,
            }
        }
    }
}

/// Without its percent signs.
fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Answers a request.
pub(crate) async fn respond(request: Request<Incoming>, tasks: Handle, tokens: Option<Tokens>) -> Answered {
    let route = route(request.method(), request.uri().path());
    if route == Route::Health {
        return answer::json(StatusCode::OK, &serde_json::json!({"status": "healthy"}));
    }
    let shown = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
    if tokens.is_some_and(|tokens| !tokens.admit(shown)) {
        return answer::and_close(answer::unauthorized());
    }
    let (what, command) = match route {
        Route::Get => ("failed to list tasks", Command::List),
        Route::Read(name) => ("failed to get task", Command::Get(name)),
        Route::Delete(name) => ("failed to delete task", Command::Delete(name)),
        Route::Create => match read(request).await.and_then(|body| created(&body)) {
            Ok(task) => ("failed to create task", Command::Create(Box::new(task))),
            Err(answer) => return *answer,
        },
        Route::Set => match read(request).await.and_then(|body| parsed(&body)) {
            Ok(wanted) => ("failed to sync tasks", Command::Set(listed(wanted))),
            Err(answer) => return *answer,
        },
        Route::Method(allowed) => return answer::method_not_allowed(allowed),
        Route::Unknown | Route::Health => {
            return answer::error(StatusCode::NOT_FOUND, "there is no such path");
        }
    };
    let created = matches!(command, Command::Create(_));
    match tasks.ask(command).await {
        Ok(Ok(Answer::Tasks(tasks))) => answer::json(StatusCode::OK, &tasks),
        Ok(Ok(Answer::Task(task))) if created => answer::json(StatusCode::CREATED, &task),
        Ok(Ok(Answer::Task(task))) => answer::json(StatusCode::OK, &task),
        Ok(Ok(Answer::NotFound)) => answer::error(StatusCode::NOT_FOUND, "task not found"),
        Ok(Ok(Answer::Deleted)) => answer::empty(),
        Ok(Err(why)) => answer::refused(what, &why),
        Err(gone) => answer::error(StatusCode::INTERNAL_SERVER_ERROR, format!("{what}: {gone}")),
    }
}

/// An answer in place of a body.
type Unread = Box<Answered>;

async fn read(request: Request<Incoming>) -> Result<Bytes, Unread> {
    let wrong = |status, message: &str| Err(Box::new(answer::and_close(answer::error(status, message))));
    match tokio::time::timeout(PATIENCE, Limited::new(request.into_body(), MAX_REQUEST).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            wrong(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 1 MiB")
        }
        Ok(Err(error)) => wrong(StatusCode::BAD_REQUEST, &format!("invalid request body: {error}")),
        Err(_) => wrong(StatusCode::REQUEST_TIMEOUT, "the body did not come in 30 seconds"),
    }
}

fn parsed<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Unread> {
    serde_json::from_slice(body).map_err(|error| {
        Box::new(answer::error(StatusCode::BAD_REQUEST, format!("invalid request body: {error}")))
    })
}

fn created(body: &[u8]) -> Result<Task, Unread> {
    let task: Task = parsed(body)?;
    if task.name.is_empty() {
        return Err(Box::new(answer::error(StatusCode::BAD_REQUEST, "task name is required")));
    }
    Ok(task)
}

/// `null` is an empty list, and in a list a task without a name.
fn listed(wanted: Option<Vec<Option<Task>>>) -> Vec<Task> {
    wanted.unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::{Route, decoded, route};

    #[test]
    fn the_paths_are_opensandboxs() {
        for (method, path, want) in [
            (Method::GET, "/health", Route::Health),
            (Method::GET, "/getTasks", Route::Get),
            (Method::HEAD, "/getTasks", Route::Get),
            (Method::POST, "/setTasks", Route::Set),
            (Method::POST, "/tasks", Route::Create),
            (Method::GET, "/tasks/a", Route::Read("a".to_owned())),
            (Method::DELETE, "/tasks/a%20b", Route::Delete("a b".to_owned())),
            (Method::GET, "/tasks", Route::Method("POST")),
            (Method::GET, "/setTasks", Route::Method("POST")),
            (Method::POST, "/getTasks", Route::Method("GET")),
            (Method::PUT, "/tasks/a", Route::Method("GET, DELETE")),
            (Method::POST, "/health", Route::Method("GET")),
            (Method::GET, "/tasks/", Route::Unknown),
            (Method::GET, "/tasks/a/b", Route::Unknown),
            (Method::GET, "/gettasks", Route::Unknown),
            (Method::GET, "/", Route::Unknown),
        ] {
            assert_eq!(route(&method, path), want, "{method} {path}");
        }
    }

    #[test]
    fn a_name_that_is_not_written_well_is_none() {
        for wrong in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
        assert_eq!(decoded("%C3%BC%2f").as_deref(), Some("ü/"));
    }
}
