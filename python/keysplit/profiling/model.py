"""The profile of a stream or of a DataFrame: its figures, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from keysplit.plan import BALANCED
from keysplit.results import SimulationResult, entries_of, sort_by_workers
from keysplit.show.console import Printed, make_table
from keysplit.show.shown import Shown
from keysplit.show.view import Card, Entry, Panel, View
from keysplit.text import (
    describe_stream,
    format_count,
    format_imbalance,
    format_key,
    format_ratio,
    format_share,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from keysplit.plan import Sample

TOP_KEYS = 20
SHORT_LIVED_KEYS = 10
_PRINTED_KEYS = 10  # of a DataFrame's profile, which lists all frequent keys


class _Counted(NamedTuple):
    key: Any
    count: float  # type: ignore[assignment]
    error: float
    share: float


class TopKey(_Counted):
    """A frequent key: a tuple of value, count, the count's error, and share.

    Attributes:
        key: the key's value; a tuple of values if there are several key columns.
        count: the key's messages, or the weight of its rows: an upper bound, or an estimate from a sample.
        error: by how much `count` may be too large, in addition to the error of a sample.
        share: `count` as a fraction of the total.
        shares: the key's share of the messages of each window, a lower bound. This field and the following
            ones are only for a stream.
        hot: the numbers of the windows in which the key was hot, ascending.
        age_messages: the messages from the start of the first of these windows to the end of the last.
        age_share: the same as a fraction of the stream.
    """

    shares: tuple[float, ...]
    hot: tuple[int, ...]
    age_messages: int
    age_share: float

    def __new__(
        cls,
        key: Any,
        count: float,
        error: float,
        share: float,
        *,
        shares: tuple[float, ...] = (),
        hot: tuple[int, ...] = (),
        age_messages: int = 0,
        age_share: float = 0.0,
    ) -> TopKey:
        """Create a frequent key; see the attributes."""
        made = super().__new__(cls, key, count, error, share)
        made.shares, made.hot, made.age_messages, made.age_share = shares, hot, age_messages, age_share
        return made

    @property
    def certain(self) -> bool:
        """Whether the key certainly has at least half of `count`; any other key may be rare."""
        return 2 * self.error <= self.count

    @property
    def age(self) -> str:
        """The time for which the key was hot, in words."""
        if not self.hot:
            return "never"
        return "always" if len(self.hot) == len(self.shares) else f"{100 * self.age_share:.0f} %"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types; a key of another type as text."""
        plain = self.key is None or isinstance(self.key, bool | int | str)
        return {
            "key": self.key if plain else str(self.key),
            "count": self.count,
            "error": self.error,
            "share": self.share,
            "shares": list(self.shares),
            "hot": list(self.hot),
            "age_messages": self.age_messages,
            "age_share": self.age_share,
        }


class Outcome(NamedTuple):
    """The effect of a grouping on the loads, and its cost.

    Attributes:
        busiest: the load of the busiest worker as a multiple of the mean.
        copies: copies of keys beyond one per key: the number of additional partial results to merge.
    """

    busiest: float
    copies: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """The predicted effect of a grouping.

    Attributes:
        loads: the expected weight per worker, float64.
        imbalance: (largest - mean) / sum of the loads, each relative to its worker's capacity.
        relative_imbalance: (largest - mean) / mean of the same loads.
        extra_partials: copies of keys beyond one per key: the number of additional partial results to merge.
    """

    loads: np.ndarray = field(repr=False)
    imbalance: float
    relative_imbalance: float
    extra_partials: int

    @classmethod
    def of(cls, result: SimulationResult) -> Prediction:
        """Return the prediction of a simulation."""
        return cls(
            loads=result.loads,
            imbalance=result.imbalance,
            relative_imbalance=result.relative_imbalance,
            extra_partials=result.memory - result.distinct_keys,
        )

    @property
    def busiest(self) -> float:
        """The load of the busiest worker as a multiple of the mean."""
        return 1 + self.relative_imbalance

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return {
            "loads": self.loads.tolist(),
            "imbalance": self.imbalance,
            "relative_imbalance": self.relative_imbalance,
            "extra_partials": self.extra_partials,
        }

    @property
    def outcome(self) -> Outcome:
        """The two figures that a recommendation is based on."""
        return Outcome(self.busiest, self.extra_partials)


@dataclass(frozen=True, eq=False, kw_only=True)
class Advice:
    """What to do for one number of workers.

    Attributes:
        workers: the number of workers.
        predicted: the predicted effect of each grouping, by name: for a stream, simulated in the order of
            arrival; for a DataFrame, the effect of the grouping's plan.
        recommended: the grouping to plan on Spark; None if there is nothing to gain.
        verdict: three lines: what to do, the cost before and after, and how certain this is; or only the
            first line, if there is nothing to gain.
        details: further sentences, without the last full stop.
        results: the simulations behind `predicted`, by name; empty for a DataFrame, where plans are computed.
        planned: the predicted effect of each plan, by name; empty if `predicted` has it.
        online: the grouping to use in a stream engine; None if there is nothing to gain.
        line: the operation on Spark that splits the keys, to paste; empty if there is nothing to gain.
    """

    workers: int
    predicted: Mapping[str, Prediction] = field(repr=False)
    recommended: str | None
    verdict: str
    details: str = ""
    results: Mapping[str, SimulationResult] = field(repr=False, default_factory=dict)
    planned: Mapping[str, Prediction] = field(repr=False, default_factory=dict)
    online: str | None = None
    line: str = ""

    @property
    def plans(self) -> Mapping[str, Prediction]:
        """The predicted effect of each plan, by name."""
        return self.planned or self.predicted

    @property
    def imbalance(self) -> float:
        """The imbalance of hash partitioning: (largest - mean) / sum of the loads."""
        return self.predicted["key"].imbalance

    def to_dict(self) -> dict[str, Any]:
        """Return the recommendation as JSON types, without the figures."""
        names = ("workers", "recommended", "online", "verdict", "line", "details")
        return {name: getattr(self, name) for name in names}

    def panel(self, results: Sequence[SimulationResult], keys: Sequence[TopKey] = ()) -> Panel:
        """Return the panel of a page: the recommended plan, or if there is none, the recommended grouping.

        Args:
            results: the simulations, the most balanced first.
            keys: the frequent keys, to name those that cause a load.
        """
        entries = entries_of(results, keys)
        named = {entry.name: entry for entry in entries}
        plan = self.planned.get(self.recommended or "")
        if plan is None:
            best = named.get(self.recommended or self.online or "key", entries[0])
        else:
            partials, distinct = results[0].distinct_keys + plan.extra_partials, results[0].distinct_keys
            best = Entry(
                name=self.recommended or "",
                label=f"{self.recommended}, planned",
                loads=plan.loads,
                busiest=plan.busiest,
                balanced=plan.busiest <= BALANCED,
                imbalance=plan.imbalance,
                partials=partials,
                replication=partials / max(distinct, 1),
            )
        return Panel(
            self.workers,
            results[0].messages,
            entries,
            best,
            self.verdict,
            self.details,
            self.line,
            named=bool(keys),
        )

    def print_on(self, console: Console, title: str = "") -> None:
        """Print the verdict, the line to paste, and the details after a heading."""
        from rich.text import Text

        console.print(Text(f"{title}{self.verdict}"))
        if self.line:  # for copying, so it is not wrapped
            console.print(Text(f"\n  {self.line}"), soft_wrap=True)
        if self.details:
            console.print(Text.assemble("\n", ("Details", "bold"), f"\n{self.details}."))
        console.print()

    def _records(self) -> Iterator[dict[str, Any]]:
        """Yield the figures of each grouping, as a plan and routed online, for `to_pandas`."""
        for routed, found in (("plan", self.plans), ("online", self.predicted if self.results else {})):
            for name, of in found.items():
                yield {
                    "workers": self.workers,
                    "grouping": name,
                    "routed": routed,
                    "busiest_over_mean": of.busiest,
                    "imbalance": of.imbalance,
                    "extra_partials": of.extra_partials,
                    "recommended": name == (self.recommended if routed == "plan" else self.online),
                }

    def _table(self) -> Table:
        from rich.text import Text

        columns = ["grouping", "busiest/mean", "imbalance"]
        columns += ["replication", "partials"] if self.results else ["extra copies of keys"]
        rows = []
        if self.planned and self.recommended:
            of = self.planned[self.recommended]
            rows.append([Text(f"{self.recommended}, planned", style="bold"), *_figures(of), "", ""])
        for name, prediction in self.predicted.items():
            price = [f"{prediction.extra_partials:,}"]
            if self.results:
                price = [f"{self.results[name].replication:.2f}", f"{self.results[name].memory:,}"]
            best = self.online if self.results else self.recommended
            rows.append([Text(name, style="bold" if name == best else ""), *_figures(prediction), *price])
        return make_table(columns, rows, least_width=18)


def _figures(of: Prediction) -> tuple[str, str]:
    return format_ratio(of.busiest), format_imbalance(of.imbalance)


@dataclass(frozen=True, eq=False, kw_only=True)
class Profile(Printed, Shown):
    """How skewed the keys of a stream or a DataFrame are, and which grouping would help.

    Attributes:
        key: the names of the key columns; none for a stream.
        total: the messages, or the weight of all rows.
        unit: the unit of the counts: "messages", "rows" or "weight".
        top: the most frequent keys, the most frequent first. For a DataFrame, all keys with at least 1/(20
            workers) of the weight.
        advice: for each number of workers, what to do.
        sources: the number of sources in the simulations; 1 for a DataFrame, where one plan serves all tasks.
        sample: for a DataFrame, the counted rows if only a sample was counted; then `total` and the counts in
            `top` are estimates, and `sample.error_of(share)` is the error of a share.
        distinct_keys: the number of distinct keys. This field and the following ones are only for a stream.
        distinct_keys_error: an upper bound on the standard error of `distinct_keys`; 0 if exact.
        threshold: a key is hot in a window if it has at least this share of the window's messages.
        windows: the start of each window, then the end of the stream, in messages.
        hot: all keys that were hot in some window, the most frequent in the whole stream first.
        overlap: the overlap of the most frequent keys of neighbouring windows: the mean Jaccard index.
        overlap_of_any: the same for any two windows.
        steady_overlap: what both overlaps would be if the messages came in random order.
        drifts: whether the frequent keys change: `overlap_of_any` is below `steady_overlap` by more than 0.1.
        drift: how the frequent keys change, in words.
    """

    key: tuple[str, ...] = ()
    total: float
    unit: str
    top: list[TopKey] = field(repr=False)
    advice: tuple[Advice, ...]
    sources: int = 1
    sample: Sample | None = None
    distinct_keys: int = 0
    distinct_keys_error: float = 0.0
    threshold: float = 0.0
    windows: tuple[int, ...] = field(repr=False, default=())
    hot: tuple[TopKey, ...] = field(repr=False, default=())
    overlap: float = 1.0
    overlap_of_any: float = 1.0
    steady_overlap: float = 1.0
    drifts: bool = False
    drift: str = field(repr=False, default="")

    @property
    def messages(self) -> int:
        """The length of the stream."""
        return int(self.total)

    @property
    def workers(self) -> int:
        """The number of workers; the first if there are several."""
        return self.advice[0].workers

    @property
    def predicted(self) -> Mapping[str, Prediction]:
        """The predicted effect of each grouping on this number of workers, by name."""
        return self.advice[0].predicted

    @property
    def recommended(self) -> str | None:
        """The grouping to use for this number of workers; None if there is nothing to gain."""
        return self.advice[0].recommended

    @property
    def loads(self) -> np.ndarray:
        """The expected load per worker with hash partitioning, float64."""
        return self.predicted["key"].loads

    @property
    def imbalance(self) -> float:
        """The imbalance of hash partitioning: (largest - mean) / sum of the loads."""
        return self.predicted["key"].imbalance

    @property
    def relative_imbalance(self) -> float:
        """The relative imbalance of hash partitioning: (largest - mean) / mean of the loads."""
        return self.predicted["key"].relative_imbalance

    @property
    def verdict(self) -> str:
        """What to do, in words: the verdict for each number of workers."""
        return join_advice(self.advice, "verdict")

    @property
    def rare(self) -> str:
        """A description of the keys in `top` that are not certain to be frequent; empty if all are."""
        return describe_rare(self.top, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types; keys of another type as text."""
        return {
            "messages": self.messages,
            "distinct_keys": self.distinct_keys,
            "distinct_keys_error": self.distinct_keys_error,
            "threshold": self.threshold,
            "windows": list(self.windows),
            "top": [each.to_dict() for each in self.top],
            "hot": [each.to_dict() for each in self.hot],
            "overlap": self.overlap,
            "overlap_of_any": self.overlap_of_any,
            "steady_overlap": self.steady_overlap,
            "drifts": self.drifts,
            "drift": self.drift,
            "sources": self.sources,
            "advice": [
                {
                    **each.to_dict(),
                    "imbalance": each.imbalance,
                    "planned": {name: of.to_dict() for name, of in each.plans.items()},
                    "results": {name: result.to_dict() for name, result in each.results.items()},
                }
                for each in self.advice
            ],
        }

    def print_on(self, console: Console, title: str = "") -> None:
        """Print the verdict, its figures, the most frequent keys and how they change."""
        from rich.text import Text

        console.print(Text(f"{self._head(title)}\n", style="bold"))
        for advice in self.advice:
            several = f"{format_count(advice.workers, 'worker')}: " if len(self.advice) > 1 else ""
            advice.print_on(console, several)
            console.print(advice._table())
            console.print()
        certain = [key for key in self.top if key.certain]
        most = len(certain) if self.windows else _PRINTED_KEYS
        if certain:
            console.print(self._top_table(certain[:most]))
        if len(certain) > most:
            console.print(Text(f"... and {len(certain) - most} more"))
        if self.rare:
            console.print(Text(self.rare))
        if self.drift:
            console.print()
            console.print(Text(self.drift[0].upper() + self.drift[1:] + "."))

    def _head(self, title: str) -> str:
        if self.key:
            seen = "" if self.sample is None else f", by a sample of {self.sample.rows:,} rows"
            return (
                f"Profile of {', '.join(self.key)} for {format_count(self.workers, 'worker')}: "
                f"{self.total:,.0f} {self.unit}{seen}"
            )
        return describe_stream(title, *self._about)

    @property
    def _about(self) -> tuple[str, str, str]:
        error = self.distinct_keys_error
        about = f" (standard error at most {error:,.0f})" if error else ""
        return (
            format_count(self.messages, "message"),
            f"{'about ' if error else ''}{format_count(self.distinct_keys, 'key')}{about}",
            format_count(self.sources, "source"),
        )

    def _view(self) -> View:
        first = self.advice[0]
        loads = {name: first.plans[name].loads for name in ("key", first.recommended) if name is not None}
        named = f" of {', '.join(self.key)}" if self.key else ""
        return View(
            f"Profile{named}: {self.total:,.0f} {self.unit}",
            self.verdict,
            ("most frequent key", self.unit, "share"),
            [
                (format_key(key.key), f"{key.count:,.0f}", format_share(key.share))
                for key in self.top
                if key.certain
            ],
            loads,
            self.unit,
            [record for each in self.advice for record in each._records()],
            line=first.line,
            details="\n".join(filter(None, [join_advice(self.advice, "details"), self.rare, self.drift])),
            panels=[
                each.panel(sort_by_workers(list(each.results.values()))[each.workers], self.top)
                for each in self.advice
                if self.windows
            ],
            about=self._about,
            cards=self._cards(),
            keys=self._keys() if self.windows else None,
        )

    def _cards(self) -> list[Card]:
        if len(self.windows) <= 2:
            return []
        shares = format_share(self.overlap_of_any), f"random {format_share(self.steady_overlap)}"
        what = "of the most frequent keys are in any two windows, and the same for a random order"
        return [Card(*shares, what)]

    def _keys(self) -> dict[str, Any]:
        """Return the most frequent keys, and the keys that were hot for a time, with these times."""
        top = [key for key in self.top[:TOP_KEYS] if key.certain]
        others = [key for key in self.hot if key not in top and key.age_share < 1]
        brief = sorted(others, key=lambda key: -max(key.shares))[:SHORT_LIVED_KEYS]
        return {
            "threshold": self.threshold,
            "drift": f"{self.drift[0].upper()}{self.drift[1:]}.",
            "top": [self._strip(key) for key in top],
            "rarer": describe_rare(self.top[:TOP_KEYS]),
            "brief": [self._strip(key) for key in brief],
        }

    def _strip(self, key: TopKey) -> dict[str, Any]:
        most = max(*key.shares, 1e-300)
        return {
            "name": format_key(key.key),
            "count": key.count,
            "error": key.error,
            "share": key.share,
            "age": key.age,
            "cells": [
                {
                    "width": stop - start,
                    "hot": number in key.hot,
                    "ink": round(25 + 75 * (share / most) ** 0.5),
                    "title": f"messages {start:,} to {stop:,}: {format_share(share)}"
                    + (", hot" if number in key.hot else ""),
                }
                for number, ((start, stop), share) in enumerate(
                    zip(pairwise(self.windows), key.shares, strict=True)
                )
            ],
        }

    def _top_table(self, keys: Sequence[TopKey]) -> Table:
        from rich.text import Text

        sample = self.sample
        of_count = "overcount at most" if sample is None else f"error ({100 * sample.confidence:.0f} %)"
        columns = ["most frequent key", self.unit, of_count, "share"]
        rows = []
        for key in keys:
            error = key.error if sample is None else sample.error_of(key.share) * self.total
            row = [Text(format_key(key.key), no_wrap=True, overflow="ellipsis")]
            row += [Text(text) for text in (f"{key.count:,.0f}", f"{error:,.0f}", format_share(key.share))]
            if self.windows:
                row += [Text(key.age), Text(f"{len(key.hot)} of {len(self.windows) - 1}")]
            rows.append(row)
        return make_table([*columns, "hot for", "windows"] if self.windows else columns, rows)


def join_advice(advice: Sequence[Advice], part: Literal["verdict", "details"]) -> str:
    """Return a part of each piece of advice, with the number of workers if there are several numbers."""
    return "\n".join(
        f"{format_count(each.workers, 'worker')}: {text}" if len(advice) > 1 else text
        for each in advice
        if (text := getattr(each, part))
    )


def describe_rare(keys: Sequence[TopKey], unit: str = "messages") -> str:
    """Describe the keys that are not certain to be frequent; empty if all are."""
    shares = [key.share for key in keys if not key.certain]
    other = "other " if len(shares) < len(keys) else ""
    return f"No {other}key has more than {format_share(max(shares))} of the {unit}." if shares else ""
