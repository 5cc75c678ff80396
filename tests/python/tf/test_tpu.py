# SPDX-License-Identifier: Apache-2.0
"""What a TPUStrategy has beyond other strategies, with its own variables, on devices of the processor.

TensorFlow's TPUStrategy makes the variables as it does on TPUs, and places them on four logical devices of the
processor; what computes on TPUs there is none of. Tables of embeddings are made so, too; retrieving them from TPUs is
seen to be asked for, which no processor can do.
"""

import os
import subprocess
import sys

import support
from support import PACKAGE, InDirectory, np, tf

import jobs
import keras
import pawl
import pawl.keras
import pawl.tf
from pawl.tf._group import group_of
from tensorflow.core.protobuf.tpu import topology_pb2
from tensorflow.python.distribute import tpu_strategy
from tensorflow.python.eager import context
from tensorflow.python.tpu import device_assignment as assignments
from tensorflow.python.tpu import tpu_embedding_v3
from tensorflow.python.tpu.topology import Topology
from tensorflow.python.tpu.tpu_system_metadata import TPUSystemMetadata

TPUS = 4
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(TPUS)]
ON_READ = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
EMBEDDING = tf.tpu.experimental.embedding

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * TPUS
)


class Resolver(tf.distribute.cluster_resolver.SimpleClusterResolver):
    """Says of one host with four TPUs, which have SparseCores, what a resolver finds out there."""

    tpu_hardware_feature = topology_pb2.TPUHardwareFeature(embedding_feature=2, num_embedding_devices_per_chip=2)

    def __init__(self):
        super().__init__(tf.train.ClusterSpec({}))

    def get_tpu_system_metadata(self):
        names = [device.replace("CPU", "TPU") for device in DEVICES]
        devices = [context.LogicalDevice(name=name, device_type="TPU") for name in names]
        return TPUSystemMetadata(TPUS, num_hosts=1, num_of_cores_per_host=TPUS, topology=None, devices=devices)


def strategy_of(cores=1):
    """A TPUStrategy whose variables are on the processor; with several logical cores per replica XLA divides them."""
    assignment = None
    if cores > 1:
        coordinates = np.array([[[i // cores, 0, 0, i % cores] for i in range(TPUS)]])
        topology = Topology(mesh_shape=[TPUS // cores, 1, 1, cores], device_coordinates=coordinates)
        assignment = assignments.device_assignment(topology, [1, 1, 1, cores], num_replicas=TPUS // cores)
    strategy = tf.distribute.TPUStrategy(Resolver(), assignment, experimental_spmd_xla_partitioning=cores > 1)
    extended = strategy.extended
    extended._tpu_devices = np.array(DEVICES, dtype=object).reshape(extended._tpu_devices.shape)
    return strategy


def some(seed=1, shape=(3, 4)):
    return np.random.default_rng(seed).random(shape, "f4")


def on_cores(replica):
    """The variables on all logical cores of a replica."""
    return list(getattr(replica, "variables", [replica]))


def fill(*objects, seed=5):
    """Gives all variables values, the same on each replica."""
    numbers = np.random.default_rng(seed)
    for one in objects:
        for variable in one.variables:
            variable.assign(numbers.random(variable.shape).astype(variable.dtype))


class Variables(InDirectory):
    def made(self, strategy):
        with strategy.scope():
            model = jobs.dense()
            model.optimizer.build(model.trainable_variables)
            read = tf.Variable(0.0, trainable=False, **ON_READ)
        return pawl.tf.Checkpoint(model=model, optimizer=model.optimizer, read=read)

    def test_each_is_saved_once_and_comes_back_on_all_replicas_and_cores(self):
        for cores, kind in ((1, "TPUDistributedVariable"), (2, "TPUMirroredVariable")):
            with self.subTest(cores=cores):
                path = self.directory / f"cores-{cores}"
                strategy = strategy_of(cores)
                one, other = self.made(strategy), self.made(strategy)
                kernel = one.model.layers[0].kernel
                self.assertEqual(type(kernel.value).__name__, kind)
                self.assertEqual([len(on_cores(replica)) for replica in kernel.value.values], [cores] * (4 // cores))
                fill(one.model, one.optimizer)
                one.save(path)
                with pawl.open(path) as saved:
                    self.assertEqual(saved["model/dense/kernel"].shape, (4, 3))
                    self.assertEqual(saved.entry("model/dense/kernel").pieces, 1)
                other.restore(path).assert_consumed()
                for old, new in zip(
                    [*one.model.variables, *one.optimizer.variables],
                    [*other.model.variables, *other.optimizer.variables],
                    strict=True,
                ):
                    expected = np.array(on_cores(old.value.values[0])[0].numpy())
                    for replica in new.value.values:
                        for variable in on_cores(replica):
                            self.assert_bits(variable.numpy(), expected)

    def test_what_was_made_outside_of_the_scope_is_found_j04(self):
        for cores in (1, 2):
            with self.subTest(cores=cores):
                strategy = strategy_of(cores)
                checkpoint = self.made(strategy)
                pawl.tf.check_scope(strategy, model=checkpoint.model)
                with self.assertRaisesRegex(pawl.Mismatch, "1 variable was made outside .* TPUStrategyV2: left"):
                    pawl.tf.check_scope(strategy, model=checkpoint.model, variables=[tf.Variable(1.0, name="left")])

    def test_a_job_on_tpus_goes_on_as_one_process_and_back(self):
        one = self.made(strategy_of(2))
        fill(one.model, one.optimizer)
        one.save(self.run_path)
        alone = jobs.dense()
        checkpoint = pawl.tf.Checkpoint(model=alone, optimizer=alone.optimizer, read=tf.Variable(0.0))
        checkpoint.restore(self.run_path).assert_consumed()
        for old, new in zip(jobs.values(one.model), jobs.values(alone), strict=True):
            self.assert_bits(new, old)
        checkpoint.save(self.directory / "back")
        back = self.made(strategy_of(1))
        back.restore(self.directory / "back").assert_consumed()
        for old, new in zip(jobs.values(alone), jobs.values(back.model), strict=True):
            self.assert_bits(new, old)

    def test_what_each_replica_has_of_its_own_comes_back_on_each(self):
        for cores in (1, 2):
            with self.subTest(cores=cores):
                path = self.directory / f"cores-{cores}"
                strategy = strategy_of(cores)
                one, other = self.made(strategy), self.made(strategy)
                numbers = [float(number + 1) for number in range(TPUS // cores)]
                for number, replica in zip(numbers, one.read.values, strict=True):
                    replica.assign(number)
                prefix = tf.train.Checkpoint(read=one.read).save(str(path) + "-tf")
                self.assertEqual(tf.train.load_variable(prefix, "read/.ATTRIBUTES/VARIABLE_VALUE"), sum(numbers))
                one.save(path)
                with pawl.open(path) as saved:
                    self.assertEqual(np.asarray(saved["read"]).item(), sum(numbers))
                other.restore(path).assert_consumed()
                for number, replica in zip(numbers, other.read.values, strict=True):
                    self.assertEqual([variable.numpy() for variable in on_cores(replica)], [number] * cores)

    def test_a_held_value_stays_when_the_variable_on_the_cores_is_updated(self):
        for cores in (1, 2):
            with self.subTest(cores=cores):
                with strategy_of(cores).scope():
                    variable = tf.Variable(some())
                state = pawl.tf.Checkpoint(variable=variable).state()
                variable.assign_add(tf.ones((3, 4)))
                self.assert_bits(state["variable"], some())

    def test_a_function_that_has_the_packed_variable_reads_what_was_restored(self):
        strategy = strategy_of()
        with strategy.scope():
            one, other = tf.Variable(some()), tf.Variable(tf.zeros((3, 4)))
        self.assertEqual(type(other._packed_variable).__name__, "PackedDistributedVariable")
        read = tf.function(lambda: [other._packed_variable.on_device(device).read_value() for device in DEVICES])
        for value in read():
            self.assertFalse(value.numpy().any())
        pawl.tf.Checkpoint(variable=one).save(self.run_path)
        pawl.tf.Checkpoint(variable=other).restore(self.run_path)
        for value in read():
            self.assert_bits(value, some())

    def test_variables_that_are_initialised_late_are_so_before_they_are_saved(self):
        for cores in (1, 2):
            with self.subTest(cores=cores):
                path = self.directory / f"cores-{cores}"
                self.addCleanup(setattr, tpu_strategy, "_EXPERIMENTAL_TPU_BATCH_VARIABLE_INITIALIZATION", False)
                tpu_strategy._EXPERIMENTAL_TPU_BATCH_VARIABLE_INITIALIZATION = True
                strategy = strategy_of(cores)
                with strategy.scope():
                    one = tf.Variable(some(), name="one")
                    read = tf.Variable(2.0, name="read", trainable=False, **ON_READ)
                    first = on_cores(one.values[0])[0]
                    self.assertEqual(type(first).__name__, "TPUUninitializedVariable")
                    self.assertFalse(first.is_initialized())
                    pawl.tf.Checkpoint(one=one, read=read).save(path)
                    with pawl.open(path) as saved:
                        self.assert_bits(saved["one"], some())
                        self.assertEqual(np.asarray(saved["read"]).item(), 2.0 * TPUS / cores)
                    other = tf.Variable(tf.zeros((3, 4)), name="other")
                    again = tf.Variable(0.0, name="again", trainable=False, **ON_READ)
                    pawl.tf.Checkpoint(one=other, read=again).restore(path).assert_consumed()
                for replica in other.values:
                    for variable in on_cores(replica):
                        self.assert_bits(variable.numpy(), some())
                tpu_strategy._EXPERIMENTAL_TPU_BATCH_VARIABLE_INITIALIZATION = False


def tables(rows=16, seed=1):
    initializer = tf.initializers.RandomUniform(seed=seed)
    found = [EMBEDDING.TableConfig(count, 4, initializer, name=name) for name, count in (("user", 8), ("video", rows))]
    return {table.name: EMBEDDING.FeatureConfig(table=table, output_shape=[8]) for table in found}


def embedding_of(strategy=None, hosts=2, **more):
    """An embedding; of TPUs, the tables of which are in parts on several hosts, as build() makes them there."""
    optimizer = EMBEDDING.Adagrad(0.1, low_dimensional_packing_status=0)
    if strategy is None:
        embedding = EMBEDDING.TPUEmbedding(tables(**more), optimizer)
        embedding.build()
        return embedding
    with strategy.scope():
        embedding = EMBEDDING.TPUEmbedding(tables(**more), optimizer)
        embedding._hosts = DEVICES[:hosts]
        embedding._variables = embedding._create_variables_and_slots()
    return embedding


def whole(table):
    return np.concatenate([part.numpy() for part in getattr(table, "variables", [table])])


class Tables(InDirectory):
    def test_parts_on_hosts_are_boxes_of_one_table_and_come_back_on_any_number_of_hosts(self):
        strategy = strategy_of()
        one = embedding_of(strategy)
        self.assertEqual(type(one._variables["video"]["parameters"]).__name__, "TPUEmbeddingVariable")
        pawl.tf.Checkpoint(embedding=one).save(self.run_path)
        prefix = tf.train.Checkpoint(embedding=one).save(self.directory / "tf")
        with pawl.open(self.run_path) as saved:
            self.assertEqual(len(saved), 4)
            self.assertEqual((saved["embedding/video"].shape, saved.entry("embedding/video").pieces), ((16, 4), 2))
        for other in (embedding_of(strategy, seed=2), embedding_of(strategy, 4, seed=3), embedding_of(seed=4)):
            for path in (self.run_path, prefix):
                pawl.tf.Checkpoint(embedding=other).restore(path).assert_consumed()
                for name, slots in one._variables.items():
                    for slot, table in slots.items():
                        self.assert_bits(whole(other._variables[name][slot]), whole(table))

    def test_what_is_on_tpus_is_retrieved_before_a_save_and_loaded_after_a_restore(self):
        strategy = strategy_of()
        one = embedding_of(strategy)
        checkpoint = pawl.tf.Checkpoint(embedding=one)
        checkpoint.save(self.run_path)
        one._config_proto = one._create_config_proto()
        one._built = True  # from here on the tables are on the TPUs, of which there are none
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "RetrieveTPUEmbedding"):
            tf.train.Checkpoint(embedding=one).save(self.directory / "tf")
        with self.assertRaisesRegex(pawl.Unsupported, "retrieved from the TPUs: .*RetrieveTPUEmbedding") as raised:
            checkpoint.save(self.directory / "other")
        self.assertEqual(raised.exception.entry, "embedding")
        with self.assertRaises(pawl.NotFound):
            pawl.ls(self.directory / "other")
        with self.assertRaisesRegex(pawl.Unsupported, "retrieved from the TPUs"):
            checkpoint.restore(self.run_path, missing="allow")
        with self.assertRaisesRegex(pawl.Unsupported, "loaded onto the TPUs: .*LoadTPUEmbedding"):
            checkpoint.restore(self.run_path)

    def test_one_that_is_not_built_is_refused_by_its_name(self):
        optimizer = EMBEDDING.SGD(0.1)
        embedding = EMBEDDING.TPUEmbedding(tables(), optimizer)
        with self.assertRaisesRegex(pawl.UsageError, "embedding: the TPUEmbedding is not built"):
            pawl.tf.Checkpoint(embedding=embedding).save(self.run_path)

    def test_a_table_of_other_rows_is_refused(self):
        strategy = strategy_of()
        pawl.tf.Checkpoint(embedding=embedding_of(strategy)).save(self.run_path)
        other = embedding_of(strategy, rows=20)
        before = whole(other._variables["user"]["parameters"])
        with self.assertRaisesRegex(pawl.Mismatch, r"embedding/video.*\[16, 4\].*\[20, 4\]"):
            pawl.tf.Checkpoint(embedding=other).restore(self.run_path)
        self.assert_bits(whole(other._variables["user"]["parameters"]), before)

    def test_keras_alone_does_not_save_a_model_with_tables(self):
        model = jobs.dense()
        model.layers[0].tables = embedding_of()
        with pawl.keras.Checkpoint(self.run_path, every=1) as checkpoint:
            with self.assertRaisesRegex(pawl.Unsupported, "tables is a TPUEmbedding") as raised:
                model.fit(*jobs.data(model), verbose=0, callbacks=[checkpoint])
        self.assertIn("pawl.tf", raised.exception.next)
        pawl.tf.Checkpoint(model=model).save(self.directory / "tf")
        with pawl.open(self.directory / "tf") as saved:
            self.assertEqual([saved[name].shape for name in saved if name.endswith("/video")], [(16, 4)])


class SparseCores(InDirectory):
    def embedding(self, **more):
        strategy = strategy_of()
        with strategy.scope():
            optimizer = EMBEDDING.Adagrad(0.1, low_dimensional_packing_status=0)
            embedding = tpu_embedding_v3.TPUEmbeddingV2(tables(**more), optimizer)
            embedding.build()
        return embedding

    def test_parts_on_tpus_are_boxes_of_one_table(self):
        one, other = self.embedding(), self.embedding(seed=2)
        (stacked,) = one._variables
        table, restored = one._variables[stacked]["parameters"], other._variables[stacked]["parameters"]
        self.assertEqual(type(table).__name__, "TPUEmbeddingShardedVariable")
        pawl.tf.Checkpoint(embedding=one).save(self.run_path)
        prefix = tf.train.Checkpoint(embedding=one).save(self.directory / "tf")
        with pawl.open(self.run_path) as saved:
            name = f"embedding/{stacked}"
            self.assertEqual((saved[name].shape, saved.entry(name).pieces), (tuple(table.shape), TPUS))
            self.assertFalse([entry for entry in saved if entry.startswith("replicas/")])
        for path in (self.run_path, prefix):
            for part in restored.values:
                part.assign(tf.zeros(part.shape))
            pawl.tf.Checkpoint(embedding=other).restore(path).assert_consumed()
            for part, expected in zip(restored.values, table.values, strict=True):
                self.assert_bits(part.numpy(), expected.numpy())

    def test_tables_whose_rows_are_in_other_places_are_refused(self):
        def same_shape(order):
            found = tables()
            for name, offset in zip(("user", "video"), order, strict=True):
                layout = layouts[name]
                layout.sparse_core_shard_row_offset = offset
                layout.sparse_core_shard_rotation = 0
                found[name].table.layout = layout
            strategy = strategy_of()
            with strategy.scope():
                optimizer = EMBEDDING.Adagrad(0.1, low_dimensional_packing_status=0)
                embedding = tpu_embedding_v3.TPUEmbeddingV2(found, optimizer)
                embedding.build()
            return embedding

        layouts = {name: type(layout).FromString(layout.SerializeToString()) for name, layout in self.layouts().items()}
        one, other = same_shape((0, 8)), same_shape((8, 0))
        (stacked,) = one._variables
        before = [part.numpy() for part in other._variables[stacked]["parameters"].values]
        pawl.tf.Checkpoint(embedding=one).save(self.run_path)
        for path in (self.run_path, tf.train.Checkpoint(embedding=one).save(self.directory / "tf")):
            with self.assertRaisesRegex(pawl.Mismatch, "other SparseCores, or stacked in another way"):
                pawl.tf.Checkpoint(embedding=other).restore(path)
            for part, expected in zip(other._variables[stacked]["parameters"].values, before, strict=True):
                self.assert_bits(part.numpy(), expected)

    def layouts(self):
        return self.embedding().embedding_layouts


#: What the hosts of a TPU are told on Google's Kubernetes.
HOSTS = {
    "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS": "grpc://10.0.0.1:8470,grpc://10.0.0.2:8470",
    "TPU_WORKER_ID": "1",
    "TPU_WORKER_HOSTNAMES": "one,two",
    "TPU_NAME": "",
}
RESOLVER = """
import sys
import tensorflow as tf
import pawl
from pawl.tf._group import place_of

resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")
print(place_of(resolver.cluster_spec().as_dict(), resolver.task_type, resolver.task_id))
found = pawl.discover()
print((found.rank, found.world_size))
"""


class Hosts(InDirectory):
    def test_hosts_of_tpus_are_no_ranks(self):
        environment = {**os.environ, **HOSTS, "PYTHONPATH": str(PACKAGE)}
        command = [sys.executable, "-c", RESOLVER]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        # For a strategy of several programs these two hosts would be two ranks.
        self.assertEqual(done.stdout.splitlines()[-2:], ["(0, 2)", "(0, 1)"])
        strategy = strategy_of()
        addresses = ["10.0.0.1:8470", "10.0.0.2:8470"]
        strategy.extended._tpu_cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": addresses}), task_type="worker", task_id=0
        )
        self.assertIsNone(group_of(strategy))
        with strategy.scope():
            variable = tf.Variable(some())
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(variable=variable), self.run_path, 2) as manager:
            manager.save()
        (info,) = pawl.ls(self.run_path)
        self.assertEqual((info.status, info.world_size), ("committed", 1))


class Keras(InDirectory):
    def test_the_callback_saves_and_restores_a_model_made_in_the_scope(self):
        strategy = strategy_of(2)

        def made():
            with strategy.scope():
                model = jobs.dense()
                model.optimizer.build(model.trainable_variables)
            return model

        one, other = made(), made()
        fill(one, one.optimizer)
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            checkpoint.set_model(one)
            checkpoint.step = 1
            checkpoint.save()
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            checkpoint.restore(other)
        for old, new in zip(
            [*one.variables, *one.optimizer.variables], [*other.variables, *other.optimizer.variables], strict=True
        ):
            for replica in new.value.values:
                for variable in on_cores(replica):
                    self.assert_bits(variable.numpy(), on_cores(old.value.values[0])[0].numpy())
        self.assertEqual(type(keras.tree.flatten(one.variables)[0].value).__name__, "TPUMirroredVariable")


if __name__ == "__main__":
    support.main()
