/* SPDX-License-Identifier: Apache-2.0 */
/* remedy: what to do about a difference, as data; sentence.c makes words of it. */
#ifndef MATCH_REMEDY_H
#define MATCH_REMEDY_H

#include "match/sentence.h"

/* Fills the item's `change` and `remedies`. What is not constant is kept in `memory`. */
pawl_status remedy_find(pawl_report_item *item, const sentence_facts *facts, arena *memory,
                        pawl_error *err) PAWL_MUST_CHECK;

/* Sets the option that it names; a rule is for the caller to add. */
void remedy_apply(const pawl_remedy *remedy, pawl_restore_options *options);
bool remedy_is_model_only(const pawl_remedy *remedy);

#endif
