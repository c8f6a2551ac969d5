"""Works in a sandbox behind a gateway with TLS and a domain of its own, and prints, as JSON, what user code would see.

    E2B_DOMAIN=DOMAIN[:PORT] own_domain.py SANDBOX-ID

The SDK itself makes the URL of the sandbox (https://49983-ID.DOMAIN), resolves it and checks the certificate. The
lifecycle API is a stub in this process.
"""

import io
import sys

import lifecycle
from lifecycle import outcome


def main():
    api = lifecycle.start(sys.argv[1])

    from e2b import Sandbox

    sandbox = Sandbox.connect(sys.argv[1], api_key="e2b_" + "0" * 40, api_url=api)
    lifecycle.tell(
        {
            "host": sandbox.get_host(3000),
            "is_running": outcome(sandbox.is_running),
            "write": outcome(lambda: sandbox.files.write("/notes/a.txt", "written by the SDK").path),
            "read": outcome(lambda: sandbox.files.read("/notes/a.txt")),
            "stream": outcome(lambda: sandbox.files.write("/notes/b.txt", io.BytesIO(b"b" * 300_000)).path),
            "read_stream": outcome(lambda: len(sandbox.files.read("/notes/b.txt"))),
            "missing": outcome(lambda: sandbox.files.read("/notes/none.txt")),
            "command": outcome(lambda: sandbox.commands.run("echo from the sandbox; echo bad >&2").stdout),
        }
    )


main()
