/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the directories, and keeps what is found. */
#include "path/path.h"
#include "survey/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- small things --------------------------------------------------------------------------- */

void survey_sum_add(survey_sum *sum, const store_stat *stat) {
    bool fits = stat->size <= UINT64_MAX - sum->bytes;
    sum->files++;
    sum->bytes = fits ? sum->bytes + stat->size : UINT64_MAX;
    sum->newest_ns =
        stat->modified_unix_ns > sum->newest_ns ? stat->modified_unix_ns : sum->newest_ns;
}

bool survey_join(char out[STORE_MAX_PATH], const char *directory, const char *name) {
    int n =
        snprintf(out, STORE_MAX_PATH, "%s%s%s", directory, directory[0] != '\0' ? "/" : "", name);
    return n >= 0 && n < STORE_MAX_PATH;
}

bool survey_ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

bool survey_has(const survey_directory *d, const char *name) {
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

pawl_status survey_add(pawl_survey *v, pawl_found f, const survey_sum *sum, pawl_error *err) {
    TRY(vec_reserve(&v->found, &v->capacity, v->count + 1, sizeof(*v->found), err));
    f.struct_size = sizeof(f);
    f.step = f.step < 0 ? survey_step_of(f.path) : f.step;
    f.path = arena_strdup(&v->texts, f.path[0] != '\0' ? f.path : ".");
    f.why = f.why != NULL ? arena_strdup(&v->texts, f.why) : NULL;
    f.bytes = sum->bytes;
    f.files = sum->files;
    f.unix_time_ns = sum->newest_ns;
    if (f.path == NULL || (f.status != PAWL_STEP_COMMITTED && f.why == NULL)) {
        return error_nomem(err, STORE_MAX_PATH);
    }
    v->found[v->count++] = f;
    return PAWL_OK;
}

/* ---- listing -------------------------------------------------------------------------------- */

/* A name of a storage that has links: a file that one leads to, within the root. */
static void follow(pawl_survey *v, const char *path, store_stat *stat) {
    struct pawl_error ignored = ERROR_INIT;
    if (v->links == v->store) {
        return;
    }
    if (!path_leads_within(v->store->root, path)) {
        v->led_out++;
    } else if (store_stat_path(v->links, path, stat, &ignored) != PAWL_OK ||
               stat->type != STORE_FILE_TYPE) {
        stat->type = STORE_OTHER_TYPE;
    }
}

static pawl_status look_at_names(pawl_survey *v, survey_directory *out, char **names, size_t count,
                                 arena *memory, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    out->items = arena_take(memory, (count + 1) * sizeof(*out->items), err);
    out->taken = arena_take(memory, count + 1, err);
    if (out->items == NULL || out->taken == NULL) {
        return PAWL_ENOMEM;
    }
    memset(out->taken, 0, count + 1);
    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        char path[STORE_MAX_PATH];
        survey_item item = {.name = names[i]};
        if (!survey_join(path, out->path, names[i]) ||
            store_stat_path(v->store, path, &item.stat, &ignored) != PAWL_OK) {
            continue; /* removed since, or out of reach */
        }
        if (item.stat.type == STORE_OTHER_TYPE) {
            follow(v, path, &item.stat);
        }
        out->items[out->count++] = item;
    }
    return PAWL_OK;
}

pawl_status survey_list(pawl_survey *v, const char *path, arena *memory, survey_directory *out,
                        bool *listed, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    char **names;
    size_t count;
    size_t most = PAWL_SURVEY_MAX_NAMES - v->names;
    *out = (survey_directory){.path = path};
    *listed = false;
    if (v->directories == PAWL_SURVEY_MAX_DIRECTORIES || most == 0) {
        v->too_many = true;
        return PAWL_OK;
    }
    v->directories++;
    pawl_status status = store_names(v->store, path, most, memory, &names, &count, &story);
    if (status == PAWL_ELIMIT) {
        v->too_many = true;
        return PAWL_OK;
    }
    if (status == PAWL_ENOMEM || (status != PAWL_OK && path[0] == '\0')) {
        *err = story;
        return status;
    }
    if (status != PAWL_OK) {
        v->unread++;
        return PAWL_OK;
    }
    v->names += count;
    *listed = true;
    return look_at_names(v, out, names, count, memory, err);
}

pawl_status survey_sum_below(pawl_survey *v, const char *path, int depth, survey_sum *sum,
                             pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    survey_directory d;
    bool listed;
    TRY(survey_list(v, path, &memory, &d, &listed, err));
    for (size_t i = 0; listed && i < d.count; i++) {
        char below[STORE_MAX_PATH];
        if (d.items[i].stat.type == STORE_FILE_TYPE) {
            survey_sum_add(sum, &d.items[i].stat);
        } else if (d.items[i].stat.type == STORE_DIR_TYPE &&
                   survey_join(below, path, d.items[i].name)) {
            v->too_deep += depth == PAWL_SURVEY_MAX_DEPTH;
            if (depth < PAWL_SURVEY_MAX_DEPTH) {
                TRY(survey_sum_below(v, below, depth + 1, sum, err));
            }
        }
    }
    return PAWL_OK;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static pawl_status walk(pawl_survey *v, const char *path, int depth, pawl_error *err);

static pawl_status walk_on(pawl_survey *v, const survey_directory *d, int depth, pawl_error *err) {
    for (size_t i = 0; i < d->count; i++) {
        char below[STORE_MAX_PATH];
        bool whole = false;
        const survey_item *item = &d->items[i];
        if (d->taken[i] || !survey_join(below, d->path, item->name)) {
            continue;
        }
        TRY(survey_by_name(v, d, item, &whole, err));
        if (whole || item->stat.type != STORE_DIR_TYPE || item->name[0] == '.') {
            continue;
        }
        v->too_deep += depth == PAWL_SURVEY_MAX_DEPTH;
        if (depth < PAWL_SURVEY_MAX_DEPTH) {
            TRY(walk(v, below, depth + 1, err));
        }
    }
    return PAWL_OK;
}

static pawl_status walk(pawl_survey *v, const char *path, int depth, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    survey_directory d;
    bool listed;
    bool whole = false;
    TRY(survey_list(v, path, &memory, &d, &listed, err));
    if (!listed) {
        return PAWL_OK;
    }
    TRY(survey_run(v, &d, &whole, err));
    if (!whole) {
        TRY(survey_as_whole(v, &d, &whole, err));
    }
    if (whole) {
        return PAWL_OK;
    }
    TRY(survey_files(v, &d, err));
    return walk_on(v, &d, depth, err);
}

static int by_path(const void *a, const void *b) {
    const pawl_found *x = a;
    const pawl_found *y = b;
    return survey_compare(x->path, y->path);
}

/* ---- what was left out ---------------------------------------------------------------------- */

static pawl_status say_count(buffer *text, size_t count, const char *one, const char *many,
                             pawl_error *err) {
    return count == 0 ? PAWL_OK
                      : buffer_printf(text, err, "%s%zu %s", text->size > 0 ? "; " : "", count,
                                      count == 1 ? one : many);
}

static pawl_status say_left_out(pawl_survey *v, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    if (v->too_many) {
        TRY(buffer_printf(&text, err, "more than %d directories or %d names",
                          PAWL_SURVEY_MAX_DIRECTORIES, PAWL_SURVEY_MAX_NAMES));
    }
    TRY(say_count(&text, v->too_deep, "directory below the sixth level",
                  "directories below the sixth level", err));
    TRY(say_count(&text, v->unread, "directory that cannot be read",
                  "directories that cannot be read", err));
    TRY(say_count(&text, v->led_out, "link that leads out of the directory, or nowhere",
                  "links that lead out of the directory, or nowhere", err));
    if (text.size > 0) {
        v->left_out = arena_strdup(&v->texts, (const char *)text.data);
    }
    return text.size > 0 && v->left_out == NULL ? error_nomem(err, text.size) : PAWL_OK;
}

/* ---- the survey ----------------------------------------------------------------------------- */

pawl_status survey_open(store *s, store *links, pawl_survey **out, pawl_error *err) {
    pawl_survey *v = mem_calloc(1, sizeof(*v));
    if (v == NULL) {
        return error_nomem(err, sizeof(*v));
    }
    v->store = s;
    v->links = links;
    pawl_status status = walk(v, "", 0, err);
    if (status == PAWL_OK) {
        status = say_left_out(v, err);
    }
    if (status != PAWL_OK) {
        pawl_survey_free(v);
        return status;
    }
    v->store = v->links = NULL;
    if (v->count > 1) {
        qsort(v->found, v->count, sizeof(*v->found), by_path);
    }
    *out = v;
    return PAWL_OK;
}

void pawl_survey_free(pawl_survey *survey) {
    if (survey != NULL) {
        mem_free(survey->found);
        arena_free(&survey->texts);
        mem_free(survey);
    }
}

size_t pawl_survey_count(const pawl_survey *survey) {
    return survey != NULL ? survey->count : 0;
}

const pawl_found *pawl_survey_get(const pawl_survey *survey, size_t i) {
    return i < pawl_survey_count(survey) ? &survey->found[i] : NULL;
}

const char *pawl_survey_left_out(const pawl_survey *survey) {
    return survey != NULL ? survey->left_out : NULL;
}
