"""Keys counted in a sample of the rows: one stage draws it, and the driver counts.

The number of rows is unknown before they are read. So a row's chance of being drawn falls with its place: its
number in its partition times the partition's number, which is at most about the number of all rows. All rows
of a small frame are drawn, and about as many rows as needed from a large one. A drawn row stands for 1/chance
rows, so estimates are unbiased. docs/plans.md states the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.plan import Sample, bucket_of
from keysplit.spark import jvm, values
from keysplit.spark.counting.counted import Counted, bad_weight, sum_of, wrong_weights
from keysplit.spark.names import in_sql

# Frames of up to this many rows are counted whole.
_WHOLE = 1 << 16
# The largest part drawn of a larger frame.
_MOST_OF_ROWS = 0.1
# The most rows needed: while the number of all rows is unknown, and after that.
_MOST_AT_FIRST, _MOST = 1 << 19, 1 << 22
# The relative standard error of the smallest share: an error of a tenth at 95 per cent.
_ERROR = 0.1 / 1.96
# A key with fewer sampled rows is not frequent: its error exceeds half of its share.
_MET = 16
# About this many rows of a frequent key carry its values.
_SHOWN = 20

MOST_BYTES = 256
"""The maximum number of bytes of a key's text in the sample."""

# An unusual seed: an upstream sample with the same one would draw the same numbers.
_SEED = 0x3C6EF372FE94F82B
# monotonically_increasing_id has this many bits for the row, and the rest for the partition.
_ROW_BITS = 33
_LAST = 2**_ROW_BITS - 1


@dataclass(frozen=True)
class Keys:
    """The keys to count.

    Attributes:
        hash: the hash of the key.
        columns: the columns of the key.
        types: the types of the key columns.
        weight: the weight of a row; None if every row weighs 1.
        identity: the hash of a row's identity, to see whether rows of a key differ; None if not needed.
    """

    hash: Column
    columns: Sequence[str]
    types: Sequence[DataType]
    weight: Column | None
    identity: Column | None = None


def count(
    df: DataFrame,
    keys: Keys,
    names: Sequence[str],
    share: float,
    least: float,
    bits: int,
    sample: float | str,
) -> Counted:
    """Estimate the weight of each key from a sample, without a shuffle and without Python on the executors.

    Args:
        df: the rows.
        keys: the keys to count.
        names: two unused column names.
        share: the share of the weight at which a key counts as frequent.
        least: the smallest share that needs a small error.
        bits: how many bits of the hash give the bucket.
        sample: "auto", or the probability that a row is drawn.

    Returns:
        The frequent keys of the sample, with estimates for all rows.

    Raises:
        ValueError: if a weight in the sample is null, negative or not finite, or if their sum is not finite.
    """
    lottery = _Lottery(df, keys, names)
    drawn = _drawn(lottery, share, least, sample)
    hashes, at = _distinct(drawn.hashes)
    counts = np.bincount(at, drawn.weights * drawn.repeats, minlength=len(hashes))
    buckets = np.bincount(bucket_of(hashes, bits), counts, minlength=2**bits)
    heaviest = None
    if keys.weight is not None:
        heaviest = np.zeros(len(hashes))
        np.maximum.at(heaviest, at, drawn.weights)
    total = sum_of(buckets)
    frequent = np.flatnonzero(counts >= share * total) if total else np.empty(0, np.int64)
    known = None
    if not drawn.whole:
        variances = np.bincount(at, drawn.weights**2 * drawn.doubts, minlength=len(hashes))
        effective = _effective(total, float(variances.sum()), counts[frequent], variances[frequent])
        frequent = frequent[counts[frequent] * effective >= _MET * total]
        known = Sample(len(at), len(at) / max(drawn.rows, 1.0), effective)
    texts = drawn.texts_of(hashes[frequent])
    missing = set(hashes[frequent].tolist()).difference(texts)
    if missing:
        texts |= lottery.texts_of(drawn.chance, sorted(missing))
        # a key that disappeared stays in its bucket: df has other rows each time it is read
        frequent = frequent[[hash_ in texts for hash_ in hashes[frequent].tolist()]]
    return Counted(
        hashes=hashes[frequent],
        counts=counts[frequent],
        errors=np.zeros(len(frequent)),
        buckets=buckets,
        texts=texts,
        sample=known,
        groups=np.bincount(bucket_of(hashes, bits), minlength=2**bits).astype(np.float64),
        met=drawn.met(hashes[frequent]),
        heaviest=None if heaviest is None else heaviest[frequent],
    )


@dataclass(frozen=True)
class _Chance:
    """A row's chance of being drawn: 1 for small places; for others `rows` / place, at most `most`."""

    whole: float
    most: float
    rows: float

    @classmethod
    def same(cls, chance: float) -> "_Chance":
        """Return a chance that is the same for every row."""
        return cls(0.0, min(chance, 1.0), 1e300)

    def at(self, places: np.ndarray) -> np.ndarray:
        chances: np.ndarray = np.where(places <= self.whole, 1.0, np.minimum(self.most, self.rows / places))
        return chances

    def in_sql(self, place: str, number: str) -> str:
        """Return in SQL whether a row is drawn, from its place and its random number from 0 to 1."""
        some = f"{number} < {self.most!r}D AND {number} * {place} < {self.rows!r}D"
        return f"({place} <= {self.whole!r}D OR ({some}))"


@dataclass(frozen=True)
class _Drawn:
    """A sample.

    Attributes:
        chance: the sampling probability and method.
        whole: whether the sample is known to contain every row.
        hashes: the hash of the key of each row, int64.
        weights: the weight of each row, float64.
        repeats: how many rows each drawn row stands for, float64.
        texts: for some rows, the text of the key by `write_texts`.
        identities: the hash of each row's identity, int64, if `Keys` has one.
    """

    chance: _Chance
    whole: bool
    hashes: np.ndarray
    weights: np.ndarray
    repeats: np.ndarray
    texts: pa.ChunkedArray
    identities: np.ndarray | None

    @property
    def rows(self) -> float:
        """The estimated number of all rows."""
        return float(self.repeats.sum())

    @property
    def doubts(self) -> np.ndarray:
        """Each row's contribution to the variance of a number of rows."""
        doubts: np.ndarray = self.repeats * (self.repeats - 1)
        return doubts

    def met(self, hashes: np.ndarray) -> dict[int, tuple[int, int]] | None:
        """Return for each of these keys the number of sampled rows, and of distinct identities among them."""
        if self.identities is None:
            return None
        asked = np.flatnonzero(np.isin(self.hashes, hashes))
        order = asked[np.lexsort((self.identities[asked], self.hashes[asked]))]
        keys, identities = self.hashes[order], self.identities[order]
        is_first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        is_other = is_first | np.append(True, identities[1:] != identities[:-1])[: len(keys)]
        first = np.flatnonzero(is_first)
        rows = np.diff(np.append(first, len(keys)))
        different = np.add.reduceat(is_other, first, dtype=np.int64)
        return dict(
            zip(keys[first].tolist(), zip(rows.tolist(), different.tolist(), strict=True), strict=True)
        )

    def texts_of(self, hashes: np.ndarray) -> dict[int, list[bytes | None]]:
        """Return the values of keys by hash, for those with values in the sample."""
        rows = np.flatnonzero(pc.is_valid(self.texts).to_numpy() & np.isin(self.hashes, hashes))
        found, first = np.unique(self.hashes[rows], return_index=True)
        return dict(zip(found.tolist(), self.texts.take(rows[first]).to_pylist(), strict=True))


def _drawn(lottery: "_Lottery", share: float, least: float, sample: float | str) -> _Drawn:
    shown = _SHOWN / share
    few = _Chance(0.0, 1.0, shown)
    if sample != "auto":
        return lottery.draw(_Chance.same(float(sample)), few)
    needed = 1 / (_ERROR**2 * least)
    # Places are below the number of all rows, so about twice as many rows are drawn: request half.
    drawn = lottery.draw(_Chance(_WHOLE, _MOST_OF_ROWS, min(needed, _MOST_AT_FIRST) / 2), few)
    # With very unequal partitions, places say little about the number of rows, which is known now.
    rows = drawn.rows
    enough = min(needed, _MOST, max(_MOST_OF_ROWS * rows, _WHOLE))
    if drawn.whole or (rows > _WHOLE and rows**2 >= enough / 2 * drawn.doubts.sum()):
        return drawn
    if rows <= _WHOLE:
        return lottery.draw(_Chance.same(1.0), _Chance.same(1.0))
    return lottery.draw(_Chance.same(enough / rows), _Chance.same(shown / rows))


def _effective(total: float, variance: float, counts: np.ndarray, variances: np.ndarray) -> float:
    """Return the effective sample size: how many rows of equal weight and chance have the same error.

    Args:
        total: the weight of all rows.
        variance: the variance of its estimate.
        counts: the weight of each frequent key.
        variances: the variances of their estimates.
    """
    if not total:
        return 0.0
    worst = max(variance / total**2, *(variances / (counts * total)).tolist(), 1e-18)
    return 1 / float(worst)


class _Lottery:
    """Draws rows: the same rows each time for the same chance and the same partitions."""

    def __init__(self, df: DataFrame, keys: Keys, names: Sequence[str]) -> None:
        self._keys = keys
        row, number = names
        self._row, self._number = in_sql(row), in_sql(number)
        ids, numbers = f"monotonically_increasing_id() AS {self._row}", f"rand({_SEED}L) AS {self._number}"
        self._rows = df.selectExpr("*", ids, numbers)
        self._place = f"(shiftright({self._row}, {_ROW_BITS}) + 1D) * (({self._row} & {_LAST}L) + 1D)"

    def draw(self, chance: _Chance, shown: _Chance) -> _Drawn:
        """Draw rows; rows that the second chance would draw too include the values of the key."""
        asked = {"weight": self._keys.weight, "identity": self._keys.identity}
        beside = {name: column for name, column in asked.items() if column is not None}
        row, is_shown = (
            F.expr(text) for text in (f"{self._row} AS row", shown.in_sql(self._place, self._number))
        )
        others = (row, *(column.alias(name) for name, column in beside.items()))
        rows = self._drawn(chance, is_shown, *others)
        texts = f"IF(shown, {self._texts}, NULL) AS texts"
        table = jvm.arrow(rows.selectExpr("hash", "row", texts, *beside))
        ids = _numbers(table["row"])
        partitions, places = (ids >> _ROW_BITS) + 1.0, (ids & _LAST) + 1.0
        return _Drawn(
            chance=chance,
            # or each partition ended before the first row with a chance below 1
            whole=chance.most == 1
            or (chance.whole > 0 and bool((partitions * (places + 1) <= chance.whole).all())),
            hashes=_numbers(table["hash"]),
            weights=np.ones(len(ids)) if self._keys.weight is None else _weights(table["weight"]),
            repeats=1 / chance.at(partitions * places),
            texts=table["texts"],
            identities=None if self._keys.identity is None else _numbers(table["identity"]),
        )

    def texts_of(self, chance: _Chance, hashes: Sequence[int]) -> dict[int, list[bytes | None]]:
        """Return the values of some keys by hash, in a separate job."""
        some = self._drawn(chance, F.lit(True)).filter(
            f"hash IN ({', '.join(f'{hash_}L' for hash_ in hashes)})"
        )
        found = some.groupBy("hash").agg(F.first(F.expr(self._texts)).alias("texts")).collect()
        return {row.hash: row.texts for row in found}

    def _drawn(self, chance: _Chance, shown: Column, *columns: Column) -> DataFrame:
        """Return each drawn row's key hash, the key's values if `shown`, and the remaining columns."""
        texts = (
            F.when(shown, values.write(values.send(F.col(name), type_), type_)).alias(f"text{at}")
            for at, (name, type_) in enumerate(zip(self._keys.columns, self._keys.types, strict=True))
        )
        drawn = self._rows.filter(chance.in_sql(self._place, self._number))
        return drawn.select(self._keys.hash.alias("hash"), shown.alias("shown"), *texts, *columns)

    @property
    def _texts(self) -> str:
        """The values of the key as an array of BINARY, in SQL; truncated, because one may have megabytes."""
        cut = (
            f"IF(octet_length({text}) > {MOST_BYTES}, "
            f"concat(substring({text}, 1, {MOST_BYTES}), CAST('…' AS BINARY)), {text})"
            for text in (f"text{at}" for at in range(len(self._keys.columns)))
        )
        return f"array({', '.join(cut)})"


def _distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct numbers, and the position of each number among them."""
    # NumPy would sort all numbers, this sorts only the distinct ones.
    encoded = pa.array(numbers).dictionary_encode()
    found = encoded.dictionary.to_numpy()
    order = np.argsort(found)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return found[order], places[encoded.indices.to_numpy()]


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    numbers: np.ndarray = column.to_numpy().astype(np.int64, copy=False)
    return numbers


def _weights(column: pa.ChunkedArray) -> np.ndarray:
    wrong = wrong_weights(column)
    if wrong is not None:
        raise bad_weight(wrong)
    weights: np.ndarray = column.to_numpy().astype(np.float64, copy=False)
    return weights
