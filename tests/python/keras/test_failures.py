# SPDX-License-Identifier: Apache-2.0
"""For each way in which a restore goes wrong: what Keras does, silent ones first, and what pawl says."""

import signal
import warnings

import support  # first: it finds the package
import keras
import numpy as np
import tensorflow as tf

import pawl
import pawl.keras

X, Y = np.linspace(0, 1, 64, dtype="f4").reshape(16, 4), np.ones((16, 2), "f4")


def model_of(*layers, optimizer=None, **more):
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.Adam(0.001) if optimizer is None else optimizer, "mse", **more)
    return model


def dense(units=2, name=None):
    return keras.layers.Dense(units, name=name)


def trained(model):
    model.fit(X, Y, batch_size=8, verbose=0, shuffle=False)
    return model


def values(model):
    return [np.asarray(variable) for variable in model.variables]


class Arguments(support.InDirectory):
    def test_each_argument_of_a_wrong_type_is_named_with_what_it_should_be(self):
        model, new = model_of(dense()), self.directory / "new"
        with pawl.keras.Checkpoint(self.run_path) as ckpt:
            for call, words in (
                (lambda: pawl.keras.Checkpoint(None), "the path is a str, bytes or os.PathLike, not NoneType"),
                (lambda: pawl.keras.Checkpoint(new, every="5"), "every='5' is not a whole number"),
                (lambda: pawl.keras.Checkpoint(new, every=-5), "every=-5: saves are at least one step apart"),
                (lambda: pawl.keras.Checkpoint(new, keep_last={}), "keep_last={} is .* dict, not a whole number"),
                (lambda: pawl.keras.Checkpoint(new, monitor=5), "monitor is the name of a metric, not int: 5"),
                (lambda: pawl.keras.Checkpoint(new, restore=5), "restore is True, False or a mapping .* not int: 5"),
                (lambda: pawl.keras.Checkpoint(new, signals=15), "signals is numbers of signals, not int: 15"),
                (lambda: pawl.keras.Checkpoint(new, signals=["TERM"]), "a signal='TERM' is not a whole number"),
                (lambda: pawl.keras.Checkpoint(new, grace_s="9"), "grace_s is a number of seconds, not str: '9'"),
                (lambda: pawl.keras.resume(5, (X, Y), callbacks=[ckpt]), "model is a keras.Model, not int: 5"),
                (lambda: pawl.keras.resume(dense(), (X, Y), callbacks=[ckpt]), "model is a keras.Model, not Dense"),
                (
                    lambda: pawl.keras.resume(model, (X, Y), callbacks=None),
                    "callbacks is a list of callbacks, not None",
                ),
                (lambda: pawl.keras.resume(model, (X, Y), "2", callbacks=[ckpt]), "epochs='2' is not a whole number"),
                (lambda: next(pawl.keras.fits(5, model, (X, Y))), "checkpoint is a pawl.keras.Checkpoint, not int"),
                (lambda: next(pawl.keras.fits(ckpt, model, (X, Y), batch_size="2")), "batch_size='2' is not a whole"),
            ):
                with self.subTest(words), self.assertRaisesRegex((TypeError, pawl.UsageError), "^" + words):
                    call()
        self.assertFalse(new.exists())


class Restoring(support.InDirectory):
    """Keras saves `before` by tf.train.Checkpoint or as .weights.h5, pawl as a run; then `after` restores."""

    def saved(self, before):
        self.prefix = tf.train.Checkpoint(model=before, optimizer=before.optimizer).save(str(self.directory / "ck"))
        before.save_weights(self.directory / "k.weights.h5")
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            checkpoint.set_model(before)
            checkpoint.save()
            checkpoint.wait()

    def by_keras(self, after):
        return tf.train.Checkpoint(model=after, optimizer=after.optimizer).restore(self.prefix)

    def by_pawl(self, after, **policies):
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            return checkpoint.restore(after, **policies)

    def mismatch(self, after, **policies):
        """The errors of a restore that changes nothing."""
        before = values(after)
        with self.assertRaises(pawl.Mismatch) as caught:
            self.by_pawl(after, **policies)
        for one, other in zip(before, values(after), strict=True):
            np.testing.assert_array_equal(one, other)
        return [item for item in caught.exception.report.items if item.severity.name == "ERROR"]

    # ---- Keras says nothing ----

    def test_another_optimizer_gets_the_slots_of_the_first_A7d_R06(self):
        def of(optimizer):
            return model_of(keras.layers.Dense(2, use_bias=False, name="d"), optimizer=optimizer)

        self.saved(trained(of(keras.optimizers.RMSprop(momentum=0.9))))
        after = of(keras.optimizers.Adam())
        after.optimizer.build(after.trainable_variables)
        self.by_keras(after).assert_consumed()  # passes
        self.assertGreater(np.abs(np.asarray(after.optimizer._momentums[0])).max(), 0)  # of RMSprop's velocities
        items = self.mismatch(of(keras.optimizers.Adam()))
        self.assertTrue(any('"RMSprop"' in str(item) and '"Adam"' in str(item) for item in items), items)

    def test_adam_becomes_adamw_A7c_R06(self):
        self.saved(trained(model_of(dense(name="d"))))
        after = model_of(dense(name="d"), optimizer=keras.optimizers.AdamW())
        after.optimizer.build(after.trainable_variables)
        self.by_keras(after).assert_consumed()  # passes
        report = self.by_pawl(model_of(dense(name="d"), optimizer=keras.optimizers.AdamW()), hyperparameter="caller")
        self.assertIn('the optimizer changed from "Adam" in the checkpoint to "AdamW" in the state', str(report))

    def test_a_layer_put_in_front_A8_R05(self):
        before = model_of(dense(4, "a"), dense(4, "b"))
        before.fit(X, X, verbose=0)
        self.saved(before)

        def after():
            return model_of(dense(4, "new"), dense(4, "a"), dense(4, "b"))

        moved = after()
        self.by_keras(moved)
        np.testing.assert_array_equal(moved.get_layer("new").kernel, before.get_layer("a").kernel)
        again = after()
        items = self.mismatch(again)
        missing = {item.name for item in items if item.difference.name == "MISSING"}
        self.assertEqual(
            {name for name in missing if name.startswith("model/")}, {"model/new/kernel", "model/new/bias"}
        )
        kept = np.array(again.get_layer("new").kernel)
        self.by_pawl(again, missing="allow")
        np.testing.assert_array_equal(again.get_layer("new").kernel, kept)
        for name in "ab":
            np.testing.assert_array_equal(again.get_layer(name).kernel, before.get_layer(name).kernel)

    def test_two_layers_that_changed_places_A8b_R05(self):
        before = trained(model_of(dense(4, "a"), dense(4, "b"), dense(2, "c")))
        self.saved(before)
        after = model_of(dense(4, "b"), dense(4, "a"), dense(2, "c"))
        after.optimizer.build(after.trainable_variables)
        self.by_keras(after).assert_consumed()  # passes
        np.testing.assert_array_equal(after.get_layer("b").kernel, before.get_layer("a").kernel)
        after.load_weights(self.directory / "k.weights.h5")
        np.testing.assert_array_equal(after.get_layer("b").kernel, before.get_layer("a").kernel)
        again = model_of(dense(4, "b"), dense(4, "a"), dense(2, "c"))
        self.by_pawl(again)
        for name in "abc":
            np.testing.assert_array_equal(again.get_layer(name).kernel, before.get_layer(name).kernel)
            slots = [
                np.asarray(variable)
                for model in (before, again)
                for variable in model.optimizer.variables
                if variable.path.endswith(f"_{name}_kernel_momentum")
            ]
            np.testing.assert_array_equal(*slots)

    def test_a_layer_is_gone_A9c_R04(self):
        self.saved(trained(model_of(dense(4, "a"), dense(4, "b"), dense(2, "c"))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model_of(dense(4, "a"), dense(4, "b")).load_weights(self.directory / "k.weights.h5", skip_mismatch=False)
        items = self.mismatch(model_of(dense(4, "a"), dense(4, "b")))
        found = {item.name for item in items if item.difference.name == "UNEXPECTED"}
        self.assertIn("model/c/kernel", found)

    def test_weights_are_cast_A9d_R02(self):
        self.saved(trained(model_of(dense(name="d"))))

        def half():
            return model_of(keras.layers.Dense(2, name="d", dtype="bfloat16"))

        half().load_weights(self.directory / "k.weights.h5")  # in silence
        items = self.mismatch(half())
        kernel = next(item for item in items if item.name == "model/d/kernel")
        self.assertEqual((kernel.checkpoint, kernel.state), ("[4, 2] F32", "[4, 2] BF16"))

    def test_the_learning_rate_and_beta_that_changed_A5_A5b_R07(self):
        self.saved(trained(model_of(dense(name="d"))))

        def after():
            return model_of(dense(name="d"), optimizer=keras.optimizers.Adam(0.1, beta_1=0.5))

        model = after()
        model.optimizer.build(model.trainable_variables)
        self.by_keras(model).assert_consumed()
        self.assertEqual(
            (float(model.optimizer.learning_rate.numpy()), model.optimizer.beta_1), (np.float32(0.001), 0.5)
        )
        model = after()
        with self.assertLogs("pawl", "WARNING") as logs:
            report = self.by_pawl(model)
        self.assertIn('"optimizer/learning_rate" is 0.001 in the checkpoint and 0.1 in the state', str(report))
        self.assertIn('"optimizer/beta_1" is 0.9 in the checkpoint and 0.5 in the state', "\n".join(logs.output))
        self.assertEqual(
            (float(model.optimizer.learning_rate.numpy()), model.optimizer.beta_1), (np.float32(0.001), 0.9)
        )
        model = after()
        self.by_pawl(model, hyperparameter="caller")
        self.assertEqual((float(model.optimizer.learning_rate.numpy()), model.optimizer.beta_1), (np.float32(0.1), 0.5))

    def test_a_schedule_in_place_of_a_number_A5c_R06(self):
        self.saved(trained(model_of(dense(name="d"), dense(2, "e"))))

        def after():
            rate = keras.optimizers.schedules.CosineDecay(0.01, 100)
            model = model_of(dense(name="d"), dense(2, "e"), optimizer=keras.optimizers.Adam(rate))
            model.optimizer.build(model.trainable_variables)
            return model

        with self.assertRaisesRegex(
            ValueError, "Received incompatible tensor with shape .* when attempting to restore"
        ):
            self.by_keras(after())  # the index of every slot has moved by one
        with self.assertLogs("pawl", "WARNING") as logs:
            report = self.by_pawl(after())
        self.assertRegex(
            str(report), r'"optimizer/learning_rate" is 0.001 in the checkpoint and \{"schedule":"CosineDecay"'
        )
        self.assertRegex("".join(logs.output), r"goes on with \{'schedule': 'CosineDecay'.*not with 0.001")
        self.saved(trained(after()))
        model = model_of(dense(name="d"), dense(2, "e"))
        with self.assertLogs("pawl", "WARNING") as logs:
            self.by_pawl(model)
        self.assertRegex("".join(logs.output), r"goes on with 0.001, not with \{'schedule': 'CosineDecay'")
        self.assertEqual(float(model.optimizer.learning_rate.numpy()), np.float32(0.001))

    def test_dropout_draws_other_numbers_in_every_checkpoint_of_keras_D3_J06(self):
        def job():
            return model_of(dense(8, "d"), keras.layers.Dropout(0.5, seed=3), dense(2, "e"))

        before = trained(job())
        self.saved(before)
        seeds = [np.asarray(v) for v in before.variables if "seed" in v.path]
        names = [name for name, _ in tf.train.list_variables(self.prefix)]
        self.assertFalse(any("seed" in name for name in names))
        after = job()
        after.load_weights(self.directory / "k.weights.h5")
        self.assertNotEqual(
            [np.asarray(v).tolist() for v in after.variables if "seed" in v.path], [s.tolist() for s in seeds]
        )
        self.by_pawl(after)
        self.assertEqual(
            [np.asarray(v).tolist() for v in after.variables if "seed" in v.path], [s.tolist() for s in seeds]
        )

    def test_backup_and_restore_repeats_steps_D3_J06(self):
        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if int(self.model.optimizer.iterations.numpy()) == 6:
                    raise InterruptedError

        def train(callback, more=()):
            keras.utils.set_random_seed(3)
            model = model_of(dense(name="d"))
            try:
                if isinstance(callback, pawl.keras.Checkpoint):
                    pawl.keras.resume(model, (X, Y), 2, batch_size=4, verbose=0, callbacks=[callback, *more])
                else:
                    model.fit(X, Y, batch_size=4, epochs=2, verbose=0, shuffle=False, callbacks=[callback, *more])
            except InterruptedError:
                pass
            return model

        whole = train(keras.callbacks.TerminateOnNaN())
        self.assertEqual(int(whole.optimizer.iterations.numpy()), 8)
        for more in ([Stop()], []):
            keras_again = train(keras.callbacks.BackupAndRestore(self.directory / "backup", save_freq=1), more)
            with pawl.keras.Checkpoint(self.run_path, every=1) as checkpoint:
                again = train(checkpoint, more)
        self.assertGreater(int(keras_again.optimizer.iterations.numpy()), 8)  # steps of epoch 1 are made again
        self.assertEqual(int(again.optimizer.iterations.numpy()), 8)
        for one, other in zip(values(again), values(whole), strict=True):
            np.testing.assert_array_equal(one, other)

    # ---- Keras says it late, or the first of many ----

    def test_a_model_that_is_not_built_A6b_R01(self):
        self.saved(trained(model_of(dense(3, "d"), dense(2, "e"))))

        def after():
            model = keras.Sequential([dense(4, "d"), dense(2, "e")])
            model.compile(keras.optimizers.Adam(), "mse")
            return model

        late = after()
        self.by_keras(late)  # in silence
        with self.assertRaisesRegex(Exception, "Received incompatible tensor with shape"):
            trained(late)
        with self.assertRaisesRegex(pawl.UsageError, r"the model 'sequential\w*' is not built.*its Dense 'd' for one"):
            self.by_pawl(after())
        with pawl.keras.Checkpoint(self.directory / "other") as checkpoint:
            with self.assertRaisesRegex(pawl.UsageError, "is not built"):
                after().fit(X, Y, verbose=0, callbacks=[checkpoint])
            with self.assertRaisesRegex(pawl.UsageError, "is not built"):
                pawl.keras.resume(after(), (X, Y), verbose=0, callbacks=[checkpoint])

    def test_all_shapes_that_differ_A7_A9_R01(self):
        self.saved(trained(model_of(dense(3, "d"), dense(2, "e"))))

        def after():
            return model_of(dense(4, "d"), dense(2, "e"))

        with self.assertRaisesRegex(ValueError, r"Received incompatible tensor with shape \(\d.*"):
            self.by_keras(after())
        items = self.mismatch(after())
        names = [item.name for item in items]
        for name in ("model/d/kernel", "model/d/bias", "model/e/kernel", "optimizer/d/kernel/momentums"):
            self.assertIn(name, names)

    def test_an_optimizer_that_was_built_before_the_last_layer_A3b_J05(self):
        def job():
            model = model_of(dense(2, "a"))
            model.optimizer.build(model.trainable_variables)
            model.add(dense(2, "late"))
            return model

        with self.assertRaisesRegex(ValueError, "Unknown variable: <Variable path="):
            trained(job())
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            with self.assertRaisesRegex(
                pawl.UsageError, "built for 2 variables, and the model has 4: it does not know model/late/kernel"
            ):
                job().fit(X, Y, verbose=0, callbacks=[checkpoint])

    def test_a_file_that_was_being_written_D8_S09(self):
        self.saved(trained(model_of(dense(2, "a"))))
        cut = (self.directory / "k.weights.h5").read_bytes()[:96]
        (self.directory / "k.weights.h5").write_bytes(cut)
        with self.assertRaises(OSError):
            model_of(dense(2, "a")).load_weights(self.directory / "k.weights.h5")
        again = trained(model_of(dense(2, "a")))
        with pawl.keras.Checkpoint(self.run_path, restore=False) as checkpoint:
            checkpoint.set_model(again)
            checkpoint.step = 9
            checkpoint.save()
            checkpoint.wait()
        (data,) = [path for path in (self.run_path).rglob("*.safetensors") if "9" in path.parent.name]
        data.write_bytes(data.read_bytes()[:96])
        with self.assertLogs("pawl", "WARNING"):
            self.by_pawl(model_of(dense(2, "a")))  # falls back


if __name__ == "__main__":
    assert signal
    support.main()
