"""The emulator's tests share a harness and oracles, which lie beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
