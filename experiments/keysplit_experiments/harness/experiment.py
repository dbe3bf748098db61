"""The definition of an experiment: cells to measure, claims to judge, a table and a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keysplit_experiments.harness.table import Table

Parameters: TypeAlias = dict[str, Any]
"""Of one cell: names to texts, numbers, booleans or None."""

Figures: TypeAlias = dict[str, Any]
"""The figures of one cell: names to numbers, texts or lists of these, as JSON types."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Scale:
    """The scale of a run.

    Args:
        name: ``full`` for the paper's sizes; any other name for smaller ones.
        most_messages: Maximum length of a stream; None for no limit.
    """

    name: str
    most_messages: int | None = None

    @property
    def full(self) -> bool:
        """Whether these are the paper's sizes."""
        return self.name == "full"

    def messages(self, full: int, quick: int = 100_000) -> int:
        """Choose the length of a stream: the paper's, or that of a quick run."""
        wanted = full if self.full else min(full, quick)
        return wanted if self.most_messages is None else min(wanted, self.most_messages)

    def grid(self, full: Sequence[_T], quick: Sequence[_T]) -> list[_T]:
        """Choose the values of a parameter: the paper's, or those of a quick run."""
        return list(full if self.full else quick)


FULL = Scale("full")
QUICK = Scale("quick")


@dataclass(frozen=True)
class Cell:
    """One measurement: its parameters and its figures."""

    parameters: Parameters
    figures: Figures


@dataclass(frozen=True)
class Results:
    """The cells of one run.

    Args:
        cells: In the experiment's order.
        scale: Name of the scale.
        streams: A description of the stream used for each of the paper's datasets, by symbol.
        standard: Whether these are the paper's sizes and the standard substitutes for its datasets.
            Differences are explained only for such a run.
    """

    cells: Sequence[Cell]
    scale: str = "full"
    streams: Mapping[str, str] = field(default_factory=dict)
    standard: bool = False

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def where(self, **parameters: Any) -> Results:
        """Keep the cells with these parameters; a list, tuple, set or range allows any of its values.

        Raises:
            LookupError: If there are none: a rule over no cells would hold trivially.
        """
        found = [cell for cell in self.cells if _fits(cell.parameters, parameters)]
        if not found:
            raise LookupError(f"no cell has {parameters}")
        return replace(self, cells=found)

    def values(self, parameter: str) -> list[Any]:
        """List the distinct values of a parameter, in the order of the cells."""
        return list(dict.fromkeys(cell.parameters.get(parameter) for cell in self.cells))

    def all(self, figure: str, **parameters: Any) -> list[Any]:
        """List a figure of all cells with these parameters."""
        return [cell.figures[figure] for cell in self.where(**parameters)]

    def one(self, figure: str, **parameters: Any) -> Any:
        """Return a figure of the only cell with these parameters."""
        found = self.all(figure, **parameters)
        if len(found) > 1:
            raise LookupError(f"{len(found)} cells have {parameters}")
        return found[0]

    def median(self, figure: str, **parameters: Any) -> float:
        """Return the median of a figure over all cells with these parameters, usually over the seeds."""
        return float(median(self.all(figure, **parameters)))

    def medians(self, figure: str, *by: str, **parameters: Any) -> dict[tuple[Any, ...], float]:
        """Return the median of a figure for each combination of values of some parameters."""
        found: dict[tuple[Any, ...], list[float]] = {}
        for cell in self.where(**parameters):
            values = tuple(cell.parameters.get(name) for name in by)
            found.setdefault(values, []).append(cell.figures[figure])
        return {values: float(median(figures)) for values, figures in found.items()}

    def line(self, x: str, figure: str, **parameters: Any) -> tuple[list[Any], list[float]]:
        """Return the medians of a figure over the values of parameter x, as needed for a line in a plot."""
        found = sorted(self.medians(figure, x, **parameters).items())
        return [values[0] for values, _ in found], [middle for _, middle in found]


def _fits(has: Parameters, wanted: Parameters) -> bool:
    return all(
        has.get(name) in value if isinstance(value, list | tuple | set | range) else has.get(name) == value
        for name, value in wanted.items()
    )


@dataclass(frozen=True)
class Judged:
    """The outcome of a claim on our results.

    Args:
        holds: Whether the claim holds.
        ours: Our figures that show this, as text.
    """

    holds: bool
    ours: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper, with the rule that checks it on our results.

    Args:
        says: The statement, in our words, with the limits that `judge` applies.
        where: Section, figure or table of the paper.
        judge: The rule.
        paper: The number given by the paper, as text; empty if it gives none.
        because: Why a full run on the standard streams differs, if it does.
    """

    says: str
    where: str
    judge: Callable[[Results], Judged]
    paper: str = ""
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or table of a paper.

    Args:
        name: Folder of the paper and name of the file: ``d_choices/fig10``.
        label: Its label in the paper: ``Fig. 10``.
        title: What it shows, in a few words.
        setting: The setup, in a few sentences of Markdown: streams, sizes, seeds, and how anything the paper
            leaves open is settled here.
        cells: The parameters of all cells of a run at some scale. A parameter called ``stream`` is the symbol
            of one of the paper's real datasets.
        measure: Measures one cell: called with its [`Inputs`][keysplit_experiments.harness.inputs.Inputs] and
            its parameters as keywords, in a thread. Must depend on nothing else.
        claims: The paper's claims about it, at least one.
        table: The figures as a table that fits the screen.
        draw: Plots the paper's figure; None for a table.
        size: Width and height of the figure, inches.
        version: Increases when `measure` changes, so that older cells are not reused.
        deploys: Slug of the paper whose cluster deployment this is; None if the folder is that of the paper.
            The cells of a deployment need Spark and are measured one after the other.
    """

    name: str
    label: str
    title: str
    setting: str
    cells: Callable[[Scale], Iterable[Parameters]]
    measure: Callable[..., Figures]
    claims: Sequence[Claim]
    table: Callable[[Results], Table]
    draw: Callable[[Figure, Results], None] | None = None
    size: tuple[float, float] = (8.0, 5.0)
    version: int = 1
    deploys: str | None = None

    @property
    def paper(self) -> str:
        """Slug of the paper."""
        return self.deploys or self.name.split("/")[0]


def figures_of(result: Any, *names: str) -> Figures:
    """Select attributes of a simulation's result as a cell's figures: arrays become lists."""
    return {name: plain(getattr(result, name)) for name in names}


def plain(value: Any) -> Any:
    """Convert NumPy numbers and arrays to JSON types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def steps(first: float, last: float, step: float) -> list[float]:
    """List numbers from first to last in steps, without floating-point noise."""
    digits = max(0, math.ceil(-math.log10(step)) + 1)
    return [round(first + place * step, digits) for place in range(round((last - first) / step) + 1)]
