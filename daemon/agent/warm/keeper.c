/* The keeper of a template; see keeper.h. Plain C and system calls: it must stay small, and trust nothing that comes
 * from the template, which is a job's user's. */
#define _GNU_SOURCE
#include "daemon/agent/warm/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/agent/warm/keeper_order.h"
#include "daemon/agent/workers/become_user.h"
#include "daemon/agent/workers/worker_files.h"

enum { VARIABLES = 4, TEMPLATE = 3, LOG_MAX = 1 << 18, REAPED_AT_ONCE = 256 };

struct template_start {
    const char *log, *user;
    long uid, gid;
    int may_gain;
    char** program;
};

/* Turns the child into the template. */
static void run_template(const struct template_start* t, pid_t keeper, int socket, int out) {
    setsid();
    int in = open("/dev/null", O_RDONLY);
    int ok = in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2;
    char score[16];
    snprintf(score, sizeof score, "%d", TEMPLATE_SCORE);
    if (write_oom_score(0, score) != 0) errno = 0;
    ok = ok && (t->uid < 0 || initgroups(t->user, (gid_t)t->gid) == 0);
    ok = ok && become_user(t->uid, t->gid, t->may_gain) == 0 && take_variables(VARIABLES) == 0;
    ok = ok && (chdir("/proc/self/net") == 0 || chdir("/") == 0); /* see Origin in _template.py */
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

/* Takes a packet of the agent. Returns 0 if the agent's end is closed. */
static int on_agent(struct keeper* k) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = k->packet, .iov_len = sizeof k->packet};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(AGENT, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return 0;
    struct order o = {.variables = -1};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&o.variables, CMSG_DATA(header), sizeof(int));
    if (o.variables < 0) return 1;
    if (parse_order(k->packet, (size_t)got, &o) == 0) {
        k->order = o;
        begin_order(k);
    } else {
        close(o.variables);
    }
    return 1;
}

static void lose_agent(struct keeper* k) {
    k->agent_gone = 1;
    close(AGENT);
    if (has_order(k)) refuse_order(k, "the agent has ended", NULL); /* the next agent adopts the rest */
    end_template(k, NULL);
}

/* ---- the template ---- */

static void call_unfit(struct keeper* k, const char* why) {
    tell_agent(k, "unfit", "", why);
    end_template(k, NULL);
}

static void first_word(struct keeper* k) {
    char text[WHY + 16];
    if (read_template(k, text, sizeof text) != 0) return end_template(k, "the template ended before it was ready");
    if (strcmp(text, "ready") == 0) return stop_template(k);
    if (strncmp(text, "unfit ", 6) == 0) return call_unfit(k, text + 6);
    end_template(k, "the template said what it may not");
}

/* Handles input of a template that has no order: a packet, which is a failure, or its end. */
static void on_unasked(struct keeper* k) {
    char text[WHY];
    k->is_cut = read_template(k, text, sizeof text) != 0;
    end_template(k, k->is_cut ? NULL : "the template said what it may not");
}

static void on_template(struct keeper* k) {
    switch (k->phase) {
        case IMPORTS:
            return first_word(k);
        case FORKS:
            return take_answer(k);
        case STOPS:
        case RESTS:
            return on_unasked(k);
        case BECOMES:
        case BEGINS:
        case ENDED:
            return;
    }
}

/* Enters RESTS once the kernel reports the stop and the template has one thread and no child. */
static void look_at_stop(struct keeper* k) {
    siginfo_t seen = {0};
    char number[32];
    if (waitid(P_PID, (id_t)k->template, &seen, WSTOPPED | WNOHANG | WNOWAIT) != 0 || seen.si_code != CLD_STOPPED)
        return;
    const int alone = is_alone(k->template);
    if (!alone && !k->ready) return call_unfit(k, "its modules have started threads or processes");
    if (!alone) return end_template(k, "the template has threads or processes between orders");
    k->phase = RESTS;
    k->until_ms = 0;
    snprintf(number, sizeof number, "%d", (int)k->template);
    if (!k->ready) tell_agent(k, "ready", "", number);
    k->ready = 1;
}

static void on_deadline(struct keeper* k) {
    switch (k->phase) {
        case STOPS:
            return end_template(k, "the template does not stop between orders");
        case FORKS:
            return refuse_order(k, "the template did not answer", "the template did not answer");
        case BECOMES:
        case BEGINS:
            return take_status(k, 1);
        case IMPORTS:
        case RESTS:
        case ENDED:
            return;
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
        if (write(k->log, text, (size_t)got) != got) errno = 0; /* a full disk loses output, but no worker */
        k->logged += (size_t)got;
    }
}

/* Reaps the template. An order that the template has answered is carried out without it. */
static void reap_template(struct keeper* k) {
    int status = 0;
    char how[WHY];
    if (k->phase == IMPORTS) first_word(k); /* reads the reason why it is unfit */
    if (k->phase == FORKS) take_answer(k);
    waitpid(k->template, &status, WNOHANG);
    k->template = 0;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "the template was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "the template ended with code %d", WEXITSTATUS(status));
    if (k->phase != ENDED || k->is_cut) snprintf(k->broken, sizeof k->broken, "%s", how);
    if (!has_order(k)) end_template(k, NULL);
}

/* Reaps ended children. Returns 1 if more may have ended. */
static int reap(struct keeper* k) {
    siginfo_t seen;
    for (int count = 0; count < REAPED_AT_ONCE; ++count) {
        memset(&seen, 0, sizeof seen);
        if (waitid(P_ALL, 0, &seen, WEXITED | WNOHANG | WNOWAIT) != 0 || seen.si_pid == 0) return 0;
        const pid_t pid = seen.si_pid;
        if (seen.si_code != CLD_EXITED && seen.si_code != CLD_KILLED && seen.si_code != CLD_DUMPED) {
            kill(pid, SIGKILL); /* stopped, not ended: it made the keeper its tracer (PTRACE_TRACEME) */
            waitid(P_PID, (id_t)pid, &seen, WSTOPPED | WNOHANG);
            continue;
        }
        if (pid == k->fork) take_status(k, 1);
        if (pid == k->template)
            reap_template(k);
        else if (!reap_kept(&k->workers, pid))
            waitpid(pid, NULL, WNOHANG);
    }
    return 1;
}

/* ---- the loop ---- */

static int wait_ms(const struct keeper* k) {
    const int64_t exits = next_exit_ms(&k->workers), now = now_ms();
    int64_t until = k->until_ms;
    if (exits && (!until || exits < until)) until = exits;
    if (!until) return -1;
    return until > now ? (int)(until - now) : 0;
}

static void look_around(struct keeper* k) {
    if (k->phase == STOPS) look_at_stop(k);
    if (k->until_ms && now_ms() >= k->until_ms) on_deadline(k);
    const int is_gone = k->phase == ENDED && k->template == 0;
    if (is_gone && !k->end_is_known) tell_agent(k, "gone", "", k->broken);
    k->end_is_known = is_gone;
    k->workers.template_runs = k->phase != RESTS && !is_gone;
    end_strays(&k->workers);
}

/* Names the descriptors for poll(). The keeper reads nothing from the template while a fork answers, and nothing from
 * the agent while an order is carried out. */
enum { SIGNALS, OF_TEMPLATE, OF_AGENT, PRINTED, STATUS, SOURCES };
static void name_sources(const struct keeper* k, int signals, struct pollfd* all) {
    const int of_fork = k->phase == BECOMES || k->phase == BEGINS;
    const int takes_orders = k->phase == IMPORTS || k->phase == RESTS || k->phase == ENDED;
    all[SIGNALS] = (struct pollfd){.fd = signals, .events = POLLIN};
    all[OF_TEMPLATE] = (struct pollfd){.fd = of_fork ? -1 : k->socket, .events = POLLIN};
    all[OF_AGENT] = (struct pollfd){.fd = k->agent_gone ? -1 : AGENT, .events = takes_orders ? POLLIN : 0};
    all[PRINTED] = (struct pollfd){.fd = k->printed, .events = POLLIN};
    all[STATUS] = (struct pollfd){.fd = of_fork ? k->status : -1, .events = POLLIN};
}

/* Takes all input. Reads from the template and the agent only if the phase is still that of the poll(). */
static int take_all(struct keeper* k, const struct pollfd* all) {
    const enum keeper_phase phase = k->phase;
    struct signalfd_siginfo seen;
    while (read(all[SIGNALS].fd, &seen, sizeof seen) > 0) {}
    if (all[PRINTED].revents) take_printed(k);
    if (all[STATUS].revents) take_status(k, 0);
    const int more = reap(k);
    if (all[OF_TEMPLATE].revents && k->phase == phase) on_template(k);
    const int of_agent = all[OF_AGENT].revents, is_lost = of_agent & (POLLHUP | POLLERR);
    if (is_lost || (of_agent && k->phase == phase && !on_agent(k))) lose_agent(k);
    return more;
}

static int serve(struct keeper* k, int signals) {
    struct pollfd all[SOURCES];
    int more = 0;
    while (!k->agent_gone || !k->end_is_known || k->workers.count || k->workers.strays) {
        name_sources(k, signals, all);
        if (poll(all, SOURCES, more ? 0 : wait_ms(k)) < 0 && errno != EINTR) return 1;
        more = take_all(k, all);
        look_around(k);
    }
    return 0;
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
    sigprocmask(SIG_SETMASK, &all, NULL); /* only SIGKILL ends the keeper */
    signal(SIGCHLD, SIG_DFL);             /* if it were ignored, no child could be waited for */
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
    static struct keeper k;
    k = (struct keeper){.socket = pair[0], .printed = prints[0], .log = log, .start = -1, .status = -1};
    k.template = fork();
    if (k.template == 0) run_template(&t, self, pair[1], prints[1]);
    close(pair[1]);
    close(prints[1]);
    close(VARIABLES);
    if (k.template <0) return 1;
    k.workers.template_pid = k.template;
    k.workers.template_runs = 1;
    return serve(&k, signals);
}
