/* Files that a worker's parent (shim or keeper) writes about it, and the place that the parent gives it.
 *
 * Files, written aside and renamed, one "name value" per line:
 *   started   pid, start_time (clock ticks since boot, /proc/PID/stat field 22), shim, shim_start_time, boot_id
 *   exit      code | signal, error (errno of the start, 0: it was started), wall_us, user_us, system_us, rss_kib
 * Their room on the disk is taken before the worker starts: a disk that fills up meanwhile loses neither. */
#ifndef RTRAIN_AGENT_WORKER_FILES_H
#define RTRAIN_AGENT_WORKER_FILES_H
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif

struct worker_end {
    int status; /* as of wait4 */
    int error;  /* errno of the start; 0: it was started */
    struct rusage usage;
    int64_t wall_us;
};

int64_t wall_us(void); /* since 1970 */

/* Writes as many bytes as the file `name` will have at most: overwriting them needs no room. 0, or an errno. */
int reserve_file(const char* dir, const char* name);

/* `shim`: the process that lives as long as the worker's end is not written. 0, or -1 with errno. */
int write_started(const char* dir, pid_t pid, pid_t shim);

void write_exit(const char* dir, const struct worker_end* end);

/* Gives the process `pid` (0: the caller) what the file `place` in `dir` says, if it is there: "cgroup DIRECTORY" and
 * "processors 0-3,8", one a line. Both are wishes: a worker that cannot have them runs without. */
void give_place(pid_t pid, const char* dir);

/* The caller's oom_score_adj as a text, and a process's (0: the caller's). 0, or -1. */
int read_oom_score(char* text, size_t size);
int write_oom_score(pid_t pid, const char* text);

/* Makes the NUL-ended words of the memory the caller's environment. Only a child that will be a job's program does so,
 * and only as that job's user: no program or library of root's is ever loaded with what a job names. 0, or -1. */
int take_variables(int memory);

#ifdef __cplusplus
}
#endif
#endif
