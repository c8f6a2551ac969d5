"""Uses a sandbox by OpenSandbox's SDK, through a gateway: works.py GATEWAY ID TOKEN

The server that says where sandboxes are is played here. It names the gateway in each of the three ways that theirs
does: by path, by header, by host. What came of each call is written as JSON.
"""

import http.server
import json
import sys
import threading

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxException
from opensandbox.sync.sandbox import SandboxSync

gateway, sandbox_id, token = sys.argv[1:]
way = None


def endpoint(port):
    access = {"OpenSandbox-Secure-Access": token}
    if way == "path":
        return {"endpoint": f"{gateway}/{sandbox_id}/{port}", "headers": access}
    if way == "header":
        return {"endpoint": gateway, "headers": access | {"OpenSandbox-Ingress-To": f"{sandbox_id}-{port}"}}
    return {"endpoint": gateway, "headers": access | {"Host": f"{sandbox_id}-{port}.sandboxes.example"}}


class Lifecycle(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        port = self.path.partition("?")[0].rpartition("/")[2]
        body = json.dumps(endpoint(port)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lifecycle)
threading.Thread(target=server.serve_forever, daemon=True).start()


def use():
    config = ConnectionConfigSync(
        domain=f"127.0.0.1:{server.server_port}", api_key="none", disable_metrics=True, endpoint_cache_disabled=True)
    sandbox = SandboxSync.connect(sandbox_id, connection_config=config)
    said = sandbox.commands.run("echo $POD_NAME; echo second")
    failed = sandbox.commands.run("exit 3")
    text = f"written {way}\n" * 5000
    sandbox.files.write_file(f"/work/{way}.txt", text)
    seen = {
        "healthy": sandbox.is_healthy(),
        "stdout": [message.text for message in said.logs.stdout],
        "exit": [said.exit_code, failed.exit_code],
        "same": sandbox.files.read_file(f"/work/{way}.txt") == text,
    }
    try:
        sandbox.files.read_file("/missing")
    except SandboxException as error:
        seen["missing"] = getattr(error, "status_code", None)
    sandbox.close()
    return seen


found = {}
for way in ("path", "header", "host"):
    found[way] = use()
print(json.dumps(found))
