/* SPDX-License-Identifier: Apache-2.0 */
/* Files of torch.save made by hand: pickles as texts of protocol 0, and zips of them. */
#ifndef FOREIGN_MADE_TORCH_H
#define FOREIGN_MADE_TORCH_H

#include "unit/foreign/made_archive.h"
#include "unit/foreign/made_zip.h"

/* A storage that is outside of the pickle, and a tensor in it; sizes as "I2\nI3\n". */
#define STORAGE(class, key, n) "(S'storage'\nctorch\n" class "\nS'" key "'\nS'cpu'\nI" n "\ntQ"
#define REBUILD(function, storage, offset, size, stride, more)                                     \
    "ctorch._utils\n" function "\n(" storage "I" offset "\n(" size "t(" stride                     \
    "tI00\nccollections\nOrderedDict\n)R" more "tR"
#define TENSOR(storage, offset, size, stride)                                                      \
    REBUILD("_rebuild_tensor_v2", storage, offset, size, stride, "")
#define FLOATS STORAGE("FloatStorage", "0", "12")
#define VECTOR TENSOR(FLOATS, "0", "I12\n", "I1\n")

static const float torch_floats[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

/* `method`: 0 or 8. `order`: NULL, "little" or "big". Storage "0" has torch_floats. */
static inline void made_torch_zip(buffer *out, const char *pickle, const char *order,
                                  unsigned method) {
    CLEANUP(buffer_free) buffer packed = {0};
    const void *members[] = {pickle, order, torch_floats};
    static const char *const names[] = {"m/data.pkl", "m/byteorder", "m/data/0"};
    const size_t sizes[] = {strlen(pickle), order != NULL ? strlen(order) : 0,
                            sizeof(torch_floats)};
    made_zip z = {.count = 0};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (members[i] == NULL) {
            continue;
        }
        made_member m = made_of(names[i], members[i], sizes[i]);
        if (method == 8 && i != 1) {
            packed.size = 0;
            made_deflate(&packed, members[i], sizes[i], IGZIP_DEFLATE);
            m.method = 8;
            m.size = m.n;
            m.n = packed.size;
            m.data = packed.data;
        }
        made_add(&z, m);
    }
    made_all(&z);
    out->size = 0;
    made_bytes(out, z.file.data, z.file.size);
    buffer_free(&z.file);
}

static inline void made_put_torch(store *s, const char *pickle, const char *order,
                                  unsigned method) {
    CLEANUP(buffer_free) buffer file = {0};
    made_torch_zip(&file, pickle, order, method);
    put_anew(s, "m.pt", file.data, file.size);
}

static inline struct source *open_pickle(store *s, const char *pickle) {
    struct pawl_error err;
    struct source *w;
    made_put_torch(s, pickle, "little", 0);
    assert_ok(made_archive(s, &format_torch, "m.pt", &w, &err), &err);
    return w;
}

typedef struct named {
    const char *name, *pickle;
} named;

/* A dict of these. */
static inline struct source *open_dict(store *s, const named *all, size_t n) {
    CLEANUP(buffer_free) buffer b = {0};
    made_bytes(&b, "(d", 2);
    for (size_t i = 0; i < n; i++) {
        made_bytes(&b, "S'", 2);
        made_bytes(&b, all[i].name, strlen(all[i].name));
        made_bytes(&b, "'\n", 2);
        made_bytes(&b, all[i].pickle, strlen(all[i].pickle));
        made_bytes(&b, "s", 1);
    }
    made_bytes(&b, ".", 2);
    return open_pickle(s, (const char *)b.data);
}

#endif
