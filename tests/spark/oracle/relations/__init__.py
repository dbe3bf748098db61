"""The proof of steady columns on Spark Connect, from the client's plan."""

from oracle.relations.proof import Proof

__all__ = ["Proof"]
