/* SPDX-License-Identifier: Apache-2.0 */
/* Advice of the library in words of the command. */
#ifndef CLI_DOCTOR_WORDS_H
#define CLI_DOCTOR_WORDS_H

/* What a restore would be told by options of the C interface ("set options.missing =
 * PAWL_POLICY_ALLOW to ...", "add {"a", "b"} to options.renames") as one says it to whoever calls
 * another language ("restore with missing = allow to ..."), and rules as options of the command
 * ("give --rename a=b"). NULL of NULL; free the result. */
char *doctor_words(const char *advice);

#endif
