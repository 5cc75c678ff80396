# SPDX-License-Identifier: Apache-2.0
"""One job of keras_fit.py, which starts it: trains by `fit`, saves, restores, and writes what that cost as JSON."""

import argparse
import ctypes
import gc
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import harness
import keras
import numpy
import tensorflow
from keras_savers import SAVERS

PR_SET_PDEATHSIG = 1
LAYERS = 8
COLUMNS = ("plain", "saving", "stopped", "stall", "written", "durable", "cached", "cold", "warm")


def compiled_model(options):
    """A model that has, with Adam's moments, about so many MiB; its width follows."""
    width = max(64, int((options.mib * harness.MIB / 12 / LAYERS) ** 0.5) // 64 * 64)
    model = keras.Sequential([keras.Input((width,))])
    for _ in range(LAYERS):
        model.add(keras.layers.Dense(width, activation="relu"))
        model.add(keras.layers.LayerNormalization())
        model.add(keras.layers.Dropout(0.1))
    model.add(keras.layers.Dense(10))
    model.compile(keras.optimizers.Adam(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)
    return model


def batches(options, model):
    generator = numpy.random.default_rng(1)
    x = generator.standard_normal((options.batch, model.input_shape[1]), numpy.float32)
    y = generator.integers(0, 10, options.batch)
    return tensorflow.data.Dataset.from_tensors((x, y)).repeat()


def digest(model):
    """What all contenders save: variables that are trained, and the optimizer's."""
    variables = (*model.trainable_variables, *model.optimizer.variables)
    return [float(keras.ops.sum(keras.ops.cast(variable, "float64"))) for variable in variables]


def reset_peak():
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib():
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


class First(keras.callbacks.Callback):
    """Notes when each batch has ended."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())


class Last(keras.callbacks.Callback):
    """Notes how long the callbacks between took; `then` is called after each save."""

    def __init__(self, first, every, then):
        super().__init__()
        self.first, self.every, self.then = first, every, then
        self.calls = []

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(time.perf_counter() - self.first.ends[-1])
        if self.then is not None and (batch + 1) % self.every == 0:
            self.then(self.first.ends[-1])


class Job:
    """A model that is trained again and again by `fit`."""

    def __init__(self, options):
        self.options = options
        self.model = compiled_model(options)
        self.data = batches(options, self.model)

    def fit(self, steps, saver=None, then=None):
        """Of each save but the last: seconds that its call took, and that the loop took from it to the next one."""
        every = self.options.every
        first = First()
        last = Last(first, every, then)
        callbacks = [first, *(saver.callbacks() if saver is not None else ()), last]
        self.model.fit(self.data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=callbacks)
        at = range(every - 1, steps - 1, every)
        return [last.calls[i] for i in at], [first.ends[i + every] - first.ends[i] for i in at if i + every < steps]


def measure_saves(job, saver, found):
    """Seconds of each save, beside as many steps without any."""
    options = job.options
    steps = options.every * (options.saves + 1)
    for _ in range(options.turns):
        os.sync()
        _, plain = job.fit(steps)
        calls, saving = job.fit(steps, saver)
        saver.wait()
        found["plain"] += [seconds / options.every for seconds in plain]
        found["saving"] += [seconds / options.every for seconds in saving]
        found["stopped"] += calls
        found["stall"] += [seconds - statistics.median(plain) for seconds in saving]


def measure_durable(job, saver, found):
    """Seconds of saves beside which nothing is trained."""

    def then(begin):
        saver.wait()
        found["written"].append(time.perf_counter() - begin)
        cached = sum(map(harness.cached_bytes, harness.files_below(saver.directory)))
        found["cached"].append(cached / harness.MIB)
        begin += time.perf_counter() - begin - found["written"][-1]  # looking at it takes time
        if not saver.syncs:
            harness.sync_tree(saver.directory)
        found["durable"].append(time.perf_counter() - begin)

    os.sync()
    # What pawl.keras is to save at the last batch of an epoch it saves when that has ended.
    job.fit(job.options.every * job.options.saves + 1, saver, then)


def measure_restore(job, saver, found):
    """Seconds until a new process has what was saved, and whether it is that."""
    job.fit(job.options.every, saver)
    saver.wait()
    saver.close()
    result = pathlib.Path(f"{job.options.result}.restored")
    for way in ("cold", "warm") * job.options.restores:
        command = [sys.executable, __file__, job.options.contender, f"--way={way}", f"--result={result}"]
        subprocess.run([*command, f"--directory={saver.directory}", f"--mib={job.options.mib}"], check=True)
        one = json.loads(result.read_text(encoding="utf-8"))
        found[way].append(one["seconds"])
        if job.options.contender != "nothing" and one["digest"] != digest(job.model):
            raise RuntimeError(f"{job.options.contender}: another state was restored than the one that was saved")


def restored(options):
    """What a process finds that has saved and restored something small before."""
    small = argparse.Namespace(**{**vars(options), "mib": 1})
    with tempfile.TemporaryDirectory(dir=pathlib.Path(options.directory).parent) as directory:
        job = Job(small)
        saver = SAVERS[options.contender](directory, small.every)
        saver.begin(job.model)
        job.fit(small.every, saver)
        saver.wait()
        saver.close()
        saver.restore(compiled_model(small))
        saver.close()
    model = compiled_model(options)
    saver = SAVERS[options.contender](options.directory, options.every)
    (harness.make_cold if options.way == "cold" else harness.make_warm)(saver.directory)
    gc.collect()
    begin = time.perf_counter()
    saver.restore(model)
    seconds = time.perf_counter() - begin
    found = {"seconds": seconds, "digest": digest(model)}
    saver.close()
    return found


def trained(options):
    """What a process finds that trains, and saves."""
    job = Job(options)
    found = {column: [] for column in COLUMNS}
    job.fit(2)
    reset_peak()
    job.fit(options.every)
    base = peak_mib()
    reset_peak()
    saver = SAVERS[options.contender](options.directory, options.every)
    saver.begin(job.model)
    job.fit(2 * options.every, saver)  # not counted: memory is got, threads are started
    measure_saves(job, saver, found)
    measure_durable(job, saver, found)
    found["memory"] = [peak_mib() - base]
    measure_restore(job, saver, found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=SAVERS)
    for name in ("--directory", "--result"):
        parser.add_argument(name, required=True)
    for name in ("--mib", "--every", "--saves", "--turns", "--batch", "--restores"):
        parser.add_argument(name, type=int, default=1)
    parser.add_argument("--way", choices=("cold", "warm"), help="restore what is in the directory")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with who started it, however that ends
    keras.utils.set_random_seed(1)
    found = trained(options) if options.way is None else restored(options)
    pathlib.Path(options.result).write_text(json.dumps(found), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main()
