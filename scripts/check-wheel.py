"""Checks an installed wheel in an environment that has no extras. usage: python scripts/check-wheel.py."""

import importlib.util
import subprocess
import sys

import keysplit as ks

for extra in ("pyspark", "pandas", "matplotlib"):
    if importlib.util.find_spec(extra):
        sys.exit(f"{extra} is installed here, so this checks nothing")

workers = ks.DChoices(workers=4).router(source=0).route(["a", "b", "a"])
if workers.shape != (3,) or not (workers < 4).all():
    sys.exit(f"d_choices routed three keys on 4 workers to {workers}")

# without the extra, Spark's part says how to get it
answer = subprocess.run([sys.executable, "-c", "from keysplit import spark"], capture_output=True, text=True)
last = answer.stderr.strip().splitlines()[-1]
if not last.startswith("ImportError: ") or "keysplit[spark]" not in last:
    sys.exit(f"importing keysplit.spark without pyspark says: {last}")
# so does the command that draws the papers' figures; without them it needs no extra
command = [sys.executable, "-m", "keysplit.cli", "reproduce", "d_choices/fig8", "--quick", "--out", "results"]
answer = subprocess.run(command, capture_output=True, text=True)
if answer.returncode != 2 or "keysplit[experiments]" not in answer.stderr:
    sys.exit(f"keysplit reproduce without matplotlib says: {answer.stderr}")
subprocess.run([*command, "--no-figures"], check=True, stdout=subprocess.DEVNULL)
print(f"keysplit {ks.__version__} works without pyspark, pandas and matplotlib")
