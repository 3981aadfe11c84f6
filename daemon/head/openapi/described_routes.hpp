// The description of each route of the API: who may use it, its parameters and its answers. openapi.json and the head's
// table of routes are made from these rows.
#pragma once

#include <stdexcept>
#include <string_view>

namespace rtrain::head {

// The least role that may use a route. A higher role may do everything that a lower one may: viewer < user < admin. The
// role `metrics` is separate.
enum class Access {
    anyone,  // no token is needed: /healthz, /v1/join
    // no token is needed, but the request must be for one of the head's own host names: the page, and signing in
    browser,
    metrics,  // the role `metrics`, or viewer and higher
    viewer,
    user,
    owner,  // the user who owns the run {run}, or an admin
    admin,
    agent,           // a caller with a node's certificate
    agent_or_owner,  // an agent, or the user who owns the run whose directory contains {path}, or an admin
    agent_or_user,
    agent_or_admin,
};
const char* to_text(Access access);

struct DescribedRoute {
    const char* method;
    const char* pattern;  // path of the route: "/v1/runs/{run}/stop"; "{path...}" matches the rest of a path
    Access access;
    const char* summary;
    const char* query;   // names of the query parameters, separated by blanks
    const char* status;  // statuses of a successful answer: "200 201"
    const char*
        // form of the answer: a kind of schemas.cpp; "page X": a list of X with a cursor; otherwise a content type
        answer;
    const char* stream;  // kind of each event's data in the stream with follow=true; "" if the route has no stream
};

// clang-format off: a row is a line
inline constexpr DescribedRoute described_routes[] = {
    {"GET", "/healthz", Access::anyone, "is the head there", "", "200", "Health", ""},
    {"GET", "/", Access::browser, "the page, for people", "", "200 304", "text/html", ""},
    {"GET", "/favicon.svg", Access::browser, "its icon", "", "200 304", "image/svg+xml", ""},
    {"GET", "/assets/{file}", Access::browser, "its script and its style sheet", "", "200 304", "text/javascript", ""},
    {"POST", "/v1/session", Access::browser, "sign a browser in, by a token: sets the session's cookie", "", "201", "Session", ""},
    {"GET", "/v1/session", Access::viewer, "who is signed in", "", "200", "Session", ""},
    {"DELETE", "/v1/session", Access::viewer, "sign the browser out", "", "200", "SessionEnded", ""},
    {"GET", "/v1/status", Access::viewer, "the cluster in numbers", "", "200", "Status", ""},
    {"GET", "/v1/status/history", Access::viewer, "what the cluster had, allocated and used, for a chart", "key from to points", "200", "ClusterHistory", ""},
    {"GET", "/v1/timeline", Access::viewer, "which run held which GPU of which node, and when", "from_ms until_ms node", "200", "Timeline", ""},
    {"POST", "/v1/runs", Access::user, "submit a job; the same key submits once", "", "200 201", "Run", ""},
    {"GET", "/v1/runs", Access::viewer, "runs, newest first", "state user name parent all limit cursor", "200", "page Run", ""},
    {"GET", "/v1/runs/{run}", Access::viewer, "one run", "", "200", "Run", ""},
    {"DELETE", "/v1/runs/{run}", Access::owner, "remove a run that has ended", "files dry_run", "200", "RemovedRun", ""},
    {"POST", "/v1/runs/{run}/stop", Access::owner, "stop a run, now or once its next checkpoint is committed", "", "200 202", "Run", ""},
    {"POST", "/v1/runs/{run}/checkpoint", Access::owner, "ask a run for a checkpoint now", "", "200 202", "Run", ""},
    {"POST", "/v1/runs/{run}/resize", Access::owner, "give a run another number of workers", "", "200 202", "Run", ""},
    {"POST", "/v1/runs/{run}/priority", Access::owner, "give a run another priority", "", "202", "Run", ""},
    {"POST", "/v1/runs/{run}/yields", Access::owner, "let a helper of a run or a session yield to waiting runs, or not", "", "202", "Run", ""},
    {"POST", "/v1/runs/{run}/restore", Access::owner, "go on with a run that has ended, from one of its checkpoints", "", "201", "Run", ""},
    {"POST", "/v1/runs/{run}/stack", Access::owner, "let Python ranks write their stacks into their logs", "rank", "202", "Stacks", ""},
    {"GET", "/v1/runs/{run}/attempts", Access::viewer, "attempts, oldest first", "limit cursor", "200", "page Attempt", ""},
    {"GET", "/v1/runs/{run}/logs", Access::owner, "lines of the workers", "rank attempt stream since_ms tail position follow after notices_after states_ms", "200", "application/jsonl", "LogLine"},
    {"GET", "/v1/runs/{run}/metrics", Access::viewer, "reports", "key after rank follow limit cursor", "200", "page Report", "Report"},
    {"GET", "/v1/runs/{run}/metrics/history", Access::viewer, "a metric's least and greatest values, for a chart", "key from to points", "200", "RunHistory", ""},
    {"GET", "/v1/runs/{run}/ranks/history", Access::viewer, "what each rank used in the last day, for a heat map", "key from to points", "200", "RanksHistory", ""},
    {"GET", "/v1/runs/{run}/ranks/{rank}/history", Access::viewer, "what a rank used in the last day, for a chart", "key from to points", "200", "RankHistory", ""},
    {"GET", "/v1/runs/{run}/checkpoints", Access::owner, "committed checkpoints, oldest first", "limit cursor", "200", "page Checkpoint", ""},
    {"POST", "/v1/runs/{run}/checkpoints/verify", Access::owner, "hash the files of a checkpoint that the head can read, and compare them with its manifest", "", "200", "VerifiedFiles", ""},
    {"POST", "/v1/runs/{run}/checkpoints/verified", Access::owner, "tell what verifying checkpoints has shown", "", "200", "VerifiedCheckpoints", ""},
    {"GET", "/v1/runs/{run}/ranks", Access::viewer, "what each rank of the live attempt uses and waits for", "", "200", "page RankUse", ""},
    {"GET", "/v1/runs/{run}/explain", Access::viewer, "why it is in its state", "", "200", "Explanation", ""},
    {"GET", "/v1/runs/{run}/files/{path...}", Access::owner, "a file of the run's directory, or a listing", "list", "200", "application/octet-stream", "FileList"},
    {"GET", "/v1/runs/{run}/values", Access::owner, "what the run's processes left for each other", "", "200", "Values", ""},
    {"GET", "/v1/runs/{run}/values/{key}", Access::owner, "one value", "", "200", "application/octet-stream", ""},
    {"PUT", "/v1/runs/{run}/values/{key}", Access::owner, "leave a value, at most 4 MiB", "", "200", "Value", ""},
    {"GET", "/v1/nodes", Access::viewer, "nodes", "limit cursor", "200", "page Node", ""},
    {"GET", "/v1/nodes/{node}", Access::viewer, "one node", "", "200", "Node", ""},
    {"GET", "/v1/nodes/{node}/history", Access::viewer, "what a node used in the last day, for a chart", "key from to points", "200", "NodeHistory", ""},
    {"POST", "/v1/nodes/{node}/drain", Access::admin, "place nothing new there", "", "200", "Node", ""},
    {"POST", "/v1/nodes/{node}/quarantine", Access::admin, "place nothing new there; its runs stay", "", "200", "Node", ""},
    {"POST", "/v1/nodes/{node}/undrain", Access::admin, "place on it again", "", "200", "Node", ""},
    {"POST", "/v1/nodes/{node}/leave", Access::admin, "take the node out of the cluster", "", "200", "NodeLeft", ""},
    {"GET", "/v1/demand", Access::viewer, "what waiting runs ask for, by shape", "limit cursor", "200", "page Demand", ""},
    {"GET", "/v1/queue", Access::viewer, "waiting runs in their order", "limit cursor", "200", "page Waiting", ""},
    {"GET", "/v1/queues", Access::viewer, "queues: share, quota, use", "", "200", "page Queue", ""},
    {"PUT", "/v1/queues", Access::admin, "replace the queues by those of a file", "", "200", "page Queue", ""},
    {"PUT", "/v1/queues/{queue}", Access::admin, "make a queue, or change its rules", "", "200", "page Queue", ""},
    {"DELETE", "/v1/queues/{queue}", Access::admin, "remove a queue without live runs", "", "200", "page Queue", ""},
    {"GET", "/v1/report", Access::viewer, "GPU hours by user, queue or run in a span of time", "from_ms until_ms by", "200", "page Use", ""},
    {"GET", "/v1/events", Access::viewer, "what happened", "after run limit last follow", "200", "page Event", "Event"},
    {"POST", "/v1/plan", Access::viewer, "where a job would go now", "", "200", "Plan", ""},
    {"GET", "/v1/tokens", Access::admin, "tokens, without their secrets", "limit cursor", "200", "page Token", ""},
    {"POST", "/v1/tokens", Access::admin, "make a token; its text is shown once", "", "201", "Token", ""},
    {"DELETE", "/v1/tokens/{id}", Access::admin, "revoke a token", "", "200", "Token", ""},
    {"GET", "/v1/quotas/{user}", Access::admin, "what the head keeps for a user, and how much it may", "", "200", "Quota", ""},
    {"PUT", "/v1/quotas/{user}", Access::admin, "set how much the head may keep for a user", "", "200", "Quota", ""},
    {"HEAD", "/v1/blobs/{sha256}", Access::agent_or_user, "is this archive there", "", "200", "", ""},
    {"GET", "/v1/blobs/{sha256}", Access::agent_or_user, "a code archive", "", "200", "application/zstd", ""},
    {"PUT", "/v1/blobs/{sha256}", Access::user, "store a code archive; its hash is checked", "", "201", "Blob", ""},
    {"GET", "/v1/audit", Access::admin, "who changed what, oldest first", "after limit last cursor", "200", "page AuditRow", ""},
    {"POST", "/v1/join", Access::anyone, "a node's certificate for a join token", "", "200", "Certificate", ""},
    {"POST", "/v1/certificate", Access::agent, "a new certificate for a node", "", "200", "Certificate", ""},
    {"POST", "/v1/head/backup", Access::admin, "write a backup of the state on the head's machine", "", "200", "Backup", ""},
    {"POST", "/v1/head/stop", Access::admin, "end the head; workers go on", "", "202", "Stopping", ""},
    {"GET", "/v1/storage/{path...}", Access::agent_or_owner, "a file of cluster://, or a listing", "list upload", "200", "application/octet-stream", "StorageDone"},
    {"PUT", "/v1/storage/{path...}", Access::agent_or_admin, "write a file of cluster://, durable when answered", "append upload offset total", "200 201", "StorageDone", ""},
    {"DELETE", "/v1/storage/{path...}", Access::agent_or_admin, "remove a file or a tree of cluster://", "tree", "200", "StorageDone", ""},
    {"GET", "/v1/agents", Access::agent, "WebSocket of an agent", "", "101", "", ""},
    {"GET", "/metrics", Access::metrics, "for Prometheus", "", "200", "text/plain", ""},
    {"GET", "/openapi.json", Access::viewer, "this page for machines", "", "200", "application/json", ""},
};
// clang-format on

// Returns the row of a route. A route without a row does not compile.
consteval const DescribedRoute& described(std::string_view method, std::string_view pattern) {
    for (const DescribedRoute& route : described_routes)
        if (route.method == method && route.pattern == pattern) return route;
    throw std::logic_error("no row describes this route");
}

}  // namespace rtrain::head
