/* SPDX-License-Identifier: Apache-2.0 */
/* Values, arrays of NumPy and objects in zips of torch.save (R14: what is refused of them). */
#include "unit/foreign/made_torch.h"

#include "lib/in_memory.h"

typedef struct value {
    const char *pickle, *says;
} value;

static void check_values(store *s, const value *all, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CLEANUP(buffer_free) buffer b = {0};
        made_bytes(&b, "(dS'v'\n", 7);
        made_bytes(&b, all[i].pickle, strlen(all[i].pickle));
        made_bytes(&b, "s.", 3);
        struct source *w = open_pickle(s, (const char *)b.data);
        assert_int_equal(w->entries, 1);
        assert_entry(w, "v", all[i].says);
        source_destroy(w);
    }
}

static void test_values_of_every_kind(void **state) {
    static const value all[] = {
        {"N", "json null"},
        {"I00\n", "bool 0"},
        {"I01\n", "bool 1"},
        {"L-5L\n", "int64 -5"},
        {"F0.5\n", "float64 0.5"},
        {"Fnan\n", "float64 nan"},
        {"S'text'\n", "string text"},
        {"S'no\\x00ne'\n", "json \"no\\u0000ne\""},
        {"S'\\xff\\xfe'\n", "bytes \xff\xfe"},
        {"c_codecs\nencode\n(V\\u00ff\\u0001\nS'latin1'\ntR", "bytes \xff\x01"},
        {"(lI1\naF0.5\naNaS'x'\na", "json [1,0.5,null,\"x\"]"},
        {"(I1\n(I2\ntt", "json {\"$\":\"tuple\",\"items\":[1,{\"$\":\"tuple\",\"items\":[2]}]}"},
        {"(lF1\naF-0.0\naF1e300\na", "json [1.0,-0.0,1e+300]"},
        {"(lFinf\na", "json [{\"$\":\"float\",\"text\":\"inf\"}]"},
        {"(d", "json {}"},
        {"(l(dI1\nI2\nsa", "json [{\"$\":\"dict\",\"pairs\":[[1,2]]}]"},
        {"(l(dS'$'\nI2\nsa", "json [{\"$\":\"dict\",\"pairs\":[[\"$\",2]]}]"},
        {"(lS'\\xff'\na", "json [{\"$\":\"bytes\",\"data\":\"/w==\"}]"},
    };
    check_values(*state, all, ARRAY_LENGTH(all));
}

static void test_what_calls_would_have_made(void **state) {
    static const value all[] = {
        {"ctorch\nfloat16\n", "json {\"$\":\"dtype\",\"name\":\"float16\"}"},
        {"ctorch\nadd\n", "json {\"$\":\"global\",\"name\":\"torch.add\"}"},
        {"ctorch\ndevice\n(S'cuda'\nI0\ntR", "json {\"$\":\"device\",\"text\":\"cuda:0\"}"},
        {"ctorch\ndevice\n(S'cpu'\ntR", "json {\"$\":\"device\",\"text\":\"cpu\"}"},
        {"ctorch\nSize\n((I2\nI3\nttR", "json {\"$\":\"size\",\"items\":[2,3]}"},
        {"c__builtin__\nset\n((lI1\natR", "json {\"$\":\"set\",\"items\":[1]}"},
        {"c__builtin__\nfrozenset\n((lI1\natR", "json {\"$\":\"frozenset\",\"items\":[1]}"},
        {"c__builtin__\nbytes\n)R", "bytes "},
        {"c__builtin__\nbytearray\n(c_codecs\nencode\n(V\\u00ff\nS'latin1'\ntRtR",
         "json {\"$\":\"bytearray\",\"data\":\"/w==\"}"},
        {"c__builtin__\ncomplex\n(F1\nF2\ntR", "json {\"$\":\"complex\",\"parts\":[1.0,2.0]}"},
        {"ccollections\ndeque\n((lI1\natR", "json {\"$\":\"deque\",\"items\":[1],\"maxlen\":null}"},
        {"ccollections\ndeque\n((lI9\ntRI1\na",
         "json {\"$\":\"deque\",\"items\":[1],\"maxlen\":9}"},
        {"ccollections\nCounter\n((dI3\nI1\nstR", "json {\"$\":\"Counter\",\"pairs\":[[3,1]]}"},
        {"ccollections\ndefaultdict\n(c__builtin__\nlong\ntRS'a'\nI1\ns",
         "json {\"$\":\"defaultdict\",\"factory\":\"int\",\"pairs\":[[\"a\",1]]}"},
        {"ccollections\nOrderedDict\n)R", "json {\"$\":\"OrderedDict\",\"pairs\":[]}"},
        {"ccollections\nChainMap\n((dS'a'\nI1\nstR",
         "json {\"$\":\"object\",\"class\":\"collections.ChainMap\",\"arguments\":[{\"a\":1}]}"},
        {"cpathlib\nPosixPath\n(S'/'\nS'a'\nS'b'\ntR", "json {\"$\":\"path\",\"text\":\"/a/b\"}"},
        {"cdecimal\nDecimal\n(S'1.5'\ntR",
         "json {\"$\":\"object\",\"class\":\"decimal.Decimal\",\"arguments\":[\"1.5\"]}"},
        {"cargparse\nNamespace\n)\x81(dS'a'\nI1\nsb",
         "json {\"$\":\"Namespace\",\"items\":{\"a\":1}}"},
        {"c__main__\nColor\n(I1\ntR",
         "json {\"$\":\"object\",\"class\":\"__main__.Color\",\"arguments\":[1]}"},
        {"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'f4'\ntR(I3\nS'<'\ntb"
         "S'\\x00\\x00\\xc0\\x3f'\ntR",
         "float64 1.5"},
        {"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'i2'\ntR(I3\nS'>'\ntb"
         "S'\\xff\\xfe'\ntR",
         "int64 -2"},
        {"(lcnumpy._core.multiarray\nscalar\n(cnumpy\ndtype\n(S'u1'\ntR(I3\nS'|'\ntbS'\\xff'\ntRa",
         "json "
         "[{\"$\":\"numpy\",\"dtype\":\"|u1\",\"shape\":[],\"scalar\":true,\"data\":\"/w==\"}]"},
        {"cm\nC\n)\x81", "json {\"$\":\"object\",\"class\":\"m.C\"}"},
        {"cm\nC\n)(dS'k'\nI1\ns\x92",
         "json {\"$\":\"object\",\"class\":\"m.C\",\"keywords\":{\"k\":1}}"},
        {"cm\nC\n(I1\nt\x81(dS'a'\nI2\nsb",
         "json {\"$\":\"object\",\"class\":\"m.C\",\"arguments\":[1],\"state\":{\"a\":2}}"},
        {"cm\nC\n)\x81(N(dS'a'\nI2\nstb", "json "
                                          "{\"$\":\"object\",\"class\":\"m.C\",\"state\":{\"$\":"
                                          "\"tuple\",\"items\":[null,{\"a\":2}]}}"},
        {"cm\nDict\n)\x81S'k'\nI1\ns",
         "json {\"$\":\"object\",\"class\":\"m.Dict\",\"items\":{\"k\":1}}"},
        {"cm\nList\n)\x81I1\na", "json {\"$\":\"object\",\"class\":\"m.List\",\"items\":[1]}"},
    };
    check_values(*state, all, ARRAY_LENGTH(all));
}

/* Their opcodes have zeros in them. */
static void test_integers_beyond_64_bits(void **state) {
    static const struct {
        const char *bytes, *says;
        size_t n;
    } all[] = {
        {"\xff\xff\xff\xff\xff\xff\xff\xff\0", "json 18446744073709551615", 9},
        {"\0\0\0\0\0\0\0\0\xff", "json -18446744073709551616", 9},
        {"\0\0\0\0\0\0\0\0\1", "json 18446744073709551616", 9},
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1",
         "json 115792089237316195423570985008687907853269984665640564039457584007913129639936", 33},
    };
    struct pawl_error err;
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        CLEANUP(buffer_free) buffer b = {0};
        struct source *w;
        made_zip z = {.count = 0};
        made_bytes(&b, "\x8a", 1);
        made_number(&b, all[i].n, 1);
        made_bytes(&b, all[i].bytes, all[i].n);
        made_bytes(&b, ".", 1);
        made_add(&z, made_of("m/data.pkl", b.data, b.size));
        made_all(&z);
        put_anew(*state, "m.pt", z.file.data, z.file.size);
        buffer_free(&z.file);
        assert_ok(made_archive(*state, &format_torch, "m.pt", &w, &err), &err);
        assert_entry(w, "object", all[i].says);
        source_destroy(w);
    }
}

#define ARRAY(type, order, shape, columns, bytes)                                                  \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(" shape "t"       \
    "cnumpy\ndtype\n(S'" type "'\nI00\nI01\ntR(I3\nS'" order "'\ntb" columns "S'" bytes "'\ntb"

/* In the archive's memory, row-major and little-endian. */
static void test_arrays_of_numpy(void **state) {
    static const named all[] = {
        {"rows", ARRAY("i2", "<", "I2\nI2\n", "I00\n", "\\x01\\x00\\x02\\x00\\x03\\x00\\x04\\x00")},
        {"columns", ARRAY("u1", "|", "I2\nI3\n", "I01\n", "adbecf")},
        {"big", ARRAY("i2", ">", "I2\n", "I00\n", "\\x00\\x01\\x00\\x02")},
        {"complex", ARRAY("c8", ">", "I1\n", "I00\n", "\\x3f\\x80\\x00\\x00\\x40\\x00\\x00\\x00")},
        {"wide", ARRAY("c16", "<", "I1\n", "I00\n", "0123456789abcdef")},
        {"widest", ARRAY("c16", ">", "I2\nI1\n", "I01\n", "01234567abcdefghijklmonpABCDEFGH")},
        {"none", ARRAY("f4", "<", "I0\nI3\n", "I00\n", "")},
        {"one", ARRAY("b1", "|", "", "I00\n", "\\x01")},
        {"short", ARRAY("f4", "<", "I3\n", "I00\n", "12345678")},
        {"huge", ARRAY("f8", "<", "I4611686018427387904\nI4\n", "I00\n", "")},
        {"negative", ARRAY("f8", "<", "I-1\nI-1\n", "I00\n", "12345678")},
        {"texts", ARRAY("U1", "<", "I1\n", "I00\n", "1234")},
        {"in", "(lI1\na" ARRAY("u1", "|", "I1\n", "I00\n", "x") "a"},
    };
    static const float complex[] = {1, 2};
    static const int16_t rows[] = {1, 2, 3, 4};
    struct source *w = open_dict(*state, all, ARRAY_LENGTH(all));
    assert_entry(w, "rows", "I16 [2, 2] 1 parts");
    made_compare(w, "rows", rows, sizeof(rows), __FILE__, __LINE__);
    made_compare(w, "columns", "abcdef", 6, __FILE__, __LINE__);
    made_compare(w, "big", rows, 4, __FILE__, __LINE__);
    made_compare(w, "complex", complex, sizeof(complex), __FILE__, __LINE__);
    made_compare(w, "in/1", "x", 1, __FILE__, __LINE__);
    made_compare(w, "one", "\1", 1, __FILE__, __LINE__);
    assert_entry(w, "wide", "F64 [1, 2] 1 parts");
    made_compare(w, "wide", "0123456789abcdef", 16, __FILE__, __LINE__);
    assert_entry(w, "widest", "F64 [2, 1, 2] 1 parts");
    made_compare(w, "widest", "76543210hgfedcbapnomlkjiHGFEDCBA", 32, __FILE__, __LINE__);
    assert_entry(w, "none", "F32 [0, 3] 1 parts");
    static const char *const described[] = {"short", "huge", "negative", "texts"};
    for (size_t i = 0; i < ARRAY_LENGTH(described); i++) {
        assert_int_equal(made_find(w, described[i]).kind, PAWL_KIND_JSON);
    }
    assert_entry(w, "__sequences__", "json {\"list\":[\"in\"]}");
    source_destroy(w);
}

/* What no value can be has a name, and its bytes. */
static void test_what_is_larger_than_a_value(void **state) {
    enum { MANY = 1100000 };
    for (unsigned i = 0; i < 3; i++) {
        static const char *const begin[] = {"S'", "c_codecs\nencode\n(S'", "(lS'"};
        static const char *const end[] = {"'\n.", "'\nS'latin1'\ntR.", "'\na."};
        static const char *const says[] = {"U8 [1100000] 1 parts", "U8 [1100000] 1 parts",
                                           "OBJECT [1100004] 1 parts"};
        CLEANUP(buffer_free) buffer b = {0};
        made_bytes(&b, begin[i], strlen(begin[i]));
        AUTOFREE char *text = mem_alloc(MANY);
        memset(text, 'x', MANY);
        made_bytes(&b, text, MANY);
        made_bytes(&b, end[i], strlen(end[i]) + 1);
        struct source *w = open_pickle(*state, (const char *)b.data);
        assert_entry(w, "object", says[i]);
        if (i < 2) {
            made_compare(w, "object", text, MANY, __FILE__, __LINE__);
        }
        source_destroy(w);
    }
}

static void test_r14_calls_into_python(void **state) {
    static const char *const refused[] = {
        "cos.path\nsystem\n",
        "cbuiltins\ngetattr\n",
        "c__builtin__\neval\n",
        "crunpy\n_run_code\n",
        "cnt\nsystem\n",
        "c_posixsubprocess\nfork_exec\n",
        "cwebbrowser\nopen\n",
        "ccommands\ngetoutput\n",
        "cpathlib\nPath.unlink\n",
        "ctorch.serialization\nos.system\n",
        "ctorch\nload.__globals__\n",
        "cdatetime\n_os\n",
        "ccollections\nabc.x\n",
        "ccompression.zstd\nopen\n",
        "cbuiltins\n__import__\n",
        "ccopyreg\nadd_extension\n",
        "cfunctools\nreduce\n",
    };
    static const char *const described[] = {
        "c__main__\nColor\n",
        "cmine.train\nOuter.Inner\n",
        "cenum\nFlag\n",
        "cdatetime\ndate\n",
        "cuuid\nUUID\n",
        "cfractions\nFraction\n",
        "cfunctools\npartial\n",
        "ctypes\nSimpleNamespace\n",
        "c__builtin__\nxrange\n",
        "cnumpy.ma.core\n_mareconstruct\n",
        "czoneinfo\nZoneInfo._unpickle\n",
        "cnumpy.random._pickle\n__randomstate_ctor\n",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(refused) + ARRAY_LENGTH(described); i++) {
        bool is = i < ARRAY_LENGTH(refused);
        char pickle[128];
        struct pawl_error err;
        struct source *w;
        snprintf(pickle, sizeof(pickle), "(dS'w'\nI1\nsS'v'\n%s(S'x'\ntRs.",
                 is ? refused[i] : described[i - ARRAY_LENGTH(refused)]);
        made_put_torch(*state, pickle, "little", 0);
        if (is) {
            assert_fails(made_archive(*state, &format_torch, "m.pt", &w, &err), PAWL_EUNSUPPORTED,
                         &err);
            assert_says(err.attempt, "nothing was executed");
        } else {
            assert_ok(made_archive(*state, &format_torch, "m.pt", &w, &err), &err);
            assert_int_equal(made_find(w, "v").kind, PAWL_KIND_JSON);
            source_destroy(w);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_values_of_every_kind),        IN_MEMORY(test_what_calls_would_have_made),
        IN_MEMORY(test_integers_beyond_64_bits),     IN_MEMORY(test_arrays_of_numpy),
        IN_MEMORY(test_what_is_larger_than_a_value), IN_MEMORY(test_r14_calls_into_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
