"""How much of this machine a process may use: a container often has a share of the processors and of the memory."""
import os
from contextlib import suppress
from pathlib import Path

GROUP = Path("/sys/fs/cgroup")  # of Linux; version 2 has `cpu.max`, version 1 two files in `cpu`


def first_number(path: Path, at: int = 0) -> float:
    "A number in a file of the system; infinity where there is no such file, or no limit in it."
    with suppress(OSError, ValueError, IndexError): return float(path.read_text().split()[at])
    return float("inf")


def cores() -> int:
    "Processors that this process may use, 1 or more."
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = first_number(GROUP/"cpu.max")/first_number(GROUP/"cpu.max", 1) if (GROUP/"cpu.max").exists() else \
        first_number(GROUP/"cpu"/"cpu.cfs_quota_us")/first_number(GROUP/"cpu"/"cpu.cfs_period_us")
    return max(1, int(min(there, share))) if share > 0 else there  # -1 and no number: no limit


def memory() -> float:
    "GiB that are free for this process, or infinity where the system does not say."
    limits = [first_number(GROUP/"memory.max"), first_number(GROUP/"memory"/"memory.limit_in_bytes")]
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(next(1024*float(o.split()[1]) for o in lines if o.startswith("MemAvailable")))
    return min(limits)/2**30


def jobs(least: int, most: int, each: float) -> int:
    "Processes at a time: one more than there are processors, as some wait; `each` takes that many GiB."
    return int(max(least, min(cores() + 1, most, memory()/each)))
