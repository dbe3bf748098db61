"""Plans: which worker each row of each key goes to, decided once and the same for ever.

`model` is the plan, `text` what people read of it, and `known` what a process knows of its rows;
`keysplit.plans` has its form as JSON and its tables.
"""

from keysplit.plans import FrequentKey, Tables
from keysplit.spark.plans.model import Plan

__all__ = ["FrequentKey", "Plan", "Tables"]
