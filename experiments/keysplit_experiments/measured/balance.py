"""Imbalance and replication next to the figures that the authors' own programs gave.

Streams of When Two Choices Are Not Enough (Nasir et al., ICDE 2016): Zipf with 1e4 keys, 1e6 messages that
five sources take in turn, each with its own router. The figures next to ours are one run per cell of the
authors' programs; ours are medians over ten seeds, each a seed of the stream and of the hash.

Each cell is judged by its grouping's rule:

- key, partial_key: the median imbalance is within 10 per cent of the authors'.
- w_choices: no seed is more than 10 messages out of balance (1e-5 of 1e6 messages).
- d_choices, round_robin: it depends on which candidates of the hottest keys coincide, by orders of magnitude.
  The authors' figure must lie between a third of our smallest and three times our largest.
- all: the median replication is within 15 per cent of the authors'.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

import keysplit as ks
from keysplit import _core

KEYS = 10_000
MESSAGES = 1_000_000
SOURCES = 5
GROUPINGS = ["key", "partial_key", "d_choices", "w_choices", "round_robin"]
BASELINE, REPLICATION, WIDENED, MESSAGES_OUT = 0.10, 0.15, 3, 10
"""The limits of the rules above."""

AUTHORS: dict[tuple[float, int], dict[str, tuple[float, float]]] = {
    (1.0, 20): {
        "key": (0.096, 1.0),
        "partial_key": (5.7e-3, 1.6),
        "d_choices": (1.3e-5, 1.8),
        "w_choices": (3e-6, 2.0),
        "round_robin": (5e-6, 2.0),
    },
    (1.0, 50): {
        "key": (0.107, 1.0),
        "partial_key": (3.2e-2, 1.5),
        "d_choices": (1.2e-5, 1.9),
        "w_choices": (3e-6, 2.2),
        "round_robin": (6e-6, 2.2),
    },
    (1.0, 100): {
        "key": (0.111, 1.0),
        "partial_key": (4.1e-2, 1.5),
        "d_choices": (9e-6, 2.0),
        "w_choices": (2e-6, 2.7),
        "round_robin": (8e-6, 2.8),
    },
    (1.4, 20): {"d_choices": (3e-6, 1.5), "w_choices": (2e-6, 1.4), "round_robin": (8.6e-3, 1.5)},
    (1.4, 50): {
        "key": (0.330, 1.0),
        "partial_key": (0.145, 1.1),
        "d_choices": (2.9e-3, 1.3),
        "w_choices": (2e-6, 1.6),
        "round_robin": (2.4e-5, 1.6),
    },
    (1.4, 100): {"d_choices": (3.1e-5, 1.4), "w_choices": (3e-6, 1.9), "round_robin": (5.8e-5, 1.9)},
    (2.0, 50): {
        "key": (0.598, 1.0),
        "d_choices": (5e-6, 1.7),
        "w_choices": (1e-6, 1.8),
        "round_robin": (1.3e-3, 1.7),
    },
    (2.0, 100): {"d_choices": (8.3e-4, 1.9), "w_choices": (1e-6, 2.7), "round_robin": (4.5e-4, 2.7)},
}
"""Final imbalance and replication by exponent, workers and grouping, where the authors' programs were run."""
AUTHORS_D = {
    (1.0, 20): 3,
    (1.0, 50): 6,
    (1.0, 100): 12,
    (1.4, 20): 14,
    (1.4, 50): 22,
    (1.4, 100): 43,
    (2.0, 50): 49,
    (2.0, 100): 97,
}
"""The d that their program solved."""


@dataclass(frozen=True)
class Cell:
    """One grouping on one stream: a value a seed, and the authors' figures where there are any."""

    exponent: float
    workers: int
    grouping: str
    d: int | None
    authors_d: int | None
    messages: int
    imbalances: list[float]
    replications: list[float]
    authors: tuple[float, float] | None

    def imbalance_holds(self) -> bool | None:
        """Whether the grouping's rule holds; None where there is nothing to compare with."""
        if self.grouping == "w_choices":
            return max(self.imbalances) * self.messages <= MESSAGES_OUT
        if self.authors is None:
            return None
        if self.grouping in ("key", "partial_key"):
            return abs(median(self.imbalances) / self.authors[0] - 1) <= BASELINE
        return min(self.imbalances) / WIDENED <= self.authors[0] <= max(self.imbalances) * WIDENED

    def replication_holds(self) -> bool | None:
        if self.authors is None:
            return None
        return abs(median(self.replications) / self.authors[1] - 1) <= REPLICATION


def solved_d(exponent: float, workers: int, tolerance: float = 1e-4) -> int:
    """D-Choices' d on the exact frequencies of the stream."""
    shares = np.arange(1, KEYS + 1) ** -exponent
    shares /= shares.sum()
    return _core.solve_choices(shares[shares * 5 * workers >= 1], 1.0, workers, tolerance)


def tolerance_of(exponent: float, workers: int, d: int) -> float:
    """The largest tolerance of a fine scale with which d is at least this."""
    return next(
        tolerance for tolerance in 10 ** -np.arange(4, 9, 0.05) if solved_d(exponent, workers, tolerance) >= d
    )


def run(params: ks.Grouping, keys: np.ndarray) -> tuple[float, float]:
    """Imbalance and replication at the end of the stream."""
    workers = np.empty(len(keys), dtype=np.uint32)
    loads = np.zeros(params.workers)
    for source in range(SOURCES):
        router = params.router(source=source)
        workers[source::SOURCES] = router.route(keys[source::SOURCES])
        loads += router.loads
    return ks.metrics.imbalance(loads), ks.metrics.replication(keys, workers)


def cells(messages: int, seeds: Sequence[int]) -> Iterator[Cell]:
    """All cells of the table, one after the other."""
    for exponent in sorted({exponent for exponent, _ in AUTHORS}):
        streams = [ks.streams.zipf(exponent, KEYS, messages, seed) for seed in seeds]
        for workers in [workers for z, workers in AUTHORS if z == exponent]:
            authors_d, d = AUTHORS_D[exponent, workers], solved_d(exponent, workers)
            cases: list[tuple[str, dict[str, float], int | None]] = [
                (name, {}, d if name == "d_choices" else None) for name in GROUPINGS
            ]
            if authors_d != d:
                tolerance = tolerance_of(exponent, workers, authors_d)
                theirs = {"tolerance": tolerance}
                cases.insert(3, ("d_choices", theirs, solved_d(exponent, workers, tolerance)))
            for name, params, d_here in cases:
                runs = [
                    run(ks.grouping(name, workers=workers, seed=seed, **params), keys)
                    for seed, keys in zip(seeds, streams, strict=True)
                ]
                yield Cell(
                    exponent,
                    workers,
                    name,
                    d_here,
                    authors_d if name == "d_choices" else None,
                    messages,
                    [imbalance for imbalance, _ in runs],
                    [replication for _, replication in runs],
                    AUTHORS[exponent, workers].get(name) if messages == MESSAGES else None,
                )


HEADER = [
    "z",
    "n",
    "grouping",
    "d",
    "authors' d",
    "imbalance",
    "min to max",
    "authors'",
    "holds",
    "replication",
    "min to max",
    "authors'",
    "holds",
]
WIDTHS = [3, 4, 11, 3, 10, 9, 18, 8, 5, 11, 13, 8, 5]


def word(holds: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[holds]


def short(imbalance: float) -> str:
    return f"{imbalance:.3f}" if imbalance >= 0.01 else f"{imbalance:.1e}"


def row(cell: Cell) -> list[str]:
    imbalance, replication = cell.authors if cell.authors is not None else (None, None)
    return [
        f"{cell.exponent}",
        f"{cell.workers}",
        cell.grouping,
        f"{cell.d or ''}",
        f"{cell.authors_d or ''}",
        short(median(cell.imbalances)),
        f"{short(min(cell.imbalances))} to {short(max(cell.imbalances))}",
        "" if imbalance is None else short(imbalance),
        word(cell.imbalance_holds()),
        f"{median(cell.replications):.2f}",
        f"{min(cell.replications):.2f} to {max(cell.replications):.2f}",
        "" if replication is None else f"{replication:.1f}",
        word(cell.replication_holds()),
    ]


def line(fields: list[str], markdown: bool) -> str:
    if markdown:
        return "| " + " | ".join(fields) + " |"
    return "  ".join(field.rjust(width) for field, width in zip(fields, WIDTHS, strict=True))


def summary(table: list[Cell]) -> Iterator[str]:
    """How many cells hold of each grouping, and which do not."""
    for name in GROUPINGS:
        for what in ("imbalance", "replication"):
            judged = [
                (cell, holds)
                for cell in table
                if cell.grouping == name and (holds := getattr(cell, f"{what}_holds")()) is not None
            ]
            if not judged:
                continue
            missed = [
                f"z = {cell.exponent} on {cell.workers}" + (f" (d = {cell.d})" if cell.d else "")
                for cell, holds in judged
                if not holds
            ]
            text = f"{name}, {what}: holds in {len(judged) - len(missed)} of {len(judged)} cells"
            yield text + (f"; not at {', '.join(missed)}" if missed else "")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="2 seeds and 100,000 messages, too few to compare"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args(arguments)
    messages, seeds = (100_000, range(2)) if options.quick else (MESSAGES, range(10))

    print(line(HEADER, options.markdown))
    if options.markdown:
        print(line(["---"] * len(HEADER), True))
    table = []
    for cell in cells(messages, seeds):
        table.append(cell)
        print(line(row(cell), options.markdown), flush=True)
    print()
    for text in summary(table):
        print(f"- {text}")


if __name__ == "__main__":
    main()
