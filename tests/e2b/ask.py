"""Asks a sandbox through the gateway with the real E2B SDK and prints, as JSON, what user code would see.

    ask.py GATEWAY-URL SANDBOX-ID

The lifecycle API is a stub in this process, so that the SDK has a sandbox to speak of; files, commands and the health
check go to the gateway, with the SDK's own headers.
"""

import sys

import lifecycle
from lifecycle import outcome


def main():
    api = lifecycle.start(sys.argv[2])

    from e2b import Sandbox

    sandbox = Sandbox.connect(sys.argv[2], api_key="e2b_" + "0" * 40, api_url=api, sandbox_url=sys.argv[1])
    lifecycle.tell(
        {
            "is_running": outcome(sandbox.is_running),
            "files": outcome(lambda: sandbox.files.read("/a")),
            "commands": outcome(lambda: sandbox.commands.run("true")),
        }
    )


main()
