//! The syntax of a label selector, as the API server reads it.
//!
//! A wrong selector is refused when the settings are read. Otherwise the API server would refuse it at every
//! list, and the gateway would never become ready.

/// The longest name of a label (its key without the prefix), and the longest value.
const MAX_NAME: usize = 63;
/// The longest prefix of a label's key.
const MAX_PREFIX: usize = 253;

/// What the API server takes for space, and no more: Unicode has others.
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Why the API server would refuse a selector. The texts follow "found". A retry does not help.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    #[error("a parenthesis inside of another")]
    Nested,
    #[error("a parenthesis that was never opened")]
    NotOpened,
    #[error("a parenthesis that is never closed")]
    NotClosed,
    #[error("nothing between two commas, or at an end")]
    Empty,
    #[error("`{0}` is no whole number")]
    Number(String),
    #[error("`{0}` needs values in parentheses")]
    Unparenthesized(&'static str),
    #[error("`{0}` needs at least one value")]
    NoValue(&'static str),
    #[error("`{0}` is no operator: =, ==, !=, in, notin, < and > are")]
    Operator(String),
    #[error("`{0}` is no label")]
    Key(String),
    #[error("`{0}` is no label's value: at most {MAX_NAME} of A-Z, a-z, 0-9, '-', '_' and '.'")]
    Value(String),
}

/// Whether the API server accepts a selector. An empty one selects every object.
///
/// # Errors
/// The first mistake.
pub(super) fn check(selector: &str) -> Result<(), SelectorError> {
    if trimmed(selector).is_empty() {
        return Ok(());
    }
    requirements(selector)?.into_iter().try_for_each(requirement)
}

/// Splits a selector at the commas outside of parentheses.
fn requirements(selector: &str) -> Result<Vec<&str>, SelectorError> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (at, char) in selector.char_indices() {
        match char {
            '(' if open => return Err(SelectorError::Nested),
            '(' => open = true,
            ')' if !open => return Err(SelectorError::NotOpened),
            ')' => open = false,
            ',' if !open => {
                parts.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(SelectorError::NotClosed);
    }
    parts.push(&selector[start..]);
    Ok(parts)
}

fn requirement(text: &str) -> Result<(), SelectorError> {
    let text = trimmed(text);
    if text.is_empty() {
        return Err(SelectorError::Empty);
    }
    if let Some(rest) = text.strip_prefix('!') {
        return key(trimmed(rest));
    }
    let end = text.find(|char| SPACES.contains(&char) || "=!<>(".contains(char)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    key(name)?;
    let rest = trimmed(rest);
    if rest.is_empty() {
        return Ok(());
    }
    for operator in ["==", "!=", "="] {
        if let Some(rest) = rest.strip_prefix(operator) {
            return value(trimmed(rest));
        }
    }
    if let Some(rest) = rest.strip_prefix(['<', '>']) {
        // It is a label's value as well, so it has no sign.
        let number = trimmed(rest);
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && number.parse::<i64>().is_ok();
        return if is_number && is_name(number) { Ok(()) } else { Err(SelectorError::Number(shown(number))) };
    }
    for operator in ["notin", "in"] {
        if let Some(rest) = rest.strip_prefix(operator) {
            let inner = trimmed(rest).strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let inner = inner.ok_or(SelectorError::Unparenthesized(operator))?;
            if trimmed(inner).is_empty() {
                return Err(SelectorError::NoValue(operator));
            }
            return inner.split(',').try_for_each(|text| value(trimmed(text)));
        }
    }
    Err(SelectorError::Operator(shown(rest)))
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(SPACES)
}

fn key(text: &str) -> Result<(), SelectorError> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let good = prefix.is_none_or(|prefix| prefix.len() <= MAX_PREFIX && prefix.split('.').all(label));
    if good && !name.is_empty() && is_name(name) {
        return Ok(());
    }
    Err(SelectorError::Key(shown(text)))
}

fn value(text: &str) -> Result<(), SelectorError> {
    if text.is_empty() || is_name(text) {
        return Ok(());
    }
    Err(SelectorError::Value(shown(text)))
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME && text.bytes().all(inner) && end(bytes.first()) && end(bytes.last())
}

/// The first 80 bytes of a text, for an error.
fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(80.min(text.len()))].to_owned()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_selector_that_kubectl_accepts_is_accepted() {
        for selector in [
            "",
            " ",
            "a",
            "!a",
            "! a",
            "a=b",
            "a==b",
            "a!=b",
            "a = b , c != d",
            "a=",
            "a!=",
            "tier in (gold,silver)",
            "tier in (gold, silver),!old",
            "tier notin(gold)",
            "tier in (gold,,)",
            "example.com/tier=gold",
            "a.b-c.d/E_f.g-9=X_y.z-0",
            "n>5,n<7",
            "in=notin",
            "in in (in)",
            "a in (,)",
            "a\tin\r\n(b)",
            "n>005",
            "n > 9223372036854775807",
        ] {
            assert_eq!(check(selector), Ok(()), "{selector:?}");
        }
    }

    #[test]
    fn a_selector_that_the_api_server_refuses_is_refused_with_the_mistake() {
        let long = format!("a={}", "x".repeat(64));
        for (selector, word) in [
            (",", "commas"),
            ("a=b,", "commas"),
            ("a=b,,c=d", "commas"),
            ("!", "no label"),
            ("=b", "no label"),
            ("-a=b", "no label"),
            ("a_=b", "no label"),
            ("Example.com/a=b", "no label"),
            ("/a", "no label"),
            ("a/b/c", "no label"),
            ("a b", "no operator"),
            ("a is b", "no operator"),
            ("a=b c", "no label's value"),
            ("a=-b", "no label's value"),
            ("a=b=c", "no label's value"),
            (long.as_str(), "no label's value"),
            ("a in b", "parentheses"),
            ("a in ()", "at least one"),
            ("a in (b", "never closed"),
            ("a in b)", "never opened"),
            ("a in ((b))", "inside of another"),
            ("a in (b c)", "no label's value"),
            ("a>b", "no whole number"),
            ("a>", "no whole number"),
            ("a>-5", "no whole number"),
            ("a<+5", "no whole number"),
            ("a>5.0", "no whole number"),
            ("a>9223372036854775808", "no whole number"),
            ("a>=5", "no whole number"),
            ("a\u{a0}in (b)", "no label"),
            ("a=\u{a0}b", "no label's value"),
            ("a in (\u{2003}b)", "no label's value"),
            ("\u{b}a", "no label"),
            ("\u{a0}", "no label"),
            ("a=b;c=d", "no label's value"),
            ("a in (b=c)", "no label's value"),
            ("a inb (c)", "parentheses"),
            ("(a=b)", "no label"),
            ("a===b", "no label's value"),
            ("a!", "no operator"),
            ("!a=b", "no label"),
            ("a in (b) c", "parentheses"),
            ("é=b", "no label"),
        ] {
            let error = check(selector).expect_err(selector).to_string();
            assert!(error.contains(word), "{selector:?} gave {error:?}");
        }
    }
}
