/* The worker's side of rtrain, as a C interface: report metrics and checkpoints, learn where to resume from.
 *
 * Handles are opaque. A function that returns an int returns RTW_OK or another RTW_ code; one that returns a string
 * returns NULL when it fails. rtw_last_error() then says what, where and what to do next. RTW_INVALID also means that a
 * pointer that must not be NULL is NULL; RTW_IO is what was not foreseen, as memory that runs out.
 *
 * Strings given are UTF-8 and copied. Strings returned stay valid until the worker is closed or the same call is made
 * again on it. A worker may be used by one thread at a time, except where a function says otherwise; its heartbeat
 * thread is inside.
 *
 * A call that needs the agent waits while the agent is away, for RTRAIN_AGENT_WAIT_MS (300,000 ms where it is not set),
 * and is then RTW_AGENT_GONE. A call that waits when the run is stopped is given up after 1 s and is RTW_STOPPED.
 */
#ifndef RTRAIN_WORKER_H
#define RTRAIN_WORKER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It changes when a function is taken away or changes its meaning, not when one is
 * added; rtw_abi_version() says which one the loaded library has. */
#define RTW_ABI_VERSION 1

/* The return values of the functions. */
enum {
    RTW_OK = 0,           /* done */
    RTW_NOT_A_WORKER = 1, /* RTRAIN_WORKER_SOCKET is not set: this process was not started by an agent */
    RTW_INVALID = 2,      /* a bad argument, or a call that this process may not make for its rank */
    RTW_AGENT_GONE = 3,   /* the agent does not answer within the wait; reporting goes on when it is back */
    RTW_STORAGE = 4,      /* no room for files, they cannot be read, or an upload failed for good */
    RTW_STOPPED = 5,      /* the attempt is being stopped: leave the loop */
    RTW_IO = 6,           /* an error of the operating system that no other code names */
};

/* When rtw_report() returns, and what becomes of the checkpoint. */
enum {
    RTW_UPLOAD_DEFAULT = 0, /* as the job says: `checkpoint_upload` of rtw_context_json() */
    RTW_UPLOAD_SYNC = 1,    /* once the checkpoint is committed */
    RTW_UPLOAD_ASYNC = 2,   /* once the files are staged; the agent uploads them meanwhile */
    RTW_UPLOAD_NONE = 3,    /* the files are nowhere uploaded to: the program has put them into the run directory */
};

/* One rank's conversation with its agent; rtw_open() makes it. */
typedef struct rtw_worker rtw_worker;

/* Returns the RTW_ABI_VERSION of the loaded library. */
int32_t rtw_abi_version(void);

/* Returns what went wrong in this thread's last call that failed: what, where, what to do next. It is UTF-8, never
 * NULL, and valid until this thread's next call. */
const char* rtw_last_error(void);

/* Connects to the agent named by the environment and stores the handle in `worker`. RTW_NOT_A_WORKER: there is no
 * agent; RTW_INVALID: RANK or RTRAIN_AGENT_WAIT_MS is no number.
 *
 * A rank's place belongs to the first process that calls rtw_open, until that process ends or calls rtw_close. In
 * another process rtw_open succeeds as well, and that process reads the context. Its reports, stagings, flushes and
 * broadcasts are RTW_INVALID at once, and rtw_last_error() names the process that has the place. Once the place is
 * free, the next such call takes it. A forked child uses its parent's handle to read alone. */
int rtw_open(rtw_worker** worker);

/* Opens `worker` like rtw_open, for a process that only means to read (a data loader's): only its first report,
 * staging, flush or broadcast takes the place. Since rtrain 0.2; a program that may meet an older library looks the
 * name up at run time. */
int rtw_open_to_read(rtw_worker** worker);

/* Gives the rank's place up and frees `worker`; NULL is allowed. Waits until the agent has heard all reports, at most
 * 10 s; where reports have passed without an agent, as long as a report would wait for one. In a forked child it leaves
 * the parent's conversation alone. */
void rtw_close(rtw_worker* worker);

/* Returns all facts about this worker as one JSON object: run_id, run_name, attempt, world_rank, world_size,
 * local_rank, local_world_size, node_rank, node, storage_path, run_path, user, checkpoint_upload, world_ranks_by_node;
 * after an attempt that ended, previous_world_size and previous_end (resize, drain, preemption, failure). */
const char* rtw_context_json(rtw_worker* worker);

/* Returns the checkpoint to start from as JSON {"path": local directory, "directory": name, "metrics": {...}}, or NULL
 * when there is none. After reports with a checkpoint, of whichever rank, it is the newest that is committed; its path
 * is empty where it lies on the head alone. Waits for the commit of the last one, at most 30 s, and not while the agent
 * or the storage is away. */
const char* rtw_checkpoint_json(rtw_worker* worker);

/* Makes a fresh directory on the storage path's file system and stores its name in `path`. Reported with owned = 1, its
 * files are taken over without a copy. RTW_STORAGE: there is room for it nowhere.
 *
 * Where the storage path has less room than twice the last checkpoint (and 64 MiB), the directory lies on the node's
 * own disk: then a full storage path meets the upload, not the program's write. When that disk fills up while the
 * program writes, the program's own write fails. */
int rtw_checkpoint_dir(rtw_worker* worker, const char** path);

/* The report of one rank. Set all bytes to 0 first: fields that remain 0 have their defaults. */
typedef struct {
    const char* metrics_json;    /* one JSON object, at most 1 MiB; NULL: {} */
    const char* checkpoint_path; /* directory, or NULL */
    const char* directory_name;  /* rank 0's wish for its name, or NULL */
    int32_t owned;               /* 1: the directory may be moved away; 0: it is copied (reflinked where possible);
                                    2: copied, and removed once every rank's files are staged (others may bring it as
                                    well); what is made anew under its name stays, and so does what cannot be renamed */
    int32_t upload;              /* RTW_UPLOAD_* */
} rtw_report_args;

/* Reports `args` and waits for the attempt's other ranks, who must report as well. Returns once this rank's files are
 * staged and every rank has come (RTW_UPLOAD_SYNC: once the checkpoint is committed). RTW_INVALID: the metrics are no
 * JSON object or too large, the path is no directory, or the name cannot be used.
 *
 * RTW_STORAGE: files could not be read or copied; it is returned after the barrier, so that the other ranks do not
 * wait. An upload that failed earlier and for good is RTW_STORAGE too. A full disk is RTW_STORAGE with RTW_UPLOAD_SYNC
 * alone. Otherwise the report goes without its checkpoint, and stderr and the run's events say so. */
int rtw_report(rtw_worker* worker, const rtw_report_args* args);

/* Reports `metrics_json` (one JSON object) without a checkpoint, as rtw_report does: for callers to whom filling in a
 * struct is dear. Since rtrain 0.2; a program that may meet an older library looks the name up at run time. */
int rtw_report_metrics(rtw_worker* worker, const char* metrics_json);

/* Returns the number that the next report of this rank will have, from 1 in each attempt; 0: `worker` is NULL. Since
 * rtrain 0.2; a program that may meet an older library looks the name up at run time. */
uint64_t rtw_next_report(rtw_worker* worker);

/* Waits until every checkpoint reported so far is committed, at most timeout_ms milliseconds (negative: without end).
 * RTW_AGENT_GONE: not within that time; RTW_STORAGE: an upload failed for good. */
int rtw_flush(rtw_worker* worker, int64_t timeout_ms);

/* Returns 1 when a checkpoint is requested now (drain, preemption, resize, operator), 2 when the run is being stopped,
 * else 0. Never blocks, and may be called from any thread. */
int32_t rtw_wanted(rtw_worker* worker);

/* Returns the request that rtw_wanted reports, or NULL if there is none: {"what": "checkpoint" or "stop", "reason":
 * "drain", "preemption", "resize", "operator" or "stop", "deadline_wall_ms": Unix time in milliseconds until which a
 * commit still counts, "workers": for a resize, the new number of workers}. Unknown values are left out. Since rtrain
 * 0.2; a program that may meet an older library looks the name up at run time. */
const char* rtw_wanted_json(rtw_worker* worker);

/* Gives rank 0's bytes to all ranks, who must all call it: rank 0 passes `data` and `bytes`, the others NULL. Stores
 * the bytes in `out` and their number in `out_bytes`; no 0 ends them. RTW_INVALID: 48 MiB or more. */
int rtw_broadcast(rtw_worker* worker, const char* data, uint64_t bytes, const char** out, uint64_t* out_bytes);

/* Adds `microseconds` to the time that this worker has waited for its input. The metric
 * rtrain_worker_data_wait_seconds_total shows it. Cheap, and may be called from any thread. */
void rtw_data_wait(rtw_worker* worker, int64_t microseconds);

/* Adds `microseconds` to the time that this worker has waited for other ranks outside of rtw_report, in a collective
 * operation: one call for each such wait, so that all ranks call it equally often. Reports count by themselves. The
 * slow rank is found by it: the one that waits least. Cheap, and may be called from any thread. Since rtrain 0.2; a
 * program that may meet an older library looks the name up at run time. */
void rtw_barrier_wait(rtw_worker* worker, int64_t microseconds);

/* Sets the `text` that is shown as the cause when this worker exits with a failure (a traceback), cut at 256 KiB. Waits
 * at most 2 s, and may be called while another thread is in a call. */
int rtw_fail(rtw_worker* worker, const char* text);

#ifdef __cplusplus
}
#endif
#endif
