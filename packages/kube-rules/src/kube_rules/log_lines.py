"""The format of log lines on a terminal."""

import logging

from kube_rules.printable import printable, printable_line


class PrintableFormatter(logging.Formatter):
    """Formats a record as printable characters, its message as one line; only tracebacks have more lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of the record."""
        record.msg, record.args = printable_line(record.getMessage()), ()
        return printable(super().format(record))
