/* SPDX-License-Identifier: Apache-2.0 */
/* stores/mem: everything in memory, deterministic, with the semantics of a POSIX filesystem. */
#include "stores/mem.h"

#include "store/implement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct mem_file {
    store_file base;
    tree_node *node;
    bool readable, writable;
} mem_file;

const store_traits store_mem_traits = {
    .kind = "mem", .atomic_rename = true, .ordered_names = true, .atomic_write_bytes = 4096};

static mem_store *mem_of(store *s) {
    return (mem_store *)s;
}

monitor *store_mem_enter(const mem_store *m) {
    monitor *lock = (monitor *)&m->lock;
    monitor_enter(lock);
    return lock;
}

static pawl_status mem_before(mem_store *m, const char *path, pawl_error *err) {
    if (m->journal == NULL) {
        return PAWL_OK;
    }
    pawl_status status = m->journal->before(m->journal->context, err);
    if (status != PAWL_OK) {
        store_error_path(err, &m->base, path);
    }
    return status;
}

static pawl_status tell_journal(mem_store *m, const mem_change *change, pawl_error *err) {
    return m->journal == NULL ? PAWL_OK : m->journal->change(m->journal->context, change, err);
}

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status mem_find(mem_store *m, const char *path, tree_node **out, const char *what,
                            pawl_error *err) {
    int failed = store_tree_find(m->root, path, out);
    return failed == 0 ? PAWL_OK : store_failure(&m->base, path, failed, err, what);
}

/* The directory of `path`, its last component, and what has that name now. */
typedef struct place {
    tree_node *dir;
    const char *name;
    tree_node *node;
} place;

static pawl_status find_place(mem_store *m, const char *path, place *out, const char *what,
                              pawl_error *err) {
    int failed = store_tree_find_parent(m->root, path, &out->dir, &out->name);
    if (failed != 0) {
        return store_failure(&m->base, path, failed, err, what);
    }
    out->node = store_tree_child(out->dir, out->name);
    return PAWL_OK;
}

static pawl_status link_new(mem_store *m, const place *at, tree_node *node, pawl_error *err) {
    AUTOFREE char *name = mem_strdup(at->name);
    if (name == NULL) {
        return error_nomem(err, strlen(at->name) + 1);
    }
    TRY(store_tree_reserve_entry(at->dir, err));
    TRY(tell_journal(
        m, &(mem_change){.kind = MEM_CREATE, .dir = at->dir, .node = node, .name = at->name}, err));
    store_tree_link(at->dir, name, node);
    name = NULL;
    return PAWL_OK;
}

/* `*out` is not held: it lives as long as its name. */
static pawl_status add_node(mem_store *m, const char *path, store_type type, tree_node **out,
                            const char *what, pawl_error *err) {
    place at;
    TRY(find_place(m, path, &at, what, err));
    if (at.node != NULL) {
        return store_failure(&m->base, path, EEXIST, err, what);
    }
    tree_node *node = store_tree_new(type);
    if (node == NULL) {
        return error_nomem(err, sizeof(*node));
    }
    pawl_status status = link_new(m, &at, node, err);
    *out = node;
    store_tree_drop(node);
    return status;
}

static pawl_status mem_make_dir(store *s, const char *path, pawl_error *err) {
    mem_store *m = mem_of(s);
    tree_node *node = NULL;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    return add_node(m, path, STORE_DIR_TYPE, &node, "cannot create the directory", err);
}

static pawl_status remove_node(mem_store *m, const char *path, store_type type, const char *what,
                               pawl_error *err) {
    place at;
    TRY(find_place(m, path, &at, what, err));
    int failed = 0;
    if (at.node == NULL) {
        failed = ENOENT;
    } else if (at.node->type != type) {
        failed = type == STORE_DIR_TYPE ? ENOTDIR : EISDIR;
    } else if (at.node->count > 0) {
        failed = ENOTEMPTY;
    }
    if (failed != 0) {
        return store_failure(&m->base, path, failed, err, what);
    }
    TRY(tell_journal(
        m, &(mem_change){.kind = MEM_REMOVE, .dir = at.dir, .node = at.node, .name = at.name},
        err));
    store_tree_unlink(at.dir, at.name);
    return PAWL_OK;
}

static pawl_status mem_remove_dir(store *s, const char *path, pawl_error *err) {
    mem_store *m = mem_of(s);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    return remove_node(m, path, STORE_DIR_TYPE, "cannot remove the directory", err);
}

static pawl_status mem_unlink(store *s, const char *path, const store_tag *expected,
                              pawl_error *err) {
    (void)expected;
    mem_store *m = mem_of(s);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    return remove_node(m, path, STORE_FILE_TYPE, "cannot remove the file", err);
}

static pawl_status check_rename(mem_store *m, const char *from, const char *to, const place *source,
                                const place *target, pawl_error *err) {
    static const char what[] = "cannot rename the file";
    if (source->node == NULL) {
        return store_failure(&m->base, from, ENOENT, err, what);
    }
    if (source->node->type != STORE_FILE_TYPE) {
        return store_failure(&m->base, from, EISDIR, err, what);
    }
    if (target->node != NULL && target->node->type != STORE_FILE_TYPE) {
        return store_failure(&m->base, to, EISDIR, err, what);
    }
    return PAWL_OK;
}

static pawl_status move_entry(mem_store *m, const place *source, const place *target,
                              pawl_error *err) {
    AUTOFREE char *name = mem_strdup(target->name);
    if (name == NULL) {
        return error_nomem(err, strlen(target->name) + 1);
    }
    TRY(tell_journal(m,
                     &(mem_change){.kind = MEM_RENAME,
                                   .dir = source->dir,
                                   .node = source->node,
                                   .replaced = target->node,
                                   .name = source->name,
                                   .to = target->name},
                     err));
    tree_node *node = source->node;
    store_tree_hold(node);
    store_tree_unlink(source->dir, source->name);
    store_tree_link(source->dir, name, node);
    name = NULL;
    store_tree_drop(node);
    return PAWL_OK;
}

static pawl_status mem_rename(store *s, const char *from, const char *to, pawl_error *err) {
    mem_store *m = mem_of(s);
    place source, target;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, from, err));
    TRY(find_place(m, from, &source, "cannot rename the file", err));
    TRY(find_place(m, to, &target, "cannot rename the file", err));
    TRY(check_rename(m, from, to, &source, &target, err));
    return source.node == target.node ? PAWL_OK : move_entry(m, &source, &target, err);
}

/* The new file takes the name over; who has the old one open goes on with that. */
static pawl_status put_node(mem_store *m, const char *path, tree_node *node, pawl_error *err) {
    static const char what[] = "cannot put the file";
    place at;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    if (m->journal != NULL) { /* `crash` does not know puts */
        return store_failure(&m->base, path, ENOTSUP, err, what);
    }
    TRY(find_place(m, path, &at, what, err));
    if (at.node != NULL && at.node->type != STORE_FILE_TYPE) {
        return store_failure(&m->base, path, EISDIR, err, what);
    }
    return link_new(m, &at, node, err);
}

static pawl_status mem_put(store *s, const char *path, const void *data, size_t n,
                           const store_tag *expected, store_tag *now, pawl_error *err) {
    (void)expected;
    (void)now;
    mem_store *m = mem_of(s);
    tree_node *node = store_tree_new(STORE_FILE_TYPE);
    if (node == NULL) {
        return error_nomem(err, sizeof(*node));
    }
    pawl_status status = store_tree_reserve_bytes(node, n, err);
    if (status == PAWL_OK) {
        store_tree_write(node, 0, data, n);
        status = put_node(m, path, node, err);
    }
    store_tree_drop(node);
    return status;
}

static pawl_status mem_sync_dir(store *s, const char *path, pawl_error *err) {
    static const char what[] = "cannot sync the directory";
    mem_store *m = mem_of(s);
    tree_node *node = NULL;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    TRY(mem_find(m, path, &node, what, err));
    if (node->type != STORE_DIR_TYPE) {
        return store_failure(s, path, ENOTDIR, err, what);
    }
    return tell_journal(m, &(mem_change){.kind = MEM_SYNC_DIR, .node = node}, err);
}

/* ---- looking -------------------------------------------------------------------------------- */

static pawl_status copy_names(mem_store *m, const char *path, arena *memory, const char ***names,
                              size_t *count, pawl_error *err) {
    static const char what[] = "cannot list the directory";
    tree_node *dir = NULL;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    TRY(mem_find(m, path, &dir, what, err));
    if (dir->type != STORE_DIR_TYPE) {
        return store_failure(&m->base, path, ENOTDIR, err, what);
    }
    const char **copies = arena_alloc(memory, (dir->count + 1) * sizeof(*copies));
    if (copies == NULL) {
        return error_nomem(err, (dir->count + 1) * sizeof(*copies));
    }
    for (size_t i = 0; i < dir->count; i++) {
        copies[i] = arena_strdup(memory, dir->entries[i].name);
        if (copies[i] == NULL) {
            return error_nomem(err, strlen(dir->entries[i].name) + 1);
        }
    }
    *names = copies;
    *count = dir->count;
    return PAWL_OK;
}

/* The names are copied first, so that `each` may use the store. */
static pawl_status mem_list(store *s, const char *path, store_each_fn each, void *context,
                            pawl_error *err) {
    CLEANUP(arena_free) arena memory = {NULL};
    const char **names = NULL;
    size_t count = 0;
    TRY(copy_names(mem_of(s), path, &memory, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        TRY(each(context, &(store_listed){.name = names[i]}, err));
    }
    return PAWL_OK;
}

static pawl_status mem_stat(store *s, const char *path, store_stat *out, pawl_error *err) {
    mem_store *m = mem_of(s);
    tree_node *node = NULL;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    TRY(mem_find(m, path, &node, "cannot look at this name", err));
    *out = (store_stat){.type = node->type, .size = node->size};
    return PAWL_OK;
}

static pawl_status mem_space(store *s, store_space *out, pawl_error *err) {
    mem_store *m = mem_of(s);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, "", err));
    *out = (store_space){.total_bytes = UINT64_MAX,
                         .free_bytes = UINT64_MAX,
                         .free_inodes = UINT64_MAX,
                         .max_file_bytes = UINT64_MAX};
    (void)snprintf(out->filesystem, sizeof(out->filesystem), "%s", s->traits.kind);
    (void)snprintf(out->mount_point, sizeof(out->mount_point), "%s", s->root);
    return PAWL_OK;
}

/* ---- files ---------------------------------------------------------------------------------- */

static pawl_status find_to_open(mem_store *m, const char *path, store_mode mode, tree_node **node,
                                pawl_error *err) {
    if (store_mode_creates(mode)) {
        return add_node(m, path, STORE_FILE_TYPE, node, "cannot create the file", err);
    }
    TRY(mem_find(m, path, node, "cannot open the file", err));
    if ((*node)->type != STORE_FILE_TYPE) {
        return store_failure(&m->base, path, EISDIR, err, "cannot open the file");
    }
    return PAWL_OK;
}

static pawl_status mem_open(store *s, const char *path, store_mode mode, store_file **out,
                            pawl_error *err) {
    mem_store *m = mem_of(s);
    AUTOFREE mem_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, path, err));
    TRY(find_to_open(m, path, mode, &f->node, err));
    store_tree_hold(f->node);
    store_file_init(&f->base, s, path);
    f->readable = !store_mode_creates(mode);
    f->writable = !store_mode_only_reads(mode);
    *out = &f->base;
    f = NULL;
    return PAWL_OK;
}

static pawl_status mem_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                            pawl_error *err) {
    mem_store *m = mem_of(f->in);
    mem_file *file = (mem_file *)f;
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, f->path, err));
    if (!file->readable) {
        return store_failure(f->in, f->path, EBADF, err, "cannot read");
    }
    *got = store_tree_read(file->node, at, to, n);
    return PAWL_OK;
}

static pawl_status write_checked(mem_store *m, mem_file *file, uint64_t at, const void *from,
                                 size_t n, pawl_error *err) {
    uint64_t end = 0;
    if (!file->writable) {
        return store_failure(&m->base, file->base.path, EBADF, err, "cannot write");
    }
    if (add_overflows(at, n, &end) || end > INT64_MAX) {
        return store_failure(&m->base, file->base.path, EFBIG, err, "cannot write");
    }
    TRY(store_tree_reserve_bytes(file->node, end, err));
    TRY(tell_journal(
        m, &(mem_change){.kind = MEM_WRITE, .node = file->node, .at = at, .bytes = from, .n = n},
        err));
    store_tree_write(file->node, at, from, n);
    return PAWL_OK;
}

static pawl_status mem_write(store_file *f, uint64_t at, const void *from, size_t n, size_t *put,
                             pawl_error *err) {
    mem_store *m = mem_of(f->in);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, f->path, err));
    TRY(write_checked(m, (mem_file *)f, at, from, n, err));
    *put = n;
    return PAWL_OK;
}

static pawl_status mem_size(store_file *f, uint64_t *out, pawl_error *err) {
    mem_store *m = mem_of(f->in);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, f->path, err));
    *out = ((mem_file *)f)->node->size;
    return PAWL_OK;
}

/* The file has its size at once, zeros inside, as on a filesystem. */
static pawl_status mem_reserve(store_file *f, uint64_t bytes, pawl_error *err) {
    static const char what[] = "cannot reserve room for the file";
    mem_store *m = mem_of(f->in);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, f->path, err));
    if (!((mem_file *)f)->writable) {
        return store_failure(f->in, f->path, EBADF, err, what);
    }
    if (bytes > INT64_MAX) {
        return store_failure(f->in, f->path, EFBIG, err, what);
    }
    bool grows = bytes > ((mem_file *)f)->node->size;
    return grows ? write_checked(m, (mem_file *)f, bytes - 1, "", 1, err) : PAWL_OK;
}

static pawl_status mem_sync(store_file *f, pawl_error *err) {
    mem_store *m = mem_of(f->in);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    TRY(mem_before(m, f->path, err));
    return tell_journal(m, &(mem_change){.kind = MEM_SYNC, .node = ((mem_file *)f)->node}, err);
}

static void mem_close(store_file *f) {
    mem_store *m = mem_of(f->in);
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter(m);
    store_tree_drop(((mem_file *)f)->node);
    mem_free(f);
}

/* ---- the store ------------------------------------------------------------------------------ */

static void mem_destroy(store *s) {
    mem_store *m = mem_of(s);
    if (m->journal != NULL) {
        m->journal->destroy(m->journal->context);
    }
    store_tree_drop(m->root);
    monitor_destroy(&m->lock);
    mem_free(s->root);
    mem_free(m);
}

static const store_ops mem_ops = {.open = mem_open,
                                  .read = mem_read,
                                  .write = mem_write,
                                  .size = mem_size,
                                  .reserve = mem_reserve,
                                  .sync = mem_sync,
                                  .close = mem_close,
                                  .make_dir = mem_make_dir,
                                  .remove_dir = mem_remove_dir,
                                  .rename = mem_rename,
                                  .put = mem_put,
                                  .unlink = mem_unlink,
                                  .sync_dir = mem_sync_dir,
                                  .list = mem_list,
                                  .stat = mem_stat,
                                  .space = mem_space,
                                  .destroy = mem_destroy};

static pawl_status mem_init(mem_store *m, const store_traits *traits, pawl_error *err) {
    m->base.ops = &mem_ops;
    m->base.traits = *traits;
    m->base.root = mem_strdup("/mem");
    return m->base.root == NULL ? error_nomem(err, sizeof("/mem")) : monitor_init(&m->lock, err);
}

pawl_status store_mem_over(tree_node *root, const store_traits *traits, mem_store **out,
                           pawl_error *err) {
    mem_store *m = mem_calloc(1, sizeof(*m));
    if (m == NULL) {
        store_tree_drop(root);
        return error_nomem(err, sizeof(*m));
    }
    pawl_status status = mem_init(m, traits, err);
    if (status != PAWL_OK) {
        mem_free(m->base.root);
        mem_free(m);
        store_tree_drop(root);
        return status;
    }
    m->root = root;
    *out = m;
    return PAWL_OK;
}

pawl_status store_mem(store **out, pawl_error *err) {
    tree_node *root = store_tree_new(STORE_DIR_TYPE);
    mem_store *m = NULL;
    if (root == NULL) {
        return error_nomem(err, sizeof(*root));
    }
    TRY(store_mem_over(root, &store_mem_traits, &m, err));
    *out = &m->base;
    return PAWL_OK;
}
