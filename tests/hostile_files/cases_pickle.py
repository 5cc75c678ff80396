# SPDX-License-Identifier: Apache-2.0
"""Pickles, in a file of torch.save: code, bombs, nesting."""

from __future__ import annotations

import struct
from pathlib import Path

from case import Scene, case
from made_pickle import (call, dict_of, made_of, named, number, pickle, text, torch_file,
                         tuple_of)
from made_zip import Member, zip_of


def put(scene: Scene, body: bytes) -> Path:
    return scene.put("model.pt", torch_file(body))


def touch(scene: Scene) -> bytes:
    return text(f"touch {scene.marker}")


@case
def global_os_system(scene: Scene) -> Path:
    """os.system by GLOBAL and REDUCE."""
    return put(scene, call("os", "system", touch(scene)))


@case
def stack_global_posix_system(scene: Scene) -> Path:
    """posix.system by STACK_GLOBAL."""
    return put(scene, text("posix") + text("system") + b"\x93" + tuple_of(touch(scene)) + b"R")


@case
def eval_that_opens_a_file(scene: Scene) -> Path:
    """builtins.eval of an expression."""
    return put(scene, call("builtins", "eval", text(f"open({scene.marker!r}, 'w')")))


@case
def exec_of_python_2(scene: Scene) -> Path:
    """__builtin__.execfile, as Python 2 calls it."""
    return put(scene, call("__builtin__", "execfile", text(scene.marker)))


@case
def subprocess_by_inst(scene: Scene) -> Path:
    """subprocess.Popen by INST."""
    return put(scene, b"(" + touch(scene) + b"\x88isubprocess\nPopen\n")


@case
def subprocess_by_obj(scene: Scene) -> Path:
    """subprocess.Popen by OBJ."""
    return put(scene, b"(" + named("subprocess", "Popen") + touch(scene) + b"o")


@case
def object_of_a_dangerous_class(scene: Scene) -> Path:
    """NEWOBJ of subprocess.Popen: an object that nobody makes; with no tensors it is told of as JSON."""
    return put(scene, named("subprocess", "Popen") + tuple_of(touch(scene)) + b"\x81")


@case
def object_with_keywords(scene: Scene) -> Path:
    """NEWOBJ_EX, whose keyword arguments are no dict."""
    return put(scene, named("subprocess", "Popen") + b")" + touch(scene) + b"\x92")


@case
def state_for_setstate(scene: Scene) -> Path:
    """BUILD of an object whose class would run its state."""
    return put(scene, made_of("site", "Quitter", dict_of({"eval": touch(scene)})))


@case
def state_of_a_function(scene: Scene) -> Path:
    """BUILD of what is no object: a function."""
    return put(scene, named("os", "system") + touch(scene) + b"b")


@case
def call_of_a_made_object(scene: Scene) -> Path:
    """REDUCE of an object, which would call its __call__."""
    return put(scene, named("functools", "partial") + b")\x81" + tuple_of(touch(scene)) + b"R")


@case
def getattr_of_a_module(scene: Scene) -> Path:
    """A dotted name and getattr, to come from a harmless module to os."""
    return put(scene, call("builtins", "getattr", named("torch.serialization", "os"),
                           text("system")) + tuple_of(touch(scene)) + b"R")


@case
def allowed_module_other_function(scene: Scene) -> Path:
    """A function of a module of which others are understood."""
    return put(scene, call("torch.storage", "_load_from_bytes.__globals__", touch(scene)))


@case
def codecs_decode(scene: Scene) -> Path:
    """_codecs.decode, beside _codecs.encode, which is understood."""
    return put(scene, call("_codecs", "decode", touch(scene), text("unicode_escape")))


@case
def codecs_encode_of_a_bomb(scene: Scene) -> Path:
    """_codecs.encode by a codec that would decompress."""
    return put(scene, call("_codecs", "encode", touch(scene), text("zlib_codec")))


@case
def load_from_bytes(scene: Scene) -> Path:
    """torch.storage._load_from_bytes, of a file that calls os.system."""
    inner = torch_file(call("os", "system", touch(scene)))
    return put(scene, call("torch.storage", "_load_from_bytes",
                           b"B" + struct.pack("<I", len(inner)) + inner))


@case
def extension_code(scene: Scene) -> Path:
    """EXT4: a number of copyreg's registry."""
    return put(scene, b"\x84\xff\xff\xff\x7f" + b")R")


@case
def buffer_from_outside(scene: Scene) -> Path:
    """NEXT_BUFFER of protocol 5."""
    return put(scene, b"\x97")


@case
def persistent_id_that_is_code(scene: Scene) -> Path:
    """BINPERSID with a call for an id."""
    return put(scene, tuple_of(text("storage"), call("os", "system", touch(scene))) + b"Q")


@case
def persistent_id_that_is_a_path(scene: Scene) -> Path:
    """A storage whose key leads out of the file."""
    return put(scene, dict_of({"w": call(
        "torch._utils", "_rebuild_tensor_v2",
        tuple_of(text("storage"), named("torch", "FloatStorage"), text("../../../etc/passwd"),
                 text("cpu"), number(4)) + b"Q",
        number(0), tuple_of(number(4)), tuple_of(number(1)), b"\x89",
        call("collections", "OrderedDict"))}))


@case
def persistent_id_by_line(scene: Scene) -> Path:
    """PERSID, whose id is a line of text."""
    return put(scene, b"P../../../etc/passwd\n")


@case
def memo_number_beyond(scene: Scene) -> Path:
    """LONG_BINPUT of number 2^32 - 1: a memo of 32 GiB."""
    return put(scene, b"Nr\xff\xff\xff\xff")


@case
def memo_that_was_not_kept(scene: Scene) -> Path:
    """LONG_BINGET of what nobody kept."""
    return put(scene, b"j\xff\xff\xff\xff")


@case
def negative_memo_number(scene: Scene) -> Path:
    """PUT of number -1."""
    return put(scene, b"Np-1\n")


@case
def nested_a_million_times(scene: Scene) -> Path:
    """A list in a list, 10^6 deep."""
    return put(scene, b"]" * 1_000_000 + b"a" * 999_999)


@case
def nested_tuples(scene: Scene) -> Path:
    """Tuples of one, 10^6 deep: nothing is on the stack but one."""
    return put(scene, b")" + b"\x85" * 1_000_000)


@case
def marks_without_end(scene: Scene) -> Path:
    """More marks than the stack holds."""
    return put(scene, b"(" * 1_100_000)


@case
def list_in_itself(scene: Scene) -> Path:
    """A list that is its own only value."""
    return put(scene, b"]q\x00h\x00a")


@case
def dict_in_itself(scene: Scene) -> Path:
    """A dict that is its own value."""
    return put(scene, b"}q\x00" + text("again") + b"h\x00s")


@case
def billion_laughs(scene: Scene) -> Path:
    """Each list has the one before ten times: 10^31 texts."""
    body = b"](" + text("lol") * 10 + b"eq\x000"
    for level in range(30):
        body += b"](" + bytes([ord("h"), level]) * 10 + b"eq" + bytes([level + 1]) + b"0"
    return put(scene, body + b"h\x1e")


@case
def billion_dicts(scene: Scene) -> Path:
    """The same of dicts: each name is an entry, unless somebody stops."""
    body = b"}q\x000"
    for level in range(30):
        body += b"}(" + b"".join(text(f"{i}") + bytes([ord("h"), level]) for i in range(10))
        body += b"uq" + bytes([level + 1]) + b"0"
    return put(scene, body + b"h\x1e")


@case
def doubled_a_million_times(scene: Scene) -> Path:
    """A text of 64 KiB that is in a list 10^6 times."""
    return put(scene, b"](" + text("x" * 65536) + b"2" * 999_000 + b"e")


@case
def negative_long4(scene: Scene) -> Path:
    """LONG4 of -1 bytes."""
    return put(scene, b"\x8b\xff\xff\xff\xff")


@case
def long4_beyond_the_end(scene: Scene) -> Path:
    """LONG4 of 2^31 - 1 bytes."""
    return put(scene, b"\x8b\xff\xff\xff\x7f\x01")


@case
def long_of_a_megabyte(scene: Scene) -> Path:
    """A whole number of 2^20 bytes: to write it in decimals takes the square of that."""
    return put(scene, b"\x8b" + struct.pack("<i", 1 << 20) + b"\x77" * (1 << 20))


@case
def decimal_of_a_megabyte(scene: Scene) -> Path:
    """LONG, in 2^20 decimals."""
    return put(scene, b"L" + b"7" * (1 << 20) + b"L\n")


@case
def bytes8_beyond_the_end(scene: Scene) -> Path:
    """BINBYTES8 of 2^63 bytes."""
    return put(scene, b"\x8e" + struct.pack("<Q", 1 << 63))


@case
def unicode_beyond_the_end(scene: Scene) -> Path:
    """BINUNICODE8 of 2^64 - 1 bytes: the end would be before the beginning."""
    return put(scene, b"\x8d" + struct.pack("<Q", (1 << 64) - 1))


@case
def frame_that_lies(scene: Scene) -> Path:
    """FRAME of 2^64 - 1 bytes: a hint that nothing is made of."""
    return put(scene, b"\x95" + struct.pack("<Q", (1 << 64) - 1) + b"N")


@case
def unknown_opcode(scene: Scene) -> Path:
    """An opcode that there is not."""
    return put(scene, b"\xff")


@case
def newer_protocol(scene: Scene) -> Path:
    """PROTO 255."""
    return put(scene, b"\x80\xff")


@case
def pop_of_nothing(scene: Scene) -> Path:
    """POP on an empty stack."""
    return put(scene, b"0")


@case
def append_to_what_is_no_list(scene: Scene) -> Path:
    """APPEND to a class."""
    return put(scene, named("os", "system") + b"Na")


@case
def setitem_without_a_value(scene: Scene) -> Path:
    """SETITEMS of three things."""
    return put(scene, b"}(NNNu")


@case
def name_with_a_nul(scene: Scene) -> Path:
    """A name that C would end before Python does."""
    return put(scene, text("collections") + text("OrderedDict\0os.system") + b"\x93)R")


@case
def name_with_controls(scene: Scene) -> Path:
    """A name that would clear the terminal."""
    return put(scene, call("os\x1b[2J", "sys\u202etem", touch(scene)))


@case
def pickle_alone(scene: Scene) -> Path:
    """A pickle without a zip, as old versions of PyTorch began their files."""
    return scene.put("model.pt", pickle(b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")
                     + pickle(call("os", "system", touch(scene))))


@case
def end_among_marks(scene: Scene) -> Path:
    """STOP where the stack has marks alone."""
    return put(scene, b"(" * 4)


@case
def end_is_missing(scene: Scene) -> Path:
    """No STOP: the pickle ends in the middle."""
    return scene.put("model.pt", zip_of([Member("a/data.pkl", b"\x80\x02}"),
                                         Member("a/version", b"3\n")]))
