# SPDX-License-Identifier: Apache-2.0
"""Tensor bundles: TensorFlow writes and pawl reads, pawl writes and TensorFlow reads."""

import itertools

import keras
import numpy as np
import support
import tensorflow as tf
from support import NAMES, SHAPES, bits, made
from tensorflow_names import ATTRIBUTES, GRAPH, VALUE, name_of, names_of_graph

import pawl

#: Those of pawl's types that TensorFlow has.
TYPES = [name for name in NAMES if hasattr(tf, name) or hasattr(tf.dtypes.experimental, name)]
#: Others: what TensorFlow calls them, and what pawl does.
UNREAD = [("int4", "INT4"), ("uint4", "UINT4")]
#: Where a tensor is cut: lengths of its parts in the dimension.
CUTS = [(0, (1, 5)), (0, (2, 2, 2)), (1, (4, 1)), (1, (1, 1, 1, 1, 1)), (2, (2, 2))]


def save(prefix, tensors):
    """One file of data that has these, named by their keys."""
    keys = list(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=keys, shape_and_slices=[""] * len(keys), tensors=tensors.values()
    )


def slices(array, dimension, lengths):
    """The parts that an array is cut into, and how TensorFlow writes down where each lies."""
    begin = 0
    for length in lengths:
        index = (slice(None),) * dimension + (slice(begin, begin + length),)
        places = ["-"] * array.ndim
        places[dimension] = f"{begin},{length}"
        yield f"{' '.join(map(str, array.shape))} {':'.join(places)}", array[index]
        begin += length


class WithTensorFlow(support.InDirectory):
    def assert_checkpoint(self, prefix):
        """Every key that TensorFlow reads, pawl reads alike."""
        reader = tf.train.load_checkpoint(str(prefix))
        keys = reader.get_variable_to_dtype_map()
        graph = names_of_graph(reader.get_tensor(GRAPH)) if GRAPH in keys else {}
        with pawl.open(prefix) as checkpoint:
            self.assertEqual(checkpoint.format, "TensorFlow")
            for key, dtype in keys.items():
                found = reader.get_tensor(key)
                if dtype == tf.string:
                    self.assert_texts(checkpoint, name_of(key, graph), found)
                else:
                    self.assert_tensor(checkpoint, name_of(key, graph), found)
            self.assertEqual(sorted(checkpoint), sorted(name_of(key, graph) for key in keys))
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1
        return keys

    def assert_texts(self, checkpoint, name, texts):
        found = checkpoint[name]
        if checkpoint.entry(name).kind == "tensor":
            self.assertEqual((found.dtype, found.shape), ("STRING", np.shape(texts)))
            return
        values = [found] if not np.shape(texts) else np.asarray(found, object).ravel().tolist()
        values = [each if isinstance(each, bytes) else each.encode() for each in values]
        self.assertEqual(values, np.asarray(texts, object).ravel().tolist(), name)


class Bundles(WithTensorFlow):
    def test_every_type_and_shape(self):
        for dtype, (i, shape) in itertools.product((*TYPES, "complex128"), enumerate(SHAPES)):
            with self.subTest(dtype=dtype, shape=shape):
                prefix = self.directory / f"a{self.files}"
                save(prefix, {"w": tf.constant(made(dtype, shape, i))})
                self.assert_checkpoint(prefix)
        self.enough(len(TYPES) * 8)

    def test_many_keys_of_all_types(self):
        for count in (1, 10, 1000):
            tensors = {
                f"scope/{'n' * (i % 90)}/{i}:{dtype}%/x": tf.constant(made(dtype, SHAPES[i % len(SHAPES)], i))
                for i, dtype in zip(range(count), itertools.cycle((*TYPES, "complex128")), strict=False)
            }
            save(self.directory / f"k{count}", tensors)
            self.assertEqual(len(self.assert_checkpoint(self.directory / f"k{count}")), count)

    def test_other_types_are_named_and_refused(self):
        for (dtype, name), shape in itertools.product(UNREAD, [(), (4,), (0,), (2, 3)]):
            with self.subTest(dtype=dtype, shape=shape):
                prefix = self.directory / f"u{self.files}"
                save(prefix, {"w": tf.cast(tf.zeros(shape, tf.int32), dtype), "b": tf.ones(2)})
                with pawl.open(prefix) as checkpoint:
                    self.assert_unread(checkpoint, "w", name, shape)
                    self.assert_tensor(checkpoint, "b", np.ones(2, np.float32))
                self.files += 1

    def test_complex128_in_a_state(self):
        array, empty = made("complex128", (3, 5)), np.zeros((0, 2), np.complex128)
        save(self.directory / "c", {"w": tf.constant(array), "e": tf.constant(empty)})
        restored = np.zeros_like(array)
        with pawl.open(self.directory / "c") as checkpoint:
            checkpoint.restore(pawl.State({"w": restored, "e": empty}))
        self.assertEqual(restored.tobytes(), array.tobytes())

    def test_texts(self):
        cases = [b"", b"text", "\u00e4".encode(), b"\xff\0", b"x" * (1 << 20), b"y" * ((1 << 20) + 1)]
        arrays = [np.asarray(each, object) for each in cases]
        arrays += [
            np.asarray(each, object) for each in ([], [b""], [b"a", b"", b"ccc"], [[b"a", b"b"], [b"c", b"d" * 300]])
        ]
        for array in arrays:
            prefix = self.directory / f"t{self.files}"
            save(prefix, {"text": tf.constant(array, tf.string), "w": tf.ones(2)})
            self.assert_checkpoint(prefix)

    def test_slices_in_many_files(self):
        for dtype, (dimension, lengths), apart in itertools.product(
            ("float32", "bfloat16", "bool", "complex64", "complex128"), CUTS, (False, True)
        ):
            array = made(dtype, (6, 5, 4), self.files)
            parts = list(slices(array, dimension, lengths))
            groups = [[part] for part in parts] if apart else [parts]
            prefix, temporary = self.directory / f"s{self.files}", []
            for i, group in enumerate(groups):
                temporary.append(f"{prefix}_temp_{i}")
                tf.raw_ops.SaveV2(
                    prefix=temporary[-1],
                    tensor_names=["w"] * len(group) + [f"b{i}"],
                    shape_and_slices=[where for where, _ in group] + [""],
                    tensors=[tf.constant(part) for _, part in group] + [tf.constant(i)],
                )
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=temporary, destination_prefix=str(prefix), delete_old_dirs=False
            )
            with self.subTest(dtype=dtype, dimension=dimension, lengths=lengths, apart=apart):
                self.assert_checkpoint(prefix)
                with pawl.open(prefix) as checkpoint:
                    self.assert_tensor(checkpoint, "w", array)
                    self.assertEqual(checkpoint.entry("w").pieces, len(lengths))
                    self.assertEqual(bytes(checkpoint["w"][1:4, 2].buffer), array[1:4, 2].tobytes())
        self.enough()


class Graphs(WithTensorFlow):
    """What was saved by names, as before TensorFlow 2."""

    def test_saver(self):
        for i, (sharded, partitions) in enumerate(itertools.product((False, True), (1, 2, 3, 7))):
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                partitioner = tf.compat.v1.fixed_size_partitioner(partitions) if partitions > 1 else None
                with tf.compat.v1.variable_scope("net", partitioner=partitioner):
                    for j, dtype in enumerate(("float32", "float64", "int32", "bfloat16", "bool")):
                        tf.compat.v1.get_variable(f"v{j}", (14, 3), tf.as_dtype(dtype), tf.zeros_initializer())
                tf.compat.v1.train.get_or_create_global_step()
                optimizer = tf.compat.v1.train.AdamOptimizer()
                kept = tf.compat.v1.get_variable("kept", initializer=tf.constant(made("float32", (5,)) * 0 + 2))
                train = optimizer.minimize(tf.reduce_sum(kept * kept))
                session.run(tf.compat.v1.global_variables_initializer())
                for each in tf.compat.v1.global_variables():
                    if each.dtype.base_dtype.name in NAMES:
                        each.load(made(each.dtype.base_dtype.name, tuple(each.shape), i), session)
                session.run(train)
                saver = tf.compat.v1.train.Saver(sharded=sharded)
                prefix = saver.save(session, str(self.directory / f"model{i}"), global_step=i)
            keys = self.assert_checkpoint(prefix)
            self.assertIn("net/v0", keys)
            self.assertIn("kept/Adam_1", keys)

    def test_files_of_several_devices(self):
        with tf.Graph().as_default():
            config = tf.compat.v1.ConfigProto(device_count={"CPU": 4})
            with tf.compat.v1.Session(config=config) as session:
                for i in range(12):
                    with tf.device(f"/cpu:{i % 4}"):
                        tf.compat.v1.get_variable(f"v{i}", initializer=tf.constant(made("int64", (i, 2), i)))
                session.run(tf.compat.v1.global_variables_initializer())
                prefix = tf.compat.v1.train.Saver(sharded=True).save(session, str(self.directory / "m"))
        self.assertEqual(len(list(self.directory.glob("m.data-*-of-00004"))), 4)
        self.assert_checkpoint(prefix)


class Objects(WithTensorFlow):
    """What was saved by the objects that it belongs to."""

    def test_variables_of_every_type(self):
        for dtype, shape in itertools.product(TYPES, [(), (3, 5)]):
            if dtype.endswith("fnuz"):  # it has no variables of them
                continue
            variable = tf.Variable(made(dtype, shape))
            prefix = tf.train.Checkpoint(v=variable, d={"a.b": tf.Variable(1.0)}, list=[tf.Variable(2)]).write(
                str(self.directory / f"o{self.files}")
            )
            keys = self.assert_checkpoint(prefix)
            self.assertIn("v/.ATTRIBUTES/VARIABLE_VALUE", keys)
        self.enough(2 * (len(TYPES) - 2))

    def test_slots(self):
        optimizers = [
            tf.compat.v1.train.AdamOptimizer(0.1),
            tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
            tf.compat.v1.train.RMSPropOptimizer(0.1, momentum=0.1),
            tf.compat.v1.train.AdagradOptimizer(0.1),
            tf.compat.v1.train.FtrlOptimizer(0.1),
            tf.compat.v1.train.AdadeltaOptimizer(0.1),
        ]
        for optimizer in optimizers:
            w, b = tf.Variable(made("float32", (4, 3)) * 0 + 1), tf.Variable([1.0, 2.0, 3.0])
            optimizer.apply_gradients([(tf.ones((4, 3)), w), (tf.ones(3), b)])
            root = tf.train.Checkpoint(model=tf.train.Checkpoint(w=w, b=b), optimizer=optimizer)
            prefix = root.save(str(self.directory / type(optimizer).__name__))
            self.assert_checkpoint(prefix)
            with pawl.open(prefix) as checkpoint:
                slots = [each for each in checkpoint.entries() if each.role == "slot"]
                self.assertEqual(len(slots), 2 * len(optimizer.get_slot_names()))
                for each in slots:
                    self.assertEqual(each.name, f"optimizer/{each.slot_of}/{each.slot}")
                    self.assert_tensor(
                        checkpoint, each.name, optimizer.get_slot(w if each.slot_of.endswith("w") else b, each.slot)
                    )

    def test_files_of_a_greatest_size(self):
        for dtype, size in itertools.product(("float32", "bfloat16", "uint8"), (100, 500, 2000)):
            policy = tf.train.experimental.MaxShardSizePolicy(max_shard_size=size)
            root = tf.train.Checkpoint(
                **{f"v{i}": tf.Variable(made(dtype, (10 * i, 3), i)) for i in range(1, 9)}, b=tf.Variable(1.0)
            )
            prefix = root.write(
                str(self.directory / f"m{self.files}"),
                options=tf.train.CheckpointOptions(experimental_sharding_callback=policy),
            )
            self.assert_checkpoint(prefix)
            with pawl.open(prefix) as checkpoint:
                for i in range(1, 9):
                    self.assert_tensor(checkpoint, f"v{i}", made(dtype, (10 * i, 3), i))

    def test_keras_models(self):
        optimizers = ["sgd", "adam", "adamw", "rmsprop", "adagrad", "nadam", "lion", "ftrl", "adadelta", "adamax"]
        for name, fitted in itertools.product(optimizers, (False, True)):
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="a"), keras.layers.Dropout(0.5)])
            model.compile(optimizer=name, loss="mse")
            if fitted:
                model.train_on_batch(np.ones((2, 4), np.float32), np.ones((2, 3), np.float32))
            prefix = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(self.directory / name))
            self.assert_checkpoint(prefix)

    def test_manager_and_what_it_names_last(self):
        root = tf.train.Checkpoint(step=tf.Variable(0, dtype=tf.int64), w=tf.Variable(tf.zeros((3, 2))))
        manager = tf.train.CheckpointManager(root, str(self.directory), max_to_keep=3)
        for _ in range(5):
            root.step.assign_add(1)
            self.assert_checkpoint(manager.save())
            with pawl.open(self.directory) as checkpoint:
                self.assert_tensor(checkpoint, "step", root.step)

    def test_saved_model(self):
        for dtype in ("float32", "bfloat16", "int8"):
            module = tf.Module()
            module.w = tf.Variable(made(dtype, (3, 4)), name="w")
            module.inner = tf.Module()
            module.inner.list = [tf.Variable(float(i)) for i in range(3)]
            module.call = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec((None,), tf.float32)])
            path = self.directory / f"saved-{dtype}"
            tf.saved_model.save(module, str(path))
            self.assert_checkpoint(path / "variables" / "variables")
            with pawl.open(path) as checkpoint:
                self.assert_tensor(checkpoint, "w", module.w)


class Written(support.InDirectory):
    """What pawl writes, TensorFlow reads."""

    def arrays(self, i, shape):
        return {f"net.{i}/{dtype}": made(dtype, shape, i) for dtype in TYPES}

    def test_load_checkpoint(self):
        for i, shape in enumerate(SHAPES):
            arrays = self.arrays(i, shape)
            prefix = self.directory / f"ckpt{i}"
            run = self.run_of(arrays, {"step": i, "lr": 0.5, "name": "text", "flag": True}, f"run{i}")
            pawl.convert(run, prefix, to="tensorflow")
            reader = tf.train.load_checkpoint(str(prefix))
            self.assertEqual(
                sorted(reader.get_variable_to_shape_map()), sorted([*arrays, "step", "lr", "name", "flag"])
            )
            for name, array in arrays.items():
                found = reader.get_tensor(name)
                self.assertEqual((found.dtype, found.shape, bits(found)), (array.dtype, shape, bits(array)), name)
            self.assertEqual(reader.get_tensor("step"), i)
            self.assertEqual(reader.get_tensor("lr"), 0.5)
            self.assertEqual(reader.get_tensor("name"), b"text")
            self.assertIs(bool(reader.get_tensor("flag")), True)

    def test_restored_by_name(self):
        for i, shape in enumerate(SHAPES):
            arrays = self.arrays(i, shape)
            prefix = self.directory / f"ckpt{i}"
            pawl.convert(self.run_of(arrays, name=f"run{i}"), prefix, to="tensorflow")
            found = tf.raw_ops.RestoreV2(
                prefix=str(prefix),
                tensor_names=list(arrays),
                shape_and_slices=[""] * len(arrays),
                dtypes=[tf.as_dtype(array.dtype) for array in arrays.values()],
            )
            for tensor, (name, array) in zip(found, arrays.items(), strict=True):
                self.assertEqual(bits(tensor), bits(array), name)

    def test_restored_by_a_saver(self):
        arrays = {f"net/{dtype}": made(dtype, (3, 5)) for dtype in ("float32", "float64", "int32", "int64", "bfloat16")}
        pawl.convert(self.run_of(arrays), self.directory / "ckpt", to="tensorflow")
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = {
                name: tf.compat.v1.get_variable(name, array.shape, tf.as_dtype(array.dtype))
                for name, array in arrays.items()
            }
            tf.compat.v1.train.Saver().restore(session, str(self.directory / "ckpt"))
            for name, variable in variables.items():
                self.assertEqual(bits(session.run(variable)), bits(arrays[name]), name)

    def test_restored_by_variables_of_these_names(self):
        arrays = {name: made("float32", (3, 5), i) for i, name in enumerate(("net/w", "net/b", "top"))}
        pawl.convert(self.run_of(arrays), self.directory / "ckpt", to="tensorflow")
        variables = [tf.Variable(tf.zeros((3, 5)), name=name) for name in arrays]
        status = tf.train.Checkpoint(all=variables).restore(str(self.directory / "ckpt"))
        status.assert_existing_objects_matched()
        for variable, (name, array) in zip(variables, arrays.items(), strict=True):
            self.assertEqual(bits(variable), bits(array), name)

    def test_slices_of_it(self):
        array = made("float32", (6, 5, 4))
        pawl.convert(self.run_of({"w": array}), self.directory / "ckpt", to="tensorflow")
        for dimension, lengths in CUTS:
            for where, part in slices(array, dimension, lengths):
                found = tf.raw_ops.RestoreV2(
                    prefix=str(self.directory / "ckpt"),
                    tensor_names=["w"],
                    shape_and_slices=[where],
                    dtypes=[tf.float32],
                )
                self.assertEqual(bits(found[0]), bits(part))

    def test_of_an_object_based_checkpoint(self):
        """It is written with its objects, or, under other names, without."""
        root = tf.train.Checkpoint(w=tf.Variable(made("float32", (3, 2))), n=tf.Variable(7))
        prefix = root.write(str(self.directory / "objects"))
        pawl.convert(prefix, self.directory / "again", to="tensorflow")
        pawl.convert(prefix, self.directory / "names", to="tensorflow", rename={"w": "v"}, drop=True)
        again = tf.train.load_checkpoint(str(self.directory / "again"))
        names = tf.train.load_checkpoint(str(self.directory / "names"))
        self.assertEqual(bits(again.get_tensor(f"w{ATTRIBUTES}{VALUE}")), bits(root.w))
        self.assertEqual(bits(names.get_tensor("v")), bits(root.w))
        self.assertEqual(names.get_tensor("n"), 7)


if __name__ == "__main__":
    support.main()
