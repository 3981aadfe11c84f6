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

#include "base/descriptor.hpp"
#include "base/json_text.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "storage/job_spec/job.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/s3/s3.hpp"

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

std::string without_slash(std::string url) {
    while (url.ends_with('/')) url.pop_back();
    return url;
}

std::string endpoint_in(const std::function<std::string(const std::string&)>& value_of) {
    const std::string special = value_of("AWS_ENDPOINT_URL_S3");
    return without_slash(special.empty() ? value_of("AWS_ENDPOINT_URL") : special);
}

std::string given(const StorageAccess& access, const std::string& name) {
    const auto entry = access.secrets.find(name);
    return entry == access.secrets.end() ? "" : entry->second;
}

// Returns the value of a setting for a run with its own credentials. The run's settings replace the agent's in pairs,
// so that neither key nor region is mixed. Configuration files, the certificate authority and the number of tries stay
// the agent's.
std::string variable_of(const StorageAccess& access, const std::string& name) {
    constexpr const char* credentials[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};
    constexpr const char* pairs[][2] = {{"AWS_REGION", "AWS_DEFAULT_REGION"},
                                        {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}};
    if (std::count(std::begin(credentials), std::end(credentials), name) > 0) return given(access, name);
    for (const auto& pair : pairs)
        if ((name == pair[0] || name == pair[1]) && !(given(access, pair[0]) + given(access, pair[1])).empty())
            return given(access, name);
    return process_value(name);
}

// Fails unless the operator allows the endpoint. An agent is in the operator's network. A user who chose the server
// could make it connect to hosts that the user cannot reach.
Status check_endpoint(const spec::StorageRules& rules, const StorageAccess& access) {
    const std::string endpoint = endpoint_in([&](const std::string& name) { return given(access, name); });
    const auto& known = rules.endpoints;
    if (endpoint.empty() || endpoint == storage::own_s3_endpoint() ||
        std::find(known.begin(), known.end(), endpoint) != known.end())
        return Done{};
    return Error{ErrorCode::unauthorised,
                 "the job's AWS_ENDPOINT_URL names " + endpoint + ", which is not the S3 server of this node's agent",
                 "leave it out, or ask who operates the node to list it as one of `endpoints` in --storage-rules"};
}

Status check_secrets(const StorageAccess& access) {
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
        if (given(access, name).empty())
            return Error{ErrorCode::unauthorised,
                         std::string("the run's own ") + name +
                             " is not there: a job's secrets are forgotten when it ends. What is left at its storage "
                             "path can be "
                             "removed with the job's credentials and an S3 program",
                         ""};
    for (const auto& [name, value] : access.secrets)
        for (const char c : value)
            if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
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
    const bool bucket = storage_path.starts_with("s3://");
    spec::StorageRules rules;
    if (!rules_file.empty()) {
        auto read = load_storage_rules(rules_file);
        if (!read) return read.error();
        rules = std::move(*read);
    }
    const StoragePlace as_named{.path = storage_path};
    if (bucket && access.own) {
        if (Status fine = check_endpoint(rules, access); !fine) return fine.error();
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
    if (bucket && !warned.exchange(true))
        warn("without --storage-rules every user may name every s3:// path that this agent's credentials reach");
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
    if (!access.own) return storage::open_s3_store(storage_path);
    if (Status fine = check_secrets(access); !fine) return fine.error();
    return storage::open_s3_store(storage_path,
                                  [access](const std::string& name) { return variable_of(access, name); });
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
