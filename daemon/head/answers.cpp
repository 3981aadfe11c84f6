// Errors as HTTP answers, and how people name runs.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/head/routes.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;
constexpr auto replaced = json::error_handler_t::replace;

// "<6 of the cluster's id>-<counter>"
std::optional<RunId> with_id(const Head& head, const std::string& text) {
    std::uint64_t counter = 0;
    const char* end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data() + text.rfind('-') + 1, end, counter);
    const RunId id{counter};
    if (fault != std::errc{} || stop != end || head.run_id(id) != text || !head.cluster.runs.contains(id))
        return std::nullopt;
    return id;
}

}  // namespace

int http_status(const Error& error) {
    switch (error.code) {
        case ErrorCode::usage:
            return 400;
        case ErrorCode::not_found:
            return 404;
        case ErrorCode::invalid:
            return 422;
        case ErrorCode::unreachable:
            return 503;
        case ErrorCode::unauthorised:
            return 403;  // known, and may not: 401 is for strangers alone (refuse_stranger)
        case ErrorCode::conflict:
        case ErrorCode::unplaceable:
            return 409;
        case ErrorCode::timed_out:
            return 504;
        case ErrorCode::full:
            return 507;
        case ErrorCode::io:
        case ErrorCode::damaged:
        case ErrorCode::internal:
            return 500;
    }
    return 500;
}

const char* code_text(ErrorCode code) {
    switch (code) {
        case ErrorCode::usage:
            return "usage";
        case ErrorCode::not_found:
            return "not_found";
        case ErrorCode::invalid:
            return "invalid";
        case ErrorCode::unreachable:
            return "unreachable";
        case ErrorCode::unauthorised:
            return "unauthorised";
        case ErrorCode::conflict:
            return "conflict";
        case ErrorCode::timed_out:
            return "timed_out";
        case ErrorCode::unplaceable:
            return "unplaceable";
        case ErrorCode::io:
            return "io";
        case ErrorCode::damaged:
            return "damaged";
        case ErrorCode::full:
            return "full";
        case ErrorCode::internal:
            return "internal";
    }
    return "internal";
}

std::string error_body(const Error& error, const Problems& problems) {
    json list = json::array();
    for (const Problem& one : problems)
        list.push_back({{"path", one.path},
                        {"line", one.line},
                        {"column", one.column},
                        {"message", one.message},
                        {"suggestion", one.suggestion}});
    const json body = {{"schema_version", 1},
                       {"code", code_text(error.code)},
                       {"message", error.message},
                       {"problems", std::move(list)},
                       {"next", error.next}};
    return body.dump(-1, ' ', false, replaced);
}

void drop_body(const Ask& ask) {
    if (ask.request.body_file.empty()) return;
    const auto remove = [file = ask.request.body_file] {
        std::error_code ignored;
        std::filesystem::remove(file, ignored);
    };
    ask.head.loop.offload_at(std::filesystem::path(ask.request.body_file).parent_path(), remove, [] {});
}

void reply(Ask& ask, int status, std::string body) {
    ask.responder->send(net::Response{.status = status, .body = std::move(body)});
}

std::function<bool()> still_permitted(const Ask& ask) {
    return [&tokens = ask.head.tokens, caller = ask.caller] { return tokens.still_opens(caller, wall_ms()); };
}

void refuse(Ask& ask, const Error& error) { refuse(ask, error, {}); }

void refuse(Ask& ask, const Error& error, const Problems& problems) {
    ask.responder->send(net::Response{.status = http_status(error), .body = error_body(error, problems)});
}

net::Response refusal_of_stranger(const Error& error) {
    net::Response answer{.status = http_status(error), .body = error_body(error, {})};
    if (error.code != ErrorCode::unauthorised) return answer;
    answer.status = 401;
    answer.headers["www-authenticate"] = "Bearer";
    return answer;
}

void guarded(Ask& ask, const std::function<void()>& answer) {
    const Auditing scope(ask.head, ask.audit);
    try {
        answer();
    } catch (const std::bad_alloc&) {
        throw;  // nothing can be relied on any more
    } catch (const state::ReadFailed& failed) {
        std::fprintf(stderr, "rtrain head: %s\n", failed.error.message.c_str());
        drop_body(ask);
        refuse(ask, failed.error);
    } catch (const std::exception& wrong) {
        const std::string what = ask.request.method + " " + json(ask.request.path).dump(-1, ' ', false, replaced);
        const Error error = net::thrown(wrong, what);
        std::fprintf(stderr, "rtrain head: %s\n", error.message.c_str());
        drop_body(ask);
        refuse(ask, error);
    }
}

namespace {

// Returns one run whose id begins with `text`, and their number. No id is made text for it: anybody may ask for a run
// that is not there, as often as they like.
std::pair<RunId, std::size_t> with_prefix(const Head& head, const std::string& text) {
    std::pair<RunId, std::size_t> found{{}, 0};
    const auto& runs = head.cluster.runs;
    const std::string id = runs.empty() ? "" : head.run_id(runs.begin()->first);
    const std::string common = id.substr(0, id.rfind('-') + 1);
    if (text.empty() || common.empty()) return found;
    if (common.starts_with(text)) return {runs.begin()->first, runs.size()};
    const std::string digits = text.starts_with(common) ? text.substr(common.size()) : "";
    constexpr std::size_t digits_most = 18;
    if (digits.empty() || digits.size() > digits_most || digits[0] == '0' ||
        digits.find_first_not_of("0123456789") != std::string::npos)
        return found;
    const std::uint64_t last = runs.rbegin()->first.value;
    std::uint64_t low = std::stoull(digits), width = 1;
    for (; low <= last; low *= 10, width *= 10) {  // 12, 120 to 129, 1200 to 1299 ...
        const auto begin = runs.lower_bound(RunId{low}), end = runs.lower_bound(RunId{low + width});
        if (begin != end) found.first = begin->first;
        found.second += static_cast<std::size_t>(std::distance(begin, end));
    }
    return found;
}

}  // namespace

Result<RunId> find_run(const Head& head, const std::string& text) {
    if (const auto exact = with_id(head, text)) return *exact;
    std::optional<RunId> named;
    for (const RunId id : head.names.named(text))  // the newest of a name, unless an older one is still live
        if (!named || terminal(head.cluster.runs.at(*named).state)) named = id;
    if (named) return *named;
    const auto [prefixed, prefixes] = with_prefix(head, text);
    if (prefixes == 1) return prefixed;
    if (prefixes > 1)
        return Error{ErrorCode::usage, "'" + text + "' is the beginning of " + std::to_string(prefixes) + " run ids",
                     "give more of it: rtrain runs --all"};
    return Error{ErrorCode::not_found, "there is no run '" + text + "'", "rtrain runs --all"};
}

}  // namespace rtrain::head
