"""Levels."""
from typing import Literal
Level = Literal["full", "no-namespaces", "limits"]
