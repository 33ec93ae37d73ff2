"""How long a test waits for what must come.

Long, as it is waited out only where something is wrong: machines are slow, run other things beside, and stand still
for seconds. A test that fails when nothing is wrong is worse than one that fails late.
"""

from typing import Final

DEADLINE: Final = 180.0
"""Seconds of the machine's clock."""
