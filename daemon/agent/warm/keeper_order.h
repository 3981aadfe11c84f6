/* A keeper's template and the order that the keeper carries out. No function waits. Each phase has a deadline. */
#ifndef RTRAIN_AGENT_KEEPER_ORDER_H
#define RTRAIN_AGENT_KEEPER_ORDER_H
#include "daemon/agent/warm/keeper_children.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { AGENT = 3, PACKET = 1 << 17, PATIENCE_MS = 10000, WHY = 400 };

enum keeper_phase {          /* the template's phase */
                    IMPORTS, /* it has not sent "ready" yet */
                    STOPS,   /* SIGSTOP is sent to it */
                    RESTS,   /* it is stopped; the keeper may take the next order */
                    FORKS,   /* it has an order, and sends the pid of its fork next */
                    BECOMES, /* its fork makes itself the worker */
                    BEGINS,  /* `started` is written; the fork confirms that its program begins */
                    ENDED    /* it gets no more orders */
};

struct order {
    const char *number, *dir, *out, *err, *attempt, *node, *rank;
    const char* rest; /* the words for the template */
    size_t rest_size;
    int variables;
};

struct keeper {
    struct kept_workers workers;
    pid_t template; /* 0: reaped */
    int socket;     /* to the template; -1: closed */
    enum keeper_phase phase;
    int64_t until_ms;                    /* the end of the phase; 0: none */
    int ready, agent_gone, end_is_known; /* end_is_known: "gone" is sent to the agent */
    int is_cut;                          /* the template has ended, or closed its socket, between orders */
    char broken[WHY];                    /* the failure of the template; empty: none */
    int printed, log;                    /* the pipe of the template's output, and the file for its first bytes */
    size_t logged;
    struct order order;  /* in the phases FORKS, BECOMES and BEGINS */
    pid_t fork;          /* from BECOMES on */
    int start, status;   /* the keeper's ends of the fork's descriptors; -1: none */
    char packet[PACKET]; /* the bytes that `order` points to */
};

void tell_agent(const struct keeper* k, const char* word, const char* number, const char* text);

/* Kills the template. `broken` is its failure; NULL: none. */
void end_template(struct keeper* k, const char* broken);

/* Stops the template between orders, so that a user's code takes no processor and no more memory while no worker of
 * that user runs. */
void stop_template(struct keeper* k);

/* Reads a packet of the template as text. The kernel drops descriptors in the packet. Returns -1 if there is none. */
int read_template(const struct keeper* k, char* text, size_t size);

/* Returns 1 while an order is carried out. */
int has_order(const struct keeper* k);

/* Sends `k->order`, which has been read, to the resting template. The agent gets one answer to each order. */
void begin_order(struct keeper* k);
void take_answer(struct keeper* k);              /* from the template, in FORKS */
void take_status(struct keeper* k, int is_over); /* from the fork, in BECOMES and BEGINS; `is_over`: it has ended */
void refuse_order(struct keeper* k, const char* why, const char* broken);

#ifdef __cplusplus
}
#endif
#endif
