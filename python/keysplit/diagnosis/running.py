"""Describe stages and tasks that have no end in the log, in words."""

from __future__ import annotations

from keysplit.diagnosis.model import Stage
from keysplit.diagnosis.text import format_time
from keysplit.text import format_ratio


def say_state(stage: Stage) -> str:
    """Describe an unfinished stage's progress briefly; for a finished stage, say that an end is missing."""
    if stage.state == "ended":
        return "the log lacks its end"
    runs = {"running": "still runs", "stopped": "stopped", "cancelled": "cancelled"}[stage.state]
    return f"{runs}: {stage.tasks:,} of {stage.named:,} tasks ended"


def say_unended(stage: Stage, what: str, usual_s: float) -> str:
    """Describe the progress of a stage, and how long the longest unfinished task has run.

    Args:
        stage: the stage.
        what: the operator that the stage runs, with its columns.
        usual_s: the median time of the other tasks.
    """
    took = f"run for {format_time(stage.running_s)}"
    if stage.tasks:
        took = f"{took}, {format_ratio(stage.running_s / max(usual_s, 1e-3))} times the median"
    if stage.state == "ended":
        text = f"Stage {stage.id} ended, and the log lacks the end of one of its tasks, which has {took}"
    else:
        runs = {
            "running": "still runs",
            "stopped": "still ran when the application ended",
            "cancelled": "was cancelled",
        }[stage.state]
        text = f"Stage {stage.id} {runs}: {stage.tasks:,} of {stage.named:,} tasks ended"
        if stage.running:
            one = "one" if stage.running == 1 else f"the longest of {stage.running:,}"
            text = f"{text}, {one} has {took}"
    return f"{text} ({what})"
