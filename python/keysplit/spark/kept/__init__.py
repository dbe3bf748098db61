"""Plans that stay at a path, and what the runs that go by them have shown."""

from keysplit.spark.kept.place import Kept

__all__ = ["Kept"]
