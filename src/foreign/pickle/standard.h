/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle/standard: names of functions of Python itself. Nothing is ever executed, whatever its name
 * is; but a file that calls what is in Python itself is one to beware of, unless it is known to do
 * no more than to make a number, a text, or a container.
 */
#ifndef FOREIGN_PICKLE_STANDARD_H
#define FOREIGN_PICKLE_STANDARD_H

#include "base/base.h"

/* Is "os.path" a module of Python, or in one? */
bool pickle_is_standard(const char *module);
/* Does a name with dots go through a module of Python, or what every object has ("os.system",
 * "f.__globals__")? Or is it no name at all? */
bool pickle_leads_away(const char *module, const char *name);
/* Of a function of Python: does it only make a value? */
bool pickle_is_harmless(const char *module, const char *name);

#endif
