/* The keeper of a template; see keeper.h. Plain C and system calls: it must stay small, and trust nothing that comes
 * from the template, which is a job's user's. */
#define _GNU_SOURCE
#include "daemon/agent/warm/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/agent/warm/keeper_children.h"
#include "daemon/agent/workers/become_user.h"
#include "daemon/agent/workers/worker_files.h"

enum { AGENT = 3, VARIABLES = 4, TEMPLATE = 3, PACKET = 1 << 17, PATIENCE_MS = 10000, WHY = 400, LOG_MAX = 1 << 18 };

struct keeper {
    struct kept_workers workers;
    pid_t template; /* 0: it has ended */
    int socket;     /* to the template; -1: closed */
    int ready, agent_gone;
    int printed, log; /* what the template prints, and the file that takes its first LOG_MAX bytes */
    size_t logged;
};

struct template_start {
    const char *log, *user;
    long uid, gid;
    int may_gain;
    char** program;
};

struct order {
    const char *number, *dir, *out, *err, *attempt, *node, *rank;
    const char* rest; /* what the template gets */
    size_t rest_size;
    int variables;
};

static void tell_agent(const struct keeper* k, const char* word, const char* number, const char* text) {
    char packet[WHY + 128];
    int length = snprintf(packet, sizeof packet, "%s%s%s %.*s", word, *number ? " " : "", number, WHY, text);
    for (int i = 0; i < length; ++i)
        if ((unsigned char)packet[i] < ' ') packet[i] = ' ';
    if (!k->agent_gone && send(AGENT, packet, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) errno = 0;
}

/* In the child: becomes the template. */
static void run_template(const struct template_start* t, pid_t keeper, int socket, int out) {
    setsid();
    int in = open("/dev/null", O_RDONLY);
    int ok = in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2;
    write_oom_score(0, "1000"); /* memory that runs out takes templates before workers */
    ok = ok && (t->uid < 0 || initgroups(t->user, (gid_t)t->gid) == 0);
    ok = ok && become_user(t->uid, t->gid, t->may_gain) == 0 && chdir("/") == 0 && take_variables(VARIABLES) == 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!ok || getppid() != keeper) _exit(126);
    sigset_t none;
    sigemptyset(&none);
    for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(socket, TEMPLATE) != TEMPLATE) _exit(126);
    closefrom(TEMPLATE + 1);
    execv(t->program[0], t->program);
    _exit(127);
}

/* Between orders it is stopped: the code of a user uses no processor and no memory when no worker of that user may be
 * there. 0: it does not stop, or has threads or children, which would go on. */
static int rest(const struct keeper* k) {
    const struct timespec moment = {.tv_nsec = 200000};
    siginfo_t seen;
    kill(k->template, SIGSTOP);
    for (int waited_us = 0; waited_us < PATIENCE_MS * 1000; waited_us += 200) {
        memset(&seen, 0, sizeof seen);
        if (waitid(P_PID, (id_t)k->template, &seen, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) != 0) return 0;
        if (seen.si_pid) return seen.si_code == CLD_STOPPED && is_alone(k->template);
        nanosleep(&moment, NULL);
    }
    return 0;
}

static void end_template(struct keeper* k) {
    if (k->template > 0) kill(-k->template, SIGKILL); /* with forks that are no workers yet */
    if (k->template > 0) kill(k->template, SIGKILL);
    if (k->socket >= 0) close(k->socket);
    k->socket = -1;
}

/* A packet of the template's as text; descriptors that come with it are dropped by the kernel. -1: none in time. */
static int read_template(const struct keeper* k, char* text, size_t size, int wait_ms) {
    struct pollfd one = {.fd = k->socket, .events = POLLIN};
    if (k->socket < 0 || poll(&one, 1, wait_ms) != 1) return -1;
    ssize_t got = recv(k->socket, text, size - 1, MSG_DONTWAIT);
    if (got <= 0) return -1;
    text[got] = 0;
    return 0;
}

/* ---- one order ---- */

static int send_packet(int socket, const void* text, size_t size, const int* descriptors, size_t count) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = (void*)text, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Gives the process what a child of the agent's has: processors and limits, then its place. */
static void give_all(pid_t pid, const char* dir) {
    char score[16];
    if (read_oom_score(score, sizeof score) == 0) write_oom_score(pid, score);
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) sched_setaffinity(pid, sizeof own, &own);
    for (int kind = 0; kind < (int)RLIM_NLIMITS; ++kind) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)kind, &limit) == 0) prlimit(pid, (enum __rlimit_resource)kind, &limit, NULL);
    }
    give_place(pid, dir);
}

static int is_closed(int socket) {
    struct pollfd end = {.fd = socket};
    return poll(&end, 1, 0) == 1 && (end.revents & (POLLHUP | POLLERR));
}

/* The errno that the child says, -1: none in time. */
static int read_status(int status) {
    struct pollfd one = {.fd = status, .events = POLLIN};
    int error = -1;
    if (poll(&one, 1, PATIENCE_MS) != 1 || read(status, &error, sizeof error) != sizeof error) return -1;
    return error;
}

/* From the template's answer to the started worker. 0, or why not in `why`. */
static int adopt_child(struct keeper* k, const struct order* o, const char* answer, const int* ends, char* why) {
    const long pid = strncmp(answer, "pid ", 4) == 0 ? strtol(answer + 4, NULL, 10) : 0;
    if (pid == k->template || !is_new_child(&k->workers, (pid_t)pid)) {
        snprintf(why, WHY, "the template named a process that is not its fork");
        return -1;
    }
    give_all((pid_t)pid, o->dir);
    const int go = send_packet(ends[0], "+", 1, &o->variables, 1) == 0; /* secrets: the template never has them */
    const int error = go ? read_status(ends[1]) : -1;
    if (is_closed(AGENT)) {
        snprintf(why, WHY, "the agent has ended"); /* the next one takes what is written down by now */
    } else if (error == 0 && getsid((pid_t)pid) == pid && getpgid((pid_t)pid) == pid) {
        const struct kept_worker worker = {.pid = (pid_t)pid};
        if (keep_worker(&k->workers, &worker, o->dir, (const char*[]){o->attempt, o->node, o->rank}) == 0) {
            if (write(ends[0], "!", 1) != 1) errno = 0; /* it has ended meanwhile, and is reaped as a worker */
            return 0;
        }
        snprintf(why, WHY, "the keeper has no room for it: %s", strerror(errno));
    } else {
        snprintf(why, WHY, "the fork did not become the worker: %s", error > 0 ? strerror(error) : "no word of it");
    }
    kill((pid_t)pid, SIGKILL);
    while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR) {}
    return -1;
}

/* With the descriptors that the fork needs. 0, or why not in `why`. */
static int fork_worker(struct keeper* k, const struct order* o, char* why) {
    int start[2] = {-1, -1}, status[2] = {-1, -1}, result = -1;
    char answer[WHY + 16] = "";
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = open(o->out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    const int err = open(o->err, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    const int ok = in >= 0 && out >= 0 && err >= 0 &&
                   socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start) == 0 && pipe2(status, O_CLOEXEC) == 0;
    snprintf(why, WHY, "the keeper cannot open its files: %s", strerror(errno));
    kill(k->template, SIGCONT);
    if (ok && send_packet(k->socket, o->rest, o->rest_size, (const int[]){in, out, err, start[0], status[1]}, 5) != 0)
        snprintf(why, WHY, "the template cannot be sent an order: %s", strerror(errno));
    else if (ok) {
        close(start[0]);
        close(status[1]);
        start[0] = status[1] = -1;
        if (read_template(k, answer, sizeof answer, PATIENCE_MS) != 0) {
            snprintf(why, WHY, "the template did not answer");
            end_template(k);
        } else if (strncmp(answer, "no ", 3) == 0 || strncmp(answer, "stale ", 6) == 0) {
            snprintf(why, WHY, "%s", strchr(answer, ' ') + 1);
            if (answer[0] == 's') end_template(k);
        } else {
            result = adopt_child(k, o, answer, (const int[]){start[1], status[0]}, why);
            if (result != 0) end_template(k); /* it, or its fork, does not keep to what was agreed */
        }
        if (k->socket >= 0 && !rest(k)) end_template(k);
    }
    const int all[] = {in, out, err, start[0], start[1], status[0], status[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        if (all[i] >= 0) close(all[i]);
    return result;
}

static int parse_order(char* packet, size_t size, struct order* o) {
    const char** words[] = {&o->number, &o->dir, &o->out, &o->err, &o->attempt, &o->node, &o->rank};
    size_t at = 0;
    if (size == 0 || packet[size - 1] != 0) return -1;
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
        if (at >= size) return -1;
        *words[i] = packet + at;
        at += strlen(packet + at) + 1;
    }
    o->rest = packet + at;
    o->rest_size = size - at;
    return o->rest_size > 0 ? 0 : -1;
}

static void carry_out(struct keeper* k, struct order* o) {
    char why[WHY] = "", text[32];
    if (k->socket < 0 || !k->ready) return tell_agent(k, "refused", o->number, "its template has ended");
    int unwritable = reserve_file(o->dir, "exit");
    if (!unwritable) unwritable = reserve_file(o->dir, "started");
    if (unwritable)
        snprintf(why, sizeof why, "the keeper cannot write into %.200s: %s", o->dir, strerror(unwritable));
    else if (fork_worker(k, o, why) == 0) {
        snprintf(text, sizeof text, "%d", (int)last_kept(&k->workers)->sentinel);
        return tell_agent(k, "started", o->number, text);
    }
    tell_agent(k, "refused", o->number, why);
}

/* A packet of the agent's. 0: its end is closed. */
static int on_agent(struct keeper* k) {
    static char packet[PACKET];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = packet, .iov_len = sizeof packet};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(AGENT, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return 0;
    struct order o = {.variables = -1};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&o.variables, CMSG_DATA(header), sizeof(int));
    if (o.variables >= 0 && !is_closed(AGENT) && parse_order(packet, (size_t)got, &o) == 0) carry_out(k, &o);
    if (o.variables >= 0) close(o.variables);
    return 1;
}

/* ---- the loop ---- */

static void first_word(struct keeper* k) {
    char text[WHY + 16], number[32];
    if (read_template(k, text, sizeof text, 0) != 0) {
        end_template(k);
    } else if (!k->ready && strcmp(text, "ready") == 0) {
        end_leftovers(&k->workers, 0, k->template);
        if (!rest(k)) {
            tell_agent(k, "unfit", "", "its modules have started threads or processes");
            return end_template(k);
        }
        k->ready = 1;
        snprintf(number, sizeof number, "%d", (int)k->template);
        tell_agent(k, "ready", "", number);
    } else {
        if (!k->ready && strncmp(text, "unfit ", 6) == 0) tell_agent(k, "unfit", "", text + 6);
        end_template(k); /* it has nothing else to say unasked */
    }
}

static void take_printed(struct keeper* k) {
    char text[4096];
    const ssize_t got = read(k->printed, text, sizeof text);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        close(k->printed);
        k->printed = -1;
    } else if (k->logged < LOG_MAX) {
        if (write(k->log, text, (size_t)got) != got) errno = 0; /* a full disk loses words, no worker */
        k->logged += (size_t)got;
    }
}

static void reap(struct keeper* k) {
    siginfo_t seen;
    for (;;) {
        memset(&seen, 0, sizeof seen);
        if (waitid(P_ALL, 0, &seen, WEXITED | WNOHANG | WNOWAIT) != 0 || seen.si_pid == 0) return;
        const pid_t pid = seen.si_pid;
        if (seen.si_code != CLD_EXITED && seen.si_code != CLD_KILLED && seen.si_code != CLD_DUMPED) {
            kill(pid, SIGKILL); /* it made us its tracer (PTRACE_TRACEME), and is stopped, not ended */
            waitid(P_PID, (id_t)pid, &seen, WSTOPPED | WNOHANG);
            continue;
        }
        if (pid == k->template) {
            if (k->socket >= 0 && !k->ready) first_word(k); /* why it is none */
            waitpid(pid, NULL, 0);
            end_leftovers(&k->workers, pid, pid);
            k->template = 0;
            end_template(k);
            tell_agent(k, "gone", "", "");
        } else if (!end_worker(&k->workers, pid, k->template)) {
            waitpid(pid, NULL, 0);
        }
    }
}

static int serve(struct keeper* k, int signals) {
    for (;;) {
        struct pollfd all[] = {{.fd = signals, .events = POLLIN},
                               {.fd = k->socket, .events = POLLIN},
                               {.fd = k->agent_gone ? -1 : AGENT, .events = POLLIN},
                               {.fd = k->printed, .events = POLLIN}};
        if (poll(all, 4, -1) < 0 && errno != EINTR) return 1;
        struct signalfd_siginfo seen;
        while (read(signals, &seen, sizeof seen) > 0) {}
        if (k->printed >= 0 && all[3].revents) take_printed(k);
        reap(k);
        if (k->socket >= 0 && all[1].revents) first_word(k);
        if (!k->agent_gone && all[2].revents && !on_agent(k)) {
            k->agent_gone = 1;
            close(AGENT);
            end_template(k);
        }
        if (k->agent_gone && k->workers.count == 0 && k->template == 0) return 0;
    }
}

static int parse(int argc, char** argv, struct template_start* t) {
    if (argc < 9 || strcmp(argv[7], "--") != 0) return -1;
    *t = (struct template_start){.log = argv[2],
                                 .uid = strtol(argv[3], NULL, 10),
                                 .gid = strtol(argv[4], NULL, 10),
                                 .user = argv[5],
                                 .may_gain = strcmp(argv[6], "allow-setuid") == 0,
                                 .program = argv + 8};
    return 0;
}

int keeper_main(int argc, char** argv) {
    struct template_start t;
    if (parse(argc, argv, &t) != 0) {
        fputs("rtrain: __keeper is for the agent: LOG UID GID USER RIGHTS -- PROGRAM ARGUMENTS...\n", stderr);
        return 2;
    }
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* nothing but SIGKILL ends us */
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "rtrain-keeper");
    fcntl(AGENT, F_SETFD, FD_CLOEXEC);
    fcntl(VARIABLES, F_SETFD, FD_CLOEXEC);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    int pair[2], prints[2];
    const int log = open(t.log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0640);
    const int signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || log < 0 || pipe2(prints, O_CLOEXEC) != 0) return 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return 1;
    fcntl(prints[0], F_SETFL, O_NONBLOCK);
    const pid_t self = getpid();
    struct keeper k = {.socket = pair[0], .printed = prints[0], .log = log, .template = fork()};
    if (k.template == 0) run_template(&t, self, pair[1], prints[1]);
    close(pair[1]);
    close(prints[1]);
    close(VARIABLES);
    if (k.template <0) return 1;
    return serve(&k, signals);
}
