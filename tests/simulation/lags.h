/* SPDX-License-Identifier: Apache-2.0 */
/* What a host knows of the storage, which is not always what is there: L1 to L3 in storage.h. */
#ifndef SIMULATION_LAGS_H
#define SIMULATION_LAGS_H

#include "simulation/storage.h"
#include "store/wrap.h"

typedef struct storage_host storage_host;

/* The host of this name; its processes see the same. */
storage_host *lags_host(storage *s, const char *name);

/* What a host sees under a name, or in a directory. PAWL_ENOTFOUND leaves *err alone. */
bool lags_sees_absent(storage *s, storage_host *h, const char *path);
pawl_status lags_stat(storage *s, storage_host *h, const char *path, store_stat *out,
                      pawl_error *err);
pawl_status lags_list(storage *s, storage_host *h, const store_call *call, pawl_error *err);
/* Has a look at a name shown that it does not exist? */
void lags_found_absent(storage *s, storage_host *h, const char *path);

/* The errno with which the host itself refuses a change; 0: it asks the storage. */
int lags_refuses(storage *s, storage_host *h, const store_call *call);

/* Around a change: what was there before, and what came of it. `h` NULL: it is nobody's, as far as
 * any host knows. */
typedef struct lags_change {
    bool from, to; /* was there */
    store_stat from_stat;
} lags_change;
void lags_before(storage *s, const store_call *call, lags_change *before);
void lags_after(storage *s, storage_host *h, const store_call *call, const lags_change *before,
                pawl_status status);
/* The storage has answered a host's change, whatever it said. */
void lags_heard(storage *s, storage_host *h, const store_call *call, pawl_status status);

#endif
