// Shows admins the bytes that the head keeps for a user, by kind, with the user's limit. Admins may set another limit.
#include "daemon/head/access/quotas.hpp"

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t limit_most = std::int64_t{1} << 50;

struct KeptPlace {
    const char* name;
    std::int64_t KeptBytes::* bytes;
};
constexpr KeptPlace kept_places[] = {{"memory", &KeptBytes::memory},
                                     {"database", &KeptBytes::database},
                                     {"files", &KeptBytes::files},
                                     {"storage", &KeptBytes::storage}};

json bytes_json(const KeptBytes& bytes) {
    json out = json::object();
    for (const KeptPlace& place : kept_places) out[place.name] = bytes.*place.bytes;
    return out;
}

json quota_json(const UserBytes& bytes, const HeadOptions& options, const std::string& user) {
    const UserBytes::Account account = bytes.of(user);
    json kinds = json::object();
    for (const auto& [kind, of_kind] : account.kinds) kinds[to_text(kind)] = bytes_json(of_kind);
    return {{"user", user},
            {"used", bytes_json(account.sum)},
            {"limit", bytes_json(bytes.limit_of(user))},
            {"own_limit", bytes.own_limits().contains(user)},
            {"streams", bytes.streams_of(user)},
            {"streams_limit", options.user_streams},
            {"kinds", std::move(kinds)}};
}

// Returns the limit that the body asks for: a number for each place that is to change, or "default".
Result<std::optional<KeptBytes>> limit_in(const json& body, KeptBytes limit) {
    if (body.value("default", json()) == json(true)) return std::optional<KeptBytes>();
    bool any = false;
    for (const KeptPlace& place : kept_places) {
        const json value = body.value(place.name, json());
        if (value.is_null()) continue;
        const bool number = value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
                            (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t(limit_most));
        if (!number || value.get<std::int64_t>() > limit_most)
            return Error{ErrorCode::usage, std::string(place.name) + " is a number of bytes, at most 1 PiB", ""};
        limit.*place.bytes = value.get<std::int64_t>();
        any = true;
    }
    if (any) return std::optional(limit);
    return Error{ErrorCode::usage, "give memory, database, files or storage in bytes, or default: true",
                 "rtrain access quota --help"};
}

}  // namespace

void get_quota(Exchange& exchange, const UserBytes& bytes, const HeadOptions& options) {
    const std::string user = exchange.variables["user"];
    if (!is_user_name(user)) return refuse(exchange, bad_user_name());
    reply_json(exchange, 200, quota_json(bytes, options, user));
}

void put_quota(Exchange& exchange, UserBytes& bytes, const HeadOptions& options) {
    const std::string user = exchange.variables["user"];
    if (!is_user_name(user)) return refuse(exchange, bad_user_name());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto own = limit_in(*body, bytes.limit_of(user));
    if (!own) return refuse(exchange, own.error());
    bytes.limit(user, *own);
    audit_detail(exchange, *own ? "limit=" + quota_text(*own) : "limit=default");
    exchange.events.save({.tokens = {},
                          .settings = {{quota_prefix + user, quota_text(*own)}},
                          .done = [kept = exchange, user, &bytes, &options]() mutable {
                              reply_json(kept, 200, quota_json(bytes, options, user));
                          }});
}

}  // namespace rtrain::head
