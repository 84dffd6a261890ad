#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs piper-workbench --screenshot for a page and checks size and content of the PNG."""
import os
import struct
import subprocess
import sys
import tempfile
import zlib


def read_png(path):
    """Width, height and the unfiltered-or-not pixel stream, enough to tell an empty picture."""
    data = open(path, "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    width, height = struct.unpack(">II", data[16:24])
    stream, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at:at + 4])
        if data[at + 4:at + 8] == b"IDAT":
            stream += data[at + 8:at + 8 + length]
        at += 12 + length
    return width, height, zlib.decompress(stream)


def check(program, page, arguments, expected):
    with tempfile.TemporaryDirectory() as folder:
        png = folder + "/page.png"
        command = [program, "--page", page, "--screenshot", png] + arguments
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
        width, height, pixels = read_png(png)
        assert (width, height) == expected, f"{(width, height)} is not {expected}"
        assert len(set(pixels)) > 20, "the picture has next to no content"


def check_refused(program, arguments, status, words):
    done = subprocess.run([program] + arguments, capture_output=True, text=True, timeout=100)
    assert done.returncode == status, f"{arguments} ended with {done.returncode}: {done.stderr}"
    assert words in done.stderr, f"{arguments} does not say '{words}': {done.stderr}"


def check_bad_input(program):
    with tempfile.TemporaryDirectory() as folder:
        png = folder + "/page.png"
        garbage = folder + "/garbage.piper"
        with open(garbage, "w") as file:
            file.write("no database")
        check_refused(program, ["/nonexistent.piper", "--screenshot", png], 2, "/nonexistent.piper")
        check_refused(program, [garbage, "--screenshot", png], 2, "garbage.piper")
        check_refused(program, ["--plan", garbage, "--screenshot", png], 2, "garbage.piper")
        check_refused(program, ["--runs", "a", "--screenshot", png], 2, "--runs")
        check_refused(program, ["--screenshot", folder + "/none/x.png"], 3, "none/x.png")
        check_refused(program, ["--page", "plam"], 2, "'plan'")
        check_refused(program, ["--screenshot", png, "--do", "Plan: Dance"], 2, "'Plan: Dance'")
        check_refused(program, ["--report", "/proc/nowhere"], 3, "/proc/nowhere")
        check_refused(program, ["--bench", "timeline"], 2, "--bench timeline")
        for window in ("first-page", "empty-window"):
            said = subprocess.run([program, "--bench", window], capture_output=True, text=True,
                                  timeout=100, env=dict(os.environ, HOME=folder, XDG_DATA_HOME=folder,
                                                        XDG_CONFIG_HOME=folder))
            assert (said.returncode, said.stdout) == (0, "painted\n"), (window, said)


def main():
    program, page = sys.argv[1:]
    if page == "bad_input":
        check_bad_input(program)
        return
    check(program, page, ["--size", "1280x800", "--theme", "dark"], (1280, 800))
    check(program, page, ["--size", "1000x640", "--scale", "2", "--theme", "light"], (2000, 1280))


if __name__ == "__main__":
    main()
