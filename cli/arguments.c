/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line of one verb. */
#include "memory.h"
#include "text.h"
#include "verbs.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pawl/pawl.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_OPTIONS = 24,
    FIRST_LONG = 256, /* getopt_long returns this plus the index in `options`, or a letter */
    DEFAULT_EDGE = 3,
    MAX_EDGE = 100
};

#define LEAST_INTERVAL_S 0.1

/* The verb's options as getopt_long takes them, and their names as text_nearest does. */
typedef struct long_options {
    struct option list[MAX_OPTIONS];
    const char *names[MAX_OPTIONS];
    char letters[MAX_OPTIONS * 2 + 2];
} long_options;

static long_options long_options_of(const verb *v) {
    long_options l = {.letters = ":"};
    size_t n = 0;
    for (const option_spec *o = options; o->name != NULL && n + 1 < MAX_OPTIONS; o++) {
        if ((v->options & o->id) == 0) {
            continue;
        }
        l.names[n] = o->name;
        l.list[n++] = (struct option){
            .name = o->name,
            .has_arg = o->value != NULL ? required_argument : no_argument,
            .val = (int)(o - options) + FIRST_LONG,
        };
        if (o->letter != 0) {
            strncat(l.letters, &o->letter, 1);
        }
    }
    return l;
}

static const option_spec *option_of(int value) {
    if (value >= FIRST_LONG) {
        return &options[value - FIRST_LONG];
    }
    for (const option_spec *o = options; o->name != NULL; o++) {
        if (o->letter == value) {
            return o;
        }
    }
    return NULL;
}

/* Prints what is wrong with the command line, as JSON if --json is anywhere in it. */
static bool refuse_arguments(const arguments *args, int argc, char **argv, const char *text) {
    output out;
    bool as_json = args->json;
    for (int i = 1; i < argc; i++) {
        as_json = as_json || ((args->verb->options & OPTION_JSON) && !strcmp(argv[i], "--json"));
    }
    output_begin(&out, as_json, true, true);
    output_usage(&out, args->verb->name, "%s", text);
    output_end(&out, EXIT_USAGE);
    return false;
}

/* Digits, with a point or an exponent. strtod would also take signs, blanks, "0x1" and "inf". */
static bool parse_seconds(const char *text, double *seconds) {
    char *end = NULL;
    bool begins =
        strchr("0123456789.", *text) != NULL && text[strspn(text, "0123456789.eE+-")] == '\0';
    *seconds = begins ? strtod(text, &end) : 0;
    return begins && end != text && *end == '\0' && isfinite(*seconds);
}

static bool parse_count(const char *text, int64_t least, int64_t most, int64_t *count) {
    return text_parse_int(text, count) && *count >= least && *count <= most;
}

static const char *apply_rank_option(arguments *args, option_id id, const char *value) {
    switch (id) {
    case OPTION_ALONE:
        args->alone = true;
        break;
    case OPTION_LAUNCH:
        args->launch = value;
        return *value != '-' && *value != '\0' ? NULL : "a word";
    case OPTION_RANK:
        return parse_count(value, 0, PAWL_MAX_RANKS, &args->rank) ? NULL : "a number, 0 or more";
    case OPTION_RANKS:
        return parse_count(value, 1, PAWL_MAX_RANKS, &args->ranks) ? NULL : "a number, 1 or more";
    default:
        return parse_seconds(value, &args->deadline_s) && args->deadline_s > 0
                   ? NULL
                   : "a number of seconds, more than 0";
    }
    return NULL;
}

static const char *add_rename(rename_list *list, const char *value) {
    const char *equals = strchr(value, '=');
    if (equals == NULL || strcmp(value, "=") == 0) {
        return "FROM=TO";
    }
    list->rules = must_realloc(list->rules, (list->count + 1) * sizeof(*list->rules));
    list->rules[list->count++] =
        (pawl_rename){.from = must_strndup(value, (size_t)(equals - value)), .to = equals + 1};
    return NULL;
}

static void add_word(word_list *list, const char *word) {
    list->words = must_realloc(list->words, (list->count + 1) * sizeof(*list->words));
    list->words[list->count++] = word;
}

static const char *apply_convert_option(arguments *args, option_id id, const char *value) {
    switch (id) {
    case OPTION_TO:
        args->to = value;
        break;
    case OPTION_ONLY:
        add_word(&args->only, value);
        break;
    case OPTION_TRANSPOSE:
        add_word(&args->transpose, value);
        break;
    case OPTION_RENAME:
        return add_rename(&args->renames, value);
    case OPTION_CAST:
        args->cast = pawl_dtype_from_name(value);
        return args->cast == PAWL_F64 || args->cast == PAWL_F32 || args->cast == PAWL_F16 ||
                       args->cast == PAWL_BF16
                   ? NULL
                   : "F64, F32, F16 or BF16";
    case OPTION_DROP:
        args->drop = true;
        break;
    case OPTION_DRY_CONVERT:
        args->dry_run = true;
        break;
    default:
        return text_parse_bytes(value, &args->shard_bytes) && args->shard_bytes > 0
                   ? NULL
                   : "a size such as 800MB or 5GiB";
    }
    return NULL;
}

/* "P07", "P07,P09": a capital letter and two digits each. */
static bool is_list_of_ids(const char *text) {
    for (;; text += 4) {
        if (*text < 'A' || *text > 'Z' || strspn(text + 1, "0123456789") != 2 ||
            (text[3] != ',' && text[3] != '\0')) {
            return false;
        }
        if (text[3] == '\0') {
            return true;
        }
    }
}

static const char *apply_doctor_option(arguments *args, option_id id, const char *value) {
    switch (id) {
    case OPTION_MODEL:
        args->model = value;
        return *value != '-' && *value != '\0' ? NULL : "a checkpoint, or a .json file";
    case OPTION_READ_ONLY:
        args->read_only = true;
        break;
    case OPTION_NO_PROBE:
        args->no_probe = true;
        break;
    case OPTION_VERIFY:
        args->verify = true;
        break;
    case OPTION_IGNORE:
        add_word(&args->ignored, value);
        return is_list_of_ids(value) ? NULL
                                     : "ids of findings such as P07, with commas between them";
    case OPTION_BUDGET:
        return text_parse_bytes(value, &args->budget_bytes) ? NULL : "a size such as 256MB";
    case OPTION_EVERY:
        return parse_seconds(value, &args->every_s) && args->every_s > 0
                   ? NULL
                   : "a number of seconds, more than 0";
    default:
        return parse_seconds(value, &args->mtbf_hours) && args->mtbf_hours > 0
                   ? NULL
                   : "a number of hours, more than 0";
    }
    return NULL;
}

/* The options of one verb alone. */
static const char *apply_own_option(arguments *args, option_id id, const char *value) {
    if ((OPTION_GROUP & id) != 0) {
        return apply_rank_option(args, id, value);
    }
    return (OPTION_DOCTOR & id) != 0 ? apply_doctor_option(args, id, value)
                                     : apply_convert_option(args, id, value);
}

/* NULL, or what value the option takes. */
static const char *apply_option(arguments *args, option_id id, const char *value) {
    switch (id) {
    case OPTION_HELP:
        args->help = true;
        break;
    case OPTION_JSON:
        args->json = true;
        break;
    case OPTION_NO_PROGRESS:
        args->no_progress = true;
        break;
    case OPTION_ALL:
        args->all = true;
        break;
    case OPTION_STRUCTURE:
        args->structure = true;
        break;
    case OPTION_FORCE:
    case OPTION_FORCE_REBUILD:
        args->force = true;
        break;
    case OPTION_DRY_RUN:
        args->dry_run = true;
        break;
    case OPTION_MAN:
        args->man = true;
        break;
    case OPTION_BASH_COMPLETION:
        args->bash_completion = true;
        break;
    case OPTION_STATS:
        args->stats = true;
        break;
    case OPTION_FULL:
        args->full = true;
        break;
    case OPTION_NAMES:
        args->names = true;
        break;
    case OPTION_ONCE:
        args->once = true;
        break;
    case OPTION_INTERVAL:
        return parse_seconds(value, &args->interval_s) && args->interval_s >= LEAST_INTERVAL_S
                   ? NULL
                   : "a number of seconds, 0.1 or more";
    case OPTION_EDGE:
        return parse_count(value, 1, MAX_EDGE, &args->edge) ? NULL : "a number from 1 to 100";
    case OPTION_WAIT:
        return parse_seconds(value, &args->wait_s) ? NULL : "a number of seconds, 0 or more";
    case OPTION_NEED:
        return text_parse_bytes(value, &args->need_bytes) ? NULL : "a size such as 800MB or 1.5TiB";
    default:
        return apply_own_option(args, id, value);
    }
    return NULL;
}

/* Why getopt_long stopped; allocated. */
static char *option_complaint(const long_options *l, int got, const char *word) {
    if (got == ':') {
        const option_spec *o = option_of(optopt);
        return must_printf("%s needs a value%s%s", word, o != NULL ? ": " : "",
                           o != NULL ? o->value : "");
    }
    const char *equals = strchr(word, '=');
    if (optopt >= FIRST_LONG) {
        return must_printf("--%s takes no value", option_of(optopt)->name);
    }
    if (optopt != 0) {
        return must_printf("there is no option '-%c'", optopt);
    }
    char *bare = must_strndup(word, equals != NULL ? (size_t)(equals - word) : strlen(word));
    const char *near = text_nearest(bare + strspn(bare, "-"), l->names);
    char *text = must_printf("there is no option '%s'%s%s%s", bare, near ? "; did you mean --" : "",
                             near ? near : "", near ? "?" : "");
    free(bare);
    return text;
}

static bool parse_options(arguments *args, int argc, char **argv) {
    long_options l = long_options_of(args->verb);
    opterr = 0;
    optind = 1;
    for (;;) {
        int got = getopt_long(argc, argv, l.letters, l.list, NULL);
        if (got == -1) {
            return true;
        }
        SCOPED(scoped_free) char *complaint = NULL;
        if (got == '?' || got == ':') {
            complaint = option_complaint(&l, got, argv[optind - 1]);
            return refuse_arguments(args, argc, argv, complaint);
        }
        const option_spec *o = option_of(got);
        const char *wanted = apply_option(args, o->id, optarg);
        if (wanted != NULL) {
            complaint = must_printf("--%s takes %s, not '%s'", o->name, wanted, optarg);
            return refuse_arguments(args, argc, argv, complaint);
        }
    }
}

/* NULL, or what is wrong with the RUN[@STEP] in `word`; allocated. */
static char *check_target(const verb *v, operand_kind kind, const target *t, const char *word) {
    if (kind != OPERAND_RUN && t->no_step != NULL) {
        return must_printf("'%s' is not a step: a step is a number from 0 to %" PRId64
                           ", or 'newest' (if '%s' is the name of a directory, write '%s/')",
                           t->no_step, INT64_MAX, word, word);
    }
    if (kind == OPERAND_RUN && (t->has_step || t->no_step != NULL)) {
        return must_printf("takes a whole run, not one step of it: '%s' (if that is the name of a "
                           "directory, write '%s/')",
                           word, word);
    }
    if (kind == OPERAND_RUN_AT_STEP && t->step == NEWEST_STEP) {
        return must_printf("needs the step by its number: pawl %s %s@STEP ('pawl ls %s' lists the "
                           "steps)",
                           v->name, t->run, t->run);
    }
    if (*t->run == '\0') {
        return must_strdup("the name of the run is empty");
    }
    return NULL;
}

static char *take_operand(arguments *args, const operand *o, const char *word) {
    switch (o->kind) {
    case OPERAND_ENTRY:
        args->entry = word;
        return NULL;
    case OPERAND_NEW:
        args->destination = word;
        args->targets[args->target_count++] = target_parse(word);
        return *word != '\0' ? NULL : must_strdup("the name of what is to be written is empty");
    case OPERAND_VERB:
        args->topic = word;
        return NULL;
    default:
        args->targets[args->target_count++] = target_parse(word);
        return check_target(args->verb, o->kind, &args->targets[args->target_count - 1], word);
    }
}

static bool parse_operands(arguments *args, int argc, char **argv) {
    const verb *v = args->verb;
    int at = optind;
    for (size_t i = 0; i < MAX_OPERANDS && v->operands[i].kind != OPERAND_END; i++) {
        const operand *o = &v->operands[i];
        SCOPED(scoped_free) char *complaint = NULL;
        if (at < argc) {
            complaint = take_operand(args, o, argv[at++]);
        } else if (!o->optional) {
            complaint = must_printf("%s is missing", o->name);
        }
        if (complaint != NULL) {
            return refuse_arguments(args, argc, argv, complaint);
        }
    }
    if (at < argc) {
        SCOPED(scoped_free) char *complaint = must_printf("one argument too many: '%s'", argv[at]);
        return refuse_arguments(args, argc, argv, complaint);
    }
    return true;
}

bool arguments_parse(const verb *v, int argc, char **argv, arguments *args) {
    *args = (arguments){
        .verb = v, .edge = DEFAULT_EDGE, .wait_s = -1, .interval_s = 1, .rank = -1, .ranks = -1};
    if (!parse_options(args, argc, argv)) {
        return false;
    }
    return args->help || parse_operands(args, argc, argv);
}

void arguments_free(arguments *args) {
    for (size_t i = 0; i < args->target_count; i++) {
        target_free(&args->targets[i]);
    }
    for (size_t i = 0; i < args->renames.count; i++) {
        free((char *)args->renames.rules[i].from);
    }
    free(args->renames.rules);
    free(args->only.words);
    free(args->ignored.words);
    free(args->transpose.words);
}
