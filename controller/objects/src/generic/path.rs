//! Paths to fields: `metadata.labels["x/y"]`, `status.podIPs[0].ip`, `status.conditions[type=Ready].status`.
//!
//! A step is a key, a key in quotes, a place in a list, or a filter: the first element of a list whose keys have all
//! those values. In a filter a boolean is written as a text.

use std::fmt;

use crate::decode::is_plain;

#[cfg(test)]
mod tests;

pub(crate) const MAX_PATH: usize = 512;
pub(crate) const MAX_STEPS: usize = 16;

/// What [`FieldPath::parse`] takes, for the schema.
pub(crate) const PATTERN: &str = concat!(
    r#"^([A-Za-z0-9_-]+|\["[^"\\]+"\])"#,
    r#"(\.[A-Za-z0-9_-]+|\["[^"\\]+"\]|\[(0|[1-9][0-9]{0,2})\]"#,
    r#"|\[[A-Za-z0-9_-]+=([A-Za-z0-9._/-]+|"[^"\\]*")(,[A-Za-z0-9_-]+=([A-Za-z0-9._/-]+|"[^"\\]*"))*\]"#,
    r#"){0,15}$"#,
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
    Where(Vec<(String, String)>),
}

/// A checked path, and how it was written.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FieldPath {
    text: String,
    steps: Vec<Step>,
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FieldPath {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > MAX_PATH {
            return Err("expected a path of 1 to 512 bytes");
        }
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let step = if let Some(inner) = rest.strip_prefix('[') {
                bracketed(inner, &mut rest)?
            } else {
                let key = match rest.strip_prefix('.') {
                    Some(key) if !steps.is_empty() => key,
                    Some(_) => return Err("a path begins with a key"),
                    None if steps.is_empty() => rest,
                    None => return Err("expected '.' or '[' between two steps"),
                };
                let end = key.find(['.', '[']).unwrap_or(key.len());
                if !is_plain(&key[..end]) {
                    return Err(
                        "a key with other characters than A-Z, a-z, 0-9, '-' and '_' is written [\"key\"]",
                    );
                }
                rest = &key[end..];
                Step::Key(key[..end].to_owned())
            };
            if steps.is_empty() && !matches!(step, Step::Key(_)) {
                return Err("a path begins with a key");
            }
            steps.push(step);
            if steps.len() > MAX_STEPS {
                return Err("expected at most 16 steps");
            }
        }
        Ok(Self { text: text.to_owned(), steps })
    }
}

/// What is between brackets; `rest` becomes what follows them.
fn bracketed<'a>(inner: &'a str, rest: &mut &'a str) -> Result<Step, &'static str> {
    if inner.starts_with('"') {
        let (key, after) = quoted(inner)?;
        *rest = after.strip_prefix(']').ok_or("expected ']' after the quotes")?;
        if key.is_empty() {
            return Err("a key cannot be empty");
        }
        return Ok(Step::Key(key.to_owned()));
    }
    if inner.starts_with(|c: char| c.is_ascii_digit())
        && let Some((digits, after)) = inner.split_once(']')
        && !digits.contains('=')
    {
        *rest = after;
        let canonical = digits == "0" || !digits.starts_with('0');
        return match digits.parse::<usize>() {
            Ok(index) if canonical && index < 1000 => Ok(Step::Index(index)),
            _ => Err("expected a place in a list from 0 to 999"),
        };
    }
    let mut tests = Vec::new();
    let mut at = inner;
    loop {
        let (key, value) = at.split_once('=').ok_or("expected [\"key\"], [0] or [key=value]")?;
        if !is_plain(key) {
            return Err("expected a key of A-Z, a-z, 0-9, '-' and '_' before '='");
        }
        let (value, after) = if value.starts_with('"') {
            quoted(value)?
        } else {
            let end = value.find([',', ']']).ok_or("expected ']'")?;
            value.split_at(end)
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
        if !at[key.len() + 1..].starts_with('"') && (value.is_empty() || !value.chars().all(plain)) {
            return Err(
                "a value with other characters than A-Z, a-z, 0-9, '.', '_', '/' and '-' is written in quotes",
            );
        }
        tests.push((key.to_owned(), value.to_owned()));
        if let Some(after) = after.strip_prefix(']') {
            *rest = after;
            return Ok(Step::Where(tests));
        }
        at = after.strip_prefix(',').ok_or("expected ',' or ']' after a value")?;
    }
}

/// A text in quotes and what follows it.
fn quoted(text: &str) -> Result<(&str, &str), &'static str> {
    let (value, after) = text[1..].split_once('"').ok_or("the quotes are not closed")?;
    if value.contains('\\') {
        return Err("a backslash cannot be written");
    }
    Ok((value, after))
}
