"""A small envd: the server that E2B's SDK speaks to inside a sandbox, as far as the scenarios ask for it.

    envd.py IP [PORT]

Serves health, files (in memory) and commands (real processes). Prints one line once it listens, and then one for each
request: what it saw of it.
"""

import base64
import email.parser
import email.policy
import http.server
import json
import struct
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

FILES = {}


class Envd(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/health":
            return self.answer(204)
        if url.path == "/files":
            content = FILES.get(parse_qs(url.query)["path"][0])
            if content is None:
                return self.answer_json(404, {"code": 404, "message": "path does not exist"})
            return self.answer(200, content, "application/octet-stream")
        self.answer_json(404, {"code": 404, "message": "not found"})

    def do_POST(self):
        url = urlsplit(self.path)
        body = self.body()
        if url.path == "/files":
            if self.headers.get_content_type() == "multipart/form-data":
                head = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
                parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts()
                body = next(parts).get_payload(decode=True)
            path = parse_qs(url.query)["path"][0]
            FILES[path] = body
            return self.answer_json(200, [{"name": path.rsplit("/", 1)[1], "type": "file", "path": path}])
        if url.path == "/process.Process/Start":
            return self.start(json.loads(body[5:])["process"])
        self.answer_json(404, {"code": "unimplemented", "message": "not found"})

    def start(self, process):
        """A server stream of the Connect protocol: each message after a byte of flags and its length."""
        done = subprocess.run([process["cmd"], *process.get("args", [])], capture_output=True)
        text = lambda data: base64.b64encode(data).decode()
        events = [
            {"start": {"pid": 1}},
            {"data": {"stdout": text(done.stdout)}},
            {"data": {"stderr": text(done.stderr)}},
            {"end": {"exited": True, "exitCode": done.returncode, "status": f"exit status {done.returncode}"}},
        ]
        messages = [(0, {"event": event}) for event in events] + [(2, {})]
        encoded = [(flags, json.dumps(message).encode()) for flags, message in messages]
        frames = b"".join(struct.pack(">BI", flags, len(data)) + data for flags, data in encoded)
        self.answer(200, frames, "application/connect+json")

    def body(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer_json(self, status, value):
        self.answer(status, json.dumps(value).encode(), "application/json")

    def answer(self, status, body=b"", content_type="text/plain"):
        seen = {"host": self.headers["host"], "proto": self.headers["x-forwarded-proto"], "path": self.path}
        print(json.dumps(seen), flush=True)
        self.send_response(status)
        if status != 204:
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 49983
    server = http.server.ThreadingHTTPServer((sys.argv[1], port), Envd)
    print("listens", flush=True)
    server.serve_forever()


main()
