// The handlers of the routes, one function each, by file. Beside the request a handler is given the parts of the head
// that its parameters name (requests/route.hpp), and no others.
#pragma once

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

// status.cpp
void get_health(Exchange&, const HeadFacts&);
void get_status(Exchange&, const HeadOptions&, const HeadFacts&, const TokenBook&);
void post_backup(Exchange&, const HeadOptions&, const HeadFacts&);
void post_head_stop(Exchange&, const HeadStop&);

// access/page.cpp
void get_page(Exchange&);

// access/browser_session.cpp
void post_session(Exchange&, const TokenBook&, BrowserSessions&, const Credentials&, state::SqliteJournal&);
void get_session(Exchange&, const Credentials&);
void delete_session(Exchange&, BrowserSessions&, const Credentials&, state::SqliteJournal&);

// metrics_page.cpp
void get_prometheus(Exchange&, MetricsPage&);

// submission.cpp
void post_run(Exchange&, const HeadOptions&, const HeadFacts&, const Ownership&, Submissions&, Blobs&, const UserBytes&,
              const TokenBook&);
void post_restore(Exchange&, const HeadOptions&, const HeadFacts&, const Ownership&, Submissions&, Blobs&,
                  const UserBytes&, const TokenBook&);
void post_plan(Exchange&, const HeadOptions&, const HeadFacts&, const Ownership&, Planner&);

// runs.cpp
void get_runs(Exchange&);
void get_run(Exchange&, const Sessions&);
void get_attempts(Exchange&);
void get_checkpoints(Exchange&);
void get_explain(Exchange&, Planner&, const state::SqliteJournal&);
void get_queue(Exchange&, Planner&);
void get_demand(Exchange&);

// queues.cpp, queue_rules.cpp
void get_queues(Exchange&);
void put_queues(Exchange&);
void put_queue(Exchange&);
void delete_queue(Exchange&);

// reports/use_report.cpp, reports/timeline.cpp
void get_report(Exchange&);
void get_timeline(Exchange&);

// ranks.cpp
void get_ranks(Exchange&, const Sessions&);

// run_removal.cpp
void delete_run(Exchange&, const HeadOptions&, const Ownership&, Sessions&, StoredFiles&);

// run_requests.cpp
void post_stop(Exchange&);
void post_checkpoint_request(Exchange&);
void post_verified(Exchange&);
void post_resize(Exchange&);
void post_priority(Exchange&);
void post_yields(Exchange&);
void post_stack(Exchange&, Sessions&);

// chart_history.cpp
void get_run_history(Exchange&, ChartHistory&);
void get_rank_history(Exchange&, ChartHistory&);
void get_ranks_history(Exchange&, ChartHistory&);
void get_node_history(Exchange&, ChartHistory&);
void get_status_history(Exchange&, ChartHistory&);

// logs.cpp, metrics.cpp, events.cpp
void get_logs(Exchange&, const LogIntake&, LogAnswers&, const state::SqliteJournal&, Feeds&);
void get_metrics(Exchange&, const state::SqliteJournal&, Feeds&);
void get_events(Exchange&, const state::SqliteJournal&, Feeds&);

// nodes.cpp
void get_nodes(Exchange&, const Sessions&);
void get_node(Exchange&, const Sessions&);
void post_drain(Exchange&, const Sessions&);
void post_quarantine(Exchange&, const Sessions&);
void post_undrain(Exchange&, const Sessions&, const Autoscaler&);
void post_leave(Exchange&, Sessions&, TokenBook&, Revocations&);

// access/tokens.cpp
void get_tokens(Exchange&, const TokenBook&);
void post_token(Exchange&, TokenBook&, const Identity&);
void delete_token(Exchange&, TokenBook&);
void post_join(Exchange&, TokenBook&, Revocations&, const Sessions&, const Identity&);
void post_certificate(Exchange&, Revocations&, const Identity&);

// access/quotas.cpp
void get_quota(Exchange&, const UserBytes&);
void put_quota(Exchange&, UserBytes&);

// blobs.cpp
void head_blob(Exchange&, const HeadOptions&, const Ownership&, const Submissions&);
void get_blob(Exchange&, const HeadOptions&, const Ownership&, const Submissions&);
void put_blob(Exchange&, const HeadOptions&, UserBytes&);

// storage.cpp
void get_storage(Exchange&, const HeadOptions&, const PartUploads&);
void put_storage(Exchange&, const HeadOptions&, PartUploads&, StoredFiles&);
void delete_storage(Exchange&, const HeadOptions&, StoredFiles&);

// run_files.cpp
void get_run_file(Exchange&, const HeadOptions&);
void post_verify(Exchange&, const HeadOptions&);
void get_values(Exchange&, const HeadOptions&);
void get_value(Exchange&, const HeadOptions&);
void put_value(Exchange&, const HeadOptions&, UserBytes&, RunLocks&);

// access/audit.cpp
void get_audit(Exchange&, const state::SqliteJournal&);

void get_agents(Exchange&, Sessions&);  // nodes.cpp

}  // namespace rtrain::head
