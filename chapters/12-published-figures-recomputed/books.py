"""Books audited: their printed figures against what this toolkit derives from the same inputs."""

from __future__ import annotations

from derive import number
from derive.notation.units import one

from .common import chapter

chapter.claim("chapters-audited", number(2, one, "chapters", status="derived"), "exact")
