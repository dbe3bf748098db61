"""Papers and their datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A real dataset of a paper, available only to its authors, and its substitute.

    Args:
        symbol: The paper's short name, the value of the parameter ``stream`` of a cell.
        title: What it is.
        messages: Its number of messages, as reported by the paper.
        keys: Its number of distinct keys.
        top_share: Share of the most frequent key.
        stands_in: Its substitute, a file in the data folder.
        periods: Number of equal parts of the stream with different hot keys; 1 for no change.
    """

    symbol: str
    title: str
    messages: int
    keys: int
    top_share: float
    stands_in: str
    periods: int = 1


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper whose experiments are in the folder of that name.

    Args:
        slug: Name of the folder.
        title: Of the paper.
        authors: Of the paper.
        published: Where and when.
        setting: What its figures share: streams, sizes, and how anything the paper leaves open is settled.
        datasets: The real ones, by symbol.
    """

    slug: str
    title: str
    authors: str
    published: str
    setting: str = ""
    datasets: Mapping[str, Dataset] = field(default_factory=dict)


def by_symbol(*datasets: Dataset) -> dict[str, Dataset]:
    """Index datasets by symbol."""
    return {dataset.symbol: dataset for dataset in datasets}
