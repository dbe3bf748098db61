"""Profiles: how skewed keys are, what that costs, and which grouping would help."""

from keysplit.profiling.from_stream import SHORT_LIST, profile
from keysplit.profiling.model import Advice, Prediction, Profile, TopKey

__all__ = ["SHORT_LIST", "Advice", "Prediction", "Profile", "TopKey", "profile"]
