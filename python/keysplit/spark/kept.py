"""A stored plan: loaded if it exists, otherwise made once and saved."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from keysplit import paths
from keysplit.plan import OrderColumn, Plan
from keysplit.spark.checks import period_of
from keysplit.spark.keys import key_kinds
from keysplit.spark.request import Request


def place_of(path: Any, max_age: Any) -> Place | None:
    """Return where a plan is stored, or None without `path`; raise an error for bad arguments."""
    age = period_of("max_age", max_age)
    if path is None:
        if age is not None:
            raise ValueError(f"max_age must be omitted without path, got {max_age!r}")
        return None
    paths.check(path)
    return Place(path, age)


@dataclass
class Place:
    """The place of a stored plan.

    Attributes:
        path: a file, or a URL as in `Plan.save`.
        max_age: the age from which a plan is replaced; None for never.
        is_old: whether `load` has found a plan older than `max_age`, which `save` then replaces.
    """

    path: str | os.PathLike[str]
    max_age: timedelta | None
    is_old: bool = False

    def load(self, request: Request) -> Plan | None:
        """Return the stored plan for a request; None if there is none, or if it is too old.

        Raises:
            OSError: if the path cannot hold a plan.
            ValueError: if the file is not a plan, or its plan was made for different arguments.
        """
        try:
            text = paths.read(self.path)
        except FileNotFoundError:
            paths.check_new(self.path)
            return None
        plan = self._read(text)
        self._refuse_other(plan, request)
        self.is_old = self.max_age is not None and self._age() >= self.max_age
        if self.is_old:
            paths.check_new(self.path)
            return None
        return plan

    def save(self, plan: Plan, request: Request) -> Plan:
        """Save a new plan, and return the stored one: if several jobs save one, the first wins.

        Raises:
            OSError: if the plan cannot be written.
            ValueError: if another job has saved a plan for different arguments.
        """
        if not plan.total:  # it does not apply to other days
            return plan
        text = plan.to_json()
        if self.is_old:
            paths.write(self.path, text)
        elif not paths.create(self.path, text):
            plan = self._read(paths.read(self.path))
            self._refuse_other(plan, request)
        return plan

    def _age(self) -> timedelta:
        return datetime.now(UTC) - paths.modified(self.path)

    def _read(self, text: str) -> Plan:
        try:
            return Plan.from_json(text)
        except ValueError as error:
            raise ValueError(
                f"path must be the file of a plan, got {os.fspath(self.path)!r}: {error}"
            ) from error

    def _refuse_other(self, plan: Plan, request: Request) -> None:
        """Raise ValueError if a stored plan was made for different arguments from those of a request."""
        pairs = {
            "key": (plan.key, tuple(request.keys)),
            "key types": (plan.key_types, tuple(key_kinds(request.key_types))),
            "grouping": (plan.grouping, request.params),
            "capacities": (plan.capacities, request.capacities),
            "group_weight": (plan.group_weight, request.group_weight),
            "weight": (plan.weighted, request.weight is not None),
            "trust": (plan.trust, request.query.kept_trust),
            "order_by": (
                _texts(None if plan.order is None else plan.order.columns),
                _texts(request.order),
            ),
        }
        if request.row_id is not None:
            pairs["row_id"] = (plan.row_id, tuple(request.row_id))
        for what, (stored, asked) in pairs.items():
            if stored != asked:
                raise ValueError(
                    f"the plan at {os.fspath(self.path)!r} must be for the same {what}: it has {stored!r}, "
                    f"got {asked!r}. Use a different path, or delete the plan"
                )


def _texts(columns: Sequence[OrderColumn] | None) -> list[str] | None:
    return None if columns is None else [each.text for each in columns]
