/* SPDX-License-Identifier: Apache-2.0 */
/* store/store: the calls that users of a store make: they check paths, and go on after short reads
 * and writes. */
#include "store/store.h"

#include "store/implement.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

pawl_status store_open(store *s, const char *path, store_mode mode, store_file **out,
                       pawl_error *err) {
    *out = NULL;
    TRY(store_check_path(s, path, false, err));
    return s->ops->open(s, path, mode, out, err);
}

void store_close(store_file *f) {
    if (f != NULL) {
        f->in->ops->close(f);
    }
}

void store_close_pointer(store_file **f) {
    store_close(*f);
}

void store_destroy(store *s) {
    if (s != NULL) {
        s->ops->destroy(s);
    }
}

void store_destroy_pointer(store **s) {
    store_destroy(*s);
}

static pawl_status ends_too_early(store_file *f, uint64_t at, uint64_t n, uint64_t size,
                                  pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the file ends before the bytes that should be read");
    store_error_path(err, f->in, f->path);
    error_range(err, at, n);
    error_expected(err, "%llu bytes at offset %llu", (unsigned long long)n, (unsigned long long)at);
    error_found(err, "a file of %llu bytes", (unsigned long long)size);
    return PAWL_EDAMAGED;
}

pawl_status store_read(store_file *f, uint64_t at, void *to, size_t n, pawl_error *err) {
    for (size_t done = 0; done < n;) {
        size_t got = 0;
        pawl_status status =
            f->in->ops->read(f, at + done, (uint8_t *)to + done, n - done, &got, err);
        if (status != PAWL_OK) {
            error_range(err, at + done, n - done);
            return status;
        }
        assert(got <= n - done);
        if (got == 0) {
            uint64_t size = 0;
            TRY(store_size(f, &size, err));
            return ends_too_early(f, at, n, size, err);
        }
        done += got;
    }
    return PAWL_OK;
}

pawl_status store_write(store_file *f, uint64_t at, const void *from, size_t n, pawl_error *err) {
    for (size_t done = 0; done < n;) {
        size_t put = 0;
        pawl_status status =
            f->in->ops->write(f, at + done, (const uint8_t *)from + done, n - done, &put, err);
        if (status == PAWL_OK && put == 0) {
            /* Trying again could go on for ever. */
            status = store_failure(f->in, f->path, EIO, err, "cannot write: no bytes are taken");
        }
        if (status != PAWL_OK) {
            error_range(err, at + done, n - done);
            return status;
        }
        assert(put <= n - done);
        done += put;
    }
    return PAWL_OK;
}

pawl_status store_size(store_file *f, uint64_t *out, pawl_error *err) {
    return f->in->ops->size(f, out, err);
}

pawl_status store_reserve(store_file *f, uint64_t bytes, pawl_error *err) {
    return f->in->ops->reserve == NULL ? PAWL_OK : f->in->ops->reserve(f, bytes, err);
}

pawl_status store_map(store_file *f, size_t n, store_mapping *out, pawl_error *err) {
    assert(n > 0);
    *out = (store_mapping){.bytes = NULL};
    if (f->in->ops->map != NULL) {
        return f->in->ops->map(f, n, out, err);
    }
    error_set(err, PAWL_EUNSUPPORTED, "files of this storage cannot be mapped");
    store_error_path(err, f->in, f->path);
    return PAWL_EUNSUPPORTED;
}

void store_unmap(store_mapping *m) {
    if (m->bytes != NULL) {
        m->unmap(m->bytes, m->n);
        m->bytes = NULL;
    }
}

pawl_status store_sync(store_file *f, pawl_error *err) {
    return f->in->ops->sync(f, err);
}

pawl_status store_make_dir(store *s, const char *path, pawl_error *err) {
    TRY(store_check_path(s, path, false, err));
    return s->ops->make_dir(s, path, err);
}

pawl_status store_remove_dir(store *s, const char *path, pawl_error *err) {
    TRY(store_check_path(s, path, false, err));
    return s->ops->remove_dir(s, path, err);
}

pawl_status store_rename(store *s, const char *from, const char *to, pawl_error *err) {
    TRY(store_check_path(s, from, false, err));
    TRY(store_check_path(s, to, false, err));
    char from_parent[STORE_MAX_PATH], to_parent[STORE_MAX_PATH];
    store_split_path(from, from_parent);
    store_split_path(to, to_parent);
    if (strcmp(from_parent, to_parent) != 0) {
        error_set(err, PAWL_EUSAGE, "files are renamed within one directory only");
        store_error_path(err, s, from);
        error_found(err, "the new name \"%s\"", to);
        return PAWL_EUSAGE;
    }
    return s->ops->rename(s, from, to, err);
}

static pawl_status no_objects(const store *s, const char *path, const char *what, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "files of this storage cannot be %s", what);
    store_error_path(err, s, path);
    return PAWL_EUNSUPPORTED;
}

pawl_status store_put(store *s, const char *path, const void *data, size_t n,
                      const store_tag *expected, store_tag *now, pawl_error *err) {
    store_tag tag = {{0}};
    TRY(store_check_path(s, path, false, err));
    if (s->ops->put == NULL) {
        return no_objects(s, path, "put whole", err);
    }
    pawl_status status = s->ops->put(s, path, data, n, expected, &tag, err);
    if (now != NULL && status == PAWL_OK) {
        *now = tag;
    }
    return status;
}

pawl_status store_unlink(store *s, const char *path, pawl_error *err) {
    TRY(store_check_path(s, path, false, err));
    return s->ops->unlink(s, path, NULL, err);
}

pawl_status store_unlink_match(store *s, const char *path, const store_tag *expected,
                               pawl_error *err) {
    TRY(store_check_path(s, path, false, err));
    return s->traits.objects ? s->ops->unlink(s, path, expected, err)
                             : no_objects(s, path, "removed on a condition", err);
}

pawl_status store_create_small(store *s, const char *path, const void *data, size_t n,
                               store_tag *version, pawl_error *err) {
    static const store_tag none = {{0}};
    CLEANUP(store_close_pointer) store_file *file = NULL;
    if (s->traits.objects) {
        return store_put(s, path, data, n, &none, version, err);
    }
    TRY(store_open(s, path, STORE_CREATE, &file, err));
    return n > 0 ? store_write(file, 0, data, n, err) : PAWL_OK;
}

void store_catch_up(store *s) {
    if (s->ops->catch_up != NULL) {
        s->ops->catch_up(s);
    }
}

bool store_is_refused(const pawl_error *err) {
    return err->status == PAWL_EBUSY && err->system_errno == EEXIST;
}

pawl_status store_sync_dir(store *s, const char *path, pawl_error *err) {
    TRY(store_check_path(s, path, true, err));
    return s->ops->sync_dir(s, path, err);
}

pawl_status store_list(store *s, const char *path, store_each_fn each, void *context,
                       pawl_error *err) {
    TRY(store_check_path(s, path, true, err));
    return s->ops->list(s, path, each, context, err);
}

pawl_status store_stat_path(store *s, const char *path, store_stat *out, pawl_error *err) {
    TRY(store_check_path(s, path, true, err));
    return s->ops->stat(s, path, out, err);
}

pawl_status store_space_of(store *s, store_space *out, pawl_error *err) {
    return s->ops->space(s, out, err);
}

static pawl_status check_file_size(const store_file *f, uint64_t size, size_t limit,
                                   pawl_error *err) {
    if (size <= limit) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "the file is larger than a file of its kind can be");
    store_error_path(err, f->in, f->path);
    error_expected(err, "at most %zu bytes", limit);
    error_found(err, "%llu bytes", (unsigned long long)size);
    return PAWL_ELIMIT;
}

pawl_status store_read_file(store *s, const char *path, size_t limit, buffer *out,
                            pawl_error *err) {
    store_tag ignored;
    return store_read_version(s, path, limit, out, &ignored, err);
}

pawl_status store_read_version(store *s, const char *path, size_t limit, buffer *out,
                               store_tag *version, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *f = NULL;
    uint64_t size = 0;
    *version = (store_tag){{0}};
    TRY(store_open(s, path, STORE_READ, &f, err));
    *version = f->tag;
    TRY(store_size(f, &size, err));
    TRY(check_file_size(f, size, limit, err));
    TRY(buffer_reserve(out, (size_t)size, err));
    TRY(store_read(f, 0, out->data + out->size, (size_t)size, err));
    out->size += (size_t)size;
    out->data[out->size] = 0;
    return PAWL_OK;
}

static pawl_status source_read_at(void *context, uint64_t offset, void *to, size_t n,
                                  pawl_error *err) {
    return store_read(context, offset, to, n, err);
}

pawl_status store_source(store_file *f, byte_source *out, pawl_error *err) {
    uint64_t size = 0;
    TRY(store_size(f, &size, err));
    *out = (byte_source){.context = f, .size = size, .read_at = source_read_at};
    return PAWL_OK;
}
