//! Label selectors, read and matched as the API server does.
//!
//! The API server selects what a watch shows. Answers to writes come from elsewhere, so the cache selects
//! them itself: otherwise it would keep an object that the watch never shows again.

/// The longest name of a label (its key without the prefix), and the longest value.
const MAX_NAME: usize = 63;
/// The longest prefix of a label's key.
const MAX_PREFIX: usize = 253;

/// Why a text is not a selector. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label selector: {0}")]
pub struct SelectorError(String);

/// A selector that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    /// `=`, `==` and `in`.
    In(Vec<String>),
    /// `!=` and `notin`: also where the label is missing.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Reads a selector as `kubectl -l` takes it. An empty one selects every object.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let parts = if text.trim().is_empty() { Vec::new() } else { split(text)? };
        let requirements = parts.into_iter().map(requirement).collect::<Result<_, _>>()?;
        Ok(Self { text: text.trim().to_owned(), requirements })
    }

    /// The text, for the API server.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether an object with these labels is selected.
    pub(crate) fn selects<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = label(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Missing => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
                Test::Above(bound) => number().is_some_and(|number| number > *bound),
                Test::Below(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, SelectorError> {
    Err(SelectorError(what.into()))
}

/// Splits at the commas outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, SelectorError> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (at, char) in text.char_indices() {
        match char {
            '(' if open => return wrong("a parenthesis inside of another"),
            '(' => open = true,
            ')' if !open => return wrong("a parenthesis that was never opened"),
            ')' => open = false,
            ',' if !open => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return wrong("a parenthesis that is never closed");
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    let text = text.trim();
    if text.is_empty() {
        return wrong("nothing between two commas, or at an end");
    }
    if let Some(rest) = text.strip_prefix('!') {
        return Ok(Requirement { key: key(rest.trim())?, test: Test::Missing });
    }
    let end = text.find(|char: char| char.is_whitespace() || "=!<>(".contains(char)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    Ok(Requirement { key: key(name)?, test: test(rest.trim())? })
}

fn test(text: &str) -> Result<Test, SelectorError> {
    if text.is_empty() {
        return Ok(Test::Exists);
    }
    if let Some(rest) = text.strip_prefix("!=") {
        return Ok(Test::NotIn(vec![value(rest)?]));
    }
    if let Some(rest) = text.strip_prefix("==").or_else(|| text.strip_prefix('=')) {
        return Ok(Test::In(vec![value(rest)?]));
    }
    if let Some(rest) = text.strip_prefix('>') {
        return number(rest).map(Test::Above);
    }
    if let Some(rest) = text.strip_prefix('<') {
        return number(rest).map(Test::Below);
    }
    if let Some(rest) = text.strip_prefix("notin") {
        return values(rest).map(Test::NotIn);
    }
    if let Some(rest) = text.strip_prefix("in") {
        return values(rest).map(Test::In);
    }
    wrong(format!("`{}` is no operator: =, ==, !=, in, notin, < and > are", shown(text)))
}

fn values(text: &str) -> Result<Vec<String>, SelectorError> {
    let inner = text.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    match inner {
        None => wrong(format!("`{}` is not a list of values in parentheses", shown(text.trim()))),
        Some(inner) if inner.trim().is_empty() => wrong("a list of values needs at least one"),
        Some(inner) => inner.split(',').map(value).collect(),
    }
}

fn number(text: &str) -> Result<i64, SelectorError> {
    let text = text.trim();
    text.parse().or_else(|_| wrong(format!("`{}` is no whole number", shown(text))))
}

fn key(text: &str) -> Result<String, SelectorError> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let part = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    let good = prefix.is_none_or(|prefix| prefix.len() <= MAX_PREFIX && prefix.split('.').all(part));
    if good && is_name(name) { Ok(text.to_owned()) } else { wrong(format!("`{}` is no label", shown(text))) }
}

fn value(text: &str) -> Result<String, SelectorError> {
    let text = text.trim();
    if text.is_empty() || is_name(text) {
        return Ok(text.to_owned());
    }
    wrong(format!("`{}` is no label's value", shown(text)))
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME && text.bytes().all(inner) && end(bytes.first()) && end(bytes.last())
}

/// The first 80 bytes of a text, for an error.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(80.min(text.len()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_selects_as_the_api_server_does() {
        let gold = |name: &str| match name {
            "tier" => Some("gold"),
            "n" => Some("6"),
            "example.com/x" => Some(""),
            _ => None,
        };
        for (selector, expected) in [
            ("", true),
            (" ", true),
            ("tier", true),
            ("!tier", false),
            ("tier=gold", true),
            ("tier == gold", true),
            ("tier!=gold", false),
            ("other!=gold", true),
            ("tier in (gold, silver)", true),
            ("tier notin (gold)", false),
            ("other notin (gold)", true),
            ("other in (gold)", false),
            ("n>5,n<7", true),
            ("n>6", false),
            ("tier>1", false),
            ("example.com/x=", true),
            ("tier=gold,n=7", false),
        ] {
            let selector = Selector::parse(selector).unwrap();
            assert_eq!(selector.selects(gold), expected, "{selector:?}");
        }
        assert!(!Selector::parse("a").unwrap().selects(|_| None));
        assert!(Selector::parse("a!=b").unwrap().selects(|_| None));
    }

    #[test]
    fn a_selector_that_the_api_server_refuses_is_refused_with_the_mistake() {
        for (selector, word) in [
            (",", "commas"),
            ("a=b,", "commas"),
            ("=b", "no label"),
            ("-a=b", "no label"),
            ("a/b/c", "no label"),
            ("a b", "no operator"),
            ("a=b c", "no label's value"),
            ("a in b", "parentheses"),
            ("a in ()", "at least one"),
            ("a in (b", "never closed"),
            ("a in b)", "never opened"),
            ("a in ((b))", "inside of another"),
            ("a>b", "no whole number"),
        ] {
            let error = Selector::parse(selector).expect_err(selector).to_string();
            assert!(error.contains(word), "{selector:?} gave {error:?}");
        }
    }
}
