"""Programs that others partition, beside the moves that are derived.

Not part of the usual run: `pip install -e '.[test,outside]'`, then
`.venv/bin/python -m pytest tests/outside`. JAX stands for sixteen devices on this processor; what
DTensor does is recorded (`record_dtensor.py`), so that no torch is needed here.
"""

import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
os.environ["JAX_PLATFORMS"] = "cpu"
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cost")]
