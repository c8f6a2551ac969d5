//! A body whose break comes after its bytes.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::channel::Channel;
use hyper::body::{Body, Bytes, Frame};

use super::Failure;

/// hyper drops what it has not written yet when a body fails, and writes it when a body has nothing for now:
/// so before it fails, this has nothing for now, once.
pub(super) struct Flushed {
    channel: Channel<Bytes, Failure>,
    failure: Option<Failure>,
}

impl Flushed {
    pub(super) fn new(channel: Channel<Bytes, Failure>) -> Self {
        Self { channel, failure: None }
    }
}

impl Body for Flushed {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        match Pin::new(&mut self.channel).poll_frame(context) {
            Poll::Ready(Some(Err(failure))) => {
                self.failure = Some(failure);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            other => other,
        }
    }
}
