"""What every test shares: the number of examples that hypothesis tries, and a JVM that starts fast.

`HYPOTHESIS_PROFILE=thorough pytest tests/test_differential.py` is the long run. `ci` is repeatable, and so is
`brief`: for code that was tested before, in a wheel or beside another library.
"""

import os

from hypothesis import HealthCheck, settings
from quick_java import QUICK

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=40, **COMMON)
settings.register_profile("ci", max_examples=60, derandomize=True, **COMMON)
settings.register_profile("brief", max_examples=10, derandomize=True, **COMMON)
settings.register_profile("thorough", max_examples=20_000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# What Java compiles for some hundred tests needs more room than it has by default. So do young objects.
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{QUICK} -XX:ReservedCodeCacheSize=256m -Xms1g -Xmn300m")
