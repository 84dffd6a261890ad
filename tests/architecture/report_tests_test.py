#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/report_tests.py must refuse what packaging/test promises to refuse."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "packaging/report_tests.py"
PASSED = '<testcase name="a" status="run"><system-out>ok</system-out></testcase>'
FAILED = '<testcase name="b" status="fail"><system-out>no</system-out></testcase>'
SKIPPED = ('<testcase name="c" status="notrun"><skipped message=""/><system-out>'
           "x_test.cpp:7: Skipped\nno namespace here,\nneeds root\n\n[  SKIPPED ] X.c (0 ms)\n"
           "</system-out></testcase>")


def report(cases, *options, labels=()):
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        results.write_text(f"<testsuite>{cases}</testsuite>")
        tests = [{"name": "c", "properties": [{"name": "LABELS", "value": list(labels)}]}]
        results.with_suffix(".json").write_text(json.dumps({"tests": tests}))
        done = subprocess.run([sys.executable, PROGRAM, *options, results], text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout


class Report(unittest.TestCase):
    def test_passes(self):
        self.assertEqual(report(PASSED, "--strict"), (0, "1 passed, 0 failed, 0 skipped\n"))

    def test_a_failure_fails(self):
        status, text = report(PASSED + FAILED)
        self.assertEqual(status, 1)
        self.assertIn("failed: b\n    no\n", text)
        self.assertTrue(text.endswith("1 passed, 1 failed, 0 skipped\n"))

    def test_no_test_fails(self):
        self.assertEqual(report("")[0], 1)
        self.assertEqual(report(SKIPPED)[0], 1)

    def test_a_skip_gives_its_reason_and_strict_refuses_it(self):
        status, text = report(PASSED + SKIPPED)
        self.assertEqual(status, 0)
        self.assertIn("skipped: c: no namespace here, needs root\n", text)
        self.assertEqual(report(PASSED + SKIPPED, "--strict")[0], 1)

    def test_a_device_test_may_skip(self):
        status, text = report(PASSED + SKIPPED, "--strict", labels=("fast", "device"))
        self.assertEqual(status, 0)
        self.assertIn("skipped (device): c", text)

    def test_a_file_that_is_no_report(self):
        self.assertEqual(report("<open>")[0], 2)


if __name__ == "__main__":
    unittest.main()
