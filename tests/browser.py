"""A page as headless Chromium sees it."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on the PATH to draw the page with")


def dom(page: Path) -> str:
    """The document once the page has been drawn, which must have said nothing on the console."""
    options = (
        "--headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --virtual-time-budget=3000 --dump-dom"
    )
    command = [str(BROWSER), *options.split(), page.resolve().as_uri()]
    result = subprocess.run(command, capture_output=True, timeout=120, check=True)
    complaints = [line for line in result.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    assert complaints == []
    return result.stdout.decode()
