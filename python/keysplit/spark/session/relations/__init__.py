"""The proof of steady columns on Spark Connect, from the client's plan."""

from keysplit.spark.session.relations.proof import Proof

__all__ = ["Proof"]
