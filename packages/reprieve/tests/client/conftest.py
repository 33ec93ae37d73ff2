"""Commands are run in this process, as in tests of the commands."""

from tests.cli.conftest import run as run
