"""Producers send their messages by a plan: rare keys where their buckets go, split keys in their shares."""

import json
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keysplit import DChoices
from keysplit.kafka import PlanPartitioner
from keysplit.kafka.partitioner import murmur2
from keysplit.plan import FrequentKey, Tables, bucket_bits, stored
from reference.plan_table import PlanTable

# What the Java client's own tests expect of its murmur2.
MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
SHARES = {"hot": ((0, 2, 3), (0.5, 0.3, 0.2)), "warm": ((1,), (1.0,))}


def hash_of(partitioner: PlanPartitioner, key: Any) -> int:
    return partitioner._hash(key)


def plan_text(kind: str = "string", keys: dict[Any, Any] | None = None, **changes: Any) -> str:
    """A plan for four workers as JSON; `keys` are frequent, each with workers and shares."""
    fields: dict[str, Any] = {
        "grouping": DChoices(workers=4, seed=7),
        "key": ("word",),
        "key_types": (kind,),
        "total": 100.0,
        "head": (),
        "tail": (np.arange(2 ** bucket_bits(4)) * 7 % 4).astype(np.uint32),
        "buckets": np.ones(2 ** bucket_bits(4)),
        "capacities": None,
        "row_id": None,
        "sample": None,
        "group_weight": 0.0,
        "order": None,
    } | changes
    probe = PlanPartitioner(stored.write({**fields, "key": ("word",), "key_types": (kind,), "head": ()}))
    head = tuple(
        FrequentKey((str(key),), int(np.uint64(hash_of(probe, key)).view(np.int64)), 1.0, 0.0, *cells)
        for key, cells in (keys or {}).items()
    )
    return stored.write({**fields, "head": head})


@pytest.fixture
def text() -> str:
    return plan_text(keys=SHARES)


def test_no_spark_is_imported() -> None:
    heavy = {"pyspark", "pandas", "pyarrow", "confluent_kafka"}
    code = f"import sys, keysplit.kafka; print(*{heavy} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_a_missing_package_is_named() -> None:
    code = "import sys; sys.modules['xxhash'] = None; import keysplit.kafka"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.endswith(
        "ImportError: keysplit.kafka needs xxhash: pip install '.[kafka]' in a clone of keysplit\n"
    )


@pytest.mark.parametrize(("key", "hash_"), MURMUR2.items())
def test_murmur2_is_that_of_kafka_s_clients(key: str, hash_: int) -> None:
    assert murmur2(key.encode()) == hash_ % 2**32


def test_rare_keys_go_to_the_worker_of_their_bucket(text: str) -> None:
    partitioner = PlanPartitioner(text)
    tail = stored.read(text)["tail"]
    for key in ("a", "b", "ä", "", None):
        partition = partitioner.partition(key)
        assert partition == tail[hash_of(partitioner, key) >> (64 - 12)]
        assert partition == partitioner.partition(key)


def test_split_keys_get_the_shares_of_the_plan(text: str) -> None:
    partitioner = PlanPartitioner(text, seed=3)
    found = Counter(partitioner.partition("hot") for _ in range(20_000))
    workers, shares = SHARES["hot"]
    assert set(found) == set(workers)
    # five standard deviations
    for worker, share in zip(workers, shares, strict=True):
        assert abs(found[worker] / 20_000 - share) < 5 * (share * (1 - share) / 20_000) ** 0.5
    assert {partitioner.partition("warm") for _ in range(100)} == {1}


KEYS = st.one_of(st.sampled_from(["hot", "warm", None]), st.text(max_size=3))
TEXT = plan_text(keys=SHARES)
TABLES = Tables.of(stored.read(TEXT)["head"], stored.read(TEXT)["tail"])
MODEL = PlanTable(*(getattr(TABLES, name).tolist() for name in PlanTable._fields))


@settings(max_examples=30)
@given(st.lists(KEYS, max_size=60), st.integers(0, 2**64 - 1), st.sampled_from(["plan", "murmur2", "crc32"]))
def test_one_by_one_equals_a_batch_and_the_rule(keys: list[str | None], seed: int, rare: Any) -> None:
    one, batch = (PlanPartitioner(TEXT, seed=seed, rare=rare) for _ in range(2))
    single = [one.partition(key) for key in keys]
    found = batch.route(iter(keys))
    assert found.dtype == np.uint32
    assert found.tolist() == single
    if rare == "plan":
        hashes, numbers = [hash_of(one, key) for key in keys], PlanPartitioner(TEXT, seed=seed)._numbers
        assert single == MODEL.route(hashes, [next(numbers) if key == "hot" else 0 for key in keys])


def test_rare_keys_by_murmur2_go_where_kafka_sends_them(text: str) -> None:
    partitioner = PlanPartitioner(text, rare="murmur2")
    for key, hash_ in MURMUR2.items():
        for form in (key, key.encode()):
            assert partitioner.partition(form) == (hash_ & 0x7FFFFFFF) % 4
    assert {partitioner.partition("hot") for _ in range(200)} == {0, 2, 3}
    assert {partitioner.partition("warm") for _ in range(20)} == {1}
    assert {partitioner.partition(None) for _ in range(200)} == {0, 1, 2, 3}


def test_rare_keys_by_crc32_go_where_librdkafka_sends_them(text: str) -> None:
    partitioner = PlanPartitioner(text, rare="crc32")
    # 0xCBF43926 is what the definition of CRC-32 gives for these digits
    assert [partitioner.partition(form) for form in ("123456789", b"123456789")] == [0xCBF43926 % 4] * 2
    for nothing in (None, "", b""):
        assert {partitioner.partition(nothing) for _ in range(200)} == {0, 1, 2, 3}
    assert {partitioner.partition("warm") for _ in range(20)} == {1}


def test_clients_that_take_a_function(text: str) -> None:
    partitioner, same = PlanPartitioner(text), PlanPartitioner(text)
    for key in (b"a", b"hot", b"warm", None, b"hot"):
        assert partitioner(key, [2, 0, 3, 1], [0]) == same.partition(key)
    with pytest.raises(
        ValueError, match=r"^partitions must be 4, the workers of the plan, got a topic with 5"
    ):
        partitioner(b"a", range(5), range(5))


def test_numbers_are_decoded() -> None:
    text = plan_text("bigint", {12: ((3,), (1.0,))})
    partitioner = PlanPartitioner(text, decode=int)
    assert [partitioner(b"12", range(4)), partitioner.partition(12), partitioner.partition(np.int32(12))] == [
        3
    ] * 3
    both = PlanPartitioner(text, decode=int, rare="murmur2")
    assert both(b"21", range(4)) == (MURMUR2["21"] & 0x7FFFFFFF) % 4
    assert both(b"12", range(4)) == 3
    with pytest.raises(TypeError, match=r"^key must be the bytes that are sent with rare='murmur2', got 21"):
        both.partition(21)


def test_a_plan_is_read_from_wherever_it_is(text: str, tmp_path: Path) -> None:
    class Plan:
        def to_json(self) -> str:
            return text

    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    keys = ["a", "b", "hot", "hot", None]
    found = [
        PlanPartitioner(each).route(keys).tolist() for each in (text, path, str(path), path.as_uri(), Plan())
    ]
    assert found == [found[0]] * 5
    assert PlanPartitioner(text, partitions=4).workers == 4


def test_threads_share_a_partitioner(text: str) -> None:
    partitioner = PlanPartitioner(text)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: partitioner.route(["hot"] * 500).tolist(), range(8))
    mixed = Counter(worker for some in found for worker in some)
    assert mixed == Counter(PlanPartitioner(text).route(["hot"] * 4000).tolist())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"plan": 3}, TypeError, "plan must be a Plan, its JSON, or its path or URL, got 3"),
        ({"plan": "{}"}, ValueError, "text must be a plan that keysplit wrote, got '{}'"),
        ({"rare": "java"}, ValueError, "rare must be 'plan', 'murmur2' or 'crc32', got 'java'"),
        ({"seed": -1}, ValueError, "seed must be in 0..=2^64 - 1, got -1"),
        ({"seed": "1"}, TypeError, "seed must be a whole number, got '1'"),
        ({"decode": 3}, TypeError, "decode must be a function of bytes, got 3"),
        ({"partitions": "4"}, TypeError, "partitions must be a whole number, got '4'"),
        ({"partitions": 0}, ValueError, "partitions must be at least 1, got 0"),
        (
            {"partitions": 8},
            ValueError,
            "partitions must be 4, the workers of the plan, got a topic with 8: ",
        ),
        (
            {"types": ("date",)},
            ValueError,
            "plan must have keys of one of the types bigint, binary, string, got 'word' of type date",
        ),
        (
            {"types": ("string", "bigint")},
            ValueError,
            "plan must have one key column, since a message has one key, got ['word', 'day']",
        ),
    ],
)
def test_wrong_arguments_are_named(
    text: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    plan: Any = text
    if types := arguments.pop("types", None):
        plan = json.dumps({**json.loads(text), "key": ["word", "day"][: len(types)], "key_types": types})
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        PlanPartitioner(**{"plan": plan, **arguments})


@pytest.mark.parametrize(
    ("kind", "key", "error", "message"),
    [
        ("string", 3, TypeError, "key must be a string or bytes, like the plan's keys, got 3"),
        (
            "binary",
            bytearray(b"a"),
            TypeError,
            "key must be a string or bytes, like the plan's keys, got b",
        ),
        ("bigint", "3", TypeError, "key must be a whole number, like the plan's keys, got '3'"),
        ("bigint", True, TypeError, "key must be a whole number, like the plan's keys, got True"),
        (
            "bigint",
            b"3",
            TypeError,
            "key must be a whole number, like the plan's keys, got b'3': pass decode",
        ),
        ("bigint", 2**63, ValueError, "key must be in -2^63..=2^63 - 1, got 9223372036854775808"),
    ],
)
def test_wrong_keys_are_named(kind: str, key: Any, error: type[Exception], message: str) -> None:
    partitioner = PlanPartitioner(plan_text(kind))
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        partitioner.partition(key)
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        partitioner.route([key])


class Group:
    """A consumer group whose coordinator answers with errors first."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def committed(self, places: list[Any], _: float) -> list[Any]:
        confluent_kafka = pytest.importorskip("confluent_kafka")
        if self.codes:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(self.codes.pop(0)))
        places[0].offset = 7
        return places


def test_a_group_whose_coordinator_moves_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    from keysplit.kafka import once

    monkeypatch.setattr(once, "_BETWEEN_S", 0.0)
    place = confluent_kafka.TopicPartition("topic", 0)
    group = Group(14, 15, 16)
    assert [each.offset for each in once._committed(group, [place], {})] == [7]
    assert group.codes == []
    with pytest.raises(confluent_kafka.KafkaException):
        once._committed(Group(29), [place], {})
