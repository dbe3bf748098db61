"""The simulator, one message at a time: the executable form of docs/simulation.md."""

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import MODELS
from .hashing import domain, hash_key, mix
from .model import Model


@dataclass(frozen=True)
class AddWorker:
    position: int
    capacity: float = 1.0


@dataclass(frozen=True)
class RemoveWorker:
    position: int
    worker: int


@dataclass(frozen=True)
class SetCapacity:
    position: int
    worker: int
    capacity: float


Event = AddWorker | RemoveWorker | SetCapacity


@dataclass(frozen=True)
class Timing:
    """The parameters of the timing model."""

    service_time_s: float | Sequence[float]
    capacities: Sequence[float] | None = None
    arrival_rate_per_s: float | None = None
    in_flight: int | None = None
    feedback_interval_s: float = 1.0
    busy_above: float = 0.85
    idle_below: float = 0.75


@dataclass
class Sample:
    messages: int
    imbalance: float
    queue: list[float]
    latency_s: list[float]


@dataclass
class Result:
    messages: int
    loads: list[float]
    samples: list[Sample]
    mean_imbalance: float
    distinct_keys: int
    memory: int
    replication: float
    exact_keys: bool
    makespan_s: float | None = None
    throughput_per_s: float | None = None
    utilisation: list[float] | None = None
    latency_s: dict[str, float] | None = None


def simulate(
    name: str,
    params: dict[str, Any],
    keys: Sequence[Any],
    *,
    weights: list[float] | None = None,
    sources: int = 1,
    seed: int = 0,
    timing: Timing | None = None,
    events: Sequence[Event] = (),
    samples: int = 100,
    length_known: bool = True,
    most_keys: int = 10_000_000,
    most_groups: int = 100_000_000,
) -> Result:
    weights = [1.0] * len(keys) if weights is None else weights
    routers = [MODELS[name](source=source, **params) for source in range(sources)]
    segment = getattr(routers[0], "segment_messages", 1)
    answers: list[list[int]] = [[] for _ in routers]  # what each source has routed of what is to come
    loads = Loads(sources, routers[0].workers)
    queues = None if timing is None else Queues(timing, routers[0].workers)
    replicas = Replicas(seed, most_keys, most_groups)
    taken: list[Sample] = []
    stride = 1

    for t, (key, weight) in enumerate(zip(keys, weights, strict=True)):
        now = None if queues is None else queues.arrive(t)
        for event in events:
            if event.position == t:
                happen(event, routers, loads, queues)
        if queues is not None:
            queues.give_feedback(routers, loads)

        source = t % sources
        if not answers[source]:
            own = slice(t, t + segment * sources, sources)
            answers[source] = routers[source].route_batch(keys[own], weights[own], now)
        worker = answers[source].pop(0)

        loads.send(source, worker, weight)
        replicas.meet(hash_key(key, routers[0].seed), worker)
        if queues is not None:
            queues.serve(worker, weight)

        count = t + 1
        if length_known:
            due = any(count == -(-k * len(keys) // samples) for k in range(1, samples + 1))
        else:
            due = samples > 0 and (count % stride == 0 or count == len(keys))
        if due:
            queue, latency_s = ([], []) if queues is None else queues.sample()
            taken.append(Sample(count, imbalance(loads.all()), queue, latency_s))
            if not length_known and len(taken) == 2 * samples:
                taken = taken[1::2]
                stride *= 2

    if queues is not None:
        for sample in taken:  # before a number was given
            later = len(queues.free) - len(sample.queue)
            sample.queue += [0.0] * later
            sample.latency_s += [math.nan] * later
    return Result(
        messages=len(keys),
        loads=loads.all(),
        samples=taken,
        mean_imbalance=mean(sample.imbalance for sample in taken) if taken else 0.0,
        **replicas.figures(),
        **({} if queues is None else queues.figures()),
    )


def happen(event: Event, routers: list[Model], loads: "Loads", queues: "Queues | None") -> None:
    match event:
        case AddWorker():
            numbers = {router.add_worker() for router in routers}
            (worker,) = numbers
            loads.add_worker(worker)
            if queues is not None:
                queues.add_worker(worker, event.capacity)
        case RemoveWorker():
            for router in routers:
                router.remove_worker(event.worker)
        case SetCapacity():
            assert queues is not None
            assert event.worker in routers[0].present
            queues.set_capacity(event.worker, event.capacity)


class Loads:
    """What each source, and all of them, have sent to each number."""

    def __init__(self, sources: int, workers: int) -> None:
        self.of_source = [[0.0] * workers for _ in range(sources)]

    def add_worker(self, worker: int) -> None:
        for loads in self.of_source:
            if worker == len(loads):
                loads.append(0.0)

    def send(self, source: int, worker: int, weight: float) -> None:
        self.of_source[source][worker] += weight

    def all(self) -> list[float]:
        return [added(loads) for loads in zip(*self.of_source, strict=True)]

    def of_others(self, source: int) -> list[float]:
        return [max(0.0, all - own) for all, own in zip(self.all(), self.of_source[source], strict=True)]


def imbalance(loads: list[float]) -> float:
    total = added(loads)
    return (max(loads) - total / len(loads)) / total if total > 0 else 0.0


class Replicas:
    """Which workers each key has met, of a sample of the keys where they are too many."""

    def __init__(self, seed: int, most_keys: int, most_groups: int) -> None:
        self.salt, self.most_keys, self.most_groups = domain(seed, 12), most_keys, most_groups
        self.level = 0
        self.workers_of: dict[int, set[int]] = {}

    def meet(self, h: int, worker: int) -> None:
        if worker in self.workers_of.get(h, ()):
            return
        while self.kept(h):
            workers_of = {key: set(workers) for key, workers in self.workers_of.items()}
            workers_of.setdefault(h, set()).add(worker)
            groups = {(key, met // 64) for key, workers in workers_of.items() for met in workers}
            if len(workers_of) <= self.most_keys and len(groups) <= self.most_groups:
                self.workers_of = workers_of
                return
            self.level += 1
            self.workers_of = {key: met for key, met in self.workers_of.items() if self.kept(key)}

    def kept(self, h: int) -> bool:
        return mix(h ^ self.salt) % 2**self.level == 0

    def figures(self) -> dict[str, Any]:
        keys, pairs = len(self.workers_of), sum(len(workers) for workers in self.workers_of.values())
        return {
            "distinct_keys": keys * 2**self.level,
            "memory": pairs * 2**self.level,
            "replication": pairs / keys if keys else math.nan,
            "exact_keys": self.level == 0,
        }


class Queues:
    """The timing model: arrivals, service, feedback."""

    def __init__(self, timing: Timing, workers: int) -> None:
        self.timing = timing
        if isinstance(timing.service_time_s, float):
            self.service_time_s = [timing.service_time_s] * workers
            self.newcomers_service_time_s = timing.service_time_s
        else:
            self.service_time_s = list(timing.service_time_s)
            self.newcomers_service_time_s = mean(timing.service_time_s)
        capacities = [1.0] * workers if timing.capacities is None else timing.capacities
        self.pace = [
            service_time_s / capacity
            for service_time_s, capacity in zip(self.service_time_s, capacities, strict=True)
        ]
        self.in_flight = 100 * workers if timing.in_flight is None else timing.in_flight
        self.unfinished: list[float] = []  # H
        self.now = 0.0
        self.free = [0.0] * workers
        self.busy = [0.0] * workers
        self.latencies: list[float] = []
        self.since_sample: list[list[float]] = [[] for _ in range(workers)]  # latencies of each number
        self.makespan_s = 0.0
        self.feedbacks = 0
        self.last_feedback = 0.0
        self.free_then = [0.0] * workers
        self.sent = [0.0] * workers

    # Arrivals and service

    def arrive(self, t: int) -> float:
        if self.timing.arrival_rate_per_s is not None:
            self.now = t / self.timing.arrival_rate_per_s
        elif len(self.unfinished) == self.in_flight:
            smallest = min(self.unfinished)
            self.unfinished.remove(smallest)
            self.now = max(self.now, smallest)
        return self.now

    def serve(self, worker: int, weight: float) -> None:
        start = max(self.now, self.free[worker])
        work = weight * self.pace[worker]
        finish = start + work
        self.free[worker] = finish
        self.busy[worker] += work
        self.sent[worker] += work
        self.unfinished.append(finish)
        self.makespan_s = max(self.makespan_s, finish)
        self.latencies.append(finish - self.now)
        self.since_sample[worker].append(finish - self.now)

    def queue(self, worker: int) -> float:
        if self.pace[worker] == 0:
            return 0.0
        return max(0.0, self.free[worker] - self.now) / self.pace[worker]

    # Events

    def add_worker(self, worker: int, capacity: float) -> None:
        if worker == len(self.free):
            for numbers in (
                self.service_time_s,
                self.pace,
                self.free,
                self.busy,
                self.free_then,
                self.sent,
            ):
                numbers.append(0.0)
            self.since_sample.append([])
        self.service_time_s[worker] = self.newcomers_service_time_s
        self.pace[worker] = self.service_time_s[worker] / capacity
        self.free[worker] = self.now
        self.free_then[worker] = self.sent[worker] = 0.0

    def set_capacity(self, worker: int, capacity: float) -> None:
        before, after = self.pace[worker], self.service_time_s[worker] / capacity
        self.pace[worker] = after
        if self.free[worker] > self.now:
            self.free[worker] = self.now + (self.free[worker] - self.now) * (after / before)

    # Feedback

    def give_feedback(self, routers: list[Model], loads: Loads) -> None:
        interval_s = self.timing.feedback_interval_s
        if self.now < (self.feedbacks + 1) * interval_s:
            return
        while (self.feedbacks + 1) * interval_s <= self.now:
            self.feedbacks += 1
        slot = self.now - self.last_feedback
        busy, idle = [], []
        for worker in routers[0].present:
            hand = max(0.0, self.free_then[worker] - self.last_feedback) + self.sent[worker]
            if hand / slot > self.timing.busy_above:
                busy.append(worker)
            if hand / slot < self.timing.idle_below:
                idle.append(worker)
        paces = [min(max(pace, 1e-12), 1e12) for pace in self.pace]
        for source, router in enumerate(routers):
            router.observe(
                now=self.now, busy=busy, idle=idle, service_time_s=paces, loads=loads.of_others(source)
            )
        self.last_feedback = self.now
        self.free_then = list(self.free)
        self.sent = [0.0] * len(self.sent)

    # Figures

    def sample(self) -> tuple[list[float], list[float]]:
        """The queue of each number, and the mean latency since the last sample."""
        queues = [self.queue(worker) for worker in range(len(self.free))]
        latencies = [mean(latencies) if latencies else math.nan for latencies in self.since_sample]
        self.since_sample = [[] for _ in self.since_sample]
        return queues, latencies

    def figures(self) -> dict[str, Any]:
        makespan_s, latencies = self.makespan_s, self.latencies
        latency_s = dict.fromkeys(("mean", "p50", "p95", "p99", "max"), math.nan)
        if latencies:
            latency_s = {
                "mean": mean(latencies),
                "p50": percentile(latencies, 0.5),
                "p95": percentile(latencies, 0.95),
                "p99": percentile(latencies, 0.99),
                "max": max(latencies),
            }
        return {
            "makespan_s": makespan_s,
            "throughput_per_s": len(latencies) / makespan_s if makespan_s > 0 else math.nan,
            "utilisation": [busy / makespan_s if makespan_s > 0 else 0.0 for busy in self.busy],
            "latency_s": latency_s,
        }


def percentile(values: list[float], q: float) -> float:
    ascending = sorted(cut(value) for value in values)
    return ascending[math.ceil(q * len(values)) - 1]


def cut(x: float) -> float:
    """The number with the 10 leading bits of its fraction."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", x))
    (value,) = struct.unpack("<d", struct.pack("<Q", bits & ~(2**42 - 1)))
    return value


def added(values: Iterable[float]) -> float:
    """The sum in the order given; Python's own `sum` is more exact."""
    total = 0.0
    for value in values:
        total += value
    return total


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return added(values) / len(values)
