// Names inside of a run's directory, and a reader of its small JSON files.

#include "storage/checkpoint/layout.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/json_text.hpp"

namespace rtrain::storage {
namespace {

using nlohmann::json;

std::string padded(std::uint64_t number, int width) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llu", width, static_cast<unsigned long long>(number));
    return text;
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
    Number number{};
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

}  // namespace

std::string run_path(const std::string& run_name) { return run_name + "/run.json"; }
std::string claim_path(const std::string& run_name, std::uint32_t number) {
    return run_name + "/attempts/" + padded(number, 6) + ".json";
}
std::string from_path(const std::string& run_name, std::uint32_t number) {
    return run_name + "/attempts/" + padded(number, 6) + "/from.json";
}
std::string end_path(const std::string& run_name, std::uint32_t number) {
    return run_name + "/attempts/" + padded(number, 6) + "/end.json";
}
std::string manifest_path(const std::string& run_name, const std::string& directory) {
    return run_name + "/" + directory + "/" + std::string(manifest_name);
}

std::string name_path(const std::string& run_name, const std::string& directory) {
    return run_name + "/names/" + directory;
}

std::optional<std::uint32_t> attempt_of(std::string_view directory) {
    const auto at = directory.rfind("-a");
    if (at == std::string_view::npos || at == 0 || directory.size() - at < 5) return std::nullopt;
    return whole_number<std::uint32_t>(directory.substr(at + 2));
}

std::optional<std::uint32_t> claim_number(std::string_view file_name) {
    if (!file_name.ends_with(".json")) return std::nullopt;
    return whole_number<std::uint32_t>(file_name.substr(0, file_name.size() - 5));
}

std::uint64_t counter_of(std::string_view directory) {
    constexpr std::string_view prefix = "checkpoint_";
    if (!directory.starts_with(prefix)) return 0;
    directory.remove_prefix(prefix.size());
    return whole_number<std::uint64_t>(directory.substr(0, directory.rfind("-a"))).value_or(0);
}

std::string checkpoint_directory_name(const std::string& wish, std::uint64_t counter, std::uint32_t attempt) {
    std::string name = wish.empty() ? "checkpoint_" + padded(counter, 6) : wish;
    for (char& c : name)
        if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
    if (name.front() == '.') name.front() = '_';
    return name + "-a" + padded(attempt, 3);
}

Result<json> parse_object(const std::string& text, const std::string& path) {
    json value = parse_json(text);
    if (!value.is_object())
        return Error{ErrorCode::damaged, path + ": its " + std::to_string(text.size()) + " bytes are not a JSON object",
                     ""};
    return value;
}

Result<json> read_object(Store& store, const std::string& path) {
    const auto text = store.get(path);
    if (!text) return text.error();
    return parse_object(*text, path);
}

json embedded(const std::string& text) {
    if (text.empty()) return nullptr;
    json value = parse_json(text);
    return value.is_discarded() ? json(text) : value;
}

std::string extracted(const json& value) {
    if (value.is_null()) return "";
    return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string file_text(const json& value) { return json_text(value, 2) + "\n"; }

}  // namespace rtrain::storage
