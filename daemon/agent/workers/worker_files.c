/* Files of a worker's directory. Plain C and system calls, since the caller may be root, and outlives the agent. */
#define _GNU_SOURCE
#include "daemon/agent/workers/worker_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 512 };

static void name_file(char* path, size_t size, const char* dir, const char* name) {
    snprintf(path, size, "%s/.%s.new", dir, name);
}

/* Writes as many bytes as the file will have at most: overwriting them needs no room. 0, or an errno. */
int reserve_file(const char* dir, const char* name) {
    char aside[4200], room[ROOM];
    memset(room, '\n', sizeof room);
    name_file(aside, sizeof aside, dir, name);
    int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    errno = ENOSPC; /* a short write means a full disk */
    int error = write(file, room, sizeof room) == sizeof room ? 0 : errno;
    close(file);
    return error;
}

static int write_file(const char* dir, const char* name, const char* text) {
    char aside[4200], final[4200];
    name_file(aside, sizeof aside, dir, name);
    snprintf(final, sizeof final, "%s/%s", dir, name);
    int file = open(aside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return -1;
    size_t length = strlen(text);
    int whole = pwrite(file, text, length, 0) == (ssize_t)length && ftruncate(file, (off_t)length) == 0;
    close(file);
    return whole ? rename(aside, final) : -1;
}

static unsigned long long start_time(pid_t pid) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return 0;
    text[got] = 0;
    char* at = strrchr(text, ')'); /* the name may contain any character; the state is field 3 */
    for (int field = 2; at && field < 22; ++field) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static void boot_id(char* text, size_t size) {
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

int write_started(const char* dir, pid_t pid, pid_t shim) {
    char text[ROOM], boot[64];
    boot_id(boot, sizeof boot);
    snprintf(text, sizeof text, "pid %d\nstart_time %llu\nshim %d\nshim_start_time %llu\nboot_id %s\n", (int)pid,
             start_time(pid), (int)shim, start_time(shim), boot);
    return write_file(dir, "started", text);
}

int64_t wall_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static long long micros(struct timeval t) { return (long long)t.tv_sec * 1000000 + t.tv_usec; }

void write_exit(const char* dir, const struct worker_end* end) {
    char text[ROOM];
    const int status = end->status, by_signal = WIFSIGNALED(status);
    snprintf(text, sizeof text, "%s %d\nerror %d\nwall_us %lld\nuser_us %lld\nsystem_us %lld\nrss_kib %ld\n",
             by_signal ? "signal" : "code", by_signal ? WTERMSIG(status) : WEXITSTATUS(status), end->error,
             (long long)end->wall_us, micros(end->usage.ru_utime), micros(end->usage.ru_stime), end->usage.ru_maxrss);
    write_file(dir, "exit", text);
}

/*
 * Applies `place` in the worker's directory, if it exists: lines "cgroup DIRECTORY" and "processors 0-3,8". If one of
 * them fails, the worker runs without it.
 */
static void take_processors(pid_t pid, const char* list) {
    cpu_set_t processors;
    CPU_ZERO(&processors);
    for (const char* at = list; *at;) {
        char* end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at) return;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &processors);
        at = *end == ',' ? end + 1 : end;
        if (*end && *end != ',') return;
    }
    sched_setaffinity(pid, sizeof processors, &processors);
}

static void enter_cgroup(pid_t pid, const char* group) {
    char path[4200], text[32];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    const int length = snprintf(text, sizeof text, "%d", (int)pid);
    if (write(file, text, (size_t)length) != length) errno = 0; /* on an error it runs in the agent's group */
    close(file);
}

void give_place(pid_t pid, const char* dir) {
    char path[4200], text[8192];
    snprintf(path, sizeof path, "%s/place", dir);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    char* rest = NULL;
    for (char* line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "cgroup ", 7) == 0) enter_cgroup(pid, line + 7);
        if (strncmp(line, "processors ", 11) == 0) take_processors(pid, line + 11);
    }
}

int read_oom_score(char* text, size_t size) {
    const int file = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0 ? 0 : -1;
}

int write_oom_score(pid_t pid, const char* text) {
    char path[64] = "/proc/self/oom_score_adj";
    if (pid) snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const int whole = write(file, text, strlen(text)) == (ssize_t)strlen(text);
    close(file);
    return whole ? 0 : -1;
}

int take_variables(int memory) {
    static char* none[] = {NULL};
    struct stat facts;
    if (fstat(memory, &facts) != 0) return -1;
    const size_t size = (size_t)facts.st_size;
    environ = none;
    if (size == 0) return 0;
    char* text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, memory, 0);
    if (text == MAP_FAILED) return -1;
    errno = EINVAL;
    if (text[size - 1] != 0) return -1;
    size_t count = 0;
    for (size_t at = 0; at < size; ++at) count += text[at] == 0;
    char** words = calloc(count + 1, sizeof *words);
    if (!words) return -1;
    for (size_t at = 0, word = 0; at < size; at += strlen(text + at) + 1) words[word++] = text + at;
    environ = words;
    return 0;
}
