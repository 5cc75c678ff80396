/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a checkpoint for people. */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H

/* "loss 1.25, accuracy 0.9" of a JSON object of numbers; "" for anything else; allocated. */
char *metrics_text(const char *json_text);

#endif
