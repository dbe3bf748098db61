"""What a query costs, as far as the text says in which Spark explains its physical plan."""

import re
from collections.abc import Iterator

# The lines of a plan: a drawing of the tree, the number of the stage, and the operator.
_LINE = re.compile(r"^([\s:|+*-]*)(?:\*\(\d+\) |\* )?(\w+)", re.MULTILINE)
_PYTHON = re.compile("Python|Pandas|Arrow")
_SHUFFLES = ("Exchange", "CollectLimit", "GlobalLimit", "ShuffleQueryStage", "TakeOrderedAndProject")


def beyond_a_scan(text: str) -> str | None:
    """Return what makes reading a DataFrame dear: a shuffle or Python; None if it is a scan.

    What a cached DataFrame was made of does not count.
    """
    for operator in _operators(text):
        if operator in _SHUFFLES:
            return "a shuffle"
        if _PYTHON.search(operator):
            return "Python"
    return None


def joins_by_broadcast(text: str) -> bool:
    """Say whether the topmost join of a query broadcasts one of its sides."""
    found = next((each for each in _operators(text) if each.endswith("Join")), "")
    return found.startswith("Broadcast")


def _operators(text: str) -> Iterator[str]:
    cached: int | None = None
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        depth = len(found[1])
        if cached is not None and depth > cached:
            continue
        cached = depth if found[2] == "InMemoryTableScan" else None
        yield found[2]
