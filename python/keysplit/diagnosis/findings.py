"""Find the stages that wait, from the events of a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from keysplit.diagnosis.adaptive import explain_adaptive
from keysplit.diagnosis.advice import Slow, advise, hot_side
from keysplit.diagnosis.causes import find_cause, find_spreads
from keysplit.diagnosis.events import SHUFFLE_RECORDS_WRITTEN, Events, Query, RecordedStage
from keysplit.diagnosis.model import Bounds, Finding, Spread, Stage, Tasks, share_of
from keysplit.diagnosis.operators import Gathering, find_gathering, is_placed_by_keysplit, sides
from keysplit.diagnosis.plan import Fragment, Operator, fragment_of, fragments
from keysplit.diagnosis.settings import SPREAD_NULLS, knows, limit_of_window, spreads_nulls
from keysplit.diagnosis.verdict import advise_without_rows, write_verdict
from keysplit.diagnosis.waiting import (
    LEAST_SHARE,
    balanced_s,
    slots_of,
    span_s,
    waited_for,
    waiting_core_s,
)


def list_stages(events: Events) -> list[Stage]:
    """Return the stages that ran tasks, in the order in which they started."""
    ran = [make_stage(events, each) for each in events.stages.values() if each.ran]
    return sorted(ran, key=lambda stage: (stage.start_s, stage.id, stage.attempt))


def list_findings(events: Events) -> list[Finding]:
    """Return the findings, those with the largest saving first; a stream's batches count as one finding."""
    found = filter(None, (_find(events, stage, others) for stage, others in stages_of_interest(events)))
    return sorted(_by_stream(found), key=lambda finding: -(finding.saved_s.high * finding.times))


def stages_of_interest(events: Events) -> Iterator[tuple[RecordedStage, np.ndarray]]:
    """Return the stages with known tasks, each with the start, end and work of all other stages, in ms."""
    ran = [stage for stage in events.stages.values() if stage.ran]
    intervals = np.array([(each.start_ms, each.end_ms, each.work_ms) for each in ran]).reshape(-1, 3)
    for at, stage in enumerate(ran):
        if stage.columns is not None:
            yield stage, np.delete(intervals, at, axis=0)


def make_stage(events: Events, of: RecordedStage) -> Stage:
    """Return a stage for display."""
    return Stage(
        id=of.id,
        attempt=of.attempt,
        name=of.name,
        start_s=(of.start_ms - events.start_ms) / 1000,
        end_s=(of.end_ms - events.start_ms) / 1000,
        tasks=of.ran - len(of.unended),
        named=max(of.tasks, of.ran),
        state=_state_of(events, of),
        running=len(of.unended),
        running_s=of.running_ms / 1000,
        work_s=of.work_ms / 1000,
        slots=slots_of(of) if of.columns is not None else min(of.cores, of.ran),
    )


def _state_of(events: Events, stage: RecordedStage) -> str:
    if stage.failure and stage.unended:
        return "cancelled"
    return "ended" if stage.over else "stopped" if events.ended else "running"


def _find(events: Events, stage: RecordedStage, others: np.ndarray) -> Finding | None:
    slowest = waited_for(stage)
    if slowest is None:
        return None
    query = query_of(events, stage)
    balanced, took = balanced_s(stage), span_s(stage)
    waiting, overlapped = waiting_core_s(stage, others)
    query_s = seconds_of(events, stage, query)
    saved = Bounds(max(took - balanced.high - overlapped, 0.0), took - balanced.low)
    stage.share = min(saved.high, waiting / slots_of(stage)) / query_s
    if stage.share < LEAST_SHARE:
        return None
    fragment, gathering = gathering_of(events, stage)
    if stage.unended == {int(stage.array("index")[slowest])}:
        _fill_rows(events, stage, slowest, fragment)
    used, total = stage.accumulators_of(slowest), stage.accumulators
    written = events.written if stage.unended == {int(stage.array("index")[slowest])} else {}
    read = [_read(side, used, total, stage.ran, written) for side in _sides(gathering)]
    spreads = find_spreads(stage, slowest)
    if gathering.kind == "scan" and (rows := _rows_of(gathering, used, total, stage.ran)) is not None:
        spreads["records"] = rows
    matches = _matches(gathering, used, total, stage.ran)
    cause = find_cause(events, stage, slowest, spreads, matches)
    executor = events.executors[stage.array("executor")[slowest]]
    conf = {**events.conf, **(query.conf if query else {}), **stage.conf}
    adaptive, excess = "", [rows for _, _, rows in read]
    if not any(excess):  # Spark's status store has only the bytes
        excess = [max(hot - others, 0.0) for hot, others, _ in read]
    if cause in ("rows", "matches", "lost"):
        slow = Slow(
            cause=cause,
            workers=max(stage.tasks, stage.ran),
            slots=slots_of(stage),
            share=share_of(spreads),
            excess=[] if cause == "lost" else excess,
            stream=stage.stream is not None,
            ours=is_placed_by_keysplit(fragment),
        )
        advice = advise(gathering, slow)
        if cause == "lost":
            why = f"If its memory ran out, {advice.action}"
            advice = advice._replace(
                action="look at why the executor of the slowest task was lost",
                why=". ".join(filter(None, [why, advice.why])),
            )
        else:
            is_tried = knows(events.version) and not slow.ours
            adaptive, switch = explain_adaptive(gathering, fragment, conf, [each[:2] for each in read])
            setting, why = _setting(gathering, fragment, conf, events.version, excess, spreads)
            setting, why = (f"set {switch} first", "") if switch else (setting, why)
            advice = advice.after(setting, why) if setting and is_tried else advice
    else:
        advice = advise_without_rows(events, stage, slowest, cause)
    finding = Finding(
        stage=make_stage(events, stage),
        query=_describe(stage, query),
        query_id=stage.query,
        stream=stage.stream,
        operator=gathering.kind,
        node=gathering.node.name.split("(")[0].strip() if gathering.node else stage.name,
        columns=gathering.columns,
        cause=cause,
        spreads=spreads,
        task=int(stage.array("index")[slowest]),
        executor=executor,
        waiting_core_s=waiting,
        query_s=query_s,
        balanced_s=Bounds(query_s - saved.high, query_s - saved.low),
        adaptive=adaptive,
        verdict="",
        details="",
        line=advice.line,
        tasks=_tasks(events, stage),
    )
    verdict, details = write_verdict(finding, advice, matches)
    return replace(finding, verdict=verdict, details=details)


def _setting(
    gathering: Gathering,
    fragment: Fragment | None,
    conf: Mapping[str, str],
    version: str,
    excess: Sequence[float],
    spreads: Mapping[str, Spread],
) -> tuple[str, str]:
    """Return a Spark setting that may help and why, not counting settings of adaptive execution."""
    if spreads_nulls(gathering, hot_side(gathering, excess), conf, version):
        why = "Spark then spreads the rows whose key is null, which match nothing"
        return f"set {SPREAD_NULLS}=true if the hot key is null", why
    if fragment is not None and "records" in spreads:
        setting, why = limit_of_window(gathering, fragment, conf, spreads["records"].slowest)
        return f"set {setting} first" if setting else "", why
    return "", ""


def gathering_of(events: Events, stage: RecordedStage) -> tuple[Fragment | None, Gathering]:
    """Return the fragment that a stage runs (None if unknown), and its operator that gathers rows by key."""
    plan = events.queries[stage.query].plan if stage.query in events.queries else None
    if plan is None:
        fragment = None
    elif stage.accumulators or stage.over:
        fragment = fragment_of(plan, set(stage.accumulators))
    else:
        fragment = _next_fragment(events, plan)
    return fragment, find_gathering(fragment, writes=bool(stage.array("output_bytes").any()))


def _next_fragment(events: Events, plan: Operator) -> Fragment | None:
    """Return the plan's fragment that is running: only its inputs are written. None if there are several."""

    def is_written(shuffle: Operator) -> bool:
        counts = [id_ for id_, name in shuffle.metrics.items() if name == SHUFFLE_RECORDS_WRITTEN]
        return any(id_ in events.written for id_ in counts)

    found = [
        each
        for each in fragments(plan)
        if all(map(is_written, each.inputs)) and not (each.output is not None and is_written(each.output))
    ]
    return found[0] if len(found) == 1 else None


def _fill_rows(events: Events, stage: RecordedStage, at: int, fragment: Fragment | None) -> None:
    """Note the input of the only task without an end: the shuffled rows that no other task has read."""
    if fragment is None or not fragment.inputs or any("skewed" in each.text for each in fragment.operators):
        return
    written = {
        id_
        for each in fragment.inputs
        for id_, name in each.metrics.items()
        if name == SHUFFLE_RECORDS_WRITTEN
    }
    if (
        len(written) == len(fragment.inputs)
        and written <= events.written.keys()
        and stage.columns is not None
    ):
        left = sum(events.written[id_] for id_ in written) - sum(stage.columns["records"])
        stage.columns["records"][at] = max(left, 0)


def query_of(events: Events, stage: RecordedStage) -> Query | None:
    """Return the query the user started, which may have started this one."""
    query = events.queries.get(stage.query) if stage.query is not None else None
    root = events.queries.get(query.root) if query is not None and query.root is not None else None
    return root or query


def seconds_of(events: Events, stage: RecordedStage, query: Query | None) -> float:
    """Return how long a query took, but not less than this stage took."""
    if query is None:
        return span_s(stage)
    end = query.end_ms if query.end_ms is not None else events.end_ms
    return max((end - query.start_ms) / 1000, span_s(stage))


def _describe(stage: RecordedStage, query: Query | None) -> str:
    if stage.stream is not None:
        name = stage.description.split("\n")[0].strip()  # the query's, if it has one
        return f"stream {stage.stream[:8] if not name or ' = ' in name else name}, batch {stage.batch}"
    text = stage.description or (query.description if query else "") or stage.name
    return " ".join(text.split())


def _sides(gathering: Gathering) -> list[list[Operator]]:
    joins = gathering.kind == "join" or (gathering.kind, gathering.detail) == ("stateful stream", "join")
    return sides(gathering.node) if joins and gathering.node is not None else []


def _read(
    shuffles: Iterable[Operator],
    used: Mapping[int, int],
    total: Mapping[int, int],
    tasks: int,
    written: Mapping[int, int],
) -> tuple[float, float, float]:
    """Return the slowest task's shuffle bytes, the other tasks' shuffle bytes, and its surplus of rows.

    If only the slowest task has no end, it reads everything written that no other task has read.
    """
    ids = {id_: name for each in shuffles for id_, name in each.metrics.items()}
    of_bytes = [id_ for id_, name in ids.items() if name in ("local bytes read", "remote bytes read")]
    hot = float(sum(used.get(id_, 0) for id_ in of_bytes))
    rest = float(sum(total.get(id_, 0) for id_ in of_bytes)) - hot
    of_rows = [id_ for id_, name in ids.items() if name == "records read"]
    rows, all_rows = (float(sum(of.get(id_, 0) for id_ in of_rows)) for of in (used, total))
    if rest_of := sum(written.get(id_, 0) for id_, name in ids.items() if name == SHUFFLE_RECORDS_WRITTEN):
        rows = max(rest_of - all_rows, 0.0)
        all_rows += rows
    others = max(tasks - 1, 1)
    return hot, max(rest, 0.0) / others, max(rows - max(all_rows - rows, 0.0) / others, 0.0)


def _matches(
    gathering: Gathering, used: Mapping[int, int], total: Mapping[int, int], tasks: int
) -> tuple[float, float]:
    return _output_rows(gathering, used, total, tasks) if gathering.kind == "join" else (0.0, 0.0)


def _output_rows(
    gathering: Gathering, used: Mapping[int, int], total: Mapping[int, int], tasks: int
) -> tuple[float, float]:
    """Return how many rows the operator returned in the slowest task, and on average in the other tasks."""
    if gathering.node is None:
        return 0.0, 0.0
    # The conversion of batches to rows counts the rows of its input again.
    ids = [id_ for id_, name in gathering.node.metrics.items() if name == "number of output rows"]
    hot, all_ = (float(max((of.get(id_, 0) for id_ in ids), default=0)) for of in (used, total))
    return hot, max(all_ - hot, 0.0) / max(tasks - 1, 1)


def _rows_of(
    gathering: Gathering, used: Mapping[int, int], total: Mapping[int, int], tasks: int
) -> Spread | None:
    """Return the rows that a scan returned, with the mean as the median: for a cache Spark counts batches."""
    hot, others = _output_rows(gathering, used, total, tasks)
    return Spread(hot, others, hot, hot + others * (tasks - 1)) if hot or others else None


def _tasks(events: Events, stage: RecordedStage) -> Tasks:
    order = np.argsort(stage.array("launch_ms"), kind="stable")
    return Tasks(
        start_s=(stage.array("launch_ms")[order] - events.start_ms) / 1000,
        end_s=(stage.array("finish_ms")[order] - events.start_ms) / 1000,
        bytes=stage.array("bytes")[order],
        records=stage.array("records")[order],
    )


def _by_stream(found: Iterable[Finding]) -> list[Finding]:
    """Merge the findings from several batches of a stream into the worst batch's finding."""
    groups: dict[object, list[Finding]] = {}
    for each in found:
        same = (each.stream, each.operator, each.columns, each.cause) if each.stream else id(each)
        groups.setdefault(same, []).append(each)
    return [
        replace(
            max(some, key=lambda each: each.saved_s.high),
            times=len(some),
            waiting_core_s=sum(each.waiting_core_s for each in some),
        )
        if len(some) > 1
        else some[0]
        for some in groups.values()
    ]
