# SPDX-License-Identifier: Apache-2.0
"""`.npy` and `.npz`: NumPy writes and pawl reads, pawl writes and NumPy reads."""

import io
import itertools
import zipfile

import ml_dtypes
import numpy as np
import support
from support import PLAIN, READ, SHAPES, bits, made

import pawl

#: dtype in NumPy and what pawl calls it, which it does not read.
UNREAD = [
    ("<g", "F128"),
    ("S5", "S5"),
    ("<U5", "U5"),
    (">U5", ">U5"),
    ("<M8[ns]", "M8[ns]"),
    (">m8[s]", ">m8[s]"),
    ("V3", "V3"),
    ([("a", "<f4"), ("b", ">i2", (2,))], "STRUCT"),
    ([("n", [("x", "<f8")]), ("t", "U3")], "STRUCT"),
]
#: Types of ml_dtypes, and what NumPy calls them in a header.
ALSO = [
    ("bfloat16", "V2"),
    ("complex32", "W4"),
    *(
        (name, "V1")
        for name in ("float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint2")
    ),
]


def layouts(array):
    """The array in order of rows and of columns, in either byte order."""
    for order, byteorder in itertools.product("CF", "<>"):
        yield np.asarray(array.astype(array.dtype.newbyteorder(byteorder)), order=order)


class Npy(support.InDirectory):
    def test_every_type_shape_order_and_byte_order(self):
        for dtype, (i, shape) in itertools.product(READ, enumerate(SHAPES)):
            for array in layouts(made(dtype, shape, i)):
                path = self.directory / f"a{self.files}.npy"
                np.save(path, array)
                with self.subTest(dtype=array.dtype.str, shape=shape, fortran=array.flags.fnc):
                    self.assert_arrays(path, {path.stem: np.load(path)}, "npy")
        self.enough(13 * 8 * 4)

    def test_every_version_of_the_header(self):
        for version, dtype, shape in itertools.product([(1, 0), (2, 0), (3, 0)], READ, [(), (3, 5)]):
            path = self.directory / f"v{self.files}.npy"
            with path.open("wb") as file:
                np.lib.format.write_array(file, made(dtype, shape), version=version)
            self.assertEqual(path.read_bytes()[6:8], bytes(version))
            with self.subTest(version=version, dtype=dtype, shape=shape):
                self.assert_arrays(path, {path.stem: np.load(path)}, "npy")
        self.enough()

    def test_views_are_saved_as_what_they_show(self):
        base = made("int32", (6, 7, 8))
        for view in (base[::2], base[:, ::-1], base.T, base[1:4, 2, ::3], np.broadcast_to(base[0, 0, 0], (2, 3))):
            path = self.directory / f"v{self.files}.npy"
            np.save(path, view)
            self.assert_arrays(path, {path.stem: view}, "npy")

    def test_slices(self):
        array = made("float64", (5, 6, 7))
        for layout in layouts(array):
            np.save(self.directory / "a.npy", layout)
            with pawl.open(self.directory / "a.npy") as checkpoint:
                for index in [
                    np.s_[2],
                    np.s_[1:3, 2:],
                    np.s_[..., 3],
                    np.s_[4, 1:1],
                    np.s_[0, 5, 6],
                    np.s_[:, 3:4, 1:6],
                ]:
                    self.assertEqual(bytes(checkpoint["a"][index].buffer), array[index].tobytes())

    def test_complex128(self):
        """Slices of its parts, and what a state takes back as complex128; where no dimension is left it is listed."""
        array = made("complex128", (5, 6, 7))
        parts = np.stack([array.real, array.imag], axis=-1)
        for layout in layouts(array):
            np.save(self.directory / "a.npy", layout)
            restored = np.zeros_like(array)
            with pawl.open(self.directory / "a.npy") as checkpoint:
                for index in [np.s_[2], np.s_[1:3, 2:], np.s_[..., 3, :], np.s_[..., 1], np.s_[0, 5, 6, 0]]:
                    self.assertEqual(bytes(checkpoint["a"][index].buffer), parts[index].tobytes())
                self.assertEqual(bits(np.asarray(checkpoint["a"]).view("c16")[..., 0]), bits(array))
                checkpoint.restore(pawl.State({"a": restored}))
            self.assertEqual(bits(restored), bits(array))
        for ndim, order in itertools.product((31, 32), "CF"):
            deep = np.asarray(array[:2, :2, 0].reshape(2, 2, *[1] * (ndim - 2)), order=order)
            np.save(self.directory / "a.npy", deep)
            with pawl.open(self.directory / "a.npy") as checkpoint:
                if ndim == 31:
                    self.assert_tensor(checkpoint, "a", deep)
                else:
                    self.assert_unread(checkpoint, "a", "C128", deep.shape)

    def test_other_types_are_named_and_refused(self):
        for (descr, name), shape in itertools.product(UNREAD, [(), (4,), (2, 0), (2, 3)]):
            path = self.directory / f"u{self.files}.npy"
            np.save(path, np.zeros(shape, np.dtype(descr)))
            with self.subTest(descr=descr, shape=shape), pawl.open(path) as checkpoint:
                self.assert_unread(checkpoint, path.stem, name, shape)
                self.assertTrue(checkpoint.verify().ok)
            self.files += 1
        np.save(self.directory / "o.npy", np.array([{"a": 1}, None], object), allow_pickle=True)
        with pawl.open(self.directory / "o.npy") as checkpoint:
            self.assert_unread(checkpoint, "o", "OBJECT", (2,))
        self.enough()

    def test_types_of_ml_dtypes(self):
        """NumPy names them by their bytes alone, but for float8_e5m2, which it calls f1."""
        for name, type_name in ALSO:
            array = np.zeros((3, 2), getattr(ml_dtypes, name))
            np.save(self.directory / f"{name}.npy", array)
            np.savez(self.directory / f"{name}.npz", **{name: array, "w": np.ones(3)})
            for ending in ("npy", "npz"):
                with (
                    self.subTest(name=name, ending=ending),
                    pawl.open(self.directory / f"{name}.{ending}") as checkpoint,
                ):
                    self.assert_unread(checkpoint, name, type_name, (3, 2))
        np.save(self.directory / "e.npy", made("float8_e5m2", (3, 2)))
        self.assert_arrays(self.directory / "e.npy", {"e": made("float8_e5m2", (3, 2))}, "npy")


class Npz(support.InDirectory):
    def test_every_type_shape_and_layout(self):
        for save, shape, seed in itertools.product([np.savez, np.savez_compressed], SHAPES, range(3)):
            arrays = {f"layer/{dtype}.w": made(dtype, shape, seed) for dtype in READ}
            arrays = {
                f"{name}/{i}": layout for name, array in arrays.items() for i, layout in enumerate(layouts(array))
            }
            path = self.directory / f"a{self.files}.npz"
            save(path, **arrays)
            with np.load(path) as loaded:
                read = {name: loaded[name] for name in loaded.files}
            self.assert_arrays(path, read, "npz")
        self.enough()

    def test_names(self):
        names = ["arr_0", "a b", "a/b/c", "\u00e4\u03b2", "x" * 200, "a.npy", "w:0", "-", "1"]
        for i, save in enumerate([np.savez, np.savez_compressed]):
            path = self.directory / f"n{i}.npz"
            save(path, **{name: made("int16", (3,), j) for j, name in enumerate(names)})
            self.assert_arrays(path, {name: made("int16", (3,), j) for j, name in enumerate(names)}, "npz")

    def test_a_large_array(self):
        array = np.arange(3_000_000, dtype=np.float32).reshape(3000, 1000)
        for i, save in enumerate([np.savez, np.savez_compressed]):
            for j, layout in enumerate(layouts(array)):
                save(self.directory / f"{i}{j}.npz", a=layout)
                self.assert_arrays(self.directory / f"{i}{j}.npz", {"a": layout}, "npz")

    def test_members_as_other_programs_pack_them(self):
        for method, level, version in itertools.product((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), (1, 9), (1, 2, 3)):
            path = self.directory / f"z{self.files}.npz"
            arrays = {dtype: made(dtype, (7, 3), self.files) for dtype in READ}
            with zipfile.ZipFile(path, "w", method, compresslevel=level) as file:
                for name, array in arrays.items():
                    text = io.BytesIO()
                    np.lib.format.write_array(text, array, version=(version, 0))
                    file.writestr(f"{name}.npy", text.getvalue())
            self.assert_arrays(path, arrays, "npz")


class Written(support.InDirectory):
    """What pawl writes, NumPy loads."""

    def test_npz(self):
        for i, shape in enumerate(SHAPES):
            arrays = {f"layer.{i}/{dtype}": made(dtype, shape, i) for dtype in PLAIN}
            path = self.directory / f"w{i}.npz"
            pawl.convert(self.run_of(arrays, name=f"run{i}"), path)
            with np.load(path, allow_pickle=False) as loaded:
                self.assertEqual(sorted(loaded.files), sorted(arrays))
                for name, array in arrays.items():
                    self.assertEqual((loaded[name].dtype, loaded[name].shape), (array.dtype, array.shape))
                    self.assertEqual(bits(loaded[name]), bits(array), name)

    def test_complex128_is_written_as_its_parts(self):
        array = made("complex128", (3, 5))
        np.save(self.directory / "from.npy", array.T)
        pawl.convert(self.directory / "from.npy", self.directory / "to.npy")
        loaded = np.load(self.directory / "to.npy")
        self.assertEqual((loaded.dtype, loaded.shape, bits(loaded)), (np.float64, (5, 3, 2), bits(array.T)))

    def test_npy(self):
        for dtype, (i, shape) in itertools.product(PLAIN, enumerate(SHAPES)):
            array = made(dtype, shape, i)
            np.save(self.directory / "from.npy", array.T)
            path = self.directory / f"w{self.files}.npy"
            pawl.convert(self.directory / "from.npy", path)
            loaded = np.load(path, allow_pickle=False)
            mapped = np.load(path, mmap_mode="r") if array.size else loaded
            self.assertEqual((loaded.dtype, loaded.shape, bits(loaded)), (array.dtype, array.T.shape, bits(array.T)))
            self.assertEqual(bits(mapped), bits(array.T))
            self.files += 1
        self.enough()


if __name__ == "__main__":
    support.main()
