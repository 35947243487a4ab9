"""A terminal: runs a command on one, and knows what stands on its screen and what has scrolled off."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence

CONTROL = re.compile(r"\x1b\[(\??\d*(?:;\d+)*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


class Terminal:
    """As much of a VT100 as rich makes use of: lines, carriage returns, cursor up, erase; colours are ignored."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.screen = [""]
        self.scrolled: list[str] = []
        self._line = self._column = 0

    def feed(self, text: str) -> None:
        """Takes in what a program writes."""
        for arguments, command, carriage, newline, plain in CONTROL.findall(text):
            if plain:
                self._put(plain)
            elif carriage:
                self._column = 0
            elif newline:
                self._down()
            elif command == "A":
                self._line = max(0, self._line - int(arguments or 1))
            elif command == "K":
                self.screen[self._line] = ""

    def _put(self, text: str) -> None:
        for start in range(0, len(text), self.columns):  # a line that is too long goes on below
            part = text[start : start + self.columns]
            if self._column + len(part) > self.columns:
                self._down()
                self._column = 0
            line = self.screen[self._line].ljust(self._column)
            self.screen[self._line] = line[: self._column] + part + line[self._column + len(part) :]
            self._column += len(part)

    def _down(self) -> None:
        self._line += 1
        if self._line == len(self.screen):
            self.screen.append("")
        if len(self.screen) > self.rows:
            self.scrolled.append(self.screen.pop(0))
            self._line -= 1


def on_a_terminal(command: Sequence[str], columns: int, rows: int) -> Terminal:
    """Runs a command on a terminal of this size and gives how that looks in the end."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    environment.pop("LINES", None)
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        written = bytearray()
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side has been closed
                break
            written += piece
        process.wait()
    os.close(ours)
    terminal = Terminal(columns, rows)
    terminal.feed(written.decode())
    return terminal
