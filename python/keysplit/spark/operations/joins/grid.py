"""An inner join that splits both sides: the rows of a hot key meet in the cells of a grid."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.hashes import identity_in_sql, row_hash_in_sql
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.operations.joins.sides import Sides


class Grid(NamedTuple):
    """The grid of a key: a row of the split side goes to a row of it, one of the other side to a column."""

    rows: int
    columns: int


def by_grid(sides: Sides, grids: Mapping[int, Grid]) -> DataFrame:
    """Join two sides on the key and a cell of its grid.

    A pair of rows meets in one cell: in the row of the grid that the one hashes to, and the column that the
    other one does. The cell is a function of the key and of the identities of both.

    Args:
        sides: of an inner join.
        grids: the grids, by the hash of the key; all other keys have one cell.

    Raises:
        ValueError: if the rows of a side have no steady identity.

    Source:
        "Processing Theta-Joins using MapReduce" (Okcan, Riedewald, SIGMOD 2011), section 3: a cross product
        is covered by regions as near to squares as its sides allow.

    Deviations:
        The paper draws the row and the column of the matrix at random; here they are hashed, so that a
        retried task puts a row into the same cells. It covers the matrix of a whole join; here it is that of
        one key.
    """
    request = sides.request
    others_row = identity_in_sql(request.params.seed, [quoted(name) for name in sides.query.identity])
    cell, row = sides.own[0], sides.own[1]
    at, drawn = in_sql(cell), in_sql(row)

    def spread(df: DataFrame, identity: str, cells: Mapping[int, str]) -> DataFrame:
        listed = ", ".join(f"{hash_}L" for hash_ in cells)
        if not cells:
            return df.withColumn(cell, F.lit(0).cast("bigint"))
        # Of hot keys alone: hashing all columns of each row would cost more.
        df = df.select("*", F.expr(f"CASE WHEN {at} IN ({listed}) THEN {identity} END").alias(row))
        cases = " ".join(f"WHEN {hash_}L THEN {each}" for hash_, each in cells.items())
        return df.withColumn(cell, F.expr(f"explode_outer(CASE {at} {cases} ELSE array(0L) END)")).drop(row)

    along = {
        hash_: f"sequence(pmod({drawn}, {grid.rows}L) * {grid.columns}L, "
        f"pmod({drawn}, {grid.rows}L) * {grid.columns}L + {grid.columns - 1}L)"
        for hash_, grid in grids.items()
    }
    down = {
        hash_: f"sequence(pmod({drawn}, {grid.columns}L), "
        f"pmod({drawn}, {grid.columns}L) + {(grid.rows - 1) * grid.columns}L, {grid.columns}L)"
        for hash_, grid in grids.items()
    }
    rows = request.df.select("*", sides.hash.alias(cell))
    others = sides.others.select("*", sides.others_hash.alias(cell))
    rows = spread(rows, row_hash_in_sql(request), along)
    others = spread(others, others_row, down)
    return sides.result(sides.join(rows, others, "inner", also=cell))
