"""axe-core, which finds accessibility problems in a page: a script of its npm package, downloaded once and verified."""

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from live_browser import Page

VERSION = "4.14.0"
SHA512 = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="


def script() -> str:
    """The text of axe.min.js; skips the test where it cannot be had."""
    kept = Path(tempfile.gettempdir()) / f"axe-core-{VERSION}.tgz"
    content = kept.read_bytes() if kept.is_file() else b""
    if not _is_it(content):
        content = _downloaded()
        kept.write_bytes(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def _downloaded() -> bytes:
    """The package as npm gives it."""
    if not shutil.which("npm"):
        pytest.skip("axe-core is a package of npm, which is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            pytest.skip(f"npm pack axe-core@{VERSION}: {done.stderr.strip()}")
        content = (Path(folder) / f"axe-core-{VERSION}.tgz").read_bytes()
    assert _is_it(content)
    return content


def _is_it(content: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(content).digest()).decode() == SHA512


def problems(page: Page) -> list[tuple[str, str, str]]:
    """Serious and critical problems of a page: the rule, what it says, and the first place."""
    page.run(script() + "; true")
    found: list[dict[str, Any]] = page.run("axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations)")
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [(one["id"], one["help"], one["nodes"][0]["html"][:300]) for one in serious]
