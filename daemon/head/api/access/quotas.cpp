// Shows admins the bytes that the head keeps for a user, by kind, with the user's limit. Admins may set another limit.
#include "daemon/head/access/quotas.hpp"

#include <utility>

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

json quota_json(const UserBytes& bytes, const std::string& user) {
    const UserBytes::Account account = bytes.of(user);
    json kinds = json::object();
    for (const auto& [kind, of_kind] : account.kinds) kinds[to_text(kind)] = bytes_json(of_kind);
    return {{"user", user},
            {"used", bytes_json(account.sum)},
            {"limit", bytes_json(bytes.limit_of(user))},
            {"own_limit", !quota_text(own_limits_of(bytes, user)).empty()},
            {"streams", bytes.streams_of(user)},
            {"streams_limit", bytes.streams_limit_of(user)},
            {"kinds", std::move(kinds)}};
}

// Returns the integer in `value` if it is from 0 to `most`.
std::optional<std::int64_t> integer_in(const json& value, std::int64_t most) {
    const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
                      (!value.is_number_unsigned() || std::cmp_less_equal(value.get<std::uint64_t>(), most));
    return fits && value.get<std::int64_t>() <= most ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

// Returns the user's limits after the change that the body requests. The body has a number for each changed limit, or
// "default". `limit`: the present limits in bytes.
Result<OwnLimits> limits_in(const json& body, OwnLimits own, KeptBytes limit) {
    if (body.value("default", json()) == json(true)) return OwnLimits();
    bool any = false;
    for (const KeptPlace& place : kept_places) {
        const json value = body.value(place.name, json());
        if (value.is_null()) continue;
        const auto number = integer_in(value, limit_most);
        if (!number)
            return Error{ErrorCode::usage, std::string(place.name) + " is a number of bytes, at most 1 PiB", ""};
        limit.*place.bytes = *number;
        own.bytes = limit;
        any = true;
    }
    if (const json value = body.value("streams", json()); !value.is_null()) {
        const auto number = integer_in(value, streams_limit_most);
        if (!number)
            return Error{ErrorCode::usage, "streams is a number, at most " + std::to_string(streams_limit_most), ""};
        own.streams = static_cast<std::size_t>(*number);
        any = true;
    }
    if (any) return own;
    return Error{ErrorCode::usage, "give memory, database, files or storage in bytes, streams, or default: true",
                 "rtrain access quota --help"};
}

}  // namespace

void get_quota(Exchange& exchange, const UserBytes& bytes) {
    const std::string user = exchange.variables["user"];
    if (!is_user_name(user)) return refuse(exchange, bad_user_name());
    reply_json(exchange, 200, quota_json(bytes, user));
}

void put_quota(Exchange& exchange, UserBytes& bytes) {
    const std::string user = exchange.variables["user"];
    if (!is_user_name(user)) return refuse(exchange, bad_user_name());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto own = limits_in(*body, own_limits_of(bytes, user), bytes.limit_of(user));
    if (!own) return refuse(exchange, own.error());
    set_own_limits(bytes, user, *own);
    const std::string text = quota_text(*own);
    audit_detail(exchange, "limit=" + (text.empty() ? "default" : text));
    exchange.events.save(
        {.tokens = {}, .settings = {{quota_prefix + user, text}}, .done = [kept = exchange, user, &bytes]() mutable {
             reply_json(kept, 200, quota_json(bytes, user));
         }});
}

}  // namespace rtrain::head
