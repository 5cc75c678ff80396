/* SPDX-License-Identifier: Apache-2.0 */
/* Lists what is wrong where the ranks of a job match a checkpoint together. */
#include "match/match.h"

#include <string.h>

/* Is it the last fault again, of the entries right after it? */
static bool continues_last(const match_job_faults *faults, const match_job_fault *fault) {
    if (faults->count == 0) {
        return false;
    }
    const match_job_fault *last = &faults->items[faults->count - 1];
    return last->first + last->count == fault->first && last->error == fault->error &&
           strcmp(last->lacking, fault->lacking) == 0 && strcmp(last->holding, fault->holding) == 0;
}

pawl_status match_job_fault_add(match_job_faults *faults, const match_job_fault *fault,
                                pawl_error *err) {
    if (continues_last(faults, fault)) {
        faults->items[faults->count - 1].count += fault->count;
        return PAWL_OK;
    }
    TRY(vec_reserve(&faults->items, &faults->capacity, faults->count + 1, sizeof *faults->items,
                    err));
    match_job_fault *kept = &faults->items[faults->count];
    *kept = *fault;
    kept->lacking = arena_strdup(&faults->memory, fault->lacking);
    kept->holding = arena_strdup(&faults->memory, fault->holding);
    if (kept->lacking == NULL || kept->holding == NULL) {
        return error_nomem(err, strlen(fault->lacking) + strlen(fault->holding) + 2);
    }
    faults->count++;
    return PAWL_OK;
}

void match_job_faults_free(match_job_faults *faults) {
    mem_free(faults->items);
    arena_free(&faults->memory);
    *faults = (match_job_faults){.items = NULL};
}
