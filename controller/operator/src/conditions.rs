//! The conditions of a status: one of each type, with the time of its last flip.

use jiff::Timestamp;
use sandgate_objects::openkruise::resources::{Condition, Time};

/// A condition to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The type of the condition.
    pub(crate) kind: &'static str,
    /// True or False.
    pub(crate) holds: bool,
    /// Why, in one word for programs.
    pub(crate) reason: &'static str,
    /// Why, for people.
    pub(crate) message: String,
}

/// The condition of this type.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of this type is there and true.
pub(crate) fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// The reason of the condition of this type; empty if there is none.
pub(crate) fn reason<'a>(conditions: &'a [Condition], kind: &str) -> &'a str {
    find(conditions, kind).map_or("", |condition| &condition.reason)
}

/// Puts a condition in. The time of its transition changes only if its status does.
pub(crate) fn put(
    conditions: &mut Vec<Condition>,
    verdict: Verdict,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if verdict.holds { "True" } else { "False" };
    let known = conditions.iter_mut().find(|condition| condition.type_ == verdict.kind);
    let since =
        known.as_ref().filter(|known| known.status == status).map(|it| it.last_transition_time.clone());
    let condition = Condition {
        type_: verdict.kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message,
        observed_generation: generation,
        last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
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

/// Whether two messages are the same but for words that have a digit in them: amounts, times, names of
/// requests.
pub(crate) fn says_the_same(one: &str, other: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-'));
        words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
    }
    words(one).eq(words(other))
}

/// Times in objects have whole seconds.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(holds: bool, reason: &'static str) -> Verdict {
        Verdict { kind: "Ready", holds, reason, message: String::new() }
    }

    #[test]
    fn the_time_of_a_transition_changes_with_the_status_and_not_with_the_reason() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        put(&mut conditions, verdict(false, "A"), Some(1), at(10));
        put(&mut conditions, verdict(false, "B"), Some(2), at(20));
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time.0, at(10));
        assert_eq!((reason(&conditions, "Ready"), conditions[0].observed_generation), ("B", Some(2)));
        put(&mut conditions, verdict(true, "C"), Some(2), at(30));
        assert_eq!(conditions[0].last_transition_time.0, at(30));
        assert!(is_true(&conditions, "Ready"));
        remove(&mut conditions, "Ready");
        assert!(find(&conditions, "Ready").is_none());
    }

    #[test]
    fn messages_that_differ_in_amounts_and_names_of_requests_say_the_same() {
        let quota = "exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10";
        assert!(says_the_same(quota, &quota.replace("used: pods=10", "used: pods=11")));
        assert!(says_the_same("denied (request 5f1c-a9)", "denied (request 77ab-01)"));
        assert!(!says_the_same(quota, "violates PodSecurity \"restricted:latest\""));
        assert!(!says_the_same("pods=1", "cpu=1"));
    }
}
