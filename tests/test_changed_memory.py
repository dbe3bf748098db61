"""Memory that somebody changes while keys are read from it: other hashes, but nothing outside is read.

Each case runs in a process of its own, because a wrong read may end it.
"""

import contextlib
import datetime
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks

MESSAGES = 1000
WORD = "a string longer than a view"


class Overwriting:
    """Weights that overwrite every other number of the keys' memory: they are read after the keys' check."""

    def __init__(self, memory: np.ndarray, value: int) -> None:
        self.memory, self.value = memory, value

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        self.memory[1::2] = self.value
        return pa.array(np.ones(MESSAGES)).__arrow_c_array__(requested_schema)


def strings(offset: str, kind: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    memory = (np.arange(MESSAGES + 1) * len(WORD)).astype(offset)
    values = pa.py_buffer((WORD * MESSAGES).encode())
    return pa.Array.from_buffers(kind, MESSAGES, [None, pa.py_buffer(memory), values]), memory


def views() -> tuple[pa.Array, np.ndarray]:
    array = pa.array([WORD + str(number) for number in range(MESSAGES)], pa.string_view())
    validity, found, *values = array.buffers()
    memory = np.frombuffer(found, np.int32).copy()
    buffers = [validity, pa.py_buffer(memory), *values]
    return pa.Array.from_buffers(pa.string_view(), MESSAGES, buffers), memory


def dictionary(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    memory = (np.arange(MESSAGES) % len(values)).astype(np.int16)
    indices = pa.Array.from_buffers(pa.int16(), MESSAGES, [None, pa.py_buffer(memory)])
    return pa.DictionaryArray.from_arrays(indices, values), memory


def words_of_dictionary() -> tuple[pa.Array, np.ndarray]:
    words, memory = strings("int32", pa.string())
    return dictionary(words)[0], memory


def validity() -> tuple[pa.Array, np.ndarray]:
    memory = np.full(MESSAGES // 8 + 1, 0xFF, np.uint8)
    values = pa.array(range(MESSAGES), pa.int64()).buffers()[1]
    return pa.Array.from_buffers(pa.int64(), MESSAGES, [pa.py_buffer(memory), values], null_count=-1), memory


KINDS = {
    "strings": lambda: strings("int32", pa.string()),
    "large strings": lambda: strings("int64", pa.large_string()),
    "binary": lambda: strings("int32", pa.binary()),
    "large binary": lambda: strings("int64", pa.large_binary()),
    "views": views,
    "indices": lambda: dictionary(pa.array(["a", "b", "c"])),
    "indices of numbers": lambda: dictionary(pa.array([1, None, 3])),
    "indices of words with nulls": lambda: dictionary(pa.array(["a", None, "c"])),
    "strings in a dictionary": words_of_dictionary,
    "validity": validity,
}
VALUES = [-1, 0, 1 << 12, (1 << 15) - 1, (1 << 31) - 1, 1 << 62]


def overwritten(kind: str) -> None:
    """Route and count keys whose memory is overwritten once they have been checked."""
    for value in VALUES:
        for door in (ks.DChoices(workers=10).router().route, ks.SpaceSaving(50).update):
            for chunked in (False, True):
                keys, memory = KINDS[kind]()
                value = int(np.array([value]).astype(memory.dtype)[0])
                given = pa.chunked_array([keys]) if chunked else keys
                answer = door(given, weights=Overwriting(memory, value))
                assert answer is None or len(answer) == MESSAGES
    sketch = ks.SpaceSaving(50)
    keys, memory = KINDS[kind]()
    sketch.update(keys, weights=Overwriting(memory, memory.dtype.type(-1) if memory.dtype.kind == "i" else 0))
    assert sketch.total == MESSAGES
    assert sum(count for _, count, _ in sketch.top(50)) == MESSAGES


def malformed_before(kind: str) -> None:
    """Offsets that are wrong from the beginning are found: pyarrow knows how long the values are."""
    keys, memory = KINDS[kind]()
    memory[-1] = 1 << 30
    for given in (keys, pa.chunked_array([keys]), keys[5:]):
        for door in (ks.hash_keys, ks.SpaceSaving(50).update, ks.KeyGrouping(workers=3).router().route):
            with pytest.raises(ValueError, match="well-formed"):
                door(given)


def from_another_thread(kind: str) -> None:
    """The same while another thread writes all the time."""
    keys, memory = KINDS[kind]()
    good, done = memory.copy(), threading.Event()
    rng = np.random.default_rng(1)

    def write() -> None:
        while not done.is_set():
            memory[...] = rng.choice(VALUES, len(memory)).astype(memory.dtype)
            memory[...] = good

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(200):
        for door in (ks.hash_keys, ks.SpaceSaving(50).update):
            with contextlib.suppress(ValueError):  # what it checks may be wrong at that moment
                door(keys)
    done.set()
    thread.join()


class Shrinking(datetime.tzinfo):
    """A time zone that takes a key away each time it is asked."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        self.keys.pop()
        return datetime.timedelta(0)


@pytest.mark.parametrize(
    "door", [ks.hash_keys, ks.SpaceSaving(50).update, ks.KeyGrouping(workers=3).router().route]
)
def test_a_list_that_shrinks_while_it_is_read(door: Any) -> None:
    keys: list[Any] = []
    keys += [datetime.datetime(2024, 1, 1, tzinfo=Shrinking(keys)) for _ in range(10)]
    with pytest.raises(RuntimeError, match="keys changed their length while they were read"):
        door(keys)


class Resizing(datetime.tzinfo):
    """A time zone that changes an array each time it is asked."""

    def __init__(self, change: Callable[[], None]) -> None:
        self.change = change

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        self.change()
        return datetime.timedelta(0)


@pytest.mark.parametrize("length", [10, 100_000])
def test_an_array_of_objects_that_changes_while_it_is_read(length: int) -> None:
    def shorter() -> None:
        keys.resize(len(keys) // 2, refcheck=False)

    def two_rows() -> None:
        keys.shape = (2, -1)

    for change in (shorter, two_rows):
        keys: Any = np.full(length, "word", dtype=object)
        keys[1] = datetime.datetime(2024, 1, 1, tzinfo=Resizing(change))
        with pytest.raises(RuntimeError, match="keys changed their length while they were read"):
            ks.hash_keys(keys)


def run(case: Any, kind: str) -> None:
    program = f"import test_changed_memory as cases; cases.{case.__name__}({kind!r})"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_changes_after_the_check(kind: str) -> None:
    run(overwritten, kind)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "strings" in kind or "binary" in kind])
def test_offsets_beyond_the_values(kind: str) -> None:
    run(malformed_before, kind)


@pytest.mark.parametrize("kind", ["strings", "views", "indices of words with nulls"])
def test_memory_that_another_thread_changes(kind: str) -> None:
    run(from_another_thread, kind)
