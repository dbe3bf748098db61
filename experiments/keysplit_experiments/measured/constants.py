"""How many claims of a paper hold for each value of a constant that the paper's text has lost.

    python -m keysplit_experiments.measured.constants flexd threshold "1/(5n)" "1/(20n)" 2e-6

runs the paper's simulated experiments once per value, which is then the default of that parameter. Cells
that do not use the default are measured once for all values. The table leaves out claims that hold for all.
"""

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import local
from typing import Any
from unittest.mock import patch

import keysplit as ks
from keysplit_experiments.harness import FULL, QUICK, Cell, Experiment, Figures, registry, runner
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.store import Store
from keysplit_experiments.harness.table import Table

NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
VALUE = re.compile(rf"{NUMBER}(/(?:n|\({NUMBER}n\)))?")

_cell = local()
"""The cell that a thread measures: ``uses`` says whether it used the default that is tried."""


def value_of(text: str, workers: int) -> Any:
    """Read a number, or one that depends on the number of workers n: ``0.01``, ``2/n``, ``1/(20n)``.

    Raises:
        ValueError: If it is neither.
    """
    found = VALUE.fullmatch(text)
    if found is None:
        raise ValueError(f"a value must be a number, A/n or A/(Bn), got {text!r}")
    top, part, times = found.groups()
    if part:
        return float(top) / (float(times or 1) * workers)
    return int(top) if top.isdigit() else float(top)


@contextmanager
def default(grouping: str, parameter: str, value: str) -> Iterator[None]:
    """Give a parameter of a grouping another default."""
    kind = ks.GROUPINGS[grouping]
    make = kind.__init__

    def init(self: ks.Grouping, *, workers: int, **given: Any) -> None:
        if given.get(parameter) is None:
            _cell.uses, given[parameter] = True, value_of(value, workers)
        make(self, workers=workers, **given)

    with patch.object(kind, "__init__", init):
        yield


class Shared(Store):
    """The finished cells for one value, and those for which it does not matter."""

    def __init__(self, folder: Path, scale: str, value: str) -> None:
        super().__init__(folder / re.sub(r"\W+", "_", value), scale)
        self.common = Store(folder / "common", scale)

    def finished(self, experiment: Experiment) -> dict[str, Figures]:
        """Read the figures of both."""
        return {**self.common.finished(experiment), **super().finished(experiment)}

    def keep(self, experiment: Experiment, key: str, cell: Cell) -> None:
        """Add a cell, in the thread that measured it."""
        uses, _cell.uses = getattr(_cell, "uses", False), False
        (super().keep if uses else self.common.keep)(experiment, key, cell)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grouping", choices=sorted(registry.papers().keys() & ks.GROUPINGS.keys()))
    parser.add_argument("parameter", help="of the grouping")
    parser.add_argument("values", nargs="+", help="numbers, A/n or A/(Bn) on n workers")
    parser.add_argument("--quick", action="store_true", help="smaller streams and fewer cells")
    parser.add_argument("--data", type=Path, default=os.environ.get("KEYSPLIT_DATA"), help="of real streams")
    parser.add_argument("--out", type=Path, default=Path("experiments-results/constants"))
    options = parser.parse_args(arguments)
    try:
        for value in options.values:
            ks.grouping(options.grouping, workers=8, **{options.parameter: value_of(value, 8)})
    except (TypeError, ValueError) as error:
        parser.error(str(error))

    scale, inputs = QUICK if options.quick else FULL, Inputs(options.data)
    folder = options.out / f"{options.grouping}-{options.parameter}"
    holding = [0] * len(options.values)
    rows: list[list[object]] = []
    for experiment in registry.experiments_of(options.grouping).values():
        outcomes = []
        for value in options.values:
            with default(options.grouping, options.parameter, value):
                outcomes.append(runner.run(experiment, scale, inputs, Shared(folder, scale.name, value)))
        for claim, *judged in zip(experiment.claims, *(each.verdicts for each in outcomes), strict=True):
            holding = [count + each.holds for count, each in zip(holding, judged, strict=True)]
            says = f"{experiment.label}: {claim.says.split(' (')[0]}"
            rows.append([says, *("holds" if each.holds else "differs" for each in judged)])
    rows = [[f"claims that hold, of {len(rows)}", *holding], *(row for row in rows if "differs" in row)]
    print(Table(["claim", *options.values], rows).markdown())


if __name__ == "__main__":
    main()
