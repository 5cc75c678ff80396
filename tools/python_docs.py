# SPDX-License-Identifier: Apache-2.0
"""Pages of the Python package, out of its docstrings, by pdoc.

Usage: python_docs.py DIRECTORY      with the Python of build/torch, and PAWL_LIBRARY
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import pawl.torch  # noqa: E402
import pdoc  # noqa: E402

MODULES = ["pawl", "pawl.fsspec", "pawl.torch", "pawl.torch.lightning", "pawl.torch.transformers"]


def main():
    for name in pawl.torch.__all__:  # pdoc does not ask for what is imported when it is used
        setattr(pawl.torch, name, getattr(pawl.torch, name))
    pdoc.render.configure(docformat="google")
    pdoc.pdoc(*MODULES, output_directory=pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
