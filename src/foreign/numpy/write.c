/* SPDX-License-Identifier: Apache-2.0 */
/* Writes arrays as NumPy does (numpy.lib.format, version 1.0): one, or several in an archive. */
#include "foreign/numpy/write.h"
#include "foreign/zip/write.h"
#include "foreign/zip/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_ALIGNMENT 64u
#define MAGIC_BYTES      10u /* and the version, and the length of the header */

/* NULL: NumPy has no such type. */
static const char *descr_of(pawl_dtype dtype) {
    static const char *const descrs[] = {
        [PAWL_BOOL] = "|b1", [PAWL_U8] = "|u1",  [PAWL_I8] = "|i1",  [PAWL_I16] = "<i2",
        [PAWL_U16] = "<u2",  [PAWL_F16] = "<f2", [PAWL_I32] = "<i4", [PAWL_U32] = "<u4",
        [PAWL_F32] = "<f4",  [PAWL_C64] = "<c8", [PAWL_F64] = "<f8", [PAWL_I64] = "<i8",
        [PAWL_U64] = "<u8",
    };
    return (size_t)dtype < ARRAY_LENGTH(descrs) ? descrs[dtype] : NULL;
}

static const char *type_refused(pawl_dtype dtype) {
    if (descr_of(dtype) != NULL) {
        return NULL;
    }
    return dtype == PAWL_BF16 ? "NumPy has no BF16; cast it to F32" : "NumPy has no such type";
}

const char *npz_refuses(const writer_item *item) {
    if (item->kind != PAWL_KIND_TENSOR) {
        return NULL;
    }
    char name[PAWL_MAX_NAME_BYTES + 1];
    writer_flat_name(item, name);
    return zip_name_leads_out(name) != NULL
               ? "no member of a zip file may have such a name; give it another (rename)"
               : type_refused(item->dtype);
}

const char *npy_refuses(const writer_item *item) {
    return item->kind != PAWL_KIND_TENSOR ? "a .npy file has no place for values"
                                          : type_refused(item->dtype);
}

/* ---- a header ------------------------------------------------------------------------------- */

static pawl_status put_shape(const writer_item *item, buffer *out, pawl_error *err) {
    TRY(buffer_append(out, "(", 1, err));
    for (int d = 0; d < item->ndim; d++) {
        TRY(buffer_decimal(out, item->shape[d], err));
        TRY(buffer_append(out, ", ", d + 1 < item->ndim ? 2 : item->ndim == 1 ? 1 : 0, err));
    }
    return buffer_append(out, ")", 1, err);
}

static pawl_status make_header(const writer_item *item, buffer *out, pawl_error *err) {
    static const uint8_t magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    out->size = 0;
    TRY(buffer_append(out, magic, sizeof(magic), err));
    TRY(buffer_printf(out, err,
                      "{'descr': '%s', 'fortran_order': False, 'shape': ", descr_of(item->dtype)));
    TRY(put_shape(item, out, err));
    TRY(buffer_append(out, ", }", 3, err));
    while ((out->size + 1) % HEADER_ALIGNMENT != 0) {
        TRY(buffer_append(out, " ", 1, err));
    }
    TRY(buffer_append(out, "\n", 1, err));
    size_t length = out->size - MAGIC_BYTES;
    out->data[8] = (uint8_t)length;
    out->data[9] = (uint8_t)(length >> 8);
    return PAWL_OK;
}

/* ---- files ---------------------------------------------------------------------------------- */

static pawl_status write_array(const writer_job *job, const writer_item *item, zip_writer *z,
                               buffer *header, pawl_error *err) {
    char array[PAWL_MAX_NAME_BYTES + 1];
    char name[sizeof(array) + 4];
    writer_flat_name(item, array);
    snprintf(name, sizeof(name), "%s.npy", array);
    TRY(make_header(item, header, err));
    TRY(zip_begin(z, name, header->size + item->bytes, 64, err));
    TRY(zip_take(z, header->data, header->size, err));
    return job->read(job->context, zip_take, z, err);
}

static pawl_status write_members(const writer_job *job, zip_writer *z, pawl_error *err) {
    CLEANUP(buffer_free) buffer header = {0};
    CLEANUP(buffer_free) buffer values = {0};
    for (size_t i = 0; i < job->count; i++) {
        if (job->items[i].kind == PAWL_KIND_TENSOR) {
            TRY(write_array(job, &job->items[i], z, &header, err));
        }
    }
    TRY(writer_values(job->items, job->count, &values, err));
    return values.size > 0 ? zip_put(z, NUMPY_VALUES, values.data, values.size, 1, err) : PAWL_OK;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Those of all arrays, ascending. */
static pawl_status flat_names(const writer_job *job, arena *memory, char ***out, size_t *count,
                              pawl_error *err) {
    char name[PAWL_MAX_NAME_BYTES + 1];
    char **names = arena_take(memory, (job->count + 1) * sizeof(*names), err);
    *out = names;
    *count = 0;
    if (names == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < job->count; i++) {
        if (job->items[i].kind != PAWL_KIND_TENSOR) {
            continue;
        }
        writer_flat_name(&job->items[i], name);
        char *copy = arena_strdup(memory, name);
        if (copy == NULL) {
            return error_nomem(err, strlen(name) + 1);
        }
        names[(*count)++] = copy;
    }
    if (*count > 1) {
        qsort(names, *count, sizeof(*names), by_name);
    }
    return PAWL_OK;
}

static pawl_status refuse_name(const char *name, const char *why, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s", why);
    error_entry(err, name);
    error_next(err, "give one of them another name (rename)");
    return PAWL_EUSAGE;
}

/* numpy.load looks for a member of that very name first: "a.npy" would be the array of "a". */
static pawl_status check_names(const writer_job *job, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    TRY(flat_names(job, &memory, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        char member[PAWL_MAX_NAME_BYTES + 5];
        const char *key = member;
        snprintf(member, sizeof(member), "%s.npy", names[i]);
        if (i > 0 && strcmp(names[i - 1], names[i]) == 0) {
            return refuse_name(names[i], "two entries would have one name in NumPy", err);
        }
        if (bsearch(&key, names, count, sizeof(*names), by_name) != NULL) {
            return refuse_name(member, "numpy.load would take one entry for another", err);
        }
    }
    return PAWL_OK;
}

pawl_status npz_write(const writer_job *job, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    TRY(check_names(job, err));
    TRY(writer_begin_all(job, err));
    TRY(output_open(&out, job, job->name, writer_tensor_bytes(job), err));
    CLEANUP(zip_writer_free) zip_writer z = zip_writer_of(&out);
    TRY(write_members(job, &z, err));
    TRY(zip_finish(&z, err));
    return output_end(&out, err);
}

pawl_status npy_write(const writer_job *job, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer header = {0};
    if (job->count != 1) {
        error_set(err, PAWL_EUSAGE, "a .npy file has one array");
        error_expected(err, "one entry");
        error_found(err, "%zu", job->count);
        error_next(err, "convert one entry alone (only), or to npz, which has many");
        return PAWL_EUSAGE;
    }
    TRY(writer_begin_all(job, err));
    TRY(make_header(&job->items[0], &header, err));
    TRY(output_open(&out, job, job->name, writer_tensor_bytes(job), err));
    TRY(output_write(&out, header.data, header.size, err));
    TRY(job->read(job->context, output_take, &out, err));
    return output_end(&out, err);
}
