/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs and options, and functions that look things up in it. */
#include "verbs.h"
#include "memory.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define COMMON (OPTION_HELP | OPTION_JSON)

const char operand_help[] =
    "RUN is the directory of a run; 'ls', 'show', 'verify', 'diff' and 'convert' also take "
    "checkpoints of other tools: files of PyTorch, alone or with an index, directories of its DCP, "
    "those of TensorFlow by their prefix, safetensors files, alone or with an index, .npz and "
    ".npy, HDF5, .keras and GGUF. What a file is, its contents say. "
    "STEP is the number of one of its checkpoints, or 'newest' (or "
    "'latest') for the newest committed one, which is also taken when no STEP is given.\n"
    "The last '@' separates RUN from STEP only if a number, 'newest' or 'latest' follows it. For a "
    "directory that is itself named 'run@7' or 'run@7b', write 'run@7/' or 'run@7b/'.";

const option_spec options[] = {
    {"all", NULL, "Every checkpoint of the run, not only one.", OPTION_ALL, 0, false},
    {"structure", NULL,
     "Only names, shapes, dtypes, roles and hyperparameters; the tensors' numbers are not read.",
     OPTION_STRUCTURE, 0, false},
    {"edge", "N",
     "How many values to show at each end of a dimension; 3 unless given, at most 100.",
     OPTION_EDGE, 0, false},
    {"full", NULL,
     "Print everything in full: nothing is shortened, left out or wrapped to fit the terminal.",
     OPTION_FULL, 0, false},
    {"names", NULL, "Print the names that begin with ENTRY, for the completion.", OPTION_NAMES, 0,
     true},
    {"force", NULL, "Remove the checkpoint even when it is the only one.", OPTION_FORCE, 0, false},
    {"force", NULL,
     "Rebuild even though data files are provably damaged: what they hold now is then taken for "
     "what was written.",
     OPTION_FORCE_REBUILD, 0, false},
    {"dry-run", NULL, "Say what would be removed, and remove nothing.", OPTION_DRY_RUN, 0, false},
    {"dry-run", NULL, "Print what would become of each entry, and write nothing.",
     OPTION_DRY_CONVERT, 0, false},
    {"to", "FORMAT",
     "The format to write: one of those that are listed above; unless given, what the ending of "
     "DST says, else pawl.",
     OPTION_TO, 0, false},
    {"only", "NAME",
     "Only the entry NAME and those below it: NAME/...; may be given several times.", OPTION_ONLY,
     0, false},
    {"rename", "FROM=TO",
     "The entry FROM becomes TO, and those below it, FROM/..., become TO/...; an empty FROM puts "
     "TO/ in front of every name, an empty TO takes FROM/ away. May be given several times; the "
     "first that fits counts. Besides, /=. makes every / of a name a dot, as PyTorch has its "
     "names, and .=/ the other way round.",
     OPTION_RENAME, 0, false},
    {"transpose", "NAME",
     "Tensors of two axes of A that are NAME, or below it: NAME/..., are compared with the "
     "transposed ones of B. NAME is as A has it, before it is renamed; may be given several times.",
     OPTION_TRANSPOSE, 0, false},
    {"cast", "TYPE", "Tensors of F64, F32, F16 and BF16 become TYPE, which is one of these.",
     OPTION_CAST, 0, false},
    {"drop", NULL, "Leave out what the format has no place for, instead of failing.", OPTION_DROP,
     0, false},
    {"shard-size", "BYTES",
     "Several files of about so many bytes, such as 5GB, in the directory DST, with an index.",
     OPTION_SHARD_SIZE, 0, false},
    {"wait", "SECONDS",
     "How long to wait for another writer before giving up; 35 unless given. That a writer has "
     "crashed is known at once if it ran on this machine, else after 30 seconds without a "
     "heartbeat. Whom it waits for is said on stderr.",
     OPTION_WAIT, 0, false},
    {"need", "BYTES",
     "How large a checkpoint will be, such as 800MB or 1.5TiB; unless given, as large as the "
     "newest "
     "one.",
     OPTION_NEED, 0, false},
    {"alone", NULL, "Check as a single process, even if the environment says that this is a rank.",
     OPTION_ALONE, 0, false},
    {"rank", "R",
     "This process is rank R, counted from 0, if the environment does not say so; needs --ranks "
     "and "
     "--launch.",
     OPTION_RANK, 0, false},
    {"ranks", "N",
     "How many ranks the job has; with --rank and --launch this process is one of them.",
     OPTION_RANKS, 0, false},
    {"launch", "ID",
     "By this word the ranks find each other: the same on all of them, and a new one each time; "
     "unless given, it comes from the environment.",
     OPTION_LAUNCH, 0, false},
    {"deadline", "SECONDS",
     "How long the ranks wait for each other, 30 unless given; and, up to 5, for a filesystem that "
     "does not answer.",
     OPTION_DEADLINE, 0, false},
    {"model", "TEMPLATE",
     "Also say what restoring the checkpoint into this model would report: another checkpoint of "
     "any format, or a .json file of names, shapes and dtypes, such as 'pawl show --json' prints.",
     OPTION_MODEL, 0, false},
    {"every", "SECONDS",
     "How far apart saves will be; unless given, as far as the run's events say.", OPTION_EVERY, 0,
     false},
    {"mtbf", "HOURS",
     "How long the job runs between two failures, on average: says how often to save.", OPTION_MTBF,
     0, false},
    {"budget", "BYTES", "Staging memory of a save on each rank; 256MiB unless given.",
     OPTION_BUDGET, 0, false},
    {"read-only", NULL, "Write nothing, not even a probe; whether that would work is not said.",
     OPTION_READ_ONLY, 0, false},
    {"no-probe", NULL, "Leave out the probe of speed, which writes up to 64 MiB for a second.",
     OPTION_NO_PROBE, 0, false},
    {"verify", NULL, "Read all of the newest checkpoint, instead of what a second is enough for.",
     OPTION_VERIFY, 0, false},
    {"ignore", "ID",
     "Do not show, nor count, findings of this id, such as P07; several with commas between them. "
     "May be given several times.",
     OPTION_IGNORE, 0, false},
    {"stats", NULL,
     "Show what each save cost, as far as the run's events tell: how long it took, its speed, how "
     "long training stood still, how much of that was copying and waiting, how many operations "
     "were retried, and how it ended.",
     OPTION_STATS, 0, false},
    {"once", NULL, "Print once and end, even on a terminal.", OPTION_ONCE, 0, false},
    {"interval", "SECONDS", "Time between two updates; 1 unless given, at least 0.1.",
     OPTION_INTERVAL, 0, false},
    {"json", NULL, "Print one JSON object; a failure is its member \"error\".", OPTION_JSON, 0,
     false},
    {"no-progress", NULL, "Show no progress line on the terminal.", OPTION_NO_PROGRESS, 0, false},
    {"man", NULL, "Print the manual page.", OPTION_MAN, 0, true},
    {"bash-completion", NULL, "Print the completion for bash.", OPTION_BASH_COMPLETION, 0, true},
    {"help", NULL, "Show this help.", OPTION_HELP, 'h', false},
    {0},
};

const verb verbs[] = {
    {
        .name = "ls",
        .summary = "list the checkpoints of a run, or below a directory",
        .description =
            "Lists every step of a run: committed, unfinished, damaged or unreadable, when it was "
            "saved, how "
            "large it is, its metrics, and whether it is pinned or being read. No data file is "
            "opened; to know that the bytes are good, use 'pawl verify'. Of one checkpoint of "
            "another "
            "tool: its format, size, and how many files and entries it has.\n"
            "Of any other directory: every checkpoint below it, of any format, by its path, with "
            "the "
            "step that its name or its run says, and why it is not committed, as far as "
            "names and the heads of files tell. It looks six levels down, at 10,000 directories "
            "and "
            "200,000 names at most, follows no link that leads out, and says what it left out.",
        .operands = {{OPERAND_RUN, "RUN", false}},
        .options = COMMON | OPTION_STATS | OPTION_FULL,
        .examples = {{"pawl ls runs/7", "every checkpoint of the run in runs/7"},
                     {"pawl ls --stats runs/7", "the same, with what each save cost"},
                     {"pawl ls --json runs/7", "the same for a program"},
                     {"pawl ls runs", "every checkpoint below runs, of pawl and of other tools"}},
        .different = "A checkpoint is damaged, or may not be read.",
        .run = verb_ls,
    },
    {
        .name = "top",
        .summary = "watch a run while it saves",
        .description =
            "Shows who writes to a run, its newest checkpoint, the save in flight and how far it "
            "is, the last saves with the time that each phase took, the last failure, and the last "
            "restores. On a terminal it goes on until q or Ctrl-C; elsewhere, and with --once or "
            "--json, it prints once and ends. A narrow terminal shows fewer columns.\n"
            "It only reads files, such as the run's events.jsonl, and does not disturb the job.",
        .operands = {{OPERAND_RUN, "RUN", false}},
        .options = COMMON | OPTION_ONCE | OPTION_INTERVAL,
        .examples = {{"pawl top runs/7", "watch the run in runs/7"},
                     {"pawl top --once runs/7", "the same, once, for a log or a mail"}},
        .run = verb_top,
    },
    {
        .name = "show",
        .summary = "show what a checkpoint holds",
        .description =
            "Without ENTRY: the entries of a checkpoint as a tree, with dtype, shape, size and "
            "role. With ENTRY: that entry, with its first and last values, minimum, maximum, mean, "
            "and how many values are NaN or infinite. If there is no such entry, but ENTRY is a "
            "folder of entries ('model/dense'), the tree below it.\n"
            "Only what is shown is read, in pieces of bounded size, and every byte that is read is "
            "verified.",
        .operands = {{OPERAND_RUN_STEP, "RUN[@STEP]", false}, {OPERAND_ENTRY, "ENTRY", true}},
        .options = COMMON | OPTION_STRUCTURE | OPTION_EDGE | OPTION_FULL | OPTION_NO_PROGRESS |
                   OPTION_NAMES,
        .examples = {{"pawl show runs/7", "the newest checkpoint as a tree"},
                     {"pawl show runs/7@3000 model/dense/kernel", "one entry of step 3000"},
                     {"pawl show model.safetensors", "weights of another tool"},
                     {"pawl show --structure runs/7 model/dense",
                      "the tree below model/dense, or the entry of that name without its numbers"}},
        .different = "What was read is damaged.",
        .run = verb_show,
    },
    {
        .name = "verify",
        .summary = "read every byte of a checkpoint and report damage",
        .description =
            "Reads every file of a checkpoint, compares it with its checksums, goes on after "
            "damage, and prints each problem with the file, the byte range and the entry in it. "
            "Files of other tools have no checksums, or not of everything: what was checked of "
            "them, and what could not be, is said.",
        .operands = {{OPERAND_RUN_STEP, "RUN[@STEP]", false}},
        .options = COMMON | OPTION_ALL | OPTION_NO_PROGRESS,
        .examples = {{"pawl verify runs/7", "the newest checkpoint"},
                     {"pawl verify --all runs/7", "every checkpoint of the run"}},
        .different = "Damage was found.",
        .run = verb_verify,
    },
    {
        .name = "diff",
        .summary = "compare two checkpoints",
        .description =
            "Compares two checkpoints, of one run or of two: entries that only one of them has, "
            "kinds, shapes, dtypes, roles, hyperparameters and other values, and for tensors how "
            "many numbers differ and by how much. The memory it needs is bounded, however large "
            "the checkpoints are.\n"
            "Where B calls its entries otherwise, --rename gives those of A other names before "
            "they "
            "are compared; where it keeps the kernels of dense layers the other way round, "
            "--transpose turns those of A.",
        .operands = {{OPERAND_RUN_STEP, "A[@STEP]", false}, {OPERAND_RUN_STEP, "B[@STEP]", false}},
        .options = COMMON | OPTION_STRUCTURE | OPTION_RENAME | OPTION_TRANSPOSE | OPTION_FULL |
                   OPTION_NO_PROGRESS,
        .examples =
            {{"pawl diff runs/7@1000 runs/7@2000", "what a thousand steps changed"},
             {"pawl diff --structure runs/7 runs/8",
              "would the newest checkpoints of two runs fit the same model?"},
             {"pawl diff --rename model/dense=fc --transpose model/dense/kernel runs/7 m.pt",
              "the same weights, of two frameworks"}},
        .different = "The checkpoints differ, or one of them is damaged.",
        .run = verb_diff,
    },
    {
        .name = "convert",
        .summary = "write a checkpoint in another format",
        .description =
            "Reads a checkpoint, of a run or of another tool, and writes it as DST: a step of a "
            "run, "
            "or a file or directory of another tool. Formats that are written: pawl, "
            "safetensors, torch, dcp, tensorflow, npz, npy. "
            "DST must not be there, unless it is a run, which gets one more step: the one that "
            "follows it as in RUN@STEP, else that of the source, else 0.\n"
            "All is written under another name first, and made durable: what fails, or is "
            "interrupted, leaves nothing behind. What the source has checksums for is verified; at "
            "the end it says what it has none for.",
        .operands = {{OPERAND_RUN_STEP, "SRC[@STEP]", false}, {OPERAND_NEW, "DST[@STEP]", false}},
        .options = COMMON | OPTION_TO | OPTION_ONLY | OPTION_RENAME | OPTION_CAST | OPTION_DROP |
                   OPTION_SHARD_SIZE | OPTION_DRY_CONVERT | OPTION_FULL | OPTION_NO_PROGRESS,
        .examples = {{"pawl convert runs/7 model.safetensors", "the newest checkpoint"},
                     {"pawl convert --only model --rename model= --rename /=. runs/7 m.pt",
                      "the model alone, for PyTorch"},
                     {"pawl convert --to safetensors --shard-size 5GB runs/7 hf",
                      "in several files, with an index"},
                     {"pawl convert weights.gguf runs/9", "a run that begins with these weights"}},
        .run = verb_convert,
    },
    {
        .name = "rm",
        .summary = "remove one checkpoint",
        .description =
            "Removes one checkpoint, pinned or not. It is given by its number, never as 'newest'. "
            "Refuses to remove a checkpoint that someone reads, and the only one unless --force is "
            "given. Opens the run for writing, so it fails while a job has it open.",
        .operands = {{OPERAND_RUN_AT_STEP, "RUN@STEP", false}},
        .options = COMMON | OPTION_FORCE | OPTION_WAIT | OPTION_NO_PROGRESS,
        .examples = {{"pawl rm runs/7@1000", "remove step 1000"}},
        .busy = "A job owns the run, someone reads the checkpoint, something is mounted on it, or "
                "it is the last good one.",
        .run = verb_rm,
    },
    {
        .name = "gc",
        .summary = "remove what interrupted saves left behind",
        .description =
            "Removes files that belong to no checkpoint and whose writer is provably gone, and "
            "nothing that pawl did not write. Jobs do the same after their first save. Opens the "
            "run for writing, so it fails while a job has it open.",
        .operands = {{OPERAND_RUN, "RUN", false}},
        .options = COMMON | OPTION_DRY_RUN | OPTION_FULL | OPTION_WAIT | OPTION_NO_PROGRESS,
        .examples = {{"pawl gc --dry-run runs/7", "what would be removed, and why"}},
        .busy = "A job owns the run; try again once it has ended.",
        .run = verb_gc,
    },
    {
        .name = "rebuild",
        .summary = "make a checkpoint's index anew from its data files",
        .description =
            "Reads all data files of a checkpoint and writes a new index and manifest from them, "
            "for when those were lost or damaged. Opens the run for writing, so it fails while a "
            "job has it open.\n"
            "Fails if a data file is not as its writer left it, or is damaged according to the "
            "present index, unless --force is given: then what the files hold now is taken for "
            "what was written.",
        .operands = {{OPERAND_RUN_AT_STEP, "RUN@STEP", false}},
        .options = COMMON | OPTION_FORCE_REBUILD | OPTION_WAIT | OPTION_NO_PROGRESS,
        .examples = {{"pawl rebuild runs/7@1000", "make the index of step 1000 anew"}},
        .different = "The data files are damaged as well; nothing was changed.",
        .busy = "A job owns the run; try again once it has ended.",
        .run = verb_rebuild,
    },
    {
        .name = "doctor",
        .summary = "explain what keeps a job from saving or restoring",
        .description =
            "Before a job runs: can it save at PATH, how fast, is what is there whole, and has "
            "this machine what it takes? PATH is a run, which need not exist yet, or a checkpoint "
            "of any format.\n"
            "Checks the path, its permissions, the filesystem and what it lacks, the free space, "
            "quotas and the present writer; writes, syncs and reads back a probe for about a "
            "second; reads checkpoints for about a second and names what is damaged, which step is "
            "safe, and what interrupted saves left; looks at ranks, memory, limits and the clock. "
            "Leaves nothing behind. Every finding has an id of the failure catalogue.\n"
            "Started on all ranks by mpirun, srun, torchrun or the like, it also finds out whether "
            "they see the same directory: rank 0 prints what all of them found, and its exit code "
            "is that of all; the others print only what could not reach it. The first line names "
            "the launcher.\n"
            "Of a SavedModel of TensorFlow (its directory, or saved_model.pb) it says instead, "
            "signature by signature, what an accelerator could not run: dimensions that are "
            "unknown, and nodes whose op or type XLA has no kernel for. The model is only read; "
            "with --model its variables are compared with that one.",
        .operands = {{OPERAND_RUN_STEP, "PATH[@STEP]", false}},
        .options = COMMON | OPTION_NEED | OPTION_GROUP | OPTION_DOCTOR | OPTION_RENAME,
        .examples = {{"pawl doctor --need 40GB runs/7", "is there room for checkpoints of 40 GB?"},
                     {"pawl doctor --model new.json runs/7",
                      "what would restoring the newest checkpoint into that model report?"},
                     {"pawl doctor export/1", "could an accelerator run this SavedModel?"},
                     {"mpirun -n 4 pawl doctor runs/7", "do four ranks see the same runs/7?"},
                     {"ssh host1 pawl doctor --rank 1 --ranks 2 --launch try1 /data/runs/7",
                      "the same without a launcher; start rank 0 at the same time"},
                     {"pawl doctor --mtbf 24 --ignore P07 runs/7",
                      "how often to save, and it is known that runs/7 is in a container"}},
        .failed = "The checks could not be made.",
        .different = "There are findings: warnings or errors. Whether a job could save there all "
                     "the same is the member \"able_to_save\" of --json.",
        .run = verb_doctor,
    },
    {
        .name = "help",
        .summary = "explain the command or one verb",
        .description = "Prints an overview of all verbs, or the help of one of them.",
        .operands = {{OPERAND_VERB, "VERB", true}},
        .options = OPTION_HELP | OPTION_MAN | OPTION_BASH_COMPLETION,
        .examples = {{"pawl help show", "the same as pawl show --help"}},
        .run = verb_help,
    },
    {0},
};

const verb *verb_find(const char *name) {
    for (const verb *v = verbs; v->name != NULL; v++) {
        if (strcmp(v->name, name) == 0) {
            return v;
        }
    }
    return NULL;
}

int verb_refuse_unknown(const char *name, output *out) {
    const char *names[sizeof verbs / sizeof verbs[0]] = {NULL};
    for (size_t i = 0; verbs[i].name != NULL; i++) {
        names[i] = verbs[i].name;
    }
    const char *near = text_nearest(name, names);
    return output_usage(out, NULL, "there is no %s '%s'%s%s%s", *name == '-' ? "option" : "verb",
                        name, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                        near != NULL ? "'?" : "");
}

char *verb_synopsis(const verb *v) {
    char *text = must_printf("%s [OPTION]...", v->name);
    for (size_t i = 0; i < MAX_OPERANDS && v->operands[i].kind != OPERAND_END; i++) {
        const operand *o = &v->operands[i];
        char *longer =
            must_printf("%s %s%s%s", text, o->optional ? "[" : "", o->name, o->optional ? "]" : "");
        free(text);
        text = longer;
    }
    return text;
}

static bool opens_checkpoints(const verb *v) {
    return v->operands[0].kind != OPERAND_VERB;
}

void exit_meanings(const verb *v, exit_meaning out[MAX_EXIT_MEANINGS]) {
    const verb usual = {.failed = "It failed, or the result could not be written.",
                        .different = v == NULL ? "Damage or a difference was found."
                                               : "What was read is damaged.",
                        .busy = "Someone else is using it, or the storage did not answer in time; "
                                "try again later."};
    const verb *of = v != NULL ? v : &usual;
    size_t n = 0;
    out[n++] = (exit_meaning){EXIT_DONE, "Done, and nothing is wrong."};
    out[n++] = (exit_meaning){EXIT_FAILED, of->failed != NULL ? of->failed : usual.failed};
    out[n++] = (exit_meaning){EXIT_USAGE, "The command line is wrong."};
    if (v == NULL || opens_checkpoints(v)) {
        out[n++] =
            (exit_meaning){EXIT_DIFFERENT, of->different != NULL ? of->different : usual.different};
    }
    if (v == NULL || (opens_checkpoints(v) && v->run != verb_doctor)) {
        out[n++] = (exit_meaning){EXIT_NOT_FOUND, "There is no such run, step or entry."};
        out[n++] = (exit_meaning){EXIT_TRY_AGAIN, of->busy != NULL ? of->busy : usual.busy};
    }
    out[n] = (exit_meaning){0, NULL};
}

int verb_exit_code(const verb *v, int code) {
    exit_meaning meanings[MAX_EXIT_MEANINGS];
    exit_meanings(v, meanings);
    for (const exit_meaning *m = meanings; m->text != NULL; m++) {
        if (m->code == code) {
            return code;
        }
    }
    return EXIT_FAILED;
}
