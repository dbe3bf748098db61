"""A profile equals naive counting where it counts, and advises by its rule."""

import datetime
import json
import math
import pickle
import re
import weakref
from collections import Counter
from decimal import Decimal
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from keysplit import runs
from keysplit.plan import PLANS, Sample
from keysplit.profiling import SHORT_LIST
from keysplit.profiling.advice import Cost, advise, advise_simulated, recommend, recommend_simulated
from keysplit.profiling.model import Outcome, Prediction, TopKey
from keysplit.profiling.stream import Windows, expect_overlap, measure_overlap
from keysplit.text import format_key, format_ratio, format_seconds, format_share


def drawn(exponent: float = 1.4, messages: int = 4_000, keys: int = 200, seed: int = 1) -> np.ndarray:
    return ks.streams.zipf(exponent, keys=keys, messages=messages, seed=seed)


def pieces(keys: Any, cuts: list[int]) -> list[Any]:
    ends = [0, *sorted(cut % (len(keys) + 1) for cut in cuts), len(keys)]
    return [keys[start:stop] for start, stop in pairwise(ends)]


# Windows

CUTS = st.lists(st.integers(0, 10_000), max_size=6)


@given(
    keys=st.lists(st.integers(0, 5), max_size=120),
    cuts=CUTS,
    most=st.integers(1, 5),
    shortest=st.integers(1, 9),
    known=st.booleans(),
)
def test_windows_count_every_message_once_in_its_place(keys, cuts, most, shortest, known):
    windows = Windows(length=len(keys) if known else None, most=most, shortest=shortest, capacity=10)
    for piece in pieces(keys, cuts):
        windows.update(piece)
    found = windows.all
    if known:
        number = min(most, max(1, len(keys) // shortest))
        stops = [math.ceil(k * len(keys) / number) for k in range(number + 1)] if keys else []
    else:
        width = shortest
        while len(keys) >= 2 * most * width:
            width *= 2
        stops = [*range(0, len(keys), width), len(keys)] if keys else []
    assert [(window.start, window.stop) for window in found] == list(pairwise(stops))
    for window in found:
        exact = Counter(keys[window.start : window.stop])
        assert {key: count for key, count, _ in window.sketch.top(10)} == exact
    assert {key: count for key, count, _ in windows.whole().top(10)} == Counter(keys)


def test_more_messages_than_announced_go_to_the_last_window():
    windows = Windows(length=4, most=2, shortest=1, capacity=10)
    windows.update([1, 2, 3, 4, 5, 6])
    assert [window[:2] for window in windows.all] == [(0, 2), (2, 6)]


def test_overlaps_are_mean_jaccard_indices():
    windows = Windows(length=30, most=3, shortest=1, capacity=100)
    parts = ([1] * 5 + [2] * 3 + [3] * 2, [1] * 5 + [2] * 3 + [4] * 2, [5] * 5 + [6] * 3 + [1] * 2)
    windows.update([key for part in parts for key in part])
    tops = [{1, 2, 3}, {1, 2, 4}, {5, 6, 1}]
    indices = [len(a & b) / len(a | b) for a, b in combinations(tops, 2)]
    near, any_two = measure_overlap(windows.all, 3)
    assert near == pytest.approx((indices[0] + indices[2]) / 2)
    assert any_two == pytest.approx(sum(indices) / 3)
    assert measure_overlap(windows.all[:1], 3) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("exponent", "keys", "messages"), [(0.8, 2_000, 40_000), (1.4, 2_000, 40_000), (0.5, 300, 600)]
)
def test_the_steady_overlap_is_that_of_a_shuffled_stream(exponent, keys, messages):
    keys = drawn(exponent, messages, keys)
    windows = Windows(length=len(keys), most=10, shortest=1, capacity=2_000)
    windows.update(keys)
    steady = expect_overlap(windows.all, windows.whole(), 20)
    assert steady == pytest.approx(measure_overlap(windows.all, 20)[1], abs=0.05)
    assert steady < 1


# Counts, hot keys, ages


def naive(keys: list[Any], workers: int, windows: int) -> dict[str, Any]:
    """The figures of a profile by the plainest means; the length is known and the keys are few."""
    hot_keys = 5 * workers
    number = min(windows, max(1, len(keys) // (10 * hot_keys)))
    stops = [math.ceil(k * len(keys) / number) for k in range(number + 1)]
    hot: dict[Any, list[int]] = {}
    for window, (start, stop) in enumerate(pairwise(stops)):
        for key, count in Counter(keys[start:stop]).items():
            if count >= max((stop - start) / hot_keys, 10):
                hot.setdefault(key, []).append(window)
    ages = {key: stops[found[-1] + 1] - stops[found[0]] for key, found in hot.items()}
    return {"stops": stops, "hot": hot, "ages": ages, "counts": Counter(keys)}


@given(
    exponent=st.sampled_from([0.0, 0.7, 1.2, 2.0]),
    universe=st.integers(1, 300),
    messages=st.integers(1, 1_500),
    periods=st.integers(1, 4),
    workers=st.integers(1, 6),
    windows=st.integers(1, 8),
    seed=st.integers(0, 99),
    cuts=st.none() | CUTS,
)
def test_a_profile_equals_naive_counting(exponent, universe, messages, periods, workers, windows, seed, cuts):
    keys = ks.streams.zipf_drifting(exponent, universe, messages, seed, periods=periods)
    stream = keys if cuts is None else iter(pieces(keys, cuts))
    found = ks.profile(stream, workers, top=5, windows=windows, sources=2, messages=messages)
    expected = naive(keys.tolist(), workers, windows)
    counts = expected["counts"]
    assert found.messages == messages
    assert (found.distinct_keys, found.distinct_keys_error) == (len(counts), 0)
    assert found.windows == tuple(expected["stops"])
    assert {key.key: list(key.hot) for key in found.hot} == expected["hot"]
    assert [key.count for key in found.top] == sorted(counts.values(), reverse=True)[:5]
    for key in {*found.top, *found.hot}:
        assert (key.count, key.error) == (counts[key.key], 0)
        assert key.share == counts[key.key] / messages
        assert key.age_messages == expected["ages"].get(key.key, 0)
        assert key.age_share == key.age_messages / messages
        for share, (start, stop) in zip(key.shares, pairwise(expected["stops"]), strict=True):
            assert share == np.mean(keys[start:stop] == key.key)
    (advice,) = found.advice
    workers_of = ks.KeyGrouping(workers=workers).router().route(keys)
    loads = np.bincount(workers_of, minlength=workers)
    assert advice.imbalance == ks.metrics.imbalance(loads)


@pytest.mark.parametrize("known", [True, False])
def test_bounds_hold_where_the_keys_are_too_many_to_count(known):
    keys = ks.streams.zipf_drifting(0.9, keys=20_000, messages=100_000, seed=3, periods=4)
    found = ks.profile(iter([keys]), 4, top=30, messages=len(keys) if known else None)
    exact = Counter(keys.tolist())
    assert found.threshold == 1 / 20
    for key in (*found.top, *found.hot):
        assert key.count - key.error <= exact[key.key] <= key.count
        assert key.error <= found.threshold / 10 * len(keys)
    for number, (start, stop) in enumerate(pairwise(found.windows)):
        window = Counter(keys[start:stop].tolist())
        hot = {key.key for key in found.hot if number in key.hot}
        size = stop - start
        assert {key for key, count in window.items() if count >= size * found.threshold} <= hot
        assert min((window[key] for key in hot), default=size) >= 0.9 * size * found.threshold
        for key in found.hot:
            counted = round(key.shares[number] * size)
            assert window[key.key] - 0.1 * size * found.threshold <= counted <= window[key.key]


def test_keys_that_are_too_many_to_keep_are_estimated(monkeypatch):
    monkeypatch.setattr(runs, "MOST_KEYS", 2_000)
    found = ks.profile(np.arange(20_000), 2)
    assert found.distinct_keys_error == 5e-4 * found.distinct_keys > 0
    assert found.distinct_keys == pytest.approx(20_000, rel=0.2)
    assert f"about {found.distinct_keys:,} keys (standard error at most 1" in str(found)


def test_cutting_a_stream_changes_nothing():
    keys = drawn()
    whole = ks.profile(keys, [3, 8]).to_dict()
    parts = ks.profile(iter(pieces(keys, [1, 700, 701, 2_000])), [3, 8], messages=len(keys)).to_dict()
    assert parts == whole


def test_any_column_is_taken():
    keys = [f"key {key}" for key in drawn(messages=500)]
    expected = ks.profile(keys, 4).to_dict()
    array = pa.array(keys)
    columns = (np.array(keys), array, pa.chunked_array([array[:100], array[100:]]), array.dictionary_encode())
    for column in columns:
        assert ks.profile(column, 4).to_dict() == expected
    polars = pytest.importorskip("polars")
    assert ks.profile(polars.Series(keys), 4).to_dict() == expected


# Drift


def test_steady_keys_stay_and_drifting_keys_change():
    steady = ks.profile(drawn(1.2, messages=60_000, keys=2_000), 10)
    assert not steady.drifts
    assert steady.drift.startswith("the frequent keys stay: of 20 windows")
    assert steady.overlap == pytest.approx(steady.steady_overlap, abs=0.1)
    moving = ks.profile(ks.streams.zipf_drifting(1.2, 2_000, 60_000, 1, periods=5), 10)
    assert moving.drifts
    assert moving.drift.startswith("the frequent keys change: of 20 windows")
    assert moving.overlap_of_any < 0.5 < moving.overlap
    # each period has a hottest key of its own, which is hot for a fifth of the stream
    assert [key.age_share for key in moving.top[:5]] == pytest.approx([0.2] * 5)


def test_keys_that_change_slowly_are_seen_from_far():
    # twenty keys in each of twenty windows, one of them new
    keys = np.concatenate([np.arange(20_000) % 20 + window for window in range(20)])
    found = ks.profile(keys, 4)
    assert found.overlap == pytest.approx(19 / 21)
    assert found.overlap > found.steady_overlap - 0.1 > found.overlap_of_any
    assert found.drifts


def test_a_short_stream_is_one_window():
    found = ks.profile([1, 2, 1], 4)
    assert found.windows == (0, 3)
    told = "too short to see a change of the frequent keys: all messages are in one window"
    assert found.drift == told
    assert found.hot == ()


def test_keys_that_may_be_rare_are_not_called_frequent():
    keys = drawn(0.0, 60_000, keys=30_000)
    found = ks.profile(keys, 60)
    most = max(Counter(keys.tolist()).values())
    assert found.top[0].error > most > found.top[0].count - found.top[0].error
    assert not any(key.certain for key in found.top)
    assert found.drift.startswith("a change of the frequent keys cannot be seen")
    assert found.advice[0].recommended is not None
    assert "The most frequent key" not in found.verdict
    told = str(found)
    assert "most frequent key" not in told
    assert f"No key has more than {format_share(found.top[0].share)} of the messages." in told
    some = ks.profile(np.append(keys, np.repeat(7, 2_000)), 2)
    certain = [key.key for key in some.top if key.certain]
    assert certain == [7]
    assert f"No other key has more than {format_share(some.top[1].share)} of the messages." in str(some)


# Advice

RATIOS = st.sampled_from([1.0, 1.05, 1.1, 1.1000001, 1.2, 3.0, 9.0])
OUTCOMES = st.dictionaries(
    st.sampled_from(SHORT_LIST), st.tuples(RATIOS, st.integers(0, 3)).map(lambda o: Outcome(*o))
)


@given(now=RATIOS, outcomes=OUTCOMES)
def test_the_rule_of_the_advice(now, outcomes):
    level = [name for name, of in outcomes.items() if of.busiest <= 1.1]
    expected = None
    if level:
        expected = min(level, key=lambda name: (outcomes[name].copies, outcomes[name].busiest))
    elif outcomes:
        expected = min(outcomes, key=lambda name: (outcomes[name].busiest, outcomes[name].copies))
    if expected is None or now <= 1.1 or outcomes[expected].busiest * 1.1 >= now:
        expected = None
    assert recommend(now, outcomes) == expected


def test_the_advice_is_that_of_compare():
    keys = drawn(messages=20_000)
    found = ks.profile(keys, [4, 40], sources=3)
    compared = ks.compare(keys, workers=[4, 40], groupings=list(SHORT_LIST), sources=3)
    assert not found.drifts
    for advice in found.advice:
        results = {r.params.name: r for r in compared if r.params.workers == advice.workers}
        assert {name: result.to_dict() for name, result in advice.results.items()} == {
            name: result.to_dict() for name, result in results.items()
        }
        level = [r for name, r in results.items() if 1 + r.relative_imbalance <= 1.1 and name != "fish"]
        assert advice.online == min(level, key=lambda result: result.memory).params.name
        balanced = {name: of for name, of in advice.planned.items() if of.busiest <= 1.1}
        assert advice.recommended == min(balanced, key=lambda name: balanced[name].outcome[::-1])
        better, now = balanced[advice.recommended], advice.planned["key"]
        online = results[advice.online]
        assert advice.verdict.splitlines() == [
            "split the frequent keys for joins, whole-group Python and writes",
            f"today {now.busiest:.2f} times as long as balanced, then {better.busiest:.2f} times, by the "
            "loads alone",
            "sure, all are counted. The most frequent key, 0, has "
            f"{format_share(np.mean(keys == 0))} of the messages",
        ]
        plan = f"key, {advice.workers}, grouping='{advice.recommended}'))"
        assert advice.line == f"kss.join(left, right, key, plan=kss.plan(left, {plan}"
        assert advice.details == (
            f"Max/mean load is {now.busiest:.2f} with hash partitioning and {better.busiest:.2f} with "
            f"{advice.recommended}, for {better.extra_partials:,} more partial results, copies of the other "
            "side's rows or files. For whole-group Python: "
            f"kss.apply(df, key, partial, schema, merge=merge, plan=kss.plan(df, {plan}. For a partitioned "
            f"write: kss.write(df, key, plan=kss.plan(df, {plan}. No action needed for sum, count, min, "
            "max and avg: they combine on the map side. For stream engines, in the order of arrival: "
            f"{advice.online}, max/mean load "
            f"{1 + online.relative_imbalance:.2f}, for {online.memory:,} partial results instead of "
            f"{results['key'].memory:,}"
        )
    text = "\n".join(f"{each.workers} workers: {each.verdict}" for each in found.advice)
    assert found.verdict == text


def test_of_a_sample_without_a_frequent_key_nothing_is_sure():
    planned = {
        "key": Prediction(
            loads=np.array([4.0, 1, 1, 1]), imbalance=3 / 7, relative_imbalance=9 / 7, extra_partials=0
        )
    }
    verdict = advise(1e6, "rows", [], planned, None, None, workers=4, sample=Sample(1000, 0.001, 1000.0))
    assert verdict.text.endswith("\nestimated from a sample, and no key is certain to be frequent")


def test_no_action_where_hash_grouping_is_level():
    found = ks.profile(np.arange(20_000), 4)
    assert found.advice[0].recommended is None
    assert re.fullmatch(
        r"no action needed: max/mean load is 1\.0\d \(up to 1\.1 counts as balanced\)", found.verdict
    )
    assert found.hot == ()


def test_fish_is_advised_under_drift_only():
    keys = drawn(messages=20_000)
    steady = ks.profile(keys, 10)
    assert "fish" in steady.advice[0].results
    assert steady.advice[0].online != "fish"


def test_what_cannot_be_planned_stands_second():
    moving = ks.streams.zipf_drifting(1.2, keys=2_000, messages=60_000, seed=1, periods=5)
    for workers in (10, 50):
        results = ks.compare(moving, workers, ["key", "d_choices", "fish"])
        online = recommend_simulated(results)
        planned = recommend_simulated(results, without=set(ks.GROUPINGS) - set(PLANS))
        assert online not in PLANS
        assert planned in PLANS
        verdict = advise_simulated(results, key=["a", "b"])
        plan = f"kss.plan(left, ['a', 'b'], {workers}, grouping={planned!r})"
        assert verdict.line == f"kss.join(left, right, ['a', 'b'], plan={plan})"
        assert verdict.text.startswith("split the frequent keys for joins, whole-group Python and writes\n")
        assert f"For stream engines, in the order of arrival: {online}, max/mean load 1.0" in verdict.details
        alone = [result for result in results if result.params.name in ("key", "fish")]
        assert advise_simulated(alone).text.startswith(
            "no action helps: no plan is better\ntoday max/mean load is "
        )
        (only,) = [result for result in results if result.params.name == "fish"]
        assert advise_simulated([only]).text.startswith("take fish, the most balanced of those tried\n")


def test_a_plan_is_predicted_as_spark_would_place_the_keys():
    keys = drawn(messages=50_000)
    (advice,) = ks.profile(keys, 10).advice
    shares = np.bincount(keys) / len(keys)
    assert advice.planned["w_choices"].extra_partials == 9 * (shares >= 1 / 50).sum()
    assert advice.planned["distribution_aware"].busiest == pytest.approx(10 * shares.max(), rel=1e-3)
    assert advice.planned["cut_to_fit"].busiest == pytest.approx(1, abs=1e-3)
    for of in advice.planned.values():
        assert of.loads.sum() == pytest.approx(len(keys))
    assert advice.planned["key"].busiest >= 10 * shares.max()


def test_times_are_those_of_the_busiest_worker_or_of_all_cores():
    (advice,) = ks.profile(drawn(messages=20_000), 10).advice
    now, better = advice.planned["key"], advice.planned["cut_to_fit"]
    cost = Cost(0.01)
    assert cost.expect_s(20_000, 10, now) == pytest.approx(0.01 * now.loads.max())
    assert Cost(0.01, cores=2).expect_s(20_000, 10, better) == pytest.approx(100)
    assert Cost(0.01, cores=1000).expect_s(20_000, 10, better) == pytest.approx(0.01 * better.loads.max())


def test_no_plan_where_few_cores_are_busy_to_the_end_without_one():
    keys = drawn(messages=20_000)
    (spread,) = ks.profile(keys, 10).advice
    assert spread.planned["key"].busiest > 2
    assert spread.recommended is not None
    (advice,) = ks.profile(keys, 10, cores=2).advice
    assert (advice.recommended, advice.line) == (None, "")
    busiest = format_ratio(advice.planned["key"].busiest)
    assert advice.verdict.startswith("no action needed: 10 workers share 2 cores\ntoday 1.0")
    assert (
        f"The most frequent key, 0, has {format_share(np.mean(keys == 0))} of the messages" in advice.verdict
    )
    assert advice.details.startswith(
        f"No plan ends more than 10 % sooner. Max/mean load is {busiest} with hash partitioning"
    )
    # the plan with the fewest copies that is fast enough on these cores
    (some,) = ks.profile(keys, 10, cores=8).advice
    slowdown = {name: max(of.busiest, 10 / 8) / (10 / 8) for name, of in some.planned.items()}
    fast = [name for name in slowdown if slowdown[name] <= 1.1]
    assert some.recommended == min(fast, key=lambda name: some.planned[name].extra_partials)


@pytest.mark.parametrize("messages", [1, 3])
def test_fewer_messages_than_workers_need_no_action(messages):
    (advice,) = ks.profile(["a"] * messages, 4).advice
    number = "1 message" if messages == 1 else f"{messages} messages"
    assert (advice.verdict, advice.recommended) == (f"no action needed: {number} for 4 workers", None)


def test_a_length_that_is_not_the_stream_s_is_refused():
    with pytest.raises(ValueError, match=r"^messages must be the length of the stream, 5, got 3$"):
        ks.profile(list("abcde"), 4, messages=3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.4, "999 s"),
        (999.5, "1,000 s"),
        (999.99, "1,000 s"),
        (1e6, "1,000,000 s"),
        (0.9996, "1 s"),
        (2e-6, "2 µs"),
    ],
)
def test_times_are_never_powers(value, text):
    assert format_seconds(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100.0 %"),
        (0.26, "26.0 %"),
        (0.0706, "7.06 %"),
        (9e-4, "0.09 %"),
        (3e-8, "3e-6 %"),
        (2e-18, "0 %"),
    ],
)
def test_shares_are_per_cent(share, text):
    assert format_share(share) == text


def test_a_frequent_key_is_four_figures_and_when_it_was_hot():
    key = TopKey("a", 10, 1, 0.5, shares=(0.5, 0.1), hot=(0,), age_messages=10, age_share=0.5)
    value, count, error, share = key
    assert key == (value, count, error, share) == ("a", 10, 1, 0.5)
    again = pickle.loads(pickle.dumps(key))
    assert again == key
    assert (again.hot, again.shares, again.age) == ((0,), (0.5, 0.1), "50 %")


def test_a_profile_of_a_stream_reads_like_one_of_a_dataframe():
    found = ks.profile(drawn(messages=20_000), 10)
    assert (found.total, found.unit, found.key, found.workers) == (20_000, "messages", (), 10)
    for name, prediction in found.predicted.items():
        result = found.advice[0].results[name]
        assert prediction.busiest == 1 + result.relative_imbalance
        assert prediction.extra_partials == result.memory - result.distinct_keys
    assert found.loads.tolist() == found.advice[0].results["key"].loads.tolist()
    assert found.imbalance == found.advice[0].imbalance == found.predicted["key"].imbalance
    assert found.recommended == found.advice[0].recommended
    assert found._repr_html_().startswith('<div class="keysplit-view">')


# What it gives away

KEYS = [None, "Zürich\n", b"\x00\xff", 7, True, datetime.date(2024, 2, 29), Decimal("1.5")]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_every_key_goes_to_json_and_to_the_terminal(key):
    found = ks.profile([key] * 600, 2)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["top"][0]["key"] == (key if isinstance(key, str | int | None) else format_key(key))
    assert told["advice"][0]["results"]["key"]["messages"] == 600
    assert format_key(key) in str(found)


def test_it_prints_in_80_columns():
    found = ks.profile(
        [f"a long key that nobody would read to its end, number {key}" for key in drawn()], [3, 900]
    )
    lines = str(found).splitlines()
    assert max(len(line) for line in lines if not line.startswith("  kss.")) <= 80
    text = " ".join(str(found).split())
    for advice in found.advice:
        assert " ".join(advice.verdict.split()) in text
    assert "most frequent key" in text


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
        ({"workers": [4, 70_000]}, ValueError, "workers must be in 1..=65536, got 70000"),
        ({"workers": []}, ValueError, "workers must hold at least one number, got none"),
        ({"workers": "4"}, TypeError, "workers must be"),
        ({"sources": 0}, ValueError, "sources must be at least 1, got 0"),
        ({"top": 0}, ValueError, "top must be at least 1, got 0"),
        ({"windows": 0}, ValueError, "windows must be at least 1, got 0"),
        ({"windows": 1.5}, TypeError, "windows must be an integer of at least 1, got 1.5"),
        ({"keys": []}, ValueError, "keys must hold at least one message, got none"),
        ({"keys": iter([])}, ValueError, "keys must hold at least one message, got none"),
        ({"keys": [0.5]}, TypeError, "float"),
        ({"seconds_per_row": 0}, ValueError, "seconds_per_row must be above 0 and finite, got 0"),
        ({"seconds_per_row": "1"}, TypeError, "seconds_per_row must be a number above 0, got '1'"),
        ({"cores": 0}, ValueError, "cores must be at least 1, got 0"),
        ({"cores": 1.5}, TypeError, "cores must be a whole number of at least 1, got 1.5"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, text):
    with pytest.raises(error, match=text.replace("..", r"\.\.")):
        ks.profile(**{"keys": [1, 2], "workers": 4, **arguments})


def test_few_chunks_are_in_memory_at_a_time():
    made: list[weakref.ref[np.ndarray]] = []
    most = 0

    def chunks():
        nonlocal most
        for seed in range(50):
            chunk = drawn(messages=1_000, seed=seed)
            made.append(weakref.ref(chunk))
            most = max(most, sum(each() is not None for each in made))
            yield chunk

    found = ks.profile(chunks(), 2, windows=4)
    assert most <= 4
    assert found.messages == 50_000
    assert 4 <= len(found.windows) - 1 <= 8
    assert str(found).startswith("50,000 messages")


def test_the_key_is_a_name_or_names():
    keys = ks.streams.zipf(1.4, keys=1000, messages=20_000, seed=1)
    for key in ("user", ["user"]):
        assert "kss.join(left, right, 'user'," in " ".join(str(ks.profile(keys, 5, key=key)).split())
    with pytest.raises(TypeError, match="key must be a column name or a list of column names, got 7"):
        ks.profile(keys, 5, key=7)
