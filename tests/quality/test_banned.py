# SPDX-License-Identifier: Apache-2.0
"""What the library must not do (print, exit, read the environment, touch signals, allocate outside of
one file), what C code here does not call, and words that do not belong into a finished tree."""

import re

import quality

LIBRARY = [
    # (what, pattern over code without comments and strings, files that may)
    ("prints", r"\b(?:printf|vprintf|puts|putchar|putc|perror|psignal)\s*\(|\bstd(?:out|err)\b", ()),
    ("ends the process", r"\b(?:exit|_exit|_Exit|quick_exit|abort|raise)\s*\(", ()),
    ("reads the environment", r"\b(?:getenv|secure_getenv|setenv|putenv)\s*\(|\benviron\b", ()),
    # pthread_sigmask may be called: the library's own threads leave signals to the caller's.
    ("touches signals", r"\b(?:signal|sigaction|sigprocmask|sigset)\s*\(",
     ("src/api/preemption.c",)),
    ("allocates past src/base/memory.c",
     r"\b(?:malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|getline|"
     r"posix_memalign|aligned_alloc|memalign|open_memstream|realpath)\s*\(", ("src/base/memory.c",)),
    ("copies a process", r"\b(?:fork|vfork|system|popen)\s*\(", ()),
    ("is not for threads", r"\bstrerror\s*\(", ()),
    ("takes a lock on a file", r"\b(?:flock|lockf)\s*\(|\bF_(?:OFD_)?SETLKW?\b", ()),
]
ALL_C = [
    ("writes without a bound", r"\b(?:strcpy|strcat|sprintf|vsprintf|gets|stpcpy)\s*\("),
    ("keeps hidden state", r"\b(?:strtok|localtime|gmtime|ctime|asctime|tmpnam|rand)\s*\("),
    ("jumps or grows the stack", r"\b(?:alloca|setjmp|longjmp|sigsetjmp)\s*\("),
    ("parses without errors", r"\b(?:atoi|atol|atoll|atof)\s*\("),
    # tests/quality/test_glibc.py has what library and command ask for; no linker sees these in what it leaves out.
    ("is of a newer glibc than the wheel's", r"\b(?:strerror(?:name|desc)_np|twalk_r)\b"),
]
# Joined here so that this file does not hold what it looks for.
WORDS = [
    ("is left to do", re.compile(r"\b(?:%s)\b" % "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]))),
    ("is a path of one machine", re.compile(r"(?<![\w.~$}/-])/(?:home|root|work|Users)/\w")),
    ("is a number that only a tracker knows", re.compile(r"\b[Ii]ss" + r"ue #?\d")),
    ("speaks of how it was made",
     re.compile(r"\b(?:this|an earlier|a previous|another) sess" + r"ion\b|\bsub-?ag" + r"ent\b",
                re.IGNORECASE)),
]
C_FOLDERS = ("src", "cli", "examples", "bench")


def check_c(path, text):
    code = quality.strip_c(text)
    rules = list(ALL_C)
    if path.parts[0] == "src":
        rules += [(what, pattern) for what, pattern, may in LIBRARY if str(path) not in may]
    for what, pattern in rules:
        for match in re.finditer(pattern, code):
            if code[:match.start()].endswith(("->", ".")):
                continue  # a function of that name in someone's table
            where = f"{path}:{quality.line_of(code, match.start())}"
            yield f"{where}: {match.group(0).rstrip('( ')} {what}"


def check(root):
    problems = []
    for path in quality.files(root, *C_FOLDERS, suffixes=quality.C_SUFFIXES):
        problems += check_c(path, quality.text_of(root, path) or "")
    for path in quality.files(root):
        text = quality.text_of(root, path)
        for what, pattern in WORDS if text is not None else ():
            for match in pattern.finditer(text):
                where = f"{path}:{quality.line_of(text, match.start())}"
                problems.append(f"{where}: '{match.group(0)}' {what}")
    return problems


def self_test():
    good = {
        "src/api/preemption.c": "void f(void) { sigaction(1, 0, 0); }\n",
        "src/base/memory.c": "void f(void) { free(malloc(1)); }\n",
        "src/run/run.c": '/* printf(1) exit(1) */\nchar *s = "getenv(1)";\nvoid mem_free(void *);\n'
                         "void g(void) { mem_free(0); ops->free(0); ops.exit(0); thread_exit(0); }\n",
        "cli/main.c": "int main(void) { printf(1); return 0; }\n",
        "README.md": "`/var/tmp/run`, `$HOME/wo" + "rk/run`\n",
    }

    def code(line):
        return {"src/run/bad.c": f"void bad(void) {{ {line}; }}\n"}

    def words(text):
        return {"docs/bad.md": text + "\n"}

    quality.prove(check, good, [
        (code("printf (1)"), "prints"), (code("fputs(1, stderr)"), "prints"),
        (code("exit(1)"), "ends"), (code("getenv(1)"), "environment"),
        (code("signal(1, 0)"), "signals"), (code("free(p)"), "allocates"),
        (code("p = strdup(q)"), "allocates"), (code("fork()"), "process"),
        (code("flock(1, 2)"), "lock"), (code("strcpy(a, b)"), "bound"),
        (code("localtime(1)"), "hidden"), (code("strerror(1)"), "threads"), (code("alloca(1)"), "stack"),
        ({"cli/bad.c": "int a(void) { return atoi(b); }\n"}, "without errors"),
        (code("s = strerrorname_np(1)"), "newer glibc"), (code("s = strerrordesc_np (1)"), "newer glibc"),
        ({"cli/bad.c": "void a(void) { twalk_r(b, c, d); }\n"}, "newer glibc"),
        (words("TO" + "DO: more"), "left to do"), (words("see /wo" + "rk/main"), "one machine"),
        (words("as iss" + "ue 7 says"), "tracker"), (words("in this sess" + "ion"), "was made"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
