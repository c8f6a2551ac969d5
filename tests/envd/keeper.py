"""The processes of a sandbox end with it, however it ends.

Every command has a mark in its environment, which its children inherit. When envd is told to end, it ends all that bear
the mark. A child process, the keeper, does the same when envd is gone without having been told: it waits for the end of
a pipe that only envd holds open.
"""

import os
import shutil
import signal

MARK = "ENVD_RUN"
ROUNDS = 100


def bearers(mark):
    """The processes that bear a mark and are not dead already."""
    sought, found = f"{MARK}={mark}".encode(), []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as environment:
                if sought in environment.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass  # Gone, or somebody else's.
    return found


def end_all(mark):
    """Ends every bearer; again, because one may have had a child since it was seen."""
    for _ in range(ROUNDS):
        alive = bearers(mark)
        if not alive:
            return
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def start(mark, folder):
    """Starts the keeper, before there are threads. It also removes the folder, if one is given."""
    reads, writes = os.pipe()
    if os.fork():
        os.close(reads)
        return writes
    try:
        os.close(writes)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.read(reads, 1)
        end_all(mark)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)
