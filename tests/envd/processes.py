"""Commands: real processes of the machine, each in a session of its own, told of in streams.

A process outlives the stream that started it and is killed at the deadline that it was started with. Its output goes to
whoever listens at that moment and is not kept; how it ended is kept for a while, for whoever asks late. A slow listener
slows the process down. The pid is the machine's, and a signal goes to the whole process group.
"""

import base64
import binascii
import collections
import fcntl
import os
import queue
import signal
import struct
import subprocess
import termios
import threading
import time

import keeper
from tree import HOME
from wire import Refusal, field

RUNNING = 256  # processes at one time
ENDED = 64  # whose end is kept
QUEUE = 64  # events that a listener may be behind
ARGUMENTS = 4096
BLOCK = 32 << 10

# A session's first terminal is the one that its leader opens; then it is the command, under the same pid.
WITH_TERMINAL = ': 0<>"$0"; exec "$@"'


class Process:
    """One command. `end` is none until it has ended."""

    def __init__(self, config, tag, arguments, environment, cwd, stdin, size, deadline):
        self.config, self.tag, self.deadline = config, tag, deadline
        self.lock, self.writing = threading.Lock(), threading.Lock()
        self.listeners, self.end, self.terminal = [], None, None
        self.silent = threading.Event()  # All output is read, or nobody waits for it any more.
        if size:
            self._start_in_terminal(arguments, environment, cwd, size)
        else:
            self.popen = subprocess.Popen(
                arguments,
                env=environment,
                cwd=cwd,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            self.outputs = {"stdout": self.popen.stdout.fileno(), "stderr": self.popen.stderr.fileno()}
        self.pid = self.popen.pid
        self.info = {"config": config, "pid": self.pid} | ({"tag": tag} if tag is not None else {})

    def _start_in_terminal(self, arguments, environment, cwd, size):
        self.terminal, own = os.openpty()
        self.outputs = {"pty": self.terminal}
        try:
            self.resize(size)
            self.popen = subprocess.Popen(
                ["/bin/sh", "-c", WITH_TERMINAL, os.ttyname(own), *arguments],
                env=environment,
                cwd=cwd,
                stdin=own,
                stdout=own,
                stderr=own,
                start_new_session=True,
            )
        except BaseException:
            os.close(self.terminal)
            raise
        finally:
            os.close(own)

    def run(self, ended):
        """Begins to read what it writes. Whoever is to hear all of it listens already."""
        readers = [
            threading.Thread(target=self._read, args=(kind, output), daemon=True)
            for kind, output in self.outputs.items()
        ]
        self.reading = len(readers)
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(readers, ended), daemon=True).start()

    def _read(self, kind, output):
        while True:
            try:
                data = os.read(output, BLOCK)
            except OSError:  # How a terminal says that nobody is at its other end.
                data = b""
            if not data:
                break
            self._tell({"data": {kind: base64.b64encode(data).decode()}})
        with self.lock:
            self.reading -= 1
            if self.reading == 0:
                self.silent.set()

    def _wait(self, readers, ended):
        left = lambda: None if self.deadline is None else max(self.deadline - time.monotonic(), 0)
        if not self.silent.wait(left()):
            self.signal(signal.SIGKILL)
        try:
            self.popen.wait(left())
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.popen.wait()
        for reader in readers:
            # After a kill there may be output left; a child that left the group may hold it open.
            reader.join(0.2)
        code = self.popen.returncode
        if code >= 0:
            end = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
        else:
            name = (signal.strsignal(-code) or str(-code)).lower()
            end = {"exitCode": -1, "exited": False, "status": f"signal: {name}"}
        with self.lock:
            self.end = {"end": end | ({"error": end["status"]} if code else {})}
            listeners = list(self.listeners)
        ended(self)
        for listener in listeners:
            listener.put(self.end)
        self._close(readers)

    def _close(self, readers):
        with self.writing:
            if self.popen.stdin:
                self.popen.stdin.close()
            if any(reader.is_alive() for reader in readers):
                return  # Its descriptor is still read: whoever holds the other end closes it.
            for output in (self.popen.stdout, self.popen.stderr):
                if output:
                    output.close()
            if self.terminal is not None:
                os.close(self.terminal)
                self.terminal = None

    def _tell(self, event):
        with self.lock:
            listeners = list(self.listeners)
        for listener in listeners:
            listener.put(event)

    def listen(self):
        """A new listener. It hears how the process ended, even if that was before."""
        listener = Listener(self)
        with self.lock:
            if self.end is None:
                self.listeners.append(listener)
            else:
                listener.put(self.end)
        return listener

    def leave(self, listener):
        listener.closed = True
        with self.lock:
            if listener in self.listeners:
                self.listeners.remove(listener)

    def signal(self, number):
        self.silent.set()
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def write(self, message):
        kind = next((kind for kind in ("stdin", "pty") if message.get(kind) is not None), None)
        if kind is None:
            raise Refusal("unimplemented", "the input is of no known kind")
        try:
            data = base64.b64decode(field(message, kind, str), validate=True)
        except binascii.Error:
            raise Refusal("invalid_argument", "the input is not base64") from None
        with self.writing:
            if kind == "pty":
                if self.terminal is None:
                    raise Refusal("internal", "the process has no terminal")
                target = self.terminal
            else:
                if not self.popen.stdin or self.popen.stdin.closed:
                    raise Refusal("internal", "stdin is not enabled or is closed")
                target = self.popen.stdin.fileno()
            try:
                while data:
                    data = data[os.write(target, data) :]
            except OSError as error:
                raise Refusal("internal", f"the input was not written: {error.strerror}") from None

    def close_stdin(self):
        if "pty" in self.outputs:
            raise Refusal("unknown", "a terminal is not closed; send it Ctrl+D")
        with self.writing:
            if self.popen.stdin:
                self.popen.stdin.close()

    def resize(self, size):
        if self.terminal is None:
            raise Refusal("internal", "the process has no terminal")
        rows, columns = (min(field(size, name, int, 0), 0xFFFF) for name in ("rows", "cols"))
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", max(rows, 0), max(columns, 0), 0, 0))


class Listener:
    """What one stream has not sent yet of a process."""

    def __init__(self, process):
        self.process, self.queue, self.closed = process, queue.Queue(QUEUE), False

    def put(self, event):
        while not self.closed:
            try:
                return self.queue.put(event, timeout=0.2)
            except queue.Full:
                pass

    def take(self, seconds):
        """The next message, None if there is none in time, False after the last."""
        if self.closed:
            return False
        try:
            event = self.queue.get(timeout=seconds) if seconds > 0 else self.queue.get_nowait()
        except queue.Empty:
            return None
        self.closed = "end" in event
        return {"event": event}


class Processes:
    def __init__(self, tree, defaults, mark):
        self.tree, self.defaults, self.mark = tree, defaults, mark
        self.lock, self.running, self.ended = threading.Lock(), {}, collections.OrderedDict()

    def start(self, message, stream):
        process = self._new(message, stream.deadline, stream.handler.user())
        listener = process.listen()
        with self.lock:
            self.ended.pop(process.pid, None)
            self.running[process.pid] = process
        process.run(self._ended)
        self._tell(process, listener, stream)

    def connect(self, message, stream):
        process = self._find(message, ended=True)
        self._tell(process, process.listen(), stream)

    def _tell(self, process, listener, stream):
        try:
            stream.send({"event": {"start": {"pid": process.pid}}})
            stream.pump(listener.take)
        finally:
            process.leave(listener)

    def _new(self, message, deadline, user):
        config = field(message, "process", dict, {})
        command, arguments = field(config, "cmd", str, ""), field(config, "args", list, [])
        given, cwd = field(config, "envs", dict, {}), field(config, "cwd", str)
        texts = [command, *arguments, *given, *given.values(), cwd or ""]
        if len(texts) > ARGUMENTS or any(not isinstance(text, str) or "\0" in text for text in texts):
            raise Refusal("invalid_argument", "the command, its arguments or its environment are malformed")
        if not command or any(not name or "=" in name for name in given):
            raise Refusal("invalid_argument", "the command or a name of its environment is malformed")
        with self.lock:
            if len(self.running) >= RUNNING:
                raise Refusal("resource_exhausted", f"{RUNNING} processes run already")
        seen = self.tree.absolute(cwd or HOME)
        if not os.path.isdir(self.tree.real(seen)):
            raise Refusal("invalid_argument", f"cwd '{seen}' does not exist")
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self.tree.home}
        environment |= {"USER": user, "LOGNAME": user} | self.defaults() | given
        environment |= {"ENVD_ROOT": self.tree.root, keeper.MARK: self.mark}
        pty = field(message, "pty", dict)
        try:
            return Process(
                config,
                field(message, "tag", str),
                [command, *arguments],
                environment,
                self.tree.real(seen),
                field(message, "stdin", bool, True),
                None if pty is None else field(pty, "size", dict, {}) or {"rows": 24, "cols": 80},
                deadline,
            )
        except (OSError, ValueError) as error:
            raise Refusal("invalid_argument", f"error starting process '{command}': {error}") from None

    def _ended(self, process):
        with self.lock:
            self.running.pop(process.pid, None)
            self.ended[process.pid] = process
            while len(self.ended) > ENDED:
                self.ended.popitem(last=False)

    def _find(self, message, ended=False):
        selector = field(message, "process", dict, {})
        pid, tag = field(selector, "pid", int), field(selector, "tag", str)
        with self.lock:
            known = [*self.running.values(), *(reversed(self.ended.values()) if ended else ())]
        for process in known:
            if (pid is not None and process.pid == pid) or (tag is not None and process.tag == tag):
                return process
        if pid is None and tag is None:
            raise Refusal("unimplemented", "a process is chosen by its pid or its tag")
        which = f"pid {pid}" if pid is not None else f"tag {tag}"
        raise Refusal("not_found", f"process with {which} not found")

    def list(self, _):
        with self.lock:
            return {"processes": [process.info for process in self.running.values()]}

    def update(self, message):
        process, pty = self._find(message), field(message, "pty", dict)
        if pty is not None:
            process.resize(field(pty, "size", dict, {}))
        return {}

    def send_input(self, message):
        self._find(message).write(field(message, "input", dict, {}))
        return {}

    def stream_input(self, messages):
        process = None
        for message in messages:
            if (start := field(message, "start", dict)) is not None:
                process = self._find(start)
            elif (data := field(message, "data", dict)) is not None:
                if process is None:
                    raise Refusal("invalid_argument", "the first message says which process is meant")
                process.write(field(data, "input", dict, {}))
            elif message.get("keepalive") is None:
                raise Refusal("unimplemented", "the message is of no known kind")
        return {}

    def send_signal(self, message):
        process, wanted = self._find(message), message.get("signal")
        for number in (signal.SIGKILL, signal.SIGTERM):
            if wanted in (f"SIGNAL_{number.name}", int(number)):
                process.signal(number)
                return {}
        raise Refusal("unimplemented", "the signal is not SIGNAL_SIGTERM or SIGNAL_SIGKILL")

    def close_stdin(self, message):
        self._find(message).close_stdin()
        return {}
