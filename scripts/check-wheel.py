"""Checks an installed wheel in an environment that has no extras. usage: python scripts/check-wheel.py."""

import importlib.util
import subprocess
import sys

import keysplit as ks

for extra in ("pyspark", "pandas", "matplotlib", "keysplit_experiments"):
    if importlib.util.find_spec(extra):
        sys.exit(f"{extra} is installed here, so this checks nothing")

workers = ks.DChoices(workers=4).router(source=0).route(["a", "b", "a"])
if workers.shape != (3,) or not (workers < 4).all():
    sys.exit(f"d_choices routed three keys on 4 workers to {workers}")

# without the extra, importing the Spark layer says how to install it
answer = subprocess.run([sys.executable, "-c", "from keysplit import spark"], capture_output=True, text=True)
last = answer.stderr.strip().splitlines()[-1]
if not last.startswith("ImportError: ") or "pip install '.[spark]'" not in last:
    sys.exit(f"importing keysplit.spark without pyspark says: {last}")
# so does the command of the separate experiments package
command = [sys.executable, "-m", "keysplit", "reproduce", "d_choices/fig8", "--quick"]
answer = subprocess.run(command, capture_output=True, text=True)
if (
    answer.returncode != 2
    or "pip install . ./experiments" not in answer.stderr
    or len(answer.stderr.splitlines()) > 1
):
    sys.exit(f"keysplit reproduce without the experiments says: {answer.stderr}")
print(f"keysplit {ks.__version__} works without pyspark, pandas, matplotlib and the experiments")
