# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package says in its docstring what it is, and has its place in the pages of `make docs`."""

import ast
import importlib
import inspect
import os
import pathlib
import subprocess
import sys

import support  # first: it finds the package

MODULES = ("pawl", "pawl.fsspec", "pawl.torch", "pawl.torch.lightning", "pawl.torch.transformers")
#: Their pages are made where build/formats has TensorFlow; their docstrings are looked at by tests/python/tf.
OF_TENSORFLOW = ("pawl.tf", "pawl.keras")


def names_of(module):
    """The public names of a module, without importing it."""
    file = support.PACKAGE / module.replace(".", "/")
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "__all__":
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{module} has no __all__")


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
        for module in (*MODULES, *OF_TENSORFLOW):
            if f"no page of {module}: " in done.stdout:
                self.assertFalse(list(support.SOURCE.glob("build/formats/lib/python3*/site-packages/tensorflow")))
                self.assertIn("tools/setup formats installs it", done.stdout)
                continue
            page = (self.directory / (module.replace(".", "/") + ".html")).read_text(encoding="utf-8")
            for name in names_of(module):
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
