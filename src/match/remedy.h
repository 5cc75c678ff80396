/* SPDX-License-Identifier: Apache-2.0 */
/* remedy: what to do about a difference, as data; sentence.c makes words of it. */
#ifndef MATCH_REMEDY_H
#define MATCH_REMEDY_H

#include "match/sentence.h"

/* Fills the item's `change` and `remedies`. What is not constant is kept in `memory`. */
pawl_status remedy_find(pawl_report_item *item, const sentence_facts *facts, arena *memory,
                        pawl_error *err) PAWL_MUST_CHECK;

#endif
