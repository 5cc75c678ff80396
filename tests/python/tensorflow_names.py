# SPDX-License-Identifier: Apache-2.0
"""The names that pawl gives to the keys of a checkpoint of TensorFlow."""

import re

#: The key of the graph of objects.
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
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


def fields(message):
    """(number, value) of each field of a message of protobuf: an integer, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        yield tag >> 3, value


def names_of_graph(graph):
    """The name of each key that a graph of objects has. Ways through lists of all variables come last."""
    nodes, ways, names, slots = [], {0: ""}, {}, []
    for _, node in fields(graph):
        parts = [(number, dict(fields(part))) for number, part in fields(node) if number <= 3]
        nodes.append(parts)
    queue, later = [0], []
    while queue or later:
        parent, child = (queue.pop(0), None) if queue else later.pop(0)
        links = nodes[parent] if child is None else [(1, child)]
        for number, part in links:
            if number != 1:
                continue
            name, node = part[2].decode(), part.get(1, 0)
            if child is None and name in ("_variables", "_trainable_variables"):
                later.append((parent, part))
            elif node not in ways:
                ways[node] = "/".join(filter(None, (ways[parent], component(name))))
                queue.append(node)
    for at, parts in enumerate(nodes):
        slots += [(at, part) for number, part in parts if number == 3]
    for optimizer, part in slots:
        ways.setdefault(part[3], f"{ways[optimizer]}/{ways[part.get(1, 0)]}/{component(part[2].decode())}")
    for at, parts in enumerate(nodes):
        for number, part in parts:
            if number == 2:
                end = "" if part[1] == VALUE.encode() else "/" + component(part[1].decode())
                names[part[3].decode()] = ways[at] + end
    return names


def plain(part):
    """A component of a key that no graph tells of: % alone, or where it would begin an escape, is escaped."""
    if part in ("", "%"):
        return {"": "%", "%": "%25"}[part]
    return re.sub("%(?=[0-9A-F]{2})(?!2F)", "%25", part)


def name_of(key, graph=()):
    """The name that an entry has whose key in TensorFlow is that; `graph` as of names_of_graph()."""
    if key in graph:
        return graph[key]
    before, found, attribute = key.partition(ATTRIBUTES)
    if not found:
        return "/".join(plain(part) for part in key.split("/"))
    variable, slot, rest = before.partition(SLOT)
    if slot and attribute == VALUE:
        optimizer, _, last = rest.rpartition("/")
        return f"{path(optimizer)}/{path(variable)}/{component(last)}"
    name = path(before) if before else ""
    return (name if attribute == VALUE else f"{name}/{component(attribute)}") or "value"
