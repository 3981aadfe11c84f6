// See matching.hpp.
#include "daemon/head/routes/matching.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace rtrain::head {
namespace {

std::vector<std::string_view> segments(std::string_view path) {
    std::vector<std::string_view> out;
    while (!path.empty()) {
        const std::size_t slash = path.find('/', 1);
        out.push_back(path.substr(1, slash == std::string_view::npos ? slash : slash - 1));
        path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash);
    }
    return out;
}

bool matches(std::string_view pattern, std::string_view path, Variables& variables) {
    const auto expected = segments(pattern), given = segments(path);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::string_view want = expected[i];
        if (want.ends_with("...}")) {
            std::string rest;
            for (std::size_t k = i; k < given.size(); ++k) rest += (k == i ? "" : "/") + std::string(given[k]);
            variables[std::string(want.substr(1, want.size() - 5))] = rest;
            return true;
        }
        if (i >= given.size()) return false;
        if (want.starts_with('{'))
            variables[std::string(want.substr(1, want.size() - 2))] = given[i];
        else if (want != given[i])
            return false;
    }
    return expected.size() == given.size();
}

}  // namespace

Found find_route(const net::Request& request) {
    Found match;
    for (const Route& route : routes()) {
        Variables variables;
        if (!matches(route.pattern, request.path, variables)) continue;
        match.path_known = true;
        if (request.method != route.method) continue;
        match.route = &route;
        match.variables = std::move(variables);
        return match;
    }
    return match;
}

}  // namespace rtrain::head
