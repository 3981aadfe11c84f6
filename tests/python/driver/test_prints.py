"""The output of a driver for lines that workers overwrite, such as progress bars."""

import os
import pty
import subprocess
import sys

from conftest import clean_environment

BEGIN = """
from rtrain.train._driver._prints import Printer
printer = Printer({0: "n1", 1: "n1"})
"""


def test_elsewhere_than_on_a_terminal_each_state_is_a_line_and_the_last_one_comes_once():
    script = """
print(printer.states_ms, flush=True)
printer.state(0, "10%", "out")
printer.state(0, "100%", "out")
printer.line(0, "100%", "out")
printer.line(0, "100%", "out")  # printed anew
printer.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script], env=clean_environment(), capture_output=True, text=True, timeout=60
    )
    lines = "1000", "(rank 0, n1) 10%", "(rank 0, n1) 100%", "(rank 0, n1) 100%"
    assert done.stdout.splitlines() == list(lines), done.stderr


def test_on_a_terminal_a_state_replaces_the_one_before_and_a_line_stands_above_it():
    script = """
assert printer.states_ms == 100
printer.state(0, "10%", "out")
printer.state(1, "7%", "out")
printer.line(1, "a line", "out")
printer.line(1, "100%", "out")
printer.close()
"""
    here, there = pty.openpty()
    environment = {**clean_environment(), "COLUMNS": "40"}
    program = subprocess.Popen([sys.executable, "-c", BEGIN + script], env=environment, stdout=there)
    os.close(there)
    text = b""
    try:
        while piece := os.read(here, 1 << 16):
            text += piece
    except OSError:  # the program has closed the terminal
        pass
    os.close(here)
    assert program.wait(60) == 0
    hidden = "\r\x1b[K"
    both = "(rank 0, n1) 10% (and 1 more)"
    lines = "(rank 1, n1) a line\r\n(rank 1, n1) 100%\r\n"
    assert text.decode().startswith(f"(rank 0, n1) 10%{hidden}{both}{hidden}"), text
    assert text.decode().replace(hidden, "").replace("(rank 0, n1) 10%", "").replace(" (and 1 more)", "") == lines, text
