//! One answer on its way from the server to the gateway, line by line.

use std::collections::VecDeque;

use http_body_util::BodyExt;
use http_body_util::channel::Sender;
use hyper::body::{Body, Bytes};

use super::Failure;
use super::faults::{Fault, Running};

/// Control characters stand nowhere in JSON, neither between values nor inside text.
const GARBAGE: [u8; 8] = [1; 8];

/// Passes `body` on until it ends or a fault ends it.
pub(super) async fn pump(
    mut body: impl Body<Data = Bytes, Error = Failure> + Unpin,
    mut gateway: Sender<Bytes, Failure>,
    mut running: Running,
) {
    let mut lines = Lines::default();
    let mut more = true;
    loop {
        if running.is_cut() {
            return gateway.abort(Failure::other("cut between two lines"));
        }
        while let Some(line) = lines.first() {
            match running.for_line(line) {
                Some(Fault::Stall) => break,
                Some(Fault::CutMidLine) => {
                    let half = line.slice(..line.len() / 2);
                    // A gateway that has gone needs no half line.
                    let _sent = gateway.send_data(half).await;
                    return gateway.abort(Failure::other("cut in the middle of a line"));
                }
                Some(Fault::Garble) => lines.garble_first(),
                Some(Fault::Dribble) => {
                    for at in 0..line.len() {
                        if gateway.send_data(line.slice(at..=at)).await.is_err() {
                            return;
                        }
                    }
                    lines.pop();
                    continue;
                }
                _ => {}
            }
            let Some(line) = lines.pop() else { break };
            if gateway.send_data(line).await.is_err() {
                return;
            }
        }
        if !more && lines.first().is_none() {
            return;
        }
        tokio::select! {
            frame = body.frame(), if more => match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        lines.push(&data);
                    }
                }
                Some(Err(error)) => return gateway.abort(error),
                None => {
                    lines.end();
                    more = false;
                }
            },
            () = running.changed() => {}
        }
    }
}

/// Bytes, cut into lines with their ends.
#[derive(Default)]
struct Lines {
    whole: VecDeque<Bytes>,
    rest: Vec<u8>,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        let mut parts = data.split_inclusive(|byte| *byte == b'\n');
        for part in &mut parts {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end();
            }
        }
    }

    /// What has no end yet is a line now.
    fn end(&mut self) {
        if !self.rest.is_empty() {
            self.whole.push_back(std::mem::take(&mut self.rest).into());
        }
    }

    fn first(&self) -> Option<&Bytes> {
        self.whole.front()
    }

    fn pop(&mut self) -> Option<Bytes> {
        self.whole.pop_front()
    }

    fn garble_first(&mut self) {
        if let Some(line) = self.whole.front_mut() {
            let mut bytes = line.to_vec();
            let middle = bytes.len() / 2;
            let end = (middle + GARBAGE.len()).min(bytes.len() - 1);
            bytes[middle..end].copy_from_slice(&GARBAGE[..end - middle]);
            *line = bytes.into();
        }
    }
}
