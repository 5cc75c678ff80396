# SPDX-License-Identifier: Apache-2.0
"""A variable has the same name in every process, whatever else that process has made before."""

import json

import support  # first: it finds the package
import keras
import numpy as np

import pawl
from pawl.keras._names import Renumbered, snake_case, variable_names

#: Prints path and name of each variable; with an argument other layers are made first.
NAMES = """
import json, sys
import keras
if len(sys.argv) > 1:
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)]).build()
    for kind in (keras.layers.Dense, keras.layers.BatchNormalization, keras.layers.LSTM):
        kind(3)
class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()
        self.dense = keras.layers.Dense(4)
        self.drop = keras.layers.Dropout(0.5)
    def build(self, shape):
        self.norm.build(shape)
        self.dense.build(shape)
    def call(self, x, training=False):
        return self.drop(self.dense(self.norm(x)), training=training)
inputs = keras.Input((5, 4))
x = Block()(inputs)
x = Block()(x)
x = keras.layers.LSTM(3, dropout=0.5)(x)
x = keras.Sequential([keras.layers.Dense(7, name="named_7"), keras.layers.Dense(2), keras.layers.Dense(2)])(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
from pawl.keras._names import variable_names
named = variable_names(model)
print(json.dumps([[v.path for _, v in named], [[name, list(v.shape)] for name, v in named]]))
"""


class Names(support.InDirectory):
    def test_layers_in_attributes_that_are_made_in_another_order(self):
        class Attends(keras.Model):
            def __init__(self, query_first):
                super().__init__()
                for name in ("query", "key") if query_first else ("key", "query"):
                    setattr(self, name, keras.layers.Dense(4))
                self.drops = [keras.layers.Dropout(0.1), keras.layers.Dropout(0.2)]

            def call(self, x):
                return self.drops[1](self.key(self.drops[0](self.query(x))))

        names = []
        for query_first in (True, False):
            model = Attends(query_first)
            model(np.zeros((2, 4), "f4"))
            found = dict(variable_names(model))
            self.assertIs(found["model/query/kernel"], model.query.kernel)
            self.assertIs(found["model/key/bias"], model.key.bias)
            state = model.drops[1].seed_generator.state
            self.assertIs(found["model/drops/1/seed_generator/seed_generator_state"], state)
            names.append(set(found))
        self.assertEqual(*names)

    def test_layers_that_change_places_after_they_were_named(self):
        class Attends(keras.Model):
            def __init__(self):
                super().__init__()
                self.query, self.key = keras.layers.Dense(4), keras.layers.Dense(4)

            def call(self, x):
                return self.key(self.query(x))

        model = Attends()
        model(np.zeros((2, 4), "f4"))
        for _ in range(2):
            found = dict(variable_names(model))
            self.assertIs(found["model/query/kernel"], model.query.kernel)
            self.assertIs(found["model/key/kernel"], model.key.kernel)
            model.query, model.key = model.key, model.query

    def test_variables_of_one_name_in_a_layer_that_is_in_no_attribute(self):
        class Twice(keras.layers.Layer):
            def build(self, shape):
                self.one, self.other = (self.add_weight(shape=(3,), name="w") for _ in range(2))
                self.more = [self.add_weight(shape=(3,), name="w") for _ in range(2)]

        model = keras.Sequential([keras.Input((3,)), Twice()])
        names = {name for name, _ in variable_names(model)}
        self.assertEqual(names, {f"model/twice/{name}" for name in ("one", "other", "more/0", "more/1")})

    def test_both_ways_of_a_layer_are_numbered_anew(self):
        names = []
        for _ in range(2):
            layer = keras.layers.Bidirectional(keras.layers.LSTM(2))
            names.append([name for name, _ in variable_names(keras.Sequential([keras.Input((5, 3)), layer]))])
        self.assertEqual(*names)
        self.assertIn("model/bidirectional/forward_lstm/lstm_cell/kernel", names[0])

    def test_a_process_that_made_another_model_first(self):
        paths, names = json.loads(self.program(NAMES).splitlines()[-1])
        other_paths, other_names = json.loads(self.program(NAMES, "first").splitlines()[-1])
        self.assertNotEqual(paths, other_paths)  # Keras's own names are not the same
        self.assertEqual(names, other_names)
        found = [name for name, _ in names]
        self.assertEqual(len(set(found)), len(found))
        for expected in (
            "model/block/batch_normalization/gamma",
            "model/block_1/dense/kernel",
            "model/lstm/lstm_cell/recurrent_kernel",
            "model/sequential/named_7/kernel",
            "model/sequential/dense_1/bias",
            "model/dense/kernel",
        ):
            self.assertIn(expected, found)
        self.assertEqual(sum("seed_generator" in name for name in found), 3)

    def test_the_way_in_which_a_model_is_built_does_not_matter(self):
        def layers():
            return [keras.layers.Dense(3), keras.layers.Dense(1)]

        built = keras.Sequential([keras.Input((4,)), *layers()])
        called = keras.Sequential(layers())
        called(np.ones((1, 4)))
        inputs = keras.Input((4,))
        one, two = layers()
        functional = keras.Model(inputs, two(one(inputs)))
        names = [[name for name, _ in variable_names(model)] for model in (built, called, functional)]
        self.assertEqual(
            names[0], ["model/dense/kernel", "model/dense/bias", "model/dense_1/kernel", "model/dense_1/bias"]
        )
        self.assertEqual(names[1:], names[:1] * 2)

    def test_duplicates_by_attribute(self):
        class Two(keras.Model):
            def __init__(self):
                super().__init__()
                self.left = keras.layers.Dense(2, name="d")
                self.right = keras.layers.Dense(2, name="d")
                self.others = [keras.layers.Dense(2, name="d") for _ in range(2)]

            def call(self, x):
                return self.left(x) + self.right(x) + sum(other(x) for other in self.others)

        model = Two()
        model(np.ones((1, 4)))
        self.assertEqual(len({variable.path for variable in model.variables}), 2)
        names = [name for name, variable in variable_names(model) if variable.shape == (4, 2)]
        expected = ["left", "right", "others/0", "others/1"]
        self.assertEqual(names, [f"model/{way}/kernel" for way in expected])

    def test_duplicates_that_nothing_tells_apart(self):
        class Hidden(keras.Model):
            def __init__(self):
                super().__init__()
                for width in (2, 3):
                    self._layers.append(keras.layers.Dense(width, name="d"))

            def call(self, x):
                return [layer(x) for layer in self._layers]

        model = Hidden()
        model(np.ones((1, 4)))
        with self.assertRaisesRegex(pawl.UsageError, r"called model/d/kernel: .*\(4, 2\) and .*\(4, 3\)"):
            variable_names(model)

    def test_components(self):
        self.assertEqual(snake_case("LSTMCell"), "lstm_cell")
        self.assertEqual(snake_case("Conv2D"), "conv2d")
        name = Renumbered(["dense", "conv_2"])
        ways = [
            ["dense_4", "k"],
            ["dense_2", "k"],
            ["dense_4", "b"],
            ["a", "dense_9"],
            ["conv_2"],
            ["conv_2_1"],
            ["x/y"],
        ]
        expected = ["dense/k", "dense_1/k", "dense/b", "a/dense", "conv_2", "conv_2_1", "x%2Fy"]
        self.assertEqual([name(way) for way in ways], expected)


if __name__ == "__main__":
    support.main()
