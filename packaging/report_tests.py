#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints every skipped test of ctest's JUnit files with its reason, every failed one with the end of
its output, and the count of all.
Beside RESULTS.xml lies RESULTS.json, what `ctest --show-only=json-v1` printed.

usage: report_tests.py [--strict] RESULTS.xml...
Exit status 1 when a test failed, when none ran, or with --strict when a test that has not the label
"device" was skipped; 2 when a file cannot be read.
"""
import json
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


SHOWN_LINES = 30  # of what a failed test printed


def skip_reason(output):
    """The text GTEST_SKIP() printed after 'file:line: Skipped', in one line."""
    match = re.search(r": Skipped\n(.*?)\n*\[  SKIPPED \]", output, re.S)
    reason = " ".join(match.group(1).split()) if match else ""
    return reason or "no reason given"


def read_labels(path):
    """Labels of every test, from the file of `ctest --show-only=json-v1` beside the results."""
    tests = json.loads(Path(path).with_suffix(".json").read_text(encoding="utf-8"))["tests"]
    return {test["name"]: value["value"] for test in tests if "name" in test
            for value in test.get("properties", []) if value["name"] == "LABELS"}


def read_cases(path):
    labels = read_labels(path)
    for case in xml.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        yield name, case.get("status"), labels.get(name, []), case.findtext("system-out") or ""


def main(arguments):
    strict = "--strict" in arguments
    paths = [a for a in arguments if a != "--strict"]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    refused = []
    for path in paths:
        try:
            cases = list(read_cases(path))
        except (OSError, ValueError, KeyError, xml.ParseError) as error:
            print(f"report_tests: {path}: {error}", file=sys.stderr)
            return 2
        for name, status, labels, output in cases:
            if status == "run":
                counts["passed"] += 1
            elif status in ("notrun", "disabled"):
                counts["skipped"] += 1
                device = "device" in labels
                print(f"skipped{' (device)' if device else ''}: {name}: {skip_reason(output)}")
                if not device:
                    refused.append(name)
            else:
                counts["failed"] += 1
                print(f"failed: {name}")
                for line in output.splitlines()[-SHOWN_LINES:]:
                    print(f"    {line}")
    if strict and refused:
        print(f"{len(refused)} tests were skipped that need no device; install what they miss")
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    nothing = counts["passed"] + counts["failed"] == 0
    return 1 if counts["failed"] or nothing or (strict and refused) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
