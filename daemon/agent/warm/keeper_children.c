/* See keeper_children.h. */
#define _GNU_SOURCE
#include "daemon/agent/warm/keeper_children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/agent/workers/worker_files.h"

enum { MOST_ENVIRONMENT = 4 << 20 };

int is_new_child(const struct kept_workers* workers, pid_t pid) {
    siginfo_t seen;
    if (pid <= 1) return 0;
    for (size_t i = 0; i < workers->count; ++i)
        if (workers->all[i].pid == pid || workers->all[i].sentinel == pid) return 0;
    return waitid(P_PID, (id_t)pid, &seen, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int is_alone(pid_t pid) {
    char path[64], text[2];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    struct stat facts;
    if (stat(path, &facts) != 0 || facts.st_nlink != 3) return 0; /* `.`, `..` and one thread */
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? 0 : read(file, text, sizeof text);
    if (file >= 0) close(file);
    return got == 0;
}

/* The sentinel has every signal blocked, as its parent has. */
static pid_t make_sentinel(void) {
    const pid_t keeper = getpid(), sentinel = fork();
    if (sentinel != 0) return sentinel;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(1);
    prctl(PR_SET_NAME, "rtrain-sentinel");
    setsid();
    closefrom(0);
    for (;;) pause();
}

static void free_worker(struct kept_worker* worker) {
    free(worker->dir);
    for (size_t i = 0; i < 3; ++i) free(worker->marks[i]);
}

static void end_sentinel(pid_t sentinel) {
    if (sentinel <= 0) return;
    kill(sentinel, SIGKILL);
    while (waitpid(sentinel, NULL, 0) < 0 && errno == EINTR) {}
}

int keep_worker(struct kept_workers* workers, const struct kept_worker* worker, const char* dir, const char* marks[3]) {
    struct kept_worker kept = *worker;
    struct kept_worker* all = realloc(workers->all, (workers->count + 1) * sizeof *all);
    if (!all) return -1;
    workers->all = all;
    kept.dir = strdup(dir);
    int whole = kept.dir != NULL;
    for (size_t i = 0; i < 3; ++i) {
        kept.marks[i] = strdup(marks[i]);
        whole = whole && kept.marks[i];
    }
    errno = ENOMEM;
    kept.sentinel = whole ? make_sentinel() : -1;
    if (kept.sentinel < 0) {
        free_worker(&kept);
        return -1;
    }
    if (write_started(dir, kept.pid, kept.sentinel) != 0) {
        const int failed = errno;
        end_sentinel(kept.sentinel);
        free_worker(&kept);
        errno = failed;
        return -1;
    }
    all[workers->count++] = kept;
    return 0;
}

const struct kept_worker* last_kept(const struct kept_workers* workers) { return workers->all + workers->count - 1; }

/* ---- what workers leave behind ---- */

static int has_mark(const char* text, size_t size, const char* mark) {
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (strcmp(text + at, mark) == 0) return 1;
    return 0;
}

/* The environment that the kernel shows of the process, with a NUL behind it; NULL: none. To be freed. */
static char* environment_of(pid_t pid, size_t* size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    char* text = file < 0 ? NULL : malloc(MOST_ENVIRONMENT + 1);
    *size = 0;
    for (ssize_t got = 1; text && got > 0 && *size < MOST_ENVIRONMENT; *size += got > 0 ? (size_t)got : 0)
        got = read(file, text + *size, MOST_ENVIRONMENT - *size);
    if (file >= 0) close(file);
    if (text) text[*size] = 0;
    return text;
}

/* The living worker that has left the process, by session or environment; 0: none of them for certain. */
static pid_t worker_of(const struct kept_workers* workers, pid_t pid) {
    const pid_t session = getsid(pid);
    for (size_t i = 0; i < workers->count; ++i)
        if (workers->all[i].pid == session) return session;
    size_t size = 0;
    pid_t of = 0;
    char* text = environment_of(pid, &size);
    for (size_t i = 0; text && !of && i < workers->count; ++i) {
        char* const* marks = workers->all[i].marks;
        const int all =
            has_mark(text, size, marks[0]) && has_mark(text, size, marks[1]) && has_mark(text, size, marks[2]);
        if (all) of = workers->all[i].pid;
    }
    free(text);
    return of;
}

static int is_known(const struct kept_workers* workers, pid_t pid) {
    for (size_t i = 0; i < workers->count; ++i)
        if (workers->all[i].pid == pid || workers->all[i].sentinel == pid) return 1;
    return 0;
}

/* `of`, where it is a worker, is still among `workers`. */
static int is_left_by(const struct kept_workers* workers, pid_t pid, pid_t of, pid_t template_pid) {
    const pid_t owner = worker_of(workers, pid);
    if (owner) return owner == of;
    if (getsid(pid) == template_pid) return 1; /* a fork of the template that no order asked for */
    size_t others = 0;
    for (size_t i = 0; i < workers->count; ++i) others += workers->all[i].pid != of;
    return others == 0;
}

void end_leftovers(const struct kept_workers* workers, pid_t of, pid_t template_pid) {
    char path[64];
    static char text[1 << 16];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (int round = 0; round < 64; ++round) {
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
        if (file >= 0) close(file);
        if (got <= 0) return;
        text[got] = 0;
        int ended = 0;
        for (char* at = text; *at;) {
            char* end;
            const long pid = strtol(at, &end, 10);
            if (end == at) break;
            at = end;
            if (pid == of || pid == template_pid || is_known(workers, (pid_t)pid)) continue;
            if (!is_left_by(workers, (pid_t)pid, of, template_pid)) continue;
            ++ended;
            kill((pid_t)pid, SIGKILL);
            waitpid((pid_t)pid, NULL, 0);
        }
        if (!ended) return;
    }
}

int end_worker(struct kept_workers* workers, pid_t pid, pid_t template_pid) {
    for (size_t i = 0; i < workers->count; ++i) {
        struct kept_worker* worker = workers->all + i;
        if (worker->sentinel == pid) {
            worker->sentinel = 0;
            waitpid(pid, NULL, 0);
            return 1;
        }
        if (worker->pid != pid) continue;
        struct worker_end end = {.wall_us = wall_us()};
        kill(-pid, SIGKILL);
        end_leftovers(workers, pid, template_pid);
        while (wait4(pid, &end.status, 0, &end.usage) < 0 && errno == EINTR) {}
        write_exit(worker->dir, &end);
        end_sentinel(worker->sentinel);
        free_worker(worker);
        *worker = workers->all[--workers->count];
        return 1;
    }
    return 0;
}
