/* The children of a keeper: workers with their sentinels, and what workers left behind. */
#ifndef RTRAIN_AGENT_KEEPER_CHILDREN_H
#define RTRAIN_AGENT_KEEPER_CHILDREN_H
#include <stddef.h>
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif

struct kept_worker {
    pid_t pid, sentinel; /* sentinel: a child that sleeps until the worker's `exit` is written; 0: it was killed */
    char* dir;
    char* marks[3]; /* "RTRAIN_ATTEMPT=...", "RTRAIN_NODE=...", "RANK=...": what its processes have in their environment
                     */
};
struct kept_workers {
    struct kept_worker* all;
    size_t count;
};

/* Whether `pid` is a child of the calling process that is neither a worker nor a sentinel. */
int is_new_child(const struct kept_workers* workers, pid_t pid);

/* Whether the process has one thread and no child. */
int is_alone(pid_t pid);

/* Makes the sentinel, writes `started`, remembers the worker. 0, or -1 with errno: nothing was written. */
int keep_worker(struct kept_workers* workers, const struct kept_worker* worker, const char* dir, const char* marks[3]);
const struct kept_worker* last_kept(const struct kept_workers* workers);

/* For a child `pid` that has ended and is not reaped: where it is a worker, ends what it left behind, writes `exit`,
 * forgets it. Where it is a sentinel, reaps it. Returns whether it was one of both. */
int end_worker(struct kept_workers* workers, pid_t pid, pid_t template_pid);

/* Ends children that came to us: those of the ended process `of`, and those that no worker which lives may have left.
 */
void end_leftovers(const struct kept_workers* workers, pid_t of, pid_t template_pid);

#ifdef __cplusplus
}
#endif
#endif
