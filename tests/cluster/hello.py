"""A page that says which sandbox it is: hello.py IP PORT"""

import http.server
import os
import signal
import sys


class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"hello from {os.environ.get('POD_NAME', 'nowhere')}\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Hello).serve_forever()
