# SPDX-License-Identifier: Apache-2.0
"""The contenders of keras_fit.py: each saves a model and its optimizer in `fit` as its own documentation has it.

What `wait` returns from the contender calls written. Only pawl syncs its files; in the loop nobody syncs those of the
others, and where it is measured how long it takes until they are durable, the job does. All keep the newest checkpoint
alone: ModelCheckpoint and BackupAndRestore write over it, the managers remove the one before.
"""

import pathlib
import shutil

import keras
import tensorflow


class Saver:
    """Saves nothing."""

    syncs = True  # is what is written durable?

    def __init__(self, directory, every):
        self.directory, self.every = pathlib.Path(directory), every

    def begin(self, model):
        """Before it is trained."""

    def callbacks(self):
        """For one call of fit."""
        return []

    def wait(self):
        """Returns when what was saved is written, as the contender sees it."""

    def close(self):
        """Nothing is saved any more."""

    def restore(self, model):
        """Brings a model that was made and compiled, and its optimizer, to what was saved."""


class EveryFew(keras.callbacks.Callback):
    """What a user writes who has a manager: a save every few batches."""

    def __init__(self, every, save):
        super().__init__()
        self.every, self.save = every, save

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self.every == 0:
            self.save()


class PawlKeras(Saver):
    def begin(self, model):
        import pawl.keras

        self.callback = pawl.keras.Checkpoint(self.directory / "run", every=self.every, keep_last=1)

    def callbacks(self):
        return [self.callback]

    def wait(self):
        self.callback.wait()

    def close(self):
        self.callback.close()

    def restore(self, model):
        self.begin(model)
        self.callback.begin(model)


class PawlTf(Saver):
    def begin(self, model):
        self.manager = self.manager_of(model)

    def manager_of(self, model):
        import pawl.tf

        checkpoint = pawl.tf.Checkpoint(model=model, optimizer=model.optimizer)
        return pawl.tf.CheckpointManager(checkpoint, self.directory / "run", max_to_keep=1)

    def callbacks(self):
        return [EveryFew(self.every, self.manager.save)]

    def wait(self):
        self.manager.sync()

    def close(self):
        self.manager.close()

    def restore(self, model):
        self.begin(model)
        self.manager.restore()


class Tf(Saver):
    """tf.train.CheckpointManager."""

    syncs = False
    is_async = False

    def begin(self, model):
        self.manager = self.manager_of(model)
        self.options = tensorflow.train.CheckpointOptions(enable_async=self.is_async)

    def manager_of(self, model):
        checkpoint = tensorflow.train.Checkpoint(model=model, optimizer=model.optimizer)
        return tensorflow.train.CheckpointManager(checkpoint, str(self.directory / "tf"), max_to_keep=1)

    def callbacks(self):
        return [EveryFew(self.every, lambda: self.manager.save(options=self.options))]

    def wait(self):
        self.manager.sync()

    def restore(self, model):
        manager = self.manager_of(model)
        manager.checkpoint.restore(manager.latest_checkpoint)


class TfAsync(Tf):
    """Of the variables themselves: with a model of Keras 3 the second save of TensorFlow 2.21 raises ValueError.

    It copies Keras's variables anew within a tf.function, which may make none after its first call.
    """

    is_async = True

    def manager_of(self, model):
        variables = [variable.value for variable in (*model.variables, *model.optimizer.variables)]
        checkpoint = tensorflow.train.Checkpoint(variables=variables)
        return tensorflow.train.CheckpointManager(checkpoint, str(self.directory / "tf"), max_to_keep=1)


class ModelCheckpoint(Saver):
    """The whole model, a .keras file."""

    syncs = False
    weights_only = False
    name = "model.keras"

    def callbacks(self):
        path = str(self.directory / self.name)
        return [
            keras.callbacks.ModelCheckpoint(path, save_freq=self.every, save_weights_only=self.weights_only, verbose=0)
        ]

    def restore(self, model):
        model.load_weights(str(self.directory / self.name))


class Weights(ModelCheckpoint):
    """Variables of the model and its optimizer, an .h5 file."""

    weights_only = True
    name = "model.weights.h5"


class Backup(Saver):
    syncs = False

    def callback(self):
        path = str(self.directory / "backup")
        return keras.callbacks.BackupAndRestore(path, save_freq=self.every, delete_checkpoint=False)

    def callbacks(self):
        shutil.rmtree(self.directory / "backup", ignore_errors=True)  # or fit would begin with it
        return [self.callback()]

    def restore(self, model):
        callback = self.callback()
        callback.set_model(model)
        callback.on_train_begin()


SAVERS = {
    "nothing": Saver,
    "pawl.keras": PawlKeras,
    "pawl.tf": PawlTf,
    "ModelCheckpoint .keras": ModelCheckpoint,
    "ModelCheckpoint .h5": Weights,
    "BackupAndRestore": Backup,
    "tf.train": Tf,
    "tf.train async": TfAsync,
}
