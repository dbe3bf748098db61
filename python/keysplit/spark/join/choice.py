"""Choose the way of a join."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.plan import FrequentKey
from keysplit.spark import costs, jvm
from keysplit.spark.identity import Query
from keysplit.spark.join.broadcast import by_broadcast
from keysplit.spark.join.place import by_worker
from keysplit.spark.join.sides import Sides
from keysplit.spark.request import Request
from keysplit.spark.strategy import Way, keys_are, reason_for_plain
from keysplit.spark.weights import row_bytes
from keysplit.text import format_count

# The most hot keys to broadcast: each row's key is looked up among them, in both parts of the union.
_MOST_KEYS = 1_000
# The least part of hot rows for which saving their shuffle is worth reading both sides twice.
_WORTH = 0.25
# From this many pairs per row on, producing pairs dominates a join, and a merge is the fastest way.
_MOST_PAIRS = 8


def joined(sides: Sides, plain: DataFrame, way: str | None) -> tuple[DataFrame, Way]:
    """Compute a join in the requested way, or in the way that suits the plan and the other side.

    Args:
        sides: the join; its plan may be for no rows.
        plain: Spark's own join.
        way: "broadcast" or "place"; None to choose.
    """
    plan = sides.plan
    if way == "place" or not plan.head:
        # Also if there is nothing to split: building it shows errors in the request.
        result = by_worker(sides)
        if way is not None:
            why = f"as way={way!r} requires"
        elif (nothing := _reason_for_plain(sides)) is not None:
            return plain, Way("plain", nothing)
        else:
            why = f"hashing gives the busiest {plan.hash_busiest:.2f} times its fair share"
        return result, _placed(sides, why)
    keys = plan.head[:_MOST_KEYS]
    if way == "broadcast":
        why = f"{_held(sides, keys)}; way='broadcast' requires it"
        return by_broadcast(sides, keys), Way("broadcast", why)
    return _chosen(sides, plain, keys)


def refuse_way(way: str | None, request: Request, other: Query) -> None:
    """Raise ValueError if the requested way is not exact for any plan.

    Args:
        way: the way.
        request: the request of the side that is split.
        other: the query of the other side.
    """
    if way == "broadcast":
        for query in (request.query, other):
            query.refuse_unrepeatable(request.keys, "because way='broadcast' reads both sides twice")


def _chosen(sides: Sides, plain: DataFrame, keys: Sequence[FrequentKey]) -> tuple[DataFrame, Way]:
    plain_does = _reason_for_plain(sides)
    limit = costs.broadcast_limit(sides.request.query.setting(costs.THRESHOLD))
    against = _against_broadcast(sides, keys, limit)
    if against is None:
        counts_pairs = plain_does is not None and sides.kind not in ("semi", "anti")
        rows, size = _size_of_others(sides, keys)
        by_key = size > limit or (counts_pairs and rows > len(keys))
        counted = _count_others(sides, keys) if by_key else {}
        if counts_pairs and (pairs := _pairs_per_row(sides, keys, counted)) > _MOST_PAIRS:
            made = f"its hot keys make {pairs:.0f} pairs per row of the split side"
            return plain, Way("plain", f"{plain_does}; a broadcast would not help: {made}")
        few, rows, size = (keys, rows, size) if size <= limit else _few(keys, counted, limit)
        chosen = {each.hash for each in few}
        left_over = [each for each in keys if each.hash not in chosen and _is_split(each)]
        if not left_over and _share(sides, few) >= _WORTH:
            why = f"{_held(sides, few)}; the other side has {rows:,} rows of them ({_bytes(size)})"
            return by_broadcast(sides, few), Way("broadcast", why)
        against = "the other side's rows of the hot keys exceed the broadcast limit"
    if plain_does is not None:
        return plain, Way("plain", plain_does)
    return by_worker(sides), _placed(sides, f"no broadcast, because {against}")


def _against_broadcast(sides: Sides, keys: Sequence[FrequentKey], limit: int) -> str | None:
    """Return why hot keys cannot be joined by broadcast, as far as is known without counting."""
    if not sides.joining.keeps_columns:
        return "columns of a side could not be selected from a union on Spark Connect"
    if limit < 0:
        return f"{costs.THRESHOLD} is below 0"
    for query in (sides.request.query, sides.query):
        reason = query.why_unrepeatable(sides.request.keys)
        if reason is not None:
            return f"it reads both sides twice, and rows or keys may differ the second time: {reason}"
    if _share(sides, keys) < _WORTH:
        return f"its frequent keys hold only {_share(sides, keys):.0%} of the rows"
    for df in (sides.request.df, sides.others):
        reason = costs.beyond_a_scan(df)
        if reason is not None:
            return f"it reads both sides twice, and there is {reason} upstream"
    return None


def _reason_for_plain(sides: Sides) -> str | None:
    return reason_for_plain(sides.plan, jvm.slots(sides.request.df))


def _placed(sides: Sides, why: str) -> Way:
    keys = keys_are(len(sides.plan.split_keys))
    workers = format_count(sides.plan.workers, "worker")
    return Way("place", f"{keys} split over {workers} by {sides.plan.grouping.name}; {why}")


def _size_of_others(sides: Sides, keys: Sequence[FrequentKey]) -> tuple[int, float]:
    """Count the other side's rows with one of these keys, and their bytes."""
    rows = _numbered(sides.others_of(keys).first)
    (found,) = rows.agg(F.count("*").alias("rows"), F.sum(row_bytes(rows)).alias("bytes")).collect()
    return found.rows, found.bytes or 0.0


def _count_others(sides: Sides, keys: Sequence[FrequentKey]) -> dict[int, tuple[int, float]]:
    """Count the same per key, by its hash."""
    rows = _numbered(sides.others_of(keys).first.select("*", sides.others_hash.alias(sides.own[0])))
    key = rows.columns[-1]
    measured = rows.select(key, row_bytes(rows.drop(key)).alias("bytes"))
    counted = measured.groupBy(key).agg(F.count("*").alias("rows"), F.sum("bytes").alias("bytes"))
    return {row[key]: (row.rows, row.bytes) for row in counted.collect()}


def _numbered(df: DataFrame) -> DataFrame:
    """Return a DataFrame with unique names."""
    return df.toDF(*(f"c{at}" for at in range(len(df.columns))))


def _pairs_per_row(
    sides: Sides, keys: Sequence[FrequentKey], counted: Mapping[int, tuple[int, float]]
) -> float:
    """Return how many rows a join produces for hot keys, per row of the side that is split."""
    pairs = sum(each.count * counted.get(each.hash, (0, 0))[0] for each in keys)
    return pairs / sides.plan.total if sides.plan.total else 0.0


def _few(
    keys: Sequence[FrequentKey], counted: Mapping[int, tuple[int, float]], limit: int
) -> tuple[list[FrequentKey], int, float]:
    """Choose keys, those with the largest gain per byte first, while the other side's rows fit the limit."""
    few, rows, size = [], 0, 0.0
    for each in sorted(keys, key=lambda each: -each.count / (1 + counted.get(each.hash, (0, 0))[1])):
        more, bytes_ = (0, 0.0) if None in each.key else counted.get(each.hash, (0, 0.0))
        if size + bytes_ <= limit:
            few.append(each)
            rows, size = rows + more, size + bytes_
    return few, rows, size


def _is_split(key: FrequentKey) -> bool:
    return len(key.workers) > 1 and None not in key.key


def _share(sides: Sides, keys: Sequence[FrequentKey]) -> float:
    return min(1.0, sum(each.count for each in keys) / sides.plan.total) if sides.plan.total else 0.0


def _held(sides: Sides, keys: Sequence[FrequentKey]) -> str:
    held = "1 hot key holds" if len(keys) == 1 else f"{len(keys)} hot keys hold"
    return f"{held} {_share(sides, keys):.0%} of the rows"


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
