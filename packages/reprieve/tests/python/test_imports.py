"""What a program loads with the library; in a process of its own, as only a fresh one shows it."""

import subprocess
import sys


def test_plan_loads_no_network_client_and_no_terminal() -> None:
    code = (
        "import sys, reprieve\n"
        "reprieve.load({'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}}).plan()\n"
        "print(sorted({'aiohttp', 'pandas', 'typer', 'rich', 'uvicorn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
