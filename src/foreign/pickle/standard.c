/* SPDX-License-Identifier: Apache-2.0 */
/* Which names of functions are those of Python itself, and which of them are harmless. */
#include "foreign/pickle/standard.h"

#include <stdlib.h>
#include <string.h>

/* Modules of Python 2.7 and 3.6 to 3.14, on every system, and what is installed with Python;
 * ascending. Not __main__: there are the classes of whoever wrote the file. */
static const char *const modules[] = {
    /* clang-format off */
    "BaseHTTPServer", "Bastion", "CDROM", "CGIHTTPServer", "Carbon", "ConfigParser", "Cookie",
    "DLFCN", "DocXMLRPCServer", "HTMLParser", "IN", "MacOS", "MimeWriter", "Queue",
    "SimpleHTTPServer", "SimpleXMLRPCServer", "SocketServer", "StringIO", "TYPES", "Tkinter",
    "UserDict", "UserList", "UserString", "_LWPCookieJar", "_MozillaCookieJar", "__builtin__",
    "__future__", "__phello__", "_abc", "_abcoll", "_aix_support", "_android_support",
    "_apple_support", "_ast", "_ast_unparse", "_asyncio", "_bisect", "_blake2", "_bootlocale",
    "_bootsubprocess", "_bz2", "_codecs", "_codecs_cn", "_codecs_hk", "_codecs_iso2022",
    "_codecs_jp", "_codecs_kr", "_codecs_tw", "_collections", "_collections_abc", "_colorize",
    "_compat_pickle", "_compression", "_contextvars", "_crypt", "_csv", "_ctypes", "_curses",
    "_curses_panel", "_datetime", "_dbm", "_decimal", "_distutils_hack", "_dummy_thread",
    "_elementtree", "_frozen_importlib", "_frozen_importlib_external", "_functools", "_gdbm",
    "_hashlib", "_heapq", "_hmac", "_hotshot", "_imp", "_interpchannels", "_interpqueues",
    "_interpreters", "_io", "_ios_support", "_json", "_locale", "_lsprof", "_lzma", "_markupbase",
    "_md5", "_msi", "_multibytecodec", "_multiprocessing", "_opcode", "_opcode_metadata",
    "_operator", "_osx_support", "_overlapped", "_peg_parser", "_pickle", "_posixshmem",
    "_posixsubprocess", "_py_abc", "_py_warnings", "_pydatetime", "_pydecimal", "_pyio", "_pylong",
    "_pyrepl", "_queue", "_random", "_remote_debugging", "_scproxy", "_sha", "_sha1", "_sha2",
    "_sha256", "_sha3", "_sha512", "_signal", "_sitebuiltins", "_socket", "_sqlite3", "_sre",
    "_ssl", "_stat", "_statistics", "_string", "_strptime", "_struct", "_suggestions", "_symtable",
    "_sysconfig", "_sysconfigdata", "_thread", "_threading_local", "_tkinter", "_tokenize",
    "_tracemalloc", "_types", "_typing", "_uuid", "_warnings", "_weakref", "_weakrefset", "_winapi",
    "_winreg", "_wmi", "_xxsubinterpreters", "_zoneinfo", "_zstd", "abc", "aifc", "annotationlib",
    "antigravity", "anydbm", "argparse", "array", "ast", "asynchat", "asyncio", "asyncore",
    "atexit", "audiodev", "audioop", "base64", "bdb", "binascii", "binhex", "bisect", "bsddb",
    "builtins", "bz2", "cPickle", "cProfile", "cStringIO", "calendar", "cgi", "cgitb", "chunk",
    "cmath", "cmd", "code", "codecs", "codeop", "collections", "colorsys", "commands", "compileall",
    "compiler", "compression", "concurrent", "configparser", "contextlib", "contextvars",
    "cookielib", "copy", "copy_reg", "copyreg", "crypt", "csv", "ctypes", "curses", "dataclasses",
    "datetime", "dbhash", "dbm", "decimal", "difflib", "dircache", "dis", "distutils", "doctest",
    "dumbdbm", "dummy_thread", "dummy_threading", "easy_install", "email", "encodings", "ensurepip",
    "enum", "errno", "exceptions", "faulthandler", "fcntl", "filecmp", "fileinput", "fnmatch",
    "formatter", "fpformat", "fractions", "ftplib", "functools", "future_builtins", "gc",
    "genericpath", "getopt", "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib",
    "heapq", "hmac", "hotshot", "html", "htmlentitydefs", "htmllib", "http", "httplib", "ic",
    "idlelib", "ihooks", "imaplib", "imghdr", "imp", "importlib", "imputil", "inspect", "io",
    "ipaddress", "itertools", "json", "keyword", "lib2to3", "linecache", "linuxaudiodev", "locale",
    "logging", "lzma", "macpath", "macurl2path", "mailbox", "mailcap", "markupbase", "marshal",
    "math", "md5", "mhlib", "mimetools", "mimetypes", "mimify", "mmap", "modulefinder", "msilib",
    "msvcrt", "multifile", "multiprocessing", "mutex", "netrc", "new", "nis", "nntplib", "nt",
    "ntpath", "nturl2path", "numbers", "opcode", "operator", "optparse", "os", "os2emxpath",
    "ossaudiodev", "parser", "pathlib", "pdb", "pickle", "pickletools", "pip", "pipes",
    "pkg_resources", "pkgutil", "platform", "plistlib", "popen2", "poplib", "posix", "posixfile",
    "posixpath", "pprint", "profile", "pstats", "pty", "pwd", "py_compile", "pyclbr", "pydoc",
    "pydoc_data", "pyexpat", "queue", "quopri", "random", "re", "readline", "repr", "reprlib",
    "resource", "rexec", "rfc822", "rlcompleter", "robotparser", "runpy", "sched", "secrets",
    "select", "selectors", "sets", "setuptools", "sgmllib", "sha", "shelve", "shlex", "shutil",
    "signal", "site", "smtpd", "smtplib", "sndhdr", "socket", "socketserver", "spwd", "sqlite3",
    "sre", "sre_compile", "sre_constants", "sre_parse", "ssl", "stat", "statistics", "statvfs",
    "string", "stringold", "stringprep", "strop", "struct", "subprocess", "sunau", "sunaudio",
    "symbol", "symtable", "sys", "sysconfig", "syslog", "tabnanny", "tarfile", "telnetlib",
    "tempfile", "termios", "test", "textwrap", "this", "thread", "threading", "time", "timeit",
    "tkinter", "toaiff", "token", "tokenize", "tomllib", "trace", "traceback", "tracemalloc", "tty",
    "turtle", "turtledemo", "types", "typing", "unicodedata", "unittest", "urllib", "urllib2",
    "urlparse", "user", "uu", "uuid", "venv", "warnings", "wave", "weakref", "webbrowser",
    "whichdb", "winreg", "winsound", "wsgiref", "xdrlib", "xml", "xmllib", "xmlrpc", "xmlrpclib",
    "xxlimited", "xxsubtype", "zipapp", "zipfile", "zipimport", "zlib", "zoneinfo",
    /* clang-format on */
};

/* Modules of which every class may be named, "" as the name; and functions of others. */
static const struct {
    const char *module, *name;
} harmless[] = {
    {"collections", ""},
    {"datetime", ""},
    {"_pydatetime", ""},
    {"enum", ""},
    {"pathlib", ""},
    {"pathlib._local", ""},
    {"argparse", "Namespace"},
    {"array", "array"},
    {"array", "_array_reconstructor"},
    {"decimal", "Decimal"},
    {"fractions", "Fraction"},
    {"functools", "partial"},
    {"ipaddress", "IPv4Address"},
    {"ipaddress", "IPv6Address"},
    {"logging", "getLogger"},
    {"random", "Random"},
    {"re", "_compile"},
    {"types", "SimpleNamespace"},
    {"uuid", "UUID"},
    {"uuid", "SafeUUID"},
    {"zoneinfo", "ZoneInfo._unpickle"},
    {"_codecs", "encode"},
    {"copyreg", "_reconstructor"},
    {"copyreg", "__newobj__"},
};

/* Of builtins. */
static const char *const types[] = {
    "bytes", "bytearray", "set", "frozenset", "range", "xrange", "slice", "complex", "dict",
    "list",  "tuple",     "int", "long",      "float", "bool",   "str",   "unicode", "object",
};

static int by_name(const void *a, const void *b) {
    return strcmp(a, *(const char *const *)b);
}

static bool is_module(const char *name, size_t n) {
    char root[64];
    if (n >= sizeof(root)) {
        return false;
    }
    memcpy(root, name, n);
    root[n] = '\0';
    return bsearch(root, modules, ARRAY_LENGTH(modules), sizeof(*modules), by_name) != NULL;
}

bool pickle_is_standard(const char *module) {
    return is_module(module, strcspn(module, "."));
}

/* Letters, digits, "_" and "-", the "<locals>" of functions, and what is not of ASCII. */
static bool is_plain(const char *name) {
    static const char others[] = "_.-<>";
    for (; *name != '\0'; name++) {
        uint8_t c = (uint8_t)*name;
        bool letter = (c | 0x20u) >= 'a' && (c | 0x20u) <= 'z';
        if (!letter && (c < '0' || c > '9') && c < 0x80 && strchr(others, c) == NULL) {
            return false;
        }
    }
    return true;
}

bool pickle_leads_away(const char *module, const char *name) {
    if (!is_plain(module) || !is_plain(name)) {
        return true;
    }
    bool dotted = strchr(name, '.') != NULL;
    while (dotted && *name != '\0') {
        size_t n = strcspn(name, ".");
        if (is_module(name, n) || strncmp(name, "__", 2) == 0 || n == 0) {
            return true;
        }
        name += n + (name[n] == '.');
    }
    return false;
}

bool pickle_is_harmless(const char *module, const char *name) {
    bool builtin = strcmp(module, "builtins") == 0 || strcmp(module, "__builtin__") == 0;
    const char *now = strcmp(module, "copy_reg") == 0 ? "copyreg" : module;
    for (size_t i = 0; builtin && i < ARRAY_LENGTH(types); i++) {
        if (strcmp(name, types[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LENGTH(harmless); i++) {
        bool any = harmless[i].name[0] == '\0';
        bool named =
            any ? name[0] != '_' && strchr(name, '.') == NULL : strcmp(harmless[i].name, name) == 0;
        if (named && strcmp(harmless[i].module, now) == 0) {
            return true;
        }
    }
    return false;
}
