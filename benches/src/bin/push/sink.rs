//! Takes pushes as a gateway does, answers them, and does nothing else: what the sending of them costs by
//! itself.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use sandgate_benches::failure::{Doing as _, Result};

/// Serves until it is killed.
pub(crate) fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("listening")?;
    println!("{}", listener.local_addr().doing("asking for the port")?.port());
    for stream in listener.incoming() {
        let stream = stream.doing("accepting")?;
        // A sender that goes away ends its thread.
        thread::spawn(move || drop(converse(stream)));
    }
    Ok(())
}

fn converse(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true).doing("sending at once")?;
    let (mut buffer, mut piece) = (Vec::new(), vec![0; 65_536]);
    loop {
        let length = stream.read(&mut piece).doing("reading")?;
        if length == 0 {
            return Ok(());
        }
        buffer.extend_from_slice(&piece[..length]);
        let mut answers = Vec::new();
        while let Some((length, answer)) = answered(&buffer) {
            buffer.drain(..length);
            answers.extend_from_slice(answer.as_bytes());
        }
        stream.write_all(&answers).doing("answering")?;
    }
}

/// The first whole request: its length, and what a gateway that took all of it would answer.
fn answered(buffer: &[u8]) -> Option<(usize, String)> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).ok()?;
    let body: usize = text.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
    let body = buffer.get(head..head + body)?;
    if text.starts_with("POST /refresh ") {
        return Some((head + body.len(), "HTTP/1.1 204 No Content\r\n\r\n".to_owned()));
    }
    let lines = 1 + body.iter().filter(|byte| **byte == b'\n').count();
    let answer: String = (1..=lines).map(|line| format!("{{\"line\":{line},\"status\":204}}\n")).collect();
    let length = answer.len();
    Some((head + body.len(), format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_whole_request_is_answered_as_a_gateway_would() {
        let single = b"POST /refresh HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}POST";
        let (length, answer) = answered(single).expect("whole");
        assert_eq!((length, answer.as_str()), (single.len() - 4, "HTTP/1.1 204 No Content\r\n\r\n"));
        assert_eq!(answered(&single[..length - 1]), None);
        let batch = b"POST /refresh/batch HTTP/1.1\r\ncontent-length: 5\r\n\r\n{}\n{}";
        let (_, answer) = answered(batch).expect("whole");
        assert_eq!(answer.matches("\"status\":204").count(), 2);
    }
}
