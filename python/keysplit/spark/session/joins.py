"""A join whose rows are computed in another way, and whose columns are still those of Spark's own join.

Users select `left["k"]` and `right["k"]` from a join. On a classic session such a column is an attribute with
a number, and some attributes of a join on names are hidden in the projection on top of it: so that projection
stays, and only the join below it is replaced. A client of Spark Connect has no plan to put it into: there the
rows are joined on names again, which keeps these columns as long as nothing is united.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark.names import in_sql, quoted
from keysplit.spark.session.jvm import dataset, items, plan_of, sequence
from keysplit.spark.session.narrow import frame


class ClassicJoin:
    """Spark's projection over a join, with the join taken out."""

    keeps_columns = True

    def __init__(self, plain: DataFrame, condition: Column) -> None:
        self._plain = plain
        self._plan = plan_of(plain)
        self._condition = condition
        join = self._plan.child()
        self.left, self.right = self._frame(join.left()), self._frame(join.right())

    def join(
        self,
        left: DataFrame,
        right: DataFrame,
        kind: str,
        also: str | None = None,
        where: Column | None = None,
    ) -> DataFrame:
        """Join rows made of both sides on the keys, on a column that both have got, and by a condition."""
        condition = self._condition
        if also is not None:
            condition = condition & (left[in_sql(also)] == right[in_sql(also)])
        if where is not None:
            condition = condition & where
        return left.join(right, condition, kind)

    def with_keys_of_right(self, rows: DataFrame, types: Sequence[DataType]) -> DataFrame:
        """Return rows of an inner join, which have the keys of both sides."""
        return rows

    def result(self, rows: DataFrame, drop: Sequence[str]) -> DataFrame:
        """Return the columns of Spark's own join, of rows that `join` made."""
        children = sequence(plan_of(rows))
        return self._frame(self._plan.withNewChildren(children))

    def again(self, side: DataFrame) -> DataFrame:
        """Return a side to read it once more: columns that users select are those of the other reading."""
        # In a join with itself Spark gives the right side new attributes; else it would do so later, to any
        # of them. It marks the plans of DataFrames, and finds a column ambiguous whose plan it meets twice.
        plan = side.crossJoin(side)._jdf.queryExecution().analyzed().right().clone()
        mark = dataset(self._plain).DATASET_ID_TAG()
        nodes = [plan]
        while nodes:
            node = nodes.pop()
            node.unsetTagValue(mark)
            children = node.children()
            nodes += items(children)
        return self._frame(plan)

    def _frame(self, plan: Any) -> DataFrame:
        return frame(self._plain, plan)


class JoinOfNames:
    """A join on names, for Spark Connect."""

    keeps_columns = False

    def __init__(self, left: DataFrame, right: DataFrame, on: Sequence[str]) -> None:
        self.left, self.right, self._on = left, right, list(on)

    def join(
        self,
        left: DataFrame,
        right: DataFrame,
        kind: str,
        also: str | None = None,
        where: Column | None = None,
    ) -> DataFrame:
        """Join rows made of both sides on the keys, on a column that both have got, and by a condition.

        Raises:
            ValueError: if there is a condition and the join is no inner one.
        """
        joined = left.join(right, self._on if also is None else [*self._on, also], kind)
        if where is None:
            return joined
        if kind != "inner":
            raise ValueError(
                f"condition must be None in a {kind} join on Spark Connect, got a column: add a time "
                "window to the keys instead"
            )
        return joined.where(where)

    def with_keys_of_right(self, rows: DataFrame, types: Sequence[DataType]) -> DataFrame:
        """Return rows of an inner join, which has the keys of the left side, with those of the right side."""
        keys = zip(self._on, types, strict=True)
        return rows.withColumns({name: F.col(quoted(name)).cast(type_) for name, type_ in keys})

    def result(self, rows: DataFrame, drop: Sequence[str]) -> DataFrame:
        """Return the columns of Spark's own join, of rows that `join` made."""
        return rows.drop(*drop)

    def again(self, side: DataFrame) -> DataFrame:
        """Return a side to read it once more."""
        return side
