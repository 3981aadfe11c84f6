/* The shim of one worker. Plain C and system calls: it lives as long as its worker and must stay small. */
#define _GNU_SOURCE
#include "daemon/agent/workers/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/agent/workers/become_user.h"
#include "daemon/agent/workers/worker_files.h"

enum { READY = 3, VARIABLES = 4 };

struct request {
    const char *dir, *out, *err, *cwd, *user;
    long uid, gid, wait_ms;
    int may_gain;
    char** program;
};

static int become(const struct request* r) {
    if (r->uid >= 0 && initgroups(r->user, (gid_t)r->gid) != 0) return -1;
    return become_user(r->uid, r->gid, r->may_gain);
}

/* Runs in the child: becomes the worker, or writes the error to `failed`. */
static void run_worker(const struct request* r, pid_t shim, int failed) {
    setsid();
    int in = open("/dev/null", O_RDONLY);
    int out = open(r->out, O_WRONLY | O_CREAT | O_APPEND, 0640);
    int err = open(r->err, O_WRONLY | O_CREAT | O_APPEND, 0640);
    int ok = in >= 0 && out >= 0 && err >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2;
    give_place(0, r->dir); /* before the change of user, which removes the right to do so */
    ok = ok && become(r) == 0 && chdir(r->cwd) == 0 && take_variables(VARIABLES) == 0;
    const int refused = errno;        /* the calls below set errno too */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
    if (getppid() != shim) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int error = 0;
    if (ok && write(failed, &error, sizeof error) != sizeof error)
        _exit(126); /* the worker can be signalled from
                       here on */
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

/* Kills the processes that the worker left: its group, and the orphans that this process adopted as their subreaper. */
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
        write_started(r->dir, worker, getpid()); /* before its exec, so that a stop finds the worker also while it
                                                    waits */
        if (read(failed, &error, sizeof error) != sizeof error) error = 0; /* exec closed the pipe: the worker runs */
    }
    close(failed);
    if (!error && write(READY, "+", 1) != 1) errno = 0; /* the agent has ended; the files have the result */
    siginfo_t seen;
    for (;;) { /* reaps adopted processes; the worker stays a zombie until its group is ended */
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
    struct worker_end end = {.error = error, .wall_us = at};
    while (wait4(worker, &end.status, 0, &end.usage) < 0 && errno == EINTR) {}
    write_exit(r->dir, &end);
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
    sigprocmask(SIG_SETMASK, &all, NULL); /* signals to the agent's group do not end the shim; only SIGKILL does */
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "rtrain-shim");
    fcntl(READY, F_SETFD, FD_CLOEXEC);
    fcntl(VARIABLES, F_SETFD, FD_CLOEXEC);
    int unwritable = reserve_file(r.dir, "exit");
    if (!unwritable) unwritable = reserve_file(r.dir, "started");
    if (unwritable)
        return unwritable; /* without a file for its end, no worker is started; the agent, the parent,
                              reads the status */
    int failed[2];
    const pid_t self = getpid();
    pid_t worker = -1;
    if (pipe2(failed, O_CLOEXEC) == 0) worker = fork();
    if (worker == 0) run_worker(&r, self, failed[1]);
    if (worker < 0) {
        const struct worker_end end = {.status = 126 << 8, .error = errno, .wall_us = wall_us()};
        write_exit(r.dir, &end);
        return 1;
    }
    close(failed[1]);
    close(VARIABLES); /* contains secrets, which the shim must not keep */
    return watch(&r, worker, failed[0]);
}
