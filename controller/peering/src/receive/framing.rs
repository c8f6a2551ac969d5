//! Requests whose length is said in two ways.
//!
//! A request with both `Content-Length` and `Transfer-Encoding` may be read in two ways, and a proxy in front
//! of the receiver may have read it in the other one: what it took for a body is then a request here. hyper
//! reads such a request by its `Transfer-Encoding` and drops the other header, so a handler cannot see it.
//! [`Framing`] looks at the bytes before hyper does:
//!
//! 1. A head is read line by line. A line ends with LF, the head with an empty line; that is how hyper reads
//!    it.
//! 2. With `Content-Length` alone as many bytes are skipped, and the next head begins.
//! 3. With `Transfer-Encoding` nothing more is looked at: the connection ends after that request, so hyper
//!    reads no further head of it.
//! 4. With both, or with a `Content-Length` that cannot be read here, the connection is
//!    [`ambiguous`](Framing::is_ambiguous), and no request on it is answered but with 400. Else whoever pads
//!    a number past [`LINE`] could hide the next head.
//!
//! A head that hyper cannot read ends the connection, so it does not matter what is made of it here.

/// Longer than the names and numbers that are looked for. What is longer is not read.
const LINE: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Framing {
    at: At,
    /// The beginning of the line, and how long it is.
    line: Vec<u8>,
    length: usize,
    content_length: Option<u64>,
    sized: bool,
    encoded: bool,
    ambiguous: bool,
}

#[derive(Debug, Default)]
enum At {
    /// Before the request line: empty lines do not count.
    #[default]
    Start,
    Headers,
    Body(u64),
    /// Nothing more is looked at.
    End,
}

impl Framing {
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    /// Looks at bytes in the order in which they come.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.at {
                At::End => return,
                At::Body(left) => {
                    let skipped = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = &bytes[skipped..];
                    let left = left - skipped as u64;
                    self.at = if left == 0 { At::Start } else { At::Body(left) };
                }
                At::Start | At::Headers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    self.line
                        .extend_from_slice(&part[..part.len().min(LINE.saturating_sub(self.line.len()))]);
                    self.length += part.len();
                    bytes = &bytes[end.map_or(bytes.len(), |end| end + 1)..];
                    if end.is_some() {
                        self.line_ends();
                    }
                }
            }
        }
    }

    fn line_ends(&mut self) {
        let empty = self.length == 0 || (self.length == 1 && self.line == b"\r");
        match self.at {
            At::Start if !empty => self.at = At::Headers,
            At::Headers if empty => self.head_ends(),
            At::Headers => self.header(),
            _ => {}
        }
        self.line.clear();
        self.length = 0;
    }

    fn header(&mut self) {
        let Some(colon) = self.line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&self.line[..colon], &self.line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"content-length") {
            self.sized = true;
            let whole = (self.length <= LINE).then_some(value);
            self.content_length = whole.and_then(|value| str::from_utf8(value).ok()?.trim().parse().ok());
            self.ambiguous |= self.content_length.is_none();
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.encoded = true;
        }
    }

    fn head_ends(&mut self) {
        self.ambiguous |= self.sized && self.encoded;
        self.at = match (self.encoded, self.content_length) {
            (true, _) => At::End,
            (_, Some(length)) if length > 0 => At::Body(length),
            _ => At::Start,
        };
        (self.sized, self.encoded, self.content_length) = (false, false, None);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_ambiguous(text: &str) -> bool {
        let mut framing = Framing::default();
        framing.feed(text.as_bytes());
        framing.is_ambiguous()
    }

    #[test]
    fn both_lengths_are_found_in_either_order_and_case_and_behind_a_body() {
        let head = "POST / HTTP/1.1\r\nhost: a\r\n";
        for text in [
            format!("{head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"),
            format!("{head}Transfer-Encoding:chunked\r\nCONTENT-LENGTH:5\r\n\r\n"),
            format!("\r\n\r\n{head}content-length: 5\ntransfer-encoding: chunked\n\n"),
            format!(
                "{head}content-length: 3\r\n\r\nabc{head}content-length: 3\r\ntransfer-encoding: x\r\n\r\n"
            ),
            format!("{head}\r\n{head}content-length: x\r\ntransfer-encoding: x\r\n\r\n"),
            format!("{head}{}\r\ncontent-length: 0\r\ntransfer-encoding: x\r\n\r\n", "x: y".repeat(100)),
        ] {
            assert!(is_ambiguous(&text), "{text:?}");
        }
    }

    #[test]
    fn one_length_is_not_two_and_what_a_body_says_does_not_count() {
        let head = "POST / HTTP/1.1\r\nhost: a\r\n";
        let both = "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
        for text in [
            format!("{head}content-length: 5\r\n\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\n{head}{both}"),
            format!("{head}content-length: {}\r\n\r\n{head}{both}", head.len() + both.len()),
            format!("{head}x-content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"),
            format!("{head}x: content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"),
            // The head has not ended.
            format!("{head}content-length: 5\r\ntransfer-encoding: chunked\r\n"),
        ] {
            assert!(!is_ambiguous(&text), "{text:?}");
        }
    }

    #[test]
    fn a_length_that_cannot_be_read_is_refused() {
        let head = "POST / HTTP/1.1\r\nhost: a\r\n";
        for length in [
            format!("{}0", " ".repeat(60)),
            format!("{}7", "0".repeat(60)),
            format!("7{}", " ".repeat(60)),
            "x".to_owned(),
            "99999999999999999999".to_owned(),
            String::new(),
        ] {
            assert!(is_ambiguous(&format!("{head}Content-Length:{length}\r\n\r\n")), "{length:?}");
            let twice = format!("{head}Content-Length:{length}\r\ncontent-length: 0\r\n\r\n");
            assert!(is_ambiguous(&twice), "{length:?}");
        }
        assert!(!is_ambiguous(&format!("{head}Content-Length: {}7 \r\n\r\n", "0".repeat(30))));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(
            text in "(POST / HTTP/1.1\r?\n|content-length: [0-9]{1,2}\r?\n|transfer-encoding: x\r?\n|\r?\n|[a-z: ]{1,80}){0,12}",
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            let whole = is_ambiguous(&text);
            let (mut framing, mut rest, mut cuts) = (Framing::default(), text.as_bytes(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                framing.feed(part);
                rest = after;
            }
            prop_assert_eq!(framing.is_ambiguous(), whole);
        }
    }
}
