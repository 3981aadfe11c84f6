// See pages_json.hpp.
#include <charconv>
#include <memory>
#include <utility>

#include "base/json_depth.hpp"
#include "base/json_text.hpp"
#include "daemon/head/loop/slices.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/job_spec/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t limit_max = 1'000;

Result<std::size_t> number_of(const Exchange& exchange, const std::string& name, std::size_t otherwise) {
    const std::string text = exchange.query(name);
    if (text.empty()) return otherwise;
    std::size_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || end != text.data() + text.size())
        return Error{ErrorCode::usage, name + "=" + text + " is not a number",
                     "leave it out, or give the value of the page before"};
    return value;
}

}  // namespace

Result<Page> page_of(const Exchange& exchange) {
    const auto offset = number_of(exchange, "cursor", 0), limit = number_of(exchange, "limit", 100);
    if (!offset) return offset.error();
    if (!limit) return limit.error();
    if (*limit == 0 || *limit > limit_max)
        return Error{ErrorCode::usage, "limit is 1 to " + std::to_string(limit_max), "use next_cursor for more"};
    return Page{*offset, *limit};
}

Result<std::size_t> last_of(const Exchange& exchange) {
    const auto last = number_of(exchange, "last", 0);
    if (!last || exchange.query("last").empty()) return last;
    if (*last == 0 || *last > limit_max)
        return Error{ErrorCode::usage, "last is 1 to " + std::to_string(limit_max), "walk over the pages for more"};
    return last;
}

std::uint64_t after_of(const Exchange& exchange) {
    const std::string resumed = exchange.request.header("last-event-id");
    const std::string text = resumed.empty() ? exchange.query("after") : resumed;
    std::uint64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return fault == std::errc{} && end == text.data() + text.size() ? value : 0;
}

void Listing::add(const json& item) {
    if (count_++ > 0) text_ += ',';
    text_ += json_text(item);
}

void Listing::begin(const json& start, const std::string& array) {
    add(start);
    text_.back() = ',';  // replaces the closing bracket
    text_ += json_text(array) + ":[";
    first_element_ = true;
}

void Listing::add_element(const json& element) {
    if (!std::exchange(first_element_, false)) text_ += ',';
    text_ += json_text(element);
}

void Listing::end() { text_ += "]}"; }

std::string Listing::finish(const json& next_cursor) && {
    return R"({"items":[)" + std::move(text_) + R"(],"next_cursor":)" + json_text(next_cursor) +
           R"(,"schema_version":1})";
}

void reply_list(Exchange& exchange, const Page& page, ListStep step) {
    struct Making {
        Exchange exchange;
        ListStep step;
        Listing page;
        json next_cursor{};
    };
    const auto making = std::make_shared<Making>(Making{exchange, std::move(step), Listing(page.limit)});
    in_slices(exchange.background, [making] {
        bool more = false;
        guarded(making->exchange, [&] {
            more = making->step(making->page, making->next_cursor);
            if (!more) reply(making->exchange, 200, std::move(making->page).finish(making->next_cursor));
        });
        return more;
    });
}

void reply_list(Exchange& exchange, std::size_t count, std::function<json(std::size_t)> item) {
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    reply_list(exchange, *page,
               [at = page->offset, count, item = std::move(item)](Listing& to, json& next_cursor) mutable {
                   if (at < count && !to.full()) {
                       if (const json listed_item = item(at); !listed_item.is_null()) to.add(listed_item);
                       ++at;
                       return true;
                   }
                   if (at < count) next_cursor = std::to_string(at);
                   return false;
               });
}

Result<json> body_of(const Exchange& exchange) {
    if (exchange.request.body.empty()) return json(json::object());
    if (storage::nests_too_deep(exchange.request.body))
        return Error{ErrorCode::usage,
                     "the body of " + exchange.request.method + " " + exchange.request.path +
                         " is nested deeper than " + std::to_string(storage::json_levels_most) + " levels",
                     "see /openapi.json"};
    const std::string what = "the body of " + exchange.request.method + " " + exchange.request.path;
    if (exchange.request.body.size() > spec::request_bytes_most)
        return Error{ErrorCode::usage,
                     what + " has " + std::to_string(exchange.request.body.size()) + " bytes; the most is " +
                         std::to_string(spec::request_bytes_most),
                     "data belongs into working_dir or onto the storage path"};
    if (storage::exceeds(exchange.request.body, {.values = spec::request_values_most}))
        return Error{ErrorCode::usage, what + " has more than " + std::to_string(spec::request_values_most) + " values",
                     "data belongs into working_dir or onto the storage path"};
    json body = parse_json(exchange.request.body);
    if (!body.is_object())
        return Error{ErrorCode::usage,
                     "the body of " + exchange.request.method + " " + exchange.request.path + " is not a JSON object",
                     "see /openapi.json"};
    return body;
}

void reply_json(Exchange& exchange, int status, json body) {
    body["schema_version"] = 1;
    reply(exchange, status, json_text(body));
}

}  // namespace rtrain::head
