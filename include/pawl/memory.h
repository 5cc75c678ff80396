/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/memory.h: tensors that are not in host memory.
 *
 * A tensor whose bytes the processor cannot read (on a GPU, behind another runtime, in a checkpoint
 * that is being read) names a pawl_memory: a table of functions that copy between there and host
 * memory. pawl never touches such bytes itself, nor computes an address: it hands back the `data`
 * of the box, which may be a handle, and a byte offset. Tensors of host memory and of any number of
 * providers may be in one state. A save overlaps copies with writes; pawl_fence waits until all is
 * copied to host memory, not until it is written. Of a run a restore copies what is verified alone.
 *
 * A "device" that is a mapped file, with copies that are complete when they return:
 *
 *     static pawl_status out(void *context, const pawl_copy *const *copies, size_t count,
 *                            void **ticket, pawl_error *err) {
 *         for (size_t i = 0; i < count; i++) {
 *             const char *from = (char *)context + (uintptr_t)copies[i]->data + copies[i]->offset;
 *             memcpy(copies[i]->host, from, copies[i]->bytes);
 *         }
 *         return PAWL_OK;
 *     }
 *
 *     const pawl_memory device = {
 *         .struct_size = sizeof device, .name = "device 0", .context = mapped, .start_out = out};
 *     tensor.memory = &device;
 *     tensor.data = (void *)position_in_the_file;
 *
 * For CUDA start_out calls cudaMemcpyAsync for each copy, on a stream of its own that waits for the
 * trainer's, and then cudaEventRecord: the event is the ticket. `wait` is cudaEventQuery, and
 * `allocate` cudaHostAlloc. A runtime that can only transfer and wait does so in start_out.
 *
 * Threads. start_out, start_in and wait are called by threads of the library, never by one that
 * calls pawl: one of each run, one of each restore that is under way. Each makes one call at a
 * time; with several of these a provider is called by several threads at once. A call that does not
 * return is noticed like a copy that does not end: when none has ended for the run's
 * hang_deadline_s; in a restore for the run's deadline_s, without a run for group_deadline_s, and
 * without a group for 600 s.
 */
#ifndef PAWL_MEMORY_H
#define PAWL_MEMORY_H

#include <pawl/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_MAX_MEMORY_NAME_BYTES 63
/* Strided boxes are copied run by run. A box has runs of at least so many bytes, or at most so many
 * runs; otherwise pawl_state_add_tensor fails with PAWL_EUNSUPPORTED. A tensor that was transposed,
 * for example, is made contiguous first: on its device, that is fast. */
#define PAWL_MIN_RUN_BYTES  256
#define PAWL_MAX_SHORT_RUNS 1024

/* One contiguous copy, at most 4 MiB. `offset` and `bytes` are multiples of the alignment of the
 * tensor's dtype. */
typedef struct pawl_copy {
    size_t struct_size; /* as this library knows it */
    const char *entry;  /* name of the tensor */
    void *data;         /* of the tensor or box, as it was handed in */
    int64_t offset;     /* bytes from there on; negative only where strides are */
    void *host;         /* host memory; of start_in: only read */
    size_t bytes;
} pawl_copy;

typedef struct pawl_memory {
    size_t struct_size; /* sizeof(pawl_memory): at least up to `release` */
    const char *name;   /* for messages, such as "GPU 0": printable, 1 to
                           PAWL_MAX_MEMORY_NAME_BYTES bytes */
    void *context;      /* of the functions */
    /*
     * Starts `count` copies (1 or more) from the tensors to host memory, and sets *ticket, which is
     * NULL before the call, to something that `wait` knows them by; with *ticket NULL they are
     * complete already. Copies may complete in any order, and in pieces. `copies` stays as it is,
     * and the host memory allocated, until the ticket has ended, however long that takes. What the
     * trainer does to the tensors on other streams before pawl_save is called must be ordered
     * before the copies by the provider. On a failure, of which pawl_copy_failed fills `err`,
     * nothing is under way any more, and the save fails.
     */
    pawl_status (*start_out)(void *context, const pawl_copy *const *copies, size_t count,
                             void **ticket, pawl_error *err);
    /* The same from host memory to the tensors, for restores. NULL: such tensors can be saved, but
     * a state that has one cannot be restored (PAWL_EUSAGE). */
    pawl_status (*start_in)(void *context, const pawl_copy *const *copies, size_t count,
                            void **ticket, pawl_error *err);
    /*
     * Waits at most timeout_s seconds (0: only asks) until all copies of a ticket are complete:
     * PAWL_OK. PAWL_ETIMEOUT: not yet; it may be returned before the time is up, and pawl asks
     * again at least every 5 ms. Anything else: a failure as above. After PAWL_OK and after a
     * failure nothing touches the copies' memory any more, and the ticket is not used again. May be
     * NULL where tickets always are. A `wait` of more than timeout_s delays other copies.
     */
    pawl_status (*wait)(void *context, void *ticket, double timeout_s, pawl_error *err);
    size_t in_flight; /* tickets at a time, at most; each is up to 4 MiB [4] */
    /*
     * Host memory, aligned to 4096 bytes or more, that is copied to and from fast (pinned, for a
     * GPU): the staging buffers are taken from it, within budget_bytes of the run, where this is
     * the provider of the first tensor in the state that has these functions. Set both, or neither.
     * Called on any thread, at the same time as the functions above, and must not wait for copies.
     * NULL is returned when there is no memory: a save that gets no buffer at all fails with
     * PAWL_ENOMEM. Nothing is allocated before a save or fence needs
     * it, whatever budget_ready says. Freed when the run is closed, or when a save uses another
     * provider. [NULL: ordinary memory]
     */
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory, size_t bytes);
} pawl_memory;

/*
 * A pawl_memory is not copied: it lives, with its context, as long as any state that has a tensor
 * of it, and any run or restore that used it. Where copies were still under way when a run was
 * closed or a restore gave up (PAWL_ETIMEOUT, PAWL_EIO), it and the tensors' memory must stay until
 * the process ends. Until those copies have ended nothing is restored into these tensors again
 * (PAWL_EBUSY).
 */

/*
 * For the functions of a provider: says why copies failed. `copy` is the one that failed [NULL: not
 * known], `text` one line in the provider's own words. Returns `status`, which becomes the status
 * of the save or restore: PAWL_EIO, PAWL_ENOMEM, ...; PAWL_OK and PAWL_ETIMEOUT become PAWL_EIO.
 */
PAWL_API pawl_status pawl_copy_failed(pawl_error *err, pawl_status status, const pawl_copy *copy,
                                      const char *text);

/*
 * Copies of tensors, in host memory, that are still being made when pawl_save is called, as by
 * cudaMemcpyAsync on a stream of its own: the trainer goes on at once, and the save reads a copy
 * when all of them are complete.
 *
 *     static int ready(void *event) {
 *         cudaError_t said = cudaEventQuery(*(cudaEvent_t *)event);
 *         return said == cudaSuccess ? 1 : said == cudaErrorNotReady ? 0 : -1;
 *     }
 *
 *     static pawl_shadow shadow = {
 *         .struct_size = sizeof shadow, .name = "GPU 0", .ready = ready, .context = &event};
 *     static pawl_memory memory = {.struct_size = sizeof memory};
 *     pawl_shadow_memory(&shadow, &memory);
 *     tensor.memory = &memory;
 *     tensor.data = pinned;      the copy of that tensor
 *
 * before each save: pawl_fence, so that the save before no longer reads the copies; `complete` = 0;
 * the copies are started, and the event is recorded; pawl_save. The trainer's own stream waits for
 * the event before tensors change: it need not call pawl_fence for them.
 */
typedef struct pawl_shadow {
    size_t struct_size; /* sizeof(pawl_shadow) */
    const char *name;   /* as that of pawl_memory */
    /* Are all copies of the save complete? 1: yes; 0: not yet; less than 0: they failed, and so
     * does the save (PAWL_EIO). Called by a thread of the library, which must not be made to wait:
     * again after 2 ms or less, until it says 1. Where it says 0 for too long, the memory hangs
     * (see Threads above). */
    int (*ready)(void *context);
    void *context; /* of `ready` */
    /* Set to 0 before the copies of a save are started, to 1 by pawl when `ready` says so. */
    int complete;
} pawl_shadow;

/*
 * Fills `memory`, whose struct_size is set, with what reads copies that `shadow` tells of. Both
 * live as long as a pawl_memory has to. Such tensors are saved alone: another state restores into
 * the tensors themselves, or into the copies as ordinary memory. PAWL_EUSAGE: a struct_size that
 * is not valid, no `ready`, no name.
 */
PAWL_API pawl_status pawl_shadow_memory(pawl_shadow *shadow, pawl_memory *memory, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
