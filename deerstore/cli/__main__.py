"""``python -m deerstore.cli``."""

from __future__ import annotations

import sys

from deerstore.cli import main

sys.exit(main())
