"""Replace the rows of a join, but keep the columns of Spark's own join.

Users select `left["k"]` and `right["k"]` from a join. In a classic session such a column is an attribute with
an id, and some attributes of a join on names are hidden in the projection on top of the join. So the
projection is kept, and only the join under it is replaced. A Spark Connect client has no plan to change:
there the rows are joined on names again, which keeps these columns unless there is a union.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark.jvm import column_of, dataset, frame_of, is_connect, items, kind_of, plan_of, sequence
from keysplit.spark.names import in_sql, quoted


def joining_of(
    plain: DataFrame, left: DataFrame, right: DataFrame, on: Sequence[str], where: Column | None = None
) -> "Joining":
    """Take `plain`, which is `left.join(right, on, how)`, apart; `where` is an additional condition."""
    plan = None if is_connect(plain) else plan_of(plain)
    if plan is not None and kind_of(plan) == "Project" and kind_of(plan.child()) == "Join":
        return _InPlan(plain, where)
    return Joining(left, right, on, where)


class Joining:
    """A join on names whose rows are replaced; this class joins the new rows on names again.

    Attributes:
        left: a side. In a join of a DataFrame with itself, the sides have no columns in common.
        right: the other side.
        where: a condition on two rows in addition to equal keys; None if there is none.
        keeps_columns: whether `left["k"]` and `right["k"]` can be selected from the result for any rows.
    """

    keeps_columns = False

    def __init__(self, left: DataFrame, right: DataFrame, on: Sequence[str], where: Column | None) -> None:
        self.left, self.right, self._on, self.where = left, right, list(on), where

    def join(self, left: DataFrame, right: DataFrame, kind: str, also: str | None = None) -> DataFrame:
        """Join rows from both sides on the keys, the condition, and an added column."""
        on = self._on if also is None else [*self._on, also]
        if self.where is None:
            return left.join(right, on, kind)
        # Separate relations for both sides, as one side may be derived from the other.
        left, right = left.select("*"), right.select("*")
        keys = [[_column_of(side, name) for side in (left, right)] for name in on]
        same = reduce(and_, (left[mine] == right[theirs] for mine, theirs in keys))
        joined = left.join(right, same & self.where, kind)
        # in the order of a join on names
        columns = [right[theirs] if kind == "right" else left[mine] for mine, theirs in keys]
        for side, own in zip((left, right), zip(*keys, strict=True), strict=True):
            if side is left or kind not in ("semi", "anti"):
                columns += [side[name] for name in map(in_sql, side.columns) if name not in own]
        return joined.select(*columns)

    def with_keys_of_right(self, rows: DataFrame, types: Sequence[DataType]) -> DataFrame:
        """Return rows of an inner join with the keys as in a right join, in these types."""
        keys = zip(self._on, types, strict=True)
        return rows.withColumns({name: F.col(quoted(name)).cast(type_) for name, type_ in keys})

    def result(self, rows: DataFrame, drop: Sequence[str]) -> DataFrame:
        """Return the columns of Spark's own join; `drop` names extra columns of `rows`, made by `join`."""
        return rows.drop(*drop)

    def again(self, side: DataFrame) -> DataFrame:
        """Return a side to read again; columns that users name still mean the first read."""
        return side


class _InPlan(Joining):
    """Spark's projection over a join, without the join."""

    keeps_columns = True

    def __init__(self, plain: DataFrame, where: Column | None) -> None:
        self._plain, self._plan, self.where = plain, plan_of(plain), where
        join = self._plan.child()
        condition = column_of(join.condition().get())
        self._condition = condition if where is None else condition & where
        self.left, self.right = frame_of(plain, join.left()), frame_of(plain, join.right())

    def join(self, left: DataFrame, right: DataFrame, kind: str, also: str | None = None) -> DataFrame:
        condition = self._condition
        if also is not None:
            condition = condition & (left[in_sql(also)] == right[in_sql(also)])
        return left.join(right, condition, kind)

    def with_keys_of_right(self, rows: DataFrame, types: Sequence[DataType]) -> DataFrame:
        return rows  # they have the keys of both sides

    def result(self, rows: DataFrame, drop: Sequence[str]) -> DataFrame:
        return frame_of(self._plain, self._plan.withNewChildren(sequence(plan_of(rows))))

    def again(self, side: DataFrame) -> DataFrame:
        # In a self-join Spark gives the right side new attributes; otherwise it would do so later, to any
        # side. It marks the plans of DataFrames, and calls a column ambiguous if it finds its plan twice.
        plan = plan_of(side.crossJoin(side)).right().clone()
        mark = dataset(self._plain).DATASET_ID_TAG()
        nodes = [plan]
        while nodes:
            node = nodes.pop()
            node.unsetTagValue(mark)
            children = node.children()
            nodes += items(children)
        return frame_of(self._plain, plan)


def _column_of(side: DataFrame, key: str) -> str:
    """Return a key's column in SQL under its own name, because upper and lower case may differ."""
    columns = side.columns
    return in_sql(key if key in columns else next(each for each in columns if each.lower() == key.lower()))
