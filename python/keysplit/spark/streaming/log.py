"""The plan log of a query: the versions of its plan, and the version of each micro-batch.

A folder with immutable files: `plan-N.json` is version N, `batch-B.json` names the version of micro-batch B.
Each file is created atomically and never replaced: the first attempt at a batch records the batch's plan, and
all later attempts read the record, even after a restart.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

from keysplit import paths
from keysplit.plan import Plan
from keysplit.spark.warn import warn

MOST_BATCHES = 100
"""The number of batches with records: as many as Spark keeps in a checkpoint by default."""

REMEDY = "move the folder of the log away, and the query starts with new plans"
"""The remedy if the log is lost or damaged."""

_Value = TypeVar("_Value", int, str)
_NAME = re.compile(r"(plan|batch)-(\d+)\.json")


class Log:
    """The plan log in a folder.

    Args:
        folder: a path, or a URL as in `Plan.save`; created if it does not exist.

    Raises:
        OSError: if the folder cannot be created or read.
        ValueError: if pyarrow knows no file system for the URL.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        paths.make_folder(self._folder, "log")
        self._versions = sorted(self._numbers("plan"))
        self._batches = sorted(self._numbers("batch"))
        self._used: dict[int, int] = {}  # versions by batch, as far as read
        self._highest = max(self._versions, default=-1)  # a number is not reused
        if self._batches:
            with suppress(OSError, ValueError):  # reading that record later raises the error
                self._highest = max(self._highest, self._version_in(self._batches[-1]))

    @property
    def versions(self) -> list[int]:
        """The numbers of the versions that this process knows, the oldest first."""
        return list(self._versions)

    @property
    def last(self) -> int | None:
        """The number of the newest version that this process knows; None if there is none."""
        return self._versions[-1] if self._versions else None

    def plan(self, version: int) -> Plan:
        """Read a version.

        Raises:
            OSError: if the version cannot be read.
            ValueError: if the file is not a plan.
        """
        path = self._path("plan", version)
        try:
            return Plan.load(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"the plan log must contain each plan in use, but {path!r} is gone: {REMEDY}"
            ) from error
        except ValueError as error:
            raise ValueError(
                f"the plan log must hold whole plans, got {path!r}: {error}: {REMEDY}"
            ) from error

    def check(self, first: Plan, version: int, plan: Plan, query: str = "the query") -> None:
        """Raise ValueError if a version cannot replace the plan that a query was built with."""
        try:
            first.refuse_other(plan, query, f"version {version} in the plan log {self._folder!r}")
        except ValueError as error:
            raise ValueError(f"{error}, or {REMEDY}") from None

    def newest(
        self, first: Plan, after: int = -1, refused: set[int] | None = None
    ) -> tuple[int, Plan] | None:
        """Return the newest version that a query can use; None if there is none.

        Args:
            first: the plan that the query was built with.
            after: the version that the query uses; only newer versions count. Without it, one of the versions
                must fit, if there are any.
            refused: versions to skip silently; versions that do not fit are added.

        Raises:
            OSError: if no version can be read.
            ValueError: if no version fits.
        """
        refused = set() if refused is None else refused
        wrong: dict[int, Exception] = {}
        found = None
        for version in reversed(self._versions):
            if version <= after or found is not None:
                break
            if version in refused:
                continue
            try:
                plan = self.plan(version)
                self.check(first, version, plan)
                found = version, plan
            except (OSError, ValueError) as error:
                wrong[version] = error
        if found is None and after < 0 and wrong:
            raise next(iter(wrong.values()))
        for version, reason in wrong.items():
            if isinstance(reason, ValueError):  # a store may be unreachable for a moment
                refused.add(version)
            warn(f"version {version} of a stream's plan was skipped: {reason}")
        return found

    def publish(self, plan: Plan) -> int:
        """Write a plan as the next version and return its number.

        Raises:
            OSError: if the plan cannot be written.
        """
        text, version = plan.to_json(), self._highest + 1
        while not paths.create(self._path("plan", version), text):
            version += 1  # another process has published one
        self._highest = version
        self._versions.append(version)
        return version

    def claim(self, query: str) -> None:
        """Claim the log for one query: two queries would reuse the same batch numbers.

        Raises:
            OSError: if the record cannot be written or read.
            ValueError: if another query has claimed the log.
        """
        path = paths.extended(self._folder, "/query.json")
        if paths.create(path, json.dumps({"query": query})):
            return
        owner = self._record(path, "query", str)
        if owner != query:
            raise ValueError(
                f"log must be a different folder for each query, got {self._folder!r} of query {owner} for "
                f"query {query}: pass Adapt(log=...) a new folder, and the old log's newest plan as start"
            )

    def refresh(self) -> None:
        """Look for versions that others have published.

        Raises:
            OSError: if the folder cannot be read.
        """
        self._versions = sorted(self._numbers("plan"))
        self._highest = max([self._highest, *self._versions])

    def version_of(self, batch: int, version: int) -> int:
        """Return the version that a batch uses: `version`, unless an earlier attempt has recorded a version.

        Raises:
            OSError: if the record cannot be written or read.
        """
        path = self._path("batch", batch)
        try:
            first = paths.create(path, json.dumps({"batch": batch, "plan": version}))
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"the plan log must not be moved, but {self._folder!r} is gone: start the query again, with "
                "new plans"
            ) from error
        if first:
            self._batches.append(batch)
            self._used[batch] = version
            return version
        return self._version_in(batch)

    def prune(self) -> None:
        """Delete the records of old batches, and versions that no later batch uses."""
        old = self._batches[:-MOST_BATCHES]
        if not old:
            return
        self._batches = self._batches[-MOST_BATCHES:]
        try:
            for batch in old:
                paths.delete(self._path("batch", batch))
                self._used.pop(batch, None)
            # A query restarted for fewer workers may use an older version.
            first = min(map(self._version_in, self._batches))
            for version in [each for each in self._versions[:-1] if each < first]:
                paths.delete(self._path("plan", version))
                self._versions.remove(version)
        except (OSError, ValueError) as error:  # old files do no harm
            warn(f"the plan log {self._folder!r} was not pruned: {error}")

    def _version_in(self, batch: int) -> int:
        """Return the recorded version of a batch."""
        if batch not in self._used:
            self._used[batch] = self._record(self._path("batch", batch), "plan", int)
        return self._used[batch]

    def _record(self, path: str, name: str, kind: type[_Value]) -> _Value:
        text = paths.read(path)
        try:
            found = json.loads(text)[name]
        except (KeyError, TypeError, ValueError):
            found = None
        if type(found) is not kind:  # a bool is not a number
            raise ValueError(
                f"the plan log must hold whole records, got {path!r} with {text[:100]!r}: {REMEDY}"
            )
        return found

    def _path(self, kind: str, number: int) -> str:
        return paths.extended(self._folder, f"/{kind}-{number}.json")

    def _numbers(self, kind: str) -> Iterator[int]:
        for name in paths.names(self._folder):
            found = _NAME.fullmatch(name)
            if found is not None and found[1] == kind:
                yield int(found[2])
