// See quotas.hpp.
#include "daemon/head/access/quotas.hpp"

#include <nlohmann/json.hpp>

#include "storage/base/json_text.hpp"

namespace rtrain::head {

using nlohmann::json;

std::string quota_text(const std::optional<KeptBytes>& own) {
    if (!own) return "";
    return json_text(json{{"memory", own->memory}, {"database", own->database}, {"files", own->files}});
}

void recall_quotas(UserBytes& bytes, const std::map<std::string, std::string>& settings) {
    for (const auto& [name, text] : settings) {
        const json own = parsed_or_null(text);
        if (!own.is_object()) continue;
        const auto number = [&](const char* place) {
            const json value = own.value(place, json());
            return value.is_number_integer() ? value.get<std::int64_t>() : 0;
        };
        bytes.limit(name.substr(std::string(quota_prefix).size()),
                    KeptBytes{.memory = number("memory"), .database = number("database"), .files = number("files")});
    }
}

}  // namespace rtrain::head
