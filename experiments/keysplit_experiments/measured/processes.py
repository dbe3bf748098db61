"""What processes use."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(root: int) -> float:
    """CPU time of a process and of all its descendants, those that have ended included, in seconds."""
    processes = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has just ended
                continue
            # of its own in user and in system mode, and of children that have ended
            processes[int(path.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    family, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in processes.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return sum(processes[pid][1] for pid in family if pid in processes) / _TICKS
