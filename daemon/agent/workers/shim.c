/* The shim of one worker; see shim.h. Plain C and system calls: it lives as long as its worker and must stay small.
 *
 * Files, written aside and renamed, one "name value" per line:
 *   started   pid, start_time (clock ticks since boot, /proc/PID/stat field 22), shim, shim_start_time, boot_id
 *   exit      code | signal, error (errno of the start, 0: it was started), wall_us, user_us, system_us, rss_kib
 * Their room on the disk is taken before the worker starts: a disk that fills up meanwhile loses neither. */
#define _GNU_SOURCE
#include "daemon/agent/workers/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/agent/workers/become_user.h"

enum { READY = 3, VARIABLES = 4, ROOM = 512 };

struct request {
    const char *dir, *out, *err, *cwd, *user;
    long uid, gid, wait_ms;
    int may_gain;
    char** program;
};

static void name_file(char* path, size_t size, const char* dir, const char* name) {
    snprintf(path, size, "%s/.%s.new", dir, name);
}

/* Writes as many bytes as the file will have at most: overwriting them needs no room. 0, or an errno. */
static int reserve_file(const char* dir, const char* name) {
    char aside[4200], room[ROOM];
    memset(room, '\n', sizeof room);
    name_file(aside, sizeof aside, dir, name);
    int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    errno = ENOSPC; /* what a short write means */
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
    char* at = strrchr(text, ')'); /* the name may hold anything; the state is field 3 */
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

static void write_started(const struct request* r, pid_t pid) {
    char text[ROOM], boot[64];
    boot_id(boot, sizeof boot);
    snprintf(text, sizeof text, "pid %d\nstart_time %llu\nshim %d\nshim_start_time %llu\nboot_id %s\n", (int)pid,
             start_time(pid), (int)getpid(), start_time(getpid()), boot);
    write_file(r->dir, "started", text);
}

static int64_t wall_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static long long micros(struct timeval t) { return (long long)t.tv_sec * 1000000 + t.tv_usec; }

static void write_exit(const struct request* r, int status, int error, const struct rusage* usage, int64_t at) {
    char text[ROOM];
    const int by_signal = WIFSIGNALED(status);
    snprintf(text, sizeof text, "%s %d\nerror %d\nwall_us %lld\nuser_us %lld\nsystem_us %lld\nrss_kib %ld\n",
             by_signal ? "signal" : "code", by_signal ? WTERMSIG(status) : WEXITSTATUS(status), error, (long long)at,
             micros(usage->ru_utime), micros(usage->ru_stime), usage->ru_maxrss);
    write_file(r->dir, "exit", text);
}

/* `place` in the worker's directory, if it is there: "cgroup DIRECTORY" and "processors 0-3,8", one a line. Both are
 * wishes: a worker that cannot have them runs without. */
static void take_processors(const char* list) {
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
    sched_setaffinity(0, sizeof processors, &processors);
}

static void enter_cgroup(const char* group) {
    char path[4200];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, "0", 1) != 1) errno = 0; /* it runs where the agent runs */
    close(file);
}

static void take_place(const char* dir) {
    char path[4200], text[8192];
    snprintf(path, sizeof path, "%s/place", dir);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    char* rest = NULL;
    for (char* line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "cgroup ", 7) == 0) enter_cgroup(line + 7);
        if (strncmp(line, "processors ", 11) == 0) take_processors(line + 11);
    }
}

static int become(const struct request* r) {
    if (r->uid >= 0 && initgroups(r->user, (gid_t)r->gid) != 0) return -1;
    return become_user(r->uid, r->gid, r->may_gain);
}

/* Makes the words of descriptor VARIABLES this process's environment. Only the child does so, and only as the worker's
 * user: no program or library of the shim is ever loaded with what a job names. */
static int take_variables(void) {
    static char* none[] = {NULL};
    struct stat facts;
    if (fstat(VARIABLES, &facts) != 0) return -1;
    const size_t size = (size_t)facts.st_size;
    environ = none;
    if (size == 0) return 0;
    char* text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, VARIABLES, 0);
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

/* In the child: becomes the worker, or says through `failed` why not. */
static void run_worker(const struct request* r, pid_t shim, int failed) {
    setsid();
    int in = open("/dev/null", O_RDONLY);
    int out = open(r->out, O_WRONLY | O_CREAT | O_APPEND, 0640);
    int err = open(r->err, O_WRONLY | O_CREAT | O_APPEND, 0640);
    int ok = in >= 0 && out >= 0 && err >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2;
    take_place(r->dir); /* while we are still who may */
    ok = ok && become(r) == 0 && chdir(r->cwd) == 0 && take_variables() == 0;
    const int refused = errno;        /* what follows has errors of its own */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
    if (getppid() != shim) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int error = 0;
    if (ok && write(failed, &error, sizeof error) != sizeof error) _exit(126); /* it can be signalled from here on */
    const struct timespec wait = {.tv_sec = r->wait_ms / 1000, .tv_nsec = r->wait_ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
    if (failed != 3 && dup2(failed, 3) == 3) failed = 3;
    fcntl(failed, F_SETFD, FD_CLOEXEC);
    closefrom(4);
    if (ok) execvp(r->program[0], r->program);
    error = ok ? errno : refused;
    if (write(failed, &error, sizeof error) != sizeof error) _exit(126);
    _exit(127);
}

/* What the worker left behind: its group, and what escaped from it and came to us as its subreaper. */
static void end_leftovers(pid_t worker) {
    kill(-worker, SIGKILL);
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (int round = 0; round < 64; ++round) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
        if (file >= 0) close(file);
        if (got <= 0) return;
        text[got] = 0;
        int others = 0;
        for (char* at = text; *at;) {
            char* end;
            long pid = strtol(at, &end, 10);
            if (end == at) break;
            at = end;
            if (pid == worker) continue;
            ++others;
            kill((pid_t)pid, SIGKILL);
            waitpid((pid_t)pid, NULL, 0);
        }
        if (!others) return;
    }
}

static int watch(const struct request* r, pid_t worker, int failed) {
    int error = 0;
    if (read(failed, &error, sizeof error) == sizeof error && error == 0) {
        write_started(r, worker); /* before its exec: a stop must find it, also while it waits */
        if (read(failed, &error, sizeof error) != sizeof error) error = 0; /* closed by exec: it runs */
    }
    close(failed);
    if (!error && write(READY, "+", 1) != 1) errno = 0; /* the agent is gone: the files tell */
    siginfo_t seen;
    for (;;) { /* reaps strangers that came to us; the worker stays a zombie until its group is ended */
        memset(&seen, 0, sizeof seen);
        if (waitid(P_ALL, 0, &seen, WEXITED | WNOWAIT) != 0) {
            if (errno == EINTR) continue;
            break;
        }
        if (seen.si_pid == worker) break;
        waitpid(seen.si_pid, NULL, 0);
    }
    const int64_t at = wall_us();
    end_leftovers(worker);
    int status = 0;
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    while (wait4(worker, &status, 0, &usage) < 0 && errno == EINTR) {}
    write_exit(r, status, error, &usage, at);
    close(READY);
    return 0;
}

static int parse(int argc, char** argv, struct request* r) {
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "__shim") == 0) first = 2;
    if (argc < first + 13 || strcmp(argv[first + 11], "--") != 0) return -1;
    char** a = argv + first;
    *r = (struct request){.dir = a[0],
                          .out = a[1],
                          .err = a[2],
                          .cwd = a[3],
                          .uid = strtol(a[4], NULL, 10),
                          .gid = strtol(a[5], NULL, 10),
                          .user = a[6],
                          .wait_ms = strtol(a[7], NULL, 10),
                          .may_gain = strcmp(a[8], "allow-setuid") == 0,
                          .program = a + 12};
    return 0;
}

int shim_main(int argc, char** argv) {
    struct request r;
    if (parse(argc, argv, &r) != 0) {
        fputs(
            "rtrain: __shim is for the agent: DIR OUT ERR CWD UID GID USER WAIT_MS RIGHTS ATTEMPT NODE -- PROGRAM "
            "ARGUMENTS...\n",
            stderr);
        return 2;
    }
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* a signal to the agent's group must not end us: nothing but SIGKILL does */
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "rtrain-shim");
    fcntl(READY, F_SETFD, FD_CLOEXEC);
    fcntl(VARIABLES, F_SETFD, FD_CLOEXEC);
    int unwritable = reserve_file(r.dir, "exit");
    if (!unwritable) unwritable = reserve_file(r.dir, "started");
    if (unwritable) return unwritable; /* the agent, our parent, reads it: no worker without a word of its end */
    int failed[2];
    const pid_t self = getpid();
    pid_t worker = -1;
    if (pipe2(failed, O_CLOEXEC) == 0) worker = fork();
    if (worker == 0) run_worker(&r, self, failed[1]);
    if (worker < 0) {
        struct rusage none;
        memset(&none, 0, sizeof none);
        write_exit(&r, 126 << 8, errno, &none, wall_us());
        return 1;
    }
    close(failed[1]);
    close(VARIABLES); /* secrets: nothing of them stays with us */
    return watch(&r, worker, failed[0]);
}
