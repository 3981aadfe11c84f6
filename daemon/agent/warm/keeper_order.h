/* A keeper's template and the order that it carries out. No function waits: each phase has an end by the clock. */
#ifndef RTRAIN_AGENT_KEEPER_ORDER_H
#define RTRAIN_AGENT_KEEPER_ORDER_H
#include "daemon/agent/warm/keeper_children.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { AGENT = 3, PACKET = 1 << 17, PATIENCE_MS = 10000, WHY = 400 };

enum keeper_phase {          /* of the template */
                    IMPORTS, /* it has not said yet that it is ready */
                    STOPS,   /* SIGSTOP is sent to it */
                    RESTS,   /* it is stopped; the next order may be taken */
                    FORKS,   /* it has an order, and names its fork */
                    BECOMES, /* its fork makes itself the worker */
                    BEGINS,  /* the worker is written down; its fork runs the program next, and says so */
                    ENDED    /* nothing is asked of it any more */
};

struct order {
    const char *number, *dir, *out, *err, *attempt, *node, *rank;
    const char* rest; /* what the template gets */
    size_t rest_size;
    int variables;
};

struct keeper {
    struct kept_workers workers;
    pid_t template; /* 0: it is reaped */
    int socket;     /* to the template; -1: closed */
    enum keeper_phase phase;
    int64_t until_ms;                    /* the end of the phase; 0: none */
    int ready, agent_gone, end_is_known; /* end_is_known: the agent has heard of the template's */
    int is_cut;                          /* it has ended, or closed its socket, between orders */
    char broken[WHY];                    /* how the template has failed; empty: it has not */
    int printed, log;                    /* what the template prints, and the file that takes its first bytes */
    size_t logged;
    struct order order;  /* in the phases FORKS, BECOMES and BEGINS */
    pid_t fork;          /* from BECOMES on */
    int start, status;   /* this process's ends of the fork's; -1: none */
    char packet[PACKET]; /* what `order` points into */
};

void tell_agent(const struct keeper* k, const char* word, const char* number, const char* text);

/* Kills the template. `broken`: how it has failed; NULL: it has not. */
void end_template(struct keeper* k, const char* broken);

/* Between orders it is stopped: the code of a user uses no processor and no memory when no worker of that user may be
 * there. */
void stop_template(struct keeper* k);

/* A packet of the template's as text; descriptors that come with it are dropped by the kernel. -1: there is none. */
int read_template(const struct keeper* k, char* text, size_t size);

/* Whether an order is carried out. */
int has_order(const struct keeper* k);

/* Gives `k->order`, which has been read, to the template that rests. Each order is answered to the agent once. */
void begin_order(struct keeper* k);
void take_answer(struct keeper* k);              /* of the template, in FORKS */
void take_status(struct keeper* k, int is_over); /* of the fork, in BECOMES and BEGINS; `is_over`: it has ended */
void refuse_order(struct keeper* k, const char* why, const char* broken);

#ifdef __cplusplus
}
#endif
#endif
