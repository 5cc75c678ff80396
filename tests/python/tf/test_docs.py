# SPDX-License-Identifier: Apache-2.0
"""Every public name of pawl.tf and pawl.keras says in its docstring what it is."""

import inspect
import unittest

import support

import pawl.keras
import pawl.tf


def members(thing):
    """The public functions and properties that a class of the package defines itself."""
    for name, member in vars(thing).items():
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
            yield name, inspect.getdoc(getattr(thing, name))


class Docs(unittest.TestCase):
    def test_docstrings(self):
        for module in (pawl.tf, pawl.keras):
            self.assertTrue(module.__doc__)
            for name in module.__all__:
                thing = getattr(module, name)
                with self.subTest(module=module.__name__, name=name):
                    self.assertTrue(inspect.getdoc(thing))
                if inspect.isclass(thing):
                    for member, text in members(thing):
                        with self.subTest(name=f"{name}.{member}"):
                            self.assertTrue(text)


if __name__ == "__main__":
    support.main()
