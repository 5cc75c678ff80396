# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package says in its docstring what it is, and has its place in the pages of `make docs`."""

import importlib
import inspect
import os
import pathlib
import subprocess
import sys

import support  # first: it finds the package

MODULES = ("pawl", "pawl.fsspec", "pawl.torch", "pawl.torch.lightning", "pawl.torch.transformers")


def members(thing):
    """The public functions and properties that a class of the package defines itself."""
    for name, member in vars(thing).items():
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
            yield name, inspect.getdoc(getattr(thing, name))


class Docs(support.InDirectory):
    def test_docstrings(self):
        for module in map(importlib.import_module, MODULES):
            self.assertTrue(module.__doc__)
            for name in module.__all__:
                thing = getattr(module, name)
                with self.subTest(name=name):
                    self.assertTrue(inspect.getdoc(thing))
                if inspect.isclass(thing):
                    for member, text in members(thing):
                        with self.subTest(name=f"{name}.{member}"):
                            self.assertTrue(text)

    def test_pages(self):
        command = [sys.executable, str(support.SOURCE / "tools" / "python_docs.py"), str(self.directory)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("does not resolve", done.stderr)
        for module in MODULES:
            page = (self.directory / (module.replace(".", "/") + ".html")).read_text(encoding="utf-8")
            for name in importlib.import_module(module).__all__:
                with self.subTest(name=f"{module}.{name}"):
                    self.assertIn(f'<section id="{name}"', page)

    def test_the_python_of_the_readme(self):
        """As it stands; the second time it goes on where the first was."""
        program = pathlib.Path(__file__).with_name("readme.py")
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE), "OMP_NUM_THREADS": "1"}
        for steps in ("500\n", "500 1000\n"):
            command = [sys.executable, str(program), str(support.SOURCE / "README.md")]
            done = subprocess.run(
                command, env=environment, cwd=self.directory, capture_output=True, text=True, timeout=300, check=False
            )
            self.assertEqual((done.returncode, done.stdout), (0, steps), done.stderr)


if __name__ == "__main__":
    support.main()
