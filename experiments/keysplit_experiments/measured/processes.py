"""What processes use."""

import os
import threading
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


# How often workers are looked at. Spark ends those that have been idle for a minute.
_LOOK_S = 5.0


def cpu_s(root: int) -> float:
    """CPU time of a process and of all its descendants, in seconds.

    Those that have ended are included, but for Python workers of Spark: see `CpuClock`.
    """
    return sum(map(_cpu_s, _family(root).values()))


class CpuClock:
    """The CPU time of a process and of all its descendants from now on.

    Spark ends idle Python workers, and the system forgets the time of a process that nobody waits for. So
    their time is written down while they live.

    Args:
        root: the process.
    """

    def __init__(self, root: int) -> None:
        self._root, self._workers, self._lost = root, dict[int, float](), 0.0
        self._stopped = threading.Event()
        self._began = self._look()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return the seconds, and look no more."""
        self._stopped.set()
        self._thread.join()
        return self._look() + self._lost - self._began

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            self._look()

    def _look(self) -> float:
        family = _family(self._root)
        workers = {
            pid: _cpu_s(family[pid])
            for pid, (role, _) in _roles(family, self._root).items()
            if role == "worker"
        }
        self._lost += sum(used for pid, used in self._workers.items() if pid not in workers)
        self._workers = workers
        return sum(map(_cpu_s, family.values()))


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
    for role, pages in _roles(_family(root), root).values():
        found.setdefault(role, []).append(pages * _PAGE / 1e6)
    return found


def jvm_of(root: int) -> int | None:
    """The process of the JVM that a PySpark driver has started, None if there is none."""
    return next((pid for pid, (role, _) in _roles(_family(root), root).items() if role == "JVM"), None)


def _cpu_s(fields: list[str]) -> float:
    """CPU time of a process in both modes, and of children that it has waited for, in seconds."""
    return sum(map(int, fields[11:15])) / _TICKS


def _roles(family: dict[int, list[str]], root: int) -> dict[int, tuple[str, int]]:
    """What each process of a PySpark driver is, and how many pages it has in memory."""
    commands = dict[int, bytes]()
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
