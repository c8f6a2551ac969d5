"""What OpenSandbox's SDK speaks to inside a sandbox, as far as the scenarios use it: execd.py IP [PORT]

Commands with their output as events, files up and down, health. Paths are those of the container: /a is ./a here.
"""

import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.parse

ROOT = pathlib.Path.cwd()


def place(path):
    found = (ROOT / path.lstrip("/")).resolve()
    if not found.is_relative_to(ROOT.resolve()):
        raise ValueError(path)
    return found


class Execd(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        read = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            read += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return read

    def reply(self, status, body=b"", kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, kind, **fields):
        fields |= {"type": kind, "timestamp": int(time.time() * 1000)}
        self.chunk(json.dumps(fields).encode() + b"\n\n")

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.parse_qs(url.query).get("path", [""])[0]
        # Whoever gave it away would be seen by the sandbox.
        if self.headers.get("opensandbox-secure-access"):
            return self.reply(500, b'{"code":"LEAK","message":"the token of the gateway came through"}')
        if url.path == "/ping":
            return self.reply(200)
        if url.path == "/files/download" and place(path).is_file():
            return self.reply(200, place(path).read_bytes(), "application/octet-stream")
        self.reply(404, b'{"code":"NOT_FOUND","message":"nothing here"}')

    def do_POST(self):
        body = self.body()
        if self.path == "/files/upload":
            self.upload(body)
        elif self.path == "/command":
            self.run(json.loads(body))
        else:
            self.reply(404, b'{"code":"NOT_FOUND","message":"nothing here"}')

    def upload(self, body):
        boundary = re.search('boundary="?([^";]+)', self.headers["content-type"])[1].encode()
        target = None
        for part in body.split(b"--" + boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            content = content.removesuffix(b"\r\n")
            if b'name="metadata"' in head:
                target = place(json.loads(content)["path"])
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        self.reply(200)

    def run(self, asked):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        begin = time.time()
        self.event("init", text="one")
        child = subprocess.Popen(
            ["sh", "-c", asked["command"]], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | asked.get("envs", {}))
        for line in child.stdout:
            self.event("stdout", text=line)
        if code := child.wait():
            self.event("error", error={"ename": "CommandExecError", "evalue": str(code), "traceback": []})
        else:
            self.event("execution_complete", execution_time=int((time.time() - begin) * 1000))
        self.chunk(b"")

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
port = int(sys.argv[2]) if len(sys.argv) > 2 else 44772
http.server.ThreadingHTTPServer((sys.argv[1], port), Execd).serve_forever()
