# SPDX-License-Identifier: Apache-2.0
"""The structs and enumerations of the package are those of the headers, by a compiled C program."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import unittest

import support  # first: it finds the package

from pawl import _abi, _library

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
# Members whose name is a word of Python.
C_NAMES = {"from_": "from"}
# Enumerations of the package: name in C, and what its members begin with.
ENUMS = {
    "pawl_status": ("PAWL_", _abi.Status),
    "pawl_error_part": ("PAWL_ERROR_", _abi.ErrorPart),
    "pawl_log_level": ("PAWL_LOG_", _abi.LogLevel),
    "pawl_dtype": ("PAWL_", _abi.Dtype),
    "pawl_kind": ("PAWL_KIND_", _abi.Kind),
    "pawl_role": ("PAWL_ROLE_", _abi.Role),
    "pawl_on_busy": ("PAWL_ON_BUSY_", _abi.OnBusy),
    "pawl_io": ("PAWL_IO_", _abi.Io),
    "pawl_io_priority": ("PAWL_IO_PRIORITY_", _abi.IoPriority),
    "pawl_policy": ("PAWL_POLICY_", _abi.Policy),
    "pawl_difference": ("PAWL_DIFF_", _abi.Difference),
    "pawl_diff_kind": ("PAWL_", _abi.DiffKind),
    "pawl_convert_fate": ("PAWL_", _abi.Fate),
    "pawl_doctor_part": ("PAWL_DOCTOR_", _abi.DoctorPart),
    "pawl_severity": ("PAWL_SEVERITY_", _abi.Severity),
    "pawl_step_status": ("PAWL_STEP_", _abi.StepStatus),
    "pawl_event_kind": ("PAWL_EVENT_", _abi.EventKind),
}
# With a run or a checkpoint they answer from memory.
ANSWER_AT_ONCE = {"pawl_checkpoint_describe", "pawl_due", "pawl_entries_free", "pawl_fenced", "pawl_fenced_tensors"}
# Without storage, but in time that grows with what they look at.
READ_MUCH_MEMORY = {"pawl_check_gradients"}
PYTHON_API = 4  # ctypes' flag of a function that is called with the interpreter's lock


def headers():
    include = support.SOURCE / "include" / "pawl"
    return {path.name: path.read_text(encoding="utf-8") for path in include.glob("*.h")}


def layout(struct):
    """{"": size, member: [offset, size]}"""
    found = {"": ctypes.sizeof(struct)}
    for name, *_ in struct._fields_:
        member = getattr(struct, name)
        found[C_NAMES.get(name, name)] = [member.offset, member.size]
    return found


def line_of(name, struct):
    """C that prints the same as JSON."""
    parts = [f'printf("\\"{name}\\": {{\\"\\": %zu", sizeof(struct {name}));']
    for member in layout(struct):
        if member:
            parts.append(
                f'printf(", \\"{member}\\": [%zu, %zu]", offsetof(struct {name}, {member}), '
                f"sizeof(((struct {name} *)0)->{member}));"
            )
    return "    " + "\n    ".join([*parts, 'printf("}");'])


class Abi(support.InDirectory):
    def compiled(self, body):
        source, program = self.directory / "print.c", self.directory / "print"
        source.write_text(
            "#include <pawl/pawl.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n"
            + body
            + "\n    return 0;\n}\n",
            encoding="ascii",
        )
        command = [COMPILER, "-std=c11", "-Wall", "-Werror", f"-I{support.SOURCE / 'include'}", str(source)]
        subprocess.run([*command, "-o", str(program)], check=True)
        return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout

    def test_structs(self):
        lines = '\n    printf(",\\n");\n'.join(line_of(name, struct) for name, struct in _abi.STRUCTS.items())
        compiled = json.loads("{" + self.compiled(lines) + "}")
        for name, struct in _abi.STRUCTS.items():
            with self.subTest(struct=name):
                self.assertEqual(layout(struct), compiled[name])

    def test_every_struct_has_all_members(self):
        text = "\n".join(headers().values())
        for name, struct in _abi.STRUCTS.items():
            body = re.search(rf"typedef struct {name} \{{(.*?)\n\}} {name};", text, re.DOTALL).group(1)
            body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
            statements = [statement.strip() for statement in body.split(";") if statement.strip()]
            members = []
            for statement in statements:
                pointer = re.search(r"\(\*(\w+)\)", statement)
                names = [pointer.group(1)] if pointer else re.findall(r"(\w+)(?:\[[^]]*\])?\s*(?:,|$)", statement)
                members += names
            with self.subTest(struct=name):
                self.assertEqual(members, [C_NAMES.get(field[0], field[0]) for field in struct._fields_])

    def test_enumerations(self):
        text = "\n".join(headers().values())
        for name, (prefix, python) in ENUMS.items():
            body = re.search(rf"typedef enum {name} \{{(.*?)\}} {name};", text, re.DOTALL).group(1)
            body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
            found = {key.removeprefix(prefix): int(value) for key, value in re.findall(r"(\w+) = (\d+)", body)}
            with self.subTest(enum=name):
                self.assertEqual(found, {member.name: member.value for member in python})

    def test_enumerations_may_grow(self):
        newer = _abi.EventKind(77)
        self.assertEqual((newer.name, int(newer)), ("UNKNOWN_77", 77))
        self.assertNotIn(77, list(_abi.EventKind))
        with self.assertRaises(ValueError):
            _abi.EventKind("save_begun")

    def test_functions_have_as_many_arguments(self):
        text = re.sub(r"/\*.*?\*/", "", "\n".join(headers().values()), flags=re.DOTALL)
        for name, (_, arguments) in {**_library._SHORT, **_library._WAITING}.items():
            declared = re.search(rf"PAWL_API [^;]*?\b{name}\(((?:[^()]|\([^()]*\))*)\)", text).group(1)
            declared = re.sub(r"\([^()]*\)", "", declared)
            count = 0 if declared.strip() == "void" else declared.count(",") + 1
            with self.subTest(function=name):
                self.assertEqual(len(arguments), count)

    def test_what_may_wait_releases_the_interpreters_lock(self):
        """By the headers: what is handed a path, or what is opened by one, reads or writes or waits for it."""
        text = re.sub(r"/\*.*?\*/", "", "\n".join(headers().values()), flags=re.DOTALL)
        storage = re.compile(
            r"\b(?:pawl_(?:run|checkpoint|entries|events) \*\w|char \*\w*path\b|(?:deadline|grace)_s\b)"
        )
        for name in {**_library._SHORT, **_library._WAITING}:
            arguments = re.search(rf"PAWL_API [^;]*?\b{name}\(((?:[^()]|\([^()]*\))*)\)", text).group(1)
            waits = name not in ANSWER_AT_ONCE and bool(storage.search(arguments))
            releases = not type(getattr(_library.lib, name))._flags_ & PYTHON_API
            with self.subTest(function=name):
                self.assertEqual(releases, waits or name in READ_MUCH_MEMORY)
        self.assertEqual(_library._SHORT.keys() & _library._WAITING.keys(), set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
