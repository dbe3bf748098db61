"""What processes use."""

import os
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_s(root: int) -> float:
    """CPU time of a process and of all its descendants, those that have ended included, in seconds."""
    # of its own in user and in system mode, and of children that have ended
    return sum(sum(map(int, fields[11:15])) for fields in _family(root).values()) / _TICKS


def jvm_pid(spark: Any) -> int:
    """The process of the JVM of a classic session."""
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def resident_mb(root: int) -> dict[str, list[float]]:
    """Resident memory of a PySpark driver and of what it has started, in megabytes.

    Returns:
        One number per process: "driver" (Python), "JVM", "daemon", which starts the Python workers, and
        "worker".
    """
    found = dict[str, list[float]]()
    for role, pages in _roles(root).values():
        found.setdefault(role, []).append(pages * _PAGE / 1e6)
    return found


def jvm_of(root: int) -> int | None:
    """The process of the JVM that a PySpark driver has started, None if there is none."""
    return next((pid for pid, (role, _) in _roles(root).items() if role == "JVM"), None)


def _roles(root: int) -> dict[int, tuple[str, int]]:
    """What each process of a PySpark driver is, and how many pages it has in memory."""
    family, commands = _family(root), dict[int, bytes]()
    for pid in family:
        try:
            commands[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it has just ended
            commands[pid] = b""
    found = {}
    for pid, fields in family.items():
        if b"pyspark.daemon" in commands[pid]:
            role = "worker" if b"pyspark.daemon" in commands.get(int(fields[1]), b"") else "daemon"
        elif b"SparkSubmit" in commands[pid]:
            if b"SparkSubmit" in commands.get(int(fields[1]), b""):
                continue  # the JVM starts a command
            role = "JVM"
        elif pid == root:
            role = "driver"
        else:
            continue
        found[pid] = (role, int(fields[21]))
    return found


def _family(root: int) -> dict[int, list[str]]:
    """The process and its descendants, with the fields of `/proc/PID/stat` from the third on."""
    processes = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                processes[int(path.name)] = (path / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has just ended
                continue
    family, grown = {root}, True
    while grown:
        more = {pid for pid, fields in processes.items() if int(fields[1]) in family} - family
        family |= more
        grown = bool(more)
    return {pid: processes[pid] for pid in family if pid in processes}
