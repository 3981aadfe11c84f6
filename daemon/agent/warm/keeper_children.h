/* The children of a keeper: workers with their sentinels, and what workers and the template left behind. Nothing here
 * waits: a child that is to end is killed, and reaped when the kernel says that it has ended. */
#ifndef RTRAIN_AGENT_KEEPER_CHILDREN_H
#define RTRAIN_AGENT_KEEPER_CHILDREN_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/agent/workers/worker_files.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { TEMPLATE_SCORE = 1000 }; /* oom_score_adj: memory that runs out takes templates before workers */

struct kept_worker {
    pid_t pid, sentinel; /* sentinel: a child that sleeps until the worker's `exit` is written; 0: it is reaped */
    char* dir;
    char* marks[3]; /* "RTRAIN_ATTEMPT=...", "RTRAIN_NODE=...", "RANK=...": what its processes have in their environment
                     */
    int has_ended, is_written; /* it is reaped; its `exit` is written */
    struct worker_end end;
    size_t left;      /* processes that it left behind and that have not ended, at the last look */
    int64_t until_ms; /* when `exit` is written although some are left: the kernel cannot end them yet */
};
struct kept_workers {
    struct kept_worker* all; /* each until its processes and its sentinel are reaped */
    size_t count;
    pid_t template_pid;  /* whose session its forks are in; 0: it has ended, and none of them is left */
    int template_runs;   /* one of its forks may become a worker: they are let be */
    int scores_are_same; /* the kernel's score for memory does not tell a worker's processes from the template's */
    size_t strays;       /* children at the last look that are to end, and have not */
};

int64_t now_ms(void); /* since some moment before */

/* Whether `pid` is a child of the calling process that is neither a worker nor a sentinel. */
int is_new_child(const struct kept_workers* workers, pid_t pid);

/* Whether the process has one thread and no child. */
int is_alone(pid_t pid);

/* Makes the sentinel, writes `started`, remembers the worker. 0, or -1 with errno: nothing was written. */
int keep_worker(struct kept_workers* workers, const struct kept_worker* worker, const char* dir, const char* marks[3]);
const struct kept_worker* find_worker(const struct kept_workers* workers, pid_t pid);

/* Forgets a worker whose program has not begun: its `started` is removed, its sentinel ends. */
void drop_worker(struct kept_workers* workers, pid_t pid);

/* For a child `pid` that has ended and is not reaped: reaps it where it is a worker or a sentinel, and says whether it
 * was one of both. `end_strays` does the rest. */
int reap_kept(struct kept_workers* workers, pid_t pid);

/* Ends children that nobody may have left: those of ended workers, those of the template beside the workers, and, where
 * no worker lives, all. Writes the `exit` of workers that left none, and forgets them. */
void end_strays(struct kept_workers* workers);

/* When `end_strays` is to be called again at the latest; 0: when a child ends. */
int64_t next_exit_ms(const struct kept_workers* workers);

#ifdef __cplusplus
}
#endif
#endif
