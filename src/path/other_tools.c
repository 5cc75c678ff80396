/* SPDX-License-Identifier: Apache-2.0 */
/* Tells checkpoints of other tools by their file names, for error messages (R09). Opens nothing. */
#include "path/path.h"

#include <fnmatch.h>

#define NEXT_TORCH                                                                                 \
    "it is not read as a whole: list the files in it with pawl ls, and look at them, one by one, " \
    "with pawl show, or load it with PyTorch and save the state through pawl"
#define NEXT_OPEN                                                                                  \
    "this is no run: look at it with pawl show, convert it into a new run with pawl convert, or "  \
    "restore a state from it with pawl_checkpoint_restore"

#define NEXT_TEXT                                                                                  \
    "let TensorFlow write it as saved_model.pb: m = tf.saved_model.load(\"PATH\"), then "          \
    "tf.saved_model.save(m, \"NEW\", signatures=m.signatures)"

typedef struct sign {
    const char *pattern; /* as in a shell */
    bool directory;
    tool_checkpoint says;
} sign;

/* The first that fits counts; names that only one tool uses come first. */
static const sign signs[] = {
    {".metadata", false, {"a PyTorch distributed checkpoint (DCP)", NEXT_OPEN, true}},
    {"__*_*.distcp",
     false,
     {"an unfinished PyTorch distributed checkpoint (DCP): its .metadata is missing",
      "it was not saved to its end, or not copied whole: take another one, or get .metadata",
      false}},
    {"latest_checkpointed_iteration.txt", false, {"checkpoints of Megatron-LM", NEXT_TORCH, false}},
    {"iter_[0-9][0-9][0-9][0-9][0-9][0-9][0-9]",
     true,
     {"checkpoints of Megatron-LM", NEXT_TORCH, false}},
    {"global_step[0-9]*", true, {"checkpoints of DeepSpeed", NEXT_TORCH, false}},
    {"zero_pp_rank_*", false, {"a checkpoint of DeepSpeed", NEXT_TORCH, false}},
    {"checkpoint-[0-9]*", true, {"checkpoints of the Hugging Face Trainer", NEXT_TORCH, false}},
    {"checkpoint_[0-9]*", true, {"checkpoints of Hugging Face Accelerate", NEXT_TORCH, false}},
    {"commit_success.txt", false, {"a checkpoint of Orbax", NEXT_OPEN, true}},
    {"_CHECKPOINT_METADATA", false, {"a checkpoint of Orbax", NEXT_OPEN, true}},
    {"_METADATA", false, {"a checkpoint of Orbax", NEXT_OPEN, true}},
    {"manifest.ocdbt", false, {"a checkpoint of Orbax", NEXT_OPEN, true}},
    {"*.orbax-checkpoint-tmp*",
     true,
     {"unfinished checkpoints of Orbax", "take a finished step", false}},
    {"saved_model.pb", false, {"a TensorFlow SavedModel", NEXT_OPEN, true}},
    {"saved_model.pbtxt", false, {"a TensorFlow SavedModel that is text", NEXT_TEXT, false}},
    {"*.data-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]",
     false,
     {"a TensorFlow checkpoint", NEXT_OPEN, true}},
    {"*.index", false, {"a TensorFlow checkpoint", NEXT_OPEN, true}},
    {"*.keras", false, {"a Keras model", NEXT_OPEN, true}},
    {"*.h5", false, {"an HDF5 file, such as older Keras weights", NEXT_OPEN, true}},
    {"*.hdf5", false, {"an HDF5 file, such as older Keras weights", NEXT_OPEN, true}},
    {"*.safetensors", false, {"safetensors weights", NEXT_OPEN, true}},
    {"*.ckpt", false, {"a PyTorch Lightning checkpoint", NEXT_OPEN, true}},
    {"*.pt", false, {"a PyTorch file", NEXT_OPEN, true}},
    {"*.pth", false, {"a PyTorch file", NEXT_OPEN, true}},
    {"pytorch_model*.bin", false, {"PyTorch weights", NEXT_OPEN, true}},
    {"*.gguf", false, {"GGUF weights", NEXT_OPEN, true}},
    {"*.npz", false, {"a NumPy archive", NEXT_OPEN, true}},
    {"*.npy", false, {"a NumPy array", NEXT_OPEN, true}},
};

/* Patterns such as "*.h5" fit files of many programs. */
static bool is_unique(const sign *s) {
    return s->pattern[0] != '*';
}

const tool_checkpoint *tool_checkpoint_by_unique_name(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++) {
        if (is_unique(&signs[i]) && !signs[i].directory &&
            fnmatch(signs[i].pattern, name, 0) == 0) {
            return &signs[i].says;
        }
    }
    return NULL;
}

const tool_checkpoint *tool_checkpoint_by_name(const char *name, bool directory) {
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++) {
        if (signs[i].directory == directory && fnmatch(signs[i].pattern, name, 0) == 0) {
            return &signs[i].says;
        }
    }
    return NULL;
}
