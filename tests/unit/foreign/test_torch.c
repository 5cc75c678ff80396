/* SPDX-License-Identifier: Apache-2.0 */
/* Zips of torch.save, made by hand and by others: what they have, and what is refused (R14). */
#include "unit/foreign/made_torch.h"

#include "lib/failing_memory.h"
#include "lib/in_memory.h"

#include <sys/resource.h>
#include <time.h>

/* ---- names ---------------------------------------------------------------------------------- */

static void test_names_are_the_way_to_a_value(void **state) {
    struct source *w = open_pickle(
        *state,
        "(dS'a.b'\nI1\nsS'a/b'\nI2\nsS'..'\nI3\nsS''\nI4\nsS'50%'\nI5\nsI7\n(dI-8\nI6\nssI01\nI7\n"
        "s(I1\nS'x'\ntI8\nsNI9\nsVl\\u00e4mp\\u000a\nI10\nsS'deep'\n(dS'er'\n(dS'est'\nI11\nsss"
        "S'7'\nI12\nsS'-8'\nI13\nsS'08'\nI14\nsS'$true'\nI15\nsS'$x'\nI16\nsS'/'\nI17\nsF1\nI18\ns"
        "S'__sequences__'\nI19\nsS'object'\nI20\nsS'%'\nI21\ns.");
    assert_int_equal(w->entries, 21);
    assert_entry(w, "%37", "int64 12"); /* a text that looks like an integer */
    assert_entry(w, "%2D8", "int64 13");
    assert_entry(w, "08", "int64 14");
    assert_entry(w, "%24true", "int64 15"); /* a text that looks like JSON */
    assert_entry(w, "$x", "int64 16");
    assert_entry(w, "%2F", "int64 17");
    assert_entry(w, "$1.0", "int64 18");
    assert_entry(w, "%5F_sequences__", "int64 19");
    assert_entry(w, "object", "int64 20"); /* not alone */
    assert_entry(w, "%25", "int64 21");
    assert_entry(w, "a.b", "int64 1");
    assert_entry(w, "a%2Fb", "int64 2");
    assert_entry(w, "%2E.", "int64 3");
    assert_entry(w, "%", "int64 4");
    assert_entry(w, "50%25", "int64 5");
    assert_entry(w, "7/-8", "int64 6");
    assert_entry(w, "$true", "int64 7");
    assert_entry(w, "${\"$\":\"tuple\",\"items\":[1,\"x\"]}", "int64 8");
    assert_entry(w, "$null", "int64 9");
    assert_entry(w, "l\xc3\xa4mp%0A", "int64 10");
    assert_entry(w, "deep/er/est", "int64 11");
    source_destroy(w);
}

static void test_an_object_without_a_name(void **state) {
    static const struct {
        const char *pickle, *says;
    } all[] = {
        {VECTOR ".", "F32 [12] 1 parts"},
        {"I5\n.", "int64 5"},
        {"N.", "json null"},
        {"(lI1\na.", "json [1]"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        struct source *w = open_pickle(*state, all[i].pickle);
        assert_int_equal(w->entries, 1);
        assert_entry(w, "object", all[i].says);
        source_destroy(w);
    }
    struct source *w = open_pickle(*state, "(d.");
    assert_int_equal(w->entries, 0);
    source_destroy(w);
}

/* A list, or an object, that has tensors is entries; what is beside them is, too. */
static void test_tensors_within(void **state) {
    static const named all[] = {
        {"list", "(l" VECTOR "aI1\na(l" VECTOR "aa"},
        {"none", "(lI1\na(lI2\naa"},
        {"o", "cm\nC\n(I3\nt\x81(dS'w'\n" VECTOR "sS'n'\nNsb"},
        {"slots", "cm\nC\n)\x81(N(dS'w'\n" VECTOR "stb"},
        {"d", "cm\nDict\n)\x81S'k'\n" VECTOR "s"},
        {"l", "cm\nList\n)\x81" VECTOR "a"},
        {"pair", "cm\nPair\n(" VECTOR "I4\nt\x81"},
        {"od", "ccollections\nOrderedDict\n((l(lS'k'\na" VECTOR "aatR"},
        {"dd", "ccollections\ndefaultdict\n(c__builtin__\nlist\ntRS'k'\n" VECTOR "s"},
        {"other", "cm\nC\n)\x81(l" VECTOR "ab"},
    };
    static const char *const tensors[] = {"list/0",
                                          "list/2/0",
                                          "o/w",
                                          "slots/w",
                                          "d/k",
                                          "l/0",
                                          "od/k",
                                          "dd/k",
                                          "pair/__arguments__/0",
                                          "other/__state__/0"};
    struct source *w = open_dict(*state, all, ARRAY_LENGTH(all));
    for (size_t i = 0; i < ARRAY_LENGTH(tensors); i++) {
        assert_tensor(w, tensors[i], torch_floats);
    }
    assert_entry(w, "list/1", "int64 1");
    assert_entry(w, "none", "json [1,[2]]");
    assert_entry(w, "o/__class__", "json {\"$\":\"object\",\"class\":\"m.C\",\"arguments\":[3]}");
    assert_entry(w, "o/n", "json null");
    assert_entry(w, "d/__class__", "json {\"$\":\"object\",\"class\":\"m.Dict\"}");
    assert_entry(w, "pair/__class__", "json {\"$\":\"object\",\"class\":\"m.Pair\"}");
    assert_entry(w, "pair/__arguments__/1", "int64 4");
    assert_int_equal(w->entries, ARRAY_LENGTH(tensors) + 4 + 6 + 1);
    source_destroy(w);
}

/* ---- tensors -------------------------------------------------------------------------------- */

#define AT(offset, size, stride) TENSOR(FLOATS, offset, size, stride)

static void test_views_of_a_storage(void **state) {
    static const float transposed[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    static const float row[] = {4, 5, 6, 7};
    static const float steps[] = {1, 3, 5};
    static const float twice[] = {2, 2, 2};
    static const float one[] = {11};
    static const float windows[] = {0, 1, 2, 1, 2, 3, 2, 3, 4};
    static const named all[] = {
        {"all", AT("0", "I3\nI4\n", "I4\nI1\n")},
        {"t", AT("0", "I4\nI3\n", "I1\nI4\n")},
        {"row", AT("4", "I4\n", "I1\n")},
        {"steps", AT("1", "I3\n", "I2\n")},
        {"twice", AT("2", "I3\n", "I0\n")},
        {"windows", AT("0", "I3\nI3\n", "I1\nI1\n")},
        {"one", AT("11", "", "")},
        {"ones", AT("11", "I1\nI1\n", "I99\nI0\n")},
        {"empty", AT("0", "I3\nI0\n", "I1\nI1\n")},
        {"none", AT("12", "I0\n", "I1\n")},
        {"p", "ctorch._utils\n_rebuild_parameter\n(" VECTOR "I01\nNtR"},
        {"sub", "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
                "cm\nMine\n(" FLOATS "I4\n(I4\nt(I1\ntI00\nNtNtR"},
    };
    struct source *w = open_dict(*state, all, ARRAY_LENGTH(all));
    assert_tensor(w, "all", torch_floats);
    assert_tensor(w, "t", transposed);
    assert_tensor(w, "row", row);
    assert_tensor(w, "sub", row);
    assert_tensor(w, "steps", steps);
    assert_tensor(w, "twice", twice);
    assert_tensor(w, "windows", windows);
    assert_tensor(w, "one", one);
    assert_tensor(w, "ones", one);
    assert_tensor(w, "p", torch_floats);
    assert_entry(w, "t", "F32 [4, 3] 1 parts");
    assert_entry(w, "one", "F32 [] 1 parts");
    assert_entry(w, "empty", "F32 [3, 0] 1 parts");
    assert_entry(w, "none", "F32 [0] 1 parts");
    assert_true(made_find(w, "all").pieces[0].file < ARCHIVE_PHASES); /* read in place */
    source_destroy(w);
}

static void test_types_of_storages(void **state) {
    static const struct {
        const char *pickle, *says;
    } all[] = {
#define OF(class, n) TENSOR(STORAGE(class, "0", n), "0", "I2\n", "I1\n")
        {OF("BoolStorage", "48"), "BOOL [2] 1 parts"},
        {OF("ByteStorage", "48"), "U8 [2] 1 parts"},
        {OF("CharStorage", "48"), "I8 [2] 1 parts"},
        {OF("ShortStorage", "24"), "I16 [2] 1 parts"},
        {OF("IntStorage", "12"), "I32 [2] 1 parts"},
        {OF("LongStorage", "6"), "I64 [2] 1 parts"},
        {OF("HalfStorage", "24"), "F16 [2] 1 parts"},
        {OF("BFloat16Storage", "24"), "BF16 [2] 1 parts"},
        {OF("DoubleStorage", "6"), "F64 [2] 1 parts"},
        {OF("ComplexFloatStorage", "6"), "C64 [2] 1 parts"},
        {OF("ComplexDoubleStorage", "3"), "F64 [2, 2] 1 parts"},
        {OF("QInt8Storage", "48"), "QINT8 [2] 1 parts"},
#define V3(type)                                                                                   \
    REBUILD("_rebuild_tensor_v3", STORAGE("UntypedStorage", "0", "48"), "0", "I2\n", "I1\n",       \
            "ctorch\n" type "\n")
        {V3("uint16"), "U16 [2] 1 parts"},
        {V3("uint64"), "U64 [2] 1 parts"},
        {V3("float8_e4m3fn"), "F8_E4M3 [2] 1 parts"},
        {V3("float8_e5m2"), "F8_E5M2 [2] 1 parts"},
        {V3("complex32"), "F16 [2, 2] 1 parts"},
        {REBUILD("_rebuild_tensor_v2", STORAGE("ComplexFloatStorage", "0", "6"), "0", "I2\n",
                 "I1\n", "(dS'conj'\nI01\ns"),
         "C64 [2] 1 parts"},
        {REBUILD("_rebuild_tensor_v2", STORAGE("ComplexFloatStorage", "0", "6"), "0", "I2\n",
                 "I1\n", "(dS'conj'\nI01\nsS'neg'\nI01\ns"),
         "C64_CONJ [2] 1 parts"},
        {REBUILD("_rebuild_tensor_v2", FLOATS, "0", "I2\n", "I1\n", "(dS'conj'\nI01\ns"),
         "NEGATED [2] 1 parts"},
        {REBUILD("_rebuild_tensor_v2", FLOATS, "0", "I2\n", "I1\n", "(dS'neg'\nI01\ns"),
         "NEGATED [2] 1 parts"},
        {REBUILD("_rebuild_tensor_v2", FLOATS, "0", "I2\n", "I1\n", "(dS'neg'\nI00\ns"),
         "F32 [2] 1 parts"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        CLEANUP(buffer_free) buffer b = {0};
        made_bytes(&b, all[i].pickle, strlen(all[i].pickle));
        made_bytes(&b, ".", 2);
        struct source *w = open_pickle(*state, (const char *)b.data);
        assert_entry(w, "object", all[i].says);
        source_destroy(w);
    }
}

/* Of complex128 two numbers of F64 are in an element; a conjugated view is conjugated. */
static void test_pairs_of_f64(void **state) {
    static const named all[] = {
        {"c", TENSOR(STORAGE("ComplexDoubleStorage", "0", "3"), "1", "I2\nI2\n", "I1\nI0\n")},
        {"conj", REBUILD("_rebuild_tensor_v2", STORAGE("ComplexDoubleStorage", "0", "3"), "1",
                         "I2\n", "I1\n", "(dS'conj'\nI01\ns")},
        {"conj64", REBUILD("_rebuild_tensor_v2", STORAGE("ComplexFloatStorage", "0", "6"), "0",
                           "I2\n", "I2\n", "(dS'conj'\nI01\ns")},
        {"one", TENSOR(STORAGE("ComplexDoubleStorage", "0", "3"), "2", "", "")},
        {"none", TENSOR(STORAGE("ComplexDoubleStorage", "0", "3"), "3", "I0\n", "I1\n")},
    };
    static const float conj64[] = {0, -1, 4, -5};
    double pairs[6];
    memcpy(pairs, torch_floats, sizeof(pairs));
    struct source *w = open_dict(*state, all, ARRAY_LENGTH(all));
    assert_entry(w, "c", "F64 [2, 2, 2] 1 parts");
    assert_tensor(w, "c",
                  ((const double[]){pairs[2], pairs[3], pairs[2], pairs[3], pairs[4], pairs[5],
                                    pairs[4], pairs[5]}));
    assert_entry(w, "conj", "F64 [2, 2] 1 parts");
    assert_tensor(w, "conj", ((const double[]){pairs[2], -pairs[3], pairs[4], -pairs[5]}));
    assert_tensor(w, "conj64", conj64);
    assert_entry(w, "one", "F64 [2] 1 parts");
    assert_tensor(w, "one", ((const double[]){pairs[4], pairs[5]}));
    assert_entry(w, "none", "F64 [0, 2] 1 parts");
    source_destroy(w);
}

#define SPARSE(layout, data)                                                                       \
    "ctorch._utils\n_rebuild_sparse_tensor\n(ctorch.serialization\n_get_layout\n(S'" layout        \
    "'\ntR(" data "ttR."

static void test_sparse_tensors(void **state) {
    struct source *w =
        open_pickle(*state, SPARSE("torch.sparse_coo", VECTOR VECTOR "(I3\nI4\ntI01\n"));
    assert_tensor(w, "indices", torch_floats);
    assert_tensor(w, "values", torch_floats);
    assert_entry(w, "size", "json [3,4]");
    assert_entry(w, "is_coalesced", "bool 1");
    assert_entry(w, "layout", "string torch.sparse_coo");
    source_destroy(w);
    w = open_pickle(*state, SPARSE("torch.sparse_csr", VECTOR VECTOR VECTOR "(I3\nI4\nt"));
    assert_int_equal(w->entries, 5);
    assert_tensor(w, "crow_indices", torch_floats);
    assert_tensor(w, "col_indices", torch_floats);
    source_destroy(w);
    w = open_pickle(*state, SPARSE("torch.sparse_bsc", VECTOR VECTOR VECTOR "(I3\nI4\nt"));
    assert_tensor(w, "ccol_indices", torch_floats);
    assert_tensor(w, "row_indices", torch_floats);
    assert_tensor(w, "values", torch_floats);
    source_destroy(w);
}

static void test_big_endian_and_deflated_files(void **state) {
    static const char pickle[] =
        "(dS'w'\n" VECTOR "sS't'\n" AT("0", "I4\nI3\n", "I1\nI4\n") "sS'u8'\n" TENSOR(
            STORAGE("ByteStorage", "0", "48"), "0", "I48\n", "I1\n") "s.";
    static const float transposed[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    for (unsigned i = 0; i < 4; i++) {
        struct pawl_error err;
        struct source *w;
        float w_expected[12], t_expected[12];
        bool big = i % 2 > 0;
        made_put_torch(*state, pickle, big ? "big" : i == 0 ? "little" : NULL, i >= 2 ? 8 : 0);
        memcpy(w_expected, torch_floats, sizeof(w_expected));
        memcpy(t_expected, transposed, sizeof(t_expected));
        for (size_t k = 0; big && k < 12; k++) {
            uint32_t v;
            memcpy(&v, &w_expected[k], 4);
            v = __builtin_bswap32(v);
            memcpy(&w_expected[k], &v, 4);
            memcpy(&v, &t_expected[k], 4);
            v = __builtin_bswap32(v);
            memcpy(&t_expected[k], &v, 4);
        }
        assert_ok(made_archive(*state, &format_torch, "m.pt", &w, &err), &err);
        assert_tensor(w, "w", w_expected);
        assert_tensor(w, "t", t_expected);
        made_compare(w, "u8", torch_floats, sizeof(torch_floats), __FILE__, __LINE__);
        source_destroy(w);
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuse(store *s, const char *pickle, pawl_status status, const char *says) {
    struct pawl_error err;
    struct source *w;
    made_put_torch(s, pickle, "little", 0);
    pawl_status got = made_archive(s, &format_torch, "m.pt", &w, &err);
    if (got != status || strstr(err.attempt, says) == NULL) {
        fail_msg("status %d: %s; not: %s", (int)got, err.attempt, says);
    }
    assert_string_equal(err.path, "/mem/m.pt");
}

static void test_r14_a_pickle_that_calls_something(void **state) {
    struct pawl_error err;
    struct source *w;
    made_put_torch(*state, "(dS'w'\ncos\nsystem\n(S'echo pwned'\ntRs.", "little", 0);
    assert_fails(made_archive(*state, &format_torch, "m.pt", &w, &err), PAWL_EUNSUPPORTED, &err);
    /* 30 bytes and the name come before the member's own. */
    assert_string_equal(err.attempt, "byte 74: calls os.system; nothing was executed");
    assert_int_equal(err.offset, 30 + strlen("m/data.pkl") + 34);
}

static void test_r14_what_is_refused(void **state) {
    static const struct {
        const char *pickle;
        pawl_status status;
        const char *says;
    } all[] = {
        {TENSOR(STORAGE("FloatStorage", "7", "12"), "0", "I1\n", "I1\n") ".", PAWL_EDAMAGED,
         "the bytes of a tensor are not in the file"},
        {TENSOR(STORAGE("FloatStorage", "../data.pkl", "12"), "0", "I1\n", "I1\n") ".",
         PAWL_EDAMAGED, "the bytes of a tensor are not in the file"},
        {TENSOR(STORAGE("FloatStorage", "0\\x00", "12"), "0", "I1\n", "I1\n") ".", PAWL_EDAMAGED,
         "the bytes of a tensor are not in the file"},
        {TENSOR(STORAGE("OddStorage", "0", "12"), "0", "I1\n", "I1\n") ".", PAWL_EDAMAGED,
         "its storage has an unknown class"},
        {AT("0", "I13\n", "I1\n") ".", PAWL_EDAMAGED, "elements outside of its storage"},
        {AT("1", "I12\n", "I1\n") ".", PAWL_EDAMAGED, "elements outside of its storage"},
        {AT("12", "I2\n", "I0\n") ".", PAWL_EDAMAGED, "elements outside of its storage"},
        {AT("0", "I4\nI4\n", "I1\nI4\n") ".", PAWL_EDAMAGED, "outside"},
        {AT("0", "I2\n", "I4611686018427387904\n") ".", PAWL_EDAMAGED, "outside"},
        {AT("4611686018427387903", "I2\n", "I1\n") ".", PAWL_EDAMAGED, "a tensor has"},
        {AT("4611686018427387903", "I2\n", "I2\n") ".", PAWL_EDAMAGED, "a tensor has"},
        {TENSOR(STORAGE("ByteStorage", "0", "48"), "9223372036854775807", "I2\n", "I2\n") ".",
         PAWL_EDAMAGED, "elements outside of its storage"},
        {AT("-1", "I2\n", "I1\n") ".", PAWL_EDAMAGED, "a size that cannot be"},
        {AT("0", "I-2\n", "I1\n") ".", PAWL_EDAMAGED, "a size that cannot be"},
        {AT("0", "I4611686018427387904\nI4611686018427387904\n", "I0\nI0\n") ".", PAWL_EDAMAGED,
         "a size that cannot be"},
        {AT("3", "I2\n", "I-1\n") ".", PAWL_EDAMAGED, "a stride that is negative"},
        {AT("0", "I2\n", "") ".", PAWL_EDAMAGED, "no size and strides"},
        {AT("0", "S'x'\n", "I1\n") ".", PAWL_EDAMAGED, "no size and strides"},
        {"ctorch._utils\n_rebuild_tensor_v2\n)R.", PAWL_EDAMAGED, "it has no storage"},
        {"ctorch._utils\n_rebuild_tensor_v2\n(S'x'\ntR.", PAWL_EDAMAGED, "it has no storage"},
        {REBUILD("_rebuild_tensor_v3", STORAGE("UntypedStorage", "0", "48"), "0", "I2\n", "I1\n",
                 "ctorch\nodd\n") ".",
         PAWL_EDAMAGED, "it has an unknown type"},
        {"(lp0\ng0\na.", PAWL_ELIMIT, "nested too deep, or in themselves"},
        {"(dp0\nS'k'\ng0\ns.", PAWL_ELIMIT, "nested too deep, or in themselves"},
        {"(dS'1'\nI1\nsS'1'\nI2\ns.", PAWL_EDAMAGED, "a name is there twice"},
        {"(dS'k'\nI1", PAWL_EDAMAGED, "a line has no end"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        refuse(*state, all[i].pickle, all[i].status, all[i].says);
    }
}

static void test_r14_members_that_are_missing_or_odd(void **state) {
    static const struct {
        const char *name, *data, *says;
        pawl_status status;
    } all[] = {
        {"m/constants.pkl", "N.", "this is a program of TorchScript, not a checkpoint",
         PAWL_EUNSUPPORTED},
        {"m/byteorder", "middle", "neither little nor big", PAWL_EDAMAGED},
        {"m/byteorder", "little endian, I think", "too large", PAWL_ELIMIT},
        {"data.pkl", "N.", "a name is there twice", PAWL_EDAMAGED},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        struct pawl_error err;
        struct source *w;
        made_zip z = {.count = 0};
        if (i < 3) {
            made_add(&z, made_of("m/data.pkl", "N.", 2));
        }
        made_add(&z, made_of(all[i].name, all[i].data, strlen(all[i].data)));
        made_all(&z);
        put_anew(*state, "m.pt", z.file.data, z.file.size);
        buffer_free(&z.file);
        pawl_status status = made_archive(*state, &format_torch, "m.pt", &w, &err);
        if (i == 3) { /* no member is in anything */
            assert_int_equal(status, PAWL_EDAMAGED);
            assert_says(err.attempt, "no member data.pkl");
        } else if (status != all[i].status || strstr(err.attempt, all[i].says) == NULL) {
            fail_msg("%s: status %d, %s", all[i].name, (int)status, err.attempt);
        }
        assert_string_equal(err.path, "/mem/m.pt");
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOW 8 /* what is freed is kept for a while, and has a shadow */
#else
#define SHADOW 1
#endif

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* A hundred bytes that would be 2^30 lists, dicts or texts. */
static void test_r14_small_pickles_stay_small(void **state) {
    static const char *const first[] = {"(lI1\na", "(dS'k'\nI1\ns", "(dS'k'\nNs", VECTOR,
                                        "(dS'k'\n" VECTOR "s"};
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(first); i++) {
        CLEANUP(buffer_free) buffer b = {0};
        struct pawl_error err;
        struct source *w;
        const char *begin = first[i / 2];
        made_bytes(&b, begin, strlen(begin));
        for (unsigned n = 0; n < 30; n++) {
            char next[64];
            snprintf(next, sizeof(next),
                     i % 2 == 0 ? "p%u\n0(lg%u\nag%u\na" : "p%u\n0(dS'a'\ng%u\nsS'b'\ng%u\ns", n, n,
                     n);
            made_bytes(&b, next, strlen(next));
        }
        made_bytes(&b, ".", 2);
        double begun = now_s();
        long before = peak_kib();
        made_put_torch(*state, (const char *)b.data, "little", 0);
        assert_fails(made_archive(*state, &format_torch, "m.pt", &w, &err), PAWL_ELIMIT, &err);
        assert_says(err.attempt, "far more than it is");
        assert_true(now_s() - begun < 20);
        assert_true(peak_kib() - before < 65536 * SHADOW);
    }
}

/* The same long text, as a value, a key, and a key within keys. */
static void test_r14_a_text_again_and_again(void **state) {
    enum { TEXT = 900000 };
    for (unsigned i = 0; i < 3; i++) {
        CLEANUP(buffer_free) buffer b = {0};
        struct pawl_error err;
        struct source *w;
        long before = peak_kib();
        made_bytes(&b, "S'", 2);
        for (unsigned n = 0; n < TEXT; n++) {
            made_bytes(&b, i == 2 ? "\"" : "a", 1);
        }
        made_bytes(&b, "'\np0\n0", 6);
        made_bytes(&b, "(d", 2);
        for (unsigned n = 0; i < 2 && n < 1000; n++) {
            char next[64];
            snprintf(next, sizeof(next), i == 0 ? "I%u\ng0\ns" : "(I%u\ng0\ntNs", n);
            made_bytes(&b, next, strlen(next));
        }
        if (i == 2) { /* a key that is a tuple of a dict whose key is a tuple of ... */
            made_bytes(&b, "S'v'\n(l", 7);
            for (unsigned n = 0; n < 10; n++) {
                made_bytes(&b, "(d(", 3);
            }
            made_bytes(&b, "g0\n", 3);
            for (unsigned n = 0; n < 10; n++) {
                made_bytes(&b, "tNs", 3);
            }
            made_bytes(&b, "as", 2);
        }
        made_bytes(&b, ".", 2);
        double begun = now_s();
        made_put_torch(*state, (const char *)b.data, "little", 0);
        pawl_status status = made_archive(*state, &format_torch, "m.pt", &w, &err);
        if (i == 2) {
            assert_ok(status, &err);
            assert_entry(w, "v", "OBJECT [1800544] 1 parts");
            source_destroy(w);
        } else {
            assert_fails(status, i == 0 ? PAWL_ELIMIT : PAWL_EUNSUPPORTED, &err);
            assert_says(err.attempt,
                        i == 0 ? "far more than it is" : "name of a value is too long");
        }
        assert_true(now_s() - begun < 20);
        assert_true(peak_kib() - before < 65536 + 8 * TEXT / 1024);
    }
}

/* ---- damage --------------------------------------------------------------------------------- */

static void test_r08_a_file_that_was_cut_off(void **state) {
    CLEANUP(buffer_free) buffer file = {0};
    struct pawl_error err;
    struct source *w;
    made_torch_zip(&file, "(dS'w'\n" VECTOR "s.", "little", 0);
    for (size_t n = 0; n < file.size; n++) {
        put_anew(*state, "m.pt", file.data, n);
        assert_fails(made_archive(*state, &format_torch, "m.pt", &w, &err), PAWL_EDAMAGED, &err);
        assert_string_equal(err.path, "/mem/m.pt");
    }
}

typedef struct heard {
    unsigned problems;
    char entry[64], story[64];
} heard;

static void hear(void *context, const char *file, const char *entry, pawl_error *story) {
    heard *h = context;
    assert_string_equal(file, "m.pt");
    h->problems++;
    snprintf(h->entry, sizeof(h->entry), "%s", entry != NULL ? entry : "");
    snprintf(h->story, sizeof(h->story), "%.63s", story->attempt);
}

static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

static void test_r08_verify_names_the_tensor(void **state) {
    for (unsigned method = 0; method <= 8; method += 8) {
        CLEANUP(buffer_free) buffer file = {0};
        made_torch_zip(&file, "(dS'w'\n" VECTOR "s.", "little", method);
        for (unsigned i = 0; i < 2; i++) {
            struct pawl_error err;
            struct source *w;
            heard h = {.problems = 0};
            source_verifier v = {.context = &h, .problem = hear, .progress = go_on};
            put_anew(*state, "m.pt", file.data, file.size);
            assert_ok(made_archive(*state, &format_torch, "m.pt", &w, &err), &err);
            assert_ok(w->ops->verify(w, &v, &err), &err);
            assert_int_equal(h.problems, i);
            if (i == 1 && method == 0) {
                assert_string_equal(h.entry, "w");
            }
            source_destroy(w);
            for (size_t k = 0; k + 8 < file.size; k++) { /* a byte of the storage */
                if (memcmp(file.data + k, "m/data/0", 8) == 0) {
                    file.data[k + 8 + 6] ^= 1;
                    break;
                }
            }
        }
    }
}

static pawl_status open_saved(void *context, pawl_error *err) {
    struct source *w;
    TRY(archive_open(context, false, &format_torch, "m.pt", true, &w, err));
    source_destroy(w);
    return PAWL_OK;
}

static void test_every_allocation_may_fail(void **state) {
    made_put_torch(*state,
                   "(dS'w'\n" VECTOR
                   "sS't'\n" AT("0", "I4\nI3\n",
                                "I1\nI4\n") "sS'l'\n(lI1\naI2\naNas"
                                            "S'o'\ncm\nC\n)\x81(d(I1\nI2\ntS'x'\nsbsL1L\nI2\ns.",
                   "big", 8);
    assert_true(failing_memory_each(open_saved, *state) > 30);
}

/* ---- files of others ------------------------------------------------------------------------ */

static void test_files_of_others(void **state) {
    static const struct {
        const char *path, *name, *says;
        double first; /* value of its first element */
        unsigned entries;
    } all[] = {
        {"bfloat16.pt", "tensor", "BF16 [3] 1 parts", 0, 1},
        {"bool.pt", "tensor", "BOOL [5] 1 parts", 0, 1},
        {"boolean.pt", "buffer", "BOOL [3] 1 parts", 0, 1},
        {"checkpoint.pt", "optimizer_state_dict/state/%30/momentum_buffer", "F32 [10, 5] 1 parts",
         0.9732940793037415, 7},
        {"checkpoint.pt", "epoch", "int64 42", 0, 7},
        {"checkpoint.pt", "loss", "float64 0.123", 0, 7},
        {"complex_nested.pt", "conv_blocks.0.conv.weight", "F32 [4, 2, 3, 2] 1 parts",
         0.06621924042701721, 23},
        {"complex_structure.pt", "metadata/name", "string test_model", 0, 10},
        {"complex_structure.pt", "state/encoder/layer_1/bias", "F32 [2] 1 parts",
         1.5613698959350586, 10},
        {"conv1d.pt", "conv1.bias", "F32 [2] 1 parts", 0.06950849294662476, 3},
        {"conv_transpose1d.pt", "conv2.weight", "F32 [2, 2, 2] 1 parts", 0.13868045806884766, 3},
        {"debug_test.pt", "test", "F32 [4] 1 parts", 1, 1},
        {"enum_depthwise_false.pt", "conv.bias", "F32 [2] 1 parts", 0.2069729119539261, 2},
        {"float32.pt", "tensor", "F32 [4] 1 parts", 1, 1},
        {"fortran_tensor_3d.pth", "tensor_fortran", "I64 [2, 3, 4] 1 parts", 0, 1},
        {"group_norm.pt", "norm1.weight", "F32 [6] 1 parts", 1, 2},
        {"int64.pt", "tensor", "I64 [4] 1 parts", 0, 1},
        {"key_remap.pt", "conv.conv1.bias", "F32 [2] 1 parts", 0.051245421171188354, 3},
        {"large_shape.pt", "tensor", "F32 [100, 100] 1 parts", 1, 1},
        {"layer_norm.pt", "norm1.weight", "F32 [2] 1 parts", 1, 2},
        {"linear_with_bias.pt", "fc1.weight", "F32 [3, 2] 1 parts", -0.4270651638507843, 2},
        {"mixed_types.pt", "float64", "F64 [2] 1 parts", 0, 4},
        {"non_contiguous_indexes.pt", "fc.8.bias", "F32 [2] 1 parts", -0.00800357386469841, 10},
        {"parameter.pt", "param", "F32 [3, 3] 1 parts", 1.024911880493164, 1},
        {"scalar.pt", "tensor", "F32 [] 1 parts", 42, 1},
        {"state_dict.pt", "weight", "F32 [3, 4] 1 parts", 0.4679030478000641, 4},
        {"tensor_3d.pt", "tensor", "F32 [2, 3, 4] 1 parts", 19.269149780273438, 1},
        {"test.pt", "test", "I64 [2, 4] 1 parts", 0, 1},
        {"top_level_key.pt", "my_state_dict/conv1.bias", "F32 [2] 1 parts", 0.051245421171188354,
         2},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        struct pawl_error err;
        struct source *w;
        char path[256];
        snprintf(path, sizeof(path), SAMPLES_DIR "/torch/%s", all[i].path);
        made_put_sample(*state, path, "m.pt");
        assert_ok(made_archive(*state, &format_torch, "m.pt", &w, &err), &err);
        assert_entry(w, all[i].name, all[i].says);
        if (w->entries != all[i].entries) {
            fail_msg("%s has %llu entries", all[i].path, (unsigned long long)w->entries);
        }
        if (strncmp(all[i].says, "F32", 3) == 0) {
            float values[10000] = {0};
            record_entry e = made_find(w, all[i].name);
            uint64_t bytes = shape_bytes(e.dtype, e.ndim, e.shape);
            assert_true(bytes <= sizeof(values));
            assert_ok(made_read(w, all[i].name, 4096, values, (size_t)bytes, &err), &err);
            assert_true(values[0] == (float)all[i].first);
        }
        source_destroy(w);
    }
}

static void test_a_fortran_tensor_of_others(void **state) {
    struct pawl_error err;
    struct source *w;
    int64_t expected[24];
    for (size_t i = 0; i < 24; i++) {
        expected[i] = (int64_t)i + 1;
    }
    made_put_sample(*state, SAMPLES_DIR "/torch/fortran_tensor_3d.pth", "m.pt");
    assert_ok(made_archive(*state, &format_torch, "m.pt", &w, &err), &err);
    assert_tensor(w, "tensor_fortran", expected);
    source_destroy(w);
}

static void test_r08_a_broken_file_of_others(void **state) {
    struct pawl_error err = ERROR_INIT;
    struct source *w;
    made_put_sample(*state, SAMPLES_DIR "/torch/broken.pt", "m.pt");
    assert_fails(foreign_open(*state, false, "m.pt", false, &w, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "no checkpoint that pawl knows");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_names_are_the_way_to_a_value),
        IN_MEMORY(test_an_object_without_a_name),
        IN_MEMORY(test_tensors_within),
        IN_MEMORY(test_views_of_a_storage),
        IN_MEMORY(test_types_of_storages),
        IN_MEMORY(test_pairs_of_f64),
        IN_MEMORY(test_sparse_tensors),
        IN_MEMORY(test_big_endian_and_deflated_files),
        IN_MEMORY(test_r14_a_pickle_that_calls_something),
        IN_MEMORY(test_r14_what_is_refused),
        IN_MEMORY(test_r14_members_that_are_missing_or_odd),
        IN_MEMORY(test_r14_small_pickles_stay_small),
        IN_MEMORY(test_r14_a_text_again_and_again),
        IN_MEMORY(test_r08_a_file_that_was_cut_off),
        IN_MEMORY(test_r08_verify_names_the_tensor),
        IN_MEMORY(test_every_allocation_may_fail),
        IN_MEMORY(test_files_of_others),
        IN_MEMORY(test_a_fortran_tensor_of_others),
        IN_MEMORY(test_r08_a_broken_file_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
