"""A made-up experiment, on which the harness is tried."""

from pathlib import Path
from typing import Any

from keysplit_experiments.harness import runner
from keysplit_experiments.harness.experiment import QUICK, Claim, Experiment, Judged
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.store import Store
from keysplit_experiments.harness.table import Table


class Counting:
    """An experiment that counts its measurements, and can fail."""

    def __init__(self, cells: int = 4, version: int = 1, stream: str | None = None) -> None:
        self.measured: list[int] = []
        self.fails_at: int | None = None
        more = {"stream": stream} if stream else {}

        def measure(inputs: Inputs, *, place: int, stream: str | None = None) -> dict[str, Any]:
            if place == self.fails_at:
                raise KeyboardInterrupt
            self.measured.append(place)
            return {"value": place / 3, "list": [float("nan")]}

        self.experiment = Experiment(
            name="d_choices/fig10",
            label="Fig. 10",
            title="a test",
            setting="None.",
            cells=lambda scale: [{"place": place, **more} for place in range(cells)],
            measure=measure,
            claims=[Claim(says="four", where="here", judge=lambda r: Judged(len(r.cells) == 4, "cells"))],
            table=lambda results: Table(["value"], [[cell.figures["value"]] for cell in results]),
            version=version,
        )

    def run(self, folder: Path, inputs: Inputs | None = None) -> runner.Outcome:
        store = Store(folder, "quick")
        return runner.run(self.experiment, QUICK, inputs or Inputs(), store, jobs=1)
