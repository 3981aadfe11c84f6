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
#include <time.h>
#include <unistd.h>

enum { MOST_ENVIRONMENT = 4 << 20, LEFTOVERS_MS = 10000 };

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1;
}

static int is_kept(const struct kept_workers* workers, pid_t pid) {
    for (size_t i = 0; i < workers->count; ++i)
        if (workers->all[i].pid == pid || workers->all[i].sentinel == pid) return 1;
    return 0;
}

int is_new_child(const struct kept_workers* workers, pid_t pid) {
    siginfo_t seen;
    if (pid <= 1 || is_kept(workers, pid)) return 0;
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

/* Kills the sentinel without a wait. It is reaped as any child. */
static void end_sentinel(pid_t sentinel) {
    if (sentinel > 0) kill(sentinel, SIGKILL);
}

static void free_worker(struct kept_worker* worker) {
    free(worker->dir);
    for (size_t i = 0; i < 3; ++i) free(worker->marks[i]);
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
    if (kept.sentinel > 0 && write_started(dir, kept.pid, kept.sentinel) == 0) {
        all[workers->count++] = kept;
        return 0;
    }
    const int failed = errno;
    end_sentinel(kept.sentinel);
    free_worker(&kept);
    errno = failed;
    return -1;
}

static struct kept_worker* worker_at(const struct kept_workers* workers, pid_t pid) {
    for (size_t i = 0; i < workers->count; ++i)
        if (workers->all[i].pid == pid && !workers->all[i].has_ended) return workers->all + i;
    return NULL;
}

const struct kept_worker* find_worker(const struct kept_workers* workers, pid_t pid) { return worker_at(workers, pid); }

static void forget(struct kept_workers* workers, struct kept_worker* worker) {
    free_worker(worker);
    *worker = workers->all[--workers->count];
}

void drop_worker(struct kept_workers* workers, pid_t pid) {
    struct kept_worker* worker = worker_at(workers, pid);
    char path[4200];
    if (!worker) return;
    snprintf(path, sizeof path, "%s/started", worker->dir);
    unlink(path);
    end_sentinel(worker->sentinel);
    forget(workers, worker);
}

int reap_kept(struct kept_workers* workers, pid_t pid) {
    for (size_t i = 0; i < workers->count; ++i) {
        struct kept_worker* worker = workers->all + i;
        if (worker->sentinel == pid) {
            if (waitpid(pid, NULL, WNOHANG) == pid) worker->sentinel = 0;
            return 1;
        }
        if (worker->pid != pid || worker->has_ended) continue;
        worker->end = (struct worker_end){.wall_us = wall_us()};
        kill(-pid, SIGKILL); /* until it is reaped, the number belongs to its group */
        if (wait4(pid, &worker->end.status, WNOHANG, &worker->end.usage) != pid) return 1;
        worker->has_ended = 1;
        worker->until_ms = now_ms() + LEFTOVERS_MS;
        return 1;
    }
    return 0;
}

/* ---- processes that workers and the template leave behind ---- */

static int has_mark(const char* text, size_t size, const char* mark) {
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (strcmp(text + at, mark) == 0) return 1;
    return 0;
}

/* Returns the environment of the process from /proc with a NUL behind it, for free(); NULL: none. */
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

/* Prefers a living worker to an ended one, since the kernel may use a number again. */
static struct kept_worker* worker_of_session(const struct kept_workers* workers, pid_t session) {
    struct kept_worker* owner = worker_at(workers, session);
    for (size_t i = 0; !owner && i < workers->count; ++i)
        if (workers->all[i].pid == session) owner = workers->all + i;
    return owner;
}

static struct kept_worker* worker_of_environment(const struct kept_workers* workers, pid_t pid) {
    size_t size = 0;
    struct kept_worker* owner = NULL;
    char* text = environment_of(pid, &size);
    for (size_t i = 0; text && !owner && i < workers->count; ++i) {
        char* const* marks = workers->all[i].marks;
        const int all =
            has_mark(text, size, marks[0]) && has_mark(text, size, marks[1]) && has_mark(text, size, marks[2]);
        if (all) owner = workers->all + i;
    }
    free(text);
    return owner;
}

static int some_worker_lives(const struct kept_workers* workers) {
    for (size_t i = 0; i < workers->count; ++i)
        if (!workers->all[i].has_ended) return 1;
    return 0;
}

/* Returns 1 if the process has the template's oom_score_adj. Root has raised it to the highest value, which a fork
 * cannot lower, and gives each worker the keeper's own value. */
static int has_template_score(const struct kept_workers* workers, pid_t pid) {
    char path[64], text[16] = "", own[16];
    if (workers->scores_are_same || read_oom_score(own, sizeof own) != 0 || atoi(own) == TEMPLATE_SCORE) return 0;
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    return got > 0 && atoi(text) == TEMPLATE_SCORE;
}

/* Returns 1 if the process must end. `of` is the worker that certainly left it behind, or NULL. A process in a session
 * of its own may belong to a living worker if its environment has no worker's marks and its score is not the
 * template's. Such a process stays until no worker lives. */
static int is_to_end(const struct kept_workers* workers, pid_t pid, struct kept_worker** of) {
    const pid_t session = getsid(pid);
    *of = worker_of_session(workers, session);
    if (!*of && session > 0 && session == workers->template_pid) return !workers->template_runs;
    if (!*of) *of = worker_of_environment(workers, pid);
    if (*of) return (*of)->has_ended;
    if (workers->template_runs) return 0;
    return !some_worker_lives(workers) || has_template_score(workers, pid);
}

/* Returns the pids of the caller's children as the kernel prints them. Only the caller reaps them. */
static const char* list_children(void) {
    static char text[1 << 18];
    char path[64];
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; file >= 0 && got > 0 && size < sizeof text - 1; size += got > 0 ? (size_t)got : 0)
        got = read(file, text + size, sizeof text - 1 - size);
    if (file >= 0) close(file);
    if (size == sizeof text - 1)
        while (size > 0 && text[size - 1] != ' ') --size; /* cuts a number that is not complete */
    text[size] = 0;
    return text;
}

static void write_exits(struct kept_workers* workers) {
    const int64_t now = now_ms();
    for (size_t i = workers->count; i-- > 0;) {
        struct kept_worker* worker = workers->all + i;
        if (worker->has_ended && !worker->is_written && (worker->left == 0 || now >= worker->until_ms)) {
            write_exit(worker->dir, &worker->end);
            worker->is_written = 1;
            end_sentinel(worker->sentinel);
        }
        if (worker->is_written && worker->left == 0 && worker->sentinel <= 0) forget(workers, worker);
    }
}

void end_strays(struct kept_workers* workers) {
    int of_template = workers->template_runs;
    for (size_t i = 0; i < workers->count; ++i) workers->all[i].left = 0;
    workers->strays = 0;
    for (const char* at = list_children(); *at;) {
        char* end;
        const pid_t pid = (pid_t)strtol(at, &end, 10);
        if (end == at) break;
        at = end;
        of_template = of_template || getsid(pid) == workers->template_pid;
        if (pid == workers->template_pid || is_kept(workers, pid)) continue;
        struct kept_worker* of = NULL;
        if (!is_to_end(workers, pid, &of)) continue;
        kill(pid, SIGKILL);
        ++workers->strays;
        if (of) ++of->left;
    }
    if (!of_template) workers->template_pid = 0; /* the kernel may use its number again */
    write_exits(workers);
}

int64_t next_exit_ms(const struct kept_workers* workers) {
    int64_t next = 0;
    for (size_t i = 0; i < workers->count; ++i) {
        const struct kept_worker* worker = workers->all + i;
        if (worker->has_ended && !worker->is_written && (next == 0 || worker->until_ms < next)) next = worker->until_ms;
    }
    return next;
}
