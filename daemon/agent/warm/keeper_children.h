/* The children of a keeper: workers with their sentinels, and processes that workers and the template left behind. No
 * function waits. A child that must end is killed, and reaped when the kernel reports its end. */
#ifndef RTRAIN_AGENT_KEEPER_CHILDREN_H
#define RTRAIN_AGENT_KEEPER_CHILDREN_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/agent/workers/worker_files.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { TEMPLATE_SCORE = 1000 }; /* oom_score_adj: without memory the kernel kills templates before workers */

struct kept_worker {
    pid_t pid, sentinel; /* sentinel: a child that sleeps until the worker's `exit` is written; 0: reaped */
    char* dir;
    char* marks[3]; /* "RTRAIN_ATTEMPT=...", "RTRAIN_NODE=...", "RANK=...": the marks in its processes' environment */
    int has_ended, is_written; /* the worker is reaped; its `exit` is written */
    struct worker_end end;
    size_t left;      /* processes that the worker left behind and that lived at the last call of end_strays */
    int64_t until_ms; /* when `exit` is written although processes are left, which the kernel cannot end yet */
};
struct kept_workers {
    struct kept_worker* all; /* each worker stays until its processes and its sentinel are reaped */
    size_t count;
    pid_t template_pid;  /* also the session of its forks; 0: the template has ended, and no fork is left */
    int template_runs;   /* one of its forks may become a worker, so no fork is ended */
    int scores_are_same; /* oom_score_adj does not distinguish a worker's processes from the template's */
    size_t strays;       /* children that must end and lived at the last call of end_strays */
};

int64_t now_ms(void); /* the monotonic clock */

/* Returns 1 if `pid` is a child of the calling process that is neither a worker nor a sentinel. */
int is_new_child(const struct kept_workers* workers, pid_t pid);

/* Returns 1 if the process has one thread and no child. */
int is_alone(pid_t pid);

/* Makes the sentinel, writes `started` and adds the worker. Returns 0, or -1 with errno if nothing was written. */
int keep_worker(struct kept_workers* workers, const struct kept_worker* worker, const char* dir, const char* marks[3]);
const struct kept_worker* find_worker(const struct kept_workers* workers, pid_t pid);

/* Removes a worker whose program has not begun, with its `started`. Ends its sentinel. */
void drop_worker(struct kept_workers* workers, pid_t pid);

/* Reaps the ended child `pid` if it is a worker or a sentinel. Returns 1 if it was one of both. `end_strays` writes the
 * `exit` later. */
int reap_kept(struct kept_workers* workers, pid_t pid);

/* Ends the children that belong to no living worker: processes of ended workers, processes of the template beside the
 * workers, and all others if no worker lives. Writes the `exit` of ended workers without such processes, and removes
 * these workers. */
void end_strays(struct kept_workers* workers);

/* Returns the latest time for the next call of `end_strays`; 0: when a child ends. */
int64_t next_exit_ms(const struct kept_workers* workers);

#ifdef __cplusplus
}
#endif
#endif
