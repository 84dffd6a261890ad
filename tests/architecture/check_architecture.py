#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of dependency and a few rules of form over every source file.

usage: check_architecture.py SOURCE_DIR [TABLE]
Prints one line "file:line: what is wrong (the rule)" for each fault; exit status 1 when there is
one, 2 when the table cannot be used.
"""
import fnmatch
import os
import re
import sys
from pathlib import Path

CODE = (".h", ".cpp", ".cu", ".cuh")
MAX_LINES = 600
SKIPPED_FOLDERS = {"build", ".git", ".cache", "__pycache__"}
GPL_ROOMS = ("ui", "app/workbench", "tests/ui", "tests/app/workbench")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


class TableError(Exception):
    pass


class Table:
    """The rules of allowed_edges.txt."""

    def __init__(self, text):
        self.edges, self.long = {}, set()
        self.only, self.never, self.link, self.room_files = [], [], [], []
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.split("#", 1)[0].strip()
            if line:
                self._read(line, number)
        self._expand()
        self._check_cycles()

    def _read(self, line, number):
        word, _, rest = line.partition(" ")
        if word == "length":
            self.long.add(rest.strip())
            return
        if "->" not in rest or word not in (
                "edge", "only", "never", "link", "room"):
            raise TableError(f"line {number}: not a rule: {line}")
        left, right = (part.strip() for part in rest.split("->", 1))
        if word == "room":
            self.room_files.append((left, right.split()))
        elif word != "edge":
            getattr(self, word).append((left, right.split()))
        elif left in self.edges:
            raise TableError(f"line {number}: a second edge line of {left}")
        else:
            self.edges[left] = right.split()

    def _expand(self):
        for room, targets in self.edges.items():
            for target in targets:
                if not target.endswith("/*") and target not in self.edges:
                    raise TableError(f"edge {room} names {target}, which is no room")
            self.edges[room] = {
                other for other in self.edges for t in targets if inside(other, [t])}

    def _check_cycles(self):
        done, path = set(), []

        def visit(room):
            if room in path:
                raise TableError("the table has a circle: " + " -> ".join(path + [room]))
            if room in done:
                return
            path.append(room)
            for other in self.edges[room] - {room}:
                visit(other)
            path.pop()
            done.add(room)

        for room in self.edges:
            visit(room)

    def room(self, path):
        """The room that lists the file, else the longest that the path lies in, or None."""
        for name, patterns in self.room_files:
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                return name
        parts = path.split("/")[:-1]
        while parts:
            if "/".join(parts) in self.edges:
                return "/".join(parts)
            parts.pop()
        return None


def inside(place, rooms):
    """Whether a folder lies in one of the rooms; "x/*" is x and all below it."""
    for room in rooms:
        stem = room[:-2] if room.endswith("/*") else room
        if place == stem or (place.startswith(stem + "/") and (room.endswith("/*") or stem in
                                                               ("tests", "packaging"))):
            return True
    return False


def check_include(table, root, path, number, kind, header):
    room, folder = table.room(path), os.path.dirname(path)
    if room is None:
        return f"{path}:{number}: {folder} is no room of the table"
    if kind == '"':
        if not (root / header).is_file():
            return (f'{path}:{number}: "{header}" is not a path from the root of the sources '
                    "(ours are included by their whole path)")
        target = table.room(header)
        if target != room and target not in table.edges[room]:
            return f"{path}:{number}: {room} may not include {target} ({header})"
        return None
    for pattern, rooms in table.only:
        if fnmatch.fnmatchcase(header, pattern):
            if place_allowed(folder, room, rooms):
                return None
            return f"{path}:{number}: <{header}> only in {' '.join(rooms)}, not in {room}"
    for pattern, rooms in table.never:
        if fnmatch.fnmatchcase(header, pattern) and place_allowed(folder, room, rooms):
            return f"{path}:{number}: <{header}> never in {' '.join(rooms)}"
    return None


def place_allowed(folder, room, rooms):
    return inside(room, rooms) or inside(folder, rooms)


def check_form(table, path, text, machine_paths):
    lines = text.splitlines()
    head = "\n".join(lines[:4])
    wanted = "GPL-3.0-or-later" if any(
        path.startswith(room + "/") for room in GPL_ROOMS) else "Apache-2.0"
    if needs_licence(path) and f"SPDX-License-Identifier: {wanted}" not in head:
        if not (path.endswith("CMakeLists.txt") and "SPDX-License-Identifier: " in head):
            yield f"{path}:1: no line 'SPDX-License-Identifier: {wanted}' (the licence of its folder)"
    if path.endswith(CODE) and len(lines) > MAX_LINES and path not in table.long:
        yield f"{path}:{MAX_LINES + 1}: {len(lines)} lines (at most {MAX_LINES}; split it)"
    for number, line in enumerate(lines, 1):
        for place in machine_paths:
            if place in line:
                yield f"{path}:{number}: names a path of the build machine ({place})"


def needs_licence(path):
    return path.endswith(CODE + (".cmake", ".py", "CMakeLists.txt"))


def check_links(table, path, text):
    """piper_library and piper_test of a CMakeLists.txt against the same edges."""
    folder = os.path.dirname(path)
    for match in re.finditer(r"piper_(library|test)\s*\(([^)]*)\)", text):
        number = text.count("\n", 0, match.start()) + 1
        words = re.sub(r"#.*", "", match.group(2)).split()
        if not words or "${" in words[0]:
            continue
        named = words[0].replace("_", "/", 1)
        room = named if named in table.edges else table.room(folder + "/x")
        for dep in dependencies(words):
            fault = check_link(table, folder, room, dep)
            if fault:
                yield f"{path}:{number}: {words[0]} {fault}"


def dependencies(words):
    reading = False
    for word in words[1:]:
        if word in ("SOURCES", "LABELS", "TIMEOUT", "EXTRA"):
            reading = False
        elif word in ("DEPS", "PRIVATE_DEPS"):
            reading = True
        elif reading:
            yield word


def check_link(table, folder, room, dep):
    for pattern, rooms in table.link:
        if fnmatch.fnmatchcase(dep, pattern):
            return None if place_allowed(folder, room, rooms) else (
                f"may not link {dep} (only {' '.join(rooms)})")
    target = dep.replace("_", "/", 1)
    if "::" in dep or target not in table.edges or target == room:
        return None
    return None if target in table.edges[room] else f"of {room} may not link {dep}"


def source_files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        for name in sorted(names):
            path = (Path(folder) / name).relative_to(root).as_posix()
            if path.endswith(CODE + (".cmake", ".py", ".txt", ".md", ".json", ".sh")):
                yield path


def machine_paths_of(root):
    """Prefixes that only this build machine has: its source folder and its home folder. A source
    folder right below / is left out, for "/app/" is an ordinary part of a path."""
    paths = {"/" + "home" + "/" + os.environ.get("USER", "nobody-at-all") + "/"}
    if len(root.resolve().parts) > 2:
        paths.add(str(root.resolve()) + "/")
    return sorted(paths)


def check_tree(root, table):
    faults, machine_paths = [], machine_paths_of(root)
    for path in source_files(root):
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        faults += check_form(table, path, text, machine_paths)
        if path.endswith(CODE):
            for number, line in enumerate(text.splitlines(), 1):
                match = INCLUDE.match(line)
                fault = match and check_include(table, root, path, number, *match.groups())
                if fault:
                    faults.append(fault)
        elif path.endswith("CMakeLists.txt") and "/" in path:
            faults += check_links(table, path, text)
    return faults


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0])
    table_file = Path(arguments[1]) if len(arguments) > 1 else (
        root / "tests/architecture/allowed_edges.txt")
    try:
        table = Table(table_file.read_text(encoding="utf-8"))
    except (OSError, TableError) as error:
        print(f"check_architecture: {table_file}: {error}", file=sys.stderr)
        return 2
    faults = check_tree(root, table)
    print("\n".join(faults) if faults else "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
