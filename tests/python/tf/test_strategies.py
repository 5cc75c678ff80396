# SPDX-License-Identifier: Apache-2.0
"""Variables of strategies: mirrored ones are saved once, those in parts as boxes, several workers as one."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import support
from support import PACKAGE, InDirectory, np, tf

import jobs
import keras
import pawl
import pawl.tf

support.two_devices()

SERVERS = """
import json, socket, sys
import numpy as np
import tensorflow as tf
import pawl, pawl.tf

def port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]

cluster = tf.train.ClusterSpec(
    {"worker": [f"localhost:{port()}"], "ps": [f"localhost:{port()}" for _ in range(2)]}
)
jobs = (("worker", 0), ("ps", 0), ("ps", 1))
servers = [tf.distribute.Server(cluster, job_name=job, task_index=i) for job, i in jobs]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)

def made(start):
    with strategy.scope():
        table = tf.Variable(tf.reshape(tf.range(start, start + 10.0), (5, 2)))
        plain = tf.Variable(start)
    return pawl.tf.Checkpoint(table=table, plain=plain)

one = made(1.0)
assert type(one.table).__name__ == "ShardedVariable", type(one.table)
one.save(sys.argv[1])
other = made(50.0)
other.restore(sys.argv[1]).assert_consumed()
assert np.concatenate([part.numpy() for part in other.table.variables]).ravel().tolist() == list(range(1, 11))
assert other.plain.numpy() == 1.0
prefix = tf.train.Checkpoint(table=one.table, plain=one.plain).save(sys.argv[1] + "-tf")
other = made(50.0)
other.restore(prefix).assert_consumed()
assert np.concatenate([part.numpy() for part in other.table.variables]).ravel().tolist() == list(range(1, 11))
with pawl.tf.CheckpointManager(other, sys.argv[1], 2) as manager:
    manager.save()
print("DONE", flush=True)
import os
os._exit(0)
"""


class Mirrored(InDirectory):
    def setUp(self):
        super().setUp()
        self.strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def made(self, aggregation=tf.VariableAggregation.SUM):
        with self.strategy.scope():
            model = jobs.dense()
            on_read = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": aggregation}
            count = tf.Variable(0.0, trainable=False, **on_read)
        model.run_eagerly = False
        return pawl.tf.Checkpoint(model=model, optimizer=model.optimizer, count=count)

    def test_each_is_saved_once_and_comes_back_on_all_replicas(self):
        one, other = self.made(), self.made()
        jobs.train(one.model)
        one.save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(saved["model/dense/kernel"].shape, (4, 3))
            self.assertEqual(saved.entry("model/dense/kernel").pieces, 1)
        other.restore(self.run_path).assert_consumed()
        for old, new in zip(
            [*one.model.variables, *one.optimizer.variables],
            [*other.model.variables, *other.optimizer.variables],
            strict=True,
        ):
            for replica, expected in zip(new.value.values, old.value.values, strict=True):
                self.assert_bits(replica, expected)
        jobs.train(one.model, seed=1)
        jobs.train(other.model, seed=1)
        for old, new in zip(jobs.values(one.model), jobs.values(other.model), strict=True):
            self.assert_bits(new, old)

    def test_what_is_read_of_all_replicas_is_saved_by_its_aggregation(self):
        one = self.made()
        for number, replica in enumerate(one.count.values):
            replica.assign(number + 1.0)
        prefix = tf.train.Checkpoint(count=one.count).save(self.directory / "tf")
        one.save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(np.asarray(saved["count"]).item(), 3.0)
        for path, make in ((prefix, tf.train.Checkpoint), (self.run_path, pawl.tf.Checkpoint)):
            other = self.made()
            given = (
                {"count": other.count}
                if make is tf.train.Checkpoint
                else {"model": other.model, "optimizer": other.optimizer, "count": other.count}
            )
            make(**given).restore(path)
            expected = [1.5, 1.5] if make is tf.train.Checkpoint else [1.0, 2.0]  # each its own, of as many
            self.assertEqual([replica.numpy() for replica in other.count.values], expected)
        alone = jobs.dense()
        checkpoint = pawl.tf.Checkpoint(model=alone, optimizer=alone.optimizer, count=tf.Variable(0.0))
        checkpoint.restore(self.run_path).assert_consumed()
        self.assertEqual(checkpoint.count.numpy(), 3.0)

    def test_averages_that_each_replica_has_of_its_own_come_back_on_each(self):
        def made():
            with self.strategy.scope():
                return keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization()])

        one, other = made(), made()
        data = tf.data.Dataset.from_tensor_slices(np.random.default_rng(1).random((8, 4), "f4")).batch(8)
        for inputs in self.strategy.experimental_distribute_dataset(data):
            self.strategy.run(lambda batch: one(batch, training=True), args=(inputs,))
        average = one.layers[0].moving_mean.value.values
        self.assertNotEqual(average[0].numpy().tolist(), average[1].numpy().tolist())
        prefix = tf.train.Checkpoint(model=one).save(self.directory / "tf")
        tf.train.Checkpoint(model=other).restore(prefix)
        self.assert_bits(other.layers[0].moving_mean.value.values[1], average[0])  # the second one's is lost
        other = made()
        pawl.tf.Checkpoint(model=one).save(self.run_path)
        pawl.tf.Checkpoint(model=other).restore(self.run_path).assert_consumed()
        for found, expected in zip(other.layers[0].moving_mean.value.values, average, strict=True):
            self.assert_bits(found, expected)

    def test_a_job_of_two_replicas_goes_on_as_one_process_and_back(self):
        one = self.made()
        jobs.train(one.model)
        one.save(self.run_path)
        alone = jobs.dense()
        checkpoint = pawl.tf.Checkpoint(model=alone, optimizer=alone.optimizer, count=tf.Variable(0.0))
        checkpoint.restore(self.run_path).assert_consumed()
        for old, new in zip(jobs.values(one.model), jobs.values(alone), strict=True):
            self.assert_bits(new, old)
        checkpoint.save(self.directory / "back")
        self.made().restore(self.directory / "back").assert_consumed()

    def test_a_save_beside_training_is_of_one_step(self):
        one = self.made()
        jobs.train(one.model)
        slow = {"bandwidth_bytes_per_s": 1 << 20, "in_flight_bytes": 1 << 20}
        expected = jobs.values(one.model)
        with pawl.tf.CheckpointManager(one, self.run_path, None, **slow) as manager:
            manager.save()
            jobs.train(one.model, seed=1)
        other = self.made()
        other.restore(self.run_path)
        for old, new in zip(expected, jobs.values(other.model), strict=True):
            self.assert_bits(new, old)

    def test_an_optimizer_is_built_in_the_scope_of_its_model(self):
        one = self.made()
        jobs.train(one.model)
        one.save(self.run_path)
        other = self.made()
        self.assertFalse(other.optimizer.built)
        other.restore(self.run_path)
        for slot in other.optimizer._momentums:
            self.assertEqual(len(slot.value.values), 2)


class Servers(InDirectory):
    def test_variables_in_parts_are_boxes_of_one_tensor(self):
        done = self.program(SERVERS, self.run_path)
        self.assertIn("DONE", done.stdout)
        with pawl.open(self.run_path, step=1) as saved:
            self.assertEqual((saved["table"].shape, saved.entry("table").pieces), ((5, 2), 2))
            self.assertEqual(np.asarray(saved["table"]).ravel().tolist(), list(range(1, 11)))
        # Without servers it is one variable.
        whole = pawl.tf.Checkpoint(table=tf.Variable(tf.zeros((5, 2))), plain=tf.Variable(0.0))
        whole.restore(f"{self.run_path}@1").assert_consumed()
        self.assertEqual(whole.table.numpy().ravel().tolist(), list(range(1, 11)))


class Workers(InDirectory):
    def start(self, what, count=2):
        """Runs that many workers; for each what it has printed."""
        ports = []
        sockets = [socket.socket() for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
            ports.append(one.getsockname()[1])
        for one in sockets:
            one.close()
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        processes = []
        for rank in range(count):
            config = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
            environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONPATH": str(PACKAGE)}
            command = [sys.executable, str(pathlib.Path(__file__).with_name("workers.py")), str(self.run_path), what]
            processes.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
        texts = []
        for process in processes:
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, out + err)
            texts.append(out)
        return texts

    @staticmethod
    def results(texts):
        return [json.loads(line[7:]) for text in texts for line in text.splitlines() if line.startswith("RESULT ")]

    def test_two_workers_save_one_checkpoint_and_go_on_from_it(self):
        first = self.results(self.start("train"))
        self.assertEqual([one[0] for one in first], [0, 1])
        self.assertEqual([one[2] for one in first], [0, 1], "pawl.discover knows TF_CONFIG")
        self.assertEqual([one[1] for one in first], [None, None])
        (info,) = pawl.ls(self.run_path)
        self.assertEqual((info.step, info.world_size), (2, 2))
        with pawl.open(self.run_path) as saved:
            self.assertEqual(np.asarray(saved["read"]).item(), 4.0)  # two steps on two workers
            self.assertEqual(np.asarray(saved["model/dense/kernel"]).tolist(), first[0][3]["model/dense/kernel"])
            # Each worker has averages of its own; the first one's stand for all.
            average = "model/batch_normalization/moving_mean"
            self.assertEqual(np.asarray(saved[f"replicas/{average}"]).tolist(), [one[5] for one in first])
            self.assertEqual(np.asarray(saved[average]).tolist(), first[0][5])
        self.assertNotEqual(first[0][5], first[1][5])
        second = self.results(self.start("train"))
        self.assertEqual([one[1] for one in second], [f"{self.run_path}@2"] * 2)
        self.assertEqual([one[4] for one in second], [one[5] for one in first])
        for results in (first, second):
            one, other = (
                {name: value for name, value in found[3].items() if "moving_" not in name and "read" not in name}
                for found in results
            )
            self.assertEqual(one, other)
        self.assertEqual(second[0][3]["step"], 4)
        # One process alone takes it, too.
        layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        counters = {"step": tf.Variable(0, dtype=tf.int64), "read": tf.Variable(0.0)}
        checkpoint = pawl.tf.Checkpoint(model=model, optimizer=keras.optimizers.Adam(0.01), **counters)
        checkpoint.restore(self.run_path).assert_consumed()
        self.assertEqual(model.layers[0].kernel.numpy().tolist(), second[0][3]["model/dense/kernel"])
        self.assertEqual(model.layers[1].moving_mean.numpy().tolist(), second[0][5])

    def test_workers_whose_variables_differ_save_nothing_and_name_the_variable(self):
        texts = self.start("differ")
        for text in texts:
            failed = [line for line in text.splitlines() if line.startswith("FAILED ")]
            self.assertEqual(len(failed), 1, text)
            self.assertIn("model/dense/kernel", failed[0])
        with self.assertRaisesRegex(pawl.NotFound, "no checkpoint yet"):
            pawl.ls(self.run_path)


if __name__ == "__main__":
    support.main()
