"""What a call refuses with."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.errors import StatusError


def message_of(work: Any, *given: Any, **more: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as refused:
        work(*given, **more)
    return refused.value.code, refused.value.message
