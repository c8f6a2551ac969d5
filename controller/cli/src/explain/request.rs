//! A URL and headers of the command line, as the filter would see them.

use super::Header;

/// The headers of the request, pseudo headers first. What cannot be sent is an error.
pub(super) fn headers(url: &str, method: &str, given: &[String]) -> Result<Vec<Header>, String> {
    if url.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return Err("a URL has no spaces or control characters: encode them (%20)".to_owned());
    }
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme @ ("http" | "https" | "ws" | "wss"), rest)) => (Some(scheme), rest),
        Some((scheme, _)) if !scheme.contains(['/', '?']) => {
            return Err(format!("expected http or https, found the scheme {scheme}"));
        }
        _ => (None, url),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    // User and password of a URL are sent as a header, never as part of the host.
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_some() && host.is_empty() {
        return Err("expected a host after ://".to_owned());
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };

    let mut authority = host.to_owned();
    let mut headers = Vec::new();
    for header in given {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| format!("a header is written as 'Name: value', found {:?}", shown(header)))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
        {
            return Err(format!("{:?} is no name of a header", shown(&name)));
        }
        if value.chars().any(char::is_control) {
            return Err(format!("the header {name} has a control character"));
        }
        if name == "host" {
            value.clone_into(&mut authority);
        } else {
            headers.push((name, value.as_bytes().to_vec()));
        }
    }
    let mut all: Vec<Header> = vec![
        (":method".to_owned(), method.to_ascii_uppercase().into_bytes()),
        (":path".to_owned(), path.into_bytes()),
    ];
    if !authority.is_empty() {
        all.push((":authority".to_owned(), authority.into_bytes()));
    }
    all.extend(headers);
    Ok(all)
}

/// The beginning: what was meant as a header may be a token.
fn shown(text: &str) -> String {
    text.chars().take(8).chain("…".chars()).collect()
}
