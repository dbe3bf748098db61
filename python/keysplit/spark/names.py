"""Column names for Spark's SQL."""

import re
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame


def in_sql(name: str) -> str:
    """Return the name of a column as an SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def path_in_sql(path: str) -> str:
    """Return the SQL for a name that `F.col` reads as a column or field."""
    return ".".join(map(in_sql, parts_of(path)))


def parts_of(path: str) -> list[str]:
    """Return the parts of a name for `F.col`, without backticks: a column, and its fields."""
    found = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", path)
    return [quoted.replace("``", "`") or bare for quoted, bare in found]


def quoted(name: str) -> str:
    """Return a column name quoted, so that Spark reads its dots and backticks literally."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


class Places:
    """The positions of names in a list."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        # the last place of a duplicate name
        self._last = dict(zip(names, range(len(names)), strict=True))

    def __contains__(self, name: str) -> bool:
        return name in self._last

    def of(self, name: str) -> list[int]:
        """Return all positions of a name, in order."""
        last = self._last.get(name)
        if last is None:
            return []
        if len(self._last) == len(self._names):
            return [last]
        return [at for at, each in enumerate(self._names) if each == name]


def free_names(df: DataFrame, name: str, ends: Iterable[str]) -> list[str]:
    """Return an unused column name for each suffix, whether or not the session is case-sensitive."""
    taken = set(map(str.lower, df.columns))
    while any(f"{name}_{end}".lower() in taken for end in ends):
        name += "_"
    return [f"{name}_{end}" for end in ends]
