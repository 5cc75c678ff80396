# SPDX-License-Identifier: Apache-2.0
"""Trackable objects come back as they were, from runs and from TensorFlow's own files, by names that are theirs."""

import pathlib

import support
from support import InDirectory, np, tf

import jobs
import keras
import pawl
import pawl.tf

support.two_devices()

NAMES = """
import os, sys
import jobs, keras, pawl.tf
for _ in range(int(sys.argv[2])):
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
model = jobs.train(jobs.dense())
print(pawl.tf.Checkpoint(model=model, optimizer=model.optimizer).save(sys.argv[1]))
"""


class Objects(InDirectory):
    def both_ways(self, make, change, look):
        """Saves what `change` has made of an object of `make`; a new one looks the same when it is restored."""
        one = make()
        change(one)
        expected = look(one)
        pawl.tf.Checkpoint(one=one).save(self.run_path)
        other = make()
        self.assertNotEqual(look(other), expected)
        pawl.tf.Checkpoint(one=other).restore(self.run_path).assert_consumed()
        self.assertEqual(look(other), expected)
        return other

    def test_modules_lists_and_dictionaries_by_the_attributes_that_lead_to_each_variable(self):
        block = jobs.Block()
        checkpoint = pawl.tf.Checkpoint(
            block=block, more=[tf.Variable(1), {"a/b": tf.Variable(2)}], step=tf.Variable(7)
        )
        checkpoint.save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(
                list(saved),
                [
                    *("block/inner/parts/0", "block/inner/parts/1/z", "block/inner/w"),
                    *("block/parts/0", "block/parts/1/z", "block/w", "more/0", "more/1/a%2Fb", "step"),
                ],
            )
            self.assertEqual(saved.entry("step").role, "step")
            self.assertEqual(saved["block/w"].shape, (2, 3))

    def test_a_module_comes_back(self):
        def change(block):
            for variable in block.variables:
                variable.assign(variable * 3)

        self.both_ways(jobs.Block, change, lambda block: [v.numpy().tolist() for v in block.variables])

    def test_a_root_has_its_attributes_at_the_top(self):
        pawl.tf.Checkpoint(jobs.Block(), step=tf.Variable(7)).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertIn("inner/w", saved)
        other = jobs.Block(5.0)
        pawl.tf.Checkpoint(other, step=tf.Variable(0)).restore(self.run_path).assert_consumed()
        self.assertEqual(other.w.numpy()[0, 0], 1.0)

    def test_a_model_as_root(self):
        model = jobs.train(jobs.dense())
        pawl.tf.Checkpoint(model).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertIn("dense_1/kernel", saved)
        other = jobs.dense()
        pawl.tf.Checkpoint(other).restore(self.run_path)
        for one, two in zip(jobs.values(model), jobs.values(other), strict=True):
            self.assert_bits(one, two)

    def test_a_variable_that_is_in_two_places_is_saved_once(self):
        variable = tf.Variable(1.0)
        pawl.tf.Checkpoint(a=[variable], b=variable).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(list(saved), ["b"])

    def test_an_iterator_goes_on_where_it_was(self):
        def make():
            return iter(tf.data.Dataset.range(100).shuffle(10, seed=3).map(lambda x: x * 2).batch(3))

        one = make()
        for _ in range(5):
            next(one)
        pawl.tf.Checkpoint(data=one).save(self.run_path)
        expected = next(one).numpy().tolist()
        other = make()
        pawl.tf.Checkpoint(data=other).restore(self.run_path)
        self.assertEqual(next(other).numpy().tolist(), expected)
        with pawl.open(self.run_path) as saved:
            entry = saved.entry("data")
            self.assertEqual((entry.role, entry.per_rank), ("data_position", True))

    def test_lookup_tables(self):
        def make():
            return tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

        def insert(table):
            table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))

        self.both_ways(make, insert, lambda t: t.lookup(tf.constant(["a", "b", "c"])).numpy().tolist())

    def test_dense_lookup_tables(self):
        def make():
            return tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, -1.0, empty_key=-1, deleted_key=-2)

        def insert(table):
            table.insert(tf.range(9, dtype=tf.int64), tf.range(9.0))

        self.both_ways(make, insert, lambda t: t.lookup(tf.range(10, dtype=tf.int64)).numpy().tolist())

    def test_generators_of_random_numbers(self):
        self.both_ways(
            lambda: tf.random.Generator.from_seed(1),
            lambda generator: generator.uniform((3,)),
            lambda generator: generator.state.numpy().tolist(),
        )
        with pawl.open(self.run_path) as saved:
            self.assertEqual(saved.entry("one/_state_var").role, "rng")

    def test_state_of_python(self):
        self.both_ways(
            lambda: jobs.Text(b"first"), lambda text: setattr(text, "data", b"\0\xff"), lambda text: text.data
        )

    def test_metrics_and_seeds_of_keras_which_tensorflow_cannot_save(self):
        with self.assertRaisesRegex(ValueError, "trackable"):
            tf.train.Checkpoint(metric=keras.metrics.Mean())
        self.both_ways(keras.metrics.Mean, lambda m: m.update_state([1.0, 4.0]), lambda m: float(m.result()))
        one, other = keras.random.SeedGenerator(1), keras.random.SeedGenerator(2)
        expected = one.state.numpy().tolist()
        pawl.tf.Checkpoint(seed=one).save(self.directory / "seed")
        pawl.tf.Checkpoint(seed=other).restore(self.directory / "seed")
        self.assertEqual(other.state.numpy().tolist(), expected)

    def test_strings_and_types_of_less_than_a_byte(self):
        def make(text=("", ""), number=0):
            narrow = tf.Variable(tf.cast(tf.fill((3,), number), tf.as_dtype("int4")))
            return {"text": tf.Variable(text), "narrow": narrow}

        one, other = make(("a", "b" * 100), -3), make()
        pawl.tf.Checkpoint(**one).save(self.run_path)
        pawl.tf.Checkpoint(**other).restore(self.run_path).assert_consumed()
        self.assertEqual(other["text"].numpy().tolist(), [b"a", b"b" * 100])
        self.assert_bits(other["narrow"], one["narrow"])
        with self.assertRaisesRegex(pawl.Error, "narrow"):
            wide = {"text": tf.Variable(["", ""]), "narrow": tf.Variable(tf.zeros((3,), tf.as_dtype("uint4")))}
            pawl.tf.Checkpoint(**wide).restore(self.run_path)

    def test_variables_without_elements_and_of_any_shape(self):
        def make(size, start):
            grows = tf.Variable(tf.fill((size,), start), shape=tf.TensorShape([None]))
            return {"none": tf.Variable(tf.zeros((0, 3))), "grows": grows, "flag": tf.Variable(start > 1)}

        one, other = make(5, 2.0), make(3, 1.0)
        pawl.tf.Checkpoint(**one).save(self.run_path)
        for policies in ({}, {"missing": "allow"}):
            pawl.tf.Checkpoint(**other).restore(self.run_path, **policies).assert_consumed()
            self.assertEqual((other["grows"].numpy().tolist(), bool(other["flag"])), ([2.0] * 5, True))
        pawl.tf.Checkpoint().save(self.directory / "nothing")
        self.assertEqual(pawl.tf.Checkpoint().restore(self.directory / "nothing").restored, 0)

    def test_what_tensorflow_does_not_track_is_refused_as_it_does(self):
        for given in (5, None, {1: tf.Variable(1.0)}):
            for make in (tf.train.Checkpoint, pawl.tf.Checkpoint):
                with self.assertRaises(ValueError):
                    make(x=given).save(str(self.directory / make.__module__))

    def test_attributes_are_read_and_set_as_in_tf_train(self):
        checkpoint = pawl.tf.Checkpoint(step=tf.Variable(1))
        checkpoint.step.assign_add(1)
        checkpoint.more = tf.Variable(5)
        checkpoint.save(self.run_path)
        self.assertEqual(checkpoint.save_counter, 1)
        with pawl.open(self.run_path) as saved:
            self.assertEqual((list(saved), np.asarray(saved["step"]).item()), (["more", "step"], 2))
        with self.assertRaises(AttributeError):
            print(checkpoint.nothing)


class Models(InDirectory):
    def test_every_optimizer_comes_back_with_its_slots_and_trains_on_alike(self):
        for name, optimizer in jobs.OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                path = self.directory / name
                one = jobs.train(jobs.dense(optimizer=optimizer))
                pawl.tf.Checkpoint(model=one, optimizer=one.optimizer).save(path)
                other = jobs.dense(optimizer=optimizer)
                checkpoint = pawl.tf.Checkpoint(model=other, optimizer=other.optimizer)
                checkpoint.restore(path).assert_consumed()
                jobs.train(one, seed=1)
                jobs.train(other, seed=1)
                found, expected = jobs.values(other, other.optimizer), jobs.values(one, one.optimizer)
                for two, three in zip(found, expected, strict=True):
                    self.assert_bits(two, three)

    def test_slots_and_settings_by_name(self):
        model = jobs.train(jobs.dense())
        pawl.tf.Checkpoint(model=model, optimizer=model.optimizer).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            slot = saved.entry("optimizer/dense_1/kernel/momentums")
            self.assertEqual((slot.role, slot.slot_of, slot.slot), ("slot", "model/dense_1/kernel", "momentums"))
            self.assertEqual((saved["optimizer/learning_rate"], saved["optimizer/beta_1"]), (0.001, 0.9))
            self.assertEqual(saved["optimizer/class"], "Adam")
            self.assertEqual(saved.entry("optimizer/iterations").role, "step")
            self.assertEqual(saved.entry("model/seed_generator/seed_generator_state").role, "rng")

    def test_adafactors_slots_of_another_shape(self):
        model = jobs.train(jobs.dense(units=(256, 256), optimizer=keras.optimizers.Adafactor))
        pawl.tf.Checkpoint(model=model, optimizer=model.optimizer).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            slots = {e.slot: e.shape for e in saved.entries() if e.slot_of == "model/dense_1/kernel"}
        self.assertEqual(slots["r"], (256,))
        self.assertEqual(slots["c"], (256,))

    def test_slots_of_variables_that_no_model_has(self):
        block, optimizer = jobs.Block(), keras.optimizers.Adam()
        optimizer.apply_gradients([(tf.ones_like(v), v) for v in block.trainable_variables])
        pawl.tf.Checkpoint(block=block, optimizer=optimizer).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(saved.entry("optimizer/inner/w/momentums").slot_of, "block/inner/w")
        other, fresh = jobs.Block(7.0), keras.optimizers.Adam()
        pawl.tf.Checkpoint(block=other, optimizer=fresh).restore(self.run_path).assert_consumed()
        for one, two in ((block, optimizer), (other, fresh)):
            two.apply_gradients([(tf.ones_like(v), v) for v in one.trainable_variables])
        for one, two in zip(block.variables, other.variables, strict=True):
            self.assert_bits(one, two)

    def test_two_models_and_two_optimizers(self):
        def make():
            one, two = jobs.train(jobs.dense(units=(3,))), jobs.train(jobs.dense(units=(2,)), epochs=2)
            return {"g": one, "d": two, "g_optimizer": one.optimizer, "d_optimizer": two.optimizer}

        given = make()
        pawl.tf.Checkpoint(**given).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(saved.entry("g_optimizer/g/dense/kernel/momentums").slot_of, "g/dense/kernel")
        other = make()
        for variable in other["g"].variables:
            variable.assign(variable * 0)
        pawl.tf.Checkpoint(**other).restore(self.run_path)
        for one, two in zip(jobs.values(*given.values()), jobs.values(*other.values()), strict=True):
            self.assert_bits(one, two)

    def test_another_class_of_an_optimizer_of_any_name_is_refused(self):
        one = jobs.train(jobs.dense())
        pawl.tf.Checkpoint(model=one, other=one.optimizer).save(self.run_path)
        two = jobs.dense(optimizer=keras.optimizers.AdamW)
        checkpoint = pawl.tf.Checkpoint(model=two, other=two.optimizer)
        with self.assertRaisesRegex(
            pawl.Mismatch, 'other: the optimizer changed from "Adam" in the checkpoint to "AdamW"'
        ):
            checkpoint.restore(self.run_path)
        checkpoint.restore(self.run_path, model_only=True)

    def test_layers_that_are_adapted(self):
        normal, words = keras.layers.Normalization(), keras.layers.TextVectorization(max_tokens=10)
        normal.adapt(np.arange(8, dtype="f4").reshape(4, 2))
        words.adapt(["a b"])
        pawl.tf.Checkpoint(normal=normal, words=words).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            counts = "words/_lookup_layer/token_counts"
            self.assertEqual(list(saved), ["normal/count", "normal/mean", "normal/variance", counts])

    def test_a_layer_with_a_plain_variable_in_it(self):
        class Odd(keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
                self.inside = keras.layers.Dense(2)

            def call(self, inputs):
                return self.inside(inputs)

        def make():
            layer = Odd()
            layer(np.ones((1, 4), "f4"))
            return layer

        one, other = make(), make()
        one.table.insert(tf.constant(["k"]), tf.constant([4], tf.int64))
        pawl.tf.Checkpoint(layer=one).save(self.run_path)
        pawl.tf.Checkpoint(layer=other).restore(self.run_path)
        self.assertEqual(other.table.lookup(tf.constant(["k"])).numpy().tolist(), [4])
        self.assert_bits(other.inside.kernel, one.inside.kernel)

    def test_names_do_not_depend_on_what_the_process_has_made_before(self):
        found = []
        for count in (0, 3):
            path = self.directory / str(count)
            self.program(NAMES, path, count)
            with pawl.open(path) as saved:
                found.append(list(saved))
        self.assertEqual(found[0], found[1])
        self.assertIn("model/dense_1/kernel", found[0])

    def test_settings_of_the_checkpoint_or_of_the_program(self):
        made = {"beta_1": 0.8, "learning_rate": 0.01}
        one = jobs.train(jobs.dense(optimizer=lambda: keras.optimizers.Adam(**made)))
        pawl.tf.Checkpoint(model=one, optimizer=one.optimizer).save(self.run_path)
        for policy, beta, rate in (("checkpoint", 0.8, 0.01), ("caller", 0.9, 0.001)):
            other = jobs.dense()
            checkpoint = pawl.tf.Checkpoint(model=other, optimizer=other.optimizer)
            report = checkpoint.restore(self.run_path, hyperparameter=policy)
            self.assertEqual(other.optimizer.beta_1, beta)
            self.assertAlmostEqual(float(other.optimizer.learning_rate), rate)
            text = str(report)
            self.assertRegex(text, '"optimizer/beta_1" is 0.8 in the checkpoint and 0.9 in the state')
            self.assertRegex(text, '"optimizer/learning_rate" is 0.01 in the checkpoint and 0.001 in the state')


class OwnFiles(InDirectory):
    def test_bundles_of_tensorflow_with_every_optimizer(self):
        for name, optimizer in jobs.OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                one = jobs.train(jobs.dense(optimizer=optimizer, dropout=0))
                prefix = tf.train.Checkpoint(model=one, optimizer=one.optimizer).save(self.directory / name / "ck")
                other = jobs.dense(optimizer=optimizer, dropout=0)
                checkpoint = pawl.tf.Checkpoint(model=other, optimizer=other.optimizer)
                checkpoint.restore(prefix).assert_consumed()
                found, expected = jobs.values(other, other.optimizer), jobs.values(one, one.optimizer)
                for two, three in zip(found, expected, strict=True):
                    self.assert_bits(two, three)

    def test_a_bundle_that_was_converted_into_a_run(self):
        one = jobs.train(jobs.dense())
        prefix = tf.train.Checkpoint(model=one, optimizer=one.optimizer, step=tf.Variable(5)).save(
            self.directory / "tf" / "ck"
        )
        pawl.convert(prefix, self.run_path, to="pawl")
        other = jobs.dense()
        checkpoint = pawl.tf.Checkpoint(model=other, optimizer=other.optimizer, step=tf.Variable(0))
        checkpoint.restore(self.run_path).assert_consumed()
        self.assertEqual(int(checkpoint.step), 5)
        for two, three in zip(jobs.values(other.optimizer), jobs.values(one.optimizer), strict=True):
            self.assert_bits(two, three)

    def test_modules_tables_texts_and_state_of_python_from_a_bundle(self):
        def make(text, start):
            table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
            return {
                **{"block": jobs.Block(start), "table": table, "state": jobs.Text(text)},
                **{"text": tf.Variable([text, text]), "generator": tf.random.Generator.from_seed(int(start))},
            }

        one, other = make("old", 1.0), make("new", 2.0)
        one["table"].insert(tf.constant(["k"]), tf.constant([4], tf.int64))
        prefix = tf.train.Checkpoint(**one).save(self.directory / "ck")
        pawl.tf.Checkpoint(**other).restore(prefix).assert_consumed()
        self.assertEqual(other["table"].lookup(tf.constant(["k"])).numpy().tolist(), [4])
        self.assertEqual((other["state"].data, other["text"].numpy().tolist()), (b"old", [b"old", b"old"]))
        self.assert_bits(other["block"].inner.w, one["block"].inner.w)
        self.assert_bits(other["generator"].state, one["generator"].state)

    def test_an_iterator_of_a_bundle_is_refused_by_name(self):
        prefix = tf.train.Checkpoint(data=iter(tf.data.Dataset.range(9))).save(self.directory / "ck")
        # TensorFlow itself gives the one InternalError that comes up in saving and restoring.
        with self.assertRaisesRegex(tf.errors.InternalError, "type 21 not convertible to numpy dtype"):
            tf.train.load_checkpoint(prefix).get_tensor("data/.ATTRIBUTES/ITERATOR_STATE")
        with self.assertRaisesRegex(pawl.Unsupported, "data/ITERATOR_STATE is the state of an iterator"):
            pawl.tf.Checkpoint(data=iter(tf.data.Dataset.range(9))).restore(prefix)

    def test_an_iterator_of_python_is_refused_by_name(self):
        def make():
            spec = tf.TensorSpec((), tf.int64)
            return iter(tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=spec))

        with self.assertRaisesRegex(tf.errors.FailedPreconditionError, "PyFunc is stateful"):
            tf.train.Checkpoint(data=make()).save(self.directory / "ck")
        with self.assertRaisesRegex(pawl.Unsupported, "data is a OwnedIterator, .*PyFunc is stateful") as caught:
            pawl.tf.Checkpoint(data=make()).save(self.run_path)
        self.assertIn("skip(batches)", caught.exception.next)
        self.assertEqual(caught.exception.entry, "data")


class Whole(InDirectory):
    def test_a_restore_that_fails_changes_no_variable(self):
        block = jobs.Block()
        path = pathlib.Path(self.run_path)
        pawl.tf.Checkpoint(block=block).save(path)
        (data,) = path.glob("*/*.safetensors")
        raw = bytearray(data.read_bytes())
        raw[-1] ^= 1
        data.chmod(0o644)
        data.write_bytes(raw)
        other = jobs.Block(5.0)
        before = jobs.values(other)
        with self.assertRaises(pawl.Damaged):
            pawl.tf.Checkpoint(block=other).restore(path)
        for one, two in zip(jobs.values(other), before, strict=True):
            self.assert_bits(one, two)

    def test_partial_restores_keep_what_the_checkpoint_lacks(self):
        pawl.tf.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).save(self.run_path)
        checkpoint = pawl.tf.Checkpoint(a=tf.Variable(7.0), c=tf.Variable(8.0))
        with self.assertRaises(pawl.Mismatch):
            checkpoint.restore(self.run_path)
        self.assertEqual(checkpoint.a.numpy(), 7.0)
        report = checkpoint.restore(self.run_path, missing="allow", unexpected="allow").expect_partial()
        self.assertEqual((checkpoint.a.numpy(), checkpoint.c.numpy()), (1.0, 8.0))
        self.assertEqual((report.restored, report.kept, report.ignored), (1, 1, 1))
        with self.assertRaisesRegex(AssertionError, "not in the checkpoint: c"):
            report.assert_existing_objects_matched()
        with self.assertRaisesRegex(AssertionError, "in the checkpoint alone: b"):
            report.assert_consumed()

    def test_the_model_alone(self):
        one = jobs.train(jobs.dense())
        pawl.tf.Checkpoint(model=one, optimizer=one.optimizer).save(self.run_path)
        other = jobs.train(jobs.dense(), epochs=2)
        iterations = int(other.optimizer.iterations)
        pawl.tf.Checkpoint(model=other, optimizer=other.optimizer).restore(self.run_path, model_only=True)
        self.assert_bits(other.layers[0].kernel, one.layers[0].kernel)
        self.assertEqual(int(other.optimizer.iterations), iterations)


if __name__ == "__main__":
    support.main()
