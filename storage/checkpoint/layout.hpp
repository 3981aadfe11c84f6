// Names inside of a run's directory, and a reader of its small JSON files. Used inside of storage/checkpoint only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_text.hpp"
#include "base/relative_path.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::storage {

inline constexpr std::string_view manifest_name = ".manifest.json";

std::string run_path(const std::string& run_name);                          // path of <run>/run.json
std::string claim_path(const std::string& run_name, std::uint32_t number);  // path of <run>/attempts/000002.json
std::string from_path(const std::string& run_name, std::uint32_t number);   // path of <run>/attempts/000002/from.json
std::string end_path(const std::string& run_name, std::uint32_t number);    // path of <run>/attempts/000002/end.json
std::string manifest_path(const std::string& run_name, const std::string& directory);
std::string name_path(const std::string& run_name, const std::string& directory);  // path of <run>/names/<directory>
Result<DirectoryClaim> read_directory_claim(Store&, const std::string& run_name, const std::string& directory);
// Returns 2 for "000002.json".
std::optional<std::uint32_t> claim_number(std::string_view file_name);
std::uint64_t counter_of(std::string_view directory);  // returns 7 for "checkpoint_000007-a002"; 0 for other forms

// Returns a JSON object, or ErrorCode::damaged with the file's name.
Result<nlohmann::json> parse_object(const std::string& text, const std::string& path);
Result<nlohmann::json> read_object(Store&, const std::string& path);
// Returns the number that `value` holds. Throws a json::exception if it is not an integer in the range of T: converting
// a fraction, or a number outside of the range, would be undefined.
template <class T>
T integer_in(const nlohmann::json& value) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.template get<std::uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.template get<std::int64_t>());
    if (!fits)
        throw nlohmann::json::out_of_range::create(406, json_text(value) + " is not an integer in its range", nullptr);
    return value.template get<T>();
}
nlohmann::json embedded(const std::string& text);    // parses the text; returns it as a string if it is not JSON
std::string extracted(const nlohmann::json& value);  // the inverse of `embedded`
std::string file_text(const nlohmann::json& value);  // the text of a file on storage, formatted for people

}  // namespace rtrain::storage
