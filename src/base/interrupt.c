/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the caller whether the call is to end. */
#include "base/interrupt.h"
#include "base/base.h"

bool interrupt_asks(const interrupt *i) {
    return i != NULL && i->ask != NULL;
}

bool interrupt_said(interrupt *i) {
    if (interrupt_asks(i) && !i->said) {
        i->asking = true;
        i->said = i->ask(i->context) != 0;
        i->asking = false;
    }
    return i != NULL && i->said;
}

bool interrupt_sleep(interrupt *i, const platform *os, uint64_t ns) {
    uint64_t part = interrupt_asks(i) ? INTERRUPT_PERIOD_NS : ns;
    for (uint64_t left = ns; left > 0; left -= part) {
        if (interrupt_said(i)) {
            return true;
        }
        part = part < left ? part : left;
        os->sleep_ns(os->context, part);
    }
    return interrupt_said(i);
}

pawl_status interrupt_error(pawl_error *err) {
    return error_set(err, PAWL_ECANCELED, "interrupted by the caller");
}
