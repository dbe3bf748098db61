"""How balanced the loads of workers are, and what splitting keys costs."""

from keysplit._core import imbalance, load_stddev, memory, relative_imbalance, replication

__all__ = ["imbalance", "load_stddev", "memory", "relative_imbalance", "replication"]
