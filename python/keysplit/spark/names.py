"""Names of columns, as Spark's SQL reads them."""

import re
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame


def in_sql(name: str) -> str:
    """Return the name of a column as an identifier of SQL."""
    return "`" + name.replace("`", "``") + "`"


def path_in_sql(path: str) -> str:
    """Return in SQL what `F.col` reads as a column, or as a field of one."""
    return ".".join(map(in_sql, parts_of(path)))


def parts_of(path: str) -> list[str]:
    """Return the parts of what `F.col` reads, without backticks: a column, and fields in it."""
    found = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", path)
    return [quoted.replace("``", "`") or bare for quoted, bare in found]


def quoted(name: str) -> str:
    """Return a column name so that Spark reads dots and backticks in it as they are."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


class Places:
    """Where each of many names stands in a list of them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        # of a name that is there twice the last one
        self._last = dict(zip(names, range(len(names)), strict=True))

    def __contains__(self, name: str) -> bool:
        return name in self._last

    def of(self, name: str) -> list[int]:
        """Return all places of a name, in their order."""
        last = self._last.get(name)
        if last is None:
            return []
        if len(self._last) == len(self._names):
            return [last]
        return [at for at, each in enumerate(self._names) if each == name]


def free_names(df: DataFrame, name: str, ends: Iterable[str]) -> list[str]:
    """Return a name for each end that no column has, however the session minds the case of letters."""
    taken = set(map(str.lower, df.columns))
    while any(f"{name}_{end}".lower() in taken for end in ends):
        name += "_"
    return [f"{name}_{end}" for end in ends]
