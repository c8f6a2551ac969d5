//! A URL and headers of the command line, as the filter would see them.

use hyper::header::HeaderName;

use super::Header;
use crate::failure::{Failure, usage};

/// The headers of the request, pseudo headers first. What cannot be sent is an error.
pub(super) fn headers(url: &str, method: &str, given: &[String]) -> Result<Vec<Header>, Failure> {
    if url.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return Err(Failure::usage("a URL has no spaces or control characters: encode them (%20)"));
    }
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme @ ("http" | "https" | "ws" | "wss"), rest)) => (Some(scheme), rest),
        Some((scheme, _)) if !scheme.contains(['/', '?']) => {
            return Err(usage!("expected http or https, found the scheme {scheme}"));
        }
        _ => (None, url),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    // User and password of a URL are sent as a header, never as part of the host.
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_some() && host.is_empty() {
        return Err(Failure::usage("expected a host after ://"));
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };

    let mut authority = host.to_owned();
    let mut headers = Vec::new();
    for header in given {
        let Some((name, value)) = header.split_once(':') else {
            let found = shown(header);
            return Err(usage!("a header is written as 'Name: value', found {found:?}"));
        };
        let (name, value) = (name.trim(), value.trim());
        let Ok(name) = name.parse::<HeaderName>() else {
            return Err(usage!("{:?} is no name of a header", shown(name)));
        };
        if value.chars().any(char::is_control) {
            return Err(usage!("the header {name} has a control character"));
        }
        if name == "host" {
            value.clone_into(&mut authority);
        } else {
            headers.push((name.as_str().to_owned(), value.as_bytes().to_vec()));
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
