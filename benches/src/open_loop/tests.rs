use std::net::TcpListener;
use std::thread;

use super::*;
use crate::fleet::Asked;

#[test]
fn requests_are_due_at_even_times_and_none_after_the_end() {
    let due = schedule(4, 1.0);
    assert_eq!(due, [0, 250, 500, 750].map(Duration::from_millis));
    assert_eq!(schedule(600, 0.5).len(), 300, "also where a second has no whole number of steps");
}

/// Answers each connection's requests after a time that `wait` gives for the request's number.
fn server(wait: impl Fn(usize) -> Duration + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let wait = std::sync::Arc::new(wait);
    let number = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (wait, number) = (wait.clone(), number.clone());
            thread::spawn(move || {
                let mut stream = stream.expect("a connection");
                let mut buffer = [0; 1024];
                while matches!(stream.read(&mut buffer), Ok(length) if length > 0) {
                    let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let until = Instant::now() + wait(number);
                    while Instant::now() < until {
                        thread::park_timeout(until.saturating_duration_since(Instant::now()));
                    }
                    if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn questions(port: u16, seconds: f64) -> Questions {
    Questions { port, upstream: 80, asked: Asked::Served, count: 10, start: 0, seconds, close: false }
}

#[test]
fn every_request_that_was_due_is_answered_and_timed() {
    let port = server(|_| Duration::ZERO);
    let answers = run(&questions(port, 0.5), 200).expect("a run");
    assert_eq!((answers.requests, answers.failed), (100, 0));
    let latency = answers.latency.expect("latency");
    assert!(latency.p50 > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.p999);
}

#[test]
fn a_request_that_had_to_wait_for_a_connection_counts_its_wait() {
    // Every answer takes 300 ms, so 64 connections carry 213 requests a second of the 600 that are due: the
    // last ones wait far longer.
    let port = server(|number| Duration::from_millis(if number < CONNECTIONS { 0 } else { 300 }));
    let answers = run(&questions(port, 0.5), 600).expect("a run");
    assert_eq!((answers.requests, answers.failed), (300, 0));
    let latency = answers.latency.expect("latency");
    assert!(latency.p999 > 700_000.0, "a closed loop would say 300 ms: {latency:?}");
}

#[test]
fn a_gateway_that_closes_after_each_answer_is_asked_on_new_connections() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                if matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                }
            });
        }
    });
    let answers = run(&questions(port, 0.5), 100).expect("a run");
    assert_eq!(answers.requests + answers.failed, 50);
    assert!(answers.requests > 0, "{answers:?}");
}

#[test]
fn a_status_that_was_not_expected_is_a_failure() {
    let port = server(|_| Duration::ZERO);
    let asked = Questions { asked: Asked::Unknown, ..questions(port, 0.1) };
    let answers = run(&asked, 100).expect("a run");
    assert_eq!((answers.requests, answers.failed), (0, 10));
}
