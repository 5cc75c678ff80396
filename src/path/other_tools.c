/* SPDX-License-Identifier: Apache-2.0 */
/* Tells checkpoints of other tools by their file names, for error messages (R09). Opens nothing. */
#include "path/path.h"

#include <fnmatch.h>

#define NEXT_TORCH                                                                                 \
    "it is not read as a whole: look at the files in it, one by one, with pawl show, or load it "  \
    "with PyTorch and save the state through pawl"
#define NEXT_OPEN                                                                                  \
    "this is no run: look at it with pawl show, convert it into a new run with pawl convert, or "  \
    "restore a state from it with pawl_checkpoint_restore"

typedef struct sign {
    const char *pattern; /* as in a shell */
    bool directory;
    tool_checkpoint says;
} sign;

/* The first that fits counts; names that only one tool uses come first. */
static const sign signs[] = {
    {".metadata", false, {"a PyTorch distributed checkpoint (DCP)", NEXT_OPEN}},
    {"__*_*.distcp",
     false,
     {"an unfinished PyTorch distributed checkpoint (DCP): its .metadata is missing",
      "it was not saved to its end, or not copied whole: take another one, or get .metadata"}},
    {"latest_checkpointed_iteration.txt", false, {"checkpoints of Megatron-LM", NEXT_TORCH}},
    {"iter_[0-9][0-9][0-9][0-9][0-9][0-9][0-9]", true, {"checkpoints of Megatron-LM", NEXT_TORCH}},
    {"global_step[0-9]*", true, {"checkpoints of DeepSpeed", NEXT_TORCH}},
    {"zero_pp_rank_*", false, {"a checkpoint of DeepSpeed", NEXT_TORCH}},
    {"checkpoint-[0-9]*", true, {"checkpoints of the Hugging Face Trainer", NEXT_TORCH}},
    {"checkpoint_[0-9]*", true, {"checkpoints of Hugging Face Accelerate", NEXT_TORCH}},
    {"commit_success.txt", false, {"a checkpoint of Orbax", NEXT_OPEN}},
    {"_CHECKPOINT_METADATA", false, {"a checkpoint of Orbax", NEXT_OPEN}},
    {"_METADATA", false, {"a checkpoint of Orbax", NEXT_OPEN}},
    {"manifest.ocdbt", false, {"a checkpoint of Orbax", NEXT_OPEN}},
    {"*.orbax-checkpoint-tmp*", true, {"unfinished checkpoints of Orbax", "take a finished step"}},
    {"saved_model.pb", false, {"a TensorFlow SavedModel", NEXT_OPEN}},
    {"*.data-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]",
     false,
     {"a TensorFlow checkpoint", NEXT_OPEN}},
    {"*.index", false, {"a TensorFlow checkpoint", NEXT_OPEN}},
    {"*.keras", false, {"a Keras model", NEXT_OPEN}},
    {"*.h5", false, {"an HDF5 file, such as older Keras weights", NEXT_OPEN}},
    {"*.hdf5", false, {"an HDF5 file, such as older Keras weights", NEXT_OPEN}},
    {"*.safetensors", false, {"safetensors weights", NEXT_OPEN}},
    {"*.ckpt", false, {"a PyTorch Lightning checkpoint", NEXT_OPEN}},
    {"*.pt", false, {"a PyTorch file", NEXT_OPEN}},
    {"*.pth", false, {"a PyTorch file", NEXT_OPEN}},
    {"pytorch_model*.bin", false, {"PyTorch weights", NEXT_OPEN}},
    {"*.gguf", false, {"GGUF weights", NEXT_OPEN}},
    {"*.npz", false, {"a NumPy archive", NEXT_OPEN}},
    {"*.npy", false, {"a NumPy array", NEXT_OPEN}},
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
