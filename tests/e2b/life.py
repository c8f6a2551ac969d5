"""The life of sandboxes, from create to kill, with the real E2B SDK and a real control plane. Prints, as JSON, what user
code would see.

    E2B_API_KEY=… life.py TEMPLATE OTHER-API-KEY

Where the API and the sandboxes are stands in the environment, as the SDK reads it (E2B_API_URL and E2B_SANDBOX_URL, or
E2B_DOMAIN). It runs with today's SDK and with 2.8.1. Names below `localhost` are this machine: today's SDK knows that,
and for 2.8.1, which asks the C library, it is said here.
"""

import asyncio
import datetime
import importlib.metadata
import json
import os
import socket
import sys

from e2b import AsyncSandbox, Sandbox, SandboxQuery, SandboxState

import timeouts
from lifecycle import outcome, tell

TEMPLATE, OTHER = sys.argv[1:]
METADATA = {"who": "life", "words": "b c=d&e/ü"}
CREATES = 20

resolve = socket.getaddrinfo


def resolve_here(host, *others, **more):
    name = host.decode() if isinstance(host, bytes) else host
    return resolve("127.0.0.1" if name and name.endswith(".localhost") else host, *others, **more)


socket.getaddrinfo = resolve_here


def main():
    came = {"version": {"value": importlib.metadata.version("e2b")}}
    # Their time passes meanwhile.
    short = timeouts.begin(TEMPLATE)
    box = Sandbox.create(TEMPLATE, metadata=METADATA, envs={"GREETING": "hello there"}, timeout=300)
    for steps in (running, others, paused, killed, private):
        for name, step in steps(box):
            came[name] = outcome(step)
    for name, step in timeouts.passed(*short):
        came[name] = outcome(step)
    came["many"] = outcome(lambda: asyncio.run(many()))
    came["paging"] = outcome(paging)
    came["all_killed"] = outcome(all_killed)
    tell(came)


def listed(**query):
    """The IDs of every page of a list."""
    limit = query.pop("limit", None)
    pages = Sandbox.list(query=SandboxQuery(**query), limit=limit)
    found = []
    while pages.has_next:
        found.extend(box.sandbox_id for box in pages.next_items())
    return found


def left(info):
    """The whole minutes, rounded, that a sandbox has left."""
    return round((info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds() / 60)


def used(box):
    """Whether the one entry is what this machine uses: nothing keeps a sandbox of the scenarios from all of it."""
    (now,) = box.get_metrics()
    age = datetime.datetime.now(datetime.timezone.utc) - now.timestamp
    parts = [now.mem_used / now.mem_total, now.disk_used / now.disk_total, age.total_seconds() / 60]
    return json.dumps([now.cpu_count == os.cpu_count(), all(0 <= part <= 1 for part in parts), now.mem_used > 0])


def running(box):
    mine = [box.sandbox_id]
    yield "is_running", box.is_running
    yield "env", lambda: box.commands.run("echo $GREETING").stdout
    yield "write", lambda: box.files.write("note.txt", "written by the SDK").path
    yield "read", lambda: box.files.read("note.txt")
    yield "same", lambda: box.commands.run("cat note.txt").stdout
    yield "failed", lambda: box.commands.run("exit 3")
    info = box.get_info()
    yield "info", lambda: json.dumps([info.template_id, info.metadata == METADATA, info.state.value])
    yield "info_id", lambda: info.sandbox_id == box.sandbox_id
    yield "left", lambda: left(info)
    yield "set_timeout", lambda: [box.set_timeout(900), left(box.get_info())][1]
    yield "shorter", lambda: [box.set_timeout(120), left(box.get_info())][1]
    yield "listed", lambda: listed(metadata=METADATA) == mine
    yield "listed_one", lambda: listed(metadata={"who": "life"}, state=[SandboxState.RUNNING]) == mine
    yield "listed_other", lambda: listed(metadata=METADATA | {"who": "else"})
    yield "listed_paused", lambda: listed(metadata=METADATA, state=[SandboxState.PAUSED])
    yield "connected", lambda: Sandbox.connect(box.sandbox_id).commands.run("cat note.txt").stdout
    yield "metrics", lambda: used(box)


def others(box):
    """What comes of mistakes, and of somebody else's sandbox."""
    wrong = "e2b_" + "0" * 40
    yield "unknown_template", lambda: Sandbox.create("no-such-template")
    yield "wrong_key", lambda: Sandbox.create(TEMPLATE, api_key=wrong)
    yield "wrong_key_list", lambda: Sandbox.list(api_key=wrong).next_items()
    yield "other_info", lambda: Sandbox.get_info(box.sandbox_id, api_key=OTHER)
    yield "other_connect", lambda: Sandbox.connect(box.sandbox_id, api_key=OTHER)
    yield "other_timeout", lambda: Sandbox.set_timeout(box.sandbox_id, 10, api_key=OTHER)
    yield "other_kill", lambda: Sandbox.kill(box.sandbox_id, api_key=OTHER)
    yield "other_list", lambda: len(Sandbox.list(api_key=OTHER).next_items())
    yield "never_was", lambda: Sandbox.get_info("never-was")
    yield "untouched", lambda: box.commands.run("cat note.txt").stdout


def paused(box):
    yield "pause", lambda: getattr(box, "pause", box.beta_pause)() in (True, None)
    yield "pause_again", lambda: getattr(box, "pause", box.beta_pause)()
    yield "paused_state", lambda: box.get_info().state.value
    yield "paused_listed", lambda: listed(metadata=METADATA, state=[SandboxState.PAUSED]) == [box.sandbox_id]
    yield "paused_running", lambda: listed(metadata=METADATA, state=[SandboxState.RUNNING])
    yield "paused_is_running", box.is_running
    yield "paused_metrics", box.get_metrics
    yield "resume", lambda: Sandbox.connect(box.sandbox_id, timeout=600).sandbox_id == box.sandbox_id
    yield "resumed_state", lambda: [box.get_info().state.value, left(box.get_info())]
    # The pod is another one, so the files are gone; variables and token are what they were.
    yield "resumed_env", lambda: box.commands.run("echo $GREETING").stdout
    yield "resumed_write", lambda: [box.files.write("note.txt", "once more"), box.files.read("note.txt")][1]


def killed(box):
    yield "kill", box.kill
    yield "kill_again", box.kill
    yield "killed_info", lambda: Sandbox.get_info(box.sandbox_id)
    yield "killed_connect", lambda: Sandbox.connect(box.sandbox_id)
    yield "killed_listed", lambda: listed(metadata=METADATA)
    yield "killed_is_running", box.is_running


def private(open_box):
    """A sandbox without public traffic: it has a token of its own, and envd asks for none of it."""
    box = Sandbox.create(TEMPLATE, network={"allow_public_traffic": False}, timeout=300)
    token = box.traffic_access_token
    yield "private_token", lambda: [len(token) >= 32, open_box.traffic_access_token]
    yield "private_envd", lambda: [box.files.write("in.txt", "in"), box.commands.run("cat in.txt").stdout][1]
    yield "private_connected", lambda: Sandbox.connect(box.sandbox_id).traffic_access_token == token
    yield "private_paused", lambda: getattr(box, "pause", box.beta_pause)() in (True, None)
    yield "private_resumed", lambda: Sandbox.connect(box.sandbox_id).traffic_access_token == token
    yield "private_kill", box.kill


async def many():
    """Creates at the same time: each caller has a sandbox of its own, with its own variables."""

    async def one(number):
        box = await AsyncSandbox.create(TEMPLATE, metadata={"many": "yes"}, envs={"NUMBER": str(number)}, timeout=300)
        await box.files.write("number.txt", str(number))
        told = await box.commands.run("echo $NUMBER $(cat number.txt)")
        return box.sandbox_id, told.stdout == f"{number} {number}\n"

    made = await asyncio.gather(*(one(number) for number in range(CREATES)))
    return json.dumps([len({identity for identity, _ in made}), all(right for _, right in made)])


def paging():
    """Every page has other sandboxes, and together they have all of them."""
    found = listed(metadata={"many": "yes"}, limit=6)
    return json.dumps([len(found), len(set(found)), len(Sandbox.list(limit=6).next_items())])


def all_killed():
    said = [Sandbox.kill(identity) for identity in listed(metadata={"many": "yes"})]
    return json.dumps([len(said), all(said), listed(metadata={"many": "yes"})])


main()
