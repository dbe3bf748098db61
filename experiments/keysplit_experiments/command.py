"""The command `keysplit reproduce`: reproduces the papers' experiments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keysplit.cli.errors import bad_input, bad_output, bad_usage
from keysplit.cli.options import in_range, writable

if TYPE_CHECKING:
    from keysplit_experiments.harness.experiment import Experiment
    from keysplit_experiments.harness.runner import Outcome

FOLDER = click.Path(path_type=Path, file_okay=False)
WIDTH = 100
FROM_KAFKA = "deployments/dynamic_key"
"""The deployment that needs a broker of Kafka."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Smaller streams and fewer cells: seconds per experiment.")
@click.option(
    "--data",
    type=FOLDER,
    envvar="KEYSPLIT_DATA",
    show_envvar=True,
    metavar="FOLDER",
    help="Folder with substitutes for the papers' real streams.",
)
@click.option(
    "--stream",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Parquet, CSV or text (a word is a key), in place of all real streams.",
)
@click.option("--key", metavar="COLUMN", help="Column of FILE that holds the keys.")
@click.option(
    "--out",
    type=FOLDER,
    default=Path("experiments-results"),
    show_default=True,
    metavar="FOLDER",
    help="Folder of figures and results; finished cells there are not measured again.",
)
@click.option("--fresh", is_flag=True, help="Also measure finished cells again.")
@click.option(
    "--jobs", type=int, callback=in_range(1), help="Cells measured in parallel; default: number of cores."
)
@click.option("--no-figures", is_flag=True, help="Draw no figures; matplotlib is then not needed.")
@click.option(
    "--docs",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=writable,
    metavar="PAGE",
    help="Write all results in the folder as pages of Markdown, one per paper, but for deployments.",
)
@click.option(
    "--docs-deployments",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=writable,
    metavar="PAGE",
    help="The same for deployments.",
)
def reproduce(
    names: tuple[str, ...],
    quick: bool,
    data: Path | None,
    stream: Path | None,
    key: str | None,
    out: Path,
    fresh: bool,
    jobs: int | None,
    no_figures: bool,
    docs: Path | None,
    docs_deployments: Path | None,
) -> None:
    """Reproduce the papers' experiments and check their claims.

    NAME is an experiment, a paper, `all` or `deployments`; without any, all experiments are listed. `all` are
    the simulated ones. Deployments run on Spark, and their cells one after the other. The results are a
    table, a verdict on each claim, and the paper's figure, in files in the folder --out.
    """
    from keysplit_experiments.deployments.engine.kafka import need_kafka
    from keysplit_experiments.deployments.engine.session import need_spark
    from keysplit_experiments.harness import deployed, figure, page, registry, runner
    from keysplit_experiments.harness.experiment import FULL, QUICK
    from keysplit_experiments.harness.inputs import Inputs
    from keysplit_experiments.harness.store import Store

    pages = {page.write: docs, deployed.write: docs_deployments}
    written = {write: path for write, path in pages.items() if path is not None}
    if not names and not written:
        _list()
        return
    scale = QUICK if quick else FULL
    store = Store(out, scale.name)
    try:
        with bad_usage():
            experiments = registry.chosen(names)
            if written or not no_figures:
                figure.need_matplotlib()
            if any(experiment.deploys for experiment in experiments):
                need_spark()
            if any(experiment.name == FROM_KAFKA for experiment in experiments):
                need_kafka()
            if data is not None and not data.is_dir():
                raise FileNotFoundError(f"data must be a folder, got {str(data)!r}")
            if key is not None and stream is None:
                raise ValueError("key goes with --stream FILE")
            inputs = Inputs(data, stream, key)
            if experiments:
                store.prepare()
        with bad_input():
            for experiment in experiments:
                if fresh:
                    store.forget(experiment)
                with _Progress(experiment.name) as progress:
                    outcome = runner.run(experiment, scale, inputs, store, jobs=jobs, progress=progress)
                drawn = None if no_figures else figure.draw(experiment, outcome.results)
                if drawn is not None:
                    paths = [store.path(experiment, suffix) for suffix in (".svg", ".png")]
                    with bad_output(paths[0]):
                        figure.save(drawn, *paths)
                _show(outcome, store.path(experiment, ".json" if drawn is None else ".png"))
            for write, path in written.items():
                with bad_output(path):
                    write(path, out)
                click.echo(f"Page: {path}")
    except KeyboardInterrupt as error:
        click.echo("keysplit: stopped; finished cells are kept, run the same command to continue", err=True)
        raise click.Abort from error


class _Progress:
    """The progress of one experiment, on a terminal only."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(name, total=None)

    def __enter__(self) -> _Progress:
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    def __call__(self, done: int, cells: int) -> None:
        self._progress.update(self._task, completed=done, total=cells)


def _list() -> None:
    from keysplit_experiments.harness import registry

    def show(experiments: Iterable[Experiment]) -> None:
        for experiment in experiments:
            click.echo(f"  {experiment.name:<{width}}  {experiment.label:<9} {experiment.title}")
        click.echo()

    width = max(map(len, [*registry.registered(), *registry.deployments()]))
    for paper in registry.papers().values():
        click.echo(f"{paper.title} ({paper.authors}, {paper.published})")
        show(registry.experiments_of(paper.slug).values())
    click.echo("The deployments of these papers, on Spark")
    show(registry.deployments().values())
    click.echo("`keysplit reproduce NAME` runs one, `keysplit reproduce all` runs all but deployments.")


def _show(outcome: Outcome, path: Path) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    experiment, results = outcome.experiment, outcome.results
    console = Console(highlight=False)
    console.width = max(WIDTH, console.width)
    console.print(f"[bold]{experiment.name}[/]  {escape(f'{experiment.label}: {experiment.title}')}")
    for symbol, what in results.streams.items():
        console.print(f"{symbol}: {escape(what)}")
    console.print(experiment.table(results).rich())
    claims = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("claim", "paper", "ours", "verdict"):
        claims.add_column(column, overflow="fold")
    for claim, judged, because in outcome.rows():
        verdict = "[green]holds[/]" if judged.holds else "[red]differs[/]"
        claims.add_row(
            escape(f"{claim.says} [{claim.where}]"),
            escape(claim.paper),
            escape(judged.ours),
            verdict + (escape(f", because {because}") if because else ""),
        )
    console.print(claims)
    console.print(f"[dim]{escape(str(path))}[/]\n")
