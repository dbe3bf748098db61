"""The diagnosis of an application, or of several: its findings, and how they show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keysplit.diagnosis.events import Events
from keysplit.diagnosis.files import find_logs
from keysplit.diagnosis.findings import list_findings, list_stages
from keysplit.diagnosis.model import Finding, Stage
from keysplit.diagnosis.text import format_core_time, format_time, shorten
from keysplit.diagnosis.waiting import waits
from keysplit.profiling.text import Printed, format_count, format_ratio, make_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

_BALANCED = "no action needed: no stage waits for a slow task"


@dataclass(frozen=True, eq=False, kw_only=True)
class Application:
    """What one event log says.

    Attributes:
        name: the application's name.
        id: the id that Spark gave it.
        version: the version of Spark; empty if the log does not say.
        duration_s: from its start to its end, or to where the log ends.
        ended: whether the log says that it ended.
        tasks: how many tasks succeeded.
        stages: its stages, in the order in which they started.
        findings: the stages that wait, those that would save most first.
        notes: what could not be read.
    """

    name: str
    id: str
    version: str
    duration_s: float
    ended: bool
    tasks: int
    stages: tuple[Stage, ...] = field(repr=False)
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Its name and id."""
        return f"{self.name} ({self.id})" if self.id and self.id != self.name else self.name or self.id


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis(Printed):
    """Which stages wait for a slow task, why, and what would help.

    Print it, or show it in a notebook.

    Attributes:
        applications: what each log says.
    """

    applications: tuple[Application, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all applications, those that would save most first."""
        found = [finding for each in self.applications for finding in each.findings]
        return tuple(sorted(found, key=lambda finding: -(finding.saved_s.high * finding.times)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read."""
        return tuple(note for each in self.applications for note in each.notes)

    @property
    def verdict(self) -> str:
        """What to do first, in words."""
        found = self.findings
        if not found:
            return _BALANCED if any(each.tasks for each in self.applications) else "no task has ended yet"
        return found[0].verdict

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {
            "verdict": self.verdict,
            "applications": [
                {
                    "name": each.name,
                    "id": each.id,
                    "spark_version": each.version,
                    "duration_s": each.duration_s,
                    "ended": each.ended,
                    "stages": len(each.stages),
                    "tasks": each.tasks,
                    "notes": list(each.notes),
                    "findings": [finding.to_dict() for finding in each.findings],
                }
                for each in self.applications
            ],
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per finding; the columns are the fields of `Finding.to_dict`, and the application.

        Raises:
            ImportError: if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        rows = []
        for application in self.applications:
            for finding in application.findings:
                row = {"application": application.title, **finding.to_dict()}
                row |= {f"balanced_{name}_s": value for name, value in row.pop("balanced_s").items()}
                for what, of in row.pop("spreads").items():
                    row |= {f"{what}_{name}": value for name, value in of.items()}
                rows.append(row)
        return pd.DataFrame(rows)

    def print_on(self, console: Console, title: str = "") -> None:
        """Print what was found: for each application a table, then the verdicts."""
        from rich.text import Text

        if title:
            console.print(Text(f"{title}\n", style="bold"))
        for number, application in enumerate(self.applications):
            if number:
                console.print()
            _print_application(console, application)


def _print_application(console: Console, application: Application) -> None:
    from rich.text import Text

    version = f", Spark {application.version}" if application.version else ""
    end = "" if application.ended else ", not ended"
    head = (
        f"{application.title}: {format_time(application.duration_s)}{version}, "
        f"{format_count(len(application.stages), 'stage')}, {format_count(application.tasks, 'task')}{end}"
    )
    console.print(Text(f"{head}\n", style="bold"))
    if not application.findings:
        console.print(Text(_BALANCED if application.tasks else "no task has ended yet"))
    else:
        console.print(make_findings_table(application.findings))
        for number, finding in enumerate(application.findings, 1):
            console.print()
            console.print(Text.assemble((f"{number} ", "bold"), finding.verdict))
    for note in application.notes:
        console.print()
        console.print(Text(f"Note: {note}"))


def make_findings_table(findings: Sequence[Finding]) -> Any:
    """Return the table of the findings, a line each."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("stage", justify="right", no_wrap=True)
    table.add_column("what")  # shrinks if a line is too long
    for name in ("slowest", "/median", "reads", "waiting", "saves"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, finding in enumerate(findings, 1):
        table.add_row(
            str(number),
            str(finding.stage.id),
            Text(finding.what, style="bold" if finding.line else "", no_wrap=True, overflow="ellipsis"),
            format_time(finding.spreads["time"].slowest),
            format_ratio(finding.ratio) if finding.ratio < 10 else f"{finding.ratio:,.0f}",
            f"{finding.share:.0%}" if finding.share else "",
            format_core_time(finding.waiting_core_s),
            f"{finding.saved_s.high / finding.query_s:.0%}",
        )
    return table


def diagnose(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Diagnosis:
    """Read Spark's event logs, and say which stages wait for a slow task, why, and what would help.

    A stage is a finding if it took a second or longer, its slowest task at least twice the median, and the
    query would have ended at least 5 % earlier if the stage were balanced. Logs are read line by line, as far
    as they are written.

    Args:
        paths: files or folders of event logs of Spark 3.5 and newer, rolled or not, compressed with zstd, lz4
            or snappy or not at all; or their URLs, of any file system that pyarrow knows.

    Returns:
        The diagnosis.

    Raises:
        FileNotFoundError: if there is nothing at a path, or no log in a folder.
        ValueError: if a file is no event log, or compressed with lzf.

    Example:
        >>> diagnose("eventlogs").verdict  # doctest: +SKIP
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ValueError("paths must name at least one event log, got none")
    return Diagnosis(applications=tuple(_read(log.name, log.lines) for log in find_logs(given)))


def _read(name: str, lines: Any) -> Application:
    notes: list[str] = []
    events = Events(waits)
    events.feed(lines(notes.append))
    events.close()
    if events.damaged == events.lines and events.lines:
        raise ValueError(f"{name} must be an event log of Spark: none of its {events.lines:,} lines is an event")
    if events.damaged:
        notes.append(f"{format_count(events.damaged, 'line')} of {name} could not be read")
    stages = list_stages(events)
    for stage in events.stages.values():
        if stage.failure:
            notes.append(f"stage {stage.id} failed: {shorten(stage.failure, 200)}")
    return Application(
        name=events.application or name,
        id=events.application_id,
        version=events.version,
        duration_s=max(events.end_ms - events.start_ms, 0) / 1000,
        ended=events.ended,
        tasks=sum(stage.tasks for stage in stages),
        stages=tuple(stages),
        findings=tuple(list_findings(events)),
        notes=tuple(notes),
    )
