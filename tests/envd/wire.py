"""What is read and written: bodies of HTTP/1.1 with a limit, the Connect protocol's messages and errors, streams.

Connect with JSON, uncompressed: a unary call is one JSON body each way; in a stream each message follows a byte of
flags and its length, and the last one (flag 2) carries the error, if there is one, because the status has long been
sent.
"""

import json
import select
import socket
import struct
import time

MESSAGE_LIMIT = 8 << 20  # bytes of one message
LINE_LIMIT = 4096  # bytes of a chunk's size line or of a trailer
TRAILERS = 100
PROBE_SECONDS = 1.0  # how long a silent stream goes on for a client that left

# The codes of the Connect protocol with the HTTP status that a unary answer has.
STATUS = {
    "aborted": 409,
    "already_exists": 409,
    "canceled": 499,
    "deadline_exceeded": 504,
    "failed_precondition": 400,
    "internal": 500,
    "invalid_argument": 400,
    "not_found": 404,
    "out_of_range": 400,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "unauthenticated": 401,
    "unimplemented": 501,
    "unknown": 500,
}


class Refusal(Exception):
    """An error that the client is told: a code of Connect's; the status where plain HTTP has a better one."""

    def __init__(self, code, message, status=None):
        super().__init__(message)
        self.code, self.message, self.status = code, message, status or STATUS[code]


def too_large(what, limit):
    return Refusal("resource_exhausted", f"{what} is larger than {limit} bytes", 413)


class Body:
    """The body of a request, by its length or chunked, never longer than its limit."""

    def __init__(self, headers, source, limit):
        self.source, self.limit, self.seen = source, limit, 0
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        self.chunked = coding is not None
        if self.chunked and (coding.strip().lower() != "chunked" or length is not None):
            raise Refusal("invalid_argument", "the length of the body is ambiguous")
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 19):
            raise Refusal("invalid_argument", "content-length is not a length")
        self.left = 0 if self.chunked else int(length or 0)
        self.done = not self.chunked and self.left == 0
        if self.left > limit:
            raise too_large("the body", limit)

    def read(self, size):
        """Up to so many bytes; none at the end."""
        if self.done:
            return b""
        if self.chunked and self.left == 0 and not self._next_chunk():
            return b""
        data = self.source.read1(min(size, self.left))
        if not data:
            raise ConnectionError("the body ended early")
        self.left -= len(data)
        self.seen += len(data)
        if self.seen > self.limit:
            raise too_large("the body", self.limit)
        if self.left == 0:
            if self.chunked:
                self._line()
            else:
                self.done = True
        return data

    def read_all(self):
        return b"".join(iter(lambda: self.read(1 << 16), b""))

    def read_exactly(self, size):
        """All of so many bytes, or none if the body ends before the first."""
        parts, missing = [], size
        while missing:
            data = self.read(missing)
            if not data:
                if missing == size:
                    return b""
                raise Refusal("invalid_argument", "the body ends within a message")
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def _line(self):
        line = self.source.readline(LINE_LIMIT)
        if not line.endswith(b"\n"):
            raise ConnectionError("a chunk is malformed")
        return line.strip()

    def _next_chunk(self):
        size = self._line().split(b";")[0].strip()
        if not size or len(size) > 15 or size.strip(b"0123456789abcdefABCDEF"):
            raise ConnectionError("a chunk is malformed")
        self.left = int(size, 16)
        if self.left:
            return True
        for _ in range(TRAILERS):
            if not self._line():
                self.done = True
                return False
        raise ConnectionError("too many trailers")


def parsed(data):
    """A message of JSON: always an object."""
    try:
        message = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise Refusal("invalid_argument", "the message is not JSON") from None
    if not isinstance(message, dict):
        raise Refusal("invalid_argument", "the message is not an object")
    return message


def field(message, name, kind, default=None):
    """A field of a message, of one type; null and absent are the default, as in JSON of protocol buffers."""
    value = message.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refusal("invalid_argument", f"{name} is not of its type")
    return value


def frame(flags, message):
    data = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


def frames(body):
    """The messages of a client's stream."""
    while head := body.read_exactly(5):
        flags, size = struct.unpack(">BI", head)
        if size > MESSAGE_LIMIT:
            raise too_large("the message", MESSAGE_LIMIT)
        data = body.read_exactly(size)
        if len(data) != size:
            raise Refusal("invalid_argument", "the body ends within a message")
        if flags == 2:
            return
        if flags:
            raise Refusal("unimplemented", "messages are not compressed here")
        yield parsed(data)


class Stream:
    """An answer in messages, each sent as it comes."""

    def __init__(self, handler, keepalive):
        self.handler, self.keepalive, self.deadline, self.interval = handler, keepalive, None, 90

    def expect(self, headers, body):
        """The one message of the client, and what it says of the stream: its end, how often to be heard of."""
        timeout = headers.get("connect-timeout-ms")
        if timeout is not None and not (timeout.isascii() and timeout.isdigit() and len(timeout) <= 10):
            raise Refusal("invalid_argument", "connect-timeout-ms is not a number of milliseconds")
        if timeout and int(timeout):
            self.deadline = time.monotonic() + int(timeout) / 1000
        interval = headers.get("keepalive-ping-interval", "")
        if interval.isascii() and interval.isdigit() and len(interval) < 6:
            self.interval = max(int(interval), 1)
        messages = list(frames(body))
        if len(messages) != 1 or body.read_all():
            raise Refusal("invalid_argument", "one message was expected")
        return messages[0]

    def begin(self):
        """Not before the body is read: a client that is answered early may send no more of it."""
        self.handler.send_response(200)
        self.handler.send_header("content-type", "application/connect+json")
        self.handler.send_header("transfer-encoding", "chunked")
        self.handler.end_headers()

    def send(self, message, flags=0):
        data = frame(flags, message)
        self.handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self, refusal=None):
        error = {"error": {"code": refusal.code, "message": refusal.message}} if refusal else {}
        self.send(error, flags=2)
        self.handler.wfile.write(b"0\r\n\r\n")

    def pump(self, take):
        """Sends what `take(seconds)` gives: a message, None if there was none in time, or False at the end.

        When the client is gone, that ends the stream, not what it told of.
        """
        ping = time.monotonic() + self.interval
        while True:
            now = time.monotonic()
            if self.deadline is not None and now >= self.deadline:
                raise Refusal("deadline_exceeded", "the time that the client gave is over")
            if now >= ping:
                self.send(self.keepalive)
                ping = now + self.interval
            waits = min(PROBE_SECONDS, ping - now, self.deadline - now if self.deadline is not None else PROBE_SECONDS)
            message = take(max(waits, 0))
            if message is False:
                return
            if message is not None:
                self.send(message)
                ping = time.monotonic() + self.interval
            elif self.gone():
                raise ConnectionError("the client left")

    def gone(self):
        connection = self.handler.connection
        if not select.select([connection], [], [], 0)[0]:
            return False
        try:
            return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
