# SPDX-License-Identifier: Apache-2.0
"""Every include line names a folder that src/LAYERS lets it name, and every folder in a row is
included by the layer; the users of the library include nothing of it but <pawl/...>, and the command
src/common; the public headers include themselves and the C library alone."""

import re

import quality

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
USERS = ("cli", "examples", "python", "bench")
PUBLIC_MAY_INCLUDE = {"stddef.h", "stdint.h", "stdbool.h", "limits.h"}
# These hold functions, which an MPI program compiles; pawl/pawl.h includes neither.
MPI_HEADERS = ("include/pawl/mpi.h:", "include/pawl/mpi_messages.h:")
MPI_MAY_INCLUDE = {"mpi.h", "poll.h", "sched.h", "stdlib.h", "string.h"}


def read_layers(root):
    """{layer: folders it may include}, in the order of the list."""
    layers = {}
    for line in (root / "src/LAYERS").read_text(encoding="utf-8").splitlines():
        if re.match(r"[a-z]", line):
            layer, _, below = line.partition(":")
            layers[layer] = set(below.split())
    return layers


def check_list(root, layers):
    """Each layer stands on earlier ones only, and every folder of src/ is in the list."""
    seen = set()
    for layer, below in layers.items():
        for other in sorted(below - seen):
            yield f"src/LAYERS: {layer} may include {other}, which does not come before it"
        seen.add(layer)
    for path in sorted((root / "src").iterdir()):
        if path.is_dir() and path.name not in layers:
            yield f"src/{path.name}: not in src/LAYERS"


def check_layer(where, layer, quoted, target, layers):
    if not quoted:
        return
    folder, slash, _ = target.partition("/")
    if not slash or folder not in layers:
        yield f'{where}: "{target}" is not written from src/'
    elif folder != layer and folder not in layers[layer]:
        yield f'{where}: {layer} may not include "{target}"'


def check_user(root, where, path, quoted, target):
    if path.parts[0] == "cli" and target.startswith("common/"):
        return
    if quoted and not (root / path.parent / target).is_file():
        yield f'{where}: "{target}" is neither <pawl/...> nor in the same folder'


def check_public(root, where, quoted, target):
    if quoted:
        yield f'{where}: "{target}" is not in angle brackets'
    elif target.startswith("pawl/"):
        if not (root / "include" / target).is_file():
            yield f"{where}: <{target}> is not in include/"
    elif target not in PUBLIC_MAY_INCLUDE and not (
            where.startswith(MPI_HEADERS) and target in MPI_MAY_INCLUDE):
        yield f"{where}: <{target}> does not belong in a public header"


def check_include(root, path, where, quoted, target, layers):
    top = path.parts[0]
    if ".." in target.split("/"):
        yield f'{where}: "{target}" climbs out of its folder'
    elif top == "src" and len(path.parts) > 2 and path.parts[1] in layers:
        yield from check_layer(where, path.parts[1], quoted, target, layers)
    elif top in USERS:
        yield from check_user(root, where, path, quoted, target)
    elif top == "include":
        yield from check_public(root, where, quoted, target)


def check_unused(root, layers):
    """A row lists no folder that its layer does not include."""
    for layer, below in layers.items():
        used = set()
        for path in quality.files(root, f"src/{layer}", suffixes=quality.C_SUFFIXES):
            text = quality.strip_c(quality.text_of(root, path) or "", keep_strings=True)
            used |= {match.group(2).partition("/")[0] for match in INCLUDE.finditer(text)}
        for other in sorted(below - used):
            yield f"src/LAYERS: {layer} does not include {other}"


def check(root):
    layers = read_layers(root)
    problems = list(check_list(root, layers)) + list(check_unused(root, layers))
    folders = ("src", "tests", "include") + USERS
    for path in quality.files(root, *folders, suffixes=quality.C_SUFFIXES):
        text = quality.strip_c(quality.text_of(root, path) or "", keep_strings=True)
        for match in INCLUDE.finditer(text):
            where = f"{path}:{quality.line_of(text, match.start(2))}"
            problems += check_include(root, path, where, match.group(1) == '"', match.group(2),
                                      layers)
    return problems


def self_test():
    good = {
        "src/LAYERS": "# a list\nbase:\nstore: base\nrun: store\n",
        "src/base/base.h": "#include <stdint.h>\n#include <pawl/error.h>\n",
        "src/store/posix.c": '#include "base/base.h"\n#include "store/store.h"\n',
        "src/run/run.c": '#include "store/store.h"\n',
        "include/pawl/error.h": "#include <stdint.h>\n",
        "cli/cli.h": "\n",
        "cli/ls.c": '#include "cli.h"\n#include "common/text.h"\n#include <pawl/error.h>\n/* #include "run/run.h" */\n',
    }
    quality.prove(check, good, [
        ({"src/base/error.c": '#include "store/store.h"\n'}, "base may not include"),
        ({"src/store/queue.c": '#include "store.h"\n'}, "not written from src/"),
        ({"src/store/queue.c": '#include "stores/mem.h"\n'}, "not written from src/"),
        ({"src/store/queue.c": '#  include "../base/base.h"\n'}, "climbs out"),
        ({"src/extra/extra.c": "\n"}, "not in src/LAYERS"),
        ({"src/LAYERS": "base: store\nstore: base\nrun: store\n",
          "src/base/error.c": '#include "store/store.h"\n'}, "does not come before"),
        ({"src/LAYERS": "base:\nstore: base\nrun: base store\n"}, "run does not include base"),
        ({"cli/show.c": '#include "base/base.h"\n'}, "neither <pawl/...>"),
        ({"examples/main.c": '#include "common/text.h"\n'}, "neither <pawl/...>"),
        ({"include/pawl/run.h": "#include <pthread.h>\n"}, "does not belong"),
        ({"include/pawl/run.h": "#include <pawl/gone.h>\n"}, "is not in include/"),
        ({"include/pawl/run.h": '#include "pawl/error.h"\n'}, "not in angle brackets"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
