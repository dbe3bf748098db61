"""Profiles: how skewed keys are, what the skew costs, and which grouping would help."""

from keysplit.profiling.model import Advice, Prediction, Profile, TopKey
from keysplit.profiling.stream import SHORT_LIST, profile

__all__ = ["SHORT_LIST", "Advice", "Prediction", "Profile", "TopKey", "profile"]
