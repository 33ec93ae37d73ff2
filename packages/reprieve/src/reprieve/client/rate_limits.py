"""Rate limits of requests, and backoffs before retries.

Terms: a token bucket permits `burst` requests at once and then `qps` a second (client-go's flow control). A backoff is
a sequence of growing waits, each with jitter so that clients do not retry at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from reprieve.client.clock import Clock


class TokenBucket:
    """Lets callers through in their order; `qps` 0 or less means no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._at = clock.monotonic()

    async def take(self) -> None:
        """Wait for the caller's turn."""
        if self._qps <= 0:
            return
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1  # below zero: a place in the queue
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Waits of `initial`, `initial * factor`, ... up to `maximum` seconds, each extended by up to its `jitter` part."""

    initial: float = 0.25
    maximum: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5


class Backoff:
    """One sequence of waits."""

    def __init__(self, policy: BackoffPolicy, random: Random) -> None:
        self._policy = policy
        self._random = random
        self._turn = 0

    def next(self) -> float:
        """Return the next wait in seconds."""
        policy = self._policy
        wait = min(policy.initial * policy.factor ** min(self._turn, 64), policy.maximum)
        self._turn += 1
        return wait * (1.0 + policy.jitter * self._random.random())

    def reset(self) -> None:
        """Start over after a successful attempt."""
        self._turn = 0
