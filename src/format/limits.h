/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format/limits: the maximum of everything that has a size or a number, the same for writers and
 * readers. What an encoder takes its decoder takes too, so both ask here and nowhere else; beyond a
 * maximum both say PAWL_ELIMIT. docs/format.md has the same table, and a test that compares them.
 */
#ifndef FORMAT_LIMITS_H
#define FORMAT_LIMITS_H

#include <pawl/run.h>
#include <pawl/state.h>

/* Data files. */
#define FORMAT_MAX_SAFETENSORS_HEADER 100000000u        /* bytes, the format's own maximum */
#define FORMAT_SPLIT_HEADER           16777216u         /* a new data file is begun before this */
#define FORMAT_MAX_TENSOR_BYTES       (UINT64_MAX / 8u) /* in one data file: readers count bits */

/* The manifest. */
#define FORMAT_MAX_MANIFEST    67108864u /* bytes */
#define FORMAT_MAX_PLACEHOLDER 64u       /* bytes of what stands for it before it is published */
#define FORMAT_MAX_TEXT        ((size_t)PAWL_MAX_FRAMEWORK_BYTES) /* bytes of one of its texts */
#define FORMAT_MAX_FILES       1000000u                           /* data files of a checkpoint */
/* They are for people; few enough that showing or choosing by them takes little time. */
#define FORMAT_MAX_METRICS         ((size_t)PAWL_MAX_METRICS)
#define FORMAT_MAX_HYPERPARAMETERS 100000u
/* Bytes of the JSON of one of them, or of the batch signature: room for any value, even where every
 * character of it is escaped. */
#define FORMAT_MAX_VALUE_JSON 8388608u

/* The index, and votes, which are tables too. */
#define FORMAT_MAX_KEY         4096u      /* bytes */
#define FORMAT_MAX_TABLE_BLOCK 134217728u /* bytes; a record may have half of them */
#define FORMAT_MAX_PIECES      1000000u   /* of one entry */

/* What ranks tell each other, in bytes. */
#define VOTE_MAX_HEAD     67108864u
#define VOTE_MAX_HOST     255u
#define VOTE_MAX_STORY    65536u
#define OUTCOME_MAX_STORY 16384u

/* A line of events.jsonl, its end included; longer ones are not events. */
#define FORMAT_MAX_EVENT_WRITTEN 4096u
#define FORMAT_MAX_EVENT_READ    65536u

/* Names in the directory of a run, or of a step. */
#define FORMAT_MAX_NAMES 1000000u

/* Owners of a run: its generations, the seconds of a lease, and the bytes of their records and of
 * readers' marks. */
#define OWNER_MAX_GENERATION 999999999999u
#define OWNER_MIN_LEASE_S    1
#define OWNER_MAX_LEASE_S    1000000
#define OWNER_MAX_RECORD     65536u

/* Checkpoints of other tools: bytes of an index, of the headers of all its files together (or zip
 * directories and pickles), files that it names, files, tensors, and bytes of the name of a type
 * that is no dtype. Those of a file's header are the format's own. */
#define FOREIGN_MAX_INDEX   100000000u
#define FOREIGN_MAX_HEADERS 1073741824u
#define FOREIGN_MAX_SHARDS  10000u
#define FOREIGN_MAX_FILES   1000000u
#define FOREIGN_MAX_ENTRIES 4000000u
/* Bytes of their names, shapes and values: a pickle may have one of them and use it often. */
#define FOREIGN_MAX_TEXTS    1073741824u
#define FORMAT_MAX_TYPE_NAME 32u
/* What all entries of pickles may take in memory: so much, and so much for each byte of those. */
#define FOREIGN_SHARED_BYTES  16777216u
#define FOREIGN_SHARED_FACTOR 32u
/* Of a pickle: bytes, opcodes, values, values on its stack, bytes of the names of classes and
 * functions, and bytes that names and values made of it may take beyond 8 times its own. */
#define FOREIGN_MAX_PICKLE         134217728u
#define FOREIGN_MAX_PICKLE_OPCODES 100000000u
#define FOREIGN_MAX_PICKLE_NODES   6000000u
#define FOREIGN_MAX_PICKLE_STACK   1000000u
#define FOREIGN_MAX_PICKLE_NAMES   16777216u
#define FOREIGN_MAX_PICKLE_MADE    16777216u
/* Of an object that is searched by name: many may share one. */
#define FOREIGN_MAX_PICKLE_ATTRIBUTES 64u

/* The header of a .npy, in bytes: numpy itself reads 10,000 at most, unless it is told. */
#define FOREIGN_MAX_NPY_HEADER 1048576u

/* HDF5 files: bytes of what is loaded at once, of an object header, of a node of a B-tree; levels
 * of trees; of all files of a checkpoint together links, chunks, bytes of names and of attributes.
 * Then bytes of a chunk that is compressed, in any format. */
#define FOREIGN_MAX_HDF5_BLOCK  33554432u
#define FOREIGN_MAX_HDF5_HEADER 4194304u
#define FOREIGN_MAX_HDF5_NODE   1048576u
#define FOREIGN_MAX_HDF5_LEVELS 16u
#define FOREIGN_MAX_HDF5_LINKS  1000000u
#define FOREIGN_MAX_HDF5_CHUNKS 131072u
#define FOREIGN_MAX_HDF5_NAMES  33554432u
#define FOREIGN_MAX_HDF5_VALUES 16777216u
#define FOREIGN_MAX_CHUNK       67108864u

/* The graph of objects of a checkpoint of TensorFlow: bytes, and objects; as many links, values and
 * slots. */
#define FOREIGN_MAX_GRAPH   67108864u
#define FOREIGN_MAX_OBJECTS 1000000u
/* A SavedModel of TensorFlow: bytes of saved_model.pb; functions, nodes of all its graphs, links
 * between nodes and calls of functions; signatures, their inputs and outputs, and the dimensions of
 * one; how many links are followed from all signatures together. */
#define FOREIGN_MAX_SAVED_MODEL     268435456u
#define FOREIGN_MAX_MODEL_FUNCTIONS 100000u
#define FOREIGN_MAX_MODEL_NODES     1000000u
#define FOREIGN_MAX_MODEL_LINKS     8000000u
#define FOREIGN_MAX_MODEL_INPUTS    100000u
#define FOREIGN_MAX_MODEL_NDIM      254u
#define FOREIGN_MAX_MODEL_VISITS    10000000u
/* Bytes of a block of the index of a tensor bundle, decompressed: TensorFlow's have 256 KiB. */
#define FOREIGN_MAX_BUNDLE_BLOCK 33554432u

/* Zip files: members, and bytes of what describes them. */
#define FOREIGN_MAX_ZIP_MEMBERS   250000u
#define FOREIGN_MAX_ZIP_DIRECTORY 33554432u
/* Databases and arrays of Orbax: bytes of a node of the tree, compressed or not, its levels, and
 * files that one node names; bytes of a chunk that is decoded whole, chunks, bytes of the index of
 * a shard, and of what describes an array; the logarithm of how far zstd may look back; nested
 * directories, and bytes of all values. */
#define FOREIGN_MAX_OCDBT_NODE      134217728u
#define FOREIGN_MAX_OCDBT_LEVELS    64u
#define FOREIGN_MAX_OCDBT_PATHS     65536u
#define FOREIGN_MAX_ZARR_CHUNK      33554432u
#define FOREIGN_MAX_ZARR_CHUNKS     4000000u
#define FOREIGN_MAX_ZARR_INDEX      16777216u
#define FOREIGN_MAX_ZARR_METADATA   1048576u
#define FOREIGN_MAX_ZSTD_WINDOW_LOG 26
#define FOREIGN_MAX_ORBAX_DEPTH     48
#define FOREIGN_MAX_ORBAX_VALUES    16777216u

/* Nested objects and lists of a header: what the reference parser of safetensors accepts. Of
 * anything else: JSON_MAX_DEPTH (common/json.h). */
#define FORMAT_MAX_HEADER_DEPTH 127

/* Of the entry in which a bundle of TensorFlow, and what was converted from one, has the graph of
 * its objects: no model has it. */
#define NAME_OBJECT_GRAPH "_CHECKPOINTABLE_OBJECT_GRAPH"

#endif
