"""The progress of long passes: a bar in notebooks and, if asked for, on a terminal; elsewhere nothing."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import keysplit as ks
import notebooks
from keysplit import progress, runs

SET_UP = """
import numpy as np
import keysplit as ks
from keysplit import progress
progress._DELAY_S = progress._INTERVAL_S = 0
chunks = lambda: iter(np.arange(10_000).reshape(10, -1) % 7)
"""
CALLS = {
    "compare": "ks.compare(chunks, 4, ['key', 'd_choices'], threads=2, messages=10_000{})",
    "profile": "ks.profile(chunks, 4, messages=10_000{})",
    "simulate": "ks.simulate(ks.DChoices(workers=4), chunks(), messages=10_000{})",
}


@pytest.fixture(scope="module")
def shown():
    """What each call shows in a kernel by default, and when told to show nothing; the last call fails."""
    pytest.importorskip("ipykernel", reason="there is no kernel of Jupyter: pip install ipykernel")
    cells = [f"_ = {call.format(more)}" for call in CALLS.values() for more in ("", ", progress=False")]
    wrong = "_ = ks.simulate(ks.DChoices(workers=4), chunks(), messages=20_000)"
    first, *rest = notebooks.run_in_kernel(SET_UP, *cells, wrong)
    assert outputs(first) == []
    return dict(zip([*((name, on) for name in CALLS for on in (True, False)), "wrong"], rest, strict=True))


def outputs(messages):
    """The kinds of a cell's outputs."""
    kinds = [message["msg_type"] for message in messages]
    return [kind for kind in kinds if kind not in ("status", "execute_input")]


@pytest.mark.parametrize("name", CALLS)
def test_a_notebook_shows_a_bar_that_goes_at_the_end(shown, name):
    messages = [
        each for each in shown[name, True] if each["msg_type"] in ("display_data", "update_display_data")
    ]
    assert outputs(shown[name, True]) == ["display_data"] + ["update_display_data"] * (len(messages) - 1)
    assert len({each["content"]["transient"]["display_id"] for each in messages}) == 1
    *bars, last = (each["content"]["data"]["text/html"] for each in messages)
    assert last == ""
    counts = [re.search(r"messages.* (\d+)/(\d+) ", re.sub("<[^>]*>", "", bar)) for bar in bars]
    done = [int(count[1]) for count in counts]
    assert done == sorted(done)
    assert (done[-1], {count[2] for count in counts}) == (10_000, {"10000"})
    assert len(set(done)) > 5


@pytest.mark.parametrize("name", CALLS)
def test_a_notebook_shows_nothing_if_told_so(shown, name):
    assert outputs(shown[name, False]) == []


def test_the_bar_goes_where_a_call_fails(shown):
    *bars, last, error = [
        each for each in shown["wrong"] if each["msg_type"] not in ("status", "execute_input")
    ]
    assert len(bars) > 5
    assert last["content"]["data"]["text/html"] == ""
    assert error["content"]["ename"] == "ValueError"


@pytest.mark.parametrize("more", ["", ", progress=True"])
def test_a_script_without_a_terminal_shows_nothing(more):
    code = "\n".join([SET_UP, *(call.format(more) for call in CALLS.values())])
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (answer.stdout, answer.stderr) == ("", "")


@pytest.mark.parametrize(
    ("more", "expected"), [("", False), (", progress=False", False), (", progress=True", True)]
)
def test_a_terminal_shows_a_bar_only_if_asked(more, expected):
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    lead, follow = pty.openpty()
    code = f"{SET_UP}\n{CALLS['simulate'].format(more)}\nimport sys; print('end', file=sys.stderr)"
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=follow, check=True)
    os.close(follow)
    shown = os.read(lead, 100_000).decode()
    os.close(lead)
    assert "end" in shown
    assert ("/10000" in shown) == expected


def test_the_bar_counts_over_all_passes(monkeypatch):
    """Groups that run one after the other take a pass each; the bar does not start again."""
    seen = []

    class Watched:
        def __enter__(self):
            return lambda done, total: seen.append((done, total))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(runs, "watch", lambda _: Watched())
    monkeypatch.setattr(runs, "choose", lambda footprints, *_: [0])
    chunks = np.arange(1_000).reshape(4, -1) % 7
    for keys in (lambda: iter(chunks), iter(chunks), chunks.reshape(-1)):
        seen.clear()
        ks.compare(keys, 4, ["key", "shuffle"], messages=1_000)
        assert seen[-1] == (1_000, 1_000)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert (500, 1_000) in seen


@pytest.mark.parametrize("call", [ks.compare, ks.profile, ks.simulate])
def test_a_wrong_setting_is_refused(call):
    keys = (
        {"keys": [1, 2], "params": ks.KeyGrouping(workers=2)}
        if call is ks.simulate
        else {"keys": [1], "workers": 2}
    )
    with pytest.raises(TypeError, match="progress must be True, False or None, got 1"):
        call(**keys, progress=1)


def test_python_outside_a_kernel_is_no_notebook(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not progress._in_notebook()
    IPython = pytest.importorskip("IPython")
    assert IPython.get_ipython() is None
    assert not progress._in_notebook()
