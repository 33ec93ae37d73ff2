"""The origin of a KeyboardInterrupt: a person's, or what a plugin raised by itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from reprieve.framework.interrupts import is_ctrl_c


def caught(call: Callable[[], Any]) -> BaseException:
    """What a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def raises() -> None:
    raise KeyboardInterrupt("mine")


def deeper() -> None:
    raises()


def pressed() -> None:
    """As if a user pressed Ctrl-C here."""
    signal.raise_signal(signal.SIGINT)


def below() -> None:
    pressed()


@pytest.fixture
def handled() -> Iterator[Callable[[Any], None]]:
    """Sets the handler of SIGINT until the test ends."""
    before = signal.getsignal(signal.SIGINT)

    def handle(handler: Any) -> None:
        signal.signal(signal.SIGINT, handler)

    yield handle
    signal.signal(signal.SIGINT, before)


class Handler:
    """Handlers of Python code, as asyncio's."""

    def method(self, _number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt


def function(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", [pressed, below])
@pytest.mark.parametrize("handler", [signal.default_int_handler, function, Handler().method])
def test_signal_is_a_person_s_whatever_handles_it(
    handled: Callable[[Any], None], handler: Any, call: Callable[[], None]
) -> None:
    handled(handler)
    assert is_ctrl_c(caught(call))


@pytest.mark.parametrize("handler", [signal.default_int_handler, function, Handler().method, signal.SIG_IGN])
@pytest.mark.parametrize("call", [raises, deeper])
def test_errors_raised_on_purpose_pass(handled: Callable[[Any], None], handler: Any, call: Callable[[], None]) -> None:
    """The last instruction of the innermost frame tells, however deep that is."""
    handled(handler)
    assert not is_ctrl_c(caught(call))


def test_one_that_was_never_raised_is_taken_for_a_person_s() -> None:
    """No plugin is to blame."""
    assert is_ctrl_c(KeyboardInterrupt())


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), RuntimeError()])
def test_other_exceptions_are_no_wish_to_end(error: BaseException) -> None:
    assert not is_ctrl_c(error)


def test_signals_reach_the_main_thread_alone() -> None:
    """In another thread no signal arrives."""
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(is_ctrl_c(KeyboardInterrupt())))
    thread.start()
    thread.join()
    assert said == [False]
