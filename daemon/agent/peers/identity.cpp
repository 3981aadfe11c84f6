// Joins, renews and leaves: the node's certificate.
#include "daemon/agent/peers/identity.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/disk/short_names.hpp"
#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/agent/peers/joining.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "daemon/agent/workers/launcher.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;

std::string folder(const std::string& data_dir) { return data_dir + "/identity"; }

Error refused(const net::Response& answer, const std::string& doing) {
    const json body = parse_json(answer.body);
    Error error{ErrorCode::unauthorised, doing + ": status " + std::to_string(answer.status), ""};
    if (!body.is_object()) return error;
    error.message = doing + ": " + body.value("message", "status " + std::to_string(answer.status));
    error.next = body.value("next", "");
    if (body.value("code", "") == "conflict") error.code = ErrorCode::conflict;
    if (body.value("code", "") == "invalid") error.code = ErrorCode::invalid;
    return error;
}

struct Keys {
    std::string certificate, private_key, ca;
};

constexpr const char* files_before[] = {"/certificate.pem", "/key.pem", "/ca.pem"};  // files of older agents

std::optional<Keys> keys_of(const json& node, const std::string& at) {
    if (node.contains("private_key"))
        return Keys{node.value("certificate", ""), node.value("private_key", ""), node.value("ca", "")};
    const auto certificate = read_whole(at + files_before[0]), key = read_whole(at + files_before[1]),
               ca = read_whole(at + files_before[2]);
    if (!certificate || !key || !ca) return std::nullopt;
    return Keys{*certificate, *key, *ca};
}

}  // namespace

bool is_refused_by_head(const Identity& identity) {
    net::Endpoint head = head_endpoint(identity);
    head.answer_timeout_ms = head.connect_timeout_ms;
    const auto answer =
        net::Client(std::move(head)).call({.method = "HEAD", .target = "/v1/blobs/" + std::string(64, '0')});
    return answer && (answer->status == 401 || answer->status == 403);
}

std::string host_name() {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return "node";
    return name;
}

net::Endpoint joining_endpoint(const JoinWish& wish) {
    return {.host = wish.head_host, .port = wish.head_port, .ca_fingerprint = wish.ca_fingerprint};
}

Result<Identity> request_to_join(net::Client& head, const JoinWish& wish) {
    auto request = security::make_request("node:" + wish.node);
    if (!request) return request.error();
    const json body{{"token", wish.token}, {"node", wish.node}, {"request", request->request}};
    auto answer = head.call({.method = "POST",
                             .target = "/v1/join",
                             .body = json_text(body),
                             .headers = {{"content-type", "application/json"}}});
    if (!answer) return answer.error();
    if (answer->status >= 300) return refused(*answer, "joining the cluster at " + wish.head_host);
    const json reply = parse_json(answer->body);
    if (!reply.is_object()) return Error{ErrorCode::io, "the head's answer to the join is not JSON", ""};
    Identity identity{.node = reply.value("node", wish.node),
                      .cluster_id = reply.value("cluster_id", ""),
                      .head_host = wish.head_host,
                      .head_port = wish.head_port,
                      .certificate = reply.value("certificate", ""),
                      .private_key = request->private_key,
                      .ca = reply.value("ca", "")};
    const auto print = security::fingerprint(identity.ca);
    if (!print || *print != wish.ca_fingerprint)
        return Error{ErrorCode::unauthorised,
                     "the head at " + wish.head_host + " has another authority than the token says",
                     "someone may sit between this node and the head; make a new token on the head itself"};
    return identity;
}

Result<Identity> load_identity(const std::string& data_dir) {
    const std::string at = folder(data_dir);
    const auto text = read_whole(at + "/node.json");
    if (!text)
        return Error{
            ErrorCode::not_found, "this node has not joined a cluster (" + at + " is missing)",
            "rtrain node join HOST:PORT --token T; an admin's `rtrain token create --role node` prints that line"};
    const json in = parse_json(*text);
    const auto keys = in.is_object() ? keys_of(in, at) : std::nullopt;
    if (!keys)
        return Error{ErrorCode::damaged, "the identity in " + at + " is incomplete",
                     "remove the directory and join again with a new token"};
    return Identity{.node = in.value("node", ""),
                    .cluster_id = in.value("cluster_id", ""),
                    .head_host = in.value("head_host", ""),
                    .head_port = in.value("head_port", std::uint16_t{7433}),
                    .certificate = keys->certificate,
                    .private_key = keys->private_key,
                    .ca = keys->ca};
}

// Saves the identity in one file, so that a kill cannot leave a new certificate with an old key.
Status save_identity(const std::string& data_dir, const Identity& identity) {
    const std::string at = folder(data_dir);
    if (Status status = make_directory(data_dir, 0711); !status) return status;
    if (Status status = make_directory(at, 0700); !status) return status;
    const json node{{"node", identity.node},
                    {"cluster_id", identity.cluster_id},
                    {"head_host", identity.head_host},
                    {"head_port", identity.head_port},
                    {"certificate", identity.certificate},
                    {"private_key", identity.private_key},
                    {"ca", identity.ca}};
    if (Status kept = write_whole(at + "/node.json", json_text(node, 2) + "\n", 0600, Durable::yes); !kept) return kept;
    for (const char* name : files_before) ::unlink((at + name).c_str());
    return Done{};
}

std::string host_port(const Identity& identity) {
    const std::string& host = identity.head_host;
    return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(identity.head_port);
}

net::Endpoint head_endpoint(const Identity& identity) {
    return {.host = identity.head_host,
            .port = identity.head_port,
            .ca = identity.ca,
            .certificate = identity.certificate,
            .private_key = identity.private_key};
}

Result<bool> renew(Identity& identity, const std::string& data_dir, std::int64_t now_wall_ms, std::int64_t margin_ms) {
    const auto ends = security::expires_wall_ms(identity.certificate);
    if (!ends) return ends.error();
    if (*ends - now_wall_ms > margin_ms) return false;
    auto request = security::make_request("node:" + identity.node);
    if (!request) return request.error();
    auto answer = net::Client(head_endpoint(identity))
                      .call({.method = "POST",
                             .target = "/v1/certificate",
                             .body = json_text(json{{"request", request->request}}),
                             .headers = {{"content-type", "application/json"}}});
    if (!answer) return answer.error();
    if (answer->status >= 300) return refused(*answer, "renewing this node's certificate");
    const json reply = parse_json(answer->body);
    if (!reply.is_object() || reply.value("certificate", "").empty())
        return Error{ErrorCode::io, "the head's answer to the renewal has no certificate", ""};
    identity.certificate = reply.value("certificate", "");
    identity.private_key = request->private_key;
    if (Status saved = save_identity(data_dir, identity); !saved) return saved.error();
    return true;
}

Result<DirectoryLock> DirectoryLock::take(const std::string& data_dir) {
    if (Status status = make_directory(data_dir, 0711); !status) return status.error();
    const std::string path = data_dir + "/lock";
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) return Error{ErrorCode::io, "opening " + path + ": " + std::strerror(errno), ""};
    DirectoryLock lock(descriptor);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        char owner[32] = {};
        if (::pread(descriptor, owner, sizeof owner - 1, 0) <= 0) owner[0] = '?';
        return Error{ErrorCode::conflict,
                     "an agent (process " + std::string(owner) + ") serves from " + data_dir + " already",
                     "give this one another --data directory, or stop the other"};
    }
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, pid.data(), pid.size(), 0) < 0)
        return Error{ErrorCode::io, "writing " + path + ": " + std::strerror(errno), ""};
    return lock;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
DirectoryLock::~DirectoryLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace rtrain::agent

namespace rtrain {
namespace {

// Ends the workers of a node that was removed from the cluster. The head has given them up, and no other process would
// end them.
void end_given_up(const std::string& data_dir, const std::string& node) {
    std::vector<std::string> damaged;
    for (const auto& saved : agent::kept_attempts(agent::NodeFiles{data_dir, ""}, agent::live_attempt_file, damaged))
        agent::kill_strays(agent::attempt_text(saved.prepare, saved.number), node);
}

// Continues with the existing identity, for a join without a token. Fails if the head refuses it.
Status go_on(const AgentOptions& options) {
    auto lock = agent::DirectoryLock::take(options.data_dir);
    if (!lock) return lock.error();
    auto known = agent::load_identity(options.data_dir);
    if (!known) return known.error();
    if (!options.node.empty() && options.node != known->node)
        return Error{ErrorCode::conflict,
                     options.data_dir + " has the identity of node " + known->node + ", not of " + options.node,
                     "give this one another --data directory, or a token"};
    known->head_host = options.head_host;
    known->head_port = options.head_port;
    if (!agent::is_refused_by_head(*known)) return agent::save_identity(options.data_dir, *known);
    end_given_up(options.data_dir, known->node);
    return Error{ErrorCode::unauthorised, "node " + known->node + " has left the cluster, or was revoked",
                 "to join again: rtrain token create --role node, then rtrain node join HOST:PORT --token T"};
}

}  // namespace

Status join(const AgentOptions& options, const std::string& token_text) {
    if (token_text.empty()) return go_on(options);
    auto token = security::parse_token(token_text);
    if (!token) return token.error();
    if (!token->for_node)
        return Error{ErrorCode::unauthorised, "this is a user's token; a node joins with a node token",
                     "rtrain token create --role node"};
    if (auto offer = agent::discover(agent::wishes(options)); !offer) return offer.error();
    auto lock = agent::DirectoryLock::take(options.data_dir);  // an agent that runs here renews its identity itself
    if (!lock) return lock.error();
    std::optional<std::string> refused_node;
    if (auto old = agent::load_identity(options.data_dir)) {
        const auto print = security::fingerprint(old->ca);
        if (print && *print == token->ca_fingerprint && (options.node.empty() || options.node == old->node)) {
            old->head_host = options.head_host;
            old->head_port = options.head_port;
            if (!agent::is_refused_by_head(*old)) return agent::save_identity(options.data_dir, *old);
            refused_node = old->node;
        }
    }
    if (refused_node) end_given_up(options.data_dir, *refused_node);
    const agent::JoinWish wish{.node = options.node.empty() ? agent::host_name() : options.node,
                               .head_host = options.head_host,
                               .head_port = options.head_port,
                               .token = token_text,
                               .ca_fingerprint = token->ca_fingerprint};
    net::Client head(agent::joining_endpoint(wish));
    auto identity = agent::request_to_join(head, wish);
    if (!identity) return identity.error();
    return agent::save_identity(options.data_dir, *identity);
}

bool serves_as_joined(const AgentOptions& options, const std::string& token_text) {
    if (auto lock = agent::DirectoryLock::take(options.data_dir); lock || lock.error().code != ErrorCode::conflict)
        return false;
    const auto known = agent::load_identity(options.data_dir);
    if (!known || (!options.node.empty() && options.node != known->node)) return false;
    if (token_text.empty()) return true;
    const auto token = security::parse_token(token_text);
    const auto print = security::fingerprint(known->ca);
    return token && token->for_node && print && *print == token->ca_fingerprint;
}

Result<JoinedNode> joined_node(const std::string& data_dir) {
    const auto known = agent::load_identity(data_dir);
    if (!known) return known.error();
    return JoinedNode{.name = known->node, .cluster_id = known->cluster_id};
}

Status forget_identity(const std::string& data_dir) {
    auto lock = agent::DirectoryLock::take(data_dir);
    if (!lock) return lock.error();
    agent::remove_tree(data_dir + "/identity");
    agent::remove_short_directory(data_dir);
    return Done{};
}

}  // namespace rtrain
