"""The process that Spark forks Python workers from, with everything imported that they need.

So a hundred workers start within seconds and share the memory of their libraries.
"""

import gc

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark import daemon

import keysplit.spark  # noqa: F401
import keysplit_experiments.deployments.engine.working  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # a collection in a worker then copies no shared page
    daemon.manager()
