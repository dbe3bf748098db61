"""Plans that were stored are read for ever: their JSON, their pickles, from files and from stores."""

import json
import os
import pickle
import stat
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow.fs
import pytest

import keysplit as ks
from keysplit import paths
from keysplit.plan import PLANS, FrequentKey, KeyCuts, OrderColumn, OrderCuts, Sample, stored
from keysplit.spark import Plan

# Each version's file was written once, by the keysplit that brought the version, and never changes.
GOLDEN = Path(__file__).parent.parent / "golden" / "plans"
ROW_ID = ("id", "`a.b`")
ORDER = OrderCuts(
    (OrderColumn("day.of`it", False, False, "date"), OrderColumn("ż", True, True, "string")),
    (KeyCuts(-5, (0.25, 0.5, 0.75), (("19800", "C5BC"), ("-1", None), (None, ""))),),
)
SAMPLE = Sample(rows=1234, fraction=0.125, effective=1000.5, confidence=0.95)


def golden(version):
    return (GOLDEN / f"version-{version}.json").read_text(encoding="utf-8")


@pytest.fixture
def plan():
    return Plan.from_json(golden(1))


def test_every_version_has_its_golden_files():
    assert {path.name for path in GOLDEN.iterdir()} == {
        f"version-{version}.{kind}" for version in stored.FIELDS for kind in ("json", "pickle")
    }


@pytest.mark.parametrize("version", stored.FIELDS)
@pytest.mark.parametrize("kind", ["json", "pickle"])
def test_every_version_is_read(version, kind):
    if kind == "json":
        plan = Plan.from_json(golden(version))
    else:
        plan = pickle.loads((GOLDEN / f"version-{version}.pickle").read_bytes())
    assert plan.grouping == ks.DChoices(workers=4, seed=2**63 + 1, threshold=0.01)
    assert (plan.key, plan.key_types) == (("word", "day.of`it"), ("string", "date"))
    assert plan.head == (
        FrequentKey(("a", None), -5, 9000.0, 12.5, (0, 2, 3), (0.5, 0.25, 0.25)),
        FrequentKey(('żółć, "b"', "2024-03-31"), 2**62, 800.0, 0.0, (1,), (1.0,)),
    )
    assert np.array_equal(plan.tail, np.arange(4096) % 4)
    assert np.array_equal(plan.buckets, np.arange(4096) % 7)
    assert plan.total == plan.buckets.sum()
    assert plan.capacities == (1.0, 2.0, 0.5, 1.0)
    assert plan.row_id == (ROW_ID if version >= 2 else None)
    assert plan.sample == (SAMPLE if version >= 3 else None)
    assert plan.group_weight == (150 if version >= 3 else 0)
    assert plan.weighted is (version >= 4)
    assert plan.heaviest == ((1250.5, 800.0) if version >= 5 else None)
    assert plan.trust == (("cleaned()", "day.of`it") if version >= 6 else ())
    assert plan.order == (ORDER if version >= 7 else None)
    # where the rows of the first key go, of the second, and of three that are not frequent
    keys = np.array([-5] * 6 + [2**62] + [0, 2**52, -(2**53)])
    rows = np.array([0, 2**32 - 1, 3 << 61, (3 << 61) + 2**32 - 1, -1, -(2**32)] + [0] * 4)
    assert plan.tables.in_rust().route(keys, rows).tolist() == [0, 0, 2, 0, 0, 3, 1, 0, 1, 2]


@pytest.mark.parametrize("version", stored.FIELDS)
def test_a_plan_is_written_in_the_oldest_version_that_holds_it(version):
    plan = Plan.from_json(golden(version))
    old, new = json.loads(golden(version)), json.loads(plan.to_json())
    assert new["version"] == version
    # zlib may pack the same numbers otherwise, and groupings may have got parameters since
    packed = ("tail", "buckets")
    assert {**new, "grouping": old["grouping"]} == {**old, **{name: new[name] for name in packed}}
    assert new["grouping"].items() >= old["grouping"].items()
    assert Plan.from_json(plan.to_json()) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan


@pytest.mark.parametrize(
    ("field", "value"), [("row_id", ("id",)), ("trust", ("id", "cleaned()")), ("order", ORDER)]
)
def test_what_operations_take_from_a_plan_is_part_of_it(plan, field, value):
    other = replace(plan, **{field: value})
    assert getattr(Plan.from_json(other.to_json()), field) == value
    assert getattr(other.with_workers(3), field) == value
    assert other != plan
    text = value.text if field == "order" else value
    assert f"{field}: {getattr(plan, field)}, the other has {text}" in plan.compare(other)


def test_the_cuts_of_a_plan_are_described(plan):
    first, other = (
        replace(plan, order=replace(ORDER, keys=keys))
        for keys in (ORDER.keys, (replace(ORDER.keys[0], hash=2**62),))
    )
    text = "day.of`it date DESC NULLS LAST, ż string ASC NULLS FIRST: 3 cuts of 1 key"
    assert f"  ranges by {text}\n" in str(first)
    assert "ranges by" not in str(plan)
    assert first.compare(other) == f"order: {text}, the other has different cuts"
    assert first.compare(plan) == f"order: {text}, the other has None"


def test_a_parameter_that_a_plan_has_not_takes_its_default(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Later(ks.DChoices):
        name: ClassVar[str] = "d_choices"
        patience: int = 3

        def __post_init__(self):
            """Ask no grouping of Rust, which does not know the parameter."""

    monkeypatch.setitem(PLANS, "d_choices", Later)
    for version in stored.FIELDS:
        assert Plan.from_json(golden(version)).grouping.patience == 3
        restored = pickle.loads((GOLDEN / f"version-{version}.pickle").read_bytes())
        assert restored.grouping.patience == 3


def changed(base=1, **changes):
    return json.dumps({**json.loads(golden(base)), **changes})


def changed_order(**changes):
    return replace(Plan.from_json(golden(1)), order=replace(ORDER, **changes)).to_json()


def changed_cuts(**changes):
    return changed_order(keys=(replace(ORDER.keys[0], **changes),))


def changed_key(**changes):
    first, *others = json.loads(golden(1))["head"]
    return changed(head=[{**first, **changes}, *others])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (changed(version=99), "version 99"),
        (changed(row_id=["id"]), "the field 'row_id'"),
        (changed(5, trust=["id"]), "the field 'trust'"),
        (changed(6, order=None), "the field 'order'"),
        (changed(2, salt=7), "the field 'salt'"),
        (changed(2, sample={}), "the field 'sample'"),
        (changed(3, sample={"rows": 1, "shade": 1}), "the field of a sample 'shade'"),
        (changed(grouping={"name": "best", "workers": 4}), "the grouping 'best'"),
        (
            changed(grouping={"name": "d_choices", "workers": 4, "patience": 3}),
            "the parameter of d_choices 'patience'",
        ),
        (
            changed(head=[{**json.loads(golden(1))["head"][0], "shade": 1}]),
            "the field of a key 'shade'",
        ),
    ],
)
def test_what_a_newer_keysplit_wrote_is_refused_in_one_line(text, what):
    with pytest.raises(ValueError, match=r"^plan must be one that keysplit .* knows, got ") as raised:
        Plan.from_json(text)
    assert str(raised.value) == (
        f"plan must be one that keysplit {ks.__version__} knows, got {what}, which a newer keysplit wrote: "
        "install a newer keysplit"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "^text must be a plan as JSON"),
        ("[1]", "^text must be a plan that keysplit wrote"),
        (changed(version=0), r"^version of the plan must be in 1\.\.=7, got 0$"),
        (changed(version="1"), r"^version of the plan must be in 1\.\.=7, got '1'$"),
        (changed(grouping={"name": "d_choices", "workers": 1000}), "^plan is damaged: its keys, workers"),
        (changed(grouping=5), "^plan is damaged: TypeError"),
        (changed(head=[{}]), "^plan is damaged: KeyError"),
        (changed(head=7), "^plan is damaged: TypeError"),
        (changed(tail="x"), "^plan is damaged"),
        (changed(tail=7), "^plan is damaged"),
        (changed(2, row_id=[]), "^plan is damaged: its keys, workers"),
        (changed(total=float("nan")), "^plan is damaged: its keys, workers"),
        (changed(total=-5), "^plan is damaged: its keys, workers"),
        (changed(capacities=[1, 1, 1, 0]), "^plan is damaged: ValueError: capacities must be in"),
        (changed(key=[]), "^plan is damaged: its keys, workers"),
        (changed(key=["a", "b", "c"]), "^plan is damaged: its keys, workers"),
        (changed(2, row_id=[1]), "^plan is damaged: its keys, workers"),
        (changed(3, sample={"rows": 1}), "^plan is damaged: KeyError"),
        (changed(3, group_weight=-1), "^plan is damaged: its keys, workers"),
        (changed(5, heaviest=[1.0]), "^plan is damaged: its keys, workers"),
        (changed(5, heaviest=[1.0, -1.0]), "^plan is damaged: its keys, workers"),
        (changed(5, heaviest=5), "^plan is damaged: TypeError"),
        (changed(6, trust=5), "^plan is damaged: TypeError"),
        (changed(6, trust=[5]), "^plan is damaged: its keys, workers"),
        (changed(7, order=5), "^plan is damaged: AttributeError"),
        (changed(7, order={"columns": [], "keys": []}), "^plan is damaged: ValueError: .* checksum"),
        (golden(7).replace('"19800"', '"19801"'), "^plan is damaged: ValueError: .* checksum"),
        (changed_order(columns=()), "^plan is damaged: its keys, workers"),
        (changed_order(columns=ORDER.columns[:1]), "^plan is damaged: its keys, workers"),
        (
            changed_order(columns=(replace(ORDER.columns[0], nulls_first=1), ORDER.columns[1])),
            "^plan is damaged: its keys, workers",
        ),
        (changed_cuts(places=(0.25, 0.5)), "^plan is damaged: its keys, workers"),
        (changed_cuts(places=(0.25, 0.75, 0.5)), "^plan is damaged: its keys, workers"),
        (changed_cuts(places=(0.25, 0.5, 1.0)), "^plan is damaged: its keys, workers"),
        (changed_cuts(cuts=(("1", "'"), ("2", "3"), ("4", "5"))), "^plan is damaged: its keys, workers"),
        (changed_cuts(cuts=(("1", 2), ("2", "3"), ("4", "5"))), "^plan is damaged: TypeError"),
        (changed(total=0), "^plan is damaged: its keys, workers"),
        (changed_key(count=float("nan")), "^plan is damaged: its keys, workers"),
        (changed_key(count=-5), "^plan is damaged: its keys, workers"),
        (changed_key(error=float("inf")), "^plan is damaged: its keys, workers"),
        (changed_key(key=[5]), "^plan is damaged: its keys, workers"),
        (
            changed_key(key="hot"),
            "^plan is damaged: TypeError: a key must be a list of values, one per key column, got 'hot'",
        ),
        (changed(key=[1]), "^plan is damaged: its keys, workers"),
        (changed(capacities=[1e-300, 1, 1, 1e300]), "^plan is damaged: ValueError: capacities must be in"),
        (changed(capacities=[1]), "^plan is damaged: ValueError: capacities must be 4 numbers"),
    ],
)
def test_damaged_plans_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Plan.from_json(text)


def test_every_field_of_a_plan_is_stored():
    assert set(stored.FIELDS[stored.VERSION]) == {field.name for field in fields(Plan)}


def test_a_file_has_the_mode_that_the_umask_leaves(plan, tmp_path):
    for umask, mode in ((0o022, 0o644), (0o027, 0o640), (0o077, 0o600)):
        before = os.umask(umask)
        try:
            plan.save(tmp_path / "plan.json")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_file_is_written_whole_or_not_at_all(plan, tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    path.write_text("the old one")
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no more"):
        plan.save(path)
    assert path.read_text() == "the old one"
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]
    monkeypatch.undo()
    missing = str(tmp_path / "no folder" / "plan.json")
    with pytest.raises(
        FileNotFoundError, match=f"^path must be a path in an existing folder, got '{missing}'$"
    ):
        plan.save(missing)


def test_what_is_no_path_or_text_is_named(plan, tmp_path):
    for use in (plan.save, Plan.load):
        with pytest.raises(IsADirectoryError, match=r"^path must be the path of a file, got the folder '"):
            use(tmp_path)
        with pytest.raises(ValueError, match=r"^path must be the path of a file, got ''$"):
            use("")
        with pytest.raises(TypeError, match=r"^path must be the path of a file, or a URL, got int$"):
            use(5)
    with pytest.raises(TypeError, match=r"^text must be what Plan.to_json returned, got NoneType$"):
        Plan.from_json(None)


def fail(*_):
    raise OSError("no more")


def test_a_local_url_is_a_file(plan, tmp_path):
    url = (tmp_path / "plan.json").as_uri()
    plan.save(url)
    assert Plan.load(url) == Plan.load(tmp_path / "plan.json") == plan
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    with pytest.raises(FileNotFoundError):
        Plan.load((tmp_path / "none.json").as_uri())


@dataclass
class Store:
    """A store in memory, and what it was asked for."""

    files: pyarrow.fs.FileSystem
    type_name: str
    calls: list
    fails: str | None = None
    replaces: bool = True

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments, **options):
            self.calls.append(name)
            if self.fails == name:
                raise OSError("no more")
            if name == "move" and not self.replaces and self.get_file_info(arguments[1]).is_file:
                raise OSError("the file exists")
            return getattr(self.files, name)(*arguments, **options)

        return call


@pytest.fixture
def store(monkeypatch):
    """Stand a store in memory for that of every URL."""
    store = Store(pyarrow.fs._MockFileSystem(), "mock", [])

    class Files:
        @staticmethod
        def from_uri(url):
            scheme, name = url.split("://")
            store.calls.append(scheme)
            return store, name

    monkeypatch.setattr(pyarrow.fs, "FileSystem", Files)
    return store


def names(store):
    return [each.path for each in store.files.get_file_info(pyarrow.fs.FileSelector("", recursive=True))]


def test_a_place_has_one_name(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("log", Path("log"), "./log", str(tmp_path / "log")):
        assert paths.absolute(path) == str(tmp_path / "log")
    assert paths.absolute("mock://bucket/log") == "mock://bucket/log"


@pytest.mark.parametrize(("hadoop", "known"), [("s3a", "s3"), ("s3n", "s3"), ("abfss", "abfs"), ("s3", "s3")])
def test_stores_have_hadoops_names_too(plan, store, hadoop, known):
    plan.save(f"{hadoop}://plan.json")
    assert Plan.load(f"{hadoop}://plan.json") == plan
    assert known in store.calls
    assert hadoop == known or hadoop not in store.calls


@pytest.mark.parametrize("kind", ["s3", "gcs", "abfs", "hdfs", "mock"])
def test_a_plan_is_kept_in_a_store(plan, store, kind, monkeypatch):
    store.type_name, store.replaces = kind, kind != "hdfs"
    plan.save("store://plan.json")
    other = replace(plan, row_id=("id",))
    other.save("store://plan.json")
    assert Plan.load("store://plan.json") == other
    monkeypatch.undo()
    assert names(store) == ["plan.json"]
    # an object is there once it is whole; elsewhere a file moves into its place
    assert ("move" in store.calls) == (kind in ("hdfs", "mock"))


@pytest.mark.parametrize(
    ("path", "end", "found"),
    [
        ("plan.json", ".runs.jsonl", "plan.json.runs.jsonl"),
        (Path("log"), "/query.json", "log/query.json"),
        ("log/", "/query.json", "log/query.json"),
        ("a?b", "/query.json", "a?b/query.json"),  # a folder of this machine
        ("s3://bucket/plan.json", ".runs.jsonl", "s3://bucket/plan.json.runs.jsonl"),
        (
            "s3://bucket/log/?region=x&scheme=http",
            "/query.json",
            "s3://bucket/log/query.json?region=x&scheme=http",
        ),
    ],
)
def test_the_options_of_a_url_stay_at_its_end(path, end, found):
    assert paths.extended(path, end) == found


@pytest.mark.parametrize("fails", ["open_output_stream", "move"])
def test_a_store_keeps_the_old_plan_where_writing_fails(plan, store, fails, monkeypatch):
    plan.save("store://plan.json")
    store.fails = fails
    with pytest.raises(OSError, match="no more"):
        replace(plan, row_id=("id",)).save("store://plan.json")
    assert Plan.load("store://plan.json") == plan
    monkeypatch.undo()
    assert names(store) == ["plan.json"]


@pytest.mark.parametrize("url", ["dbfs:/plans/plan.json", "nowhere://host/plan.json"])
def test_a_url_that_pyarrow_does_not_know_is_named(plan, url):
    for call in (lambda: plan.save(url), lambda: Plan.load(url)):
        with pytest.raises(ValueError, match=r"^path must be a file, a folder or a URL") as raised:
            call()
        assert repr(url) in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_file_that_is_no_text_is_no_plan(tmp_path):
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"^text must be a plan as JSON"):
        Plan.load(tmp_path / "plan.json")
