//! Every mistake of a config file, where loading stops at the first.
//!
//! What is wrong is taken out and the rest is checked again, until nothing is wrong. A complaint about what
//! held the part that was taken out (that it is missing there) is a consequence and ends the search in that
//! section.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Config, Mistake};

/// A file with more is told so many.
const MOST: usize = 50;

impl Config {
    /// What is wrong with a file, each as `FILE:LINE:COLUMN: KEY: REASON`. Empty if it can be loaded.
    pub(crate) fn mistakes(path: &Path, base: &Value) -> Vec<String> {
        let name = path.display();
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let mut found = mistakes(&text, base);
                found.sort_by_key(|mistake| mistake.at);
                found.into_iter().map(|mistake| format!("{name}:{mistake}")).collect()
            }
            Err(error) => vec![format!("{name}: cannot be read: {error}")],
        }
    }
}

fn mistakes(text: &str, base: &Value) -> Vec<Mistake> {
    let sections = match Config::sections(text) {
        Ok(sections) => sections,
        Err(mistake) => return vec![mistake],
    };
    // One at a time: what is wrong in one section does not hide another's.
    sections
        .into_iter()
        .flat_map(|section| in_section(text, Map::from_iter([section]), base))
        .take(MOST)
        .collect()
}

fn in_section(text: &str, section: Map<String, Value>, base: &Value) -> Vec<Mistake> {
    let mut left = Value::Object(section);
    let (mut found, mut removed) = (Vec::new(), Vec::<String>::new());
    while let Value::Object(sections) = &left
        && let Err(mistake) = Config::check(text, sections.clone(), base.clone())
        && found.len() < MOST
    {
        let key = mistake.key.clone();
        let below = |removed: &String| {
            removed.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if removed.iter().any(below) {
            break;
        }
        found.push(mistake);
        if !remove(&mut left, &key) {
            break;
        }
        removed.push(key);
    }
    found
}

/// Takes out what stands at a path such as `filter.dialects.kruise` or `gateway.providers[0].kind`. An item
/// of a list stays, so that those after it keep their numbers.
fn remove(value: &mut Value, path: &str) -> bool {
    let path = path.replace(['.', '['], "/").replace(']', "");
    let (above, key) = path.rsplit_once('/').unwrap_or(("", &path));
    let above = if above.is_empty() { above.to_owned() } else { format!("/{above}") };
    let keys = value.pointer_mut(&above).and_then(Value::as_object_mut);
    keys.is_some_and(|keys| keys.remove(key).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{mistakes, remove};

    fn found(text: &str) -> Vec<String> {
        let places = mistakes(text, &json!({})).into_iter();
        places
            .map(|mistake| mistake.to_string().splitn(3, ": ").take(2).collect::<Vec<_>>().join(": "))
            .collect()
    }

    #[test]
    fn every_mistake_is_found_and_no_consequence_of_one() {
        let text = "filter:\n  colour: blue\n  enable-auth: perhaps\n  dialects:\n    kruise:\n      default-port: 70000\n\
                    gateway:\n  routes-file: 3\n  max-tombstones: 0\nfilters: {}\n";
        let mut places = found(text);
        places.sort();
        assert_eq!(
            places,
            [
                "10:1: filters",
                "2:3: filter.colour",
                "3:3: filter.enable-auth",
                "6:7: filter.dialects.kruise.default-port",
                "8:3: gateway.routes-file",
                "9:3: gateway.max-tombstones",
            ]
        );
        // That the kind is missing then would be news to nobody.
        let kind = "gateway:\n  kubernetes:\n    providers:\n      - kind: docker\n";
        assert_eq!(found(kind).len(), 1, "{:?}", found(kind));
        assert_eq!(found("filter: [\n").len(), 1);
        assert_eq!(found("filter: { enable-auth: true }\n"), Vec::<String>::new());
    }

    #[test]
    fn what_stands_at_a_path_is_taken_out_and_nothing_else() {
        let mut value = json!({ "a": { "b": [{ "c": 1, "d": 2 }, 3] } });
        assert!(remove(&mut value, "a.b[0].c"));
        assert_eq!(value, json!({ "a": { "b": [{ "d": 2 }, 3] } }));
        for missing in ["a.x", "a.b[7].c", "a.b[1].c", "a.b[0]", "x", ""] {
            assert!(!remove(&mut value, missing), "{missing}");
        }
    }
}
