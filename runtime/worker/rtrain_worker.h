/* The worker's side of rtrain, as a C interface: report metrics and checkpoints, learn where to resume from.
 *
 * Handles are opaque. Functions return 0 or an RTW_ code; rtw_last_error() then says what, where and what to do next
 * (UTF-8, valid until this thread's next call). Strings given are UTF-8 and copied. Strings returned stay valid until
 * the worker is closed or the same call is made again on it. A worker may be used by one thread at a time; its
 * heartbeat thread is inside.
 */
#ifndef RTRAIN_WORKER_H
#define RTRAIN_WORKER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RTW_ABI_VERSION 1

enum {
    RTW_OK = 0,
    RTW_NOT_A_WORKER = 1, /* RTRAIN_WORKER_SOCKET is not set: this process was not started by an agent */
    RTW_INVALID = 2,      /* a bad argument */
    RTW_AGENT_GONE = 3,   /* the agent does not answer within the wait; reporting goes on when it is back */
    RTW_STORAGE = 4,      /* an upload failed for good */
    RTW_STOPPED = 5,      /* the attempt is being stopped: leave the loop */
    RTW_IO = 6
};

enum { RTW_UPLOAD_DEFAULT = 0, RTW_UPLOAD_SYNC = 1, RTW_UPLOAD_ASYNC = 2, RTW_UPLOAD_NONE = 3 };

typedef struct rtw_worker rtw_worker;

int32_t rtw_abi_version(void);
const char* rtw_last_error(void);

/* Connects to the agent named by the environment. A rank's place belongs to the first process that does so, until it
 * ends or calls rtw_close. In another process rtw_open succeeds as well: it reads the context, and whatever reports,
 * stages, flushes or broadcasts is RTW_INVALID at once and names the process that has the place; once that is free, the
 * next such call takes it. A forked child uses its parent's handle to read alone. */
int rtw_open(rtw_worker** worker);
void rtw_close(rtw_worker* worker);

/* The same for a process that only means to read (a data loader's): the place is taken by its first report alone. Since
 * rtrain 0.2; a program that may meet an older library looks the name up at run time. */
int rtw_open_to_read(rtw_worker** worker);

/* All facts about this worker as one JSON object: run_id, run_name, attempt, world_rank, world_size, local_rank,
 * local_world_size, node_rank, node, storage_path, run_path, user, checkpoint_upload, world_ranks_by_node; after an
 * attempt that ended, previous_world_size and previous_end (resize, drain, preemption, failure). */
const char* rtw_context_json(rtw_worker* worker);

/* The checkpoint to start from, as JSON {"path": local directory, "directory": name, "metrics": {...}}, or NULL: none.
 * After reports with a checkpoint, of whichever rank: the newest that is committed; its path is empty where it lies on
 * the head alone. Waits for the commit of the last one, at most 30 s, and not while the agent or the storage is away.
 */
const char* rtw_checkpoint_json(rtw_worker* worker);

/* A fresh directory on the storage path's file system; give it to rtw_report with owned = 1 and its files are taken
 * over without a copy. Where the storage path has less room than twice the last checkpoint (and 64 MiB), the directory
 * lies on the node's own disk, so that not the program's write meets the full disk but the upload. RTW_STORAGE: there
 * is room for it nowhere. What fills up while the program writes, it sees as any program does. */
int rtw_checkpoint_dir(rtw_worker* worker, const char** path);

typedef struct {
    const char* metrics_json;    /* one JSON object */
    const char* checkpoint_path; /* directory, or NULL */
    const char* directory_name;  /* rank 0's wish for its name, or NULL */
    int32_t owned;               /* 1: the directory may be moved away; 0: it is copied (reflinked where possible);
                                    2: copied, and removed once every rank's files are staged (others may bring it as
                                    well); what is made anew under its name stays, and so does what cannot be renamed */
    int32_t upload;              /* RTW_UPLOAD_* */
} rtw_report_args;

/* A barrier over the attempt's ranks. Returns once this rank's files are staged and every rank has come (SYNC: once the
 * checkpoint is committed). A full disk leaves the report without its checkpoint (said on stderr and in the run's
 * events), and is RTW_STORAGE with SYNC. Files that cannot be read or copied for another reason are RTW_STORAGE, after
 * the barrier, so that the other ranks do not wait. An upload that failed earlier and for good is returned here as
 * RTW_STORAGE too. */
int rtw_report(rtw_worker* worker, const rtw_report_args* args);

/* The same without a checkpoint, for callers to whom filling in a struct is dear. Since rtrain 0.2; a program that may
 * meet an older library looks the name up at run time. */
int rtw_report_metrics(rtw_worker* worker, const char* metrics_json);

/* The number that the next report of this rank will have, from 1 in each attempt; 0: worker is NULL. Since rtrain 0.2;
 * a program that may meet an older library looks the name up at run time. */
uint64_t rtw_next_report(rtw_worker* worker);

/* Waits until every checkpoint reported so far is committed, at most timeout_ms (-1: without end). */
int rtw_flush(rtw_worker* worker, int64_t timeout_ms);

/* 1 when somebody wants a checkpoint now (drain, preemption, resize, operator), 2 when asked to stop, else 0. Never
 * blocks. */
int32_t rtw_wanted(rtw_worker* worker);

/* The same with its reason, or NULL when nothing is wanted: {"what": "checkpoint" or "stop", "reason": "drain",
 * "preemption", "resize", "operator" or "stop", "deadline_wall_ms": Unix time until which a commit still counts,
 * "workers": of a resize, how many workers there will be}. What is not known is left out. Since rtrain 0.2; a program
 * that may meet an older library looks the name up at run time. */
const char* rtw_wanted_json(rtw_worker* worker);

/* All ranks wait for each other; rank 0's bytes reach all (NULL data elsewhere). */
int rtw_broadcast(rtw_worker* worker, const char* data, uint64_t bytes, const char** out, uint64_t* out_bytes);

/* Adds to the time that this worker has waited for its input, shown as rtrain_worker_data_wait_seconds_total. Cheap,
 * from any thread. */
void rtw_data_wait(rtw_worker* worker, int64_t microseconds);

/* The text shown as the cause when this worker exits with a failure (a traceback). */
int rtw_fail(rtw_worker* worker, const char* text);

#ifdef __cplusplus
}
#endif
#endif
