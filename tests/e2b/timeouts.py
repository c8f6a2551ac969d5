"""Two sandboxes whose timeout passes, with the real E2B SDK and a real control plane: one ends then, the other pauses
and is woken by a connect. Prints, as JSON, what user code would see.

    E2B_API_KEY=… timeouts.py TEMPLATE

Where the API and the sandboxes are stands in the environment, as the SDK reads it. It runs with today's SDK and with
2.8.1.
"""

import sys
import time

from e2b import Sandbox, SandboxQuery, SandboxState

from lifecycle import outcome, tell

SECONDS = 5
PATIENCE = 60
METADATA = {"who": "timeouts"}


def begin(template):
    """The sandbox that ends, and the one that pauses. For the second 2.8.1 has a method of its own."""
    ends = Sandbox.create(template, metadata=METADATA, timeout=SECONDS)
    more = {"metadata": METADATA, "envs": {"GREETING": "still here"}, "timeout": SECONDS}
    if hasattr(Sandbox, "beta_create"):
        return ends, Sandbox.beta_create(template, auto_pause=True, **more)
    return ends, Sandbox.create(template, lifecycle={"on_timeout": "pause"}, **more)


def passed(ends, pauses):
    """What comes of them when the time is over."""
    until(lambda: "exception" in outcome(ends.get_info))
    yield "ended_info", ends.get_info
    yield "ended_connect", lambda: Sandbox.connect(ends.sandbox_id)
    yield "ended_is_running", ends.is_running
    until(lambda: pauses.get_info().state == SandboxState.PAUSED)
    yield "left_over", lambda: listed() == [pauses.sandbox_id]
    yield "auto_paused", lambda: listed(SandboxState.PAUSED) == [pauses.sandbox_id]
    yield "auto_paused_running", lambda: listed(SandboxState.RUNNING)
    yield "woken", lambda: Sandbox.connect(pauses.sandbox_id, timeout=600).commands.run("echo $GREETING").stdout
    yield "woken_running", lambda: listed(SandboxState.RUNNING) == [pauses.sandbox_id]
    yield "woken_kill", pauses.kill


def listed(*states):
    pages = Sandbox.list(query=SandboxQuery(metadata=METADATA, state=list(states) or None))
    return [box.sandbox_id for box in pages.next_items()]


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE} s")
        time.sleep(0.05)


if __name__ == "__main__":
    tell({name: outcome(step) for name, step in passed(*begin(sys.argv[1]))})
