# SPDX-License-Identifier: Apache-2.0
"""The limits that docs/format.md names are those of the headers, number by number, and every limit of
src/format/limits.h is in that table: a maximum that only one side of a format knows makes files that
can be written and not read."""

import ast
import operator
import re

import quality

TABLE = "docs/format.md"
HOME = "src/format/limits.h"

_ROW = re.compile(r"^\|\s*((?:`\w+`(?:,\s*)?)+)\s*\|([^|]*)\|", re.M)
_DEFINE = re.compile(r"^#define[ \t]+(\w+)[ \t]+(\S[^\n]*)$", re.M)
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
              ast.Div: operator.floordiv, ast.LShift: operator.lshift}


def number_of(text):
    """"16 MiB", "100,000,000", "2^61 - 1" """
    text = text.strip().replace(",", "")
    power = re.fullmatch(r"2\^(\d+)( - 1)?", text)
    if power:
        return 2 ** int(power.group(1)) - (1 if power.group(2) else 0)
    number, _, unit = text.partition(" ")
    return int(number) * _UNITS.get(unit, 1)


def calculate(node):
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](calculate(node.left), calculate(node.right))
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError("no number")


def value_of(defines, name, depth=0):
    """The number that a macro stands for; None when it is none."""
    if name not in defines or depth > 8:
        return None
    text = re.sub(r"\((?:size_t|uint64_t|int64_t)\)", "", defines[name])
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text).replace("UINT64_MAX", str(2 ** 64 - 1))
    for other in set(re.findall(r"\b[A-Z]\w*\b", text)):
        text = re.sub(rf"\b{other}\b", str(value_of(defines, other, depth + 1)), text)
    try:
        return calculate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, KeyError):
        return None


def defines_of(root):
    found = {}
    for path in quality.files(root, "include", "src", suffixes={".h"}):
        text = quality.strip_c(quality.text_of(root, path))
        found.update(_DEFINE.findall(text))
    return found


def check(root):
    problems = []
    defines = defines_of(root)
    section = quality.text_of(root, TABLE).partition("\n## Limits\n")[2].partition("\n## ")[0]
    told = {}
    for names, values in _ROW.findall(section):
        names = re.findall(r"`(\w+)`", names)
        # A comma and a space part two values, a comma alone thousands.
        told.update(zip(names, values.strip().split(", ") if len(names) > 1 else [values]))
    for name, text in told.items():
        if value_of(defines, name) != number_of(text):
            problems.append(f"{TABLE}: {name} is {text.strip()} there, {value_of(defines, name)} in "
                            "the headers")
    home = quality.strip_c(quality.text_of(root, HOME))
    for name, _ in _DEFINE.findall(home):
        if name not in told:
            problems.append(f"{HOME}: {name} is not in the table of limits of {TABLE}")
    return problems


def self_test():
    table = ("# F\n\n## Limits\n\n| name | value | of |\n|---|---|---|\n| `A_MAX` | 16 MiB | bytes |\n"
             "| `B_MAX`, `C_MAX` | 1,000, 2^61 - 1 | things |\n| | 2^62 | elements |\n\n## More\n")
    home = ("#define A_MAX 16777216u /* bytes */\n#define B_MAX ((size_t)OTHER_MAX)\n"
            "#define C_MAX (UINT64_MAX / 8u)\n")
    good = {TABLE: table, HOME: home, "include/pawl/run.h": "#define OTHER_MAX (10 * 100)\n"}
    quality.prove(check, good, [
        ({"include/pawl/run.h": "#define OTHER_MAX 1001\n"}, "B_MAX is 1,000 there, 1001"),
        ({HOME: home + "#define D_MAX 7u\n"}, "D_MAX is not in the table"),
        ({TABLE: table.replace("16 MiB", "17 MiB")}, "A_MAX is 17 MiB there"),
        ({TABLE: table.replace("| | 2^62", "| `E_MAX` | 2^62")}, "E_MAX is 2^62 there, None"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
