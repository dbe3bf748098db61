"""Runs experiments: cells in parallel, each stored as soon as it finishes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from keysplit_experiments.harness.experiment import (
    Cell,
    Claim,
    Experiment,
    Figures,
    Judged,
    Parameters,
    Results,
    Scale,
)
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.paper import Dataset
from keysplit_experiments.harness.registry import papers
from keysplit_experiments.harness.store import Store, key_of


@dataclass(frozen=True)
class Outcome:
    """A finished experiment: its results and the verdict on each claim."""

    experiment: Experiment
    results: Results
    verdicts: tuple[Judged, ...]

    def rows(self) -> Iterator[tuple[Claim, Judged, str]]:
        """Iterate over the claims: the verdict on each, and why it differs, empty if unknown."""
        for claim, verdict in zip(self.experiment.claims, self.verdicts, strict=True):
            yield claim, verdict, claim.because if self.results.standard and not verdict.holds else ""


def run(
    experiment: Experiment,
    scale: Scale,
    inputs: Inputs,
    store: Store,
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, cells: None,
) -> Outcome:
    """Measure the cells missing from the store, judge the claims, and write the results.

    Args:
        experiment: What to run.
        scale: The scale of the run.
        inputs: The source of the streams.
        store: The store of finished cells.
        jobs: Cells measured in parallel; default the number of cores. They run in threads: routing releases
            the interpreter. Those of a deployment are measured one after the other.
        progress: Called with the numbers of finished and of all cells, first before any is measured.

    Returns:
        The results, which depend only on the experiment, the scale and the streams.
    """
    cells = list(experiment.cells(scale))
    datasets = papers()[experiment.paper].datasets
    used = [_dataset(datasets, cell) for cell in cells]
    keys = [
        key_of(experiment, cell, inputs.identity(dataset) if dataset else [])
        for cell, dataset in zip(cells, used, strict=True)
    ]
    finished = store.finished(experiment)
    missing = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in finished}
    progress(len(set(keys)) - len(missing), len(set(keys)))

    def measure(key: str, parameters: Parameters) -> Figures:
        # as JSON types, so that stored and new figures are equal
        figures: Figures = json.loads(json.dumps(experiment.measure(inputs, **parameters)))
        # here, so that cells running when the run is stopped are also stored: it waits for them anyway
        store.keep(experiment, key, Cell(parameters, figures))
        return figures

    with ThreadPoolExecutor(1 if experiment.deploys else jobs or cores()) as pool:
        waiting: dict[Future[Figures], str] = {
            pool.submit(measure, key, cell): key for key, cell in missing.items()
        }
        try:
            for future in as_completed(waiting):
                finished[waiting[future]] = future.result()
                progress(len(set(keys) & finished.keys()), len(set(keys)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    results = Results(
        [Cell(cell, finished[key]) for key, cell in zip(keys, cells, strict=True)],
        scale.name,
        {dataset.symbol: inputs.describe(dataset) for dataset in dict.fromkeys(filter(None, used))},
        standard=scale.full and all(inputs.standard(dataset) for dataset in filter(None, used)),
    )
    outcome = judged(experiment, results)
    store.write(experiment, results, outcome.rows())
    return outcome


def judged(experiment: Experiment, results: Results) -> Outcome:
    """Check every claim of an experiment against results."""
    return Outcome(experiment, results, tuple(claim.judge(results) for claim in experiment.claims))


def cores() -> int:
    """Count the cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dataset(datasets: Mapping[str, Dataset], cell: Parameters) -> Dataset | None:
    symbol = cell.get("stream")
    if symbol is None:
        return None
    if symbol not in datasets:
        raise ValueError(f"stream must be one of {', '.join(datasets)}, got {symbol!r}")
    return datasets[symbol]
