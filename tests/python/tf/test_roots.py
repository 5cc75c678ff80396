# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint would leave out is refused; what cannot be restored leaves everything as it was."""

import support
from support import InDirectory, np, tf

import keras
import pawl
import pawl.tf


class LeftOut(InDirectory):
    def test_a_root_that_is_itself_what_is_to_be_saved(self):
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        for root in (tf.Variable(1.0), table, iter(tf.data.Dataset.range(3)), [tf.Variable(1.0)], 5):
            with self.assertRaisesRegex(pawl.UsageError, "the root of a checkpoint"):
                pawl.tf.Checkpoint(root)

    def test_objects_without_any_variable(self):
        with self.assertRaisesRegex(pawl.UsageError, "there is nothing to save"):
            pawl.tf.Checkpoint(module=tf.Module()).save(self.run_path)

    def test_metrics_and_seeds_in_a_module(self):
        module = tf.Module()
        module.metrics, module.seed = [keras.metrics.Mean()], keras.random.SeedGenerator(3)
        module.metrics[0].update_state(4.0)
        pawl.tf.Checkpoint(module=module).save(self.run_path)
        module.metrics[0].reset_state()
        module.seed.next()
        pawl.tf.Checkpoint(module=module).restore(self.run_path).assert_consumed()
        self.assertEqual(float(module.metrics[0].result()), 4.0)
        self.assertEqual(module.seed.state.numpy().tolist(), [3, 0])
        with pawl.open(self.run_path) as saved:
            self.assertIn("module/metrics/0/total", saved)


class AllOrNone(InDirectory):
    def test_a_table_of_other_types(self):
        def table(kind):
            return tf.lookup.experimental.MutableHashTable(kind, tf.int64, -1)

        first, second = table(tf.string), table(tf.string)
        first.insert(["a"], [1])
        pawl.tf.Checkpoint(a=first, b=second, v=tf.Variable(1.0)).save(self.run_path)
        first.insert(["b"], [2])
        variable = tf.Variable(5.0)
        with self.assertRaisesRegex(
            pawl.UsageError, "b: TensorFlow does not take .*InvalidArgumentError: .+"
        ) as caught:
            pawl.tf.Checkpoint(a=first, b=table(tf.int64), v=variable).restore(self.run_path)
        self.assertEqual(caught.exception.safe, "nothing was restored")
        self.assertEqual(variable.numpy(), 5.0)
        self.assertEqual(first.lookup(tf.constant(["a", "b"])).numpy().tolist(), [1, 2])

    def test_an_object_that_cannot_get_back_what_it_had_is_named(self):
        class Stubborn(tf.train.experimental.PythonState):
            """Takes a text once, and of others none."""

            text = "before"

            def serialize(self):
                return self.text.encode()

            def deserialize(self, data):
                if self.text == "saved" and data != b"saved":
                    raise ValueError("it is set already")
                self.text = data.decode()

        def table(kind):
            return tf.lookup.experimental.MutableHashTable(kind, tf.int64, -1)

        saved = Stubborn()
        saved.text = "saved"
        pawl.tf.Checkpoint(a=saved, b=table(tf.string)).save(self.run_path)
        stubborn = Stubborn()
        with self.assertRaisesRegex(pawl.UsageError, "b: TensorFlow does not take") as caught:
            with self.assertLogs("pawl.tf", "ERROR") as said:
                pawl.tf.Checkpoint(a=stubborn, b=table(tf.int64)).restore(self.run_path)
        self.assertEqual(caught.exception.safe, "all but a is as it was")
        self.assertIn("it is set already", said.output[0])


class Compiled(InDirectory):
    def test_a_number_that_is_compiled_into_the_steps_of_fit(self):
        x = np.random.default_rng(1).random((32, 4)).astype("f4")

        def model(momentum):
            keras.utils.set_random_seed(1)
            made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
            made.compile(keras.optimizers.SGD(0.1, momentum=momentum), "mse")
            made.fit(x, x[:, :2], shuffle=False, verbose=0)
            return made

        one, other = model(0.9), model(0.1)
        pawl.tf.Checkpoint(model=one, optimizer=one.optimizer).save(self.run_path)
        pawl.tf.Checkpoint(model=other, optimizer=other.optimizer).restore(self.run_path)
        for made in (one, other):
            made.fit(x, x[:, :2], shuffle=False, verbose=0)
        for found, expected in zip(other.variables, one.variables, strict=True):
            self.assert_bits(found.numpy(), expected.numpy())


class OfOthers(InDirectory):
    def test_a_directory_that_tensorflow_has_saved_into(self):
        step = tf.Variable(1)
        tf.train.CheckpointManager(tf.train.Checkpoint(step=step), str(self.run_path), 3).save()
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(step=step), self.run_path, 3) as manager:
            with self.assertLogs("pawl.tf", "WARNING") as said:
                self.assertIsNone(manager.restore_or_initialize())
        self.assertIn("ckpt-1.index", said.output[0])

    def test_a_step_that_is_a_bool(self):
        path = pawl.tf.Checkpoint(step=tf.Variable(1)).save(self.run_path, step=True)
        self.assertTrue(path.endswith("@1"), path)


if __name__ == "__main__":
    support.main()
