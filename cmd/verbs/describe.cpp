// rtrain describe RUN|NODE and explain RUN: print what happened to a run or a node, and why a run waits.
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/client/follow.hpp"
#include "cmd/text/reasons.hpp"
#include "cmd/text/status_text.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Result<int> describe_run(Invocation& call, Api& api, json run) {
    const std::string id = string_of(run, "run_id");
    Result<json> attempts =
        api.list("/v1/runs/" + url_part(id.empty() ? call.arguments.argument(0) : id) + "/attempts");
    if (!attempts) return attempts.error();
    run["attempt_list"] = (*attempts)["items"];
    Result<json> starts = newest_starts(api, id);
    if (!starts) return starts.error();
    run["starts"] = *std::move(starts);
    run["notice"] = nullptr;
    if (!is_terminal(run)) {
        Result<json> notice = newest_notice(api, id);
        if (!notice) return notice.error();
        run["notice"] = *std::move(notice);
    }
    call.out.document(run, "name", run_text(run, run["attempt_list"]));
    return 0;
}

Result<int> describe(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string name = call.arguments.argument(0);
    Result<json> run = api->get("/v1/runs/" + url_part(name));
    if (run) return describe_run(call, *api, *run);
    if (run.error().code != ErrorCode::not_found) return run.error();
    Result<json> node = api->get("/v1/nodes/" + url_part(name));
    if (node) {
        call.out.document(*node, "node", node_text(*node));
        return 0;
    }
    if (node.error().code != ErrorCode::not_found) return node.error();
    return Error{.code = ErrorCode::not_found,
                 .message = "there is no run and no node \"" + name + "\"",
                 .next = "rtrain runs --all, or rtrain nodes"};
}

Result<int> explain(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->get("/v1/runs/" + url_part(call.arguments.argument(0)) + "/explain");
    if (!answer) return answer.error();
    call.out.document(*answer, "state", explanation_text(*answer));
    return 0;
}

}  // namespace

std::vector<Command> describe_commands() {
    return {{.words = "describe",
             .group = "Runs",
             .help = "tell all about a run (attempts, first failure) or a node",
             .arguments = {{.name = "RUN|NODE", .value = Value::run_or_node}},
             .handler = describe},
            {.words = "explain",
             .group = "Runs",
             .help = "say why a run waits, node by node, and what would let it start",
             .arguments = {{.name = "RUN", .value = Value::run}},
             .handler = explain}};
}

}  // namespace rtrain::cmd
