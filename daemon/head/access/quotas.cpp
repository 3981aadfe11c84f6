// See quotas.hpp.
#include "daemon/head/access/quotas.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace rtrain::head {

using nlohmann::json;

OwnLimits own_limits_of(const UserBytes& bytes, const std::string& user) {
    OwnLimits own{.bytes = {}, .streams = bytes.own_streams_limit(user)};
    const auto limits = bytes.own_limits();
    if (const auto of_user = limits.find(user); of_user != limits.end()) own.bytes = of_user->second;
    return own;
}

void set_own_limits(UserBytes& bytes, const std::string& user, const OwnLimits& own) {
    bytes.limit(user, own.bytes);
    bytes.limit_streams(user, own.streams);
}

std::string quota_text(const OwnLimits& own) {
    json text = json::object();
    if (own.bytes)
        text = {{"memory", own.bytes->memory},
                {"database", own.bytes->database},
                {"files", own.bytes->files},
                {"storage", own.bytes->storage}};
    if (own.streams) text["streams"] = *own.streams;
    return text.empty() ? "" : json_text(text);
}

void recall_quotas(UserBytes& bytes, const std::map<std::string, std::string>& settings) {
    for (const auto& [name, text] : settings) {
        const json own = parsed_or_null(text);
        if (!own.is_object()) continue;
        const std::string user = name.substr(std::string(quota_prefix).size());
        const auto number = [&](const char* place, std::int64_t otherwise) {
            const json value = own.value(place, json());
            return value.is_number_integer() ? value.get<std::int64_t>() : otherwise;
        };
        OwnLimits limits;
        if (own.contains("memory"))
            limits.bytes = KeptBytes{.memory = number("memory", 0),
                                     .database = number("database", 0),
                                     .files = number("files", 0),
                                     // the setting of an earlier version has no limit of storage
                                     .storage = number("storage", bytes.limit_of(user).storage)};
        if (own.contains("streams")) limits.streams = static_cast<std::size_t>(number("streams", 0));
        set_own_limits(bytes, user, limits);
    }
}

}  // namespace rtrain::head
