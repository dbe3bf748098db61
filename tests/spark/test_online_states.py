"""Where routers of a stream leave their state: queries, columns, partitions and batches; without Spark."""

import re

import pytest
from pyspark import TaskContext

import keysplit as ks
from keysplit.spark.online.states import States, router_of_task, states_in
from keysplit.spark.tasks import BATCH, QUERY

FISH = ks.Fish(workers=4)
KEYS = {name: [f"{name} {i % 5 * (i % 3)}" for i in range(200)] for name in "abcd"}


class Task:
    """The context of a task: the partition it runs for, and its local properties."""

    def __init__(self, partition, properties):
        self.partition, self.properties = partition, properties

    def partitionId(self):
        return self.partition

    def getLocalProperty(self, name):
        return self.properties.get(name)


@pytest.fixture
def route(monkeypatch, tmp_path):
    """Route keys in a task: route(keys, batch, query="q", column="worker", partition=0, params=FISH)."""

    def run(keys, batch, query="q", column="worker", partition=0, params=FISH, state=tmp_path):
        properties = {QUERY: query, BATCH: batch if batch is None else str(batch)}
        monkeypatch.setattr(TaskContext, "get", lambda: Task(partition, properties))
        router, leave = router_of_task(params, states_in(str(state)), column, None)
        workers = router.route(keys).tolist()
        leave()
        return workers

    return run


def files(folder):
    """The states in a folder, without the driver's mark."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return found - {"shared.txt"}


@pytest.mark.parametrize("other", [{"query": "r"}, {"column": "other"}, {"partition": 1}])
def test_each_query_column_and_partition_has_states_of_its_own(route, other):
    source = other.get("partition", 0)
    ours, theirs = FISH.router(source=0), FISH.router(source=source)
    assert route(KEYS["a"], 0) == ours.route(KEYS["a"]).tolist()
    assert route(KEYS["b"], 0, **other) == theirs.route(KEYS["b"]).tolist()
    again = route(KEYS["c"], 1)
    assert again == ours.route(KEYS["c"]).tolist()
    assert route(KEYS["d"], 1, **other) == theirs.route(KEYS["d"]).tolist()
    assert route(KEYS["c"], 1) == again  # a lost task


def test_an_attempt_begins_with_the_newest_state_before_its_batch(route):
    router = FISH.router(source=0)
    router.route(KEYS["a"])
    route(KEYS["a"], 0)
    snapshot = router.snapshot()
    for keys in (KEYS["b"], KEYS["c"]):  # other rows, as of a source that has forgotten the first ones
        router = FISH.router(source=0, snapshot=snapshot)
        assert route(keys, 7) == router.route(keys).tolist()
    assert route(KEYS["d"], 8) == router.route(KEYS["d"]).tolist()


def test_three_states_are_kept(route, tmp_path):
    for batch in range(5):
        route(KEYS["a"], batch)
    route(KEYS["a"], 0, partition=1)
    kept = {f"q/routes-worker/source-0/batch-{batch}" for batch in (2, 3, 4)}
    assert files(tmp_path) == kept | {"q/routes-worker/source-1/batch-0"}


def test_columns_of_any_name_have_folders(route, tmp_path):
    columns = ["..", "a/b", "a=2Fb", "a%2Fb", "Größe", "worker"]
    for url in (tmp_path / "path", (tmp_path / "url").as_uri()):
        for column in columns:
            route(KEYS["a"], 0, column=column, state=url)
    assert files(tmp_path / "path") == files(tmp_path / "url")
    folders = {path.name for path in (tmp_path / "path" / "q").iterdir()}
    assert len(folders) == len(columns)
    assert {"routes-worker", "routes-a=2Fb", "routes-.."} <= folders


@pytest.mark.parametrize("missing", [{"batch": None}, {"query": None}])
def test_tasks_of_no_stream_are_refused(route, tmp_path, missing):
    with pytest.raises(
        RuntimeError, match=r"must belong to a streaming query, .* pyspark\.InheritableThread"
    ):
        route(KEYS["a"], **{"batch": 1, **missing})
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    "params", [ks.Fish(workers=5), ks.PartialKeyGrouping(workers=4), ks.Fish(workers=4, seed=1)]
)
def test_states_of_other_routers_are_refused(route, params):
    route(KEYS["a"], 0)
    name = f"{type(params).__name__} for {params.workers} workers"
    message = rf"state must be of {name}, .*/source-0/batch-0: snapshot is of another .* a new state folder"
    with pytest.raises(ValueError, match=message):
        route(KEYS["a"], 1, params=params)


def test_damaged_states_are_refused(route, tmp_path):
    route(KEYS["a"], 0)
    path = tmp_path / "q/routes-worker/source-0/batch-0"
    path.write_text(path.read_text()[:-9])
    with pytest.raises(ValueError, match=re.escape(f"got {path}: ")):
        route(KEYS["a"], 1)


def test_a_folder_that_is_not_the_driver_s_is_refused(route, tmp_path):
    states = states_in(str(tmp_path))
    assert route(KEYS["a"], 0) == FISH.router(source=0).route(KEYS["a"]).tolist()
    for other in (States(states.folder, "another mark"), States(str(tmp_path / "elsewhere"), states.mark)):
        with pytest.raises(
            RuntimeError, match=r"^state must be a folder that the driver and all executors share"
        ):
            router_of_task(FISH, other, "worker", None)
