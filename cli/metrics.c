/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a checkpoint for people. */
#include "metrics.h"
#include "common/json.h"
#include "memory.h"
#include "numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe_metric(json_span name, double value, const char *between, FILE *to) {
    char number[NUMBER_SIZE];
    char *text = must_alloc(name.n + 1);
    text[json_decode(name, text, name.n)] = '\0';
    fprintf(to, "%s%s %s", between, text, number_text(number, value, SHOWN_DIGITS));
    free(text);
}

/* {"loss": 0.5, "steps": 3} as "loss 0.5, steps 3"; what is no number is left out. */
static void describe(json_reader *r, FILE *to) {
    const char *between = "";
    json_span name;
    json_span text;
    bool more = true;
    bool good = json_enter(r, '{') == PAWL_OK;
    while (good && more) {
        good = json_member(r, &name, &more) == PAWL_OK;
        if (good && more) {
            uint8_t byte = json_peek(r);
            double value = 0;
            good = json_skip(r, &text) == PAWL_OK;
            if (good && (byte == '-' || (byte >= '0' && byte <= '9')) &&
                json_number(text, &value)) {
                describe_metric(name, value, between, to);
                between = ", ";
            }
        }
    }
}

char *metrics_text(const char *json_text) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to != NULL) {
        json_reader r = json_reader_of(json_text, json_text != NULL ? strlen(json_text) : 0);
        describe(&r, to);
        (void)fclose(to);
    }
    return text != NULL ? text : must_strdup("");
}
