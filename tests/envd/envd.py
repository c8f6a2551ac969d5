"""A small envd: the server inside a sandbox that E2B's SDK speaks to, as far as commands and files need it.

It prints `listens` once it listens, and then one line of JSON for each request: what it saw of it (host, proto, path).

What is real: processes, terminals, streams, files, the access token and signed URLs of files. What is not: there is no
isolation. Commands are processes of this machine and of this user, whichever user the client names. Files are below a
folder, --root, that clients see as `/`; commands start there, have their HOME there, and find it in ENVD_ROOT, but an
absolute path in a command is the machine's. Paths that are relative mean the same file to both. What GET /metrics says
is the machine's too.

It speaks as envd 0.5.8 does: no metadata of files, no entries in events of a watch. Of POST /init it takes envVars and
accessToken.
"""

import argparse
import base64
import hashlib
import hmac
import http.server
import json
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from urllib.parse import parse_qs, urlsplit

sys.dont_write_bytecode = True

import keeper
import upload
import usage
import wire
from processes import Processes
from tree import Tree
from watch import Watchers
from wire import Body, Refusal, Stream, field

PORT = 49983
CONNECTIONS = 512
VARIABLES = 1000
IDLE_SECONDS = 3700  # Longer than a gateway keeps a connection: it closes first, so none closes on a request.
TRANSFER_SECONDS = 60  # between two bytes of a body
LINGER_BYTES = 16 << 20


class Sandbox:
    """What the server knows: the token, the default environment, processes, files."""

    def __init__(self, root, mark):
        self.lock, self.token, self.variables = threading.Lock(), None, {}
        self.tree = tree = Tree(root)
        self.processes = processes = Processes(tree, lambda: dict(self.variables), mark)
        watchers = Watchers(tree)
        process, files = "/process.Process/", "/filesystem.Filesystem/"
        self.unary = {
            process + "List": processes.list,
            process + "Update": processes.update,
            process + "SendInput": processes.send_input,
            process + "SendSignal": processes.send_signal,
            process + "CloseStdin": processes.close_stdin,
            files + "Stat": tree.stat,
            files + "MakeDir": tree.make_dir,
            files + "Move": tree.move,
            files + "ListDir": tree.list_dir,
            files + "Remove": tree.remove,
            files + "CreateWatcher": watchers.create,
            files + "GetWatcherEvents": watchers.events,
            files + "RemoveWatcher": watchers.remove,
        }
        told = {"event": {"keepalive": {}}}
        self.streams = {
            process + "Start": (processes.start, told),
            process + "Connect": (processes.connect, told),
            files + "WatchDir": (watchers.stream, {"keepalive": {}}),
        }

    def init(self, message):
        """The first one sets the token; after that only its bearer may call again."""
        token = field(message, "accessToken", str) or None
        variables = field(message, "envVars", dict, {})
        for name, value in variables.items():
            if not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
                raise Refusal("invalid_argument", "envVars is malformed")
        with self.lock:
            if self.token is not None and not same(self.token, (token or "").encode()):
                reason = "access token validation failed" if token else "access token reset not authorized"
                raise Refusal("unauthenticated", reason)
            if len(self.variables | variables) > VARIABLES:
                raise Refusal("invalid_argument", f"there are more than {VARIABLES} variables")
            self.token = token or self.token
            self.variables |= variables

    def allows(self, header):
        """Whether a request with this X-Access-Token, or none, may pass."""
        return self.token is None or (header is not None and same(self.token, header.encode("latin-1", "replace")))

    def check_file(self, header, query, operation):
        """A file needs the token, or a URL that was signed with it."""
        if self.allows(header):
            return
        if header:
            raise Refusal("unauthenticated", "access token present in header but does not match")
        one = lambda name: query.get(name, [""])[0]
        if not one("signature"):
            raise Refusal("unauthenticated", "missing signature query parameter")
        expires = one("signature_expiration")
        signed = ":".join([one("path"), operation, one("username"), self.token, *([expires] if expires else [])])
        digest = hashlib.sha256(signed.encode("utf-8", "surrogateescape")).digest()
        expected = "v1_" + base64.b64encode(digest).decode().rstrip("=")
        if not same(expected, one("signature").encode("utf-8", "replace")):
            raise Refusal("unauthenticated", "invalid signature")
        if expires and (not re.fullmatch("[0-9]{1,15}", expires) or int(expires) < time.time()):
            raise Refusal("unauthenticated", "signature is already expired")


def same(secret, given):
    return hmac.compare_digest(secret.encode("utf-8", "surrogateescape"), given)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS
    server_version, sys_version = "envd", ""

    def handle_one_request(self):
        self.connection.settimeout(IDLE_SECONDS)
        super().handle_one_request()

    def do_GET(self):
        self.serve()

    def do_POST(self):
        self.serve()

    def serve(self):
        self.server.note(self)
        self.connection.settimeout(TRANSFER_SECONDS)
        try:
            url = urlsplit(self.path)
            query = parse_qs(url.query, keep_blank_values=True, max_num_fields=20)
        except ValueError:
            return self.send_error(400)
        self.body = None
        try:
            limit = upload.FILE_LIMIT if url.path == "/files" else wire.MESSAGE_LIMIT
            self.body = Body(self.headers, self.rfile, limit)
            self.route(self.server.sandbox, url, query, self.body)
        except Refusal as refusal:
            # Connect has its codes by name, plain HTTP by number; what holds for both is answered by number.
            named = "." in url.path and refusal.status not in (401, 413)
            code = refusal.code if named else refusal.status
            self.answer_json(refusal.status, {"code": code, "message": refusal.message})
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            return
        if not self.is_read():
            self.linger()

    def is_read(self):
        """Whether the whole body was read: otherwise no other request can follow on this connection."""
        return self.body is not None and self.body.done

    def route(self, sandbox, url, query, body):
        token = self.headers.get("x-access-token")
        at = f"{self.command} {url.path}"
        if at == "GET /health":
            return self.answer(204)
        if at == "POST /init":
            sandbox.init(wire.parsed(body.read_all()))
            return self.answer(204)
        if url.path == "/files":
            return self.file(sandbox, query, token, body)
        if not sandbox.allows(token):
            raise Refusal("unauthenticated", "unauthorized access, please provide a valid access token")
        if at == "GET /metrics":
            return self.answer_json(200, usage.now(sandbox.tree.root))
        if self.command == "POST" and url.path in sandbox.unary:
            self.demand("application/json")
            return self.answer_json(200, sandbox.unary[url.path](wire.parsed(body.read_all())))
        if self.command == "POST" and url.path in sandbox.streams:
            return self.stream(*sandbox.streams[url.path], body)
        if at == "POST /process.Process/StreamInput":
            return self.stream_input(sandbox.processes, body)
        if url.path in ("/health", "/init", "/metrics") or url.path in sandbox.unary or url.path in sandbox.streams:
            raise Refusal("unimplemented", "this path has another method", 405)
        raise Refusal("unimplemented", f"{url.path} is not served here", 404)

    def file(self, sandbox, query, token, body):
        path = query.get("path", [""])[0]
        sandbox.check_file(token, query, "read" if self.command == "GET" else "write")
        if self.command == "POST":
            return self.answer_json(200, upload.receive(sandbox.tree, self.headers, body, path))
        file, size = upload.opened(sandbox.tree, sandbox.tree.absolute(path))
        with file:
            self.send_response(200)
            self.send_header("content-type", "application/octet-stream")
            self.send_header("content-length", str(size))
            self.end_headers()
            while size and (data := file.read(min(size, upload.BLOCK))):
                self.wfile.write(data)
                size -= len(data)
        if size:
            raise ConnectionError("the file shrank")

    def demand(self, kind):
        if self.headers.get_content_type() != kind or self.headers.get("content-encoding", "identity") != "identity":
            raise Refusal("unimplemented", f"this call is made in {kind}, not compressed", 415)

    def stream(self, call, keepalive, body):
        self.demand("application/connect+json")
        stream, refusal = Stream(self, keepalive), None
        try:
            message = stream.expect(self.headers, body)
        except Refusal as error:
            refusal = error
        stream.begin()
        try:
            if refusal is None:
                call(message, stream)
        except Refusal as error:
            refusal = error
        stream.end(refusal)

    def stream_input(self, processes, body):
        self.demand("application/connect+json")
        # A client may think as long as it likes between two messages, and send more of them than fit into one.
        self.connection.settimeout(IDLE_SECONDS)
        body.limit = upload.FILE_LIMIT
        refusal, sent = None, b""
        try:
            sent = wire.frame(0, processes.stream_input(wire.frames(body)))
        except Refusal as error:
            refusal = error
        error = {"error": {"code": refusal.code, "message": refusal.message}} if refusal else {}
        self.answer(200, sent + wire.frame(2, error), "application/connect+json")

    def user(self):
        """The user that the client names: only a name here."""
        kind, _, value = self.headers.get("authorization", "").partition(" ")
        try:
            name = base64.b64decode(value, validate=True).decode().partition(":")[0] if kind == "Basic" else ""
        except ValueError:
            name = ""
        return name if re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", name) else "user"

    def answer_json(self, status, value):
        self.answer(status, json.dumps(value).encode(), "application/json")

    def answer(self, status, body=b"", kind="text/plain"):
        self.send_response(status)
        if status != 204:
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
        if not self.is_read():
            # Said, so that a gateway does not send its next request into a connection that is being closed.
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def linger(self):
        """The client still sends what nobody reads. Closing at once could lose it the answer, so a bit is read."""
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            left = LINGER_BYTES
            while left > 0 and (data := self.connection.recv(1 << 16)):
                left -= len(data)
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, sandbox, quiet):
        self.sandbox, self.quiet = sandbox, quiet
        self.slots, self.printing = threading.BoundedSemaphore(CONNECTIONS), threading.Lock()
        super().__init__(address, Handler)

    def server_bind(self):
        # Without asking DNS for the name of the address, as the library's does.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request, client_address):
        if not self.slots.acquire(blocking=False):
            return self.shutdown_request(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.slots.release()
            raise

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def note(self, request):
        if self.quiet:
            return
        # A signature opens a file for whoever reads it here.
        path = re.sub(r"([?&]signature=)[^&]*", r"\1...", request.path)
        seen = {"host": request.headers["host"], "proto": request.headers["x-forwarded-proto"], "path": path}
        with self.printing:
            print(json.dumps(seen), flush=True)


def main():
    wide = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=120)
    parser = argparse.ArgumentParser(prog="envd.py", description=__doc__, formatter_class=wide)
    parser.add_argument("ip", metavar="IP", help="the address to listen on")
    parser.add_argument("port", metavar="PORT", nargs="?", type=int, default=PORT, help=f"{PORT} unless told")
    parser.add_argument("--root", metavar="DIR", help="where the files are; else a new folder, removed at the end")
    parser.add_argument("--quiet", action="store_true", help="no line for a request")
    arguments = parser.parse_args()

    root, mark = arguments.root or tempfile.mkdtemp(prefix="envd-"), secrets.token_hex(16)
    held = keeper.start(mark, None if arguments.root else root)
    sandbox = Sandbox(root, mark)

    def end(*_):
        keeper.end_all(mark)
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        server = Server((arguments.ip, arguments.port), sandbox, arguments.quiet)
    except OSError as error:
        sys.exit(f"envd.py: {arguments.ip}:{arguments.port}: {error.strerror}")
    print("listens", flush=True)
    try:
        server.serve_forever()
    finally:
        os.close(held)


main()
