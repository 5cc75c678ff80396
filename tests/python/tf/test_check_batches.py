# SPDX-License-Identifier: Apache-2.0
"""Batches before the run and at a restore (J01, J02, J03, J06): TensorFlow's own answer first, then pawl's."""

import support  # first: it finds the package

support.two_devices()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import pawl  # noqa: E402
import tensorflow as tf  # noqa: E402

DROP = "drop it: batch(..., drop_remainder=True); or pad it, with weights of 0"


def slices(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


def floats(*shape):
    return np.ones(shape, "float32")


def found(dataset, **options):
    return [(one.id, one.severity, one.text) for one in pawl.check_dataset(dataset, **options)]


class Remainder(support.InDirectory):
    REST = "batch 1, the last one, has 36 examples, the others have 64: 100 examples in batches of 64"

    def test_a_signature_of_static_shape_j01(self):
        @tf.function(input_signature=[tf.TensorSpec([64, 10])])
        def step(x):
            return x

        dataset = slices(floats(100, 10)).batch(64)
        with self.assertRaisesRegex(TypeError, r"Can not cast TensorSpec\(shape=\(36, 10\), dtype=tf.float32"):
            for batch in dataset:
                step(batch)
        self.assertEqual(found(dataset), [("J01", "warning", self.REST)])
        self.assertEqual(pawl.check_dataset(dataset)[0].next, DROP)
        check = pawl.BatchCheck()
        with self.assertRaises(pawl.Mismatch) as caught:
            for batch in check.over(dataset):
                step(batch)
        self.assertEqual(
            caught.exception.attempt,
            "batch 1 `batch` has shape [36,10], the first had [64,10]; drop or pad the remainder",
        )

    def test_a_stateful_layer_j01(self):
        layers = [keras.Input(batch_shape=(64, 5, 3)), keras.layers.LSTM(16, stateful=True), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        model.compile("sgd", "mse")
        dataset = slices(floats(100, 5, 3), floats(100, 1)).batch(64)
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "(?i)incompatible shapes"):
            model.fit(dataset, verbose=0)
        self.assertEqual(found(dataset.prefetch(2)), [("J01", "warning", self.REST)])

    def test_the_advice_leaves_nothing_to_say_j01(self):
        dataset = slices(floats(100, 10)).batch(64, drop_remainder=True)
        self.assertEqual([one[0] for one in found(dataset)], ["ok"])

    def test_a_replica_that_gets_no_example_j01(self):
        """A mean over nothing is not a number, silently."""
        dataset = slices(floats(65, 10)).batch(64)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        means = []
        for batch in strategy.experimental_distribute_dataset(dataset):
            results = strategy.run(tf.reduce_mean, (batch,))
            means.append([float(one) for one in strategy.experimental_local_results(results)])
        self.assertEqual(means[0], [1.0, 1.0])
        self.assertTrue(np.isnan(means[1][1]), means)
        self.assertEqual(
            found(dataset, replicas=2),
            [
                (
                    "J01",
                    "error",
                    "batch 1, the last one, has 1 example, the others have 64: 65 examples in batches of 64; of 2 "
                    "replicas 1 gets none, and a mean over nothing is NaN",
                )
            ],
        )

    def test_where_batches_are_made_in_the_pipeline(self):
        numbers = tf.data.Dataset.range(100)
        for dataset in (
            numbers.batch(64).prefetch(2),
            numbers.batch(64).map(lambda x: x + 1).cache(),
            numbers.batch(64, num_parallel_calls=2).map(lambda x: x, num_parallel_calls=2),
            numbers.shuffle(8).batch(64).with_options(tf.data.Options()),
            numbers.batch(64).repeat(3),
        ):
            with self.subTest(type(dataset).__name__):
                self.assertEqual(found(dataset), [("J01", "warning", self.REST)])
        for dataset in (
            numbers.filter(lambda x: x > 3).batch(64),
            numbers.batch(64).take(1),
            numbers.batch(64).skip(1),
        ):
            with self.subTest(type(dataset).__name__):
                ((identity, severity, text),) = found(dataset)
                self.assertEqual((identity, severity), ("J01", "note"))
                self.assertIn("the size of the last batch is unknown", text)
        ((_, severity, text),) = found(numbers.batch(50))
        self.assertEqual((severity, "dimension 0 is unknown to TensorFlow" in text), ("note", True))

    def test_fewer_examples_than_a_batch_j01(self):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        dataset = slices(floats(10, 3), floats(10, 1)).batch(64, drop_remainder=True)
        before = model.get_weights()
        with self.assertWarnsRegex(UserWarning, "Your input ran out of data"):
            model.fit(dataset, verbose=0)
        for one, other in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)  # it ends as if it had trained
        self.assertEqual(
            found(dataset), [("J01", "error", "10 examples make no batch of 64, and what does not is dropped")]
        )
        dataset = slices(floats(10, 3), floats(10, 1)).batch(64)
        self.assertEqual(found(dataset), [("J01", "warning", "the only batch has 10 examples, not 64")])

    def test_reading_all_of_it_j01(self):
        dataset = tf.data.Dataset.range(100).filter(lambda x: x < 70).batch(64)
        self.assertEqual(
            found(dataset, read="all"),
            [("J01", "warning", "batch 1 `batch` has shape [6], the first had [64]; drop or pad the remainder")],
        )

    def test_looking_does_not_move_a_dataset_on(self):
        def order(looked):
            tf.random.set_seed(7)
            dataset = tf.data.Dataset.range(20).shuffle(20, seed=3).batch(8)
            if looked:
                pawl.check_dataset(dataset)
            return [batch.numpy().tolist() for batch in dataset]

        self.assertEqual(order(True), order(False))

    def test_arrays_and_a_batch_size_j01(self):
        arrays = {"x": floats(100, 3), "y": np.zeros(100, "int32")}
        self.assertEqual(
            found(arrays, batch_size=32),
            [
                (
                    "J01",
                    "warning",
                    "batch 3, the last one, has 4 examples, the others have 32: 100 examples in batches of 32",
                )
            ],
        )
        self.assertEqual([one[0] for one in found(arrays, batch_size=25)], ["ok"])
        ((identity, severity, text),) = found((floats(9), floats(8)), batch_size=2)
        self.assertEqual((identity, severity, text), ("J02", "error", "the arrays are not of one length: `0` 9, `1` 8"))

    def test_a_dataset_of_keras_j01(self):
        class Batches(keras.utils.PyDataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                rows = 5 if i == 3 else 8
                return floats(rows, 2), np.zeros(rows, "int32")

        self.assertEqual(
            found(Batches()), [("J01", "warning", "batch 3, the last one, has 5 examples, the others have 8")]
        )


class Entries(support.InDirectory):
    def test_text_j02(self):
        dataset = slices({"words": ["a", "b"], "n": np.ones(2, "float32")}).batch(2, drop_remainder=True)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        with self.assertRaises((ValueError, tf.errors.OpError, TypeError)):
            model.predict(np.array([["a"], ["b"]]), verbose=0)
        self.assertEqual(found(dataset), [("J02", "warning", "`words` is text")])
        with self.assertRaises(pawl.UsageError) as caught:
            pawl.BatchCheck().next(next(iter(dataset)))
        self.assertEqual((caught.exception.attempt, caught.exception.entry), ("batch 0 `words` is text", "words"))

    def test_ragged_and_sparse_j02(self):
        ragged = slices(tf.ragged.constant([[1], [2, 3]])).batch(2, drop_remainder=True)
        self.assertEqual(found(ragged), [("J02", "warning", "`batch` is ragged")])
        sparse = slices(tf.sparse.eye(4)).batch(2, drop_remainder=True)
        self.assertEqual(found(sparse), [("J02", "warning", "`batch` is sparse")])
        for dataset, word in ((ragged, "ragged"), (sparse, "sparse")):
            with self.subTest(word), self.assertRaisesRegex(pawl.UsageError, f"batch 0 `batch` is {word}"):
                pawl.BatchCheck().next(next(iter(dataset)))
        dense = ragged.map(lambda x: x.to_tensor(shape=[2, 2]))  # the advice
        self.assertEqual([one[0] for one in found(dense)], ["ok"])

    def test_float64_j02(self):
        dataset = slices(np.zeros((4, 2))).batch(2, drop_remainder=True)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        self.assertEqual(model.predict(dataset, verbose=0).dtype, np.float32)  # cast silently
        self.assertEqual(
            found(dataset),
            [("J02", "warning", "`batch` has dtype F64; accelerators compute it slowly or not at all")],
        )

    def test_padding_to_the_longest_of_each_batch_j03(self):
        def examples():
            yield from ([1], [2, 3], [4, 5, 6], [7])

        made = tf.data.Dataset.from_generator(examples, output_signature=tf.TensorSpec([None], tf.int32))
        dataset = made.padded_batch(2, drop_remainder=True)
        compiled = []

        @tf.function
        def step(x):
            compiled.append(x.shape)  # once for each tracing
            return tf.reduce_sum(x)

        for batch in dataset:
            step(batch)
        self.assertEqual(len(compiled), 2)  # silent, and on a TPU minutes each
        self.assertEqual(found(dataset)[0], ("J03", "warning", "`batch` is I32 [2, ?]: dimension 1 is unknown"))
        padded = made.padded_batch(2, padded_shapes=[3], drop_remainder=True)  # the advice
        self.assertEqual([one[0] for one in found(padded)], ["ok"])
        ((identity, _, text),) = found(dataset, read="all")
        self.assertEqual(
            (identity, text), ("J02", "batch 1 `batch` has shape [2,3], the first had [2,2]; mend the input")
        )


class Restored(support.InDirectory):
    def job(self, size, position):
        """A state with what `size` makes of the batches, and the position in the data."""
        check = pawl.BatchCheck()
        for _ in check.over(slices({"x": floats(64, 3), "y": np.zeros(64, "int32")}).batch(size).take(2)):
            pass
        state = pawl.State({"data/position": position})
        state.set_json("batch", check.signature, role="batch_signature")
        return state

    def test_other_batches_than_those_that_were_saved_j06(self):
        checkpoint = tf.train.Checkpoint(step=tf.Variable(3))
        prefix = checkpoint.save(str(self.directory / "ck"))
        checkpoint.restore(prefix).assert_consumed()  # TensorFlow keeps no batches: nothing is said
        with pawl.Run(self.run_path) as run:
            run.save(self.job(16, 32), 1)
            run.wait()
            with self.assertRaises(pawl.Mismatch) as caught:
                run.restore(self.job(8, 0), batch="error")
        text = str(caught.exception)
        self.assertIn('"x":{"dtype":"F32","shape":[16,3]}', text)
        self.assertIn('"x":{"dtype":"F32","shape":[8,3]}', text)
        self.assertEqual(caught.exception.safe, "nothing was restored: the state is as it was")

    def test_another_position_than_the_one_that_was_saved_j06(self):
        """BackupAndRestore begins the epoch again: 5 batches are seen twice."""
        seen = []

        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                seen.append(batch)
                if self.killed and len(seen) == 15:
                    raise KeyboardInterrupt

        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        dataset = slices(floats(80, 3), floats(80, 1)).batch(8)
        for killed in (True, False):
            stop = Stop()
            stop.killed = killed
            backup = keras.callbacks.BackupAndRestore(str(self.directory / "backup"), save_freq=5)
            try:
                model.fit(dataset, epochs=3, verbose=0, callbacks=[backup, stop])
            except KeyboardInterrupt:
                self.assertTrue(killed)
        self.assertEqual(len(seen), 35)  # of 30

        with pawl.Run(self.run_path) as run:
            run.save(self.job(8, 15 * 8), 15)
            run.wait()
            state = self.job(8, 0)
            run.restore(state)
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.check_data_position(state, "data/position", 10 * 8)  # where the epoch began
        self.assertEqual(
            caught.exception.attempt, "the checkpoint was saved at data position 120, the loader stands at 80"
        )
        self.assertIn("examples are seen twice", caught.exception.next)
        pawl.check_data_position(state, "data/position", 120)


if __name__ == "__main__":
    support.main()
