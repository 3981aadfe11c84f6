// See pattern.hpp.
#include "storage/job_spec/pattern.hpp"

#include <map>
#include <regex>

namespace rtrain::spec {
namespace {

const std::regex& compiled(std::string_view pattern) {
    static thread_local std::map<std::string, std::regex, std::less<>> known;
    const auto entry = known.find(pattern);
    if (entry != known.end()) return entry->second;
    return known.emplace(pattern, std::regex(std::string(pattern), std::regex::ECMAScript)).first->second;
}

}  // namespace

bool has_pattern(const std::string& text, std::string_view pattern) {
    return std::regex_search(text, compiled(pattern));
}

bool is_pattern(const std::string& text, std::string_view pattern) { return std::regex_match(text, compiled(pattern)); }

}  // namespace rtrain::spec
