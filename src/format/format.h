/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format: the files of a checkpoint, encoder and decoder of each record in one file: safetensors
 * data file and its sum, sorted table, the table's records, names. What is not here has a header of
 * its own: manifest, votes, outcomes, events. docs/format.md is the specification.
 *
 * May include base and tensor. Nothing here does I/O: bytes come from a byte_source and go to a
 * byte_sink. Everything read is hostile: every length has a named maximum and is compared with the
 * bytes that remain. Errors are PAWL_EDAMAGED with the byte position; PAWL_EUNSUPPORTED for a newer
 * version; PAWL_ELIMIT where a count, a depth or the length of a whole record passes a maximum of
 * limits.h, for then the file may be right, and this library too small for it. What no writer could
 * have written is damage: a name, a text or a value that no state takes, elements or offsets that
 * the format cannot say.
 */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H

#include "base/base.h"
#include "format/limits.h"
#include "tensor/tensor.h"

#include <pawl/state.h>

#define FORMAT_VERSION           1
#define FORMAT_DATA_ALIGNMENT    4096u  /* the tensors of a data file begin at a multiple */
#define FORMAT_BLOCK_BYTES       16384u /* of a data file, with one CRC32C */
#define FORMAT_BLOCKS_PER_RECORD 1024u  /* checksums per table record: 16 MiB of data */
#define FORMAT_TABLE_BLOCK       32768u /* target size of a table block */
#define FORMAT_TAG_CHARS         24     /* "<attempt>-<save number>" and its NUL fit */

/* ---- safetensors: safetensors.c ------------------------------------------------------------- */

/* One tensor in a file. `offset` is from the start of the file. */
typedef struct safetensors_tensor {
    const char *name;
    pawl_dtype dtype;
    const char *type; /* where dtype is 0: its name in the file */
    int ndim;
    const int64_t *shape;
    uint64_t offset, bytes;
} safetensors_tensor;

typedef struct safetensors_pair {
    const char *key, *value;
} safetensors_pair;

typedef struct safetensors_header {
    safetensors_tensor *tensors; /* ascending by offset */
    size_t tensor_count;
    safetensors_pair *metadata;
    size_t metadata_count;
    uint64_t data_offset, file_bytes;
    arena memory;
} safetensors_header;

/*
 * Writes the header for `tensors` in the given order: name, dtype, shape are in, offset and bytes
 * are filled. The header is padded with spaces so that the data begins at a multiple of 4096. Every
 * tensor must come out aligned to its dtype (descending alignment does), else PAWL_EINTERNAL.
 */
pawl_status safetensors_encode(safetensors_tensor *tensors, size_t count,
                               const safetensors_pair *metadata, size_t metadata_count,
                               buffer *header, uint64_t *file_bytes, pawl_error *err)
    PAWL_MUST_CHECK;
/* An upper bound of what one tensor adds to a header by itself, without metadata. */
uint64_t safetensors_tensor_cost(const char *name, int ndim);
/* Accepts what the reference parser accepts, minus duplicate keys, NUL in names, and entries that
 * are not objects. */
pawl_status safetensors_decode(const byte_source *file, safetensors_header *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same of a file that pawl may not have written: a dtype that is none of ours has a `type` and
 * is 0, and nothing says whether such a tensor's shape fits its bytes. */
pawl_status safetensors_decode_foreign(const byte_source *file, safetensors_header *out,
                                       pawl_error *err) PAWL_MUST_CHECK;
void safetensors_header_free(safetensors_header *header);

/* The one name of a header that no tensor has. */
#define SAFETENSORS_METADATA_KEY "__metadata__"

/* ---- table: table_write.c, table_read.c ----------------------------------------------------- */

/* LevelDB's table format (github.com/google/leveldb, doc/table_format.md), uncompressed. */
typedef struct table_writer table_writer;
pawl_status table_writer_new(byte_sink sink, table_writer **out, pawl_error *err) PAWL_MUST_CHECK;
/* Keys strictly ascending, bytewise. */
pawl_status table_writer_add(table_writer *w, const void *key, size_t key_bytes, const void *value,
                             size_t value_bytes, pawl_error *err) PAWL_MUST_CHECK;
typedef struct table_summary {
    uint64_t bytes;
    uint32_t crc32c;        /* of the whole table */
    uint32_t footer_crc32c; /* of its last 48 bytes */
} table_summary;
pawl_status table_writer_finish(table_writer *w, table_summary *out, pawl_error *err)
    PAWL_MUST_CHECK;
void table_writer_free(table_writer *w);
void table_writer_free_pointer(table_writer **w); /* for CLEANUP */

/* Records of a table that are encoded ahead, in memory, while those before them are not yet known:
 * keys strictly ascending, and all after those that the writer has when it takes the part. */
typedef struct table_part table_part;
pawl_status table_part_new(table_part **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status table_part_add(table_part *p, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes, pawl_error *err) PAWL_MUST_CHECK;
pawl_status table_part_finish(table_part *p, pawl_error *err) PAWL_MUST_CHECK;
size_t table_part_bytes(const table_part *p);
void table_part_free(table_part *p); /* NULL is fine */
/* The part is finished; it stays the caller's. */
pawl_status table_writer_add_part(table_writer *w, const table_part *p, pawl_error *err)
    PAWL_MUST_CHECK;

typedef struct table table;
#define TABLE_FOOTER_BYTES 48u
/* Reads the footer (checked against *footer_crc32c unless NULL) and the index block. */
pawl_status table_open(byte_source source, const uint32_t *footer_crc32c, table **out,
                       pawl_error *err) PAWL_MUST_CHECK;
void table_close(table *t);

typedef struct table_cursor table_cursor;
pawl_status table_cursor_new(table *t, table_cursor **out, pawl_error *err) PAWL_MUST_CHECK;
void table_cursor_free(table_cursor *c);
void table_cursor_free_pointer(table_cursor **c); /* for CLEANUP */
/* Moves to the first key that is not less than `key`. */
pawl_status table_seek(table_cursor *c, const void *key, size_t key_bytes, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status table_next(table_cursor *c, pawl_error *err) PAWL_MUST_CHECK;
bool table_valid(const table_cursor *c);
/* Valid until the cursor moves. */
void table_item(const table_cursor *c, const uint8_t **key, size_t *key_bytes,
                const uint8_t **value, size_t *value_bytes);

/* ---- records: record.c, record_checksums.c, record_metadata.c ---------------------------------
 * Keys:  'c' u32be(file) u32be(record)  checksums of FORMAT_BLOCKS_PER_RECORD blocks of a data file
 *        'e' name                       one entry with its pieces
 */
typedef struct record_piece {
    uint32_t file; /* index into the manifest's data files */
    int32_t rank;  /* whose it is, for per-rank entries; otherwise the rank that wrote it */
    uint64_t offset, bytes;           /* in that file */
    int64_t *box_offset, *box_extent; /* tensors: ndim numbers each; NULL for values */
} record_piece;

typedef struct record_entry {
    const char *name;
    pawl_kind kind;
    pawl_role role;
    const char *slot_of, *slot; /* NULL unless role is SLOT */
    bool per_rank, replicated;
    pawl_dtype dtype; /* tensors */
    const char *type; /* tensors of a source whose elements have no dtype, which is 0 then */
    int ndim;
    const int64_t *shape;
    const uint8_t *value; /* values that are not per rank: a copy of the bytes */
    size_t value_bytes;
    record_piece *pieces;
    size_t piece_count;
    size_t head_bytes; /* of a decoded record: those before its pieces */
} record_entry;

/* The name of what the elements of a tensor are; NULL for values. */
const char *record_entry_type(const record_entry *entry);
/* Are they the same but for name, value and pieces? */
bool record_entry_alike(const record_entry *a, const record_entry *b);
pawl_status record_entry_key(buffer *key, const char *name, pawl_error *err) PAWL_MUST_CHECK;
pawl_status record_entry_encode(const record_entry *entry, buffer *value, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_kind record_entry_kind(const uint8_t *value, size_t value_bytes); /* 0: no record */
/* Checks everything: name rules, boxes inside the shape, bytes that fit the box, files <
 * file_count. What it points to lives in `memory`. */
pawl_status record_entry_decode(const uint8_t *key, size_t key_bytes, const uint8_t *value,
                                size_t value_bytes, uint32_t file_count, arena *memory,
                                record_entry *out, pawl_error *err) PAWL_MUST_CHECK;

/* The record that has the checksum of block `block` of a data file, and of its neighbours: the key,
 * how many checksums it has (0 behind the end of the file), and the value. */
#define RECORD_CHECKSUMS_KEY 9 /* bytes */
void record_checksums_key(uint8_t key[RECORD_CHECKSUMS_KEY], uint32_t file, uint64_t block);
size_t record_checksums_count(uint64_t file_bytes, uint64_t block);
pawl_status record_checksums_encode(const uint32_t *checksums, size_t count, buffer *value,
                                    pawl_error *err) PAWL_MUST_CHECK;
/* Is it that record, with as many checksums as the file calls for? */
bool record_checksums_whole(uint32_t file, uint64_t file_bytes, uint64_t block, const uint8_t *key,
                            size_t key_bytes, size_t value_bytes);
pawl_status record_checksums_decode(const uint8_t *value, size_t value_bytes, uint32_t *checksums,
                                    pawl_error *err) PAWL_MUST_CHECK;

/* What a data file says of itself in __metadata__, so that an index can be rebuilt. A key is the
 * name of the entry; a further piece of it in the file has one that is no name. */
#define RECORD_METADATA_KEY     "pawl"
#define RECORD_METADATA_PLAIN   1  /* versions: what every reader knows, */
#define RECORD_METADATA_FURTHER 2  /* and what older ones refuse, such as further pieces */
#define RECORD_FURTHER_BYTES    12 /* of a further piece's key beyond the name, at most */
pawl_status record_further_key(const char *name, uint32_t further, arena *memory, const char **key,
                               pawl_error *err) PAWL_MUST_CHECK;
pawl_status record_metadata_begin(int version, int64_t step, int rank, int world_size, buffer *json,
                                  pawl_error *err) PAWL_MUST_CHECK;
/* Appends what there is to say of an entry, whose name is the key, and the piece of it. */
pawl_status record_metadata_add(const record_entry *entry, const record_piece *piece, buffer *json,
                                pawl_error *err) PAWL_MUST_CHECK;
pawl_status record_metadata_end(buffer *json, pawl_error *err) PAWL_MUST_CHECK;
/* The DCP_SHARDING_INFO of a file, wanted only when some piece is not whole. */
pawl_status record_sharding_info_begin(buffer *json, pawl_error *err) PAWL_MUST_CHECK;
pawl_status record_sharding_info_add(const record_entry *entry, const record_piece *piece,
                                     buffer *json, pawl_error *err) PAWL_MUST_CHECK;
pawl_status record_sharding_info_end(buffer *json, pawl_error *err) PAWL_MUST_CHECK;
/* From a decoded header: an entry with a piece for each tensor, ascending by key. No values. */
pawl_status record_metadata_decode(const safetensors_header *header, uint32_t file, arena *memory,
                                   record_entry **entries, size_t *count, int64_t *step, int *rank,
                                   int *world_size, pawl_error *err) PAWL_MUST_CHECK;

/* ---- sum of a data file: data_sum.c -----------------------------------------------------------
 * The first pair of a data file's __metadata__ is a sum of all its bytes, so that a crash cannot
 * leave a file that looks whole and is not. DATA_SUM_UNFINISHED is there until all else is
 * written.
 */
#define DATA_SUM_KEY        "pawl_sum"
#define DATA_SUM_UNFINISHED "--------"
#define DATA_SUM_DIGITS     8u
#define DATA_SUM_AT         37u /* of the first digit, in every file that pawl wrote */

/* The edge: the bytes from the header's end to the end of the block that the header ends in, or to
 * the end of the file. Returns where it ends. */
uint64_t data_sum_edge(uint64_t header_bytes, uint64_t file_bytes);
/* From the CRC32C of the header, still unfinished, that of the edge, and those of all blocks. */
uint32_t data_sum(uint32_t header_crc, uint32_t edge_crc, uint64_t header_bytes,
                  const uint32_t *blocks, size_t block_count);
/* Puts the digits of the sum into the first bytes of a file, which are checksummed after that. */
void data_sum_put(uint8_t *file, uint32_t sum);

/* The sum while a file is read: begins as {.header_bytes, .file_bytes}; data_sum_look gets all
 * bytes of the file, in order. */
typedef struct data_sum_reading {
    uint64_t header_bytes, file_bytes;
    uint32_t header_crc, edge_crc;
} data_sum_reading;
/* The first call has all of the file, or a whole block. */
void data_sum_look(data_sum_reading *r, uint64_t at, const uint8_t *bytes, size_t n);
/* PAWL_EDAMAGED when even the beginning of the file, which is written last, is not there: zeros. */
pawl_status data_sum_begun(const byte_source *file, pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EDAMAGED when the file says that its writer did not get to the end. */
pawl_status data_sum_finished(const safetensors_header *header, pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EDAMAGED when the sum is another. A file without one, of an older pawl, passes both. */
pawl_status data_sum_check(const data_sum_reading *r, const safetensors_header *header,
                           const uint32_t *blocks, size_t block_count, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- names of files and directories: name.c ------------------------------------------------- */

#define NAME_MANIFEST   "manifest.json"
#define NAME_LATEST     "latest"
#define NAME_EVENTS     "events.jsonl"
#define NAME_EVENTS_OLD "events.old.jsonl"
#define NAME_RESERVE    "reserve"
#define NAME_REMOVING   "removing"
typedef enum name_kind {
    NAME_FOREIGN, /* not ours: never touched */
    NAME_KIND_MANIFEST,
    NAME_KIND_MANIFEST_TMP,
    NAME_KIND_INDEX,
    NAME_KIND_DATA,
    NAME_KIND_READER,   /* reader-<id> */
    NAME_KIND_PINNED,   /* pinned */
    NAME_KIND_REMOVING, /* removing */
    NAME_KIND_VOTE
} name_kind;
void name_step(char out[32], int64_t step);
bool name_step_parse(const char *name, int64_t *step);
/* tag: hexadecimal attempt of 12 characters, '-', save number: "7f3a9c21e04b-1". `rank` negative:
 * the files of one process alone, whose names have none. */
void name_data(char out[80], const char *tag, int rank, uint32_t number, uint32_t of);
bool name_data_parse(const char *name, char tag[FORMAT_TAG_CHARS], int *rank, uint32_t *number,
                     uint32_t *of);
void name_vote(char out[80], const char *tag, int rank); /* in the step's directory */
bool name_vote_parse(const char *name, char tag[FORMAT_TAG_CHARS], int *rank);
void name_index(char out[80], const char *tag);
void name_manifest_tmp(char out[80], const char *tag); /* before it is published */
/* Of a name in a step's directory; `tag` gets that of data, index, vote and temporary files. */
name_kind name_classify(const char *name, char tag[FORMAT_TAG_CHARS]);
/* What ranks and probes leave in the run's directory, and what it is published by (".tmp").
 * `key`: 12 hexadecimal digits, an attempt or the sum of a launch's name. */
void name_outcome(char out[80], const char *tag);
void name_structure(char out[80], const char *attempt, uint32_t crc32c, uint64_t bytes);
void name_meet(char out[80], const char *key, uint64_t number, int rank); /* negative: the answer */
/* The same, of ranks that do not own the run. */
void name_visit(char out[80], const char *key, uint64_t number, int rank);
void name_doctor(char out[80], const char *digits, int rank); /* negative: no card */
typedef enum name_root_kind {
    NAME_ROOT_FOREIGN,
    NAME_ROOT_OUTCOME,
    NAME_ROOT_STRUCTURE,
    NAME_ROOT_MEET,
    NAME_ROOT_VISIT,
    NAME_ROOT_PROBE,
    NAME_ROOT_DOCTOR
} name_root_kind;
name_root_kind name_root_classify(const char *name, char tag[FORMAT_TAG_CHARS]); /* tag or key */
/* Is this a name in a run's directory that only a run has? Not what visitors, probes and doctors
 * leave: they may have been anywhere. */
bool name_makes_run(const char *name);

#endif
