//! What one sender can make the receiver do is bounded.

use std::time::Duration;

use sandgate_routes::Limits;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::fixture::{DEADLINE, KEY, Plane, eventually, key_file, message};
use crate::HmacKey;
use crate::hmac::unix_now;
use crate::receive::router::MAX_LINES;
use crate::receive::router::MAX_MESSAGE;
use crate::receive::timeouts::Timeouts;

const SHORT: Duration = Duration::from_millis(150);

async fn impatient(timeouts: Timeouts) -> Plane {
    Plane::patient(json!({ "insecure": true }), timeouts, Limits::default()).await
}

/// Everything that comes until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is a close too.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("the connection is closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_body_of_one_mebibyte_is_read_and_a_byte_more_gets_413() {
    let plane = Plane::open().await;
    let mut body = message("running", "5").to_string();
    body.push_str(&" ".repeat(MAX_MESSAGE - body.len()));
    assert_eq!(plane.post("/refresh", body.clone(), None).await.status, 204);
    body.push(' ');
    assert_eq!(plane.post("/refresh", body, None).await.status, 413);
    assert_eq!((plane.status().too_large, plane.status().applied), (1, 1));
}

#[tokio::test]
async fn a_body_of_unknown_length_is_cut_where_it_is_too_long() {
    let plane = Plane::open().await;
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    stream
        .write_all(b"POST /refresh HTTP/1.1\r\nhost: p\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..17 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let plane = impatient(Timeouts { unproven: SHORT, ..Timeouts::default() }).await;
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
    eventually(|| (plane.status().connections == 0).then_some(())).await;
}

#[tokio::test]
async fn a_head_that_trickles_is_cut_however_steadily_it_does() {
    let plane = impatient(Timeouts { head: SHORT, ..Timeouts::default() }).await;
    let stream = TcpStream::connect(plane.address).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let trickle = tokio::spawn(async move {
        writing.write_all(b"POST /refresh HTTP/1.1\r\n").await.unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while writing.write_all(b"x: y\r\n").await.is_ok() {
            ticks.tick().await;
        }
    });
    let mut bytes = Vec::new();
    let _ = timeout(DEADLINE, reading.read_to_end(&mut bytes)).await.expect("the connection is closed");
    timeout(DEADLINE, trickle).await.expect("writing fails").unwrap();
    eventually(|| (plane.status().slow == 1).then_some(())).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_gets_408_and_the_connection_closes() {
    let plane = impatient(Timeouts { body: SHORT, ..Timeouts::default() }).await;
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    stream.write_all(b"POST /refresh HTTP/1.1\r\nhost: p\r\ncontent-length: 9\r\n\r\n{").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 408"));
    assert_eq!(plane.status().slow, 1);
}

#[tokio::test]
async fn a_sender_that_does_not_read_its_answer_is_disconnected() {
    // Its silence would end the connection only after the deadline. What ends it before is
    // `TCP_USER_TIMEOUT`.
    let timeouts =
        Timeouts { head: SHORT, proven: DEADLINE * 2, unproven: DEADLINE * 2, ..Timeouts::default() };
    let plane = impatient(timeouts).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(plane.address).await.unwrap();
    // The answer has a line of JSON for each of these.
    let body = "x\n".repeat(MAX_LINES);
    let head = format!("POST /refresh/batch HTTP/1.1\r\nhost: p\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    eventually(|| (plane.status().batches == 1).then_some(())).await;
    eventually(|| (plane.status().connections == 0).then_some(())).await;
}

#[tokio::test]
async fn a_connection_is_used_again_and_is_given_more_time_once_its_sender_is_known() {
    let timeouts = Timeouts { unproven: SHORT, ..Timeouts::default() };
    let plane = impatient(timeouts).await;
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    let body = message("running", "5").to_string();
    let request =
        format!("POST /refresh HTTP/1.1\r\nhost: p\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut answer = vec![0; 1024];
    stream.write_all(request.as_bytes()).await.unwrap();
    let length = stream.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 204"));
    // Silence that would have closed a stranger's connection: another one shows that the time has passed.
    let mut other = TcpStream::connect(plane.address).await.unwrap();
    assert_eq!(rest(&mut other).await, "");
    stream.write_all(request.as_bytes()).await.unwrap();
    let length = stream.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 204"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let plane = Plane::open().await;
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    let head = format!("POST /refresh HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100 << 10));
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

/// A receiver that believes who has the key, with this many places.
async fn keyed(folder: &TempDir, places: usize) -> (Plane, HmacKey) {
    let (key, file) = key_file(folder, "main", KEY);
    let timeouts = Timeouts { unproven: DEADLINE * 2, body: DEADLINE * 2, ..Timeouts::default() };
    let refresh = json!({ "hmac": { "keys": [{ "id": "main", "file": file }] }, "max-connections": places });
    (Plane::patient(refresh, timeouts, Limits::default()).await, key)
}

fn signed(key: &HmacKey, message: &Value) -> String {
    key.sign("POST", "/refresh", message.to_string().as_bytes(), unix_now()).unwrap()
}

/// The bytes of a push.
fn bytes(key: &HmacKey, message: &Value) -> String {
    let (body, authorization) = (message.to_string(), signed(key, message));
    let length = body.len();
    format!(
        "POST /refresh HTTP/1.1\r\nhost: p\r\nauthorization: {authorization}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn strangers_that_hold_connections_lock_no_pusher_and_no_probe_out() {
    let folder = tempdir().unwrap();
    let (plane, key) = keyed(&folder, 256).await;
    let mut friend = TcpStream::connect(plane.address).await.unwrap();
    friend.write_all(bytes(&key, &message("running", "5")).as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let length = friend.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 204"));
    let mut strangers = Vec::new();
    for number in 0..600 {
        let mut stream = TcpStream::connect(plane.address).await.unwrap();
        if number % 2 == 0 {
            let head = b"POST /refresh HTTP/1.1\r\nhost: p\r\ncontent-length: 9\r\n\r\n{";
            let _ = stream.write_all(head).await;
        }
        strangers.push(stream);
    }
    // A quarter of the places is theirs.
    eventually(|| (plane.status().connections == 65).then_some(())).await;
    for version in 6..16 {
        let message = message("running", &version.to_string());
        assert_eq!(plane.push_with(&message, &signed(&key, &message)).await.status, 204);
        assert_eq!(plane.send("GET", "/healthz", "", None).await.status, 200);
    }
    assert_eq!(rest(&mut strangers[0]).await, "", "the oldest went first");
    // Who was known before is connected still.
    friend.write_all(bytes(&key, &message("running", "50")).as_bytes()).await.unwrap();
    let length = friend.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 204"));
    assert_eq!(plane.status().applied, 12);
}

#[tokio::test]
async fn one_host_that_opens_many_connections_cuts_off_its_own() {
    let folder = tempdir().unwrap();
    let (plane, key) = keyed(&folder, 16).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(plane.address).await.unwrap();
    eventually(|| (plane.status().connections == 1).then_some(())).await;
    let mut flood = Vec::new();
    for _ in 0..100 {
        flood.push(TcpStream::connect(plane.address).await.unwrap());
    }
    assert_eq!(rest(&mut flood[0]).await, "");
    // It was there before all of them, and takes its time.
    other.write_all(bytes(&key, &message("running", "5")).as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let length = other.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 204"));
}

#[tokio::test]
async fn a_pusher_that_finds_no_place_is_answered_and_its_connection_ends() {
    let folder = tempdir().unwrap();
    let (plane, key) = keyed(&folder, 4).await;
    let mut held = Vec::new();
    for version in 1..=4 {
        let mut stream = TcpStream::connect(plane.address).await.unwrap();
        stream.write_all(bytes(&key, &message("running", &version.to_string())).as_bytes()).await.unwrap();
        let mut answer = vec![0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        // Three are kept, and one place is a stranger's.
        assert_eq!(answer.contains("connection: close"), version == 4, "{answer}");
        held.push(stream);
    }
    assert_eq!(rest(&mut held[3]).await, "");
    eventually(|| (plane.status().connections == 3).then_some(())).await;
}

#[tokio::test]
async fn a_request_whose_length_is_said_in_two_ways_gets_400_and_the_connection_closes() {
    let plane = Plane::open().await;
    let body = message("running", "5").to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let length = format!("content-length: {}\r\n", chunked.len());
    let encoding = "transfer-encoding: chunked\r\n";
    let head = "POST /refresh HTTP/1.1\r\nhost: p\r\n";
    let health = "GET /healthz HTTP/1.1\r\nhost: p\r\n\r\n";
    for (before, headers) in [
        ("", format!("{length}{encoding}")),
        ("", format!("{encoding}{length}")),
        (health, format!("{encoding}{length}")),
    ] {
        let mut stream = TcpStream::connect(plane.address).await.unwrap();
        stream.write_all(format!("{before}{head}{headers}\r\n{chunked}").as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.contains("HTTP/1.1 400") && !answer.contains("204"), "{headers:?} gave {answer}");
    }
    assert_eq!(plane.reader.counts().objects, 0);
    // One of them is enough, and what comes after chunks is not read.
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    stream.write_all(format!("{head}{encoding}\r\n{chunked}{health}").as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 204") && !answer.contains("200"), "{answer}");
}

#[tokio::test]
async fn a_length_that_cannot_be_read_is_refused() {
    let plane = Plane::open().await;
    let body = message("running", "5").to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let both = format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", chunked.len());
    let second = format!("POST /refresh HTTP/1.1\r\nhost: p\r\n{both}\r\n{chunked}");
    // The second hides another request from whoever reads the length as zero.
    let hidden = "GET / HTTP/1.1\r\ncontent-length: 9999\r\n\r\n";
    let padded = format!("{}{}", "0".repeat(60), hidden.len());
    for (length, body) in [(format!("{}0", " ".repeat(60)), ""), (padded, hidden)] {
        let mut stream = TcpStream::connect(plane.address).await.unwrap();
        let first = format!("GET /healthz HTTP/1.1\r\nhost: p\r\nContent-Length:{length}\r\n\r\n{body}");
        stream.write_all(format!("{first}{second}").as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400") && !answer.contains("204"), "{length:?} gave {answer}");
    }
    assert_eq!(plane.reader.counts().objects, 0);
}

#[tokio::test]
async fn a_stop_closes_the_port_and_lets_a_request_under_way_finish() {
    let mut plane = Plane::open().await;
    let mut stream = TcpStream::connect(plane.address).await.unwrap();
    let body = message("running", "5").to_string();
    let head = format!("POST /refresh HTTP/1.1\r\nhost: p\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    eventually(|| (plane.status().under_way == 1).then_some(())).await;
    let idle = TcpStream::connect(plane.address).await.unwrap();
    let (stopped, answer) = tokio::join!(plane.stop(), async {
        stream.write_all(body.as_bytes()).await.unwrap();
        rest(&mut stream).await
    });
    let () = stopped;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    drop(idle);
    assert!(TcpStream::connect(plane.address).await.is_err());
    assert_eq!(plane.status().listening, None);
}
