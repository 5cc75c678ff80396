# SPDX-License-Identifier: Apache-2.0
"""The names that pawl gives to the keys of a checkpoint of TensorFlow."""

ATTRIBUTES, VALUE, SLOT = "/.ATTRIBUTES/", "VARIABLE_VALUE", "/.OPTIMIZER_SLOT/"


def component(text):
    """As it was before TensorFlow escaped it, and as pawl escapes it."""
    plain, at = "", 0
    while at < len(text):
        two = text[at] == "." and text[at + 1 : at + 2] in (".", "S")
        plain += ("." if text[at + 1] == "." else "/") if two else text[at]
        at += 2 if two else 1
    escaped = "".join(c if ord(c) >= 32 and c not in "%/\x7f" else f"%{ord(c):02X}" for c in plain)
    return "%2E" + escaped[1:] if plain in (".", "..") else escaped


def path(text):
    """The components of a path, each of them."""
    return "/".join(component(part) for part in text.split("/"))


def name_of(key):
    """The name that an entry has whose key in TensorFlow is that."""
    before, found, attribute = key.partition(ATTRIBUTES)
    if not found:
        return "/".join(part.replace("%", "%25") or "%" for part in key.split("/"))
    variable, slot, rest = before.partition(SLOT)
    if slot and attribute == VALUE:
        optimizer, _, last = rest.rpartition("/")
        return f"{path(optimizer)}/{path(variable)}/{component(last)}"
    name = path(before) if before else ""
    return (name if attribute == VALUE else f"{name}/{component(attribute)}") or "value"
