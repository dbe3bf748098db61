"""The circle on which every worker has points, and the walk of a key along them."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from .hashing import GOLDEN, domain, mix


@lru_cache(maxsize=16)
def circle(seed: int, present: tuple[int, ...], virtual_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """All points in ascending order, and the worker of each."""
    owners = np.repeat(np.array(present), virtual_nodes)
    turns = owners * virtual_nodes + np.tile(np.arange(virtual_nodes), len(present)) + 1
    points = mix(turns.astype(np.uint64) * np.uint64(GOLDEN) + np.uint64(domain(seed, 8)))
    order = np.argsort(points)
    return points[order], owners[order]


def walk(h: int, seed: int, present: list[int], virtual_nodes: int) -> Iterator[int]:
    """The workers of the points that the key with hash h meets, once round."""
    points, owners = circle(seed, tuple(present), virtual_nodes)
    first = int(np.searchsorted(points, np.uint64(h)))  # the first point >= h
    for step in range(len(points)):
        yield int(owners[(first + step) % len(points)])
