/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores/objects: an object store in memory, as honest as can be: it refuses what such stores
 * refuse. Each object keeps the versions that a late look may still show.
 */
#include "stores/stores.h"

#include "store/implement.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct version {
    size_t references; /* its object, and files that are open */
    bool there;        /* false: from then on there was no such object */
    uint8_t *bytes;
    size_t n;
    store_tag tag;
    uint64_t since_ns, until_ns; /* until_ns: UINT64_MAX while it is the newest */
    int64_t unix_ns;
} version;

typedef struct object {
    char *path;
    version **versions; /* in the order of time; never empty */
    size_t count, capacity;
} object;

typedef struct objects_store {
    store base;
    const platform *os;
    monitor lock;
    object *objects; /* ascending by path */
    size_t count, capacity;
    uint64_t late_ns, random;
    _Atomic unsigned honest; /* looks under way that show the truth */
    size_t uploads;
} objects_store;

typedef struct part {
    uint64_t at;
    uint8_t *bytes;
    size_t n;
} part;

typedef struct object_file {
    store_file base;
    version *read; /* NULL: an upload */
    part *parts;
    size_t count, capacity;
    bool complete;
} object_file;

static objects_store *objects_of(store *s) {
    return (objects_store *)s;
}

static monitor *enter(objects_store *o) {
    monitor_enter(&o->lock);
    return &o->lock;
}

/* ---- versions ------------------------------------------------------------------------------- */

static void drop_version(version *v) {
    if (v != NULL && --v->references == 0) {
        mem_free(v->bytes);
        mem_free(v);
    }
}

/* FNV-1a, twice: tests need no better sum. */
static store_tag tag_of(const uint8_t *bytes, size_t n) {
    uint64_t sums[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
    store_tag tag = {{1}}; /* so that it is never empty */
    for (size_t i = 0; i < n; i++) {
        sums[0] = (sums[0] ^ bytes[i]) * UINT64_C(0x100000001b3);
        sums[1] = (sums[1] ^ bytes[i] ^ (i & 0xff)) * UINT64_C(0x100000001b3);
    }
    memcpy(tag.bytes + 1, sums, sizeof sums);
    return tag;
}

/* Takes `bytes` over, also when it fails. NULL bytes and !there: the object's absence. */
static version *new_version(objects_store *o, uint8_t *bytes, size_t n, bool there,
                            pawl_error *err) {
    version *v = mem_calloc(1, sizeof *v);
    if (v == NULL) {
        mem_free(bytes);
        (void)error_nomem(err, sizeof *v);
        return NULL;
    }
    *v = (version){.references = 1,
                   .there = there,
                   .bytes = bytes,
                   .n = n,
                   .tag = there ? tag_of(bytes, n) : (store_tag){{0}},
                   .since_ns = platform_now_ns(o->os),
                   .until_ns = UINT64_MAX,
                   .unix_ns = o->os->unix_time_ns(o->os->context)};
    return v;
}

static version *newest(const object *x) {
    return x->versions[x->count - 1];
}

/* Can a late look still show it? */
static bool is_kept(const objects_store *o, const version *v, uint64_t now_ns) {
    return v->until_ns == UINT64_MAX || now_ns - v->until_ns < o->late_ns;
}

/* Can a look still show it? */
static bool can_be_seen(const objects_store *o, const version *v, uint64_t now_ns) {
    return v->until_ns == UINT64_MAX || (atomic_load(&o->honest) == 0 && is_kept(o, v, now_ns));
}

static uint64_t draw(objects_store *o) { /* splitmix64 */
    uint64_t z = o->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* What one look shows. */
static version *seen(objects_store *o, const object *x) {
    uint64_t now_ns = platform_now_ns(o->os);
    size_t first = 0;
    while (!can_be_seen(o, x->versions[first], now_ns)) {
        first++;
    }
    size_t some = x->count - first;
    return x->versions[first + (o->random != 0 && some > 1 ? (size_t)(draw(o) % some) : 0)];
}

/* ---- objects -------------------------------------------------------------------------------- */

static size_t place_of(const objects_store *o, const char *path) {
    size_t from = 0, end = o->count;
    while (from < end) {
        size_t middle = from + (end - from) / 2;
        if (strcmp(o->objects[middle].path, path) < 0) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    return from;
}

static object *find(const objects_store *o, const char *path) {
    size_t at = place_of(o, path);
    return at < o->count && strcmp(o->objects[at].path, path) == 0 ? &o->objects[at] : NULL;
}

static void free_object(object *x) {
    for (size_t i = 0; i < x->count; i++) {
        drop_version(x->versions[i]);
    }
    mem_free(x->versions);
    mem_free(x->path);
}

/* Forgets versions that no look can show, and objects of which nothing is left. */
static void forget_old(objects_store *o) {
    uint64_t now_ns = platform_now_ns(o->os);
    size_t kept = 0;
    for (size_t i = 0; i < o->count; i++) {
        object x = o->objects[i];
        size_t gone = 0;
        while (x.versions[gone]->until_ns != UINT64_MAX &&
               now_ns - x.versions[gone]->until_ns >= o->late_ns) {
            drop_version(x.versions[gone++]);
        }
        memmove(x.versions, x.versions + gone, (x.count -= gone) * sizeof(version *));
        if (x.count == 1 && !x.versions[0]->there) {
            free_object(&x);
        } else {
            o->objects[kept++] = x;
        }
    }
    o->count = kept;
}

/* A new object was absent until now. */
static pawl_status add_object(objects_store *o, const char *path, object **out, pawl_error *err) {
    object x = {.path = mem_strdup(path)};
    version *absent = new_version(o, NULL, 0, false, err);
    pawl_status status = x.path == NULL ? error_nomem(err, strlen(path) + 1) : PAWL_OK;
    if (absent == NULL) {
        status = PAWL_ENOMEM;
    } else {
        absent->since_ns = 0;
    }
    if (status == PAWL_OK) {
        status = vec_reserve(&x.versions, &x.capacity, 1, sizeof(version *), err);
    }
    if (status == PAWL_OK) {
        status = vec_reserve(&o->objects, &o->capacity, o->count + 1, sizeof(*o->objects), err);
    }
    if (status != PAWL_OK) {
        drop_version(absent);
        free_object(&x);
        return status;
    }
    x.versions[x.count++] = absent;
    size_t at = place_of(o, path);
    memmove(&o->objects[at + 1], &o->objects[at], (o->count++ - at) * sizeof(*o->objects));
    o->objects[at] = x;
    *out = &o->objects[at];
    return PAWL_OK;
}

/* Takes `v` over, also when it fails. Does it where the condition holds. */
static pawl_status change(objects_store *o, const char *path, version *v, const store_tag *expected,
                          const char *what, pawl_error *err) {
    forget_old(o);
    object *x = find(o, path);
    const store_tag none = {{0}};
    const store_tag *now = x != NULL ? &newest(x)->tag : &none;
    pawl_status status = PAWL_OK;
    if (expected != NULL && !store_tag_same(expected, now)) {
        status = store_failure(&o->base, path, EEXIST, err, what);
    } else if (x == NULL && v->there) {
        status = add_object(o, path, &x, err);
    }
    if (status == PAWL_OK && x != NULL) {
        status = vec_reserve(&x->versions, &x->capacity, x->count + 1, sizeof(version *), err);
    }
    if (status != PAWL_OK || x == NULL) {
        drop_version(v);
        return status;
    }
    v->since_ns = newest(x)->until_ns = platform_now_ns(o->os);
    x->versions[x->count++] = v;
    return PAWL_OK;
}

static pawl_status objects_put(store *s, const char *path, const void *data, size_t n,
                               const store_tag *expected, store_tag *now, pawl_error *err) {
    objects_store *o = objects_of(s);
    uint8_t *copy = mem_alloc(n);
    if (copy == NULL) {
        return error_nomem(err, n);
    }
    memcpy(copy, data, n);
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    version *v = new_version(o, copy, n, true, err);
    if (v == NULL) {
        return PAWL_ENOMEM;
    }
    *now = v->tag;
    return change(o, path, v, expected, "cannot put the file", err);
}

static pawl_status objects_unlink(store *s, const char *path, const store_tag *expected,
                                  pawl_error *err) {
    static const char what[] = "cannot remove the file";
    objects_store *o = objects_of(s);
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    const object *x = find(o, path);
    if (expected != NULL && (x == NULL || !newest(x)->there)) {
        return store_failure(s, path, ENOENT, err, what);
    }
    version *v = new_version(o, NULL, 0, false, err);
    return v != NULL ? change(o, path, v, expected, what, err) : PAWL_ENOMEM;
}

/* ---- uploads -------------------------------------------------------------------------------- */

static pawl_status objects_write(store_file *f, uint64_t at, const void *from, size_t n,
                                 size_t *put, pawl_error *err) {
    static const char what[] = "cannot write";
    objects_store *o = objects_of(f->in);
    object_file *file = (object_file *)f;
    uint64_t end;
    if (file->read != NULL || file->complete) {
        return store_failure(f->in, f->path, EBADF, err, what);
    }
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    bool full = o->base.traits.parts_max != 0 && file->count == o->base.traits.parts_max;
    if (full || add_overflows(at, n, &end) || end > INT64_MAX) {
        return store_failure(f->in, f->path, EFBIG, err, what);
    }
    uint8_t *copy = mem_alloc(n);
    if (copy == NULL) {
        return error_nomem(err, n);
    }
    memcpy(copy, from, n);
    pawl_status status =
        vec_reserve(&file->parts, &file->capacity, file->count + 1, sizeof(*file->parts), err);
    if (status != PAWL_OK) {
        mem_free(copy);
        return status;
    }
    file->parts[file->count++] = (part){.at = at, .bytes = copy, .n = n};
    *put = n;
    return PAWL_OK;
}

static int by_place(const void *a, const void *b) {
    const part *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

/* The parts in order, without gaps, and each but the last large enough. */
static pawl_status join_parts(object_file *file, uint8_t **out, size_t *n, pawl_error *err) {
    const store *s = file->base.in;
    uint64_t end = 0;
    if (file->count > 0) {
        qsort(file->parts, file->count, sizeof(*file->parts), by_place);
    }
    for (size_t i = 0; i < file->count; i++) {
        const part *p = &file->parts[i];
        if (p->at != end || (i + 1 < file->count && p->n < s->traits.part_bytes_min)) {
            error_set(err, PAWL_EINTERNAL, "these are no parts of an upload");
            store_error_path(err, s, file->base.path);
            error_expected(err, "a part of at least %u bytes at %llu", s->traits.part_bytes_min,
                           (unsigned long long)end);
            error_found(err, "one of %zu bytes at %llu", p->n, (unsigned long long)p->at);
            return PAWL_EINTERNAL;
        }
        end += p->n;
    }
    *out = mem_alloc((size_t)end);
    *n = 0;
    if (*out == NULL) {
        return error_nomem(err, (size_t)end);
    }
    for (size_t i = 0; i < file->count; i++) {
        memcpy(*out + *n, file->parts[i].bytes, file->parts[i].n);
        *n += file->parts[i].n;
    }
    return PAWL_OK;
}

static void end_upload(objects_store *o, object_file *file) {
    if (file->read == NULL && !file->complete) {
        o->uploads--;
    }
    for (size_t i = 0; i < file->count; i++) {
        mem_free(file->parts[i].bytes);
    }
    mem_free(file->parts);
    file->parts = NULL;
    file->count = file->capacity = 0;
    file->complete = true;
}

static pawl_status objects_sync(store_file *f, pawl_error *err) {
    static const store_tag none = {{0}};
    objects_store *o = objects_of(f->in);
    object_file *file = (object_file *)f;
    uint8_t *bytes;
    size_t n;
    if (file->read != NULL || file->complete) {
        return PAWL_OK;
    }
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    TRY(join_parts(file, &bytes, &n, err));
    version *v = new_version(o, bytes, n, true, err);
    if (v == NULL) {
        return PAWL_ENOMEM;
    }
    f->tag = v->tag;
    pawl_status status = change(o, f->path, v, &none, "cannot create the file", err);
    if (status == PAWL_OK) {
        end_upload(o, file);
    }
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What a look shows of a file; NULL: none. */
static version *look(objects_store *o, const char *path) {
    const object *x = find(o, path);
    version *v = x != NULL ? seen(o, x) : NULL;
    return v != NULL && v->there ? v : NULL;
}

static pawl_status objects_open(store *s, const char *path, store_mode mode, store_file **out,
                                pawl_error *err) {
    objects_store *o = objects_of(s);
    if (mode == STORE_UPDATE) {
        return store_failure(s, path, ENOTSUP, err, "cannot change the file in place");
    }
    AUTOFREE object_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    store_file_init(&f->base, s, path);
    if (store_mode_creates(mode)) {
        o->uploads++;
    } else {
        f->read = look(o, path);
        if (f->read == NULL) {
            return store_failure(s, path, ENOENT, err, "cannot open the file");
        }
        f->read->references++;
        f->base.tag = f->read->tag;
    }
    *out = &f->base;
    f = NULL;
    return PAWL_OK;
}

static pawl_status objects_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                                pawl_error *err) {
    objects_store *o = objects_of(f->in);
    const version *v = ((object_file *)f)->read;
    if (v == NULL) {
        return store_failure(f->in, f->path, EBADF, err, "cannot read");
    }
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    if (!can_be_seen(o, v, platform_now_ns(o->os))) {
        return store_failure(f->in, f->path, ENOENT, err, "cannot read");
    }
    uint64_t left = at < v->n ? v->n - at : 0;
    *got = n < left ? n : (size_t)left;
    memcpy(to, v->bytes + (left > 0 ? at : 0), *got);
    return PAWL_OK;
}

static pawl_status objects_size(store_file *f, uint64_t *out, pawl_error *err) {
    const object_file *file = (const object_file *)f;
    (void)err;
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(objects_of(f->in));
    *out = file->read != NULL ? file->read->n : 0;
    for (size_t i = 0; i < file->count; i++) {
        uint64_t end = file->parts[i].at + file->parts[i].n;
        *out = end > *out ? end : *out;
    }
    return PAWL_OK;
}

static void objects_close(store_file *f) {
    objects_store *o = objects_of(f->in);
    object_file *file = (object_file *)f;
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    end_upload(o, file);
    drop_version(file->read);
    mem_free(file);
}

/* ---- names ---------------------------------------------------------------------------------- */

typedef struct listing {
    arena memory;
    store_listed *names;
    size_t count, capacity;
} listing;

static void listing_free(listing *l) {
    mem_free(l->names);
    arena_free(&l->memory);
}

/* `rest`: of a path, behind that of the directory. What is deeper down shows its first name. */
static pawl_status note_name(listing *l, const char *rest, const version *v, pawl_error *err) {
    size_t n = strcspn(rest, "/");
    const char *last = l->count > 0 ? l->names[l->count - 1].name : "";
    if (strncmp(last, rest, n) == 0 && last[n] == '\0') {
        return PAWL_OK;
    }
    char *name = arena_take(&l->memory, n + 1, err);
    if (name == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(name, rest, n);
    name[n] = '\0';
    TRY(vec_reserve(&l->names, &l->capacity, l->count + 1, sizeof(*l->names), err));
    bool file = rest[n] == '\0';
    l->names[l->count++] = (store_listed){.name = name,
                                          .known = file,
                                          .size = file ? v->n : 0,
                                          .modified_unix_ns = file ? v->unix_ns : 0};
    return PAWL_OK;
}

static pawl_status look_inside(objects_store *o, const char *path, listing *l, pawl_error *err) {
    size_t n = strlen(path);
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    for (size_t i = n > 0 ? place_of(o, path) : 0; i < o->count; i++) {
        const char *name = o->objects[i].path;
        if (strncmp(name, path, n) != 0) {
            break;
        }
        const version *v = n > 0 && name[n] != '/' ? NULL : seen(o, &o->objects[i]);
        if (v != NULL && v->there) {
            TRY(note_name(l, name + n + (n > 0 ? 1 : 0), v, err));
        }
    }
    return PAWL_OK;
}

static pawl_status objects_list(store *s, const char *path, store_each_fn each, void *context,
                                pawl_error *err) {
    CLEANUP(listing_free) listing l = {.names = NULL};
    TRY(look_inside(objects_of(s), path, &l, err));
    if (l.count == 0 && path[0] != '\0') {
        return store_failure(s, path, ENOENT, err, "cannot list the directory");
    }
    for (size_t i = 0; i < l.count; i++) {
        TRY(each(context, &l.names[i], err));
    }
    return PAWL_OK;
}

static pawl_status objects_stat(store *s, const char *path, store_stat *out, pawl_error *err) {
    objects_store *o = objects_of(s);
    CLEANUP(listing_free) listing inside = {.names = NULL};
    monitor_enter(&o->lock);
    const version *v = look(o, path);
    if (v != NULL) {
        *out = (store_stat){.type = STORE_FILE_TYPE, .size = v->n, .modified_unix_ns = v->unix_ns};
    }
    monitor_leave(&o->lock);
    if (v != NULL) {
        return PAWL_OK;
    }
    TRY(look_inside(o, path, &inside, err));
    if (inside.count == 0 && path[0] != '\0') {
        return store_failure(s, path, ENOENT, err, "cannot look at this name");
    }
    *out = (store_stat){.type = STORE_DIR_TYPE};
    return PAWL_OK;
}

static pawl_status objects_make_dir(store *s, const char *path, pawl_error *err) {
    (void)s;
    (void)path;
    (void)err;
    return PAWL_OK;
}

static pawl_status objects_remove_dir(store *s, const char *path, pawl_error *err) {
    CLEANUP(listing_free) listing inside = {.names = NULL};
    TRY(look_inside(objects_of(s), path, &inside, err));
    return inside.count == 0
               ? PAWL_OK
               : store_failure(s, path, ENOTEMPTY, err, "cannot remove the directory");
}

static pawl_status objects_rename(store *s, const char *from, const char *to, pawl_error *err) {
    (void)to;
    return store_failure(s, from, ENOTSUP, err, "cannot rename the file");
}

static pawl_status objects_sync_dir(store *s, const char *path, pawl_error *err) {
    (void)s;
    (void)path;
    (void)err;
    return PAWL_OK;
}

static void objects_wait(store *s) {
    const objects_store *o = objects_of(s);
    if (o->late_ns > 0) {
        o->os->sleep_ns(o->os->context, o->late_ns);
    }
}

static pawl_status objects_space(store *s, store_space *out, pawl_error *err) {
    (void)err;
    *out = (store_space){.total_bytes = UINT64_MAX,
                         .free_bytes = UINT64_MAX,
                         .free_inodes = UINT64_MAX,
                         .max_file_bytes = UINT64_MAX};
    (void)snprintf(out->filesystem, sizeof(out->filesystem), "%s", s->traits.kind);
    (void)snprintf(out->mount_point, sizeof(out->mount_point), "%s", s->root);
    return PAWL_OK;
}

/* ---- the store ------------------------------------------------------------------------------ */

static void objects_destroy(store *s) {
    objects_store *o = objects_of(s);
    for (size_t i = 0; i < o->count; i++) {
        free_object(&o->objects[i]);
    }
    mem_free(o->objects);
    monitor_destroy(&o->lock);
    mem_free(s->root);
    mem_free(o);
}

static const store_ops objects_ops = {.open = objects_open,
                                      .read = objects_read,
                                      .write = objects_write,
                                      .size = objects_size,
                                      .sync = objects_sync,
                                      .close = objects_close,
                                      .make_dir = objects_make_dir,
                                      .remove_dir = objects_remove_dir,
                                      .rename = objects_rename,
                                      .put = objects_put,
                                      .unlink = objects_unlink,
                                      .sync_dir = objects_sync_dir,
                                      .catch_up = objects_wait,
                                      .list = objects_list,
                                      .stat = objects_stat,
                                      .space = objects_space,
                                      .destroy = objects_destroy};

pawl_status store_objects(const platform *os, const store_objects_options *options, store **out,
                          pawl_error *err) {
    AUTOFREE objects_store *o = mem_calloc(1, sizeof(*o));
    if (o == NULL) {
        return error_nomem(err, sizeof(*o));
    }
    TRY(monitor_init(&o->lock, err));
    o->base.ops = &objects_ops;
    o->base.traits = (store_traits){.kind = "objects",
                                    .atomic_rename = true,
                                    .ordered_names = true,
                                    .atomic_write_bytes = 4096,
                                    .objects = true,
                                    .coherent = options->late_s == 0,
                                    .part_bytes_min = options->part_bytes_min,
                                    .parts_max = options->parts_max};
    o->base.root = mem_strdup("/mem");
    if (o->base.root == NULL) {
        monitor_destroy(&o->lock);
        return error_nomem(err, sizeof("/mem"));
    }
    o->os = os;
    o->late_ns = (uint64_t)(options->late_s * 1e9);
    o->random = options->seed;
    *out = &o->base;
    o = NULL;
    return PAWL_OK;
}

static pawl_status around_truth(store_wrapper *w, store_call *call, pawl_error *err) {
    objects_store *o = objects_of(w->inner);
    atomic_fetch_add(&o->honest, 1);
    pawl_status status = store_call_inner(call, err);
    atomic_fetch_sub(&o->honest, 1);
    return status;
}

pawl_status store_truth(store *s, store **out, pawl_error *err) {
    *out = s;
    if (!s->traits.objects || s->traits.coherent) {
        return PAWL_OK;
    }
    AUTOFREE store_wrapper *w = mem_calloc(1, sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    TRY(store_wrapper_init(w, s, err));
    w->base.traits.coherent = true;
    w->around = around_truth;
    *out = &w->base;
    w = NULL;
    return PAWL_OK;
}

void store_truth_destroy(store *truth, store *s) {
    if (truth != s) {
        store_destroy(truth);
    }
}

pawl_status store_chosen(const platform *os, store **out, pawl_error *err) {
    const char *chosen = getenv("PAWL_TEST_STORE");
    bool late = chosen != NULL && strcmp(chosen, "late") == 0;
    if (!late && (chosen == NULL || strcmp(chosen, "objects") != 0)) {
        return store_mem(out, err);
    }
    const store_objects_options options = {.late_s = late ? 0.02 : 0};
    return store_objects(os, &options, out, err);
}

void store_objects_catch_up(store *objects) {
    objects_store *o = objects_of(objects);
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    uint64_t late_ns = o->late_ns;
    o->late_ns = 0;
    forget_old(o);
    o->late_ns = late_ns;
}

size_t store_objects_uploads(store *objects) {
    objects_store *o = objects_of(objects);
    CLEANUP(monitor_leave_pointer) monitor *locked = enter(o);
    return o->uploads;
}
