//! The syntax of a label selector, as the API server reads it. One that is wrong would otherwise be refused there, at every
//! list, by a gateway that never becomes ready.

/// Longest part of a label's key behind its prefix, and longest value.
const MAX_NAME: usize = 63;
/// Longest prefix of a label's key.
const MAX_PREFIX: usize = 253;

/// Whether the API server will take it. An empty one selects everything.
///
/// # Errors
/// What is wrong, to follow the name of the key.
pub(super) fn check(selector: &str) -> Result<(), String> {
    if selector.trim().is_empty() {
        return Ok(());
    }
    requirements(selector)?.into_iter().try_for_each(requirement)
}

/// Splits at the commas outside of parentheses.
fn requirements(selector: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (at, char) in selector.char_indices() {
        match char {
            '(' if open => return Err("a parenthesis inside of another".to_owned()),
            '(' => open = true,
            ')' if !open => return Err("a parenthesis that was never opened".to_owned()),
            ')' => open = false,
            ',' if !open => {
                parts.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err("a parenthesis that is never closed".to_owned());
    }
    parts.push(&selector[start..]);
    Ok(parts)
}

fn requirement(text: &str) -> Result<(), String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("nothing between two commas, or at an end".to_owned());
    }
    if let Some(rest) = text.strip_prefix('!') {
        return key(rest.trim());
    }
    let end = text.find(|char: char| char.is_whitespace() || "=!<>(".contains(char)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    key(name)?;
    let rest = rest.trim();
    if rest.is_empty() {
        return Ok(());
    }
    for operator in ["==", "!=", "="] {
        if let Some(rest) = rest.strip_prefix(operator) {
            return value(rest.trim());
        }
    }
    if let Some(rest) = rest.strip_prefix(['<', '>']) {
        let number = rest.trim();
        return number
            .parse::<i64>()
            .map(drop)
            .map_err(|_| format!("`{}` is no whole number", shown(number)));
    }
    for operator in ["notin", "in"] {
        if let Some(rest) = rest.strip_prefix(operator) {
            let inner = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let inner = inner.ok_or_else(|| format!("`{operator}` needs values in parentheses"))?;
            if inner.trim().is_empty() {
                return Err(format!("`{operator}` needs at least one value"));
            }
            return inner.split(',').try_for_each(|text| value(text.trim()));
        }
    }
    Err(format!("`{}` is no operator: =, ==, !=, in, notin, < and > are", shown(rest)))
}

fn key(text: &str) -> Result<(), String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let good = prefix.is_none_or(|prefix| prefix.len() <= MAX_PREFIX && prefix.split('.').all(label));
    if good && !name.is_empty() && is_name(name) {
        return Ok(());
    }
    Err(format!("`{}` is no label", shown(text)))
}

fn value(text: &str) -> Result<(), String> {
    if text.is_empty() || is_name(text) {
        return Ok(());
    }
    Err(format!(
        "`{}` is no label's value: at most {MAX_NAME} of A-Z, a-z, 0-9, '-', '_' and '.'",
        shown(text)
    ))
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME && text.bytes().all(inner) && end(bytes.first()) && end(bytes.last())
}

/// The beginning of a text, for an error.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(80.min(text.len()))]
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_kubectl_takes_is_taken() {
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
        ] {
            assert_eq!(check(selector), Ok(()), "{selector:?}");
        }
    }

    #[test]
    fn what_the_api_server_refuses_is_refused_here_with_what_is_wrong() {
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
            ("a in (b) c", "parentheses"),
            ("é=b", "no label"),
        ] {
            let error = check(selector).expect_err(selector);
            assert!(error.contains(word), "{selector:?} gave {error:?}");
        }
    }
}
