"""When loads are level, which grouping to take, and how that is said: what every profile goes by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from keysplit.simulation import SimulationResult

__all__ = ["LEVEL", "Outcome", "busiest", "figure", "outcome", "recommend", "shown", "times", "verdict"]

# Loads are level if the busiest worker has at most so many times the mean: its stage then ends at most a
# tenth later than it could, which the start of tasks and the noise of the machines hide.
LEVEL = 1.1

_LETTERS = 60  # of a key are shown


class Outcome(NamedTuple):
    """What a grouping does to the loads, and at what price.

    Attributes:
        busiest: the load of the busiest worker, in multiples of the mean.
        copies: copies of keys beyond one each: so many more partial results are to be merged.
    """

    busiest: float
    copies: int


def recommend(now: float, outcomes: Mapping[str, Outcome]) -> str | None:
    """Choose the grouping with the fewest copies of keys among the level ones, or else the most even one.

    Args:
        now: the busiest worker of hash grouping, in multiples of the mean.
        outcomes: what each grouping would do, by its name; among equal ones the first is taken.

    Returns:
        A name; None if hash grouping is level, or if its busiest worker has at most 1.1 times
        that of the best.

    Source: none. Deviations: none.

    Example:
        >>> recommend(7.3, {"partial_key": Outcome(3.7, 900), "d_choices": Outcome(1.01, 1200)})
        'd_choices'
    """
    if now <= LEVEL or not outcomes:
        return None

    def rank(name: str) -> tuple[float, ...]:
        of = outcomes[name]
        return (0, of.copies, of.busiest) if of.busiest <= LEVEL else (1, of.busiest, of.copies)

    best = min(outcomes, key=rank)
    return best if outcomes[best].busiest * LEVEL < now else None


def shown(key: Any) -> str:
    """Return a key as text on one line, null without quotes and strings in quotes, of long ones the start."""
    if isinstance(key, tuple) and not hasattr(key, "asDict"):
        return ", ".join(map(shown, key))
    if key is None:
        return "null"
    if not isinstance(key, str | bytes | bytearray):
        return str(key)
    return repr(key) if len(key) <= _LETTERS else f"{key[:_LETTERS]!r}..., {len(key):,} long"


def busiest(result: SimulationResult) -> float:
    """Return the load of the busiest worker, in multiples of the mean."""
    return 1 + result.relative_imbalance


def outcome(result: SimulationResult) -> Outcome:
    """Return what a simulation found, as `recommend` takes it."""
    return Outcome(busiest(result), result.memory - result.distinct_keys)


def times(ratio: float) -> str:
    """Return how many times the mean as text."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


def figure(imbalance: float) -> str:
    """Return an imbalance as text: three decimals, or two digits of a small one."""
    if not imbalance:
        return "0"
    return f"{imbalance:.3f}" if imbalance >= 0.01 else f"{imbalance:.1e}"


def verdict(
    hashed: SimulationResult, better: SimulationResult | None, key: Any = None, share: float | None = None
) -> str:
    """Say what to do, with the figures that say so.

    Args:
        hashed: what hash grouping did.
        better: what the recommended grouping did, None if there is none.
        key: the most frequent key.
        share: its part of the messages, None if it is not known.

    Returns:
        One line.
    """
    now = f"hash grouping's busiest worker has {times(busiest(hashed))} times the mean"
    if busiest(hashed) <= LEVEL:
        return f"no action needed: {now}, and up to {LEVEL} times is level"
    if share is not None:
        now = f"The most frequent key, {shown(key)}, has {share:.1%} of the messages; {now}"
    else:
        now = now[0].upper() + now[1:]
    if better is None:
        return f"no action helps: no grouping tried is better. {now}"
    name = better.params.name
    level = "" if busiest(better) <= LEVEL else " (not level, but the best of those tried)"
    return (
        f"split the frequent keys: take {name}. {now}, that of {name} {times(busiest(better))} times{level}: "
        f"imbalance {figure(better.imbalance)} in place of {figure(hashed.imbalance)}. The cost: "
        f"{better.memory:,} partial results to keep in memory and to merge in place of {hashed.memory:,} "
        f"(replication {better.replication:.2f})"
    )
