# SPDX-License-Identifier: Apache-2.0
"""For each way in which a restore or a save fails: what tf.train does, silent ones first, and what pawl says."""

import os
import pathlib
import resource
import shutil
import signal
import threading

import support
from support import InDirectory, np, tf

import jobs
import keras
import pawl
import pawl.tf

support.two_devices()


def layers(*names, width=2, dtype=None, optimizer=keras.optimizers.Adam):
    """Dense layers of these names, all of one shape but for the last."""
    made = [keras.layers.Dense(jobs.COLUMNS, name=name, dtype=dtype) for name in names[:-1]]
    model = keras.Sequential([keras.Input((jobs.COLUMNS,)), *made, keras.layers.Dense(width, name=names[-1])])
    model.compile(optimizer(), "mse", run_eagerly=True)
    return model


class Arguments(InDirectory):
    def test_each_argument_of_a_wrong_type_is_named_with_what_it_should_be(self):
        checkpoint, new, count = pawl.tf.Checkpoint(v=tf.Variable(1.0)), self.directory / "new", tf.Variable(0)
        make = pawl.tf.CheckpointManager
        for call, words in (
            (lambda: checkpoint.save(None), "the path is a str, bytes or os.PathLike, not NoneType"),
            (lambda: checkpoint.restore(["a"]), "the path is a str, bytes or os.PathLike, not list"),
            (lambda: checkpoint.save(new, step="x"), "step='x' is not a whole number"),
            (lambda: make(5, new, 3), "checkpoint is a pawl.tf.Checkpoint, not int: 5"),
            (lambda: make(checkpoint, None, 3), "the path is a str, bytes or os.PathLike, not NoneType"),
            (lambda: make(checkpoint, new, {}), "max_to_keep={} is not a whole number"),
            (lambda: make(checkpoint, new, 3, step_counter=count, checkpoint_interval=-5), "checkpoint_interval=-5: "),
            (lambda: make(checkpoint, new, 3, init_fn=5), "init_fn is a function, not int: 5"),
            (lambda: make(checkpoint, new, 3, group=5), "group is a pawl.Group, not int: 5"),
            (lambda: pawl.tf.check_scope(tf.distribute.get_strategy(), variables=5), "variables are a list"),
        ):
            with self.subTest(words), self.assertRaisesRegex((TypeError, pawl.UsageError), "^" + words):
                call()
        with make(checkpoint, self.directory / "run", 3) as manager:
            with self.assertRaisesRegex(pawl.UsageError, "^a step is a whole number, .* not 'x'"):
                manager.save("x")


class Both(InDirectory):
    """Everything is saved by tf.train and by pawl."""

    def setUp(self):
        super().setUp()
        self.prefix = str(self.directory / "tf" / "ckpt")

    def save(self, model):
        self.saved = jobs.train(model)
        objects = {"model": model, "optimizer": model.optimizer}
        self.tf_path = tf.train.Checkpoint(**objects).save(self.prefix)
        self.pawl_path = pawl.tf.Checkpoint(**objects).save(self.run_path)

    def tf_restore(self, model):
        return tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(self.tf_path)

    def pawl_restore(self, model, **policies):
        checkpoint = pawl.tf.Checkpoint(model=model, optimizer=model.optimizer)
        return checkpoint.restore(self.pawl_path, **policies)

    def mismatch(self, model, **policies):
        """The text of a restore that is refused, and changes nothing."""
        before = jobs.values(model)
        with self.assertRaises(pawl.Mismatch) as caught:
            self.pawl_restore(model, **policies)
        for one, two in zip(jobs.values(model), before, strict=True):
            self.assert_bits(one, two)
        self.assertTrue(caught.exception.next)
        return str(caught.exception.report)

    def kernel(self, model, name):
        return model.get_layer(name).kernel.numpy()


class Silent(Both):
    def test_r06_another_optimizer_takes_second_moments_for_first(self):
        def one_kernel(optimizer):
            model = keras.Sequential([keras.Input((jobs.COLUMNS,)), keras.layers.Dense(2, name="a", use_bias=False)])
            model.compile(optimizer, "mse", run_eagerly=True)
            return model

        self.save(one_kernel(keras.optimizers.RMSprop(momentum=0.9)))
        other = one_kernel(keras.optimizers.Adam())
        other.optimizer.build(other.trainable_variables)
        self.tf_restore(other).assert_consumed()
        self.assert_bits(other.optimizer._momentums[0].numpy(), self.saved.optimizer._velocities[0].numpy())

        text = self.mismatch(one_kernel(keras.optimizers.Adam()))
        self.assertIn('the optimizer changed from "RMSprop" in the checkpoint to "Adam" in the state', text)

    def test_r06_a_class_of_the_same_slots(self):
        self.save(layers("a", "b"))
        adamw = layers("a", "b", optimizer=keras.optimizers.AdamW)
        adamw.optimizer.build(adamw.trainable_variables)
        self.tf_restore(adamw).assert_consumed()
        text = self.mismatch(layers("a", "b", optimizer=keras.optimizers.AdamW))
        self.assertIn('the optimizer changed from "Adam" in the checkpoint to "AdamW" in the state', text)

    def test_r05_two_layers_of_one_shape_change_places(self):
        self.save(layers("a", "b", "c"))
        other = layers("b", "a", "c")
        other.optimizer.build(other.trainable_variables)
        self.tf_restore(other).assert_consumed()
        self.assert_bits(self.kernel(other, "b"), self.kernel(self.saved, "a"))

        other = layers("b", "a", "c")
        self.pawl_restore(other).assert_consumed()
        for name in "abc":
            self.assert_bits(self.kernel(other, name), self.kernel(self.saved, name))

    def test_r05_a_layer_is_put_in_front(self):
        self.save(layers("a", "b", width=jobs.COLUMNS))
        other = layers("new", "a", "b", width=jobs.COLUMNS)
        fresh = self.kernel(other, "b")
        self.tf_restore(other)
        self.assert_bits(self.kernel(other, "new"), self.kernel(self.saved, "a"))
        self.assert_bits(self.kernel(other, "a"), self.kernel(self.saved, "b"))
        self.assert_bits(self.kernel(other, "b"), fresh)

        other = layers("new", "a", "b", width=jobs.COLUMNS)
        text = self.mismatch(other)
        self.assertIn('"model/new/kernel", [4, 4] F32 in the state, is not in the checkpoint', text)
        self.assertNotIn('"model/a', text)
        self.pawl_restore(other, missing="allow")
        for name in "ab":
            self.assert_bits(self.kernel(other, name), self.kernel(self.saved, name))

    def test_r07_a_learning_rate_that_was_changed(self):
        self.save(layers("a", "b"))
        other = layers("a", "b", optimizer=lambda: keras.optimizers.Adam(0.1))
        self.tf_restore(other)
        self.assertAlmostEqual(float(other.optimizer.learning_rate), 0.001)

        other = layers("a", "b", optimizer=lambda: keras.optimizers.Adam(0.1))
        with self.assertLogs("pawl", "WARNING") as logged:
            self.pawl_restore(other)
        self.assertIn('"optimizer/learning_rate" is 0.001 in the checkpoint and 0.1 in the state', logged.output[0])
        self.assertAlmostEqual(float(other.optimizer.learning_rate), 0.001)

    def test_r07_a_setting_that_tensorflow_never_saves(self):
        self.save(layers("a", "b"))
        other = layers("a", "b", optimizer=lambda: keras.optimizers.Adam(beta_1=0.5))
        self.tf_restore(other)
        self.assertEqual(other.optimizer.beta_1, 0.5)

        other = layers("a", "b", optimizer=lambda: keras.optimizers.Adam(beta_1=0.5))
        with self.assertLogs("pawl", "WARNING") as logged:
            self.pawl_restore(other)
        self.assertIn('"optimizer/beta_1" is 0.9 in the checkpoint and 0.5 in the state', logged.output[0])
        self.assertEqual(other.optimizer.beta_1, 0.9)

    def test_r03_a_layer_is_added_while_the_optimizer_is_not_built(self):
        self.save(layers("a", "b", width=jobs.COLUMNS))
        other = layers("a", "b", "c")
        fresh = self.kernel(other, "c")
        jobs.train(other)
        self.tf_restore(other)  # which says nothing
        other = layers("a", "b", "c")
        fresh = self.kernel(other, "c")
        self.tf_restore(other)
        self.assert_bits(self.kernel(other, "c"), fresh)
        text = self.mismatch(layers("a", "b", "c"))
        self.assertIn('"model/c/kernel", [4, 2] F32 in the state, is not in the checkpoint', text)
        self.assertIn('the optimizer slot "momentums" of "model/c/kernel", [4, 2] F32 in the state, is not in', text)

    def test_r01_a_model_that_is_not_built(self):
        self.save(layers("a", "b"))
        other = keras.Sequential([keras.layers.Dense(9, name="a"), keras.layers.Dense(2, name="b")])
        other.compile("adam", "mse", run_eagerly=True)
        self.tf_restore(other)
        with self.assertRaisesRegex(ValueError, r"incompatible tensor with shape \(4, 4\)"):
            other.fit(*jobs.data(self.saved), verbose=0)

        other = keras.Sequential([keras.layers.Dense(9, name="a"), keras.layers.Dense(2, name="b")])
        other.compile("adam", "mse")
        with self.assertRaisesRegex(pawl.UsageError, "the Sequential .* is not built") as caught:
            self.pawl_restore(other)
        self.assertIn("build(input_shape)", caught.exception.next)

    def test_r09_the_wrong_directory(self):
        self.save(layers("a", "b"))
        model = layers("a", "b")
        before = self.kernel(model, "a")
        found = tf.train.latest_checkpoint(str(self.directory / "elsewhere"))
        self.assertIsNone(found)
        tf.train.Checkpoint(model=model).restore(found)
        self.assert_bits(self.kernel(model, "a"), before)

        checkpoint = pawl.tf.Checkpoint(model=model)
        with self.assertRaisesRegex(pawl.UsageError, "the path is None") as caught:
            checkpoint.restore(None)
        self.assertIn("restore_or_initialize", caught.exception.next)
        with self.assertRaisesRegex(pawl.NotFound, "elsewhere"):
            checkpoint.restore(self.directory / "elsewhere")

    def test_r03_dropouts_seed_is_in_no_checkpoint_of_tensorflow(self):
        def seed(model):
            return model.layers[1].seed_generator.state.numpy()

        self.save(jobs.dense())
        self.assertFalse([n for n, _ in tf.train.list_variables(self.tf_path) if "seed" in n])
        other = jobs.dense()
        self.tf_restore(other)
        self.assertNotEqual(seed(other).tolist(), seed(self.saved).tolist())
        other = jobs.dense()
        self.pawl_restore(other)
        self.assert_bits(seed(other), seed(self.saved))


class Told(Both):
    def test_r01_a_layer_of_another_width(self):
        self.save(layers("a", "b", width=2))
        other = layers("a", "b", width=3)
        with self.assertRaisesRegex(ValueError, r"incompatible tensor with shape \(4, 2\)"):  # the first alone
            self.tf_restore(other)
        text = self.mismatch(layers("a", "b", width=3))
        self.assertIn('"model/b/kernel" is [4, 2] F32 in the checkpoint and [4, 3] F32 in the state', text)
        self.assertIn('"model/b/bias"', text)
        self.assertIn('the optimizer slot "momentums" of "model/b/kernel"', text)

    def test_r02_another_type(self):
        self.save(layers("a", "b"))
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "does not equal original dtype"):
            self.tf_restore(layers("a", "b", dtype="bfloat16"))
        text = self.mismatch(layers("a", "b", dtype="bfloat16"))
        self.assertIn('"model/a/kernel" is [4, 4] F32 in the checkpoint and [4, 4] BF16 in the state', text)
        other = layers("a", "b", dtype="bfloat16")
        report = self.pawl_restore(other, cast="allow")
        self.assertGreater(report.cast, 0)
        expected = tf.cast(self.kernel(self.saved, "a"), tf.bfloat16).numpy()
        self.assert_bits(self.kernel(other, "a"), expected)

    def test_r03_what_assert_consumed_says_of_a_layer_that_was_added(self):
        self.save(layers("a", "b", width=jobs.COLUMNS))
        other = layers("a", "b", "c")
        other.optimizer.build(other.trainable_variables)
        with self.assertRaisesRegex(AssertionError, "Python objects that were not bound to checkpointed values"):
            self.tf_restore(other).assert_consumed()
        text = self.mismatch(layers("a", "b", "c"))
        self.assertEqual(text.count("is not in the checkpoint"), 6)

    def test_r04_a_layer_was_removed(self):
        self.save(layers("a", "b", "c", width=jobs.COLUMNS))
        other = layers("a", "b", width=jobs.COLUMNS)
        self.tf_restore(other)  # says nothing
        with self.assertRaisesRegex(AssertionError, "Unresolved object in checkpoint"):
            self.tf_restore(other).assert_consumed()
        text = self.mismatch(layers("a", "b", width=jobs.COLUMNS))
        self.assertIn('"model/c/kernel", [4, 4] F32 in the checkpoint, is not in the state', text)

    def test_r06_an_optimizer_of_other_slots(self):
        self.save(layers("a", "b"))
        other = layers("a", "b", optimizer=lambda: keras.optimizers.SGD(0.1, momentum=0.9))
        other.optimizer.build(other.trainable_variables)
        with self.assertRaisesRegex(ValueError, r"incompatible tensor with shape \(4, 4\) when attempting to restore"):
            self.tf_restore(other)
        text = self.mismatch(layers("a", "b", optimizer=lambda: keras.optimizers.SGD(0.1, momentum=0.9)))
        self.assertIn('the optimizer changed from "Adam" in the checkpoint to "SGD" in the state', text)

    def test_r06_a_schedule_takes_the_place_of_a_number(self):
        def schedule():
            return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 100))

        self.save(layers("a", "b"))
        other = layers("a", "b", optimizer=schedule)
        other.optimizer.build(other.trainable_variables)
        with self.assertRaisesRegex(ValueError, r"incompatible tensor with shape \(\) when attempting to restore"):
            self.tf_restore(other)
        other = layers("a", "b", optimizer=schedule)
        with self.assertLogs("pawl", "WARNING") as logged:
            self.pawl_restore(other)
        self.assertRegex(logged.output[0], '"optimizer/learning_rate" is 0.001 in the checkpoint and .*CosineDecay')
        self.assert_bits(other.optimizer._momentums[0].numpy(), self.saved.optimizer._momentums[0].numpy())

    def test_r06_j05_a_layer_is_added_after_the_optimizer_was_built(self):
        model = layers("a", "b")
        model.optimizer.build(model.trainable_variables)
        model.add(keras.layers.Dense(2, name="c"))
        with self.assertRaisesRegex(ValueError, "Unknown variable: <Variable path=.*c/kernel"):
            model.optimizer.apply_gradients([(tf.ones_like(v), v) for v in model.trainable_variables])
        # pawl saves what there is: three layers, and slots of two.
        pawl.tf.Checkpoint(model=model, optimizer=model.optimizer).save(self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertIn("model/c/kernel", saved)
            self.assertNotIn("optimizer/c/kernel/momentums", saved)

    def test_r09_a_prefix_without_its_number(self):
        self.save(layers("a", "b"))
        model = layers("a", "b")
        with self.assertRaisesRegex(tf.errors.NotFoundError, "Failed to find any matching files"):
            tf.train.Checkpoint(model=model).restore(self.prefix)
        with self.assertRaisesRegex(pawl.NotFound, "ckpt-1"):
            pawl.tf.Checkpoint(model=model).restore(self.prefix)


class Damage(Both):
    def damaged(self, change, steps=1):
        """TensorFlow's answer and pawl's, after `change` of the file with the newest values."""
        block = jobs.Block()
        checkpoint = tf.train.Checkpoint(block=block)
        for step in range(steps):
            block.w.assign(tf.fill((2, 3), float(step)))
            path = checkpoint.save(self.prefix)
            pawl.tf.Checkpoint(block=block).save(self.run_path)
        (newest,) = pathlib.Path(self.run_path).glob(f"*{steps}/*.safetensors")
        newest.chmod(0o644)
        for file in (pathlib.Path(f"{path}.data-00000-of-00001"), newest):
            change(file)
        return path

    @staticmethod
    def flip(file):
        raw = bytearray(file.read_bytes())
        raw[2 if file.suffix != ".safetensors" else -3] ^= 4
        file.write_bytes(raw)

    @staticmethod
    def cut(file):
        os.truncate(file, file.stat().st_size - 5)

    def test_r08_a_flipped_bit(self):
        path = self.damaged(self.flip)
        with self.assertRaisesRegex(tf.errors.DataLossError, "Checksum does not match"):
            tf.train.Checkpoint(block=jobs.Block()).restore(path)
        with self.assertRaises(pawl.Damaged) as caught:
            pawl.tf.Checkpoint(block=jobs.Block()).restore(self.run_path)
        self.assertRegex(str(caught.exception), "block/")

    def test_r08_a_file_that_is_cut(self):
        path = self.damaged(self.cut)
        with self.assertRaisesRegex((IndexError, tf.errors.OpError), "Read less bytes than requested|[Tt]runc"):
            tf.train.Checkpoint(block=jobs.Block()).restore(path)
        with self.assertRaisesRegex(pawl.Damaged, "safetensors"):
            pawl.tf.Checkpoint(block=jobs.Block()).restore(self.run_path)

    def test_r08_the_newest_is_damaged_and_the_one_before_is_taken_loudly(self):
        path = self.damaged(self.flip, steps=3)
        with self.assertRaises(tf.errors.DataLossError):
            tf.train.Checkpoint(block=jobs.Block()).restore(path)
        other = jobs.Block(9.0)
        with self.assertLogs("pawl", "ERROR"):
            report = pawl.tf.Checkpoint(block=other).restore(self.run_path)
        self.assertEqual((report.step, report.fallbacks, other.w.numpy()[0, 0]), (2, 1, 1.0))
        other = jobs.Block(9.0)
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(block=other), self.run_path, None) as manager:
            with self.assertLogs("pawl"):
                self.assertEqual(manager.restore_or_initialize(), f"{self.run_path}@2")
        self.assertEqual((manager.report.fallbacks, other.w.numpy()[0, 0]), (1, 1.0))
        with self.assertRaises(pawl.Damaged):
            pawl.tf.Checkpoint(block=other).restore(f"{self.run_path}@3")

    def test_r09_the_newest_index_is_gone(self):
        path = self.damaged(lambda file: None, steps=3)
        os.remove(f"{path}.index")
        self.assertIsNone(tf.train.latest_checkpoint(os.path.dirname(path)))  # training starts at 0
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(block=jobs.Block()), os.path.dirname(path), None)
        with self.assertRaises(tf.errors.NotFoundError):
            manager.restore_or_initialize()
        for file in pathlib.Path(self.run_path).glob("*3/*"):
            if file.suffix != ".safetensors":
                file.unlink()
        other = jobs.Block(9.0)
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(block=other), self.run_path, None) as manager:
            self.assertEqual(manager.restore_or_initialize(), f"{self.run_path}@2")
            self.assertEqual(manager.save(), f"{self.run_path}@4")

    def test_r09_the_list_of_checkpoints_is_gone(self):
        path = self.damaged(lambda file: None, steps=2)
        where = os.path.dirname(path)
        os.remove(os.path.join(where, "checkpoint"))
        again = tf.train.CheckpointManager(tf.train.Checkpoint(block=jobs.Block()), where, None)
        self.assertIsNone(again.restore_or_initialize())
        self.assertTrue(again.save().endswith("ckpt-1"), "TensorFlow writes over what is there")
        latest = pathlib.Path(self.run_path) / "latest"
        if latest.is_symlink() or latest.exists():
            latest.unlink()
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(block=jobs.Block()), self.run_path, None) as manager:
            self.assertEqual(manager.restore_or_initialize(), f"{self.run_path}@2")


class Paths(Both):
    def tf_save(self, path):
        return tf.train.Checkpoint(a=tf.Variable(1.0)).save(path)

    def pawl_save(self, path):
        return pawl.tf.Checkpoint(a=tf.Variable(1.0)).save(path)

    def test_p01_directories_are_made(self):
        self.tf_save(str(self.directory / "a/b/c/ckpt"))
        self.pawl_save(self.directory / "d/e/f")

    def test_p04_a_relative_directory_and_chdir(self):
        self.addCleanup(os.chdir, os.getcwd())
        first, second = self.directory / "one", self.directory / "two"
        for folder in (first, second):
            folder.mkdir()
        os.chdir(first)
        theirs = tf.train.CheckpointManager(tf.train.Checkpoint(a=tf.Variable(1.0)), "./tf", None)
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=tf.Variable(1.0)), "./pawl", None) as ours:
            theirs.save()
            ours.save()
            os.chdir(second)
            theirs.save()
            ours.save()
            self.assertEqual([os.path.dirname(path) for path in ours.checkpoints], [str(first)] * 2)
        self.assertTrue((second / "tf").exists(), "TensorFlow's second save went elsewhere")
        self.assertFalse((second / "pawl").exists())

    def test_p08_a_file_in_the_way(self):
        (self.directory / "file").write_text("")
        with self.assertRaisesRegex(tf.errors.FailedPreconditionError, "is not a directory"):
            self.tf_save(str(self.directory / "file/x/ckpt"))
        with self.assertRaisesRegex(pawl.Error, "file"):
            self.pawl_save(self.directory / "file/x")

    def test_p08_a_tilde(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        self.tf_save("~/ck")
        self.assertTrue((self.directory / "~").is_dir(), "TensorFlow makes a directory of that name")
        with self.assertRaisesRegex(pawl.UsageError, "~"):
            self.pawl_save("~/run")

    def test_p08_a_nul(self):
        written = self.tf_save(str(self.directory / "a\0b"))
        self.assertIn("\0", written)
        self.assertTrue((self.directory / "a.index").exists() or list(self.directory.glob("a*")))
        with self.assertRaisesRegex((pawl.Error, ValueError), "NUL|null"):
            self.pawl_save(str(self.directory / "c\0d"))

    def test_p10_a_bucket(self):
        with self.assertRaisesRegex(tf.errors.UnimplementedError, "File system scheme 's3' not implemented"):
            self.tf_save("s3://bucket/ckpt")
        with self.assertRaisesRegex(pawl.UsageError, "s3:// is an object store") as caught:
            self.pawl_save("s3://bucket/run")
        self.assertIn("save to a directory", caught.exception.next)


class Saving(Both):
    def limited(self, function):
        """Calls it where no file may be larger than 64 KiB."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, before[1]))
        try:
            function()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)

    def test_s06_a_file_may_not_be_so_large(self):
        big = tf.Variable(tf.zeros((1000, 1000)))
        checkpoint = tf.train.Checkpoint(a=big)

        def theirs():
            with self.assertRaisesRegex(tf.errors.OutOfRangeError, "File too large"):
                checkpoint.save(self.prefix)

        def ours():
            with self.assertRaises(pawl.Error) as caught:
                pawl.tf.Checkpoint(a=big).save(self.run_path)
            self.assertRegex(str(caught.exception), "64.0 KiB|65536|limit")

        self.limited(theirs)
        self.assertEqual(int(checkpoint.save_counter), 1, "it has counted a save that failed")
        self.limited(ours)

    def test_s03_the_last_save_fails_in_the_background(self):
        big = tf.Variable(tf.zeros((1000, 1000)))
        checkpoint = tf.train.Checkpoint(a=big)
        options = tf.train.CheckpointOptions(enable_async=True)
        checkpoint.save(self.prefix, options=options)
        checkpoint.sync()

        def theirs():
            checkpoint.save(self.prefix, options=options)
            checkpoint.sync()  # returns None, though nothing was saved

        self.limited(theirs)
        self.assertFalse(pathlib.Path(f"{self.prefix}-2.index").exists())

        manager = pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=big), self.run_path, None)
        manager.save()
        manager.sync()

        def ours():
            with self.assertRaises(pawl.Error):
                manager.save()
                manager.sync()

        self.limited(ours)
        manager.close()
        self.assertEqual(pawl.ls(self.run_path)[-1].step, 1)

    def test_s10_two_managers_in_one_directory(self):
        first, second = tf.Variable(1.0), tf.Variable(2.0)
        theirs = [tf.train.CheckpointManager(tf.train.Checkpoint(a=v), self.prefix, None) for v in (first, second)]
        self.assertEqual(theirs[0].save(), theirs[1].save())  # the first is lost

        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=first), self.run_path, None):
            with self.assertRaisesRegex(pawl.Busy, "another handle of this process"):
                pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=second), self.run_path, None)

    def test_s14_a_checkpoint_that_is_read_stays(self):
        variable = tf.Variable(0.0)
        theirs = tf.train.CheckpointManager(tf.train.Checkpoint(a=variable), self.prefix, 1)
        first = theirs.save()
        theirs.save()
        with self.assertRaises(tf.errors.NotFoundError):
            tf.train.Checkpoint(a=variable).restore(first)

        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=variable), self.run_path, 1) as manager:
            manager.save()
            manager.sync()
            with pawl.open(self.run_path) as reading:
                manager.save()
                manager.save()
                manager.sync()
                self.assertEqual(np.asarray(reading["a"]).item(), 0.0)

    def test_s01_another_thread_trains(self):
        """TensorFlow says nothing of a save beside a thread that trains; pawl saves on that thread, and it goes on."""
        many = [tf.Variable(tf.zeros((256, 256))) for _ in range(64)]
        one, stop = tf.ones((256, 256)), threading.Event()

        @tf.function
        def step():
            for variable in many:
                variable.assign_add(one)

        step()

        def train():
            while not stop.is_set():
                step()

        thread = threading.Thread(target=train)
        thread.start()
        try:
            tf.train.Checkpoint(many=many).save(self.prefix)
        finally:
            stop.set()
            thread.join()
        # On the thread that trains, with steps made while it is written: all of one step.
        slow = {"bandwidth_bytes_per_s": 8 << 20, "in_flight_bytes": 1 << 20, "budget_bytes": 8 << 20}
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(many=many), self.run_path, None, **slow) as manager:
            expected = many[0].numpy()[0, 0]
            manager.save()
            for _ in range(3):
                step()
            self.assertFalse(manager.run.fenced())
        with pawl.open(self.run_path) as saved:
            self.assertEqual({np.asarray(saved[name]).max() for name in saved}, {expected})

    def test_s09_killed_at_any_time(self):
        program = (
            "import os, signal, sys, threading, time, tensorflow as tf, pawl.tf\n"
            "checkpoint = pawl.tf.Checkpoint(a=tf.Variable(tf.zeros((500, 500))), step=tf.Variable(0))\n"
            "manager = pawl.tf.CheckpointManager(checkpoint, sys.argv[1], 2, step_counter=checkpoint.step)\n"
            "kill = lambda: (time.sleep(float(sys.argv[2])), os.kill(os.getpid(), signal.SIGKILL))\n"
            "threading.Thread(target=kill).start()\n"
            "while True:\n"
            "    checkpoint.step.assign_add(1)\n"
            "    checkpoint.a.assign_add(tf.ones((500, 500)))\n"
            "    manager.save()\n"
        )
        for number, after in enumerate((0.05, 0.13, 0.29)):
            path = self.directory / f"killed{number}"
            self.assertEqual(self.program(program, path, after, check=False).returncode, -signal.SIGKILL)
            checkpoint = pawl.tf.Checkpoint(a=tf.Variable(tf.zeros((500, 500))), step=tf.Variable(0))
            with pawl.tf.CheckpointManager(checkpoint, path, 2) as manager:
                manager.restore_or_initialize()
            step = int(checkpoint.step)
            self.assertTrue((checkpoint.a.numpy() == step).all(), step)
            shutil.rmtree(path)


if __name__ == "__main__":
    support.main()
