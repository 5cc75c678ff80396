/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes data files for the safetensors package to read: `write_sample DIRECTORY`. Says on stdout,
 * as a line of JSON per tensor, what is in which file. Byte i of tensor number t is (31 i + 7 t)
 * mod 251, of a BOOL its lowest bit.
 */
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 10000

static void die(pawl_error *err) {
    (void)fprintf(stderr, "%s\n", error_text(err));
    exit(1);
}

static void must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        die(err);
    }
}

static void write_data(FILE *out, const safetensors_tensor *tensor, size_t number) {
    for (uint64_t i = 0; i < tensor->bytes; i++) {
        unsigned byte = (unsigned)((31 * i + 7 * number) % 251);
        (void)fputc((int)(tensor->dtype == PAWL_BOOL ? byte & 1 : byte), out);
    }
}

static void say(const char *file, const safetensors_tensor *tensor, size_t number) {
    CLEANUP(buffer_free) buffer name = {.data = NULL};
    pawl_error err = ERROR_INIT;
    must(buffer_json_string(&name, tensor->name, strlen(tensor->name), &err), &err);
    (void)printf(
        "{\"file\": \"%s\", \"number\": %zu, \"name\": %s, \"dtype\": \"%s\", \"shape\": [", file,
        number, (const char *)name.data, pawl_dtype_name(tensor->dtype));
    for (int d = 0; d < tensor->ndim; d++) {
        (void)printf("%s%" PRId64, d > 0 ? ", " : "", tensor->shape[d]);
    }
    (void)printf("]}\n");
}

static void write_file(const char *directory, const char *file, safetensors_tensor *tensors,
                       size_t count, const safetensors_pair *metadata, size_t metadata_count) {
    char path[4096];
    CLEANUP(buffer_free) buffer header = {.data = NULL};
    uint64_t file_bytes = 0;
    pawl_error err = ERROR_INIT;
    must(safetensors_encode(tensors, count, metadata, metadata_count, &header, &file_bytes, &err),
         &err);
    (void)snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(header.data, 1, header.size, out) != header.size) {
        perror(path);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        write_data(out, &tensors[i], i);
        say(file, &tensors[i], i);
    }
    if (fclose(out) != 0) {
        perror(path);
        exit(1);
    }
}

/* Every dtype: a matrix, a vector of no elements and, where one fills whole bytes, a scalar. */
static void write_dtypes(const char *directory) {
    static const int64_t matrix[] = {3, 8}, nothing[] = {5, 0};
    static char names[3 * PAWL_U64][32];
    safetensors_tensor tensors[3 * PAWL_U64];
    size_t count = 0;
    for (int dtype = PAWL_U64; dtype >= PAWL_BOOL; dtype--) {
        const safetensors_tensor forms[] = {
            {.ndim = 2, .shape = matrix}, {.ndim = 2, .shape = nothing}, {.ndim = 0}};
        static const char *const what[] = {"matrix", "nothing", "scalar"};
        for (size_t i = 0; i < ARRAY_LENGTH(forms); i++) {
            if (i == 2 && pawl_dtype_bits((pawl_dtype)dtype) < 8) {
                continue;
            }
            (void)snprintf(names[count], sizeof names[count], "%s/%s",
                           pawl_dtype_name((pawl_dtype)dtype), what[i]);
            tensors[count] = forms[i];
            tensors[count].name = names[count];
            tensors[count].dtype = (pawl_dtype)dtype;
            count++;
        }
    }
    write_file(directory, "dtypes.safetensors", tensors, count, NULL, 0);
}

static void write_many(const char *directory) {
    static char names[MANY][32];
    static safetensors_tensor tensors[MANY];
    static int64_t shapes[MANY];
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "layer/%05zu/kernel", i);
        shapes[i] = (int64_t)(i % 5);
        tensors[i] = (safetensors_tensor){
            .name = names[i], .dtype = PAWL_F32, .ndim = 1, .shape = &shapes[i]};
    }
    write_file(directory, "many.safetensors", tensors, MANY, NULL, 0);
}

static void write_odd(const char *directory) {
    static const int64_t two = 2;
    safetensors_tensor tensors[] = {
        {.name = "\xc3\xa4/\xe2\x82\xac/\xf0\x9f\x98\x80",
         .dtype = PAWL_I16,
         .ndim = 1,
         .shape = &two},
        {.name = "quote\" backslash\\ tab\t del\x7f", .dtype = PAWL_U8, .ndim = 1, .shape = &two},
        {.name = "", .dtype = PAWL_BOOL, .ndim = 0}};
    const safetensors_pair metadata[] = {{"pawl_sum", "01234567"},
                                         {"format", "pt"},
                                         {"pawl", "{\"version\":1,\"k\":\"\\\"\"}"},
                                         {"\xc3\xa4", "line\nline"}};
    write_file(directory, "odd.safetensors", tensors, ARRAY_LENGTH(tensors), metadata,
               ARRAY_LENGTH(metadata));
}

int main(int count, char **arguments) {
    if (count != 2) {
        (void)fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    write_file(arguments[1], "empty.safetensors", NULL, 0, NULL, 0);
    write_dtypes(arguments[1]);
    write_many(arguments[1]);
    write_odd(arguments[1]);
    return 0;
}
