"""Works in a sandbox through a gateway with all of the E2B SDK that speaks to envd, and prints, as JSON, what came of
it.

    envd_works.py GATEWAY-URL ENVD-URL SANDBOX-ID

First it gives envd its token and a variable, at ENVD-URL, as a control plane does. Everything else goes to the gateway.
The lifecycle API is a stub in this process.
"""

import asyncio
import concurrent.futures
import hashlib
import io
import json
import secrets
import struct
import sys
import time
import urllib.error
import urllib.request

import lifecycle
from lifecycle import outcome

GATEWAY, ENVD, ID = sys.argv[1:]
TOKEN = secrets.token_hex(16)
HERE = {"e2b_sandbox_id": ID, "e2b_sandbox_port": "49983"}
LARGE = secrets.token_bytes(1 << 20) * 20


def sandbox(token, kind="Sandbox"):
    import e2b

    api = lifecycle.start(ID, token)
    connect = getattr(e2b, kind).connect
    return connect(ID, api_key="e2b_" + "0" * 40, api_url=api, sandbox_url=GATEWAY)


def status(url, body=None, **headers):
    """Of a request without the SDK."""
    content = {"content-type": "application/octet-stream" if isinstance(body, bytes) else "application/json"}
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    request = urllib.request.Request(url, body, content | {key.replace("_", "-"): headers[key] for key in headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def until(condition):
    deadline = time.monotonic() + 20
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError("the condition was not met in time")
        time.sleep(0.02)
    return value


def tokens():
    init = lambda token: status(f"{ENVD}/init", {"accessToken": token, "envVars": {"FROM_INIT": "yes", "BOTH": "init"}})
    yield "init", lambda: init(TOKEN)
    yield "init_again", lambda: init(TOKEN)
    yield "init_other", lambda: init("another")
    yield "init_none", lambda: status(f"{ENVD}/init", {})
    yield "health_without", lambda: status(f"{ENVD}/health")
    yield "without", lambda: sandbox(None).files.list("/")
    yield "wrong", lambda: sandbox("wrong").commands.run("true")
    yield "file_without", lambda: sandbox(None).files.read("a.txt")
    yield "file_wrong", lambda: sandbox("wrong").files.write("a.txt", "x")


def commands(box):
    run = box.commands.run
    yield "exit", lambda: run("echo out; echo err >&2; exit 3")
    yield "killed", lambda: run("kill -9 $$")
    yield "env", lambda: run("echo $FROM_INIT $BOTH $GIVEN", envs={"BOTH": "call", "GIVEN": "too"}).stdout
    yield "leaks", lambda: run("env | grep -c ^PYTHONPATH= || true").stdout
    yield "cwd", lambda: run("pwd", cwd="/tmp").stdout.strip().rsplit("/", 1)[-1]
    yield "cwd_default", lambda: run('[ "$PWD" = "$HOME" ] && echo home').stdout
    yield "cwd_none", lambda: run("pwd", cwd="/nowhere")
    yield "user", lambda: run("echo $USER", user="root").stdout
    yield "many", lambda: len(run("head -c 3000000 /dev/zero | tr '\\0' x").stdout)
    yield "no_stdin", lambda: run("cat").stdout
    yield "send_to_none", lambda: box.commands.send_stdin(2**31 - 1, "x")
    yield "kill_none", lambda: box.commands.kill(2**31 - 1)
    yield "connect_none", lambda: box.commands.connect(2**31 - 1)


def streams(box):
    """The command goes on only when the client has seen what it wrote before: nothing here is held back."""
    heard = []
    handle = box.commands.run("echo one; read x; echo $x >&2; read x; echo $x", background=True, stdin=True)

    def answer(kind, text, line):
        heard.append([kind, text])
        if line:
            handle.send_stdin(line)

    told = handle.wait(
        on_stdout=lambda text: answer("stdout", text, "two\n" if text == "one\n" else None),
        on_stderr=lambda text: answer("stderr", text, "three\n"),
    )
    return json.dumps([heard, told.stdout, told.stderr])


def stdin(box):
    handle = box.commands.run("cat; echo end", background=True, stdin=True)
    box.commands.stream_input(handle.pid, ["a", "b", "c"])
    handle.close_stdin()
    return handle.wait().stdout


def background(box):
    first = box.commands.run("read x; echo got $x; read x; exit 4", background=True, stdin=True, envs={"KEY": "v"})
    first.disconnect()
    (listed,) = [process for process in box.commands.list() if process.pid == first.pid]
    again = box.commands.connect(first.pid)
    box.commands.send_stdin(first.pid, "it\n")
    heard = next(iter(again))[0]
    again.disconnect()
    box.commands.send_stdin(first.pid, "\n")
    until(lambda: first.pid not in [process.pid for process in box.commands.list()])
    late = outcome(box.commands.connect(first.pid).wait)
    return json.dumps([listed.cmd, listed.args[:2], listed.envs, heard, late["exception"], "code 4" in late["message"]])


def killed(box):
    """The whole group: what the command started holds no stream open."""
    handle = box.commands.run("sleep 600 & sleep 600; true", background=True)
    said = handle.kill()
    return json.dumps([said, outcome(handle.wait)["exception"], handle.kill()])


def timeouts(box):
    """Of the stream, and of the process: also when nobody listens any more."""
    told = outcome(lambda: box.commands.run("sleep 600", timeout=0.5))
    # Long enough for its start to be heard of.
    alone = box.commands.run("sleep 600", background=True, timeout=5)
    alone.disconnect()
    until(lambda: not box.commands.list())
    return told["exception"]


def parallel(box):
    with concurrent.futures.ThreadPoolExecutor(8) as workers:
        said = workers.map(lambda number: box.commands.run(f"echo {number}; echo e{number} >&2"), range(80))
        return all((told.stdout, told.stderr) == (f"{number}\n", f"e{number}\n") for number, told in enumerate(said))


def keepalive(box):
    """At the interval that the client asks for; the SDK's is 50 s."""
    message = json.dumps({"process": {"cmd": "sleep", "args": ["600"]}}).encode()
    headers = {"content-type": "application/connect+json", "keepalive-ping-interval": "1", "x-access-token": TOKEN}
    headers |= {key.replace("_", "-"): value for key, value in HERE.items()}
    body = struct.pack(">BI", 0, len(message)) + message
    request = urllib.request.Request(f"{GATEWAY}/process.Process/Start", body, headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        event = lambda: json.loads(answer.read(struct.unpack(">BI", answer.read(5))[1]))["event"]
        pid, then = event()["start"]["pid"], event()
    return json.dumps([then, box.commands.kill(pid)])


def terminal(box):
    from e2b.sandbox.commands.command_handle import PtySize

    handle = box.pty.create(PtySize(rows=30, cols=100), cwd="/tmp", envs={"PS1": "> "})
    box.pty.resize(handle.pid, PtySize(rows=31, cols=101))
    box.pty.send_stdin(handle.pid, b"stty size; tty -s && echo a-$((40 + 2)); exit\n")
    heard = bytearray()
    handle.wait(on_pty=heard.extend)
    return json.dumps(["31 101" in heard.decode(), "a-42" in heard.decode()])


def files(box):
    yield "write", lambda: box.files.write("notes/a.txt", "written").path
    yield "read", lambda: box.files.read("/home/user/notes/a.txt")
    yield "home", lambda: box.files.read("~/notes/a.txt")
    yield "same", lambda: box.commands.run("cat notes/a.txt").stdout
    yield "empty", lambda: [box.files.write("empty", ""), box.files.read("empty")][1]
    entries = [{"path": f"/many/{name}.txt", "data": name * 3} for name in "ab"]
    entries.append({"path": "/many/ü.txt", "data": b"\r\n--x"})
    yield "many", lambda: [entry.path for entry in box.files.write_files(entries)]
    yield "many_read", lambda: box.files.read("/many/ü.txt", format="bytes")
    yield "large", lambda: comes_back(box, LARGE, "bytes")
    yield "stream", lambda: comes_back(box, io.BytesIO(LARGE), "stream")
    yield "gzip", lambda: comes_back(box, LARGE, "bytes", gzip=True)
    yield "missing", lambda: box.files.read("none.txt")
    yield "folder", lambda: box.files.read("/many")
    yield "below_a_file", lambda: box.files.write("notes/a.txt/b", "x")
    yield "list", lambda: [f"{entry.name} {entry.type.value} {entry.size}" for entry in box.files.list("/many")]
    yield "list_deep", lambda: [entry.path for entry in box.files.list("/home", depth=3) if "notes" in entry.path]
    yield "list_none", lambda: box.files.list("/none")
    yield "list_file", lambda: box.files.list("empty")
    yield "exists", lambda: [box.files.exists("empty"), box.files.exists("none")]
    info = lambda path, *names: [getattr(box.files.get_info(path), name) for name in names]
    yield "info", lambda: info("notes/a.txt", "size", "permissions")
    yield "make_dir", lambda: [box.files.make_dir("deep/er"), box.files.make_dir("deep/er")]
    yield "rename", lambda: box.files.rename("notes/a.txt", "moved/b.txt").path
    yield "rename_none", lambda: box.files.rename("notes/a.txt", "c.txt")
    yield "remove", lambda: [box.files.remove("moved"), box.files.remove("moved"), box.files.exists("moved/b.txt")]
    yield "up", lambda: box.files.write("../../../../up.txt", "x").path
    yield "out", lambda: box.commands.run("ln -s /etc/passwd out; ln -s empty in").exit_code
    yield "out_read", lambda: box.files.read("out")
    yield "out_write", lambda: box.files.write("out", "x")
    yield "in_info", lambda: info("in", "type", "symlink_target")
    yield "out_remove", lambda: [box.files.remove("out"), box.files.exists("out")]


def refusals():
    """What no SDK sends."""
    token = {"x_access_token": TOKEN}

    def stat(body, path="/filesystem.Filesystem/Stat", at=GATEWAY, **headers):
        return status(at + path, body, **HERE | token | headers)

    yield "unknown", lambda: stat({}, "/filesystem.Filesystem/Other")
    yield "not_json", lambda: stat(b"{", content_type="application/json")
    yield "not_an_object", lambda: stat(b"[]", content_type="application/json")
    yield "not_of_its_type", lambda: stat({"path": 1})
    yield "null_byte", lambda: stat({"path": "a\0b"})
    yield "no_text", lambda: stat({"path": "\ud800"})
    yield "too_long", lambda: stat({"path": "a" * 5000})
    # Not through the gateway: this client sends all of it before it reads an early answer.
    yield "too_large", lambda: stat({"path": "a" * (9 << 20)}, at=ENVD)
    yield "too_deep", lambda: stat(b'{"path":' + b"[" * 100_000, content_type="application/json")
    yield "other_type", lambda: stat(b"x")
    yield "no_path", lambda: stat(b"x", "/files")
    yield "another_way", lambda: stat(b"x", "/files?path=x", content_encoding="br")
    yield "no_gzip", lambda: stat(b"x", "/files?path=x", content_encoding="gzip")
    yield "no_form", lambda: stat(b"x", "/files?path=x", content_type="multipart/form-data; boundary=b")
    yield "still_there", lambda: stat({"path": "/"})


def comes_back(box, data, format, **how):
    """Whether a large file is read as it was written."""
    box.files.write("large", data, **how)
    read = box.files.read("large", format=format)
    return hashlib.sha256(b"".join(read) if format == "stream" else read).digest() == hashlib.sha256(LARGE).digest()


def urls(box):
    """Signed: without the token, for whoever has them. The headers stand for the host name of a domain."""
    put, get = box.upload_url("signed.txt"), box.download_url("signed.txt", use_signature_expiration=60)
    ask = lambda url, body=None: status(url, body, **HERE)
    yield "upload", lambda: ask(put, b"signed")
    yield "uploaded", lambda: box.files.read("signed.txt")
    yield "download", lambda: ask(get)
    yield "expired", lambda: ask(box.download_url("signed.txt", use_signature_expiration=-60))
    yield "extended", lambda: ask(get.replace("signature_expiration=", "signature_expiration=9"))
    yield "other_file", lambda: ask(get.replace("signed.txt", "empty"))
    yield "other_way", lambda: ask(get, b"x")
    yield "unsigned", lambda: ask(get.split("&signature=")[0])


def watch(box):
    """What was done before a call is told by it."""
    box.files.make_dir("watched/below")
    flat, deep = box.files.watch_dir("watched"), box.files.watch_dir("watched", recursive=True)
    box.files.write("watched/a", "1")
    box.files.write("watched/below/b", "1")
    first = [[event.name, event.type.value] for event in deep.get_new_events()]
    box.files.rename("watched/a", "watched/c")
    box.files.remove("watched/below/b")
    second = sorted([event.name, event.type.value] for event in deep.get_new_events())
    below = any("/" in event.name for event in flat.get_new_events())
    flat.stop()
    deep.stop()
    none = outcome(lambda: box.files.watch_dir("none"))
    return json.dumps([first, second, below, none["exception"]])


async def watch_stream():
    """As the asynchronous SDK does it."""
    box = await sandbox(TOKEN, "AsyncSandbox")
    await box.files.make_dir("streamed")
    heard = asyncio.Queue()
    handle = await box.files.watch_dir("streamed", on_event=heard.put_nowait)
    await box.files.write("streamed/a", "1")
    events = [await asyncio.wait_for(heard.get(), 20) for _ in range(2)]
    await handle.stop()
    return json.dumps([[event.name, event.type.value] for event in events])


def main():
    came = {"tokens": {name: outcome(call) for name, call in tokens()}}
    box = sandbox(TOKEN)
    for group in (commands, files, urls):
        came[group.__name__] = {name: outcome(call) for name, call in group(box)}
    came["refusals"] = {name: outcome(call) for name, call in refusals()}
    for alone in (streams, stdin, background, killed, timeouts, parallel, keepalive, terminal, watch):
        came[alone.__name__] = outcome(lambda: alone(box))
    came["watch_stream"] = outcome(lambda: asyncio.run(watch_stream()))
    lifecycle.tell(came)


main()
