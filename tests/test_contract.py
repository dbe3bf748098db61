"""Every registered grouping keeps the contract that all share."""

import math
import pickle
import threading
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks

NAMES = sorted(ks.GROUPINGS)
FIXED = [name for name in NAMES if not ks.GROUPINGS[name].elastic]

rng = np.random.default_rng(2)
KEYS = (rng.zipf(1.5, size=5000) % 500).astype(np.int64)

TOO_SMALL = [0, -1, -(2**70)]


def whole_numbers(most: int, least: int = 1) -> list[tuple[Any, type[Exception]]]:
    """What a parameter that is a whole number from `least` to `most` must refuse."""
    return [
        *[(value, ValueError) for value in [least - 1, -1, most + 1, 2**70, -(2**70)]],
        *[(value, TypeError) for value in ["10", 1.5, None]],
    ]


def numbers(*wrong: float) -> list[tuple[Any, type[Exception]]]:
    """What a parameter that is a number must refuse, beside the wrong ones."""
    return [
        *[(value, ValueError) for value in [*wrong, math.nan, math.inf, -math.inf]],
        *[(value, TypeError) for value in ["0.1", None, [0.1]]],
    ]


INTERVALS = numbers(0, -1.0, 9e-7, 1.01e12)
DELAYS = numbers(-1e-9, 1.01e12)
REFUSED: dict[str, list[tuple[Any, type[Exception]]]] = {
    "workers": [
        *[(value, ValueError) for value in [*TOO_SMALL, 65_537, 2**32 + 1, 2**70]],
        *[(value, TypeError) for value in ["10", 1.5, 10.0, None, [10], True]],
    ],
    "seed": [
        *[(value, ValueError) for value in [-1, 2**64]],
        *[(value, TypeError) for value in ["1", 0.5, None]],
    ],
    "threshold": [
        *[(value, ValueError) for value in [0, 0.0, -0.1, 2, 1.0001, math.nan, math.inf, -math.inf]],
        *[(value, TypeError) for value in ["0.1", [0.1]]],
    ],
    "tolerance": [
        *[(value, ValueError) for value in [0, -1e-9, 1.5, math.nan, math.inf]],
        *[(value, TypeError) for value in ["0.1", None]],
    ],
    "sketch_capacity": [
        *[(value, ValueError) for value in [*TOO_SMALL, 2**70]],
        *[(value, TypeError) for value in ["10", 1.5]],
    ],
    "choices": [
        *[(value, ValueError) for value in [*TOO_SMALL, 2**70]],
        *[(value, TypeError) for value in ["2", 1.5, None]],
    ],
    "distinct": [(value, TypeError) for value in ["yes", 2.0, None]],
    "buckets": [(value, exception) for value, exception in whole_numbers(2**26) if value is not None],
    "check_interval_s": DELAYS,
    "clean_interval_s": INTERVALS,
    "coins": whole_numbers(32, least=0),
    "decay": numbers(-0.1, 1.01),
    "deviations": numbers(-0.1, 1000.1),
    "epoch_messages": whole_numbers(2**32),
    "epsilon": numbers(0, -0.01, 1000.1),
    "expected_keys": whole_numbers(2**28),
    "exploration": numbers(-0.1, 1.01),
    "filter_counters": whole_numbers(2**28),
    "growth": numbers(0, 1, 1.0, 1.01e6),
    "interval_messages": whole_numbers(2**28),
    "interval_s": INTERVALS,
    "learning_messages": whole_numbers(2**53),
    "learning_rate": numbers(0, -0.1, 1.01),
    "max_split": whole_numbers(65_536),
    "messages_per_s": INTERVALS,
    "most_coins": whole_numbers(60, least=6),  # no less than coins
    "old_interval_s": INTERVALS,
    "segment_messages": whole_numbers(2**32),
    "slot_s": INTERVALS,
    "table_keys": whole_numbers(2**28),
    "teenage_interval_s": INTERVALS,
    "virtual_nodes": whole_numbers(2**26 // 10),
    "virtual_workers": whole_numbers(2**26 // 10),
    "warm_up_s": DELAYS,
}
# Where groupings differ in the range of a parameter of the same name.
REFUSED_BY: dict[tuple[str, str], list[tuple[Any, type[Exception]]]] = {
    ("distribution_aware", "threshold"): [(2.0**-28, ValueError)],
    ("fish", "sketch_capacity"): [(None, TypeError)],
    ("pstream", "decay"): [(0.0, ValueError), (9e-10, ValueError)],
}


def new(name: str, workers: int = 10, source: int = 0, **params: Any) -> ks.Router:
    return ks.grouping(name, workers=workers, **params).router(source=source)


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    message = str(error.value)
    assert message
    assert "\n" not in message
    return message


def same_number(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


# Parameters


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_frozen_values(name: str) -> None:
    grouping = ks.GROUPINGS[name]
    assert is_dataclass(grouping)
    params = grouping(workers=10)
    assert params == ks.grouping(name, workers=10) == grouping(workers=10, seed=0)
    assert hash(params) == hash(grouping(workers=10))
    assert params != grouping(workers=11)
    assert params != grouping(workers=10, seed=1)
    assert len({params, grouping(workers=10), grouping(workers=10, seed=1)}) == 2
    with pytest.raises(FrozenInstanceError):
        params.workers = 11
    with pytest.raises(TypeError):
        grouping(10)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_print_and_travel(name: str) -> None:
    params = ks.grouping(name, workers=7, seed=2**64 - 1)
    assert eval(repr(params), vars(ks)) == params
    assert pickle.loads(pickle.dumps(params)) == params
    assert type(params)(**asdict(params)) == params
    copy = pickle.loads(pickle.dumps(params))
    np.testing.assert_array_equal(copy.router().route(KEYS), params.router().route(KEYS))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_travel_by_cloudpickle(name: str) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    params = ks.grouping(name, workers=7, seed=3)
    assert cloudpickle.loads(cloudpickle.dumps(params)) == params


@pytest.mark.parametrize("name", NAMES)
def test_integers_of_numpy_are_integers(name: str) -> None:
    params = ks.grouping(name, workers=np.uint16(7), seed=np.int64(3))
    assert params == ks.grouping(name, workers=7, seed=3)
    assert repr(params) == repr(ks.grouping(name, workers=7, seed=3))


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_public_names(name: str) -> None:
    grouping = ks.GROUPINGS[name]
    assert getattr(ks, grouping.__name__) is grouping
    assert grouping.__name__ in ks.__all__
    assert grouping.__doc__


def test_names_differ_in_hash_and_equality() -> None:
    assert len({ks.grouping(name, workers=10) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "argument", "value", "exception"),
    [
        (name, field.name, value, exception)
        for name in NAMES
        for field in fields(ks.GROUPINGS[name])
        for value, exception in REFUSED.get(field.name, []) + REFUSED_BY.get((name, field.name), [])
    ],
)
def test_wrong_parameters_are_named(name: str, argument: str, value: Any, exception: type[Exception]) -> None:
    with pytest.raises(exception) as error:
        ks.grouping(name, **{"workers": 10, argument: value})
    assert type(error.value) is exception
    message = one_line(error)
    assert message.startswith(f"{argument} must be ")
    # Rust prints numbers with a fraction, nan and inf its own way.
    got = message.rpartition(", got ")[2]
    assert got == repr(value) or (isinstance(value, float | int) and same_number(float(got), float(value)))


@pytest.mark.parametrize("name", NAMES)
def test_workers_error_to_the_letter(name: str) -> None:
    with pytest.raises(ValueError, match=r"^workers must be in 1\.\.=65536, got 0$"):
        ks.grouping(name, workers=0)


@pytest.mark.parametrize("name", NAMES)
def test_workers_are_required_and_other_names_refused(name: str) -> None:
    with pytest.raises(TypeError, match="workers"):
        ks.grouping(name)
    with pytest.raises(TypeError, match="colour"):
        ks.grouping(name, workers=10, colour="red")


def test_unknown_grouping_lists_the_right_names() -> None:
    with pytest.raises(ValueError, match="d_choice") as error:
        ks.grouping("d_choice", workers=10)
    message = one_line(error)
    assert all(name in message for name in NAMES)


@pytest.mark.parametrize("value", [-1, 2**32, 2**64, 1.5, "0", None])
@pytest.mark.parametrize("name", NAMES)
def test_wrong_source_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError if isinstance(value, int) else TypeError) as error:
        ks.grouping(name, workers=10).router(source=value)
    assert "source" in one_line(error)


# Routing


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_an_array_of_workers(name: str) -> None:
    router = new(name, workers=13)
    answer = router.route(KEYS)
    assert isinstance(answer, np.ndarray)
    assert answer.dtype == np.uint32
    assert answer.shape == KEYS.shape
    assert answer.max() < 13
    assert len(np.unique(answer)) == 13
    assert router.workers == 13


@pytest.mark.parametrize("name", NAMES)
def test_loads_count_what_was_sent(name: str) -> None:
    router = new(name, workers=13)
    assert router.loads.tolist() == [0.0] * 13
    answer = router.route(KEYS)
    assert router.loads.dtype == np.float64
    assert router.loads.shape == (13,)
    np.testing.assert_array_equal(router.loads, np.bincount(answer, minlength=13))
    assert router.loads.sum() == len(KEYS)
    router.loads[:] = 0
    assert router.loads.sum() == len(KEYS)


@pytest.mark.parametrize("name", NAMES)
def test_loads_count_weights(name: str) -> None:
    router = new(name, workers=13)
    weights = np.arange(len(KEYS)) % 7 / 4
    answer = router.route(KEYS, weights=weights)
    np.testing.assert_array_equal(router.loads, np.bincount(answer, weights, minlength=13))


@pytest.mark.parametrize("name", NAMES)
def test_weights_come_in_any_numbers(name: str) -> None:
    weights = np.arange(len(KEYS)) % 5
    expected = new(name).route(KEYS, weights=weights.astype(np.float64))
    for given in [
        weights.tolist(),
        tuple(weights.tolist()),
        weights,
        weights.astype(np.float32),
        pa.array(weights),
    ]:
        np.testing.assert_array_equal(new(name).route(KEYS, weights=given), expected)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_and_source_same_answer(name: str) -> None:
    for seed, source in [(0, 0), (5, 0), (5, 3), (2**64 - 1, 2**32 - 1)]:
        first = new(name, seed=seed, source=source).route(KEYS)
        np.testing.assert_array_equal(new(name, seed=seed, source=source).route(KEYS), first)


@pytest.mark.parametrize("name", NAMES)
def test_seed_changes_the_answer(name: str) -> None:
    answers = {new(name, workers=100, seed=seed).route(KEYS).tobytes() for seed in range(8)}
    assert len(answers) == 8


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nothing", [[], (), np.array([], dtype=np.int64), pa.array([], pa.string())])
def test_no_keys(name: str, nothing: Any) -> None:
    router = new(name)
    before = router.snapshot()
    for weights in [None, []]:
        answer = router.route(nothing, weights=weights)
        assert answer.dtype == np.uint32
        assert answer.shape == (0,)
    assert router.snapshot() == before


@pytest.mark.parametrize("name", NAMES)
def test_one_worker_takes_all(name: str) -> None:
    router = new(name, workers=1)
    assert not router.route(KEYS).any()
    assert router.loads.tolist() == [len(KEYS)]
    assert router.candidates(3).tolist() == [0]


@pytest.mark.parametrize("name", NAMES)
def test_most_workers(name: str) -> None:
    router = new(name, workers=65_536)
    many = np.arange(100_000)
    answer = router.route(many, now=0.0)  # all at once: none is done before the last one comes
    assert answer.max() < 65_536
    assert answer.max() > 60_000
    assert router.loads.shape == (65_536,)
    assert router.loads.sum() == len(many)


@pytest.mark.parametrize("name", NAMES)
def test_cuts_change_nothing(name: str) -> None:
    """Anywhere, or at the ends of segments where a grouping routes by segments."""
    params: dict[str, Any] = {}
    if "segment_messages" in {field.name for field in fields(ks.GROUPINGS[name])}:
        params["segment_messages"] = 50
    segment = params.get("segment_messages", 1)
    expected = new(name, **params).route(KEYS)
    router = new(name, **params)
    cuts = [cut - cut % segment for cut in [0, 1, 2, 66, 1000, 1000, 4097]]
    pieces = [router.route(piece) for piece in np.split(KEYS, cuts)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)


@pytest.mark.parametrize("name", NAMES)
def test_candidates_hold_the_next_worker(name: str) -> None:
    router = new(name, workers=20)
    for key in KEYS[:500].tolist():
        candidates = router.candidates(key)
        assert candidates.dtype == np.uint32
        assert len(np.unique(candidates)) == len(candidates)
        assert router.route([key])[0] in candidates


@pytest.mark.parametrize("name", NAMES)
def test_asking_changes_nothing(name: str) -> None:
    router = new(name)
    router.route(KEYS)
    before = router.snapshot()
    for key in [1, "a", b"a", None, 10**15]:
        router.candidates(key)
    assert router.loads.sum() == len(KEYS)
    assert router.snapshot() == before


@pytest.mark.parametrize("name", NAMES)
def test_two_threads_share_a_router(name: str) -> None:
    router = new(name)
    answers: list[np.ndarray] = []

    def work() -> None:
        for _ in range(100):
            answers.append(router.route(KEYS))
            router.loads  # noqa: B018 - reading while another thread routes

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 200
    assert router.loads.sum() == 200 * len(KEYS)
    np.testing.assert_array_equal(router.loads, np.bincount(np.concatenate(answers), minlength=10))


# What is refused changes nothing


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("keys", "weights", "exception", "word"),
    [
        ([1, 2, 3], [1.0, 1.0], ValueError, "weights"),
        ([1, 2], [1.0, 1.0, 1.0], ValueError, "weights"),
        ([1, 2], [], ValueError, "weights"),
        ([1, 2], [1.0, -1.0], ValueError, "weights"),
        ([1, 2], [1.0, math.nan], ValueError, "weights"),
        ([1, 2], [1.0, math.inf], ValueError, "weights"),
        ([1, 2], np.ones((2, 1)), (TypeError, ValueError), "weights"),
        ([1, 2], ["a", "b"], TypeError, "weights"),
        ([1, 2], 1.0, TypeError, "weights"),
        ([1, 2.5], None, TypeError, "float"),
        (np.array([1.0, 2.0]), None, TypeError, "float"),
        ("abc", None, TypeError, "key"),
        (5, None, TypeError, "key"),
    ],
)
def test_wrong_input_changes_nothing(
    name: str, keys: Any, weights: Any, exception: type[Exception], word: str
) -> None:
    router = new(name)
    router.route(KEYS)
    before = router.snapshot()
    with pytest.raises(exception) as error:
        router.route(keys, weights=weights)
    assert word in one_line(error)
    assert router.snapshot() == before


@pytest.mark.parametrize("name", NAMES)
def test_time_never_decreases(name: str) -> None:
    router = new(name)
    router.route([1], now=5.0)
    router.route([1], now=5.0)
    router.observe(now=6.0)
    for later in [router.route, lambda keys, now: router.observe(now=now)]:
        with pytest.raises(ValueError, match="now") as error:
            later([1], now=5.5)
        one_line(error)
    for wrong in [math.nan, math.inf]:
        with pytest.raises(ValueError, match="now"):
            router.route([1], now=wrong)
    router.route([1], now=6.0)
    assert router.loads.sum() == 3


@pytest.mark.parametrize("name", NAMES)
def test_feedback_is_checked(name: str) -> None:
    router = new(name)
    router.observe(now=1.0, busy=[0, 9], idle=[1], service_time_s=0.5, loads=[0.0] * 10)
    router.observe(service_time_s=np.ones(10), loads=range(10))
    router.observe()
    before = router.snapshot()
    for wrong in [
        {"busy": [10]},
        {"idle": [10]},
        {"now": math.nan},
        *[{"service_time_s": value} for value in [0.0, -1.0, math.nan, math.inf, [1.0] * 9, [0.0] * 10]],
        *[{"loads": value} for value in [[1.0] * 9, [-1.0] * 10, [math.nan] * 10, [math.inf] * 10, []]],
    ]:
        with pytest.raises(ValueError, match=next(iter(wrong))) as error:
            router.observe(**{"now": 9.0, **wrong})
        one_line(error)
    for wrong in [
        {"busy": ["a"]},
        {"idle": 1.5},
        {"now": "late"},
        {"service_time_s": "long"},
        {"loads": 1.0},
        {"loads": ["a"] * 10},
    ]:
        with pytest.raises(TypeError, match=next(iter(wrong))) as error:
            router.observe(**{"now": 9.0, **wrong})
        one_line(error)
    assert router.snapshot() == before


@pytest.mark.parametrize("name", FIXED)
def test_fixed_groupings_keep_their_workers(name: str) -> None:
    router = new(name)
    router.route(KEYS)
    before = router.snapshot()
    with pytest.raises(ValueError, match=name) as error:
        router.add_worker()
    one_line(error)
    with pytest.raises(ValueError, match=name) as error:
        router.remove_worker(0)
    one_line(error)
    assert router.workers == 10
    assert router.snapshot() == before


# Snapshots


@pytest.mark.parametrize("name", NAMES)
def test_snapshot_continues_exactly(name: str) -> None:
    router = new(name, seed=3, source=4)
    router.route(KEYS[:1234])
    data = router.snapshot()
    assert isinstance(data, bytes)
    expected = router.route(KEYS[1234:])
    for _ in range(2):
        copy = ks.grouping(name, workers=10, seed=3).router(source=4, snapshot=data)
        assert copy.snapshot() == data
        np.testing.assert_array_equal(copy.route(KEYS[1234:]), expected)
        np.testing.assert_array_equal(copy.loads, router.loads)


@pytest.mark.parametrize("name", NAMES)
def test_snapshot_remembers_the_time(name: str) -> None:
    router = new(name)
    router.route([1], now=5.0)
    copy = ks.grouping(name, workers=10).router(snapshot=router.snapshot())
    with pytest.raises(ValueError, match="now"):
        copy.route([1], now=4.0)


@pytest.mark.parametrize("name", NAMES)
def test_broken_snapshots_are_refused(name: str) -> None:
    params = ks.grouping(name, workers=10)
    router = params.router()
    router.route(KEYS[:100])
    data = router.snapshot()
    broken = [b"", b"x", b"no snapshot at all", data + b"x", data[1:], bytes(len(data))]
    broken += [data[:length] for length in {*range(0, len(data), max(1, len(data) // 200)), len(data) - 1}]
    for snapshot in broken:
        with pytest.raises(ValueError, match="snapshot") as error:
            params.router(snapshot=snapshot)
        one_line(error)
    for snapshot in ["text", 5]:
        with pytest.raises(TypeError, match="snapshot"):
            params.router(snapshot=snapshot)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_snapshots_are_refused(name: str) -> None:
    params = ks.grouping(name, workers=10)
    router = params.router()
    router.route(KEYS[:100])
    data = router.snapshot()
    for position in range(0, len(data), max(1, len(data) // 300)):
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        with pytest.raises(ValueError, match="snapshot"):
            params.router(snapshot=bytes(damaged))


@pytest.mark.parametrize("name", NAMES)
def test_snapshots_of_others_are_refused(name: str) -> None:
    data = new(name).snapshot()
    others = [ks.grouping(other, workers=10) for other in NAMES if other != name]
    others += [ks.grouping(name, workers=11), ks.grouping(name, workers=10, seed=1)]
    for other in others:
        with pytest.raises(ValueError, match="snapshot") as error:
            other.router(snapshot=data)
        one_line(error)
    with pytest.raises(ValueError, match="source"):
        ks.grouping(name, workers=10).router(source=1, snapshot=data)


def test_equal_parameters_share_snapshots() -> None:
    whole, fraction = (ks.DChoices(workers=5, tolerance=tolerance) for tolerance in (1, 1.0))
    assert whole == fraction
    snapshot = whole.router().snapshot()
    assert fraction.router(snapshot=snapshot).snapshot() == snapshot
    with pytest.raises(ValueError, match="another set of parameters"):
        ks.DChoices(workers=5, tolerance=0.5).router(snapshot=snapshot)
    far = [ks.KeyGrouping(workers=5, seed=2**64 - last) for last in (1, 2)]
    with pytest.raises(ValueError, match="another set of parameters"):
        far[1].router(snapshot=far[0].router().snapshot())


def test_infinite_loads_are_restored() -> None:
    router = ks.KeyGrouping(workers=2).router()
    router.route([1, 1], weights=[1.7e308] * 2)
    assert ks.KeyGrouping(workers=2).router(snapshot=router.snapshot()).loads.max() == np.inf


def test_numbers_of_numpy_become_pythons() -> None:
    numpys = ks.DChoices(workers=np.int32(9), threshold=np.float64(0.25), distinct=np.True_)
    assert repr(numpys) == repr(ks.DChoices(workers=9, threshold=0.25, distinct=True))
    assert eval(repr(numpys), vars(ks)) == numpys


def test_what_groupings_share_is_no_grouping() -> None:
    with pytest.raises(TypeError, match="use a class in GROUPINGS"):
        ks.Grouping(workers=2)
    with pytest.raises(TypeError, match="grouping must be a name, got"):
        ks.grouping(["key"], workers=2)  # type: ignore[arg-type]


def test_a_threshold_too_small_for_a_sketch() -> None:
    with pytest.raises(ValueError, match=r"threshold must be in 3.725290298461914e-8..=1 when"):
        ks.WChoices(workers=2, threshold=1e-9)
    assert ks.WChoices(workers=2, threshold=1e-9, sketch_capacity=10).threshold == 1e-9
