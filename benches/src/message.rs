//! As much of HTTP/1.1 as the servers and clients of a run need: where a message ends, and its status.

/// The length of a request without a body, once it is whole.
pub fn request(buffer: &[u8]) -> Option<usize> {
    head(buffer)
}

/// A whole response: its length, its status, and whether the connection ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its length in bytes.
    pub length: usize,
    /// Its status.
    pub status: u16,
    /// Whether the connection ends with it.
    pub last: bool,
}

/// The first response in the buffer, once it is whole. One without `content-length` has no body: nobody here
/// sends chunks.
pub fn response(buffer: &[u8]) -> Option<Response> {
    let head = head(buffer)?;
    let status = std::str::from_utf8(buffer.get(9..12)?).ok()?.parse().ok()?;
    let mut body = 0;
    let mut last = false;
    for line in buffer[..head].split(|&byte| byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            body = std::str::from_utf8(value).ok()?.parse().ok()?;
        } else if name.eq_ignore_ascii_case(b"connection") {
            last = value.eq_ignore_ascii_case(b"close");
        }
    }
    (buffer.len() >= head + body).then_some(Response { length: head + body, status, last })
}

fn head(buffer: &[u8]) -> Option<usize> {
    buffer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_whole_when_its_body_is() {
        let text =
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\nconnection: close\r\n\r\nok\nHTTP/1.1 200";
        let whole = Response { length: text.len() - 12, status: 502, last: true };
        assert_eq!(response(text), Some(whole));
        assert_eq!(response(&text[..whole.length]), Some(whole));
        for cut in 0..whole.length {
            assert_eq!(response(&text[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_request_ends_with_its_empty_line() {
        assert_eq!(request(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET"), Some(27));
        assert_eq!(request(b"GET / HTTP/1.1\r\nhost: a\r\n"), None);
    }
}
