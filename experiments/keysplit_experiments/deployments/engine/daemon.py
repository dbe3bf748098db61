"""The process that Spark forks Python workers from, with everything imported that they need.

So a hundred workers start within seconds and share the memory of their libraries.
"""

import importlib
import os

import numpy as np
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark import daemon

import keysplit.spark  # noqa: F401
import keysplit_experiments.deployments.engine.working  # noqa: F401
from keysplit.spark.executors import set_aside

if __name__ == "__main__":
    set_aside()  # a collection in a worker then copies no shared page
    importlib.invalidate_caches()  # once for all workers
    os.register_at_fork(after_in_child=np.random.seed)  # else all workers draw the same numbers
    daemon.manager()
