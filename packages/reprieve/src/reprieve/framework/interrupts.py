"""Distinguishes a user's Ctrl-C from a KeyboardInterrupt that a plugin raised by itself.

Both are the same exception. A plugin's must fail only its attempt; a user's must end the program. Python delivers
signals to the main thread alone, and its default handler, which is not Python code, raises between two instructions; a
deliberate exception comes from a `raise`. So the last instruction of the innermost frame decides. A handler in Python
code (asyncio's, for example) ends in a `raise` as well: its frame runs the code of the installed handler.
"""

import opcode
import signal
import threading
from types import FrameType

_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether the user interrupted the program; False for an exception that the called code raised itself.

    Must be called in the thread that caught it.
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
    """Return whether the frame is that of the SIGINT handler."""
    handler = signal.getsignal(signal.SIGINT)
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return code is frame.f_code
