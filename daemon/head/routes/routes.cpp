// See routes.hpp.
#include "daemon/head/routes/routes.hpp"

#include <iterator>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/openapi/openapi.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

void get_openapi(Exchange& exchange) { reply(exchange, 200, openapi()); }

constexpr Route table[] = {
    {described("GET", "/healthz"), with<get_health>},
    {described("GET", "/"), with<get_page>},
    {described("GET", "/favicon.svg"), with<get_page>},
    {described("GET", "/assets/{file}"), with<get_page>},
    {described("POST", "/v1/session"), with<post_session>},
    {described("GET", "/v1/session"), with<get_session>},
    {described("DELETE", "/v1/session"), with<delete_session>},
    {described("GET", "/v1/status"), with<get_status>},
    {described("GET", "/v1/status/history"), with<get_status_history>},
    {described("GET", "/v1/timeline"), with<get_timeline>},
    {described("POST", "/v1/runs"), with<post_run>},
    {described("GET", "/v1/runs"), with<get_runs>},
    {described("GET", "/v1/runs/{run}"), with<get_run>},
    {described("DELETE", "/v1/runs/{run}"), with<delete_run>},
    {described("POST", "/v1/runs/{run}/stop"), with<post_stop>},
    {described("POST", "/v1/runs/{run}/checkpoint"), with<post_checkpoint_request>},
    {described("POST", "/v1/runs/{run}/resize"), with<post_resize>},
    {described("POST", "/v1/runs/{run}/priority"), with<post_priority>},
    {described("POST", "/v1/runs/{run}/yields"), with<post_yields>},
    {described("POST", "/v1/runs/{run}/restore"), with<post_restore>},
    {described("POST", "/v1/runs/{run}/stack"), with<post_stack>},
    {described("GET", "/v1/runs/{run}/attempts"), with<get_attempts>},
    {described("GET", "/v1/runs/{run}/logs"), with<get_logs>},
    {described("GET", "/v1/runs/{run}/metrics"), with<get_metrics>},
    {described("GET", "/v1/runs/{run}/metrics/history"), with<get_run_history>},
    {described("GET", "/v1/runs/{run}/ranks/history"), with<get_ranks_history>},
    {described("GET", "/v1/runs/{run}/ranks/{rank}/history"), with<get_rank_history>},
    {described("GET", "/v1/runs/{run}/checkpoints"), with<get_checkpoints>},
    {described("POST", "/v1/runs/{run}/checkpoints/verify"), with<post_verify>},
    {described("POST", "/v1/runs/{run}/checkpoints/verified"), with<post_verified>},
    {described("GET", "/v1/runs/{run}/ranks"), with<get_ranks>},
    {described("GET", "/v1/runs/{run}/explain"), with<get_explain>},
    {described("GET", "/v1/runs/{run}/files/{path...}"), with<get_run_file>},
    {described("GET", "/v1/runs/{run}/values"), with<get_values>},
    {described("GET", "/v1/runs/{run}/values/{key}"), with<get_value>},
    {described("PUT", "/v1/runs/{run}/values/{key}"), with<put_value>},
    {described("GET", "/v1/nodes"), with<get_nodes>},
    {described("GET", "/v1/nodes/{node}"), with<get_node>},
    {described("GET", "/v1/nodes/{node}/history"), with<get_node_history>},
    {described("POST", "/v1/nodes/{node}/drain"), with<post_drain>},
    {described("POST", "/v1/nodes/{node}/quarantine"), with<post_quarantine>},
    {described("POST", "/v1/nodes/{node}/undrain"), with<post_undrain>},
    {described("POST", "/v1/nodes/{node}/leave"), with<post_leave>},
    {described("GET", "/v1/demand"), with<get_demand>},
    {described("GET", "/v1/queue"), with<get_queue>},
    {described("GET", "/v1/queues"), with<get_queues>},
    {described("PUT", "/v1/queues"), with<put_queues>},
    {described("PUT", "/v1/queues/{queue}"), with<put_queue>},
    {described("DELETE", "/v1/queues/{queue}"), with<delete_queue>},
    {described("GET", "/v1/report"), with<get_report>},
    {described("GET", "/v1/events"), with<get_events>},
    {described("POST", "/v1/plan"), with<post_plan>},
    {described("GET", "/v1/tokens"), with<get_tokens>},
    {described("POST", "/v1/tokens"), with<post_token>},
    {described("DELETE", "/v1/tokens/{id}"), with<delete_token>},
    {described("GET", "/v1/quotas/{user}"), with<get_quota>},
    {described("PUT", "/v1/quotas/{user}"), with<put_quota>},
    {described("HEAD", "/v1/blobs/{sha256}"), with<head_blob>},
    {described("GET", "/v1/blobs/{sha256}"), with<get_blob>},
    {described("PUT", "/v1/blobs/{sha256}"), with<put_blob>},
    {described("GET", "/v1/audit"), with<get_audit>},
    {described("POST", "/v1/join"), with<post_join>},
    {described("POST", "/v1/certificate"), with<post_certificate>},
    {described("POST", "/v1/head/backup"), with<post_backup>},
    {described("POST", "/v1/head/stop"), with<post_head_stop>},
    {described("GET", "/v1/storage/{path...}"), with<get_storage>},
    {described("PUT", "/v1/storage/{path...}"), with<put_storage>},
    {described("DELETE", "/v1/storage/{path...}"), with<delete_storage>},
    {described("GET", "/v1/agents"), with<get_agents>},
    {described("GET", "/metrics"), with<get_prometheus>},
    {described("GET", "/openapi.json"), with<get_openapi>},
};
static_assert(std::size(table) == std::size(described_routes), "a described route has no handler");

}  // namespace

std::span<const Route> routes() { return table; }

}  // namespace rtrain::head
