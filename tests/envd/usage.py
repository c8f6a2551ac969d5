"""What a sandbox uses. Nothing keeps it from the whole machine, so it is what the machine uses."""

import os
import shutil
import time


def now(root):
    """The answer of `GET /metrics`."""
    memory, disk = meminfo(), shutil.disk_usage(root)
    cores = os.cpu_count()
    return {
        "ts": int(time.time()),
        "cpu_count": cores,
        "cpu_used_pct": round(min(100, 100 * os.getloadavg()[0] / cores), 2),
        "mem_used": memory["MemTotal"] - memory["MemAvailable"],
        "mem_total": memory["MemTotal"],
        "mem_cache": memory["Cached"],
        "disk_used": disk.used,
        "disk_total": disk.total,
    }


def meminfo():
    """In bytes."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        pairs = (line.split(":") for line in lines)
        return {name: 1024 * int(value.split()[0]) for name, value in pairs}
