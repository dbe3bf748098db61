"""The stored parts of a run: each cell once it is finished, and the results as JSON at the end."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

import keysplit as ks
from keysplit.streams import UnreadableError
from keysplit_experiments.harness.experiment import (
    Cell,
    Claim,
    Experiment,
    Figures,
    Judged,
    Parameters,
    Results,
)


class Store:
    """The folder of the results: ``FOLDER/SCALE/PAPER/NAME.*``.

    Args:
        folder: The folder of all results; created on the first write.
        scale: Name of the scale.
    """

    def __init__(self, folder: Path, scale: str) -> None:
        self.folder, self.scale = folder, scale
        self._lock = Lock()

    def prepare(self) -> None:
        """Create the folder.

        Raises:
            OSError: If nothing can be written there.
        """
        folder = self.folder / self.scale
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass

    def path(self, experiment: Experiment, suffix: str) -> Path:
        """Return the path of an experiment's file: ``.cells.jsonl``, ``.json``, ``.svg``, ``.png``."""
        return self.folder / self.scale / f"{experiment.name}{suffix}"

    def finished(self, experiment: Experiment) -> dict[str, Figures]:
        """Read the figures of all finished cells, by key."""
        path = self.path(experiment, ".cells.jsonl")
        cells = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                cell = json.loads(line)
                cells[cell["key"]] = cell["figures"]
            except (ValueError, KeyError, TypeError):
                continue  # a line cut off when the program ended
        return cells

    def keep(self, experiment: Experiment, key: str, cell: Cell) -> None:
        """Add a finished cell; thread-safe."""
        path = self.path(experiment, ".cells.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": key, "parameters": cell.parameters, "figures": cell.figures})
        with self._lock, path.open("a+b") as file:
            if file.tell() and not _ends_line(path):
                file.write(b"\n")
            file.write(line.encode() + b"\n")

    def forget(self, experiment: Experiment) -> None:
        """Delete the finished cells."""
        self.path(experiment, ".cells.jsonl").unlink(missing_ok=True)

    def write(
        self, experiment: Experiment, results: Results, verdicts: Iterable[tuple[Claim, Judged, str]]
    ) -> None:
        """Write the results as JSON, atomically."""
        path = self.path(experiment, ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        claims = [
            {
                "says": claim.says,
                "where": claim.where,
                "paper": claim.paper,
                "ours": judged.ours,
                "verdict": "holds" if judged.holds else "differs",
                "because": because,
            }
            for claim, judged, because in verdicts
        ]
        whole = {
            "experiment": experiment.name,
            "label": experiment.label,
            "title": experiment.title,
            "keysplit": ks.__version__,
            "scale": results.scale,
            "streams": dict(results.streams),
            "standard": results.standard,
            "claims": claims,
            "cells": [{"parameters": cell.parameters, "figures": cell.figures} for cell in results],
        }
        part = path.with_suffix(".json.part")
        part.write_text(json.dumps(_strict(whole), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        part.replace(path)

    def read(self, experiment: Experiment) -> Results | None:
        """Read written results; None if there are none.

        Raises:
            ValueError: If the file is damaged, or was written by another version.
        """
        path = self.path(experiment, ".json")
        if not path.exists():
            return None
        try:
            whole = json.loads(path.read_text(encoding="utf-8"))
            cells = [Cell(cell["parameters"], _numbers(cell["figures"])) for cell in whole["cells"]]
            return Results(cells, whole["scale"], whole["streams"], whole["standard"])
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableError(
                f"{str(path)!r} must hold the results of {experiment.name}, and does not: run it again"
            ) from error


def key_of(experiment: Experiment, parameters: Parameters, identity: Sequence[Any]) -> str:
    """Return the key of a cell: equal parameters, version and stream have equal keys."""
    decides = [ks.__version__, experiment.name, experiment.version, parameters, list(identity)]
    return sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:32]


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def _strict(value: Any) -> Any:
    """Write numbers missing in JSON (nan, infinity) as null."""
    if isinstance(value, Mapping):
        return {name: _strict(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    """Read null as nan."""
    if isinstance(value, Mapping):
        return {name: _numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    return math.nan if value is None else value
