/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses texts that cannot be meant as a path (P08, P10), and takes file:// URLs apart. */
#include "path/private.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool exists(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0;
}

/* ---- what a shell should have replaced ---- */

static pawl_status check_tilde(const char *given, pawl_error *err) {
    if (given[0] != '~' || exists(given)) {
        return PAWL_OK;
    }
    int length = (int)strcspn(given, "/");
    error_set(err, PAWL_EUSAGE, "%.*s was not replaced by a home directory", length, given);
    error_found(err,
                "a path that begins with ~, which only a shell replaces, and not within quotes");
    error_next(err,
               "write the home directory out, or take the quotes away; ./%.*s is a directory of "
               "that name",
               length, given);
    return PAWL_EUSAGE;
}

/* The first $NAME or ${NAME}; NULL: none. */
static const char *find_variable(const char *text, int *length) {
    for (const char *at = strchr(text, '$'); at != NULL; at = strchr(at + 1, '$')) {
        bool braces = at[1] == '{';
        const char *name = at + (braces ? 2 : 1);
        size_t n = 0;
        while (isalnum((unsigned char)name[n]) || name[n] == '_') {
            n++;
        }
        if (n > 0 && !isdigit((unsigned char)name[0]) && (!braces || name[n] == '}')) {
            *length = (int)(n + (braces ? 3 : 1));
            return at;
        }
    }
    return NULL;
}

static pawl_status check_variable(const char *given, pawl_error *err) {
    int length = 0;
    const char *variable = find_variable(given, &length);
    if (variable == NULL || exists(given)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%.*s was not replaced by its value", length, variable);
    error_found(err,
                "a path with the name of a variable, which only a shell replaces, and not within "
                "single quotes");
    error_next(err, "write the value out, or take the quotes away");
    return PAWL_EUSAGE;
}

/* ---- URLs ---- */

/* The length of `scheme` in "scheme://"; 0: this is no URL. */
static size_t scheme_length(const char *given) {
    size_t n = 0;
    while (isalnum((unsigned char)given[n]) ||
           (n > 0 && strchr("+-.", given[n]) != NULL && given[n] != '\0')) {
        n++;
    }
    return n > 0 && isalpha((unsigned char)given[0]) && strncmp(given + n, "://", 3) == 0 ? n : 0;
}

bool path_is_object_store(const char *given) {
    static const char *const schemes[] = {"s3",   "s3a",   "s3n",  "gs",    "gcs", "az",
                                          "abfs", "abfss", "r2",   "adl",   "oci", "oss",
                                          "cos",  "obs",   "wasb", "wasbs", "b2",  "swift"};
    size_t n = scheme_length(given);
    for (size_t i = 0; i < ARRAY_LENGTH(schemes); i++) {
        if (n == strlen(schemes[i]) && strncmp(given, schemes[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static pawl_status object_store(const char *given, size_t n, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%.*s:// is an object store, and this version saves to directories",
              (int)n, given);
    error_expected(err, "a directory, or file:// and an absolute path");
    error_found(err, "the scheme \"%.*s\"; no bucket and no credentials were looked for", (int)n,
                given);
    error_next(err, "save to a directory, and copy checkpoints from there once they are committed; "
                    "or mount the bucket as a filesystem, and ask pawl doctor what that lacks");
    return PAWL_EUSAGE;
}

static pawl_status other_scheme(const char *given, size_t n, pawl_error *err) {
    if (path_is_object_store(given)) {
        return object_store(given, n, err);
    }
    error_set(err, PAWL_EUSAGE, "%.*s:// is not a kind of storage that this version knows", (int)n,
              given);
    error_expected(err, "a directory, or file:// and an absolute path");
    error_found(err, "the scheme \"%.*s\"", (int)n, given);
    error_next(err,
               "save to a directory, and copy from there; or mount the storage as a filesystem");
    return PAWL_EUSAGE;
}

static int hexadecimal(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Decodes %xx of RFC 3986, in place. False for a percent sign without two digits, and for %00. */
static bool decode_percent(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hexadecimal(from[1]);
        int low = high < 0 ? -1 : hexadecimal(from[2]);
        if (low < 0 || high * 16 + low == 0) {
            return false;
        }
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = '\0';
    return true;
}

static pawl_status file_url(const char *given, char **path, pawl_error *err) {
    const char *rest = given + strlen("file://");
    const char *local = "localhost/";
    if (strncmp(rest, local, strlen(local)) == 0) {
        rest += strlen(local) - 1;
    }
    if (rest[0] != '/') {
        error_set(err, PAWL_EUSAGE, "the URL names another host, or a relative path");
        error_expected(err, "file:/// and an absolute path on this host");
        error_next(err, "write file:///%s if that is the path", rest);
        return PAWL_EUSAGE;
    }
    *path = mem_strdup(rest);
    if (*path == NULL) {
        return error_nomem(err, strlen(rest) + 1);
    }
    if (!decode_percent(*path)) {
        error_set(err, PAWL_EUSAGE, "the URL has a percent sign without two hexadecimal digits");
        error_next(err, "write %%25 for a percent sign, or give the path instead of a URL");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

/* ---- lengths ---- */

static pawl_status check_lengths(const char *path, pawl_error *err) {
    if (strlen(path) >= PATH_MAX) {
        error_set(err, PAWL_ELIMIT, "the path is too long");
        error_expected(err, "at most %d bytes", PATH_MAX - 1);
        error_found(err, "%zu bytes", strlen(path));
        return PAWL_ELIMIT;
    }
    for (const char *at = path; *at != '\0';) {
        size_t n = strcspn(at, "/");
        if (n > NAME_MAX) {
            error_set(err, PAWL_ELIMIT, "a name in the path is too long");
            error_expected(err, "at most %d bytes", NAME_MAX);
            error_found(err, "%zu bytes: %.60s...", n, at);
            return PAWL_ELIMIT;
        }
        at += n;
        at += strspn(at, "/");
    }
    return PAWL_OK;
}

pawl_status path_check_syntax(const char *given, char **path, pawl_error *err) {
    *path = NULL;
    if (given[0] == '\0') {
        error_set(err, PAWL_EUSAGE, "it is empty");
        error_next(err, "give the directory of the run");
        return PAWL_EUSAGE;
    }
    size_t scheme = scheme_length(given);
    if (scheme == strlen("file") && strncmp(given, "file", scheme) == 0) {
        TRY(file_url(given, path, err));
        return check_lengths(*path, err);
    }
    if (scheme > 0) {
        return other_scheme(given, scheme, err);
    }
    TRY(check_tilde(given, err));
    TRY(check_variable(given, err));
    TRY(check_lengths(given, err));
    *path = mem_strdup(given);
    return *path != NULL ? PAWL_OK : error_nomem(err, strlen(given) + 1);
}
