"""What this process may use of its host: memory and cores, as the machine, its container and its limits leave them.

Containers are control groups, of version 1 or 2; a process is in one that may be inside others, and the tightest of
their limits holds. Where a system tells nothing (no /proc), nothing limits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

__all__ = ["cores", "free_addresses", "free_memory"]

ROOT = "/"  # of the system's files
MODEST = 3 << 30  # bytes, where nobody says what is free
GROUPS = "sys/fs/cgroup"
NO_LIMIT = 1 << 60  # bytes: version 1 says "no limit" by a number that no machine has


def cores() -> int:
    """How many cores this process may keep busy: those it may run on, or as much of them as its container may use."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min([ours, *_cpu_quotas()])))


def free_memory() -> int:
    """Bytes that could be written to now: of the machine, or what is left of a container's limit."""
    left = _meminfo().get("MemAvailable", MODEST)
    return max(0, min([left, *_left_in_groups()]))


def free_addresses() -> float:
    """Bytes that could be asked for now, written to or not; infinite where addresses are not rationed."""
    left = math.inf
    used = [int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in _read("proc/self/statm").split()]
    if resource is not None and used:
        for limit, taken in ((resource.RLIMIT_AS, used[0]), (resource.RLIMIT_DATA, used[5])):
            soft, _ = resource.getrlimit(limit)
            if soft != resource.RLIM_INFINITY:
                left = min(left, soft - taken)
    if _read("proc/sys/vm/overcommit_memory").strip() == "2":  # what is asked for counts as if it were used
        info = _meminfo()
        left = min(left, info.get("CommitLimit", math.inf) - info.get("Committed_AS", 0))
    return max(0, left)


def _read(path: str) -> str:
    try:
        with open(os.path.join(ROOT, path)) as file:
            return file.read()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    """A number in a file, or None: no such file, or a word or −1 for "no limit" in it."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _meminfo() -> dict[str, int]:
    """The system's figures in bytes."""
    lines = (line.split() for line in _read("proc/meminfo").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def _groups(controller: str) -> Iterator[tuple[int, str]]:
    """The folders of this process's control group and of those around it, with the version of what is in them.

    A container may see its own folder as the outermost one while its path is told as the host sees it; then the folders
    inside are not there, and what is read of them is empty.
    """
    for line in _read("proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # some hosts mount version 2 beside version 1
            mounts = [(2, GROUPS), (2, f"{GROUPS}/unified")]
        elif controller in controllers.split(","):
            mounts = [(1, f"{GROUPS}/{controller}")]
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for version, mount in mounts:
            for depth in range(len(parts), -1, -1):
                yield version, "/".join([mount, *parts[:depth]])


def _left_in_groups() -> Iterator[int]:
    """What each limit of memory leaves. Files that nobody has used lately make room, which is how Kubernetes counts."""
    for version, group in _groups("memory"):
        if version == 2:
            limits, used, idle = ["memory.max", "memory.high"], "memory.current", "inactive_file"
        else:
            limits, used, idle = ["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file"
        most = min((limit for name in limits if (limit := _number(f"{group}/{name}")) is not None), default=NO_LIMIT)
        now = _number(f"{group}/{used}") if most < NO_LIMIT else None
        if now is not None:
            stat = dict(line.split() for line in _read(f"{group}/memory.stat").splitlines())
            yield most - now + int(stat.get(idle, 0))


def _cpu_quotas() -> Iterator[float]:
    """How many cores' time each limit leaves."""
    for version, group in _groups("cpu"):
        if version == 2:
            quota, _, period = _read(f"{group}/cpu.max").strip().partition(" ")
        else:
            quota, period = (_read(f"{group}/cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit():  # else "max", −1 or no such file
            yield int(quota) / int(period)
