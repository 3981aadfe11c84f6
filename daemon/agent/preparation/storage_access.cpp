// See storage_access.hpp.
#include "daemon/agent/preparation/storage_access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/bucket_secrets.hpp"
#include "base/descriptor.hpp"
#include "base/json_text.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "storage/job_spec/job.hpp"
#include "storage/uri/azure/azure.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/gcs/gcs.hpp"
#include "storage/uri/objects/client.hpp"
#include "storage/uri/open_store.hpp"

namespace rtrain::agent {
namespace {

using protocol::StorageAccess;

std::string kept_file(const std::string& attempt_directory) { return attempt_directory + "/s3-credentials"; }

bool owned_by_us(const struct stat& info) { return info.st_uid == 0 || info.st_uid == ::geteuid(); }

// Returns why other users could change the file; empty if they cannot.
std::string weakness(const std::string& file, const struct stat& info) {
    if (!S_ISREG(info.st_mode)) return "it is no regular file";
    if (!owned_by_us(info)) return "it belongs to uid " + std::to_string(info.st_uid);
    if ((info.st_mode & 022) != 0) return "others than its owner may write it";
    return exchangeable(file);
}

std::string process_value(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value ? value : "";
}

std::string given(const StorageAccess& access, const std::string& name) {
    const auto entry = access.secrets.find(name);
    return entry == access.secrets.end() ? "" : entry->second;
}

bool contains(const VariableNames& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool are_credentials(const BucketSecrets& kind, std::string_view name) {
    return contains(kind.further, name) || contains(kind.agents_own, name) ||
           std::any_of(kind.sets.begin(), kind.sets.end(),
                       [&](const VariableNames& set) { return contains(set, name); });
}

bool has_all(const StorageAccess& access, const VariableNames& names) {
    return std::none_of(names.begin(), names.end(),
                        [&](std::string_view name) { return given(access, std::string(name)).empty(); });
}

// Returns the value of a setting for a run with its own credentials. The run's settings replace the agent's in groups,
// so that neither key nor region is mixed. Configuration files, the certificate authority and the number of tries stay
// the agent's.
std::string variable_of(const BucketSecrets& kind, const StorageAccess& access, const std::string& name) {
    if (are_credentials(kind, name)) return given(access, name);
    for (const VariableNames& group : kind.settings) {
        if (!contains(group, name)) continue;
        for (const std::string_view other : group)
            if (!given(access, std::string(other)).empty()) return given(access, name);
    }
    return process_value(name);
}

struct NamedServer {
    std::string variable, url;  // `variable`: the usual name; `url`: "http://host:port", empty: none is named
};

NamedServer server_of(const BucketSecrets& kind, const StorageAccess& access) {
    for (const std::string_view name : kind.endpoints) {
        std::string url = given(access, std::string(name));
        while (url.ends_with('/')) url.pop_back();
        if (!url.empty() && url.find("://") == url.npos) url = "http://" + url;
        if (kind.schemes.front() == "az://" && !url.empty())
            url = storage::objects::origin_of(url).origin;  // no account
        if (!url.empty()) return {std::string(kind.endpoints.back()), url};
    }
    return {};
}

// Fails unless the operator allows the servers within the run's credentials: of tokens, and of a connection string.
Status check_servers_in_secrets(const StorageAccess& access,
                                const std::function<bool(const std::string&)>& is_allowed) {
    const std::string key = given(access, "GOOGLE_SERVICE_ACCOUNT_KEY");
    if (!key.empty()) {
        const auto tokens = storage::foreign_token_server(key);
        if (!tokens) return tokens.error();
        if (!is_allowed(*tokens))
            return Error{
                ErrorCode::unauthorised,
                "the job's GOOGLE_SERVICE_ACCOUNT_KEY takes its tokens at " + *tokens + ", which is not Google's",
                "take a key as Google made it, or ask who operates the node to list that server as one of "
                "`endpoints` in --storage-rules"};
    }
    const std::string text = given(access, "AZURE_STORAGE_CONNECTION_STRING");
    if (text.empty()) return Done{};
    const auto server = storage::foreign_blob_server(text);
    if (!server) return server.error();
    if (is_allowed(*server)) return Done{};
    return Error{ErrorCode::unauthorised,
                 "the job's AZURE_STORAGE_CONNECTION_STRING names " + *server + ", which is not Azure's",
                 "ask who operates the node to list that server as one of `endpoints` in --storage-rules"};
}

// Fails unless the operator allows the servers that the run names. An agent is in the operator's network. A user who
// chose the server could make it connect to hosts that the user cannot reach.
Status check_endpoint(const spec::StorageRules& rules, const StorageAccess& access, const BucketSecrets& kind,
                      const std::string& storage_path) {
    const auto uri = storage::parse_uri(storage_path);
    if (!uri) return uri.error();
    const std::string own = storage::own_endpoint(uri->scheme);
    const auto& known = rules.endpoints;
    const auto is_allowed = [&](const std::string& url) {
        return url.empty() || url == own || std::find(known.begin(), known.end(), url) != known.end();
    };
    const NamedServer server = server_of(kind, access);
    if (!is_allowed(server.url))
        return Error{ErrorCode::unauthorised,
                     "the job's " + server.variable + " names " + server.url + ", which is not the " +
                         std::string(kind.kind) + " server of this node's agent",
                     "leave it out, or ask who operates the node to list it as one of `endpoints` in --storage-rules"};
    return check_servers_in_secrets(access, is_allowed);
}

// Returns the variable without which the run's own credentials are incomplete.
std::string missing_secret(const BucketSecrets& kind, const StorageAccess& access) {
    const VariableNames* best = &kind.sets.front();
    for (const VariableNames& set : kind.sets)
        for (const std::string_view name : set)
            if (!given(access, std::string(name)).empty()) best = &set;
    for (const std::string_view name : *best)
        if (given(access, std::string(name)).empty()) return std::string(name);
    return std::string(best->front());
}

Status check_secrets(const BucketSecrets& kind, const StorageAccess& access) {
    if (std::none_of(kind.sets.begin(), kind.sets.end(), [&](const auto& set) { return has_all(access, set); }))
        return Error{ErrorCode::unauthorised,
                     "the run's own " + missing_secret(kind, access) +
                         " is not there: a job's secrets are forgotten when it ends. What is left at its storage "
                         "path can be removed with the job's credentials and a program for " +
                         std::string(kind.kind),
                     ""};
    for (const auto& [name, value] : access.secrets)
        for (const char c : value)
            if (!contains(kind.texts, name) && (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f))
                return Error{ErrorCode::invalid, "the job's " + name + " has a space or a control character", ""};
    return Done{};
}

std::string place_file(const std::string& attempt_directory) { return attempt_directory + "/storage-place"; }

// Returns true if the directory is allowed by a rule. The operator's links in a rule's directory are followed.
// Directories that the path does not need are not read, since one may be a mount that hangs.
bool leads_into(const spec::StorageRules& rules, const spec::StorageUser& who, const std::string& directory) {
    for (const std::string& allowed : spec::allowed_directories(rules, who)) {
        const auto real = storage::real_directory(allowed);
        if (real && (directory == *real || directory.starts_with(*real == "/" ? *real : *real + "/"))) return true;
    }
    return false;
}

// Judges the directory that the path leads to. No link on the way to it is followed from then on.
Result<StoragePlace> judged_directory(const spec::StorageRules& rules, const spec::StorageUser& who,
                                      const std::string& path, const WorkerUser& user) {
    const auto real = [&]() -> Result<std::string> {
        const UserRights::Worn worn{UserRights(user)};
        if (!worn.taken()) return worn.taken().error();
        return storage::real_directory(path);
    }();
    if (!real) return real.error();
    Status fine = spec::may_use(rules, who, *real);
    if (!fine && leads_into(rules, who, *real)) fine = Done{};
    if (fine) return StoragePlace{.path = *real, .links = storage::Links::refused};
    if (*real == path) return fine.error();
    return Error{fine.error().code, path + " leads to " + *real + ": " + fine.error().message, fine.error().next};
}

}  // namespace

Result<spec::StorageRules> load_storage_rules(const std::string& file) {
    const auto unusable = [&](const std::string& why) {
        return Error{ErrorCode::unreachable, "the storage rules in " + file + " cannot be used: " + why,
                     "it must belong to root or the agent's user, and be writable by nobody else"};
    };
    const storage::Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info{};
    if (!opened.open() || ::fstat(opened.number(), &info) != 0) return unusable(std::strerror(errno));
    if (const std::string why = weakness(file, info); !why.empty()) return unusable(why);
    std::string text;
    char piece[4096];
    ssize_t got = 0;
    constexpr std::size_t bytes_most = 1 << 20;
    while (text.size() <= bytes_most && (got = ::read(opened.number(), piece, sizeof piece)) > 0)
        text.append(piece, static_cast<std::size_t>(got));
    if (got < 0) return unusable(std::strerror(errno));
    spec::StorageRulesAnswer answer = spec::read_storage_rules(text);
    if (answer.rules) return std::move(*answer.rules);
    std::string all = "the storage rules in " + file + " cannot be used:";
    for (const Problem& problem : answer.problems) all += "\n" + spec::problem_text(problem, file, text);
    return Error{ErrorCode::unreachable, all, "configs/storage-rules.yaml shows every field"};
}

Result<StoragePlace> may_use_storage(const std::string& rules_file, const StorageAccess& access,
                                     const std::string& storage_path, const WorkerUser& user) {
    const BucketSecrets* bucket = bucket_secrets(storage_path);
    spec::StorageRules rules;
    if (!rules_file.empty()) {
        auto read = load_storage_rules(rules_file);
        if (!read) return read.error();
        rules = std::move(*read);
    }
    const StoragePlace as_named{.path = storage_path};
    if (bucket != nullptr && access.own) {
        if (Status fine = check_endpoint(rules, access, *bucket, storage_path); !fine) return fine.error();
        return as_named;
    }
    const auto place = spec::normal_place(storage_path);
    if (!rules_file.empty() && place && place->front() == '/' && spec::names_directories(rules))
        return judged_directory(rules, {access.user, access.queue}, *place, user);
    if (!rules_file.empty()) {
        if (Status fine = spec::may_use(rules, {access.user, access.queue}, storage_path); !fine) return fine.error();
        return as_named;
    }
    static std::atomic<bool> warned{false};
    if (bucket != nullptr && !warned.exchange(true))
        warn("without --storage-rules every user may name every bucket that this agent's credentials reach");
    return as_named;
}

Status keep_place(const StoragePlace& place, const std::string& attempt_directory) {
    if (place.links == storage::Links::followed) return Done{};
    return write_whole(place_file(attempt_directory), place.path, 0600, Durable::no);
}

StoragePlace kept_place(const std::string& storage_path, const std::string& attempt_directory) {
    const auto kept = read_whole(place_file(attempt_directory));
    if (!kept || kept->empty()) return {.path = storage_path};
    return {.path = *kept, .links = storage::Links::refused};
}

Result<std::unique_ptr<storage::Store>> open_bucket(const StorageAccess& access, const std::string& storage_path) {
    const BucketSecrets* kind = bucket_secrets(storage_path);
    if (!access.own || kind == nullptr) return storage::open_store(storage_path);
    if (Status fine = check_secrets(*kind, access); !fine) return fine.error();
    return storage::open_bucket_store(
        storage_path, [access, kind](const std::string& name) { return variable_of(*kind, access, name); });
}

Status keep_credentials(const StorageAccess& access, const std::string& attempt_directory) {
    if (!access.own) return Done{};
    const nlohmann::json values(access.secrets);
    return write_whole(kept_file(attempt_directory), json_text(values), 0600, Durable::no);
}

void take_kept_credentials(StorageAccess& access, const std::string& attempt_directory) {
    if (!access.own || !access.secrets.empty()) return;
    const auto text = read_whole(kept_file(attempt_directory));
    const nlohmann::json values = text ? parse_json(*text) : nlohmann::json();
    if (!values.is_object()) return;
    for (const auto& [name, value] : values.items())
        if (value.is_string()) access.secrets[name] = value.get<std::string>();
}

}  // namespace rtrain::agent
