# SPDX-License-Identifier: Apache-2.0
"""Makes the HDF5 files of this directory, with h5py 3.16 (HDF5 2.0)."""

import h5py
import numpy


def numbers(f):
    f["f32"] = numpy.arange(6, dtype="<f4").reshape(2, 3)
    f["f64_big"] = numpy.arange(4, dtype=">f8")
    f["i8"] = numpy.array([-1, 2], dtype="i1")
    f["bool"] = numpy.array([True, False, True])
    f["c64"] = numpy.array([1 + 2j, 3 - 4j], dtype="c8")
    f["c128"] = numpy.array([1 + 2j], dtype="c16")
    f["scalar"] = numpy.float32(2.5)
    f["empty"] = numpy.zeros((0, 3), dtype="f4")
    f["text"] = "plain"
    f["never"] = h5py.Empty("f4")
    f["g/deep/x"] = numpy.arange(3, dtype="i8")


def attributes(f):
    f.attrs["model_config"] = '{"a": 1}'
    g = f.create_group("g")
    g.attrs["names"] = ["one", "two"]
    g.attrs["fixed"] = numpy.array([b"ab", b"c"])
    g.attrs["i"] = -5
    g.attrs["u"] = numpy.uint64(2**64 - 1)
    g.attrs["f"] = numpy.float32(0.5)
    g.attrs["b"] = True
    g.attrs["array"] = numpy.array([1, 2, 3], dtype=">i2")
    g.attrs["none"] = h5py.Empty("i4")
    g.attrs["pair"] = numpy.zeros((), dtype=[("x", "i4"), ("y", "f4")])


def chunks(f):
    a = numpy.arange(7 * 5, dtype="<i4").reshape(7, 5)
    f.create_dataset("plain", data=a, chunks=(3, 5))
    f.create_dataset("cut", data=a, chunks=(3, 2))
    f.create_dataset("all", data=a, chunks=(3, 2), shuffle=True, compression="gzip", fletcher32=True)
    f.create_dataset("lzf", data=a // 7, chunks=(7, 5), compression="lzf")
    f.create_dataset("big", data=a.astype(">i4"), chunks=(4, 4), compression="gzip")
    d = f.create_dataset("holes", shape=(9, 4), dtype="<f4", chunks=(2, 2), fillvalue=1.5)
    d[4, 1] = 7
    f.create_dataset("unwritten", shape=(3,), dtype=">i4", fillvalue=-2)
    f.create_dataset("grows", data=a, chunks=(3, 2), maxshape=(None, None))
    f.create_dataset("scaled", data=a, chunks=(7, 5), scaleoffset=0)


def links(f):
    f["a"] = numpy.arange(2, dtype="u1")
    f["b"] = f["a"]
    f["soft"] = h5py.SoftLink("/a")
    f["outside"] = h5py.ExternalLink("other.h5", "/x")
    f["loop"] = f["/"]
    f["at@sign"] = numpy.arange(2, dtype="u1")
    f["at@sign"].attrs["x@y"] = 1


def many(f):
    for i in range(40):
        f[f"w{i:02d}"] = numpy.uint8(i)
    f.attrs.update({f"a{i}": i for i in range(12)})


def growing(f):
    a = numpy.arange(7 * 5, dtype="<i4").reshape(7, 5)
    f.create_dataset("rows", data=a, chunks=(1, 5), maxshape=(None, 5))
    f.create_dataset("columns", data=a, chunks=(2, 2), maxshape=(20, None), compression="gzip")
    f.create_dataset("long", data=numpy.arange(300, dtype="u2").astype("u1"), chunks=(1,), maxshape=(None,))
    d = f.create_dataset("shrunk", data=a, chunks=(2, 2), maxshape=(None, 9))
    d.resize((3, 4))
    f.attrs.update({f"a{i}": i for i in range(9)})
    f.attrs["large"] = numpy.arange(1200, dtype=">i4")


def with_sizes(name, offsets, lengths, fill):
    """A file whose addresses and lengths have so many bytes."""
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_sizes(offsets, lengths)
    with h5py.File(h5py.h5f.create(name.encode(), h5py.h5f.ACC_TRUNC, properties)) as f:
        fill(f)


def make(name, fill, **options):
    with h5py.File(name, "w", **options) as f:
        fill(f)


make("numbers.h5", numbers)
make("attributes.h5", attributes)
make("chunks.h5", chunks)
make("links.h5", links)
make("many.h5", many)
make("numbers_new.h5", numbers, libver="latest")
make("chunks_new.h5", chunks, libver="latest")
make("many_new.h5", many, libver="latest")
make("growing_new.h5", growing, libver="latest")
make("links_new.h5", links, libver="latest")
with_sizes("sizes84.h5", 8, 4, numbers)
with_sizes("sizes48.h5", 4, 8, numbers)
make("userblock.h5", lambda f: f.create_dataset("x", data=[1.0, 2.0]), userblock_size=512)
