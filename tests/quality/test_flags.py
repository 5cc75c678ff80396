# SPDX-License-Identifier: Apache-2.0
"""Texts of the library name no flag of a program but those of the command pawl, behind its name and the
verb: who calls the library has options, and a program that does has words of its own for them."""

import re

import quality

STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
NEXT_TO = re.compile(r'"\s*"')
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND = re.compile(r"\bpawl ([a-z]+) (?:--[a-z-]+ )*$")
NAME = re.compile(r'^    \{"([a-z-]+)"', re.MULTILINE)
VERB = re.compile(r'\.name = "([a-z]+)"')


def check(root):
    table = quality.text_of(root, "cli/verbs.c") or ""
    options, verbs = set(NAME.findall(table)), set(VERB.findall(table))
    problems = []
    for path in quality.files(root, "src", "include", suffixes=quality.C_SUFFIXES):
        joined = NEXT_TO.sub("", quality.text_of(root, path))
        texts = [m.group(0) for m in STRING.finditer(joined)]
        texts += re.findall(r"/\*.*?\*/", joined, re.DOTALL)
        for text in texts:
            for match in FLAG.finditer(text):
                command = COMMAND.search(text[:match.start()])
                known = command and command.group(1) in verbs and match.group(0)[2:] in options
                if not known:
                    problems.append(f"{path}: {match.group(0)} is no option of the library: "
                                    f"{text[:60]}")
    return problems


def self_test():
    good = {
        "cli/verbs.c": 'x = {\n    {"force", 0},\n};\nv = {.name = "rm"};\n',
        "src/run/run.c": "int f(int n) { return --n; } /* a--b */\n"
                         'char *s = "remove it: pawl rm "\n          "--force %s";\n',
    }

    def text(literal):
        return {"src/run/bad.c": f"char *t = {literal};\n"}

    quality.prove(check, good, [
        (text('"pass --cast=allow"'), "--cast"), (text('"or "\n "--rename a=b"'), "--rename"),
        (text('"pawl rm --all"'), "--all"), (text('"pawl mv --force"'), "--force"),
        ({"include/pawl/bad.h": "/* see --model-only */\n"}, "--model-only"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
