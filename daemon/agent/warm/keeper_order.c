/* See keeper_order.h. The template and its fork belong to a job's user, so the keeper checks each of their answers. */
#define _GNU_SOURCE
#include "daemon/agent/warm/keeper_order.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/agent/workers/worker_files.h"

void tell_agent(const struct keeper* k, const char* word, const char* number, const char* text) {
    char packet[WHY + 128];
    int length =
        snprintf(packet, sizeof packet, "%s%s%s%s%.*s", word, *number ? " " : "", number, *text ? " " : "", WHY, text);
    for (int i = 0; i < length; ++i)
        if ((unsigned char)packet[i] < ' ') packet[i] = ' ';
    if (!k->agent_gone && send(AGENT, packet, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) errno = 0;
}

void end_template(struct keeper* k, const char* broken) {
    if (k->phase != ENDED && broken) snprintf(k->broken, sizeof k->broken, "%s", broken);
    if (k->template > 0) kill(-k->template, SIGKILL); /* the group: also forks that are not workers yet */
    if (k->template > 0) kill(k->template, SIGKILL);
    if (k->socket >= 0) close(k->socket);
    k->socket = -1;
    k->phase = ENDED;
    k->until_ms = 0;
}

int has_order(const struct keeper* k) { return k->phase == FORKS || k->phase == BECOMES || k->phase == BEGINS; }

void stop_template(struct keeper* k) {
    if (k->template == 0) return end_template(k, NULL);
    kill(k->template, SIGSTOP);
    k->phase = STOPS;
    k->until_ms = now_ms() + PATIENCE_MS;
}

int read_template(const struct keeper* k, char* text, size_t size) {
    const ssize_t got = k->socket < 0 ? -1 : recv(k->socket, text, size - 1, MSG_DONTWAIT);
    if (got <= 0) return -1;
    text[got] = 0;
    return 0;
}

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

static void close_all(const int* descriptors, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (descriptors[i] >= 0) close(descriptors[i]);
}

static void close_order(struct keeper* k) {
    close_all((const int[]){k->start, k->status, k->order.variables}, 3);
    k->start = k->status = k->order.variables = -1;
    k->fork = 0;
}

/* Kills the fork without a wait. Its program has not begun, and cannot begin any more. */
void refuse_order(struct keeper* k, const char* why, const char* broken) {
    if (k->phase == BEGINS) drop_worker(&k->workers, k->fork);
    if (k->fork > 0) kill(k->fork, SIGKILL);
    tell_agent(k, "refused", k->order.number, why);
    close_order(k);
    if (broken) return end_template(k, broken);
    if (has_order(k)) stop_template(k);
}

static void fail_order(struct keeper* k, const char* broken) { refuse_order(k, broken, broken); }

static void enter(struct keeper* k, enum keeper_phase phase) {
    k->phase = phase;
    k->until_ms = now_ms() + PATIENCE_MS;
}

/* Opens the descriptors of the fork: input, output, errors, start and status. Returns 0, or -1 with errno. */
static int open_order(struct keeper* k, int* theirs) {
    int start[2] = {-1, -1}, status[2] = {-1, -1};
    theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    theirs[1] = open(k->order.out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    theirs[2] = open(k->order.err, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (theirs[0] < 0 || theirs[1] < 0 || theirs[2] < 0) return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start) != 0) return -1;
    k->start = start[1];
    theirs[3] = start[0];
    if (pipe2(status, O_CLOEXEC) != 0) return -1;
    k->status = status[0];
    theirs[4] = status[1];
    return fcntl(k->status, F_SETFL, O_NONBLOCK);
}

/* Returns 0, or -1 with the reason in `why`. */
static int send_order(struct keeper* k, char* why) {
    int theirs[5] = {-1, -1, -1, -1, -1};
    const int opened = open_order(k, theirs) == 0;
    const int sent = opened && send_packet(k->socket, k->order.rest, k->order.rest_size, theirs, 5) == 0;
    snprintf(why, WHY, opened ? "the template cannot be sent an order: %s" : "the keeper cannot open its files: %s",
             strerror(errno));
    close_all(theirs, 5);
    return sent ? 0 : -1;
}

void begin_order(struct keeper* k) {
    char why[WHY];
    if (k->phase != RESTS) return refuse_order(k, "its template has ended", NULL);
    int unwritable = reserve_file(k->order.dir, "exit");
    if (!unwritable) unwritable = reserve_file(k->order.dir, "started");
    if (unwritable) {
        snprintf(why, sizeof why, "the keeper cannot write into %.200s: %s", k->order.dir, strerror(unwritable));
        return refuse_order(k, why, NULL);
    }
    if (send_order(k, why) != 0) return refuse_order(k, why, NULL);
    kill(k->template, SIGCONT);
    enter(k, FORKS);
}

/* Gives the process the score, processors and limits that a child of the agent has. */
static void give_all(struct keeper* k, pid_t pid) {
    char score[16];
    if (read_oom_score(score, sizeof score) != 0 || write_oom_score(pid, score) != 0) k->workers.scores_are_same = 1;
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) sched_setaffinity(pid, sizeof own, &own);
    for (int kind = 0; kind < (int)RLIM_NLIMITS; ++kind) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)kind, &limit) == 0) prlimit(pid, (enum __rlimit_resource)kind, &limit, NULL);
    }
}

void take_answer(struct keeper* k) {
    char answer[WHY + 16];
    if (read_template(k, answer, sizeof answer) != 0) return fail_order(k, "the template did not answer");
    const int is_stale = strncmp(answer, "stale ", 6) == 0;
    if (is_stale || strncmp(answer, "no ", 3) == 0) {
        refuse_order(k, strchr(answer, ' ') + 1, NULL);
        if (is_stale) end_template(k, NULL);
        return;
    }
    const long pid = strncmp(answer, "pid ", 4) == 0 ? strtol(answer + 4, NULL, 10) : 0;
    if (pid <= 1 || pid > INT_MAX || pid == k->template || !is_new_child(&k->workers, (pid_t)pid))
        return fail_order(k, "the template named a process that is not its fork");
    k->fork = (pid_t)pid;
    /* The cgroup comes first, so that it holds all later forks. A fork that has children already is refused below. */
    give_place(k->fork, k->order.dir);
    if (!is_alone(k->fork)) return fail_order(k, "the fork has threads or children before it is a worker");
    give_all(k, k->fork);
    give_place(k->fork, k->order.dir); /* again: the processors of its place replace the agent's */
    enter(k, BECOMES);
    /* The environment has the secrets, which the template never gets. */
    if (send_packet(k->start, "+", 1, &k->order.variables, 1) != 0) take_status(k, 1);
}

static int is_closed(int socket) {
    struct pollfd end = {.fd = socket};
    return poll(&end, 1, 0) == 1 && (end.revents & (POLLHUP | POLLERR));
}

/* Writes `started` for the fork, which waits, and lets it run its program. */
static void write_down(struct keeper* k) {
    const struct order* o = &k->order;
    const struct kept_worker worker = {.pid = k->fork};
    if (is_closed(AGENT)) return refuse_order(k, "the agent has ended", NULL); /* the next agent adopts the rest */
    if (getsid(k->fork) != k->fork || getpgid(k->fork) != k->fork)
        return fail_order(k, "the fork did not become the worker: it leads no session of its own");
    if (keep_worker(&k->workers, &worker, o->dir, (const char*[]){o->attempt, o->node, o->rank}) != 0) {
        char why[WHY];
        snprintf(why, sizeof why, "the keeper has no room for it: %s", strerror(errno));
        return refuse_order(k, why, NULL);
    }
    enter(k, BEGINS);
    if (send(k->start, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) take_status(k, 1);
}

static void began(struct keeper* k) {
    char text[32];
    const struct kept_worker* worker = find_worker(&k->workers, k->fork);
    if (!worker || worker->sentinel <= 0) return fail_order(k, "the worker's sentinel has been killed");
    snprintf(text, sizeof text, "%d", (int)worker->sentinel);
    tell_agent(k, "started", k->order.number, text);
    close_order(k);
    stop_template(k);
}

void take_status(struct keeper* k, int is_over) {
    char status[WHY / 2] = "", why[WHY];
    int error = -1;
    const ssize_t got = read(k->status, status, sizeof status - 1);
    if (got < 0 && (errno == EAGAIN || errno == EINTR) && !is_over) return;
    if (got >= (ssize_t)sizeof error) memcpy(&error, status, sizeof error);
    if (error == 0 && k->phase == BEGINS) return began(k);
    if (error == 0 && !is_over) return write_down(k);
    if (k->phase == BEGINS) return fail_order(k, "the fork did not begin its program");
    const char* text = error > 0 && got > (ssize_t)sizeof error ? status + sizeof error : "no word of it";
    snprintf(why, sizeof why, "the fork did not become the worker: %s", text);
    fail_order(k, why);
}
