# SPDX-License-Identifier: Apache-2.0
"""HDF5: h5py writes and pawl reads."""

import itertools

import h5py
import numpy as np
import support
from support import READ, SHAPES, made

import pawl

VERSIONS = ["earliest", ("earliest", "v108"), ("v108", "v108"), ("v110", "v110"), ("v112", "v112"), "latest"]
FILTERS = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "shuffle": {"shuffle": True, "compression": "gzip", "compression_opts": 9},
    "fletcher32": {"fletcher32": True},
    "all": {"shuffle": True, "compression": "gzip", "fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
}
#: dtype of h5py, and what pawl calls it, which it does not read.
UNREAD = [
    (np.dtype("S5"), "STRING5"),
    (np.dtype([("a", "<f4"), ("b", "<i2")]), "COMPOUND6"),
    (np.dtype("V3"), "OPAQUE3"),
]


def compact(file, name, array):
    """A dataset whose elements are in its header."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(array.shape) if array.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    kind = h5py.h5t.py_create(array.dtype, logical=True)
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space, dcpl=properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array).reshape(array.shape))


class WithH5py(support.InDirectory):
    def assert_file(self, path):
        """Every dataset that h5py reads, pawl reads alike; and there is no other tensor of the model."""
        with h5py.File(path) as file, pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.format, "HDF5")
            names = []
            file.visititems(lambda name, what: names.append(name) if isinstance(what, h5py.Dataset) else None)
            for name in names:
                self.assert_tensor(checkpoint, name, np.asarray(file[name][()]))
            self.assertEqual([each.name for each in checkpoint.entries() if "@" not in each.name], sorted(names))
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1
        return names


class Datasets(WithH5py):
    def test_every_type_shape_and_version(self):
        for version, shape in itertools.product(VERSIONS, SHAPES):
            path = self.directory / f"d{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                for dtype, byteorder in itertools.product(READ, "<>"):
                    array = made(dtype, shape, self.files)
                    array = array.astype(array.dtype.newbyteorder(byteorder))
                    file[f"contiguous/{dtype}/{byteorder}"] = array
                    compact(file, f"compact-{dtype}-{byteorder}", array)
            with self.subTest(version=version, shape=shape):
                self.assert_file(path)
        self.enough()

    def test_chunks_of_every_version_and_filter(self):
        shapes = [
            ((17,), (5,)),
            ((17,), (17,)),
            ((30, 40), (7, 9)),
            ((2, 3, 4), (1, 3, 2)),
            ((2, 1, 3, 2, 4), (1, 1, 2, 2, 3)),
        ]
        for version, (filters, options) in itertools.product(VERSIONS, FILTERS.items()):
            path = self.directory / f"c{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                for (shape, chunks), dtype, limit in itertools.product(
                    shapes, ("float32", "int8", "uint64"), ("fixed", "one", "all")
                ):
                    most = {"fixed": None, "one": (None, *shape[1:]), "all": (None,) * len(shape)}[limit]
                    file.create_dataset(
                        f"{dtype}/{len(shape)}-{chunks[0]}/{limit}",
                        data=made(dtype, shape, self.files),
                        chunks=chunks,
                        maxshape=most,
                        **options,
                    )
            with self.subTest(version=version, filters=filters):
                self.assert_file(path)
        self.enough()

    def test_many_chunks(self):
        for version, (filters, options) in itertools.product(("earliest", "latest"), FILTERS.items()):
            path = self.directory / f"m{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                array = made("uint16", (3000, 4), 1)
                for limit, most in {"fixed": None, "one": (None, 4), "all": (None, None)}.items():
                    file.create_dataset(limit, data=array, chunks=(2, 4), maxshape=most, **options)
                    file.create_dataset(f"cut-{limit}", data=array[:1999], chunks=(2, 3), maxshape=most, **options)
                    file.create_dataset(f"rows-{limit}", data=array[:999], chunks=(1, 4), maxshape=most, **options)
            with self.subTest(version=version, filters=filters):
                self.assert_file(path)

    def test_what_was_never_written_has_the_fill_value(self):
        for version, value in itertools.product(VERSIONS, (None, 7)):
            path = self.directory / f"f{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                for dtype, chunks in itertools.product(("float32", ">i4", "uint8"), (None, (4, 4))):
                    name = f"{np.dtype(dtype).str[1:]}-{chunks is None}"
                    whole = file.create_dataset(name, (10, 9), dtype, chunks=chunks, fillvalue=value)
                    if chunks:
                        whole[5:7, 3:5] = 3
                grown = file.create_dataset(
                    "grown", (3, 3), "f8", maxshape=(None, None), chunks=(2, 2), fillvalue=value
                )
                grown[...] = 1
                grown.resize((7, 5))
                shrunk = file.create_dataset("shrunk", (9, 9), "f8", maxshape=(None, None), chunks=(2, 2))
                shrunk[...] = made("float64", (9, 9))
                shrunk.resize((4, 5))
            self.assert_file(path)

    def test_slices(self):
        array = made("float32", (30, 40, 3))
        with h5py.File(self.directory / "a.h5", "w") as file:
            file["plain"] = array
            file.create_dataset("chunked", data=array, chunks=(7, 9, 2))
            file.create_dataset("packed", data=array, chunks=(7, 9, 2), compression="gzip", shuffle=True)
        with pawl.open(self.directory / "a.h5") as checkpoint:
            for name, index in itertools.product(checkpoint, [np.s_[3], np.s_[5:20, 8:10], np.s_[..., 1], np.s_[7:7]]):
                self.assertEqual(bytes(checkpoint[name][index].buffer), array[index].tobytes())

    def test_a_block_of_the_user_and_other_sizes_of_addresses(self):
        sizes = [(8, 8), (4, 4), (8, 4), (4, 8)]
        for size, (offsets, lengths), newest in itertools.product((0, 512, 4096), sizes, (False, True)):
            path = self.directory / f"u{self.files}.h5"
            properties, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
            properties.set_userblock(size)
            properties.set_sizes(offsets, lengths)
            if newest:
                access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
            with h5py.File(h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, properties, access)) as file:
                for i, dtype in enumerate(READ):
                    file[f"group/{dtype}"] = made(dtype, (3, 5), i)
                for filters, options in FILTERS.items():
                    for limit, most in (("fixed", None), ("one", (None, 9)), ("all", (None, None))):
                        if newest and lengths == 4 and most:
                            continue  # HDF5 does not read what it writes
                        data = made("int16", (99, 9))
                        file.create_dataset(
                            f"chunks/{filters}/{limit}", data=data, chunks=(2, 4), maxshape=most, **options
                        )
                for i in range(40):
                    file["group"].attrs[f"n{i}"] = i
                file.attrs["texts"] = ["a", "bb", "\u00e4" * 50]
            with self.subTest(size=size, offsets=offsets, lengths=lengths, newest=newest):
                self.assert_file(path)
                with pawl.open(path) as checkpoint:
                    self.assertEqual(checkpoint["@texts"], ["a", "bb", "\u00e4" * 50])
                    self.assertEqual([checkpoint[f"group@n{i}"] for i in range(40)], list(range(40)))


class Groups(WithH5py):
    def test_many_members_in_every_version(self):
        for version, count in itertools.product(VERSIONS, (0, 1, 7, 9, 40, 700)):
            path = self.directory / f"g{self.files}.h5"
            with h5py.File(path, "w", libver=version, track_order=count == 40) as file:
                for i in range(count):
                    file[f"some/{i % 3}/member-{'x' * (i % 60)}-{i}"] = np.int32(i)
                file["last"] = np.arange(3)
            self.assertEqual(len(self.assert_file(path)), count + 1)
        self.enough()

    def test_depth_and_names(self):
        names = ["/".join("abcdefghij"), "\u00e4/\u03b2", "dense:0", "a b", ".../x", "x" * 500]
        for version in VERSIONS:
            path = self.directory / f"n{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                for i, name in enumerate(names):
                    file[name] = made("float32", (2, 3), i)
            self.assert_file(path)

    def test_attributes(self):
        values = {
            "int": 5,
            "least": np.int8(-3),
            "float": 0.25,
            "half": np.float16(1.5),
            "big": np.array(7, ">i4")[()],
            "text": "l\u00e4mp",
            "flag": np.bool_(True),
        }
        arrays = {"ints": np.arange(5), "matrix": made("float32", (3, 4)), "back": np.arange(4, dtype=">u2")}
        arrays |= {"complex": made("complex128", (2,)), "z": made("complex128", ())}
        for version, many in itertools.product(VERSIONS, (0, 5, 20, 300)):
            path = self.directory / f"a{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                file["group/w"] = made("float32", (3,))
                for where in (file, file["group"], file["group/w"]):
                    for name, value in {**values, **arrays, **{f"n{i}": i for i in range(many)}}.items():
                        where.attrs[name] = value
                    where.attrs["names"] = ["a", "bb", "\u00e4"]
                    where.attrs["bytes"] = np.array([b"kernel", b"b"])
                    where.attrs["empty"] = h5py.Empty("f")
            with self.subTest(version=version, many=many), pawl.open(path) as checkpoint:
                for where in ("@", "group@", "group/w@"):
                    for name, value in {**values, **{f"n{i}": i for i in range(many)}}.items():
                        self.assertEqual(checkpoint[where + name], value, where + name)
                    for name, array in arrays.items():
                        self.assert_tensor(checkpoint, where + name, array)
                    self.assertEqual(checkpoint[where + "names"], ["a", "bb", "\u00e4"])
                    self.assertEqual(checkpoint[where + "bytes"], ["kernel", "b"])
                    self.assertIsNone(checkpoint[where + "empty"])
                self.assertEqual(len(checkpoint), 1 + 3 * (len(values) + len(arrays) + 3 + many))
            self.files += 1

    def test_links(self):
        for version in VERSIONS:
            path = self.directory / f"l{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                file["a/w"] = np.arange(3)
                file["hard"] = file["a/w"]
                file["soft"] = h5py.SoftLink("/a/w")
                file["out"] = h5py.ExternalLink("other.h5", "/x")
                file["a/up"] = file["/"]
            with pawl.open(path) as checkpoint:
                kinds = {name: checkpoint.entry(name).kind for name in checkpoint}
                self.assertEqual(
                    kinds, {"hard": "tensor", "a/w": "json", "a/up": "json", "out": "json", "soft": "json"}
                )
            self.files += 1


class Unsupported(WithH5py):
    def test_other_types_are_named(self):
        for version, (dtype, name), shape in itertools.product(VERSIONS, UNREAD, [(), (4,), (2, 3)]):
            path = self.directory / f"u{self.files}.h5"
            if name.startswith("STRING") and not shape:
                continue  # it is a value
            with h5py.File(path, "w", libver=version) as file:
                file.create_dataset("x", data=np.zeros(shape, dtype))
                file["w"] = np.arange(3)
            with self.subTest(version=version, dtype=dtype, shape=shape), pawl.open(path) as checkpoint:
                self.assert_unread(checkpoint, "x", name, shape)
                self.assert_tensor(checkpoint, "w", np.arange(3))
            self.files += 1
        self.enough()

    def test_texts_and_references(self):
        for version in VERSIONS:
            path = self.directory / f"t{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                file["text"] = "l\u00e4mp"
                file["fixed"] = np.bytes_("abc")
                file["w"] = np.arange(3)
                file["texts"] = ["a", "bb"]
                file.create_dataset("vlen", (2,), h5py.vlen_dtype(np.int32))
                file.create_dataset("reference", data=file["w"].ref, dtype=h5py.ref_dtype)
            with pawl.open(path) as checkpoint:
                self.assertEqual((checkpoint["text"], checkpoint["fixed"]), ("l\u00e4mp", "abc"))
                self.assert_tensor(checkpoint, "w", np.arange(3))
                for name in ("vlen", "reference", "texts"):
                    with self.assertRaisesRegex(pawl.UsageError, "cannot be read"):
                        checkpoint[name].read()
            self.files += 1

    def test_other_ways_to_store(self):
        """Each is named, with why it is not read; what is beside it is read."""
        outside = self.directory / "raw"
        outside.write_bytes(bytes(24))
        for version in VERSIONS:
            path = self.directory / f"o{self.files}.h5"
            with h5py.File(path, "w", libver=version) as file:
                file["w"] = np.arange(6)
                file.create_dataset("scaled", data=np.arange(6), chunks=(3,), scaleoffset=0)
                file.create_dataset("outside", (6,), "i4", external=[(str(outside), 0, 24)])
                layout = h5py.VirtualLayout((6,), "i8")
                layout[...] = h5py.VirtualSource(".", "w", (6,))
                if version not in ("earliest", ("earliest", "v108"), ("v108", "v108")):
                    file.create_virtual_dataset("virtual", layout)
                names = [name for name in file if name != "w"]
            with pawl.open(path) as checkpoint:
                self.assert_tensor(checkpoint, "w", np.arange(6))
                for name in names:
                    self.assertTrue(checkpoint[name].dtype.startswith("unread "), name)
                    self.assertTrue(checkpoint[f"{name}@%unread"])
                    with self.assertRaisesRegex(pawl.UsageError, "cannot be read"):
                        checkpoint[name].read()
            self.files += 1

    def test_r08_no_flipped_bit_makes_an_entry_vanish(self):
        """HDF5's own library does not find it either, or pawl says that the file is damaged."""
        path = self.directory / "whole.h5"
        values = np.arange(100.0)
        with h5py.File(path, "w") as file:
            file["a"], file["g/b"] = values, values
        whole = path.read_bytes()
        elements = {at for at in range(len(whole)) if whole[at : at + 800] == values.tobytes()}
        self.assertEqual(len(elements), 2)
        flipped, refused, fewer = self.directory / "flipped.h5", 0, 0
        for at in range(len(whole)):
            if any(begin <= at < begin + 800 for begin in elements):
                continue
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[at] ^= 1 << bit
                flipped.write_bytes(damaged)
                try:
                    with pawl.open(flipped) as checkpoint:
                        found = [entry.name for entry in checkpoint.entries() if "@" not in entry.name]
                except pawl.Error:
                    refused += 1
                    continue
                if len(found) < 2:
                    fewer += 1
                    with self.subTest(at=at, bit=bit), h5py.File(flipped) as file:
                        theirs = []
                        file.visititems(lambda name, it, theirs=theirs: theirs.append(isinstance(it, h5py.Dataset)))
                        self.assertEqual(sum(theirs), len(found))
        self.assertGreater(refused, 1000)
        self.assertLess(fewer, 10)


if __name__ == "__main__":
    support.main()
