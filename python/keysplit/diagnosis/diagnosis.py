"""The diagnosis of one or several applications: findings, and how they are displayed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit.diagnosis.events import Events
from keysplit.diagnosis.files import EventLog, find_logs
from keysplit.diagnosis.findings import list_findings, list_stages
from keysplit.diagnosis.model import Finding, Stage
from keysplit.diagnosis.notes import list_notes, say_without_findings
from keysplit.diagnosis.settings import list_unknown
from keysplit.diagnosis.text import format_core_time, format_time, shorten
from keysplit.diagnosis.waiting import is_of_interest
from keysplit.show.console import Printed, make_table
from keysplit.show.shown import as_frame, import_pyplot
from keysplit.text import format_count, format_ratio, printable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

_HELD_BACK = (
    ". While Spark writes a compressed log, it holds back the latest events: kss.diagnose(spark) in the "
    "running session has them"
)
_NO_ACTION = ("no action needed", "wait for tasks")
_PLOTTED = 8  # findings


@dataclass(frozen=True, eq=False, kw_only=True)
class Application:
    """The content of one event log.

    Attributes:
        name: the application's name.
        id: the id that Spark gave it.
        version: the version of Spark; empty if the log does not say.
        duration_s: from the application's start to its end, or to the end of the log.
        ended: whether the log records that the application ended.
        tasks: how many tasks succeeded.
        stages: the application's stages, in the order in which they started.
        findings: the stages that wait, those with the largest saving first.
        failed: the numbers of the stages that failed.
        notes: what could not be read, why stages failed, and which stages have one task.
        without_findings: what to do first, in words, if there are no findings.
    """

    name: str
    id: str
    version: str
    duration_s: float
    ended: bool
    tasks: int
    stages: tuple[Stage, ...] = field(repr=False)
    findings: tuple[Finding, ...]
    failed: tuple[int, ...]
    notes: tuple[str, ...]
    without_findings: str = field(repr=False)

    @property
    def title(self) -> str:
        """The application's name and id."""
        return f"{self.name} ({self.id})" if self.id and self.id != self.name else self.name or self.id

    @property
    def verdict(self) -> str:
        """What to do first, in words."""
        return self.findings[0].verdict if self.findings else self.without_findings

    @property
    def _figures(self) -> str:
        version = f", Spark {self.version}" if self.version else ""
        end = "" if self.ended else ", not ended"
        counts = f"{format_count(len(self.stages), 'stage')}, {format_count(self.tasks, 'task')}"
        return f"{format_time(self.duration_s)}{version}, {counts}{end}"

    def _describe(self, *, pictures: bool) -> dict[str, Any]:
        from keysplit.diagnosis import page

        shown = self.findings[: page.MOST_FINDINGS]
        drawn = pictures and bool(self.stages)
        return {
            "title": self.title,
            "subtitle": self._figures,
            "verdict": page.sentences(self.verdict),
            "line": self.findings[0].line if self.findings else None,
            "waiting": format_core_time(sum(of.waiting_core_s for of in self.findings)),
            "found": len(self.findings),
            "stages": len(self.stages),
            "hidden": max(len(self.stages) - page.MOST_STAGES, 0),
            "timeline": page.draw_timeline(self.stages, shown, self.duration_s) if drawn else None,
            "findings": [page.describe(number, of, pictures=pictures) for number, of in enumerate(shown, 1)],
            "more": len(self.findings) - len(shown),
            "notes": self.notes,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis(Printed):
    """Which stages wait for a slow task, why, and what would help.

    Print it, or show it in a notebook.

    Attributes:
        applications: one application per log.
    """

    applications: tuple[Application, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all applications, those with the largest saving first."""
        found = [finding for each in self.applications for finding in each.findings]
        return tuple(sorted(found, key=lambda finding: -(finding.saved_s.high * finding.times)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what could not be read."""
        return tuple(note for each in self.applications for note in each.notes)

    @property
    def verdict(self) -> str:
        """What to do first, in words."""
        if self.findings:
            return self.findings[0].verdict
        without = [each.verdict for each in self.applications]
        return next((each for each in without if not each.startswith(_NO_ACTION)), max(without))

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
                    "failed": list(each.failed),
                    "stages": len(each.stages),
                    "tasks": each.tasks,
                    "notes": list(each.notes),
                    "findings": [finding.to_dict() for finding in each.findings],
                }
                for each in self.applications
            ],
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per finding; the columns are the fields of `Finding.to_dict`, and the application.

        Raises:
            ImportError: if pandas is not installed.
        """
        rows = []
        for application in self.applications:
            for finding in application.findings:
                row = {"application": application.title, **finding.to_dict()}
                row |= {f"balanced_{name}_s": value for name, value in row.pop("balanced_s").items()}
                for what, of in row.pop("spreads").items():
                    row |= {f"{what}_{name}": value for name, value in of.items()}
                rows.append(row)
        return as_frame(rows)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the diagnosis as one self-contained HTML page.

        Args:
            path: the file, overwritten if it exists.

        Raises:
            TypeError: if `path` is not a path.
            OSError: if the file cannot be written.
        """
        from keysplit import paths

        paths.check(path)
        applications = self.applications
        title = applications[0].title if len(applications) == 1 else f"{len(applications)} applications"
        Path(path).write_text(self._render("page.html.j2", title=title, pictures=True), encoding="utf-8")

    def plot(self) -> Any:
        """Draw the task times of the first findings, the slowest task last.

        Returns:
            The matplotlib axes.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        _, axes = import_pyplot().subplots(figsize=(8, 4.5), layout="constrained")
        for number, finding in enumerate(self.findings[:_PLOTTED], 1):
            seconds = np.sort(finding.tasks.end_s - finding.tasks.start_s)
            label = f"{number} {finding.what} (stage {finding.stage.id})"
            axes.stairs(seconds, np.linspace(0, 1, len(seconds) + 1), baseline=None, label=label)
        axes.set(xlabel="tasks, the slowest last", ylabel="seconds", xlim=(0, 1), ylim=(0, None))
        if self.findings:
            axes.legend()
        else:
            axes.set_title(shorten(self.verdict, 100))
        return axes

    def _repr_html_(self) -> str:
        return self._render("piece.html.j2", pictures=False)

    def _render(self, template: str, *, pictures: bool, title: str = "") -> str:
        from keysplit.show.page import render

        applications = [each._describe(pictures=pictures) for each in self.applications]
        return render(__package__, template, title=title, applications=applications)

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

    title = f"{application.title}: {application._figures}"
    console.print(Text(f"{printable(title)}\n", style="bold"))
    if not application.findings:
        for line in application.verdict.splitlines():
            console.print(Text(printable(line)))
    else:
        console.print(make_findings_table(application.findings))
        for number, finding in enumerate(application.findings, 1):
            console.print()
            console.print(_numbered(number, finding.verdict))
            if finding.line is not None:  # for copying, so it is not wrapped
                console.print(Text(f"  {printable(finding.line)}"), soft_wrap=True)
        console.print(Text("\nDetails", style="bold"))
        for number, finding in enumerate(application.findings, 1):
            console.print(_numbered(number, f"{finding.details}."))
    for note in application.notes:
        console.print()
        console.print(Text(f"Note: {printable(note)}"))


def _numbered(number: int, text: str) -> Any:
    """Return a text preceded by the number of its finding."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_row(
        Text(str(number), style="bold"), Text("\n".join(printable(line) for line in text.splitlines()))
    )
    return table


def make_findings_table(findings: Sequence[Finding]) -> Any:
    """Return the table of the findings, one line per finding."""
    from rich.text import Text

    columns = ("", "stage", "what", "slowest", "× median", "reads", "waiting", "saves")
    rows = (
        (
            str(number),
            str(finding.stage.id),
            Text(
                printable(finding.what),
                style="bold" if finding.line else "",
                no_wrap=True,
                overflow="ellipsis",
            ),
            format_time(finding.spreads["time"].slowest),
            format_ratio(finding.ratio) if finding.ratio < 10 else f"{finding.ratio:,.0f}",
            f"{finding.share:.0%}" if finding.share else "",
            format_core_time(finding.waiting_core_s),
            f"{finding.saved_s.high / finding.query_s:.0%}",
        )
        for number, finding in enumerate(findings, 1)
    )
    return make_table(columns, rows, text=2)


def diagnose(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Diagnosis:
    """Read Spark's event logs, and report which stages wait for a slow task, why, and what would help.

    A stage is a finding if cores wait at its end for a task that takes at least a second and at least twice
    the median, and if the query would have ended at least 5 % earlier with the stage balanced. Logs are read
    line by line, including logs still being written. Other files in a folder are skipped with a note.

    Args:
        paths: event logs, or folders or zips with event logs at any depth. Logs may be rolled, and compressed
            with zstd, lz4, snappy or gzip. Each may be a URL of any file system that pyarrow supports, or
            http://HISTORY-SERVER/api/v1/applications/APP/logs. Logs of Spark before 3.5 are read with a note.

    Returns:
        The diagnosis.

    Raises:
        FileNotFoundError: if there is nothing at a path, or no log in a folder.
        OSError: if a store or a history server cannot be reached.
        TypeError: if a path has the wrong type.
        ValueError: if a file is not an event log, or is compressed with lzf; for a folder, if all its files
            are such.

    Example:
        >>> diagnose("eventlogs").verdict  # doctest: +SKIP
    """
    if isinstance(paths, bytes | bytearray) or not isinstance(paths, str | os.PathLike | Iterable):
        raise TypeError(f"paths must be files, folders or URLs, got {paths!r}")
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ValueError("paths must name at least one event log, got none")
    found = [find_logs(path) for path in given]
    return Diagnosis(applications=tuple(each for logs in found for each in _read_all(logs)))


def _read_all(logs: Sequence[EventLog]) -> list[Application]:
    """Read the logs at a path. Note any other files. If none is a log, raise the first error."""
    read: list[Application] = []
    errors: list[ValueError] = []
    for log in logs:
        try:
            read.append(_read(log))
        except ValueError as error:
            errors.append(error)
    if not read:
        raise errors[0]
    notes = (f"a file was skipped: {error}" for error in errors)
    read[0] = replace(read[0], notes=(*read[0].notes, *notes))
    return read


def _read(log: EventLog) -> Application:
    name = log.name
    notes: list[str] = []
    events = Events(is_of_interest)
    events.feed(log.lines(notes.append))
    events.close(log.written_ms)
    if events.damaged == events.lines and events.lines:
        raise ValueError(
            f"{name} must be a Spark event log, but none of its {events.lines:,} lines is an event"
            f"{_HELD_BACK if log.is_compressed else ''}"
        )
    if events.applications > 1:
        raise ValueError(
            f"{name} must be the log of one application, but {events.applications} applications start in "
            "it: pass one file per application"
        )
    if events.damaged:
        notes.append(f"{format_count(events.damaged, 'line')} of {name} could not be read")
    if log.is_compressed and not events.ended:
        notes.append(f"{name} has no end{_HELD_BACK}")
    return conclude(events, name, notes)


def _unknown_settings(events: Events) -> list[str]:
    settings = [events.conf, *(each.conf for each in events.queries.values())]
    settings += [each.conf for each in events.stages.values()]
    return list_unknown({name for each in settings for name in each}, events.version)


def conclude(events: Events, name: str = "", notes: Sequence[str] = ()) -> Application:
    """Return the application described by events.

    Args:
        events: the events read.
        name: the application's name if the events have none.
        notes: what could not be read.
    """
    stages, findings = list_stages(events), list_findings(events)
    return Application(
        name=events.application or name,
        id=events.application_id,
        version=events.version,
        duration_s=max(events.end_ms - events.start_ms, 0) / 1000,
        ended=events.ended,
        tasks=sum(stage.tasks for stage in stages),
        stages=tuple(stages),
        findings=tuple(findings),
        failed=tuple(stage.id for stage in events.stages.values() if stage.failure),
        notes=(*notes, *list_notes(events, findings), *_unknown_settings(events)),
        without_findings=say_without_findings(events),
    )
