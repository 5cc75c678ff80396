/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a checkpoint for people. */
#include "metrics.h"
#include "memory.h"
#include "numbers.h"

#include <jansson.h>
#include <stdlib.h>

enum { SHOWN_DIGITS = 6 };

static char *describe(const json_t *metrics) {
    char *text = must_strdup("");
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)metrics, name, value) {
        char number[NUMBER_SIZE];
        if (!json_is_number(value)) {
            continue;
        }
        char *longer = must_printf("%s%s%s %s", text, *text != '\0' ? ", " : "", name,
                                   number_text(number, json_number_value(value), SHOWN_DIGITS));
        free(text);
        text = longer;
    }
    return text;
}

char *metrics_text(const char *json_text) {
    json_t *metrics = json_text != NULL ? json_loads(json_text, 0, NULL) : NULL;
    char *text = describe(metrics);
    json_decref(metrics);
    return text;
}

char *metrics_of_manifest(const char *manifest_json) {
    json_t *manifest = manifest_json != NULL ? json_loads(manifest_json, 0, NULL) : NULL;
    char *text = describe(json_object_get(manifest, "metrics"));
    json_decref(manifest);
    return text;
}
