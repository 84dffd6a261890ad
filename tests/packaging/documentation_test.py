#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: documentation_test.py PROGRAM DOCUMENTATION_DIR

Walks a program's --help, command by command, and holds its manual page and the completions of bash, zsh
and fish against it. The completions are run by their own shells.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

PROGRAM = Path(sys.argv.pop(1))
DOCUMENTATION = Path(sys.argv.pop(1))
NAME = PROGRAM.name


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def sections(text):
    """{title: lines} of a help text."""
    found, title = {}, ""
    for line in text.splitlines():
        heading = re.match(r"(\w+):$", line)
        title = heading.group(1) if heading else title
        found.setdefault(title, []).append(line)
    return found


def walk(command):
    """[(command, options)] of a command and of those below it, as --help prints them."""
    found = sections(run(str(PROGRAM), *command, "--help"))
    options = [m.group(1).split(",") for line in found["Options"]
               if (m := re.match(r"  (-\S+)", line))]
    out = [(command, [name for names in options for name in names])]
    for line in found.get("Subcommands", []):
        if m := re.match(r"  (\w\S*)", line):
            out += walk(command + [m.group(1)])
    return out


WALK = walk([])


def read(suffix):
    return (DOCUMENTATION / f"{NAME}{suffix}").read_text()


class Documentation(unittest.TestCase):
    def test_help_was_read(self):
        self.assertIn("--version", WALK[0][1])
        for command, options in WALK:
            self.assertIn("--help", options, command)

    def test_manual_page(self):
        page = read(".1").replace(r"\-", "-").replace(r"\fB", "").replace(r"\fR", "")
        parts = {"": page.split(".SH COMMANDS")[0]}
        for part in page.split(".SS ")[1:]:
            parts[part.split(" [OPTIONS]")[0]] = part
        for command, options in WALK:
            part = parts[" ".join([NAME, *command]) if command else ""]
            heads = re.findall(r"^\.TP\n(.*)$", part, re.MULTILINE)
            named = {name for head in heads for name in re.findall(r"(?:^|, )(-[-\w]+)", head)}
            self.assertEqual(named, set(options), command)
        self.assertNotIn("print-documentation", page.split("\n", 1)[1])

    def test_bash(self):
        function = "_" + re.sub(r"\W", "_", NAME)
        for command, options in WALK:
            words = " ".join([NAME, *command, "-"])
            script = f"""source {DOCUMENTATION}/{NAME}.bash
                COMP_WORDS=({words}); COMP_CWORD={len(command) + 1}; {function}
                printf '%s\\n' "${{COMPREPLY[@]}}" """
            self.assertEqual(set(run("bash", "-c", script).split()), set(options), command)

    @unittest.skipUnless(NAME == "piperctl", "words of piperctl")
    def test_bash_completes_commands_and_values(self):
        script = f"""compopt() {{ :; }}
            source {DOCUMENTATION}/piperctl.bash
            COMP_WORDS=(piperctl pre); COMP_CWORD=1; _piperctl; echo "${{COMPREPLY[@]}}"
            COMP_WORDS=(piperctl predict --framework meg); COMP_CWORD=3; _piperctl; echo "${{COMPREPLY[@]}}"
            COMP_WORDS=(piperctl predict --framework = meg); COMP_CWORD=4; _piperctl; echo "${{COMPREPLY[@]}}"
            COMP_WORDS=(piperctl bench stor); COMP_CWORD=2; _piperctl; echo "${{COMPREPLY[@]}}" """
        self.assertEqual(run("bash", "-c", script).split(),
                         ["predict", "megatron", "megatron", "store"])

    def test_zsh(self):
        # The completion system is stood in for by one that prints what it is asked to offer.
        for command, options in WALK:
            function = "_" + re.sub(r"\W", "_", "_".join([NAME, *command]))
            script = f"""compdef() {{ }}; _arguments() {{ print -l -- "$@" }}
                source {DOCUMENTATION}/{NAME}.zsh; {function}"""
            specs = run("zsh", "-f", "-c", script).splitlines()
            named = {m.group(1) for spec in specs
                     if (m := re.match(r"(?:\([^)]*\))?\*?(-[-\w]*\w)[=+]?\[", spec))}
            self.assertEqual(named, set(options), command)

    def test_fish(self):
        for command, options in WALK:
            for prefix in ("-", "--"):
                line = " ".join([NAME, *command, prefix])
                script = f"source {DOCUMENTATION}/{NAME}.fish; complete -C '{line}'"
                offered = {row.split("\t")[0] for row in run("fish", "-c", script).splitlines()}
                # After one hyphen fish offers short options alone where there are some.
                wanted = {o for o in options if o.startswith("--")} if prefix == "--" else \
                    {o for o in options if not o.startswith("--")}
                self.assertLessEqual(wanted, offered, line)
                self.assertLessEqual(offered, set(options), line)


if __name__ == "__main__":
    unittest.main()
