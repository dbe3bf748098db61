"""What `benches/instructions.py` reads of the profiler, and what it takes for slower."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import keysplit as ks

ROOT = Path(__file__).parent.parent
BENCH = SimpleNamespace(**runpy.run_path(str(ROOT / "benches/instructions.py")))
MACHINE = BENCH.Machine("rustc 1.95.0", "AVX2")


def test_counts_are_per_message_and_zeros_may_be_left_out() -> None:
    events = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim"
    dump = f"version: 1\n{events}\nfn=(1) run\n16 5\nsummary: 2000000 9 9 9 100000 50000 0 0 0 9 20000\n"
    assert BENCH.counts_in(dump) == (10.0, 0.75, 0.1)


def test_a_case_is_slower_by_more_than_a_tenth_of_its_record() -> None:
    before = {(label, "1.0"): BENCH.Counts(100.0, 1.0, 0.5) for label in ("key", "ring", "fish")}
    record = BENCH.written(MACHINE, before)
    found = {
        ("key", "1.0"): BENCH.Counts(109.0, 9.0, 9.0),
        ("ring", "1.0"): BENCH.Counts(111.0, 0.0, 0.0),
        ("key", "1.4"): BENCH.Counts(500.0, 0.0, 0.0),  # not in the record
    }
    assert BENCH.slower(record, found) == ["ring at z = 1.0: 111.0 instructions per message, 100.0 recorded"]


def test_records_name_the_compiler_and_are_compared_with_it_alone(capsys, monkeypatch, tmp_path) -> None:
    counts = {("key", "1.0"): BENCH.Counts(100.0, 1.0, 0.5)}
    monkeypatch.setitem(BENCH.check.__globals__, "RECORDS", tmp_path)
    assert BENCH.check(MACHINE, counts) == 0
    (tmp_path / "instructions-2026-01-01.md").write_text(BENCH.written(MACHINE, counts))
    more = {("key", "1.0"): BENCH.Counts(200.0, 1.0, 0.5)}
    assert BENCH.check(MACHINE, more) == 1
    assert BENCH.check(MACHINE._replace(compiler="rustc 1.96.0"), more) == 0
    assert "not compared" in capsys.readouterr().err


def test_the_newest_record_has_every_case() -> None:
    records = sorted((ROOT / "benches/records").glob("instructions-*.md"))
    known = {(label, exponent) for label, exponent, _ in BENCH.ROW.findall(records[-1].read_text())}
    assert {(name, z) for name in ks.GROUPINGS for z in ("1.0", "1.4")} <= known
