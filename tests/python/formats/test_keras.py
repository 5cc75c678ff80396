# SPDX-License-Identifier: Apache-2.0
"""Keras: models that it saves in its formats, read by pawl, compared with what Keras has and loads."""

import json
import zipfile

import h5py
import keras
import ml_dtypes
import numpy as np
import support
from support import NAMES, bits

import pawl

DTYPES = ("float32", "float16", "bfloat16", "float64")


def dense(dtype):
    return [keras.Input((4,)), keras.layers.Dense(3, dtype=dtype), keras.layers.Dense(2, use_bias=False, dtype=dtype)]


def convolutions(dtype):
    return [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(2, 3, dtype=dtype, name="conv"),
        keras.layers.BatchNormalization(dtype=dtype),
        keras.layers.Dropout(0.5, dtype=dtype),
        keras.layers.Flatten(),
        keras.layers.Dense(1, dtype=dtype),
    ]


def recurrent(dtype):
    return [
        keras.Input((5,)),
        keras.layers.Embedding(7, 4, dtype=dtype),
        keras.layers.LSTM(3, dtype=dtype, return_sequences=True),
        keras.layers.GRU(2, dtype=dtype),
    ]


LAYERS = {"dense": dense, "convolutions": convolutions, "recurrent": recurrent}


def model_of(layers, dtype, optimizer="adam", seed=0):
    """A compiled model whose weights, and what its optimizer has, are any numbers."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(LAYERS[layers](dtype))
    model.compile(optimizer=optimizer, loss="mse")
    model.optimizer.build(model.trainable_variables)
    random = np.random.default_rng(seed)
    for each in variables_of(model):
        each.assign(random.standard_normal(each.shape).astype(np.float32))
    return model


def variables_of(model):
    """Those whose elements are floats."""
    return [each for each in (*model.weights, *model.optimizer.variables) if "float" in str(each.dtype)]


def models(dtypes=DTYPES):
    """Models of all kinds, each with some optimizer."""
    for dtype in dtypes:
        yield from (("dense", dtype, optimizer) for optimizer in ("adam", "sgd", "lion"))
        yield from (("convolutions", dtype, optimizer) for optimizer in ("adam", "sgd"))
        if dtype != "bfloat16":  # of which a recurrent layer cannot make its first weights
            yield "recurrent", dtype, "adam"
    for optimizer in ("rmsprop", "adagrad", "nadam", "ftrl", "adamw", "adadelta", "adamax"):
        yield "dense", "float32", optimizer


def save_sharded(model, path):
    """In as many files as Keras can cut it into; how many they are."""
    total = sum(each.numpy().nbytes for each in (*model.weights, *model.optimizer.variables))
    for part in (0.2, 0.4, 0.6, 0.8, 1.0):
        try:
            model.save_weights(path, overwrite=True, max_shard_size=part * total / 1024**3)
        except ValueError:  # one layer, or the optimizer, has more
            continue
        break
    return len(list(path.parent.glob(f"{path.name.split('.')[0]}*.h5")))


class Keras(support.InDirectory):
    def assert_model(self, path, model, format_name):
        """Every variable of the model, and of its optimizer, is a tensor, bit for bit."""
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.format, format_name)
            found = sorted(
                (each.dtype, each.shape, bytes(checkpoint[each.name].read().buffer))
                for each in checkpoint.entries()
                if each.kind == "tensor" and "@" not in each.name and each.dtype[0] in "FB"
            )
            kept = [np.asarray(each.numpy()) for each in variables_of(model)]
            self.assertEqual(found, sorted((NAMES[each.dtype.name], each.shape, bits(each)) for each in kept))
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1

    def assert_datasets(self, path, file):
        """Every dataset that h5py reads in it is there by its name."""
        datasets = {}
        file.visititems(lambda name, what: datasets.update({name: what}) if isinstance(what, h5py.Dataset) else None)
        with pawl.open(path) as checkpoint:
            for name, dataset in datasets.items():
                array = np.asarray(dataset[()])
                if dataset.attrs.get("dtype") == "bfloat16":
                    array = array.view(ml_dtypes.bfloat16)
                self.assert_tensor(checkpoint, name, array)
            tensors = {each.name for each in checkpoint.entries() if each.kind == "tensor" and "@" not in each.name}
            self.assertEqual(tensors, set(datasets))

    def test_all_formats(self):
        several = 0
        for i, (layers, dtype, optimizer) in enumerate(models()):
            with self.subTest(layers=layers, dtype=dtype, optimizer=optimizer):
                model = model_of(layers, dtype, optimizer, i)
                self.assert_weights(model, self.directory / f"m{i}.weights.h5")
                self.assert_archive(model, self.directory / f"m{i}.keras")
                several += save_sharded(model, self.directory / f"s{i}.weights.json") > 1
                self.assert_model(self.directory / f"s{i}.weights.json", model, "Keras, sharded")
                if dtype != "bfloat16":
                    self.assert_legacy(model, self.directory / f"m{i}.h5")
        self.assertGreaterEqual(several, 20)
        self.enough(4 * 30 - 5)

    def assert_weights(self, model, path):
        model.save_weights(path)
        self.assert_model(path, model, "HDF5")
        with h5py.File(path) as file:
            self.assert_datasets(path, file)

    def assert_archive(self, model, path):
        model.save(path)
        self.assert_model(path, model, "Keras")
        with zipfile.ZipFile(path) as archive, h5py.File(archive.open("model.weights.h5")) as file:
            self.assert_datasets(path, file)
            config = json.loads(archive.read("config.json"))
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint["config.json"], config)
            self.assertEqual(checkpoint["metadata.json"]["keras_version"], keras.__version__)

    def assert_legacy(self, model, path):
        model.save(path)
        self.assert_model(path, model, "HDF5")
        with h5py.File(path) as file:
            self.assert_datasets(path, file)
        with pawl.open(path) as checkpoint:
            self.assertEqual(json.loads(checkpoint["@model_config"])["class_name"], "Sequential")


if __name__ == "__main__":
    support.main()
