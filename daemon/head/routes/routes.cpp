// See routes.hpp.
#include "daemon/head/routes/routes.hpp"

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

void get_openapi(Exchange& exchange) { reply(exchange, 200, openapi()); }

constexpr Route table[] = {
    {"GET", "/healthz", Access::anyone, "is the head there", "", with<get_health>},
    {"GET", "/", Access::browser, "the page, for people", "", with<get_page>},
    {"GET", "/favicon.svg", Access::browser, "its icon", "", with<get_page>},
    {"GET", "/assets/{file}", Access::browser, "its script and its style sheet", "", with<get_page>},
    {"POST", "/v1/session", Access::browser, "sign a browser in, by a token: sets the session's cookie", "",
     with<post_session>},
    {"GET", "/v1/session", Access::viewer, "who is signed in", "", with<get_session>},
    {"DELETE", "/v1/session", Access::viewer, "sign the browser out", "", with<delete_session>},
    {"GET", "/v1/status", Access::viewer, "the cluster in numbers", "", with<get_status>},
    {"GET", "/v1/status/history", Access::viewer, "what the cluster had, allocated and used, for a chart",
     "key from to points", with<get_status_history>},
    {"GET", "/v1/timeline", Access::viewer, "which run held which GPU of which node, and when", "from_ms until_ms node",
     with<get_timeline>},
    {"POST", "/v1/runs", Access::user, "submit a job; the same key submits once", "", with<post_run>},
    {"GET", "/v1/runs", Access::viewer, "runs, newest first", "state user name parent all limit cursor",
     with<get_runs>},
    {"GET", "/v1/runs/{run}", Access::viewer, "one run", "", with<get_run>},
    {"DELETE", "/v1/runs/{run}", Access::owner, "remove a run that has ended", "files dry_run", with<delete_run>},
    {"POST", "/v1/runs/{run}/stop", Access::owner, "stop a run, now or once its next checkpoint is committed", "",
     with<post_stop>},
    {"POST", "/v1/runs/{run}/checkpoint", Access::owner, "ask a run for a checkpoint now", "",
     with<post_checkpoint_request>},
    {"POST", "/v1/runs/{run}/resize", Access::owner, "give a run another number of workers", "", with<post_resize>},
    {"POST", "/v1/runs/{run}/priority", Access::owner, "give a run another priority", "", with<post_priority>},
    {"POST", "/v1/runs/{run}/restore", Access::owner, "go on with a run that has ended, from one of its checkpoints",
     "", with<post_restore>},
    {"POST", "/v1/runs/{run}/stack", Access::owner, "let Python ranks write their stacks into their logs", "rank",
     with<post_stack>},
    {"GET", "/v1/runs/{run}/attempts", Access::viewer, "attempts, oldest first", "limit cursor", with<get_attempts>},
    {"GET", "/v1/runs/{run}/logs", Access::owner, "lines of the workers",
     "rank attempt stream since_ms tail position follow after notices_after states_ms", with<get_logs>},
    {"GET", "/v1/runs/{run}/metrics", Access::viewer, "reports", "key after rank follow limit cursor",
     with<get_metrics>},
    {"GET", "/v1/runs/{run}/metrics/history", Access::viewer, "a metric's least and greatest values, for a chart",
     "key from to points", with<get_run_history>},
    {"GET", "/v1/runs/{run}/ranks/history", Access::viewer, "what each rank used in the last day, for a heat map",
     "key from to points", with<get_ranks_history>},
    {"GET", "/v1/runs/{run}/ranks/{rank}/history", Access::viewer, "what a rank used in the last day, for a chart",
     "key from to points", with<get_rank_history>},
    {"GET", "/v1/runs/{run}/checkpoints", Access::owner, "committed checkpoints, oldest first", "limit cursor",
     with<get_checkpoints>},
    {"POST", "/v1/runs/{run}/checkpoints/verify", Access::owner,
     "hash the files of a checkpoint that the head can read, and compare them with its manifest", "",
     with<post_verify>},
    {"POST", "/v1/runs/{run}/checkpoints/verified", Access::owner, "tell what verifying checkpoints has shown", "",
     with<post_verified>},
    {"GET", "/v1/runs/{run}/ranks", Access::viewer, "what each rank of the live attempt uses and waits for", "",
     with<get_ranks>},
    {"GET", "/v1/runs/{run}/explain", Access::viewer, "why it is in its state", "", with<get_explain>},
    {"GET", "/v1/runs/{run}/files/{path...}", Access::owner, "a file of the run's directory, or a listing", "list",
     with<get_run_file>},
    {"GET", "/v1/runs/{run}/values", Access::owner, "what the run's processes left for each other", "",
     with<get_values>},
    {"GET", "/v1/runs/{run}/values/{key}", Access::owner, "one value", "", with<get_value>},
    {"PUT", "/v1/runs/{run}/values/{key}", Access::owner, "leave a value, at most 4 MiB", "", with<put_value>},
    {"GET", "/v1/nodes", Access::viewer, "nodes", "limit cursor", with<get_nodes>},
    {"GET", "/v1/nodes/{node}", Access::viewer, "one node", "", with<get_node>},
    {"GET", "/v1/nodes/{node}/history", Access::viewer, "what a node used in the last day, for a chart",
     "key from to points", with<get_node_history>},
    {"POST", "/v1/nodes/{node}/drain", Access::admin, "place nothing new there", "", with<post_drain>},
    {"POST", "/v1/nodes/{node}/quarantine", Access::admin, "place nothing new there; its runs stay", "",
     with<post_quarantine>},
    {"POST", "/v1/nodes/{node}/undrain", Access::admin, "place on it again", "", with<post_undrain>},
    {"POST", "/v1/nodes/{node}/leave", Access::admin, "take the node out of the cluster", "", with<post_leave>},
    {"GET", "/v1/demand", Access::viewer, "what waiting runs ask for, by shape", "limit cursor", with<get_demand>},
    {"GET", "/v1/queue", Access::viewer, "waiting runs in their order", "limit cursor", with<get_queue>},
    {"GET", "/v1/queues", Access::viewer, "queues: share, quota, use", "", with<get_queues>},
    {"PUT", "/v1/queues", Access::admin, "replace the queues by those of a file", "", with<put_queues>},
    {"PUT", "/v1/queues/{queue}", Access::admin, "make a queue, or change its rules", "", with<put_queue>},
    {"DELETE", "/v1/queues/{queue}", Access::admin, "remove a queue without live runs", "", with<delete_queue>},
    {"GET", "/v1/report", Access::viewer, "GPU hours by user, queue or run in a span of time", "from_ms until_ms by",
     with<get_report>},
    {"GET", "/v1/events", Access::viewer, "what happened", "after run limit last follow", with<get_events>},
    {"POST", "/v1/plan", Access::viewer, "where a job would go now", "", with<post_plan>},
    {"GET", "/v1/tokens", Access::admin, "tokens, without their secrets", "limit cursor", with<get_tokens>},
    {"POST", "/v1/tokens", Access::admin, "make a token; its text is shown once", "", with<post_token>},
    {"DELETE", "/v1/tokens/{id}", Access::admin, "revoke a token", "", with<delete_token>},
    {"GET", "/v1/quotas/{user}", Access::admin, "what the head keeps for a user, and how much it may", "",
     with<get_quota>},
    {"PUT", "/v1/quotas/{user}", Access::admin, "set how much the head may keep for a user", "", with<put_quota>},
    {"HEAD", "/v1/blobs/{sha256}", Access::agent_or_user, "is this archive there", "", with<head_blob>},
    {"GET", "/v1/blobs/{sha256}", Access::agent_or_user, "a code archive", "", with<get_blob>},
    {"PUT", "/v1/blobs/{sha256}", Access::user, "store a code archive; its hash is checked", "", with<put_blob>},
    {"GET", "/v1/audit", Access::admin, "who changed what, oldest first", "after limit last cursor", with<get_audit>},
    {"POST", "/v1/join", Access::anyone, "a node's certificate for a join token", "", with<post_join>},
    {"POST", "/v1/certificate", Access::agent, "a new certificate for a node", "", with<post_certificate>},
    {"POST", "/v1/head/backup", Access::admin, "write a backup of the state on the head's machine", "",
     with<post_backup>},
    {"POST", "/v1/head/stop", Access::admin, "end the head; workers go on", "", with<post_head_stop>},
    {"GET", "/v1/storage/{path...}", Access::agent_or_owner, "a file of cluster://, or a listing", "list upload",
     with<get_storage>},
    {"PUT", "/v1/storage/{path...}", Access::agent_or_admin, "write a file of cluster://, durable when answered",
     "append upload offset total", with<put_storage>},
    {"DELETE", "/v1/storage/{path...}", Access::agent_or_admin, "remove a file or a tree of cluster://", "tree",
     with<delete_storage>},
    {"GET", "/v1/agents", Access::agent, "WebSocket of an agent", "", with<get_agents>},
    {"GET", "/metrics", Access::metrics, "for Prometheus", "", with<get_prometheus>},
    {"GET", "/openapi.json", Access::viewer, "this page for machines", "", with<get_openapi>},
};

}  // namespace

std::span<const Route> routes() { return table; }

const char* to_text(Access access) {
    switch (access) {
        case Access::anyone:
            return "nothing";
        case Access::browser:
            return "nothing but the head's own address";
        case Access::metrics:
            return "metrics or viewer";
        case Access::viewer:
            return "viewer";
        case Access::user:
            return "user";
        case Access::owner:
            return "the run's user or admin";
        case Access::admin:
            return "admin";
        case Access::agent:
            return "a node's certificate";
        case Access::agent_or_owner:
            return "the run's user, admin or a node's certificate";
        case Access::agent_or_user:
            return "user or a node's certificate";
        case Access::agent_or_admin:
            return "admin or a node's certificate";
    }
    return "";
}

}  // namespace rtrain::head
