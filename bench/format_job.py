# SPDX-License-Identifier: Apache-2.0
"""One measurement of formats.py, in a process of its own: format_job.py READER PATH [TO]. Waits for a line, so that
what is read is cold or warm by then, and answers with a line of JSON."""

import concurrent.futures
import gc
import importlib
import json
import mmap
import os
import pathlib
import sys
import time

# A virtual machine gets huge pages from its host at less than 1 GiB/s: whoever asks for them would be measured by that.
os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"

HERE = pathlib.Path(__file__).resolve().parent
PIECE = 4 << 20
JOBS = 4
PAGE = 4096


def need(*modules):
    return [importlib.import_module(module) for module in modules]


def touch(arrays):
    """Reads a byte of each page, so that what is mapped is there."""
    numpy = importlib.import_module("numpy")
    for array in arrays:
        if array.size > 0:
            int(numpy.asarray(array).reshape(-1).view(numpy.uint8)[::PAGE].max())


def copied(found):
    """What was mapped as tensors of new memory: as load_state_dict() of a new model has them."""
    (torch,) = need("torch")
    return {name: torch.empty_like(tensor).copy_(tensor) for name, tensor in found.items()}


# ---- readers: each returns a function that reads all, after what a job imports once ----------------


def by_pawl(path):
    (pawl,) = need("pawl")

    def read():
        with pawl.open(path) as checkpoint:
            return {entry.name: checkpoint[entry.name].read() for entry in checkpoint.entries() if entry.kind == "tensor"}

    return read


def by_pawl_verified(path):
    """Restores a state, which compares the checksums of what it reads."""
    pawl, numpy = need("pawl", "numpy")

    def restore():
        with pawl.open(path) as checkpoint:
            arrays = {e.name: numpy.empty(e.shape, numpy.float32) for e in checkpoint.entries() if e.kind == "tensor"}
            checkpoint.restore(pawl.State(arrays))
            return arrays

    return restore


def by_torch(path):
    (torch,) = need("torch")
    return lambda: torch.load(path, weights_only=True)


def by_torch_mapped(path):
    (torch,) = need("torch")

    def read():
        found = torch.load(path, mmap=True, weights_only=True)
        touch(tensor.numpy() for tensor in found.values())
        return found

    return read


def by_torch_copied(path):
    (torch,) = need("torch")
    return lambda: copied(torch.load(path, mmap=True, weights_only=True))


def by_dcp(path):
    torch, dcp = need("torch", "torch.distributed.checkpoint")

    def read():
        described = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
        state = {name: torch.empty(one.size, dtype=one.properties.dtype) for name, one in described.items()}
        dcp.load(state, checkpoint_id=path)
        return state

    return read


def by_tensorflow(path):
    (tensorflow,) = need("tensorflow")

    def read():
        reader = tensorflow.train.load_checkpoint(path)
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    return read


def by_safetensors(path):
    (numpy_files,) = need("safetensors.numpy")
    return lambda: numpy_files.load_file(path)


def by_safetensors_torch(path):
    torch_files, _ = need("safetensors.torch", "torch")

    def read():
        found = torch_files.load_file(path)
        touch(tensor.numpy() for tensor in found.values())
        return found

    return read


def by_safetensors_copied(path):
    torch_files, _ = need("safetensors.torch", "torch")
    return lambda: copied(torch_files.load_file(path))


def by_numpy(path):
    (numpy,) = need("numpy")

    def read():
        with numpy.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}

    return read


# ---- the device: direct, several at a time --------------------------------------------------------


def pieces_of(size):
    return range(0, size, PIECE)


def move(path, flags, size, one):
    file = os.open(path, flags | os.O_DIRECT, 0o644)
    try:
        buffers = [mmap.mmap(-1, PIECE) for _ in range(JOBS)]

        def work(job):
            for at in pieces_of(size)[job::JOBS]:
                one(file, [buffers[job]], at)

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(work, range(JOBS)))
        if flags != os.O_RDONLY:
            os.fsync(file)
    finally:
        os.close(file)


def by_device_read(path):
    return lambda: move(path, os.O_RDONLY, os.path.getsize(path), os.preadv)


def by_device_write(path, to):
    size = (os.path.getsize(path) + PIECE - 1) // PIECE * PIECE

    def write():
        file = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.posix_fallocate(file, 0, size)
        os.close(file)
        move(to, os.O_WRONLY, size, os.pwritev)

    return write


def by_convert(path, to):
    (pawl,) = need("pawl")
    return lambda: pawl.convert(path, to) and None


READERS = {
    "pawl": by_pawl,
    "pawl, verified": by_pawl_verified,
    "torch.load": by_torch,
    "torch.load, mmap": by_torch_mapped,
    "torch.load, mmap, copied": by_torch_copied,
    "dcp.load": by_dcp,
    "tf.train.load_checkpoint": by_tensorflow,
    "safetensors, numpy": by_safetensors,
    "safetensors, torch": by_safetensors_torch,
    "safetensors, torch, copied": by_safetensors_copied,
    "numpy.load": by_numpy,
    "device, reading": by_device_read,
    "device, writing": by_device_write,
    "convert": by_convert,
}


def status_bytes(field):
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def turn(read):
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is the present
    before = status_bytes("VmRSS")
    begun = time.perf_counter()
    kept = read()
    seconds = time.perf_counter() - begun
    del kept
    return {"seconds": seconds, "extra_bytes": status_bytes("VmHWM") - before}


def main():
    sys.path.insert(0, str(HERE.parent / "python"))
    try:
        read = READERS[sys.argv[1]](*sys.argv[2:])
    except ImportError as why:
        print(json.dumps({"missing": str(why)}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    if sys.stdin.readline():
        print(json.dumps(turn(read)), flush=True)


main()
