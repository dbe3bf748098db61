"""What runs are observed to do: written down once they have ended.

Spark has the figures of an observation once the first action on the observed rows has ended, and nobody can
be called then. So they are asked for: by one thread, now and then, as long as any are awaited; at the next
use of a kept plan; and when the interpreter ends. The thread is a daemon and asks without waiting for an
answer: it keeps no session. The interpreter's end waits two seconds for what is awaited, no longer.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from keysplit.spark.session import Observed

MOST_PENDING = 100
"""Observations that are awaited at the same time; the oldest are given up."""

_SOONEST_S, _LATEST_S, _SLOWER = 0.5, 10.0, 1.5
_AT_EXIT_S = 10.0
_ASKED_AT_EXIT, _BETWEEN_S = 20, 0.1
_log = logging.getLogger("keysplit")


class _Pending(NamedTuple):
    observed: Observed
    done: Callable[[Any], None]
    wanted: Callable[[], bool] | None = None


_pending: list[_Pending] = []
_lock = threading.Lock()
_new = threading.Event()
_thread: threading.Thread | None = None


def wait_for(
    observed: Observed, done: Callable[[Any], None], wanted: Callable[[], bool] | None = None
) -> None:
    """Call `done` with what is observed, once it is known; never if the action fails, or never runs.

    Args:
        observed: the observation.
        done: takes the figure; it runs in any thread. What it raises is logged.
        wanted: says whether the figure is still wanted; the interpreter's end does not wait for it. Left out
            if it is wanted in any case.
    """
    global _thread
    with _lock:
        _pending.append(_Pending(observed, done, wanted))
        del _pending[:-MOST_PENDING]
        _new.set()
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_ask, name="keysplit runs of plans", daemon=True)
            _thread.start()


def settle() -> None:
    """Write down now what has ended before."""
    with _lock:
        for each in _pending:
            each.observed.settle()
        _settle()


def _ask() -> None:
    global _thread
    pause = _SOONEST_S
    while True:
        woken = _new.wait(pause)
        _new.clear()
        pause = _SOONEST_S if woken else min(pause * _SLOWER, _LATEST_S)
        with _lock:
            _settle()
            if not _pending:
                _thread = None
                return


def _settle() -> None:
    for each in list(_pending):
        if each.wanted is not None and not each.wanted():
            _pending.remove(each)
            continue
        try:
            found = each.observed.peek()
        except Exception:  # of Spark or of what connects to it: the action failed, or its session is gone
            _pending.remove(each)
            continue
        if found is None:
            continue
        _pending.remove(each)
        try:
            each.done(found)
        except Warning as warning:  # where warnings are errors
            _log.warning("%s", warning)
        except Exception as error:  # it runs behind the user's back
            _log.warning("a run by a plan was not counted: %s", error)


@atexit.register
def _last() -> None:
    if _pending and _lock.acquire(timeout=_AT_EXIT_S):
        try:
            for each in _pending[:1]:
                each.observed.settle()
            # The figures of the last action may still be on their way.
            for _ in range(_ASKED_AT_EXIT):
                _settle()
                if all(each.wanted is not None for each in _pending):
                    break
                time.sleep(_BETWEEN_S)
        finally:
            _lock.release()
