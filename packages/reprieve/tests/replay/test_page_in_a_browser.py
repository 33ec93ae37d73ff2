"""The page of a replay as a browser shows it, wide and narrow, light and dark (replay.md 4.8).

In a file of their own: `tools/mutate.py` takes no tests of a file that starts processes for judges.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.replay.test_page_and_trace import outcome, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_browser_shows_the_page_without_complaints(tmp_path: Path, width: int, dark: bool) -> None:
    file = tmp_path / "replay.html"
    probe = (
        "<script>addEventListener('load',()=>{const wide=[...document.querySelectorAll('svg')]"
        ".filter(one=>one.getBoundingClientRect().width>0);document.title=JSON.stringify({shown:wide.length,"
        "overflow:document.documentElement.scrollWidth-innerWidth,width:innerWidth})})</script></body>"
    )
    file.write_text(page([outcome("one")]).replace("</body>", probe))
    frame = tmp_path / "frame.html"
    # A window is never as narrow as a telephone: the page is shown in a frame that is.
    frame.write_text(
        f'<body style="margin:0"><iframe src="replay.html" style="border:0;width:{width}px;height:900px"></iframe>'
        "<script>addEventListener('load',()=>{setTimeout(()=>{document.title="
        "document.querySelector('iframe').contentDocument.title},50)})</script></body>"
    )
    assert BROWSER is not None
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--window-size=1500,1000"]
    command += [
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        *(["--force-dark-mode"] * dark),
        frame.as_uri(),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert "CONSOLE" not in ended.stderr, ended.stderr
    title = re.search(r"<title>(.*?)</title>", ended.stdout)
    assert title is not None, ended.stderr[-2000:]
    found = json.loads(title[1].replace("&quot;", '"'))
    assert found["width"] == width
    assert found["overflow"] <= 0
    assert found["shown"] == 6
