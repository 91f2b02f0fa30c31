"""benchmarks/gpu is the one body of device checks; this makes its modules importable here."""

import sys
from pathlib import Path

KIT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"
if str(KIT) not in sys.path:
    sys.path.insert(0, str(KIT))
