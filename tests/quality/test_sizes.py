# SPDX-License-Identifier: Apache-2.0
"""No function is longer than 70 lines, no file longer than 800, no header that a folder shows to
others longer than 300, no folder of src/ larger than 6,000 lines, and no line of C wider than 100
columns."""

import ast
import collections
import re

import quality

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 800
MAX_DOOR_LINES = 300
MAX_FOLDER_LINES = 6000
MAX_COLUMNS = 100
CODE_SUFFIXES = {".c", ".h", ".py", ".sh", ".cmake", ".in"}
CODE_NAMES = {"CMakeLists.txt", "Makefile", "setup", "run", "lint", "format"}

_BRACE = re.compile(r"[{};]")
_NAME = re.compile(r"(\w+)\s*\(")
_TRANSPARENT = re.compile(r'extern\s*$')


def c_functions(text):
    """(name, first line, last line) of each function that is defined in C text.

    A function is a brace at depth 0 with a parenthesis before it and no '=' outside of parentheses.
    """
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda m: re.sub(r"[^\n]", " ", m.group(0)), quality.strip_c(text), flags=re.M)
    depth, transparent, start, begin = 0, 0, 0, None
    for match in _BRACE.finditer(text):
        token, position = match.group(0), match.start()
        if token == "{":
            head = text[start:position]
            if depth == 0 and _TRANSPARENT.search(head.rstrip()):
                transparent += 1
                start = position + 1
                continue
            if depth == 0:
                begin = function_head(text, start, head)
            depth += 1
        elif token == "}":
            if depth == 0 and transparent:
                transparent -= 1
                start = position + 1
                continue
            depth -= 1
            if depth == 0 and begin:
                yield begin[0], begin[1], quality.line_of(text, position)
            if depth == 0:
                start, begin = position + 1, None
        elif depth == 0:
            start = position + 1


def function_head(text, start, head):
    """(name, line of the name) when `head`, which stands before a brace, opens a function."""
    outside = head
    while True:
        fewer = re.sub(r"\([^()]*\)", lambda m: " " * len(m.group(0)), outside)
        if fewer == outside:
            break
        outside = fewer
    name = _NAME.search(head)
    if "=" in outside or outside.rstrip() == head.rstrip() or not name:
        return None
    first = start + len(head) - len(head.lstrip())
    return name.group(1), quality.line_of(text, first)


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def is_door(path):
    """Headers that others include: src/<layer>/<layer>.h and include/pawl/*.h."""
    if path.suffix != ".h":
        return False
    return path.parts[0] == "include" or (path.parts[0] == "src" and path.stem == path.parent.name)


def check_file(path, text):
    lines = text.splitlines()
    limit = MAX_DOOR_LINES if is_door(path) else MAX_FILE_LINES
    if len(lines) > limit:
        yield f"{path}: {len(lines)} lines, at most {limit}"
    functions = []
    if path.suffix in quality.C_SUFFIXES:
        functions = c_functions(text)
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS:
                yield f"{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
    elif path.suffix == ".py":
        functions = python_functions(text)
    for name, first, last in functions:
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield (f"{path}:{first}: {name} has {last - first + 1} lines, "
                   f"at most {MAX_FUNCTION_LINES}")


def check_folders(root):
    """A folder of src/; one that has folders of its own, such as src/foreign, counts without them."""
    lines = collections.Counter()
    for path in quality.files(root, root / "src", suffixes=quality.C_SUFFIXES):
        lines[path.parent] += len((root / path).read_text(encoding="utf-8").splitlines())
    for folder, count in sorted(lines.items()):
        if count > MAX_FOLDER_LINES:
            yield f"{folder}: {count} lines, at most {MAX_FOLDER_LINES}"


def check(root):
    problems = list(check_folders(root))
    for path in quality.files(root):
        if path.suffix in CODE_SUFFIXES or path.name in CODE_NAMES:
            text = quality.text_of(root, path)
            if text is not None:
                problems += check_file(path, text)
    return problems


def body(lines, head="static int f(int a,\n             const char *b)"):
    return head + " {\n" + "    a++;\n" * (lines - head.count("\n") - 2) + "}\n"


def self_test():
    table = "static const int t[] = {\n" + "    1,\n" * 100 + "};\n"
    structure = "struct s {\n" + "    int (*a)(void);\n" * 100 + "};\n"
    good = {
        "src/base/base.h": "int f(void);\n" * MAX_DOOR_LINES,
        "src/base/a.c": table + structure + body(MAX_FUNCTION_LINES),
        "include/pawl/a.h": '#ifdef __cplusplus\nextern "C" {\n#endif\n' + "int f(void);\n" * 90 +
                            "#ifdef __cplusplus\n}\n#endif\n",
        "tests/b.py": "def f():\n" + "    pass\n" * (MAX_FUNCTION_LINES - 1),
    }
    macro = "ATTRIBUTE(1, 2) static pawl_status f(void)\n    PRINTF(1)"
    quality.prove(check, good, [
        ({"src/base/b.c": table + body(MAX_FUNCTION_LINES + 1)}, "f has 71 lines"),
        ({"src/base/b.c": body(MAX_FUNCTION_LINES + 1, macro)}, "has 71 lines"),
        ({"src/base/b.c": 'extern "C" {\n' + body(MAX_FUNCTION_LINES + 1) + "}\n"}, "71 lines"),
        ({"src/base/b.c": "\n" * (MAX_FILE_LINES + 1)}, "801 lines"),
        ({"src/base/base.h": "\n" * (MAX_DOOR_LINES + 1)}, "at most 300"),
        ({"include/pawl/b.h": "\n" * (MAX_DOOR_LINES + 1)}, "at most 300"),
        ({f"src/large/{i}.c": "\n" * 800 for i in range(8)}, "6400 lines, at most 6000"),
        ({"cli/b.c": "int a;" + " " * MAX_COLUMNS + "\n"}, "columns"),
        ({"tests/c.py": "def g():\n" + "    pass\n" * MAX_FUNCTION_LINES}, "g has 71 lines"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
