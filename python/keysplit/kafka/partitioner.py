"""Compute in a producer the partition that a plan has for each message."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any, Literal, Protocol, TypeAlias, get_args
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from keysplit import paths
from keysplit.extras import missing
from keysplit.plan import Tables, stored

try:
    from xxhash import xxh64_intdigest
except ImportError as error:
    raise ImportError(missing("keysplit.kafka", "xxhash", "kafka")) from error

Key: TypeAlias = str | bytes | int | None
Rare = Literal["plan", "murmur2", "crc32"]

_TYPES = ("bigint", "binary", "string")
_SPARK_SEED = 42  # Spark's xxhash64 starts from it
_LOW = (1 << 32) - 1


class _Plan(Protocol):
    def to_json(self) -> str: ...


class PlanPartitioner:
    """Send each message to the partition that a plan has for its key; the workers are the partitions.

    Guarantees: a key that the plan does not split goes to the partition that is its worker in a Spark job
        with the same plan. The messages of a split key go to the key's workers in the plan's shares, chosen
        by a counter of this partitioner. Spark chooses by the row's identity instead, so a single message may
        go to a different one of these workers than in Spark. Order is kept per partition, not for a split
        key. One partitioner may serve several threads.

    Args:
        plan: a plan with one key column of integers, strings or binary: a `Plan`, its path or URL, or its
            JSON.
        rare: how keys are placed that are not frequent in the plan: "plan", as in a Spark job; "murmur2",
            like the default partitioner of Kafka's Java clients, kafka-python and aiokafka; "crc32", like
            that of librdkafka and confluent-kafka. With the last two, other producers of the topic need the
            plan only for frequent keys. A message without a key (for "crc32", including an empty key) then
            goes to any partition, unless null is frequent.
        partitions: the number of partitions of the topic, if it should be checked here.
        decode: turns the bytes of a message's key into the plan's key: `int` if a number is sent as digits.
            If omitted, the bytes are the key.
        seed: the seed of the numbers that spread the messages of a split key, 0..=2^64 - 1. Producers may
            share a seed.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument is out of range; if the plan is damaged, has several key columns or a type
            that producers do not send; if its number of workers is not `partitions`.
        OSError: if the plan cannot be read.

    Source:
        docs/plans.md, "The two hashes of a row" and "The tables".

    Deviations:
        A message has no identity; a counter replaces it.

    Example:
        >>> partitioner = PlanPartitioner("words.plan.json", partitions=8)  # doctest: +SKIP
        >>> producer.produce("words", key="a", partition=partitioner.partition("a"))  # doctest: +SKIP
    """

    def __init__(
        self,
        plan: _Plan | str | os.PathLike[str],
        *,
        rare: Rare = "plan",
        partitions: int | None = None,
        decode: Callable[[bytes], Key] | None = None,
        seed: int = 0,
    ) -> None:
        if rare not in get_args(Rare):
            raise ValueError(f"rare must be 'plan', 'murmur2' or 'crc32', got {rare!r}")
        if decode is not None and not callable(decode):
            raise TypeError(f"decode must be a function of bytes, got {decode!r:.60}")
        fields = stored.read(_json_of(plan))
        names, types = fields["key"], fields["key_types"]
        if len(types) != 1:
            raise ValueError(f"plan must have one key column, since a message has one key, got {list(names)}")
        if types[0] not in _TYPES:
            raise ValueError(
                f"plan must have keys of one of the types {', '.join(_TYPES)}, got {names[0]!r} of type "
                f"{types[0]}"
            )
        self._type: str = types[0]
        self._decode = decode
        self._rare = rare
        self._workers = int(fields["grouping"].workers)
        self._null = seed_hash(fields["grouping"].seed)
        tables = Tables.of(fields["head"], fields["tail"])
        self._table = tables.in_rust()
        self._tail: list[int] = tables.tail.tolist()
        self._shift = 64 - (len(self._tail).bit_length() - 1)
        cells: list[tuple[int, int, int]] = list(
            zip(tables.cuts.tolist(), tables.first.tolist(), tables.second.tolist(), strict=True)
        )
        self._cells = {
            hash_ % 2**64: cells[start : start + length]
            for hash_, start, length in zip(
                tables.hashes.tolist(), tables.starts.tolist(), tables.lengths.tolist(), strict=True
            )
        }
        self._split = np.array([hash_ for hash_, run in self._cells.items() if len(run) > 1], np.uint64)
        self._numbers = _numbers(seed)
        if partitions is not None:
            self._refuse_other(partitions)

    @property
    def workers(self) -> int:
        """The number of workers of the plan, equal to the topic's number of partitions."""
        return self._workers

    def partition(self, key: Key) -> int:
        """Return the partition of the next message with a key.

        Args:
            key: a value of the plan's key column: an integer, a string or its UTF-8, or bytes; with `decode`,
                the sent bytes. None is null.

        Raises:
            TypeError: if the key has the wrong type.
            ValueError: if the key is an integer beyond BIGINT.
        """
        hash_ = self._hash(key)
        cells = self._cells.get(hash_)
        if cells is None:
            return self._tail[hash_ >> self._shift] if self._rare == "plan" else self._default(key)
        if len(cells) == 1:
            return cells[0][1]
        row = next(self._numbers)
        cut, first, second = cells[(row >> 32) * len(cells) >> 32]
        return first if row & 0xFFFFFFFF < cut else second

    def route(self, keys: Iterable[Key]) -> NDArray[np.uint32]:
        """Return the partitions of messages, in order: what `partition` returns for each message.

        Args:
            keys: the keys, as `partition` takes them.

        Returns:
            The partitions, uint32.

        Raises:
            TypeError: as in `partition`.
            ValueError: as in `partition`.
        """
        if self._rare != "plan":
            return np.fromiter(map(self.partition, keys), np.uint32)
        hashes = np.fromiter(map(self._hash, keys), np.uint64)
        rows = np.zeros(len(hashes), np.uint64)
        split = np.flatnonzero(np.isin(hashes, self._split))
        rows[split] = np.fromiter(islice(self._numbers, len(split)), np.uint64)
        return self._table.route(hashes.view(np.int64), rows.view(np.int64))

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int] | None = None
    ) -> int:
        """Return the partition of the next message with a key: the interface of aiokafka and kafka-python 2.

        Args:
            key: the key as it is sent, or None.
            all_partitions: the numbers of the topic's partitions.
            available: the partitions that have a leader; a message for any other partition waits.

        Raises:
            TypeError: as in `partition`.
            ValueError: as in `partition`, or if the topic does not have one partition per worker.
        """
        if len(all_partitions) != self._workers:
            self._refuse_other(len(all_partitions))
        return self.partition(key)

    def __repr__(self) -> str:
        return f"PlanPartitioner({self._workers} partitions, rare={self._rare!r})"

    def _hash(self, key: Key) -> int:
        if self._decode is not None and isinstance(key, bytes):
            key = self._decode(key)
        if key is None:
            return self._null
        if self._type == "bigint":
            if not isinstance(key, int | np.integer) or isinstance(key, bool):
                hint = ": pass decode to convert it to a number" if isinstance(key, bytes) else ""
                raise TypeError(f"key must be a whole number, like the plan's keys, got {key!r:.60}{hint}")
            if not -(2**63) <= key < 2**63:
                raise ValueError(f"key must be in -2^63..=2^63 - 1, got {key}")
            return plan_hash(int(key).to_bytes(8, "little", signed=True), self._null)
        return plan_hash(_bytes_of(key), self._null)

    def _default(self, key: Key) -> int:
        """Return where one of Kafka's own partitioners sends a key; any partition if there is no key."""
        if key is None or (self._rare == "crc32" and not key):
            return (next(self._numbers) >> 32) * self._workers >> 32
        if not isinstance(key, str | bytes):
            raise TypeError(
                f"key must be the bytes that are sent with rare={self._rare!r}, got {key!r:.60}: pass "
                "bytes, and decode=... to read the bytes"
            )
        sent = _bytes_of(key)
        return (crc32(sent) if self._rare == "crc32" else murmur2(sent) & 0x7FFFFFFF) % self._workers

    def _refuse_other(self, partitions: int) -> None:
        if isinstance(partitions, bool) or not isinstance(partitions, int):
            raise TypeError(f"partitions must be a whole number, got {partitions!r}")
        if partitions < 1:
            raise ValueError(f"partitions must be at least 1, got {partitions}")
        if partitions != self._workers:
            raise ValueError(
                f"partitions must be {self._workers}, the workers of the plan, got a topic with "
                f"{partitions}: plan.with_workers({partitions}) makes a plan that fits"
            )


def _json_of(plan: _Plan | str | os.PathLike[str]) -> str:
    if isinstance(plan, str) and plan.lstrip().startswith("{"):
        return plan
    if isinstance(plan, str | os.PathLike):
        return paths.read(plan)
    if not hasattr(plan, "to_json"):
        raise TypeError(f"plan must be a Plan, its JSON, or its path or URL, got {plan!r:.60}")
    return plan.to_json()


def _bytes_of(key: Any) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, bytes):
        raise TypeError(f"key must be a string or bytes, like the plan's keys, got {key!r:.60}")
    return key


def _numbers(seed: int) -> Iterator[int]:
    """Yield the hashes of 0, 1, 2 ..., each 0..=2^64 - 1; several threads may take hashes."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be a whole number, got {seed!r:.60}")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed must be in 0..=2^64 - 1, got {seed}")
    begin = seed_hash(seed)

    def hash_of(number: int) -> int:
        return plan_hash(number.to_bytes(8, "little"), begin)

    return map(hash_of, count())  # a generator would raise an error in a second thread


def seed_hash(seed: int) -> int:
    """Return the hash of the seed, where key hashes start and which is the hash of null, 0..=2^64 - 1.

    Args:
        seed: the seed of a plan's grouping, 0..=2^64 - 1.
    """
    return int(xxh64_intdigest(seed.to_bytes(8, "little"), _SPARK_SEED))


def plan_hash(key: bytes, begin: int) -> int:
    """Return a key's hash in plans, 0..=2^64 - 1.

    Args:
        key: the bytes that Spark hashes: for an integer, 8 bytes, little-endian; for a string, its UTF-8.
        begin: the hash of the seed.

    Source:
        docs/plans.md: Spark's `xxhash64` of the seed and the key. That is XXH64, where the hash of the
        previous values is the seed for the next value.
    """
    return int(xxh64_intdigest(key, begin))


def murmur2(key: bytes) -> int:
    """Return the hash that Kafka's default partitioner uses, 0..=2^32 - 1.

    Source:
        Austin Appleby's 32-bit MurmurHash2, with the seed 0x9747B28C that Kafka's clients share.
    """
    words, rest = divmod(len(key), 4)
    hash_ = 0x9747B28C ^ (len(key) & _LOW)
    for word in struct.unpack(f"<{words}I", key[: 4 * words]):
        word = word * 0x5BD1E995 & _LOW
        word = (word ^ word >> 24) * 0x5BD1E995 & _LOW
        hash_ = (hash_ * 0x5BD1E995 & _LOW) ^ word
    if rest:
        hash_ = (hash_ ^ int.from_bytes(key[4 * words :], "little")) * 0x5BD1E995 & _LOW
    hash_ = (hash_ ^ hash_ >> 13) * 0x5BD1E995 & _LOW
    return hash_ ^ hash_ >> 15
