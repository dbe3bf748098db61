"""The base class of all groupings, and the registry of their names."""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, fields
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from keysplit import _core

PICKLE_VERSION = 3
"""The version of pickled groupings; version 1 had no number."""


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """What all groupings have in common.

    Args:
        workers: Number of workers, 1 to 65,536. Workers are numbered from 0.
        seed: Seed of all hashes and random draws, 0 to 2**64 - 1. Sources that share a stream use the same
            seed.

    Raises:
        ValueError: If a parameter is outside its range; the message names parameter, value and range.
        TypeError: If a parameter has the wrong type.
    """

    name: ClassVar[str]
    """Name in the registry [`GROUPINGS`][keysplit.GROUPINGS]."""

    paper: ClassVar[str]
    """Authors and year of the algorithm; *Source* in the class's docstring has title and section."""

    sends_to: ClassVar[str]
    """Where a message goes, in a few words."""

    adapts_to: ClassVar[tuple[str, ...]] = ()
    """What the grouping adapts to: ``skew`` (keys too frequent for one worker), ``drift`` (hot keys that
    change), ``unequal workers`` (of unequal or changing speed), ``changing workers`` (that join and
    leave)."""

    workers_per_key: ClassVar[str]
    """The maximum number of workers of a key, as text: a number, a parameter, ``n`` (all workers), ``d``
    (depends on its frequency) or ``w`` (the bound of dynamic key grouping);
    [`max_workers_per_key`][keysplit.groupings.Grouping.max_workers_per_key] is the number for given
    parameters."""

    feedback: ClassVar[tuple[str, ...]] = ()
    """The arguments of ``Router.observe`` that the grouping uses, except ``now``."""

    elastic: ClassVar[bool] = False
    """Whether workers may join and leave: ``Router.add_worker`` and ``Router.remove_worker``."""

    workers: int
    seed: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a class by its name in the core, and under the path that pickles of version 1 refer to."""
        super().__init_subclass__(**options)
        name = vars(cls).get("name", "")
        if GROUPINGS.get(name) is Grouping:
            GROUPINGS[name] = cls
            for family in ("adaptive", "baselines", "bounded", "head", "learned"):
                path = f"keysplit.groupings.{family}"
                setattr(sys.modules.setdefault(path, ModuleType(path)), cls.__name__, cls)

    def __post_init__(self) -> None:
        """Check every parameter and convert NumPy numbers to Python's."""
        if not hasattr(self, "name"):
            raise TypeError(f"{type(self).__name__} is only a base class: use a class in GROUPINGS")
        parameters = self._parameters()
        _core.check(self.name, parameters)
        for name, value in parameters.items():
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle registry name, version and parameters, so that later versions can add parameters."""
        return _unpickle, (self.name, PICKLE_VERSION, self._parameters())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load a pickle without a version, with the fields that existed at that time."""
        defaults = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        for name, value in {**defaults, **self._meant(state, 1)}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    @classmethod
    def _meant(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Return the parameters of an older pickle, with the defaults of the pickle's version."""
        return parameters

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def max_workers_per_key(self) -> int:
        """The maximum number of workers to which a source sends a key, if no worker joins or leaves.

        Example:
            >>> import keysplit as ks
            >>> ks.PartialKeyGrouping(workers=50, choices=3).max_workers_per_key
            3
        """
        return _core.max_workers_per_key(self.name, self._parameters())

    def router(self, source: int = 0, snapshot: bytes | None = None) -> _core.Router:
        """Make the state of one source.

        Args:
            source: Number of the source, 0 to 2**32 - 1. It determines this source's first turn and its
                random draws; everything else depends only on the seed.
            snapshot: Result of ``Router.snapshot`` for the same parameters and source. The new router
                continues exactly as the original router would have.

        Returns:
            A router that has sent nothing yet, or that continues from the snapshot.

        Raises:
            ValueError: If the snapshot is damaged, or is from a different grouping, parameters or source.

        Example:
            >>> import keysplit as ks
            >>> first = ks.ShuffleGrouping(workers=3).router(source=1)
            >>> _ = first.route([1, 2])
            >>> second = ks.ShuffleGrouping(workers=3).router(source=1, snapshot=first.snapshot())
            >>> first.route([3]) == second.route([3])
            array([ True])
        """
        return _core.Router(self.name, self._parameters(), source, snapshot)


def _unpickle(name: str, version: int, parameters: dict[str, Any]) -> Grouping:
    """Load what [`Grouping.__reduce__`][keysplit.groupings.Grouping] stored; pickles refer to this path."""
    if version > PICKLE_VERSION:
        raise ValueError(
            f"a pickle of {name} must be of version {PICKLE_VERSION} at most, got {version}: update keysplit"
        )
    if name not in GROUPINGS:
        raise ValueError(f"grouping must be one of {', '.join(GROUPINGS)}, got {name!r}")
    return GROUPINGS[name](**GROUPINGS[name]._meant(parameters, version))


GROUPINGS: dict[str, type[Grouping]] = dict.fromkeys(_core.groupings(), Grouping)
"""Every grouping by its registry name, in the order of the registry in rust/core/src/groupings/mod.rs."""


@dataclass(frozen=True, kw_only=True)
class HeadGrouping(Grouping):
    """A grouping that treats frequent keys differently: its parameters for finding them."""

    paper = "Nasir et al. 2016"
    adapts_to = ("skew",)
    threshold: float | None = None
    sketch_capacity: int | None = None
    distinct: bool = False


def grouping(name: str, *, workers: int, **parameters: Any) -> Grouping:
    """Make a grouping from its registry name.

    Args:
        name: One of the names in [`GROUPINGS`][keysplit.GROUPINGS].
        workers: Number of workers, 1 to 65,536.
        **parameters: The other parameters of the grouping's class.

    Returns:
        The grouping, equal to an object made by its class.

    Raises:
        ValueError: If there is no such grouping (the message lists the names) or a parameter is out of range.
        TypeError: If the grouping has no such parameter, or a parameter has the wrong type.

    Example:
        >>> import keysplit as ks
        >>> ks.grouping("partial_key", workers=8, choices=3)
        PartialKeyGrouping(workers=8, seed=0, choices=3, distinct=False)
    """
    if not isinstance(name, str):
        raise TypeError(f"grouping must be a name, got {name!r}")
    if name not in GROUPINGS:
        raise ValueError(f"grouping must be one of {', '.join(GROUPINGS)}, got {name!r}")
    return GROUPINGS[name](workers=workers, **parameters)
