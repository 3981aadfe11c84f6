#include "storage/uri/azure/tokens.hpp"

#include <fstream>
#include <sstream>

namespace rtrain::storage::azure {
namespace {

constexpr const char* resource = "https://storage.azure.com/";
constexpr int machine_patience_s = 2, server_patience_s = 10;
constexpr const char* url_signs = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";

Result<objects::Token> fetch_from_machine(const Settings& settings, http::Connections& connections) {
    const Identity& identity = settings.identity;
    const bool is_app = !identity.endpoint.empty() && !identity.header.empty();
    objects::Parameters query{{"api-version", is_app ? "2019-08-01" : "2018-02-01"}, {"resource", resource}};
    if (!identity.client.empty()) query["client_id"] = identity.client;
    const std::string server = is_app ? identity.endpoint : identity.machine_server + "/metadata/identity/oauth2/token";
    const http::Reply reply =
        connections.send({.method = "GET",
                          .url = server + "?" + objects::query_text(query),
                          .headers = {is_app ? std::pair<std::string, std::string>{"x-identity-header", identity.header}
                                             : std::pair<std::string, std::string>{"metadata", "true"}},
                          .body = {},
                          .connect_s = machine_patience_s,
                          .stall_s = is_app ? server_patience_s : machine_patience_s});
    if (reply.status == 0 || !reply.trouble.empty() || reply.status == 404)
        return Error{ErrorCode::not_found,
                     "no Azure credentials: none of AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY, "
                     "AZURE_STORAGE_SAS_TOKEN, and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE with "
                     "AZURE_CLIENT_ID and AZURE_TENANT_ID, is set, and no managed identity lends a token (" +
                         server + ": " +
                         (reply.trouble.empty() ? "status " + std::to_string(reply.status) : reply.trouble) + ")",
                     "for a job, name AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN in its secrets and set it where you "
                     "submit; for this command or an agent, set one of them in its environment"};
    return objects::read_token(reply, server,
                               "the managed identity" + (identity.client.empty() ? "" : " " + identity.client));
}

// Returns the content of the file with a pod's token, which the cluster renews.
Result<std::string> pods_token(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    std::string token = text.str();
    while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
    if (!objects::is_sendable(token))
        return Error{ErrorCode::unauthorised, "AZURE_FEDERATED_TOKEN_FILE is " + path + ", which holds no token",
                     "does the pod's service account have a workload identity?"};
    return token;
}

Result<objects::Token> fetch_by_form(const Settings& settings, http::Connections& connections) {
    const Identity& identity = settings.identity;
    if (identity.tenant.find_first_not_of(url_signs) != identity.tenant.npos)
        return Error{ErrorCode::unauthorised, "AZURE_TENANT_ID is no name of a tenant", "correct it"};
    std::map<std::string, std::string> fields{{"grant_type", "client_credentials"},
                                              {"client_id", identity.client},
                                              {"scope", std::string(resource) + ".default"}};
    if (settings.kind == Kind::client_secret) {
        fields["client_secret"] = identity.secret;
    } else {
        auto token = pods_token(identity.token_file);
        if (!token) return token.error();
        fields["client_assertion"] = *token;
        fields["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    }
    const std::string form = objects::form_text(fields);
    const http::Reply reply =
        connections.send({.method = "POST",
                          .url = identity.authority + "/" + identity.tenant + "/oauth2/v2.0/token",
                          .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                          .body = {.memory = form, .bytes = static_cast<std::int64_t>(form.size())},
                          .ca_bundle = settings.ca_bundle,
                          .stall_s = server_patience_s});
    return objects::read_token(reply, identity.authority, "the client " + identity.client);
}

}  // namespace

Result<objects::Token> fetch_token(const Settings& settings, http::Connections& connections) {
    return settings.kind == Kind::managed_identity ? fetch_from_machine(settings, connections)
                                                   : fetch_by_form(settings, connections);
}

}  // namespace rtrain::storage::azure
