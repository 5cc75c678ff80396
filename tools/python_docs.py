# SPDX-License-Identifier: Apache-2.0
"""Pages of the Python package, out of its docstrings, by pdoc.

Usage: python_docs.py DIRECTORY      with the Python of build/torch, and PAWL_LIBRARY

Pages of what a framework is for are made where that is installed, in build/torch or build/formats; of others it says so.
"""

import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
sys.path.append(
    str(ROOT / "build" / "formats" / "lib" / VERSION / "site-packages")
)  # TensorFlow; last: the rest is here
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pawl.torch  # noqa: E402
import pdoc  # noqa: E402

MODULES = ["pawl", "pawl.fsspec", "pawl.torch", "pawl.torch.lightning", "pawl.torch.transformers"]
#: Those of frameworks that build/formats has, with what they import.
MORE = {"pawl.tf": ("tensorflow",), "pawl.keras": ("keras", "tensorflow")}


def main():
    for name in pawl.torch.__all__:  # pdoc does not ask for what is imported when it is used
        setattr(pawl.torch, name, getattr(pawl.torch, name))
    modules = list(MODULES)
    for module, needs in MORE.items():
        missing = [name for name in needs if importlib.util.find_spec(name) is None]
        if missing:
            print(f"no page of {module}: {missing[0]} is not installed; tools/setup formats installs it")
        else:
            modules.append(module)
    pdoc.render.configure(docformat="google")
    pdoc.pdoc(*modules, output_directory=pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
