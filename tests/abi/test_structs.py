# SPDX-License-Identifier: Apache-2.0
"""Programs whose structs are shorter or longer than the library's are served, or refused in words;
never misread, and never written beyond their ends. tour.c hands over every struct of the public
headers; it is compiled against the headers as they are, and against copies in which

  - each struct has lost its last member, as in a program that was compiled with an older pawl,
  - each struct has a further member that is zero, as in one that was compiled with a newer pawl,
  - one struct has a further member that is set: a newer program asks for what this library does not
    know, and is refused with the name of the struct.

Usage: test_structs.py --headers INCLUDE --libpawl LIBPAWL.SO --work FOLDER [--cc CC] [--flag FLAG]...
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STRUCT = re.compile(r"typedef struct (pawl_\w+) \{\n(.*?)\n\} \1;", re.DOTALL)
ADDED = "uint64_t added[2]"
# Elements of arrays, which come with the size of one.
ITEMS = {"pawl_array", "pawl_box", "pawl_metric", "pawl_rename", "pawl_setting", "pawl_slice"}
# Members that nothing works without. Who lacks one hands over what has no data, no name or no
# value, and hears that.
NEEDED = {
    "pawl_box": "is NULL",
    "pawl_memory": "struct_size of its memory is not set",
    "pawl_metric": '"loss": 0',
    "pawl_rename": "options.renames[0] has a NULL name",
    "pawl_shadow": "struct_size of pawl_shadow is too small",
    "pawl_slice": "slice_size or count is wrong",
    "pawl_storage_options": "setting_size is not set",
}


def split(text, separator):
    """At each separator that is not inside parentheses."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == separator and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return parts + [part]


def members_of(body):
    """Declarations, each a list of a type with its first name, and further names."""
    body = re.sub(r"/\*.*?\*/", " ", body, flags=re.DOTALL)
    declarations = [" ".join(part.split()) for part in split(body, ";")]
    return [[part.strip() for part in split(declaration, ",")]
            for declaration in declarations if declaration]


def name_of(declarator):
    pointer = re.search(r"\(\*(\w+)\)", declarator)
    return pointer.group(1) if pointer else re.findall(r"\w+", re.sub(r"\[.*?\]", "", declarator))[-1]


def without_last(members):
    return members[:-1] + ([members[-1][:-1]] if len(members[-1]) > 1 else [])


class Struct:
    def __init__(self, name, body):
        self.name = name
        self.members = members_of(body)
        self.last = name_of(self.members[-1][-1])

    def define(self, members):
        lines = "".join(f"    {', '.join(declaration)};\n" for declaration in members)
        return f"typedef struct {self.name} {{\n{lines}}} {self.name};"


def headers_of(folder):
    """Those of the library: pawl/mpi.h is compiled into programs whole."""
    return [path for path in sorted((folder / "pawl").glob("*.h"))
            if not path.name.startswith("mpi")]


def read_structs(folder):
    structs = {}
    for path in headers_of(folder):
        text = path.read_text(encoding="utf-8")
        structs.update({name: Struct(name, body) for name, body in STRUCT.findall(text)})
    return structs


class Variant:
    """`changes`: by struct "short", "long" or "set"."""

    def __init__(self, name, changes):
        self.name = name
        self.changes = changes

    def header_text(self, structs, text):
        def define(match):
            struct = structs[match.group(1)]
            change = self.changes.get(struct.name)
            if change == "short":
                return struct.define(without_last(struct.members))
            if change in ("long", "set"):
                return struct.define(struct.members + [[ADDED]])
            return match.group(0)
        return STRUCT.sub(define, text)

    def macros(self, structs):
        lines = []
        for name, struct in structs.items():
            change = self.changes.get(name)
            longer = change in ("long", "set")
            kept = without_last(struct.members) if change == "short" else struct.members
            known = name_of(kept[-1][-1])
            lines += [
                f"#define LAST_{name}(it, set_to) " +
                ("((void)(set_to))" if change == "short" else f"((it)->{struct.last} = (set_to))"),
                f"#define ADD_{name}(it) " +
                ("((it)->added[1] = 1)" if change == "set" else "((void)(it))"),
                f"#define ADDED_{name}(it) " +
                ("((it)->added[0] == 0 && (it)->added[1] == 0)" if longer else "1"),
                f"#define KNOWN_{name}(it) " +
                ("(!PAWL_HAS(it, added))" if longer else f"PAWL_HAS(it, {known})"),
            ]
        return "\n".join(lines) + "\n"

    def build(self, structs, arguments):
        folder = arguments.work / self.name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "pawl").mkdir(parents=True)
        for path in headers_of(arguments.headers):
            text = self.header_text(structs, path.read_text(encoding="utf-8"))
            (folder / "pawl" / path.name).write_text(text, encoding="utf-8")
        (folder / "variant.h").write_text(self.macros(structs), encoding="utf-8")
        subprocess.run([arguments.cc, "-std=c11", "-w", *arguments.flag, "-I", folder,
                        HERE / "tour.c", "-o", folder / "tour", arguments.libpawl,
                        f"-Wl,-rpath,{arguments.libpawl.parent}"], check=True)
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run([folder / "tour", folder / "run"], text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        for run in ("run", "run-beside"):
            shutil.rmtree(folder / run, ignore_errors=True)
        said = done.stdout.replace(str(folder), "...")
        return said if done.returncode == 0 else f"{said}\nended with {done.returncode}"


def difference(wanted, said):
    pairs = zip((wanted + "\n(the end)").splitlines(), (said + "\n(the end)").splitlines())
    return next((f"{b!r} instead of {a!r}" for a, b in pairs if a != b), "more lines")


def variants_of(structs, handed_in):
    yield Variant("as_it_is", {})
    yield Variant("longer", {name: "long" for name in structs})
    yield Variant("shorter", {name: "short" for name in structs if name not in NEEDED})
    for name in NEEDED:
        yield Variant(f"shorter-{name}", {name: "short"})
    for name in handed_in:
        yield Variant(f"set-{name}", {name: "set"})


def problems_of(said):
    """`said`: what each variant printed."""
    usual = said["as_it_is"]
    if "the doctor finds something: 1" not in usual:
        yield f"the tour does not reach its end:\n{usual}"
    for complaint in re.findall(r"^pawl_\w+: .*\b(?:lies|changed|end|zero)$", usual, re.MULTILINE):
        yield f"structs as they are: {complaint}"
    for name in ("longer", "shorter"):
        if said[name] != usual:
            yield f"{name} structs are misread: {difference(usual, said[name])}\n{said[name]}"
    for name, text in said.items():
        kind, _, struct = name.partition("-")
        words = NEEDED.get(struct, "") if kind == "shorter" else \
            f"{struct} has a field set that this library does not know"
        if struct and words not in text:
            yield f"{name}: nothing says {words!r}:\n{text}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headers", type=pathlib.Path, required=True)
    parser.add_argument("--libpawl", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--flag", action="append", default=[])
    arguments = parser.parse_args()
    arguments.libpawl = arguments.libpawl.resolve()
    structs = read_structs(arguments.headers)
    tour = (HERE / "tour.c").read_text(encoding="utf-8")
    on_tour = set(re.findall(r"\b(?:ADD_(pawl_\w+)|(?:OUTPUT|HANDED_OUT)\((pawl_\w+))", tour))
    on_tour = {a or b for a, b in on_tour}
    for name, struct in structs.items():
        assert struct.members[0] == ["size_t struct_size"] or name in ITEMS, \
            f"{name} does not begin with struct_size"
    missing = sorted(set(structs) - on_tour)
    assert not missing, f"tour.c never hands over {', '.join(missing)}"
    handed_in = sorted(set(re.findall(r"\bADD_(pawl_\w+)\(&", tour)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        variants = list(variants_of(structs, handed_in))
        texts = pool.map(lambda variant: variant.build(structs, arguments), variants)
        said = {variant.name: text for variant, text in zip(variants, texts)}
    problems = list(problems_of(said))
    print("\n".join(problems) or f"{len(structs)} structs, {len(variants)} programs: none misread")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
