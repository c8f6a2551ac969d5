//! The conditions of OpenSandbox's kinds: what is true. A condition that would be false is not there.

use std::borrow::Cow;

use jiff::Timestamp;
use sandgate_objects::opensandbox::resources::{Condition, Time};

use crate::conditions::whole_seconds;

/// Why a condition is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// In one word for programs.
    pub(crate) reason: Cow<'static, str>,
    /// For people.
    pub(crate) message: String,
}

/// The condition of this type.
#[cfg(test)]
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

impl Fact {
    /// A condition is true for this reason.
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

/// Puts a condition in. The time of its transition changes only if something else of it does.
pub(crate) fn put(conditions: &mut Vec<Condition>, kind: &str, fact: Fact, now: Timestamp) {
    let Fact { reason, message } = fact;
    let known = conditions.iter_mut().find(|condition| condition.type_ == kind);
    if let Some(known) = &known
        && (known.status.as_str(), &*known.reason, &known.message) == ("True", &*reason, &message)
    {
        return;
    }
    let condition = Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.into_owned(),
        message,
        last_transition_time: Some(Time(whole_seconds(now))),
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// Takes the condition of this type out.
pub(crate) fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.type_ != kind);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_changes_with_the_reason_and_with_the_message_and_not_otherwise() {
        let mut conditions = Vec::new();
        let mut times = Vec::new();
        for (second, reason, message) in [(10, "A", "x"), (20, "A", "x"), (30, "A", "y"), (40, "B", "y")] {
            put(&mut conditions, "Ready", Fact::new(reason, message), at(second));
            let time = find(&conditions, "Ready").unwrap().last_transition_time.clone().unwrap();
            times.push(time.0.as_second());
        }
        assert_eq!((conditions.len(), times), (1, vec![10, 10, 30, 40]));
    }

    #[test]
    fn what_another_operator_left_as_false_becomes_true() {
        let mut conditions = vec![Condition {
            type_: "Ready".to_owned(),
            status: "False".to_owned(),
            reason: "A".to_owned(),
            ..Condition::default()
        }];
        put(&mut conditions, "Ready", Fact::new("A", ""), at(10));
        assert_eq!(find(&conditions, "Ready").unwrap().status, "True");
        remove(&mut conditions, "Ready");
        assert_eq!(find(&conditions, "Ready"), None);
    }
}
