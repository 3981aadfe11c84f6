// Sends answers and errors, and handles exceptions.
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "daemon/head/requests/exchange.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

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
            return 403;  // the caller is known (for an unknown one, refusal_of_stranger answers 401)
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
    for (const Problem& problem : problems)
        list.push_back({{"path", problem.path},
                        {"line", problem.line},
                        {"column", problem.column},
                        {"message", problem.message},
                        {"suggestion", problem.suggestion}});
    const json body = {{"schema_version", 1},
                       {"code", code_text(error.code)},
                       {"message", error.message},
                       {"problems", std::move(list)},
                       {"next", error.next}};
    return json_text(body);
}

std::string Exchange::query(const std::string& name, const std::string& otherwise) const {
    const auto entry = request.query.find(name);
    return entry == request.query.end() ? otherwise : entry->second;
}

bool Exchange::asked(const std::string& name) const {
    const auto entry = request.query.find(name);
    return entry != request.query.end() && entry->second != "false" && entry->second != "0";
}

void drop_body(const Exchange& exchange) {
    if (exchange.request.body_file.empty()) return;
    const auto remove = [file = exchange.request.body_file] {
        std::error_code ignored;
        std::filesystem::remove(file, ignored);
    };
    exchange.background.offload_at(std::filesystem::path(exchange.request.body_file).parent_path(), remove, [] {});
}

std::string reading_place(const Caller& caller) {
    return "read for " + (caller.node.empty() ? caller.user : "node " + caller.node);
}

void reply(Exchange& exchange, int status, std::string body) {
    exchange.responder->send(net::Response{.status = status, .body = std::move(body)});
}

void refuse(Exchange& exchange, const Error& error) { refuse(exchange, error, {}); }

void refuse(Exchange& exchange, const Error& error, const Problems& problems) {
    exchange.responder->send(net::Response{.status = http_status(error), .body = error_body(error, problems)});
}

net::Response refusal(const Error& error) { return {.status = http_status(error), .body = error_body(error, {})}; }

void refuse_for_now(Exchange& exchange, const Error& error, std::int64_t seconds) {
    net::Response answer = refusal(error);
    answer.status = 429;
    answer.headers["retry-after"] = std::to_string(seconds);
    exchange.responder->send(std::move(answer));
}

net::Response refusal_of_stranger(const Error& error) {
    net::Response answer{.status = http_status(error), .body = error_body(error, {})};
    if (error.code != ErrorCode::unauthorised) return answer;
    answer.status = 401;
    answer.headers["www-authenticate"] = "Bearer";
    return answer;
}

void guarded(Exchange& exchange, const std::function<void()>& answer) {
    const Auditing scope(exchange.events, exchange.audit);
    try {
        answer();
    } catch (const std::bad_alloc&) {
        throw;  // the exception shows that the state of the program is unknown, so the process ends
    } catch (const state::ReadFailed& failed) {
        std::fprintf(stderr, "rtrain head: %s\n", failed.error.message.c_str());
        drop_body(exchange);
        refuse(exchange, failed.error);
    } catch (const std::exception& wrong) {
        const std::string what = exchange.request.method + " " + json_text(json(exchange.request.path));
        const Error error = net::thrown(wrong, what);
        std::fprintf(stderr, "rtrain head: %s\n", error.message.c_str());
        drop_body(exchange);
        refuse(exchange, error);
    }
}

}  // namespace rtrain::head
