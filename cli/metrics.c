/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a checkpoint for people. */
#include "metrics.h"
#include "memory.h"
#include "numbers.h"

#include <jansson.h>
#include <stdio.h>

static void describe(const json_t *metrics, FILE *to) {
    const char *between = "";
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)metrics, name, value) {
        char number[NUMBER_SIZE];
        if (json_is_number(value)) {
            fprintf(to, "%s%s %s", between, name,
                    number_text(number, json_number_value(value), SHOWN_DIGITS));
            between = ", ";
        }
    }
}

char *metrics_text(const char *json_text) {
    char *text = NULL;
    size_t size = 0;
    json_t *metrics = json_text != NULL ? json_loads(json_text, 0, NULL) : NULL;
    FILE *to = open_memstream(&text, &size);
    if (to != NULL) {
        describe(metrics, to);
        (void)fclose(to);
    }
    json_decref(metrics);
    return text != NULL ? text : must_strdup("");
}
