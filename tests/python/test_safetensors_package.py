# SPDX-License-Identifier: Apache-2.0
"""Data files between pawl and the safetensors package of Python.

What pawl writes, the package reads, value for value; what the package writes, pawl reads; and what the
package refuses, pawl refuses, over a list of hostile headers and thousands of mutated ones.
"""

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write-sample", required=True)
    parser.add_argument("--decode-stream", required=True)
    parser.add_argument("--environment", required=True, help="where to make a virtual environment")
    parser.add_argument("--in-environment", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def has_package(python):
    code = "import numpy, safetensors; print(safetensors.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.returncode == 0


def find_python(environment):
    """A Python that has what is in requirements.txt; made in `environment` when there is none yet."""
    if has_package(sys.executable):
        return sys.executable
    python = os.path.join(environment, "bin", "python3")
    if not (os.path.exists(python) and has_package(python)):
        for command in ([sys.executable, "-m", "venv", environment],
                        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                         "--requirement", str(REQUIREMENTS)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"skipped: {' '.join(command)} fails, so there is no safetensors package:\n"
                      f"{done.stdout}{done.stderr}")
                sys.exit(SKIPPED)
    return python


# ---- the package's side and ours ----------------------------------------------------------------

DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8,
          "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16,
          "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
          "U64": 64}


def data_file(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def package_reads(content):
    """{name: (dtype, shape, bytes)}, or None when the package refuses."""
    import safetensors
    try:
        return {name: (info["dtype"], list(info["shape"]), bytes(info["data"]))
                for name, info in safetensors.deserialize(content)}
    except Exception:  # the package has several kinds of refusals; all of them count
        return None


def pawl_reads(contents):
    """One answer for each file; see decode_stream.c."""
    stream = b"".join(struct.pack("<Q", len(content)) + content for content in contents)
    done = subprocess.run([ARGUMENTS.decode_stream], input=stream, capture_output=True, check=True)
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(contents), done.stderr
    return answers


def tensors_of(answer):
    return {tensor["name"]: (tensor["dtype"], tensor["shape"], bytes.fromhex(tensor["data"]))
            for tensor in answer["tensors"]}


def package_knows(dtype):
    size = DTYPES[dtype]
    header = json.dumps({"x": {"dtype": dtype, "shape": [8], "data_offsets": [0, size]}})
    return package_reads(data_file(header, bytes(size))) is not None


# ---- what pawl writes ---------------------------------------------------------------------------


class WhatPawlWrites(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        done = subprocess.run([ARGUMENTS.write_sample, cls.folder.name], check=True,
                              capture_output=True, text=True)
        cls.tensors = [json.loads(line) for line in done.stdout.splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def expected(self, file):
        """What write_sample.c says that it wrote, with the bytes that it says it computes."""
        result = {}
        for tensor in self.tensors:
            if tensor["file"] != file:
                continue
            elements = 1
            for extent in tensor["shape"]:
                elements *= extent
            mask = 1 if tensor["dtype"] == "BOOL" else 255
            data = bytes((31 * i + 7 * tensor["number"]) % 251 & mask
                         for i in range(elements * DTYPES[tensor["dtype"]] // 8))
            result[tensor["name"]] = (tensor["dtype"], tensor["shape"], data)
        return result

    def content(self, file):
        return pathlib.Path(self.folder.name, file).read_bytes()

    def test_every_tensor_is_read_value_for_value(self):
        for file in ("empty", "many", "odd"):
            with self.subTest(file):
                file += ".safetensors"
                self.assertEqual(package_reads(self.content(file)), self.expected(file))

    def test_every_dtype_is_read_value_for_value(self):
        expected = self.expected("dtypes.safetensors")
        self.assertEqual(len(expected), 3 * len(DTYPES) - 3)
        unknown = [dtype for dtype in DTYPES if not package_knows(dtype)]
        if unknown:
            self.skipTest(f"this version of the package does not know {', '.join(unknown)}")
        self.assertEqual(package_reads(self.content("dtypes.safetensors")), expected)

    def test_ten_thousand_tensors(self):
        from safetensors import safe_open
        path = os.path.join(self.folder.name, "many.safetensors")
        with safe_open(path, framework="np") as file:
            self.assertEqual(len(file.keys()), 10000)
            self.assertEqual(file.get_tensor("layer/09999/kernel").shape, (4,))
            self.assertEqual(file.get_tensor("layer/00005/kernel").shape, (0,))

    def test_metadata_is_read(self):
        from safetensors import safe_open
        path = os.path.join(self.folder.name, "odd.safetensors")
        with safe_open(path, framework="np") as file:
            self.assertEqual(file.metadata(), {"pawl_sum": "01234567", "format": "pt", "\u00e4": "line\nline",
                                               "pawl": '{"version":1,"k":"\\""}'})

    def test_slices_are_read_through_the_package(self):
        import numpy
        from safetensors import safe_open
        path = os.path.join(self.folder.name, "dtypes.safetensors")
        with safe_open(path, framework="np") as file:
            whole = numpy.frombuffer(self.expected("dtypes.safetensors")["F32/matrix"][2],
                                     dtype="<f4").reshape(3, 8)
            part = file.get_slice("F32/matrix")[1:3, 2:5]
            self.assertEqual(part.tobytes(), whole[1:3, 2:5].tobytes())

    def test_data_begins_at_a_multiple_of_4096(self):
        for file in {tensor["file"] for tensor in self.tensors}:
            (length,) = struct.unpack("<Q", self.content(file)[:8])
            self.assertEqual((8 + length) % 4096, 0)


# ---- what the package writes --------------------------------------------------------------------


class WhatThePackageWrites(unittest.TestCase):
    def check(self, arrays, metadata=None):
        from safetensors import numpy
        content = numpy.save(arrays, metadata)
        (answer,) = pawl_reads([content])
        self.assertEqual(answer["status"], "ok", answer)
        self.assertEqual(tensors_of(answer), package_reads(content))
        self.assertEqual({name: (shape, data) for name, (_, shape, data) in tensors_of(answer).items()},
                         {name: (list(array.shape), array.tobytes())
                          for name, array in arrays.items()})
        self.assertEqual(answer["metadata"], metadata or {})

    def test_every_dtype_of_numpy(self):
        import numpy
        source = numpy.random.default_rng(1)
        self.check({f"t/{name}": source.integers(0, 2, (3, 2)).astype(name)
                    for name in ("bool", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "f8", "i8",
                                 "u8")})

    def test_nothing(self):
        self.check({})

    def test_shapes_without_elements_or_dimensions(self):
        import numpy
        self.check({"none": numpy.zeros((0, 3), "f4"), "scalar": numpy.array(1.5)})

    def test_metadata_and_odd_names(self):
        import numpy
        self.check({"\u00e4\u20ac\U0001f600\"\\\n": numpy.ones(1, "u1")},
                   {"format": "pt", "k\t": "\U0001f600"})

    def test_many_tensors(self):
        import numpy
        self.check({f"layer/{i}": numpy.full(i % 4, i, "i2") for i in range(3000)})


# ---- what the package refuses -------------------------------------------------------------------

# Where pawl refuses what the package accepts, its text has one of these.
STRICTER = ("is there twice",               # duplicate keys
            "text without the character U+0000",
            "an object, '{'",               # a tensor's entry as a list
            "a string",                     # a dtype as {"U8": null}
            "more than 32 dimensions",
            "the shape overflows")          # an extent beyond 2^63 - 1 beside one of 0


def entry(shape="[4]", offsets="[0,4]", dtype='"U8"', more=""):
    return f'{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}{more}}}'


def hostile_files():
    four = entry()
    yield b""
    yield b"1234567"
    yield data_file(b"{}", length=2**64 - 1)
    yield data_file(b"{}", length=2**63)
    yield data_file(b"{}", length=100_000_001)
    yield data_file(b"{}", length=3)
    yield data_file(b"{}", length=1)
    yield data_file(b"{}", length=0)
    for header in (b"\xff\xff", b"", b"[]", b"{", b"{}x", b"{}{}", b"\xef\xbb\xbf{}", b"{} \x00",
                   b'{"a\xff":1}', b"\x0b{}", b"null", b'"x"', b"1"):
        yield data_file(header)
    for header in ('{"__metadata__":{"a":1}}', '{"__metadata__":[]}', '{"__metadata__":{"a":null}}',
                   '{"__metadata__":null}', '{"__metadata__":{"a":"b","a":"c"}}', '{"a":null}',
                   '{"__metadata__":{},"__metadata__":{}}', '{"a":{}}', '{"a":[]}'):
        yield data_file(header)
    for shape in ("4", '["4"]', "[4.0]", "[4e0]", "[-4]", "[-0]", "[04]", "[4,]", "[4,0]", "[2,2]",
                  "[18446744073709551616]", "[9223372036854775808,0]", "[]", "[null]", "{}",
                  "[4294967296,4294967296]", "[4294967296,4294967296,0]", "[0,4294967296,4294967296]",
                  "[" + ",".join(["1"] * 40) + ",4]"):
        for offsets in ("[0,4]", "[0,0]"):
            yield data_file(f'{{"a":{entry(shape, offsets)}}}', bytes(4 if offsets == "[0,4]" else 0))
    for offsets in ("[]", "[4]", "[0,4,4]", "[4,0]", "[1,5]", "[-4,0]", "[0,4.0]", "[0,3]", "[0,5]",
                    '{"0":4}', "[0,18446744073709551615]", "[null,4]", "0"):
        for count in (3, 4, 5):
            yield data_file(f'{{"a":{entry(offsets=offsets)}}}', bytes(count))
    for dtype in ('"u8"', '"U9"', '""', "8", "null", '{"U8":null}', '["U8"]', '"U8 "'):
        yield data_file(f'{{"a":{entry(dtype=dtype)}}}', bytes(4))
    for dtype, count in (("F4", 3), ("F4", 1), ("F6_E2M3", 2), ("F6_E3M2", 4), ("F6_E3M2", 3)):
        for size in (1, 2, 3):
            text = entry(f"[{count}]", f"[0,{size}]", f'"{dtype}"')
            yield data_file(f'{{"a":{text}}}', bytes(size))
    for more in (',"x":1', ',"x":1e999', ',"x":-1e309', ',"x":1e-999', ',"x":01', ',"x":"\\ud800"',
                 ',"x":NaN', ',"x":[1,]', ',"dtype":"U8"', ',"x":1,"x":2', ',"x":"\t"',
                 ',"x":17976931348623157e292', ',"x":1.7976931348623159e308', ",", ',"x"',
                 ',"x":123456789012345678901234567890'):
        yield data_file(f'{{"a":{entry(more=more)}}}', bytes(4))
    for depth in (125, 126, 127, 128, 5000):
        nested = "[" * depth + "]" * depth
        yield data_file(f'{{"a":{entry(more=",%s:%s" % (chr(34) + "x" + chr(34), nested))}}}', bytes(4))
    for second in ("[4,8]", "[5,9]", "[3,7]", "[0,4]", "[8,4]"):
        for count in (4, 7, 8, 9):
            yield data_file(f'{{"a":{four},"b":{entry(offsets=second)}}}', bytes(count))
    yield data_file(f'{{"a":{four},"a":{four}}}', bytes(4))
    yield data_file(f'{{"a":{four},"e":{entry("[0]", "[2,2]")}}}', bytes(4))
    yield data_file(f'{{"a":{four},"e":{entry("[0]", "[4,4]")}}}', bytes(4))
    yield data_file(f'{{"a\\u0000":{four}}}', bytes(4))
    yield data_file(f'{{"a":["U8",[4],[0,4]]}}', bytes(4))


PIECES = ["0", "1", "4", "9", "-", ".", "e9", '"', "\\", "{", "}", "[", "]", ",", ":", " ", "\\u0061",
          "null", "true", '"a"', '"U8"', '"F4"', '"shape"', '"dtype"', "\n", "\x01", "\u00e4",
          "18446744073709551615", "4294967296", '"x":[{}],', '"data_offsets":[0,0],']


def mutated_files(count):
    source = random.Random(20240229)
    bases = [("{\"__metadata__\":{\"k\":\"v\"},\"a\":" + entry() + ",\"b\":" +
              entry("[2,1]", "[4,8]", '"I16"') + "}", 8),
             ("{\"a\":" + entry("[0]", "[0,0]") + ",\"b\":" + entry("[]", "[0,1]") + "}", 1),
             ("{\"f\":" + entry("[2,2]", "[0,2]", '"F4"') + "} ", 2)]
    for _ in range(count):
        text, size = source.choice(bases)
        for _ in range(source.randint(1, 3)):
            at = source.randrange(len(text) + 1)
            end = min(len(text), at + source.choice((0, 0, 1, 1, 2, 5)))
            text = text[:at] + source.choice(PIECES + ["", "", ""]) + text[end:]
        yield data_file(text, bytes(size + source.choice((0,) * 9 + (1,))))


class WhatThePackageRefuses(unittest.TestCase):
    def compare(self, files):
        refused = 0
        for content, answer in zip(files, pawl_reads(files)):
            theirs = package_reads(content)
            if theirs is None:
                self.assertNotEqual(answer["status"], "ok", f"only pawl accepts {content!r}")
                refused += 1
            elif answer["status"] == "ok":
                self.assertEqual(tensors_of(answer), theirs, f"{content!r}")
            else:
                self.assertTrue(any(reason in answer["text"] for reason in STRICTER),
                                f"only pawl refuses {content!r}: {answer['text']}")
        return refused

    def test_r14_hostile_headers(self):
        files = list(hostile_files())
        self.assertGreater(self.compare(files), len(files) // 2)

    def test_r14_mutated_headers(self):
        files = list(mutated_files(4000))
        refused = self.compare(files)
        self.assertTrue(1000 < refused < len(files), f"{refused} of {len(files)} were refused")


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    if not ARGUMENTS.in_environment:
        PYTHON = find_python(ARGUMENTS.environment)
        sys.exit(subprocess.run([PYTHON, *sys.argv, "--in-environment"]).returncode)
    unittest.main(argv=sys.argv[:1], verbosity=2)
