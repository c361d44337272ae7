"""When to dial again, and how long to wait before. Pure, but for the random share that keeps clients out of step."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Reconnect:
    initial: float = 0.2
    """Seconds before the first attempt; doubled with each further one."""
    max: float = 10.0
    """The longest wait, in seconds."""
    attempts: int = 10
    """Attempts before the client is closed."""

    def wait(self, attempt: int, share: float | None = None) -> float:
        """Between half and all of the doubled time."""
        # The exponent is bounded, so that a thousand attempts do not overflow a double.
        full = min(self.initial * 2.0 ** min(attempt, 64), self.max)
        return full / 2 + full / 2 * (random.random() if share is None else share)


_UNEXPECTED: Final = frozenset([1001, 1005, 1006, 1011, 1012, 1013, 1014])
"""Going away, no status, abnormal, internal error, and what restarting servers and their proxies send."""


def is_unexpected(close_code: int) -> bool:
    """Whether a connection that ended so is worth dialling again. A close on purpose is not, nor one that repeats."""
    return close_code in _UNEXPECTED
