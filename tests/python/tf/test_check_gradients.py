# SPDX-License-Identifier: Apache-2.0
"""Gradients against variables of TensorFlow and Keras (J05): TensorFlow's own answer first, then pawl's."""

import warnings

import support  # first: it finds the package
import keras
import numpy as np
import pawl
import tensorflow as tf


class InKeras(support.InDirectory):
    def setUp(self):
        super().setUp()
        layers = [keras.Input((10,)), keras.layers.Dense(4, name="d"), keras.layers.Dense(2, name="e")]
        self.variables = keras.Sequential(layers, name="m").trainable_variables
        self.optimizer = keras.optimizers.SGD(0.1)
        self.optimizer.build(self.variables)
        self.good = [tf.ones(one.shape) for one in self.variables]

    def applied(self, gradients):
        """What Keras says: the warnings."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.optimizer.apply(gradients, self.variables)
        return [str(one.message) for one in told if "Gradients" in str(one.message)]

    def refused(self, gradients, **parts):
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.check_gradients(self.variables, gradients)
        for name, wanted in parts.items():
            self.assertEqual(getattr(caught.exception, name), wanted)
        return caught.exception

    def test_gradients_that_fit(self):
        self.assertEqual(self.applied(self.good), [])
        self.assertIsNone(pawl.check_gradients(self.variables, self.good))
        named = {one.path: one for one in self.variables}
        self.assertIsNone(pawl.check_gradients(named, dict(zip(named, self.good, strict=True))))

    def test_another_number_j05(self):
        self.assertEqual(self.applied(self.good[:3]), [])  # silent: one is not trained
        self.refused(self.good[:3], attempt="the variable `m/e/bias` has no gradient", entry="m/e/bias")
        self.assertEqual(self.applied([*self.good, self.good[0]]), [])  # silent
        self.refused([*self.good, self.good[0]], attempt="5 gradients for 4 variables: gradient 4 has no variable")

    def test_none_j05(self):
        gradients = [None, *self.good[1:]]
        (warned,) = self.applied(gradients)
        self.assertIn("Gradients do not exist for variables ['m/d/kernel']", warned)
        self.refused(
            gradients,
            attempt="the gradient of `m/d/kernel` is missing: it is None",
            expected="F32 [10, 4], as the variable",
            found="None",
        )
        with self.assertRaisesRegex(ValueError, "No gradients provided for any variable"):
            self.applied([None] * 4)
        self.refused([None] * 4, entry="m/d/kernel")

    def test_another_shape_j05(self):
        gradients = [tf.ones((10, 5)), *self.good[1:]]
        with self.assertRaises(tf.errors.InvalidArgumentError) as caught:
            self.applied(gradients)
        self.assertIn("[10,4] using a Tensor with shape [10,5]", str(caught.exception))
        self.assertNotIn("m/d/kernel", str(caught.exception))  # no name
        self.refused(
            gradients,
            attempt="the gradient of `m/d/kernel` has shape [10, 5], the variable [10, 4]",
            expected="F32 [10, 4], as the variable",
            found="F32 [10, 5]",
        )

    def test_another_dtype_j05(self):
        for dtype, name in ((tf.float64, "F64"), (tf.float16, "F16"), (tf.bfloat16, "BF16")):
            gradients = [tf.cast(self.good[0], dtype), *self.good[1:]]
            with self.subTest(name):
                self.assertEqual(self.applied(gradients), [])  # cast silently
                self.refused(gradients, attempt=f"the gradient of `m/d/kernel` has dtype {name}, the variable F32")

    def test_nan_j05(self):
        kernel = np.ones((10, 4), "float32")
        kernel[2, 1] = np.nan
        gradients = [tf.constant(kernel), *self.good[1:]]
        self.assertEqual(self.applied(gradients), [])  # silent
        self.assertTrue(np.isnan(self.variables[0].numpy()).any())  # and the model is lost
        self.refused(
            gradients,
            attempt="the gradient of `m/d/kernel` is not finite: NaN at element 9",
            found="1 NaN, 0 infinite",
        )

    def test_what_is_no_array_j05(self):
        """DLPack ends the process when it is asked for text."""
        variants = tf.raw_ops.TensorListReserve(element_shape=-1, num_elements=1, element_dtype=tf.float32)
        for gradient, words in (
            (tf.fill((10, 4), "a"), "gradient `m/d/kernel` is text, no array"),
            (tf.ragged.constant([[1.0], [2.0, 3.0]]), "gradient `m/d/kernel` is ragged, no array"),
            (variants, "gradient `m/d/kernel` is of type variant, no array"),
        ):  # fmt: skip
            with self.subTest(words), self.assertRaises(pawl.UsageError) as caught:
                pawl.check_gradients(self.variables, [gradient, *self.good[1:]])
            self.assertEqual((caught.exception.attempt, caught.exception.entry), (words, "m/d/kernel"))

    def test_types_that_have_no_numpy(self):
        for dtype in (
            tf.bfloat16,
            tf.dtypes.experimental.float8_e4m3fn,
            tf.dtypes.experimental.float8_e5m2,
            tf.bool,
            tf.int8,
            tf.complex128,
        ):
            value = tf.cast(tf.ones((2, 3)), dtype)
            with self.subTest(dtype.name):
                self.assertIsNone(pawl.check_gradients({"v": tf.Variable(value)}, {"v": value}))

    def test_variables_of_one_name(self):
        """Both are called v, so the second is told apart by its number."""
        one, other = tf.Variable([1.0, 2.0], name="v"), tf.Variable([1.0, 2.0], name="v")
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.check_gradients([one, other], [tf.ones(2), tf.ones(3)])
        self.assertEqual(caught.exception.attempt, "the gradient of `v (2)` has shape [3], the variable [2]")


class Rows(support.InDirectory):
    """``tf.IndexedSlices``, which an embedding's gradient is."""

    def setUp(self):
        super().setUp()
        self.layer = keras.layers.Embedding(10, 4, name="emb")
        self.layer.build()
        self.variables = self.layer.trainable_variables
        self.optimizer = keras.optimizers.SGD(0.1)
        self.optimizer.build(self.variables)

    def slices(self, values, rows, shape=(10, 4)):
        return tf.IndexedSlices(tf.convert_to_tensor(values), tf.constant(rows), tf.constant(shape))

    def refused(self, gradient):
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.check_gradients(self.variables, [gradient])
        self.assertEqual(caught.exception.entry, "emb/embeddings")
        return caught.exception

    def test_rows_that_fit(self):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.layer(tf.constant([[1, 1, 2]])))
        gradients = tape.gradient(loss, self.variables)
        self.assertIsInstance(gradients[0], tf.IndexedSlices)
        self.assertIsNone(pawl.check_gradients(self.variables, gradients))
        self.optimizer.apply(gradients, self.variables)

    def test_rows_of_another_shape_j05(self):
        gradient = self.slices(tf.ones((2, 5)), [1, 3], (10, 5))
        self.optimizer.apply([gradient], self.variables)  # silent: 5 numbers into rows of 4
        error = self.refused(gradient)
        self.assertEqual(
            error.attempt,
            "the gradient of `emb/embeddings` has rows of shape [5] of a gradient of shape [10, 5], the variable has "
            "shape [10, 4]",
        )

    def test_a_row_that_the_variable_has_not_j05(self):
        gradient = self.slices(tf.ones((2, 4)), [1, 17])
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, r"indices\[1\] = 17 is not in \[0, 10\)"):
            self.optimizer.apply([gradient], self.variables)
        error = self.refused(gradient)
        self.assertEqual(error.attempt, "the gradient of `emb/embeddings` is for row 17, the variable has 10 rows")

    def test_another_dtype_and_nan_j05(self):
        gradient = self.slices(tf.ones((2, 4), tf.float64), [1, 3])
        self.optimizer.apply([gradient], self.variables)  # cast silently
        self.assertEqual(
            self.refused(gradient).attempt, "the gradient of `emb/embeddings` has dtype F64, the variable F32"
        )
        gradient = self.slices(tf.fill((2, 4), np.float32("nan")), [1, 3])
        self.optimizer.apply([gradient], self.variables)  # silent
        self.assertEqual(
            self.refused(gradient).attempt, "the gradient of `emb/embeddings` is not finite: NaN at element 0"
        )


if __name__ == "__main__":
    support.main()
