/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out what a file is, from what is in it. Its name counts only where the contents of several
 * formats look alike, and for what an index is called.
 */
#include "foreign/dcp/read.h"
#include "foreign/formats.h"
#include "foreign/gguf/gguf.h"
#include "foreign/hdf5/hdf5.h"
#include "foreign/keras/keras.h"
#include "foreign/numpy/npy_header.h"
#include "foreign/orbax/orbax.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/tensorflow/bundle.h"
#include "foreign/torch/read.h"
#include "foreign/zip/zip.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

/* For links whose target has a name that says nothing. */
bool foreign_opens(const char *name) {
    static const char *const endings[] = {
        ".safetensors", ".safetensors.index.json", ".gguf", ".pt",  ".pth", ".bin",
        ".ckpt",        ".bin.index.json",         ".npz",  ".npy", ".h5",  ".hdf5",
        ".keras",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(endings); i++) {
        if (ends_with(name, endings[i])) {
            return true;
        }
    }
    return false;
}

/* ---- what files look like ------------------------------------------------------------------- */

#define HEAD_BYTES 512u

/* What a file shows of itself. */
typedef struct looked {
    const char *name;
    uint64_t size;
    uint8_t head[HEAD_BYTES];
    size_t head_bytes;
    uint8_t tail[BUNDLE_MAGIC_BYTES];
    size_t tail_bytes;
    bool briefly;             /* of a zip its directory alone is read */
    const zip_directory *zip; /* NULL: it is none */
} looked;

static bool is_safetensors_index(const looked *l) {
    return safetensors_is_index(l->name);
}

static bool is_torch_index(const looked *l) {
    return torch_is_index(l->name);
}

/* A length, and a JSON object of that length; or a name that says so. */
static bool is_safetensors(const looked *l) {
    size_t at = 8;
    uint64_t n = 0;
    if (ends_with(l->name, ".safetensors")) {
        return true;
    }
    for (size_t i = 8; l->head_bytes > 8 && i > 0; i--) {
        n = n << 8 | l->head[i - 1];
    }
    while (at < l->head_bytes && strchr(" \t\r\n", l->head[at]) != NULL && l->head[at] != '\0') {
        at++;
    }
    return at < l->head_bytes && l->head[at] == '{' && n >= 2 && n <= l->size - 8;
}

static bool is_gguf(const looked *l) {
    return gguf_looks_like(l->head, l->head_bytes);
}

static bool is_dcp(const looked *l) {
    return strcmp(l->name, DCP_METADATA) == 0;
}

static bool is_hdf5(const looked *l) {
    return hdf5_looks_like(l->head, l->head_bytes);
}

static bool is_keras(const looked *l) {
    return l->zip != NULL && zip_find(l->zip, "config.json") != NULL &&
           (zip_find(l->zip, "model.weights.h5") != NULL ||
            zip_find(l->zip, "model.weights.npz") != NULL ||
            zip_find(l->zip, "model.weights.json") != NULL);
}

static bool is_keras_index(const looked *l) {
    return ends_with(l->name, ".weights.json");
}

static bool is_bundle(const looked *l) {
    return bundle_looks_like(l->tail, l->tail_bytes);
}

/* What was cut off shows by its name alone what it was. */
static bool is_named_as_bundle(const looked *l) {
    return ends_with(l->name, ".index");
}

static bool is_torch_zip(const looked *l) {
    return l->zip != NULL && torch_is_in_zip(l->zip);
}

static bool is_npy(const looked *l) {
    return npy_looks_like(l->head, l->head_bytes);
}

/* Any zip that has arrays. */
static bool is_npz(const looked *l) {
    for (size_t i = 0; l->zip != NULL && i < l->zip->count; i++) {
        if (ends_with(l->zip->members[i].name, ".npy")) {
            return true;
        }
    }
    return l->zip != NULL && ends_with(l->name, ".npz");
}

static bool is_torch_stream(const looked *l) {
    return torch_looks_like_stream(l->head, l->head_bytes);
}

static bool is_torch_tar(const looked *l) {
    return torch_looks_like_tar(l->head, l->head_bytes);
}

static const struct {
    bool (*is)(const looked *l);
    const archive_format *format;
} looks[] = {
    {is_safetensors_index, &format_safetensors_sharded},
    {is_torch_index, &format_torch_sharded},
    {is_dcp, &format_dcp},
    {is_gguf, &format_gguf},
    {is_bundle, &format_tensorflow},
    {is_torch_zip, &format_torch},
    {is_torch_stream, &format_torch_stream},
    {is_torch_tar, &format_torch_tar},
    {is_keras, &format_keras},
    {is_keras_index, &format_keras_sharded},
    {is_hdf5, &format_hdf5},
    {is_npz, &format_npz},
    {is_npy, &format_npy},
    {is_safetensors, &format_safetensors},
    {is_named_as_bundle, &format_tensorflow},
};

/* Looked for last, since it reads on, until the end of the file. */
static pawl_status is_hdf5_behind_a_block(store *s, const looked *l, bool *out, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint64_t ignored;
    TRY(store_open(s, l->name, STORE_READ, &file, err));
    return hdf5_locate(file, 0, l->size, &ignored, out, err);
}

/* ---- what none of them is ------------------------------------------------------------------- */

/* The first bytes as they can be shown: "abc", or 89 48 44 46. */
static void show_head(const looked *l, char out[64]) {
    size_t n = l->head_bytes < 8 ? l->head_bytes : 8;
    bool text = true;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        text = text && l->head[i] >= ' ' && l->head[i] < 0x7f;
    }
    if (text) {
        snprintf(out, 64, "\"%.*s\"", (int)n, (const char *)l->head);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(out + at, 64 - at, "%s%02x", i > 0 ? " " : "", l->head[i]);
    }
}

static pawl_status is_nothing_known(const store *s, const looked *l, pawl_error *err) {
    char head[64] = "";
    show_head(l, head);
    error_set(err, PAWL_EUSAGE, "this is a file, but no checkpoint that pawl knows");
    store_error_path(err, s, l->name);
    error_expected(err, "the directory of a run, or a checkpoint of another tool");
    if (l->size == 0) {
        error_found(err, "an empty file");
        error_next(err, "look for what should have written it: nothing is in it");
    } else if (strcmp(l->name, "saved_model.pb") == 0 ||
               strcmp(l->name, "saved_model.pbtxt") == 0) {
        error_found(err, "the graph of a TensorFlow SavedModel, by its name");
        error_next(err, "give the directory that it is in: its variables are below that");
    } else {
        error_found(err, "%llu bytes that begin with %s", (unsigned long long)l->size, head);
        error_next(err,
                   "give the directory of a run; what else can be opened is in docs/formats.md");
    }
    return PAWL_EUSAGE;
}

/* What stands in the place of a file that was not fetched. */
static pawl_status is_placeholder(const store *s, const looked *l, pawl_error *err) {
    static const struct {
        const char *head, *what, *next;
    } known[] = {
        {"version https://git-lfs.github.com/",
         "a pointer of Git LFS stands in the place of the file",
         "fetch the file itself: git lfs pull"},
        {"<!DOCTYPE html", "this is a web page, not the file", "download the file again"},
        {"<html", "this is a web page, not the file", "download the file again"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        size_t n = strlen(known[i].head);
        if (l->head_bytes >= n && strncasecmp((const char *)l->head, known[i].head, n) == 0) {
            error_set(err, PAWL_EDAMAGED, "%s", known[i].what);
            store_error_path(err, s, l->name);
            error_next(err, "%s", known[i].next);
            return PAWL_EDAMAGED;
        }
    }
    return PAWL_OK;
}

static pawl_status look_at(store *s, looked *l, zip_directory *zip, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    store_stat stat;
    byte_source bytes;
    TRY(store_stat_path(s, l->name, &stat, err));
    if (stat.type != STORE_FILE_TYPE) {
        error_set(err, PAWL_EUSAGE, "this is neither a directory nor a file");
        store_error_path(err, s, l->name);
        return PAWL_EUSAGE;
    }
    l->size = stat.size;
    l->head_bytes = stat.size < HEAD_BYTES ? (size_t)stat.size : HEAD_BYTES;
    TRY(store_open(s, l->name, STORE_READ, &file, err));
    TRY(store_read(file, 0, l->head, l->head_bytes, err));
    TRY(is_placeholder(s, l, err));
    l->tail_bytes = stat.size < sizeof(l->tail) ? 0 : sizeof(l->tail);
    TRY(store_read(file, stat.size - l->tail_bytes, l->tail, l->tail_bytes, err));
    if (!zip_looks_like(l->head, l->head_bytes)) {
        return PAWL_OK;
    }
    TRY(store_source(file, &bytes, err));
    pawl_status status = l->briefly ? zip_read_names(&bytes, zip, err) : zip_read(&bytes, zip, err);
    if (status != PAWL_OK && err->path[0] == '\0') {
        store_error_path(err, s, l->name);
    }
    l->zip = zip;
    return status;
}

static pawl_status recognise(store *s, const char *name, const archive_format **out,
                             pawl_error *err) {
    CLEANUP(zip_free) zip_directory zip = {0};
    looked l = {.name = name};
    if (orbax_is_named(name)) {
        *out = &format_orbax;
        return PAWL_OK;
    }
    TRY(look_at(s, &l, &zip, err));
    for (size_t i = 0; i < ARRAY_LENGTH(looks); i++) {
        if (looks[i].is(&l)) {
            *out = looks[i].format;
            return PAWL_OK;
        }
    }
    bool found;
    TRY(is_hdf5_behind_a_block(s, &l, &found, err));
    *out = &format_hdf5;
    return found ? PAWL_OK : is_nothing_known(s, &l, err);
}

/* ---- without opening ------------------------------------------------------------------------ */

static pawl_status cut_off(const store *s, const char *name, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "%s", what);
    store_error_path(err, s, name);
    return PAWL_EDAMAGED;
}

static pawl_status look_whole(const store *s, const looked *l, const archive_format *format,
                              pawl_error *err) {
    uint64_t header = 0;
    for (size_t i = 8; l->head_bytes >= 8 && i > 0; i--) {
        header = header << 8 | l->head[i - 1];
    }
    if (format == &format_tensorflow && !is_bundle(l)) {
        return cut_off(s, l->name, "the index of the checkpoint has no end", err);
    }
    if (format == &format_safetensors && (l->size < 8 || header > l->size - 8)) {
        return cut_off(s, l->name, "the data file ends before its header does", err);
    }
    return PAWL_OK;
}

pawl_status foreign_look(store *s, const char *name, const char **format, pawl_error *err) {
    CLEANUP(zip_free) zip_directory zip = {0};
    looked l = {.name = name, .briefly = true};
    TRY(look_at(s, &l, &zip, err));
    for (size_t i = 0; i < ARRAY_LENGTH(looks); i++) {
        if (looks[i].is(&l)) {
            *format = looks[i].format->name;
            return look_whole(s, &l, looks[i].format, err);
        }
    }
    return l.size == 0 ? cut_off(s, name, "an empty file", err) : is_nothing_known(s, &l, err);
}

const char *foreign_kind_name(foreign_kind kind) {
    static const archive_format *const formats[] = {
        [FOREIGN_DCP] = &format_dcp,
        [FOREIGN_ORBAX] = &format_orbax,
        [FOREIGN_TENSORFLOW] = &format_tensorflow,
        [FOREIGN_SAFETENSORS_SHARDED] = &format_safetensors_sharded,
        [FOREIGN_TORCH_SHARDED] = &format_torch_sharded,
        [FOREIGN_KERAS_SHARDED] = &format_keras_sharded,
    };
    return formats[kind]->name;
}

bool foreign_is_of_orbax(const char *name) {
    return orbax_is_named(name);
}

/* ---- opening -------------------------------------------------------------------------------- */

pawl_status foreign_open(store *s, bool own_store, const char *name, bool whole,
                         struct source **out, pawl_error *err) {
    const archive_format *format;
    pawl_status status = recognise(s, name, &format, err);
    if (status == PAWL_OK) {
        return archive_open(s, own_store, format, name, whole, out, err);
    }
    if (own_store) {
        store_destroy(s);
    }
    return status;
}
