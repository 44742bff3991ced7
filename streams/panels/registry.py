"""All dashboards, and their panels by name."""

from __future__ import annotations

from typing import Final

from streams.panels.debug import DEBUG
from streams.panels.executive import EXECUTIVE
from streams.panels.oncall import ONCALL
from streams.panels.panel import Dashboard, Panel

DASHBOARDS: Final[tuple[Dashboard, ...]] = (EXECUTIVE, ONCALL, DEBUG)
PANELS: Final[dict[str, Panel]] = {panel.name: panel for board in DASHBOARDS for panel in board.panels}
