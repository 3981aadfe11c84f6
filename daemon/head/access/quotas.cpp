// See quotas.hpp.
#include "daemon/head/access/quotas.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace rtrain::head {

using nlohmann::json;

std::string quota_text(const std::optional<KeptBytes>& own) {
    if (!own) return "";
    return json_text(
        json{{"memory", own->memory}, {"database", own->database}, {"files", own->files}, {"storage", own->storage}});
}

void recall_quotas(UserBytes& bytes, const std::map<std::string, std::string>& settings) {
    for (const auto& [name, text] : settings) {
        const json own = parsed_or_null(text);
        if (!own.is_object()) continue;
        const auto number = [&](const char* place, std::int64_t otherwise) {
            const json value = own.value(place, json());
            return value.is_number_integer() ? value.get<std::int64_t>() : otherwise;
        };
        const std::string user = name.substr(std::string(quota_prefix).size());
        bytes.limit(user, KeptBytes{.memory = number("memory", 0),
                                    .database = number("database", 0),
                                    .files = number("files", 0),
                                    // a setting of an earlier version lacks it
                                    .storage = number("storage", bytes.limit_of(user).storage)});
    }
}

}  // namespace rtrain::head
