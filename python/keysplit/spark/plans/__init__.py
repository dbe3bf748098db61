"""Plans: which worker each row of each key goes to, decided once and the same for ever.

`model` is the plan, `stored` its form as JSON, `files` where that is kept, and `text` what people read of it.
"""

from keysplit.spark.plans.frequent import FrequentKey
from keysplit.spark.plans.model import Plan, Tables

__all__ = ["FrequentKey", "Plan", "Tables"]
