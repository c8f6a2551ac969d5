//! Label selectors, as `labelSelector` of a list or a watch has them.

use serde_json::Value;

use super::{Refusal, object};

/// What the labels of an object must be. Empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    /// 400 if it is not a selector.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let mut depth = 0_usize;
        let parts = text.split(|at: char| {
            match at {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at == ',' && depth == 0
        });
        parts
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(requirement)
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(|| Refusal::bad(format!("unable to parse requirement: {text}")))
    }

    /// Whether the object has what is asked for.
    pub fn selects(&self, of: &Value) -> bool {
        let labels = of.pointer("/metadata/labels");
        let has = |name: &str| labels.is_some_and(|labels| labels.get(name).is_some());
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(name, values) => has(name) && values.iter().any(|v| v == object::label(of, name)),
            Requirement::NotIn(name, values) => {
                !has(name) || values.iter().all(|v| v != object::label(of, name))
            }
            Requirement::Exists(name) => has(name),
            Requirement::Absent(name) => !has(name),
        })
    }
}

fn requirement(part: &str) -> Option<Requirement> {
    let one = |(name, value): (&str, &str)| (name.trim().to_owned(), vec![value.trim().to_owned()]);
    let set = |(name, values): (&str, &str)| {
        let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some((name.trim().to_owned(), values.split(',').map(|value| value.trim().to_owned()).collect()))
    };
    if let Some(split) = part.split_once(" notin ") {
        return set(split).map(|(name, values)| Requirement::NotIn(name, values));
    }
    if let Some(split) = part.split_once(" in ") {
        return set(split).map(|(name, values)| Requirement::In(name, values));
    }
    if let Some(split) = part.split_once("!=") {
        let (name, values) = one(split);
        return Some(Requirement::NotIn(name, values));
    }
    if let Some(split) = part.split_once("==").or_else(|| part.split_once('=')) {
        let (name, values) = one(split);
        return Some(Requirement::In(name, values));
    }
    if part.contains(|at: char| at.is_whitespace() || "()<>".contains(at)) {
        return None;
    }
    match part.strip_prefix('!') {
        Some(name) => Some(Requirement::Absent(name.to_owned())),
        None => Some(Requirement::Exists(part.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Selector;

    #[test]
    fn a_selector_selects_what_the_api_server_selects() {
        let pod = json!({ "metadata": { "labels": { "app": "web", "empty": "" } } });
        let bare = json!({ "metadata": {} });
        for (text, selects_pod, selects_bare) in [
            ("", true, true),
            ("app=web", true, false),
            ("app==web", true, false),
            ("app=db", false, false),
            ("app!=web", false, true),
            ("app in (db, web)", true, false),
            ("app notin (db,web)", false, true),
            ("app", true, false),
            ("!app", false, true),
            ("empty=", true, false),
            ("app=web,!other,empty", true, false),
        ] {
            let selector = Selector::parse(text).expect(text);
            assert_eq!(selector.selects(&pod), selects_pod, "{text:?} of a pod with labels");
            assert_eq!(selector.selects(&bare), selects_bare, "{text:?} of a pod without");
        }
        assert!(Selector::parse("app in web").is_err());
        assert!(Selector::parse("app web").is_err());
    }
}
