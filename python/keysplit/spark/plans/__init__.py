"""Plans: which worker each row of each key goes to, decided once and the same for ever.

`model` is the plan and `text` what people read of it; `keysplit.plans` has its form as JSON and its tables.
"""

from keysplit.plans import FrequentKey, Tables
from keysplit.spark.plans.model import Plan

__all__ = ["FrequentKey", "Plan", "Tables"]
