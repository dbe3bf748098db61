"""Papers and their datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A real dataset of a paper, which only the authors have, and what is read instead.

    Args:
        symbol: The paper's short name, the value of the parameter ``stream`` of a cell.
        title: What it is.
        messages: Its messages, as the paper reports.
        keys: Its different keys.
        top_share: Share of the messages that the most frequent key has.
        stands_in: File in the data folder that is read instead.
        periods: In how many equal parts of the stream other keys are the hot ones: 1 for none but the first.
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
        datasets: The real ones, by symbol.
    """

    slug: str
    title: str
    authors: str
    published: str
    datasets: Mapping[str, Dataset] = field(default_factory=dict)


def by_symbol(*datasets: Dataset) -> dict[str, Dataset]:
    """Put datasets under their symbols."""
    return {dataset.symbol: dataset for dataset in datasets}
