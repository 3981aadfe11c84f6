// What answers the routes, one function each; grouped by file: api_<group>.cpp.
#pragma once

#include "daemon/head/routes.hpp"

namespace rtrain::head {

// api_status.cpp
void get_health(Ask&);
void get_status(Ask&);
void get_openapi(Ask&);
void get_prometheus(Ask&);  // metrics_page.cpp
void post_backup(Ask&);
void post_head_stop(Ask&);

// api_submit.cpp
void post_run(Ask&);
void post_plan(Ask&);

// api_runs.cpp
void get_runs(Ask&);
void get_run(Ask&);
void delete_run(Ask&);
void get_attempts(Ask&);
void get_checkpoints(Ask&);
void get_explain(Ask&);
void get_queue(Ask&);

// api_asks.cpp
void post_stop(Ask&);
void post_checkpoint_ask(Ask&);
void post_resize(Ask&);
void post_stack(Ask&);

// api_logs.cpp, api_metrics.cpp, api_events.cpp
void get_logs(Ask&);
void get_metrics(Ask&);
void get_events(Ask&);

// api_nodes.cpp
void get_nodes(Ask&);
void get_node(Ask&);
void post_drain(Ask&);
void post_undrain(Ask&);
void post_leave(Ask&);

// api_tokens.cpp
void get_tokens(Ask&);
void post_token(Ask&);
void delete_token(Ask&);
void post_join(Ask&);
void post_certificate(Ask&);

// api_blobs.cpp
void head_blob(Ask&);
void get_blob(Ask&);
void put_blob(Ask&);

// api_storage.cpp
void get_storage(Ask&);
void put_storage(Ask&);
void delete_storage(Ask&);

// api_run_files.cpp
void get_run_file(Ask&);
void get_values(Ask&);
void get_value(Ask&);
void put_value(Ask&);
void forget_values(Head&, RunId);

// audit.cpp
void get_audit(Ask&);

// api_agents.cpp
void get_agents(Ask&);

std::string openapi();  // openapi.cpp: from the table

}  // namespace rtrain::head
