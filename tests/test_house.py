"""The house: what importing brings, one version for all, and that what the documentation shows is true."""

import ast
import doctest
import graphlib
import importlib.metadata
import re
import runpy
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import keysplit as ks
from keysplit.groupings import overview
from reference import MODELS

ROOT = Path(__file__).parent.parent
HEAVY = (
    "pyspark",
    "pyarrow",
    "pandas",
    "matplotlib",
    "plotly",
    "click",
    "rich",
    "jinja2",
    "polars",
    "prometheus_client",
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(code: str) -> list[str]:
    """The words that a fresh interpreter prints for this code."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    return answer.stdout.split()


def test_import_brings_nothing_heavy() -> None:
    code = f"import sys, keysplit; print(*[name for name in {HEAVY} if name in sys.modules])"
    assert run(code) == []


def test_routing_lists_and_numpy_brings_nothing_heavy() -> None:
    code = (
        "import sys, numpy, keysplit as ks; router = ks.DChoices(workers=4).router()\n"
        "router.route(['a', None]); router.route(numpy.arange(3)); ks.streams.zipf(1.0, 10, 10, 1)\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules])"
    )
    assert run(code) == []


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "python/keysplit").rglob("*.py")),
    ids=lambda path: str(path.relative_to(ROOT / "python")),
)
def test_only_the_spark_parts_import_pyspark_and_none_the_experiments(path: Path) -> None:
    found = {name.split(".")[0] for name in imported(path)}
    assert "keysplit_experiments" not in found, "the experiments need keysplit, not the other way round"
    allowed = path.relative_to(ROOT / "python/keysplit").parts[0] in ("spark", "demo")
    assert allowed or "pyspark" not in found


PACKAGE = ROOT / "python/keysplit"
FILES = {
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for file in [*PACKAGE.rglob("*.py"), PACKAGE / "_core.pyi"]
}


def imported(path: Path) -> set[str]:
    """All names that a file imports, at whatever place: in functions, for types, and by name.

    Of a name that is made at run time its start counts, and where that is unknown all names in the file.
    """
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: write the whole name of what is imported"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else node.module for name in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in IMPORTERS:
            match node.args[0]:
                case ast.Constant(str(name)):
                    found.add(name)
                case ast.JoinedStr([ast.Constant(str(start)), *_]):
                    found |= {name for name in FILES if name.startswith(start)}
                case _:
                    texts = (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant))
                    found |= {text for text in texts if isinstance(text, str) and text in FILES}
    return found


IMPORTERS = ("import_module", "__import__")
GRAPH = {name: (imported(file) & set(FILES)) - {name} for name, file in FILES.items()}


def test_imports_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from keysplit import runs\nif TYPE_CHECKING:\n    import keysplit.text\n"
        "def f():\n    from keysplit.plan.drift import Drift\n    import_module('keysplit.streams')\n"
        "    importlib.import_module(f'keysplit.kafka.{name}')\n",
        encoding="utf-8",
    )
    kafka = {name for name in FILES if name.startswith("keysplit.kafka.")}
    assert kafka
    known = {"keysplit.runs", "keysplit.text", "keysplit.plan.drift", "keysplit.streams"}
    assert imported(path) == known | kafka
    path.write_text("NAMES = ['keysplit.runs']\n__import__(NAMES[0])", encoding="utf-8")
    assert imported(path) == {"keysplit.runs"}


def test_modules_form_no_circle() -> None:
    """Not even through imports inside functions, for types or by name."""
    assert GRAPH["keysplit.comparison"] >= {"keysplit.runs", "keysplit.results", "keysplit.simulation"}
    graphlib.TopologicalSorter(GRAPH).prepare()  # raises an error that names the circle


# The rooms, from the lowest to the highest: each imports only what stands before it.
LAYERS = (
    *("_core", "text", "paths", "extras", "progress", "metrics", "groupings", "show", "plan"),
    *("streams", "runs", "results", "simulation", "profiling", "comparison", "diagnosis"),
    *("keysplit", "kafka", "spark", "demo", "cli", "__main__"),
)


def room(module: str) -> str:
    return [*module.split("."), module][1] if module != "keysplit" else module


def test_rooms_import_downwards_only() -> None:
    assert {room(module) for module in GRAPH} == set(LAYERS)
    upwards = [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if room(module) != room(other) and LAYERS.index(room(module)) < LAYERS.index(room(other))
    ]
    assert upwards == []


def test_plans_know_no_spark() -> None:
    """Producers use plans as Spark jobs do."""
    seen, waiting = set(), [name for name in GRAPH if room(name) == "plan"]
    assert waiting
    while waiting:
        module = waiting.pop()
        seen.add(module)
        waiting += GRAPH[module] - seen
    assert [name for name in seen for each in imported(FILES[name]) if each.split(".")[0] == "pyspark"] == []


def test_what_draws_knows_no_result() -> None:
    """Results build their own views, which are plain data."""
    known = {room(other) for module in GRAPH if room(module) == "show" for other in GRAPH[module]}
    assert known <= {"show", "text", "paths", "extras", "_core"}


# The lines of Python in each room, which may only fall: lower the number when you have deleted some.
LINES = {
    "keysplit": 1_744,
    "cli": 1_074,
    "demo": 500,
    "diagnosis": 4_031,
    "groupings": 1_086,
    "kafka": 620,
    "plan": 1_959,
    "profiling": 1_555,
    "show": 1_320,
    "spark": 3_640,
    "spark/apply": 595,
    "spark/counting": 620,
    "spark/expr": 484,
    "spark/identity": 2_014,
    "spark/join": 879,
    "spark/online": 537,
    "spark/ordered": 2_382,
    "spark/slices": 965,
    "spark/streaming": 5_493,
    "streams": 719,
}


def test_no_room_grows() -> None:
    found = Counter[str]()
    for file in PACKAGE.rglob("*.py"):
        folders = file.relative_to(PACKAGE).parts[:-1]
        name = "/".join(folders[: 2 if folders[:1] == ("spark",) else 1]) or "keysplit"
        found[name] += len(file.read_text(encoding="utf-8").splitlines())
    grown = {name: (lines, LINES.get(name, 0)) for name, lines in found.items() if lines > LINES.get(name, 0)}
    assert grown == {}, "these rooms have more lines than they may have"
    assert [name for name in LINES if name not in found] == [], "these rooms are gone"


def test_one_version() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    assert ks.__version__ == workspace["version"]
    assert importlib.metadata.version("keysplit") == workspace["version"]
    experiments = tomllib.loads((ROOT / "experiments/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert experiments["version"] == workspace["version"]
    lists = [experiments["dependencies"], *experiments["optional-dependencies"].values()]
    own = [each for needs in lists for each in needs if re.match(r"keysplit\b", each)]
    assert own
    assert [each for each in own if not each.endswith(f"=={workspace['version']}")] == []
    assert f"\nversion: {workspace['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'  version: "{workspace["version"]}"\n' in (ROOT / "conda/recipe.yaml").read_text(
        encoding="utf-8"
    )
    assert f"\n## [{workspace['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_public_names_are_there() -> None:
    assert [name for name in ks.__all__ if not hasattr(ks, name)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_on_the_page_are_true(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ">>> " not in EXAMPLES.sub("", text), "an example that is not in a pycon block would not be run"
    # one after another in one namespace, with the lines kept where they are for the error messages
    blanked = list(re.sub(r"[^\n]", " ", text))
    for block in EXAMPLES.finditer(text):
        blanked[block.start(1) : block.end(1)] = block[1]
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    page = doctest.DocTestParser().get_doctest("".join(blanked), {}, path.name, str(path), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=flags).run(page, out=report.append)
    assert result.failed == 0, "".join(report)


def test_each_grouping_has_a_page_of_its_own() -> None:
    for name, kind in ks.GROUPINGS.items():
        page = (ROOT / f"docs/groupings/{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name}: ")
        for part in (
            "**Idea.**",
            "| Guarantee |",
            "| Cost per message |",
            "| Memory, ",
            "**Use it**",
            "**Do not use it**",
        ):
            assert part in page
        for part in (
            "**Source.**",
            "**Deviations",
            f"](../../tests/reference/{name}.py)",
            "](../../rust/core/src/",
        ):
            assert part in page
        row = next(line for line in page.splitlines() if line.startswith("| Parameters |"))
        own = [field for field in fields(kind) if field.name not in ("workers", "seed")]
        parameters = {"workers", "seed", *(f"{field.name} = {shown(field.default)}" for field in own)}
        assert set(re.findall(r"`(.*?)`", row)) == parameters


def shown(default: object) -> str:
    """A default as the pages write it."""
    return {1e-4: "1e-4", 10_000: "10_000", 16_384: "16_384", 50_000: "50_000"}.get(default, repr(default))


LISTS = [
    *("python/keysplit/groupings/__init__.py", "python/keysplit/__init__.py"),
    *("docs/groupings/index.md", "docs/api/groupings.md", "mkdocs.yml"),
]


def test_all_lists_of_groupings_are_those_of_the_registry() -> None:
    script = runpy.run_path(str(ROOT / "scripts/registry"))
    assert list(script["FILES"]) == LISTS
    for name, write in script["FILES"].items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert write(text) == text, f"{name} is out of date: run make registry"
        # a grouping that is in no list is put where it belongs
        row = (
            r"(\| \[?`fish`|from keysplit\.groupings\.fish|    \"?Fish|::: .*\.Fish|      - fish: groupings)"
        )
        without = "".join(line for line in text.splitlines(keepends=True) if not re.match(row, line))
        assert without != text
        assert write(without) == text


def test_each_grouping_has_its_four_places() -> None:
    for name, kind in ks.GROUPINGS.items():
        assert kind.__module__ == f"keysplit.groupings.{name}"
        assert MODELS[name].__name__ == kind.__name__
        rust = ROOT / "rust/core/src/groupings"
        named = "".join(file.read_text(encoding="utf-8") for file in rust.rglob("*.rs"))
        assert f'"{name}"' in named
        assert (ROOT / f"docs/groupings/{name}.md").is_file()


@pytest.mark.parametrize("kind", ks.GROUPINGS.values(), ids=list(ks.GROUPINGS))
def test_groupings_say_of_themselves_what_is_true(kind: type[ks.Grouping]) -> None:
    assert kind.paper
    assert set(kind.adapts_to) <= {"skew", "drift", "unequal workers", "changing workers"}
    assert ("changing workers" in kind.adapts_to) == kind.elastic
    assert set(kind.feedback) <= {"busy", "idle", "service_time_s", "loads"}
    assert ("skew" in kind.adapts_to) == (kind.workers_per_key not in ("1", "2")), "skew takes splitting"
    assert ("unequal workers" in kind.adapts_to) == bool({"busy", "service_time_s"} & set(kind.feedback))


def titles() -> tuple[str, ...]:
    """The titles in CITATION.cff, whole and without what follows a colon, in small letters."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8").casefold()
    whole = re.findall(r'^    title: "(.*)"$', text, re.MULTILINE)
    return (*whole, *(title.split(":")[0] for title in whole))


@pytest.mark.parametrize("name", ks.GROUPINGS)
def test_the_papers_of_a_grouping_are_cited(name: str) -> None:
    source = overview.describe(name)["source"].casefold()
    # a title ends where its place and year begin, in parentheses, or (without those) the section
    papers = source.split(" (")[:-1] or source.split(", section")[:-1]
    assert papers
    assert [paper for paper in papers if not paper.endswith(titles())] == []
    page = (ROOT / f"docs/groupings/{name}.md").read_text(encoding="utf-8")
    assert_cited(re.findall(r"\*(.+?)\*", page.split("**Source.**")[1].split("\n\n")[0], re.DOTALL))


@pytest.mark.parametrize("kind", [ks.Router, ks.SpaceSaving])
def test_the_papers_of_a_class_are_cited(kind: type) -> None:
    assert kind.__doc__
    assert_cited(re.findall(r'"(.+?)"', kind.__doc__.split("Source:")[1].split("\n\n")[0], re.DOTALL))


def assert_cited(papers: list[str]) -> None:
    assert papers
    assert [paper for paper in papers if " ".join(paper.split()).casefold() not in titles()] == []


def test_every_public_name_is_on_a_page_of_the_api() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.md"))
    shown = {line.rsplit(".", 1)[1] for line in re.findall(r"^::: (.+)$", text, re.MULTILINE)}
    public = {*ks.__all__, *ks.metrics.__all__, *ks.streams.__all__} - {"__version__", "metrics", "streams"}
    assert public - shown == set()
    assert "_core" not in shown, "it has private functions, too"


LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.parametrize(
    "path",
    [*PAGES, *ROOT.glob("[A-Z]*.md"), ROOT / "experiments/README.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_to_files_lead_somewhere(path: Path) -> None:
    targets = [match[1] for match in LINK.finditer(path.read_text(encoding="utf-8"))]
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


def test_locks_name_packages_only() -> None:
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    assert locks
    for lock in locks:
        lines = lock.read_text(encoding="utf-8").splitlines()
        wrong = [line for line in lines if not re.fullmatch(r"#.*|[a-z0-9-]+==[^ ]+( ; .+)?", line)]
        assert wrong == [], f"{lock.name}: an index, a link or a package that is not pinned"
        assert not re.search(r"https?://", "".join(lines))


PRIVATE = re.compile(
    r"\b_j(c|df|map|rdd|reader|sc|sparkSession|vm|write)\b|py4j|pyspark\.sql\.connect"
    r"|\b_(sc|expr|explain_string|gateway|to_proto)\b|\bcloudpickle\b|pyspark\.(util|worker)\b"
)


def test_few_files_name_what_spark_keeps_private() -> None:
    spark = ROOT / "python/keysplit/spark"
    naming = {
        str(path.relative_to(spark))
        for path in spark.rglob("*.py")
        if PRIVATE.search(path.read_text(encoding="utf-8"))
    }
    assert naming == {
        "executors.py",
        "jvm.py",
        "recorded.py",
        "identity/sources.py",
        "ordered/parse.py",
        "slices/conversion.py",
        "streaming/engine.py",
        "streaming/tally.py",
    }


REGISTERED = re.compile(r"pip install (?:-\S+ )*['\"]?keysplit(?!-[^\s'\"`]*\.whl)[^\s]*")


def test_nothing_says_to_install_keysplit_by_its_bare_name() -> None:
    """It is in no registry: whoever takes the name there would have their code run."""
    folders = ("python", "docs", "examples", "experiments", "scripts")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.*"))]
    files = [path for path in files if path.suffix in (".py", ".md", ".ipynb")] + [ROOT / "README.md"]
    naming = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        for match in REGISTERED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert naming == []
