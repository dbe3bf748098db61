"""An inner join that splits both sides: the rows of a hot key meet in the cells of a grid."""

from collections.abc import Mapping, Sequence
from math import ceil, sqrt
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.plan import FrequentKey
from keysplit.spark.hashes import identity_in_sql, row_hash_in_sql
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.operations.joins.sides import Sides
from keysplit.spark.ways import keys_are


class Grid(NamedTuple):
    """The grid of a key: a row of the split side goes to a row of it, one of the other side to a column."""

    rows: int
    columns: int


def grids_of(
    sides: Sides, keys: Sequence[FrequentKey], counted: Mapping[int, tuple[int, float]]
) -> dict[int, Grid]:
    """Give each key as many cells as its part of the pairs asks for, in a grid as its two sides are long.

    Args:
        sides: the join.
        keys: keys of the plan.
        counted: the rows of the other side that have a key, by its hash, and their bytes.
    """
    pairs = {
        each.hash: each.count * counted.get(each.hash, (0, 0))[0] for each in keys if None not in each.key
    }
    total, found = sum(pairs.values()), {}
    for each in keys:
        if not pairs.get(each.hash):
            continue
        most = sides.plan.workers
        cells = min(most, max(len(each.workers), ceil(most * pairs[each.hash] / total)))
        rows = min(cells, max(1, round(sqrt(cells * each.count / counted[each.hash][0]))))
        if cells > 1:
            found[each.hash] = Grid(rows, ceil(cells / rows))
    return found


def copies(
    keys: Sequence[FrequentKey],
    counted: Mapping[int, tuple[int, float]],
    grids: Mapping[int, Grid] | None = None,
) -> float:
    """Return how many rows of some keys are shuffled, by grids, or by workers if there are none."""
    rows = 0.0
    for each in keys:
        grid = Grid(len(each.workers), 1) if grids is None else grids.get(each.hash, Grid(1, 1))
        rows += each.count * grid.columns + counted.get(each.hash, (0, 0))[0] * grid.rows
    return rows


def described(sides: Sides, grids: Mapping[int, Grid], counted: Mapping[int, tuple[int, float]]) -> str:
    """Say which keys are in grids, and how large that of the hottest is."""
    if not grids:
        return "no key is hot on both sides"
    hash_ = max(grids, key=lambda each: counted[each][0])
    text = next(each.text for each in sides.plan.head if each.hash == hash_)
    return (
        f"{keys_are(len(grids))} hot on both sides; the other side has {counted[hash_][0]:,} rows of {text}, "
        f"in a grid of {grids[hash_].rows} x {grids[hash_].columns}"
    )


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
