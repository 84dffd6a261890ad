#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker must find each kind of fault and must not find one where there is none."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import check_architecture as checker  # noqa: E402

TABLE = (Path(__file__).parent / "allowed_edges.txt").read_text(encoding="utf-8")
APACHE = "// SPDX-License-Identifier: Apache-2.0\n"
GPL = "// SPDX-License-Identifier: GPL-3.0-or-later\n"
GOOD = {
    "core/base/units.h": APACHE + "#include <vector>\n#include <fmt/format.h>\n",
    "core/model/model.h": APACHE + '#include "core/base/units.h"\n',
    "collectors/store/store.cpp": APACHE + '#include <sqlite3.h>\n#include "core/model/model.h"\n',
    "ui/views/page.cpp": GPL + '#include <QWidget>\n#include "ui/models/plan.h"\n',
    "ui/models/plan.h": GPL + '#include "core/model/model.h"\n',
    "core/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\n"
                           "piper_library(core_model SOURCES a.cpp DEPS core_base fmt::fmt)\n",
}


def faults(extra, table=TABLE):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**GOOD, **extra}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text.replace("@ROOT@", str(root.resolve())))
        return checker.check_tree(root, checker.Table(table))


class Includes(unittest.TestCase):
    def expect(self, extra, place, words):
        found = faults(extra)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(place + ": "), found[0])
        self.assertIn(words, found[0])

    def test_a_tree_that_obeys_has_no_fault(self):
        self.assertEqual(faults({}), [])

    def test_an_arrow_that_turns_back(self):
        self.expect({"core/base/bad.cpp": APACHE + '\n#include "core/model/model.h"\n'},
                    "core/base/bad.cpp:3", "core/base may not include core/model")

    def test_apache_room_may_not_use_the_window(self):
        self.expect({"app/piperctl/main.cpp": APACHE + '#include "ui/models/plan.h"\n'},
                    "app/piperctl/main.cpp:2", "may not include ui/models")

    def test_library_headers_stay_in_their_room(self):
        for place, header in (("sessions", "sqlite3.h"), ("kernels/pipeline", "mpi.h"),
                              ("ui/models", "libssh/libssh.h"), ("core/run", "QString"),
                              ("kernels/ops", "cuda_runtime.h"), ("kernels/ops", "dnnl.hpp"),
                              ("ui/views", "qcustomplot.h"), ("ui/views", "imgui.h"),
                              ("kernels/alltoall", "nccl.h")):
            licence = GPL if place.startswith("ui/") else APACHE
            self.expect({f"{place}/bad.cpp": licence + f"#  include  <{header}>\n"},
                        f"{place}/bad.cpp:2", f"<{header}> only in")

    def test_core_has_no_thread_and_no_clock(self):
        for header in ("thread", "chrono", "unistd.h"):
            self.expect({"core/run/bad.h": APACHE + f"#include <{header}>\n"}, "core/run/bad.h:2",
                        f"<{header}> never in core/*")

    def test_include_by_the_whole_path(self):
        self.expect({"core/base/bad.cpp": APACHE + '#include "units.h"\n'}, "core/base/bad.cpp:2",
                    "not a path from the root")

    def test_a_folder_the_table_does_not_know(self):
        self.expect({"tools/x.cpp": APACHE + "#include <vector>\n"}, "tools/x.cpp:2", "is no room")


class Rooms(unittest.TestCase):
    def test_a_room_of_single_files(self):
        table = TABLE + ("edge core/base_io -> core/base\n"
                         "room core/base_io -> core/base/file_*\n")
        io = {"core/base/file_read.h": APACHE + '#include "core/base/units.h"\n'}
        self.assertEqual(faults(io, table), [])
        back = {**io, "core/base/b.h": APACHE + '#include "core/base/file_read.h"\n'}
        self.assertIn("core/base may not include core/base_io", faults(back, table)[0])


class Form(unittest.TestCase):
    def test_licence_by_folder(self):
        self.assertIn("Apache-2.0", faults({"core/run/a.h": "#pragma once\n"})[0])
        self.assertIn("Apache-2.0", faults({"core/run/a.h": GPL})[0])
        self.assertIn("GPL-3.0-or-later", faults({"app/workbench/a.cpp": APACHE})[0])
        self.assertIn("GPL-3.0-or-later", faults({"tests/ui/a.cpp": APACHE})[0])

    def test_length(self):
        name = "core/run/a.cpp"
        self.assertEqual(faults({name: APACHE + "//\n" * 599}), [])
        self.assertIn(f"{name}:601: 601 lines", faults({name: APACHE + "//\n" * 600})[0])
        self.assertEqual(faults({name: APACHE + "//\n" * 600}, TABLE + f"\nlength {name}\n"), [])

    def test_path_of_the_build_machine(self):
        found = faults({"docs/a.md": "\nsee @ROOT@/core\n"})
        self.assertEqual(len(found), 1)
        self.assertIn("docs/a.md:2: names a path of the build machine", found[0])

    def test_a_source_folder_right_below_the_root_is_no_path_of_one_machine(self):
        self.assertNotIn("/app/", checker.machine_paths_of(Path("/app")))
        self.assertNotIn("/app/", checker.machine_paths_of(Path("/app/source")))


class Links(unittest.TestCase):
    def links(self, folder, line):
        return faults({f"{folder}/CMakeLists.txt": f"# SPDX-License-Identifier: Apache-2.0\n{line}\n"})

    def test_a_link_against_the_edges(self):
        found = self.links("core/run", "piper_library(core_run SOURCES a.cpp\n DEPS core_search)")
        self.assertEqual(
            found, ["core/run/CMakeLists.txt:2: core_run of core/run may not link core_search"])

    def test_a_library_in_the_wrong_room(self):
        found = self.links("sessions", "piper_library(sessions SOURCES a PRIVATE_DEPS Qt6::Core)")
        self.assertIn("may not link Qt6::Core", found[0])
        self.assertEqual(
            self.links("sessions", "piper_library(sessions SOURCES a PRIVATE_DEPS PkgConfig::libssh)"),
            [])


class Rules(unittest.TestCase):
    def test_bad_tables(self):
        for text, words in (("edge a -> b\n", "is no room"), ("edge a b\n", "not a rule"),
                            ("edge a ->\nedge a ->\n", "second edge line"),
                            ("edge a -> b\nedge b -> a\n", "circle: a -> b -> a")):
            with self.assertRaises(checker.TableError) as caught:
                checker.Table(text)
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
