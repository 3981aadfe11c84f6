// rtrain token create|list|revoke.
#include <nlohmann/json.hpp>

#include "cmd/api.hpp"
#include "cmd/settings.hpp"
#include "cmd/status_text.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

std::string nodes_text(std::int64_t uses) {
    return uses == 1 ? ", for one node" : ", for " + std::to_string(uses) + " nodes";
}

Result<int> token_create(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string role = call.arguments.text("role", call.arguments.has("user") ? "user" : "node");
    json body = {{"role", role}, {"user", call.arguments.text("user")}};
    if (call.arguments.has("expires")) body["expires_ms"] = call.arguments.duration_ms("expires", 0);
    if (call.arguments.has("uses")) body["uses"] = call.arguments.number("uses", 1);
    Result<json> answer = api->post("/v1/tokens", body);
    if (!answer) return answer.error();
    const std::string token = string_of(*answer, "token");
    const std::string expires = string_of(*answer, "expires");
    const std::string line =
        role == "node" ? "rtrain node join " + api->address() + " --token " + token
                       : "rtrain context add NAME --address " + api->address() + " --token " + token + " --ca FILE";
    (*answer)["command"] = line;
    call.out.one(*answer, "token", token + "\n");
    if (call.out.for_people())
        call.out.talk("role " + role + (expires.empty() ? ", without end" : ", until " + expires) +
                      (role == "node" ? nodes_text(answer->value("uses_left", 1)) : "") +
                      "; shown only now. Use it so:\n  " + line);
    return 0;
}

Result<int> token_list(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->list("/v1/tokens");
    if (!answer) return answer.error();
    call.out.list(*answer,
                  {{"ID", "id"},
                   {"ROLE", "role"},
                   {"USER", "user"},
                   {"CREATED", "created"},
                   {"EXPIRES", "expires"},
                   {"REVOKED", "revoked"}},
                  "id", "there are no tokens");
    return 0;
}

Result<int> token_revoke(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string id = call.arguments.argument(0);
    if (call.arguments.has("dry-run")) {
        Result<json> all = api->list("/v1/tokens");
        if (!all) return all.error();
        for (const json& token : (*all)["items"])
            if (string_of(token, "id") == id) {
                call.out.one(
                    token, "id",
                    "would revoke " + id + " (" + string_of(token, "role") + " " + string_of(token, "user") + ")\n");
                return 0;
            }
        return Error{.code = ErrorCode::not_found, .message = "there is no token " + id, .next = "rtrain token list"};
    }
    if (Status sure = confirm(call, "The token " + id + " will be refused from now on."); !sure) return sure.error();
    Result<json> answer = api->remove("/v1/tokens/" + url_part(id));
    if (!answer) return answer.error();
    (*answer)["id"] = id;
    call.out.one(*answer, "id", "revoked " + id + "\n");
    return 0;
}

}  // namespace

std::vector<Command> token_commands() {
    const char* group = "Access";
    return {
        {.words = "token create",
         .group = group,
         .help = "make a token for a node or for a person; shown once",
         .flags = {{.name = "role",
                    .takes = Value::choice,
                    .shown = "ROLE",
                    .help = "node (default; with --user: user), viewer, user or admin",
                    .choices = "node|viewer|user|admin"},
                   {.name = "user", .takes = Value::text, .shown = "NAME", .help = "whose it is"},
                   {.name = "expires", .takes = Value::duration, .shown = "TIME", .help = "for how long (node: 1h)"},
                   {.name = "uses", .takes = Value::number, .shown = "N", .help = "for how many nodes (default 1)"}},
         .handler = token_create},
        {.words = "token list",
         .group = group,
         .help = "list the tokens, without their secrets",
         .handler = token_list},
        {.words = "token revoke",
         .group = group,
         .help = "refuse a token from now on",
         .arguments = {{.name = "ID", .value = Value::text}},
         .flags = {{.name = "dry-run", .help = "say which"}},
         .handler = token_revoke}};
}

}  // namespace rtrain::cmd
