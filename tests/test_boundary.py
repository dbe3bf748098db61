"""The border between Python and Rust: threads, the interpreter lock, pickles, errors half-way."""

import copy
import datetime
import doctest
import itertools
import pickle
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks
from keysplit import _core

# More keys than are hashed at a time.
LONG = 150_000


def together(*tasks: Callable[[], None]) -> None:
    """Run the tasks at the same time; fail if one fails or they wait for each other for ever."""
    failures: list[BaseException] = []
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        start.wait()
        try:
            task()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "the threads wait for each other"
    assert failures == []


# Threads


def test_threads_share_a_router() -> None:
    router = ks.ShuffleGrouping(workers=7).router()
    numbers = np.arange(LONG)
    columns = [
        numbers,
        pa.array(numbers),
        pa.chunked_array([numbers[:100_000], numbers[100_000:]]),
        [1, "a"] * 500,
    ]
    rounds = 20

    def route(keys: Any) -> Callable[[], None]:
        def task() -> None:
            for _ in range(rounds):
                turns = router.route(keys).astype(np.int64)
                # Turns follow each other only if no other call came between the blocks of this one.
                assert ((np.diff(turns) - 1) % 7 == 0).all()

        return task

    def look() -> None:
        for _ in range(rounds):
            assert router.loads.sum() % 10 == 0
            assert len(router.candidates("a")) == 1
            assert len(router.snapshot()) > 0
            assert "shuffle" in repr(router)

    together(*map(route, columns), *map(route, columns), look)
    assert router.loads.sum() == 2 * rounds * sum(map(len, columns))


def test_threads_share_a_sketch() -> None:
    sketch, other = ks.SpaceSaving(50), ks.SpaceSaving(50)
    keys = np.arange(LONG) % 1000

    def update(column: Any) -> Callable[[], None]:
        def task() -> None:
            for _ in range(5):
                sketch.update(column)

        return task

    def merge(into: ks.SpaceSaving, what: ks.SpaceSaving) -> Callable[[], None]:
        def task() -> None:
            for _ in range(5):
                into.merge(what)

        return task

    def look() -> None:
        for _ in range(20):
            assert all(sketch.estimate(key)[0] >= 1 for key, _, _ in sketch.top(3))
            assert sketch.total % LONG == 0

    together(update(keys), update(pa.array(keys)), look, look)
    assert sketch.total == 10 * LONG
    other.update(keys)
    together(merge(sketch, other), merge(other, sketch), merge(sketch, other), merge(other, sketch))
    assert sketch.total > 10 * LONG
    assert other.total > LONG


@pytest.mark.parametrize("arrow", [False, True])
def test_the_interpreter_is_free_while_a_router_routes(arrow: bool) -> None:
    router = ks.DChoices(workers=50).router()
    keys: Any = np.arange(1_000_000) % 5000
    keys = pa.array(keys) if arrow else keys
    go, went = threading.Event(), []

    def other() -> None:
        go.wait()
        went.append(True)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10_000)  # the other thread runs only when this one lets go of the interpreter
    try:
        go.set()
        for _ in range(200):
            router.route(keys)
            if went:
                break
        assert went
    finally:
        sys.setswitchinterval(interval)
    thread.join()


# Pickles and bytes


@pytest.mark.parametrize("name", list(ks.GROUPINGS))
def test_a_pickled_router_continues(name: str) -> None:
    router = ks.grouping(name, workers=10, seed=3).router(source=2)
    keys = np.arange(3000) ** 2 % 97
    router.route(keys[:1000], now=5.0)
    for twin in (pickle.loads(pickle.dumps(router)), copy.deepcopy(router)):
        assert (twin.grouping, twin.source, twin.workers) == (name, 2, 10)
        assert repr(twin) == repr(router)
        assert twin.loads.tolist() == router.loads.tolist()
        with pytest.raises(ValueError, match=r"now must be in 5\.0\.\.=1000000000000\.0, got 4\.0"):
            twin.route([1], now=4.0)
        fresh = pickle.loads(pickle.dumps(router))
        assert twin.route(keys[1000:]).tolist() == fresh.route(keys[1000:]).tolist()
        assert twin.snapshot() == fresh.snapshot()
        assert twin.snapshot() != router.snapshot()


KEPT = [
    0,
    -(2**63),
    2**64 - 1,
    "żółć",
    "",
    b"\0\xff",
    None,
    datetime.datetime(2024, 2, 29, 12, 30, 15, 123456),
    datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
    datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31),
    Decimal("1.50"),
    Decimal("-1E-400"),
    Decimal(-(2**255)),
    np.datetime64("2024-02-29T00:00:00.123456789"),
    np.datetime64(2**40, "s"),
    np.datetime64(2**30, "D"),
]


def test_keys_come_back_as_they_went_in() -> None:
    sketch = ks.SpaceSaving(100)
    sketch.update([key for key in KEPT for _ in range(2)])
    for twin in (sketch, pickle.loads(pickle.dumps(sketch)), copy.deepcopy(sketch)):
        assert [key for key, _, _ in twin.top(100)] == KEPT
        assert [type(key) for key, _, _ in twin.top(100)] == list(map(type, KEPT))
        assert all(twin.estimate(key) == (2, 0) for key in KEPT)
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    sketch = ks.SpaceSaving(5)
    sketch.update([True, moment, Decimal("5.0")])
    assert [key for key, _, _ in sketch.top(3)] == [True, moment, 5]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**40], pa.timestamp("s")),
        pa.array([1], pa.timestamp("ns", tz="UTC")),
        pa.array([-1], pa.timestamp("ns")),
        pa.array([2**30], pa.date32()),
        pa.array([-1], pa.date64()),
        pa.array([Decimal("-7.25")], pa.decimal256(60, 30)),
        pa.array([Decimal("7.25")], pa.decimal32(5, 2)),
        pa.array([Decimal("100")], pa.decimal64(5, 2)),
        pa.array([Decimal("1.5")], pa.decimal128(5, 2)).dictionary_encode(),
        pa.array(["x" * 20]).cast(pa.string_view()),
        np.array(["1969-12-31"], "M8[h]"),
        np.array(["1969-12"], "M8[M]"),
        np.array([b"a\0b"]),
    ],
)
def test_a_key_that_comes_back_finds_its_counter(column: Any) -> None:
    sketch = ks.SpaceSaving(5)
    sketch.update(column)
    [(key, count, error)] = sketch.top(5)
    assert (count, error) == sketch.estimate(key) == (1, 0)
    assert ks.hash_keys([key]) == ks.hash_keys(column)
    assert ks.SpaceSaving.from_bytes(sketch.to_bytes()).top(5) == [(key, 1, 0)]


def test_damaged_bytes_are_refused() -> None:
    sketch = ks.SpaceSaving(5)
    sketch.update(["a", 7, None, Decimal("1.5")])
    data = sketch.to_bytes()
    damaged = [data[:end] for end in range(len(data))] + [data + b"\0"]
    damaged += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    for bad in damaged:
        with pytest.raises(ValueError, match="damaged or not a sketch"):
            ks.SpaceSaving.from_bytes(bad)
    with pytest.raises(ValueError, match="damaged or not a sketch"):
        ks.SpaceSaving.from_bytes(ks.KeyGrouping(workers=2).router().snapshot())


# Errors leave nothing half done


class Zone(datetime.tzinfo):
    """A user's own time zone, which fails."""

    def utcoffset(self, _: Any) -> datetime.timedelta:
        raise LookupError("no such zone")


class Column:
    """A user's own column, which fails."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        raise LookupError("no such column")


class Stream:
    """A user's own stream, which fails."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise LookupError("no such stream")


class Nonsense:
    """A column that does not speak Arrow."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.answer


def spent() -> Nonsense:
    """A column whose array somebody else has taken already."""
    column = Nonsense(pa.array([1]).__arrow_c_array__())
    ks.hash_keys(column)
    return column


def offsets(*values: int) -> pa.Buffer:
    return pa.py_buffer(np.array(values, np.int32).tobytes())


def view(length: int, buffer: int, offset: int) -> pa.Buffer:
    return pa.py_buffer(np.array([length, 0, buffer, offset], np.int32).tobytes())


GOOD = list(range(LONG))
BAD_KEYS: list[tuple[Any, type[Exception], str]] = [
    ([*GOOD, 1.5], TypeError, r"keys must not be floats, got 1\.5"),
    ([*GOOD, object()], TypeError, "got object"),
    ([*GOOD, 2**64], ValueError, r"keys must be in -2\*\*63\.\.=2\*\*64-1"),
    ([*GOOD, 10**5000], ValueError, "got an integer of 16610 bits"),
    ([*GOOD, "a\ud800"], ValueError, "without lone surrogates"),
    ([*GOOD, Decimal("nan")], ValueError, "decimals and finite"),
    ([*GOOD, Decimal(2**255)], ValueError, "256 bits"),
    ([*GOOD, datetime.datetime(2024, 1, 1, tzinfo=Zone())], LookupError, "no such zone"),
    (np.array([*["a"] * 1000, "\udfff"]), ValueError, "code point 0xdfff at position 1000"),
    (np.array([1, 2**62], "M8[h]"), ValueError, r"got 4611686018427387904 in datetime64\[h\]"),
    (Column(), LookupError, "no such column"),
    (Stream(), LookupError, "no such stream"),
    (Nonsense(5), TypeError, "__arrow_c_array__ that returns a tuple of two capsules, got int"),
    (Nonsense((1, 2)), TypeError, "__arrow_c_array__ that returns a tuple of two capsules, got tuple"),
    (spent(), ValueError, "already released"),
    (
        pa.chunked_array(
            [
                pa.array(["a"] * LONG),
                pa.Array.from_buffers(pa.string(), 2, [None, offsets(0, 50, 3), pa.py_buffer(b"abc")]),
            ]
        ),
        ValueError,
        "well-formed Arrow",
    ),
    (
        pa.Array.from_buffers(pa.string_view(), 1, [None, view(20, 3, 0), pa.py_buffer(b"x" * 30)]),
        ValueError,
        "a view points outside its buffers",
    ),
    (
        pa.Array.from_buffers(pa.string_view(), 1, [None, view(20, 0, 15), pa.py_buffer(b"x" * 30)]),
        ValueError,
        "a view points outside its buffers",
    ),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int8()), pa.array(["a"]), safe=False),
        ValueError,
        "well-formed Arrow",
    ),
]


@pytest.mark.parametrize(("keys", "error", "match"), BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_bad_keys_change_nothing(keys: Any, error: type[Exception], match: str) -> None:
    router, sketch = ks.DChoices(workers=5).router(), ks.SpaceSaving(5)
    router.route(GOOD)
    sketch.update(GOOD)
    before = router.snapshot(), sketch.to_bytes()
    for call in (router.route, sketch.update, lambda keys: router.route(keys, now=1.0)):
        with pytest.raises(error, match=match) as caught:
            call(keys)
        assert "\n" not in str(caught.value)
    assert (router.snapshot(), sketch.to_bytes()) == before


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        ([1.0] * (LONG - 1), ValueError, "weights must be one per key, 150000 in all, got 149999"),
        ([1.0] * (LONG - 1) + [-1.0], ValueError, r"got -1\.0 at position 149999"),
        (np.r_[np.ones(LONG - 1), np.nan], ValueError, "got nan at position 149999"),
        (pa.array([1.0] * (LONG - 1) + [np.inf]), ValueError, "got inf at position 149999"),
        ([1.0] * (LONG - 1) + [10**400], ValueError, "got inf at position 149999"),
        (pa.array([1] * (LONG - 1) + [None]), ValueError, "weights must not be null, got 1 nulls"),
        ([1.0] * (LONG - 1) + ["1"], TypeError, "weights must be numbers, got str"),
        (np.array(["1"] * LONG), TypeError, "weights must be numbers, got an array of <U1"),
        (pa.array(["1"] * LONG), TypeError, "weights must be numbers, got a column of Utf8"),
        ("1" * LONG, TypeError, "got str where a sequence is needed"),
        (1.0, TypeError, "got float where a sequence is needed"),
        (np.ones((LONG, 1)), TypeError, "weights must have one dimension, got 2"),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("column", [np.array, pa.array, list])
def test_bad_weights_change_nothing(
    column: Callable[[Any], Any], weights: Any, error: type[Exception], match: str
) -> None:
    router, sketch = ks.PartialKeyGrouping(workers=5).router(), ks.SpaceSaving(5)
    before = router.snapshot(), sketch.to_bytes()
    with pytest.raises(error, match=match):
        router.route(column(GOOD), weights=weights)
    with pytest.raises(error, match=match):
        sketch.update(column(GOOD), weights)
    assert (router.snapshot(), sketch.to_bytes()) == before


def test_bad_times_change_nothing() -> None:
    router = ks.KeyGrouping(workers=5).router()
    router.observe(now=3)
    before = router.snapshot()
    for now in (2.5, float("nan"), float("inf"), 1.7e12, 10**400):
        for keys in (np.array(GOOD), GOOD, []):
            with pytest.raises(ValueError, match=r"now must be in 3\.0\.\.=1000000000000\.0, got"):
                router.route(keys, now=now)
        with pytest.raises(ValueError, match=r"now must be in 3\.0\.\.=1000000000000\.0, got"):
            router.observe(now=now)
    assert router.snapshot() == before
    assert router.route([], now=4.0).dtype == np.uint32
    with pytest.raises(ValueError, match=r"in 4\.0\.\.="):
        router.route([1], now=3.0)


@pytest.mark.parametrize(
    ("feedback", "error", "match"),
    [
        ({"busy": [5]}, ValueError, r"busy must be in 0\.\.=4, got 5"),
        ({"idle": np.array([-1])}, ValueError, r"idle must be in 0\.\.=4, got -1"),
        ({"busy": [1.0]}, TypeError, "busy must be integers, got float"),
        ({"busy": [True]}, TypeError, "busy must be integers, got bool"),
        ({"busy": 1}, TypeError, "busy must be integers, got int where a sequence is needed"),
        ({"service_time_s": -0.5}, ValueError, r"service_time_s must be in 1e-12\.\.=1e12, got -0\.5"),
        ({"service_time_s": [0.5] * 3}, ValueError, "one per worker, 5 in all, got 3"),
        ({"service_time_s": "fast"}, TypeError, "service_time_s must be numbers, got str"),
    ],
)
def test_bad_feedback_changes_nothing(feedback: Any, error: type[Exception], match: str) -> None:
    router = ks.KeyGrouping(workers=5).router()
    before = router.snapshot()
    with pytest.raises(error, match=match):
        router.observe(now=1.0, **feedback)
    assert router.snapshot() == before
    router.observe(now=1.0, busy=[0, 4], idle=np.array([1]), service_time_s=[0.5] * 5)
    router.observe(busy=pa.array([2]), service_time_s=0.25)


# A mixed bag


def test_blocks_are_cut_without_a_seam() -> None:
    keys = np.arange(LONG) * 7919 % 10_007
    weights = np.arange(LONG) % 5
    for given in (None, weights):
        whole = ks.WChoices(workers=9).router()
        expected = whole.route(keys, weights=given)
        for column in (
            pa.array(keys),
            pa.chunked_array([keys[:1], keys[1:70_000], [], keys[70_000:]]),
            keys.tolist(),
        ):
            assert (ks.WChoices(workers=9).router().route(column, weights=given) == expected).all()
        parts = ks.WChoices(workers=9).router()
        cuts = [0, 1, 65_536, 65_537, 140_000, LONG]
        pieces = [
            parts.route(keys[a:b], weights=None if given is None else given[a:b])
            for a, b in itertools.pairwise(cuts)
        ]
        assert (np.concatenate(pieces) == expected).all()
        assert parts.snapshot() == whole.snapshot()


def test_results_own_their_memory() -> None:
    router = ks.KeyGrouping(workers=5).router()
    first, loads = router.route([1, 2, 3]), router.loads
    router.route([1, 2, 3])
    assert loads.sum() == 3
    first[:] = 9
    loads[:] = 9
    assert router.loads.sum() == 6


@pytest.mark.parametrize(
    "member", [_core.hash_keys, _core.solve_choices, _core.PlanTable, _core.Router, _core.SpaceSaving]
)
def test_examples_of_the_extension(member: Any) -> None:
    tests = doctest.DocTestFinder(exclude_empty=True).find(member, member.__name__, globs={})
    assert tests
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
