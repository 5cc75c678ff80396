/* SPDX-License-Identifier: Apache-2.0 */
/* What SCOPED calls to release handles. */
#include "cli.h"

#include <stdlib.h>

void scoped_free(void *pointer_to_pointer) {
    free(*(void **)pointer_to_pointer);
}

void scoped_catalog(pawl_catalog **catalog) {
    pawl_catalog_free(*catalog);
}

void scoped_survey(pawl_survey **survey) {
    pawl_survey_free(*survey);
}

void scoped_checkpoint(pawl_checkpoint **checkpoint) {
    if (*checkpoint != NULL) {
        pawl_checkpoint_close(*checkpoint);
    }
}

void scoped_events(pawl_events **events) {
    pawl_events_close(*events);
}

void scoped_entries(pawl_entries **entries) {
    if (*entries != NULL) {
        pawl_entries_free(*entries);
    }
}
