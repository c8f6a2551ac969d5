"""Leaves commands running in a sandbox, and prints, as JSON, their process IDs.

    left.py GATEWAY-URL SANDBOX-ID

One is the command itself, the other a child of it that has left its session. The lifecycle API is a stub in this
process.
"""

import sys

import lifecycle


def main():
    api = lifecycle.start(sys.argv[2])

    from e2b import Sandbox

    sandbox = Sandbox.connect(sys.argv[2], api_key="e2b_" + "0" * 40, api_url=api, sandbox_url=sys.argv[1])
    command = "setsid sleep 600 >/dev/null & echo $!; exec sleep 600"
    handle = sandbox.commands.run(command, background=True, timeout=0)
    child = int(next(iter(handle))[0])
    handle.disconnect()
    lifecycle.tell([handle.pid, child])


main()
