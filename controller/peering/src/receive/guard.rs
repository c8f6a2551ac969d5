//! A connection that is cut when it dawdles.
//!
//! Between requests it may be silent for a while: briefly until the first request whose sender proved who it is, longer
//! after it. Once the head of a request has begun it has to be there soon. What is written has to be taken. The body
//! is the request's business, which reads it with a deadline of its own. What is read passes [`Framing`] on its way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::framing::Framing;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Silence of a connection that has proven nothing.
    pub(crate) stranger: Duration,
    /// Silence of one that has.
    pub(crate) friend: Duration,
    /// The head of a request, from its first byte; a TLS handshake; an answer that is not taken.
    pub(crate) head: Duration,
    /// The body.
    pub(crate) body: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stranger: Duration::from_secs(5),
            friend: Duration::from_secs(90),
            head: Duration::from_secs(5),
            body: Duration::from_secs(5),
        }
    }
}

const SILENT: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// What the connection is at, told by both its ends.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    now: AtomicU8,
    trusted: AtomicBool,
    ambiguous: AtomicBool,
}

impl Phase {
    /// A request's head is there.
    pub(crate) fn busy(&self) {
        self.now.store(BUSY, Ordering::Relaxed);
    }

    /// Its answer is made.
    pub(crate) fn done(&self) {
        self.now.store(SILENT, Ordering::Relaxed);
    }

    /// A request on it has its length said in two ways: nothing on it is believed.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous.load(Ordering::Relaxed)
    }

    /// Its sender has proven who it is.
    pub(crate) fn trust(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct Guarded<S> {
    stream: S,
    phase: Arc<Phase>,
    patience: Patience,
    framing: Framing,
    seen: u8,
    limit: Pin<Box<Sleep>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(stream: S, phase: Arc<Phase>, patience: Patience) -> Self {
        let limit = Box::pin(sleep(patience.stranger));
        Self { stream, phase, patience, framing: Framing::default(), seen: SILENT, limit, writing: None }
    }

    fn follow(&mut self) -> u8 {
        let now = self.phase.now.load(Ordering::Relaxed);
        if now != self.seen {
            self.seen = now;
            let allowed = match now {
                HEAD => self.patience.head,
                _ if self.phase.trusted.load(Ordering::Relaxed) => self.patience.friend,
                _ => self.patience.stranger,
            };
            self.limit.as_mut().reset(Instant::now() + allowed);
        }
        now
    }

    /// Cuts a write that waits too long.
    fn written<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.writing = None;
            return poll;
        }
        let head = self.patience.head;
        let limit = self.writing.get_or_insert_with(|| Box::pin(sleep(head)));
        ready!(limit.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let phase = this.follow();
        let before = buffer.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut this.stream).poll_read(cx, buffer) {
            this.framing.feed(&buffer.filled()[before..]);
            if this.framing.is_ambiguous() {
                this.phase.ambiguous.store(true, Ordering::Relaxed);
            }
            if phase == SILENT && buffer.filled().len() > before {
                this.phase.now.store(HEAD, Ordering::Relaxed);
                this.follow();
            }
            return Poll::Ready(result);
        }
        if phase != BUSY && this.limit.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, poll)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_flush(cx);
        this.written(cx, poll)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.written(cx, poll)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_write_vectored(cx, buffers);
        this.written(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
