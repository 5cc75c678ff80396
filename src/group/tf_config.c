/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TF_CONFIG, in which TensorFlow's jobs of several workers are told who they are:
 *
 *   {"cluster": {"chief": ["host:port"], "worker": ["host:port", ...], "ps": [...]},
 *    "task": {"type": "worker", "index": 1}}
 *
 * Ranks are numbered as tf.distribute numbers them: the chief ("master" in old ones), then the
 * workers. With parameter servers the chief alone trains, and saves. Servers and evaluators are
 * processes by themselves.
 */
#include "base/json.h"
#include "group/launchers.h"

#include <stdio.h>
#include <string.h>

static const char variable[] = "TF_CONFIG";

typedef struct tf_config {
    uint64_t chiefs, workers, servers;
    json_span type;
    uint64_t index;
    bool has_index;
} tf_config;

/* How many addresses: a list, or an object that has them by number. */
static pawl_status count_addresses(json_reader *r, uint64_t *count) {
    bool listed = json_peek(r) == '[';
    bool more = true;
    TRY(json_enter(r, listed ? '[' : '{'));
    for (*count = 0;; (*count)++) {
        TRY(listed ? json_element(r, &more) : json_member(r, NULL, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(json_skip(r, NULL));
    }
}

static pawl_status read_cluster(json_reader *r, tf_config *c) {
    json_span key;
    bool more = true;
    TRY(json_enter(r, '{'));
    for (;;) {
        TRY(json_member(r, &key, &more));
        if (!more) {
            return PAWL_OK;
        }
        if (json_is(key, "chief") || json_is(key, "master")) {
            TRY(count_addresses(r, &c->chiefs));
        } else if (json_is(key, "worker")) {
            TRY(count_addresses(r, &c->workers));
        } else if (json_is(key, "ps")) {
            TRY(count_addresses(r, &c->servers));
        } else {
            TRY(json_skip(r, NULL));
        }
    }
}

/* A number, or a text that is one. */
static pawl_status read_index(json_reader *r, tf_config *c) {
    json_span text;
    c->has_index = true;
    if (json_peek(r) != '"') {
        return json_u64(r, &c->index);
    }
    TRY(json_string(r, &text));
    json_reader inside = json_reader_of(text.text, text.n);
    TRY(json_u64(&inside, &c->index));
    return json_end(&inside);
}

static pawl_status read_task(json_reader *r, tf_config *c) {
    json_span key;
    bool more = true;
    TRY(json_enter(r, '{'));
    for (;;) {
        TRY(json_member(r, &key, &more));
        if (!more) {
            return PAWL_OK;
        }
        if (json_is(key, "type")) {
            TRY(json_string(r, &c->type));
        } else if (json_is(key, "index")) {
            TRY(read_index(r, c));
        } else {
            TRY(json_skip(r, NULL));
        }
    }
}

static pawl_status read_config(json_reader *r, tf_config *c) {
    json_span key;
    bool more = true;
    TRY(json_enter(r, '{'));
    for (;;) {
        TRY(json_member(r, &key, &more));
        if (!more) {
            return json_end(r);
        }
        if (json_is(key, "cluster")) {
            TRY(read_cluster(r, c));
        } else if (json_is(key, "task")) {
            TRY(read_task(r, c));
        } else {
            TRY(json_skip(r, NULL));
        }
    }
}

static pawl_status refuse(pawl_error *err, pawl_status status, const char *what) {
    error_set(err, status, "the environment variable %s does not say which rank this is", variable);
    error_expected(err, "{\"cluster\": {\"worker\": [\"host:port\", ...]}, \"task\": {\"type\": "
                        "\"worker\", \"index\": 0}}");
    error_found(err, "%s", what);
    error_next(err,
               "correct it as all ranks have it, or unset it where it does not belong to this job");
    return status;
}

static pawl_status claim_task(const tf_config *t, claim *c, pawl_error *err) {
    bool chief = json_is(t->type, "chief") || json_is(t->type, "master");
    bool worker = json_is(t->type, "worker");
    uint64_t of_type = chief ? t->chiefs : t->workers;
    if ((!chief && !worker) || t->servers > 0 || !t->has_index || t->chiefs + t->workers == 0) {
        return PAWL_OK; /* a process by itself */
    }
    if (t->index >= of_type) {
        return refuse(err, PAWL_EUSAGE,
                      chief ? "a chief that is not in the cluster"
                            : "a worker that is not in the cluster");
    }
    if (t->chiefs + t->workers > PAWL_MAX_RANKS) {
        return refuse(err, PAWL_ELIMIT, "more chiefs and workers than a group may have ranks");
    }
    c->made = true;
    c->rank = (int)(t->index + (chief ? 0 : t->chiefs));
    c->size = (int)(t->chiefs + t->workers);
    c->rank_from = "task";
    c->size_from = "cluster";
    return PAWL_OK;
}

pawl_status claim_tf_config(const char *const *environment, claim *c, pawl_error *err) {
    const char *text = environment_get(environment, variable);
    tf_config t = {.index = 0};
    if (text == NULL) {
        return PAWL_OK;
    }
    json_reader r = json_reader_of(text, strlen(text));
    if (read_config(&r, &t) != PAWL_OK) {
        char found[64];
        snprintf(found, sizeof found, "something else at character %zu", r.at + 1);
        return refuse(err, PAWL_EUSAGE, found);
    }
    return claim_task(&t, c, err);
}
