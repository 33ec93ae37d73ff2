"""Telling a person's Ctrl-C from a KeyboardInterrupt that a plugin raised by itself.

Both are the same exception. What is a plugin's must fail an attempt and nothing else; what is a person's must end the
program. Python delivers signals to the main thread alone, and its own handler, which is no Python code, raises between
two instructions; what is raised on purpose comes from a `raise`. So the last instruction of the innermost frame tells.
A handler that is Python code (asyncio's, for one) ends in a `raise` as well: it is recognized by its arguments, a
signal's number and a frame.
"""

import opcode
import signal
import threading
from types import FrameType

_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether the user wants the program to end; False for what the code that was called raised itself.

    To be asked in the thread in which it was caught.
    """
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    place = error.__traceback__
    if place is None:
        return True
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_code[place.tb_lasti] != _RAISE or _handles_signal(place.tb_frame)


def _handles_signal(frame: FrameType) -> bool:
    """Return whether the frame is that of the handler of SIGINT."""
    handler = signal.getsignal(signal.SIGINT)
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return code is frame.f_code
