"""Plans as they are stored and read, without Spark: a producer routes by them as a Spark job does.

`stored` is a plan's form as JSON, `files` where that is kept, and `tables` what a worker is looked up in.
"""

from keysplit.plans.frequent import FrequentKey
from keysplit.plans.tables import Tables

__all__ = ["FrequentKey", "Tables"]
