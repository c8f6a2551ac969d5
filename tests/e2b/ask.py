"""Asks a sandbox through the gateway with the real E2B SDK and prints, as JSON, what user code would see.

    ask.py GATEWAY-URL SANDBOX-ID

The lifecycle API is a stub in this process, so that the SDK has a sandbox to speak of; files, commands and the health
check go to the gateway, with the SDK's own headers.
"""

import http.server
import json
import sys
import threading


class LifecycleApi(http.server.BaseHTTPRequestHandler):
    """Knows every sandbox."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        sandbox = {"templateID": "t", "sandboxID": sys.argv[2], "clientID": "c", "envdVersion": "0.5.8"}
        body = json.dumps(sandbox).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def outcome(call):
    try:
        return {"value": str(call())}
    except Exception as error:
        return {"exception": type(error).__name__, "message": str(error)}


def main():
    api = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LifecycleApi)
    threading.Thread(target=api.serve_forever, daemon=True).start()

    from e2b import Sandbox

    sandbox = Sandbox.connect(
        sys.argv[2],
        api_key="e2b_" + "0" * 40,
        api_url=f"http://127.0.0.1:{api.server_port}",
        sandbox_url=sys.argv[1],
    )
    print(
        json.dumps(
            {
                "is_running": outcome(sandbox.is_running),
                "files": outcome(lambda: sandbox.files.read("/a")),
                "commands": outcome(lambda: sandbox.commands.run("true")),
            }
        )
    )


main()
