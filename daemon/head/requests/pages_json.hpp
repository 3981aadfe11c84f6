// Lists, bodies and JSON answers: the parts of every handler that are always the same.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_text.hpp"
#include "daemon/head/requests/exchange.hpp"
#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {

// The part of a list that a request asks for: `offset` in the whole list, and `limit`, which is 1 to 1000 and by
// default 100.
struct Page {
    std::size_t offset = 0, limit = 100;
};
Result<Page> page_of(const Exchange& exchange);
// Returns ?last=N (1 to 1000): the request is for the N newest items of a list that begins with the oldest. 0: not
// given.
Result<std::size_t> last_of(const Exchange& exchange);
// Returns the number after which a stream or list continues: the header Last-Event-ID, else ?after=, else 0.
std::uint64_t after_of(const Exchange& exchange);
// The items of one page, as text.
class Listing {
  public:
    explicit Listing(std::size_t limit) : limit_(limit) {}
    void add(const json& item);
    // Adds an item piece by piece: `start` is the item without its last member `array`. Then add_element adds the
    // elements of that array.
    void begin(const json& start, const std::string& array);
    void add_element(const json& element);
    void end();
    bool full() const { return count_ >= limit_ || text_.size() >= bytes_most; }
    std::string finish(const json& next_cursor) &&;

    static constexpr std::size_t bytes_most = 8u << 20;  // bytes after which a page ends before `limit`

  private:
    const std::size_t limit_;
    std::size_t count_ = 0;
    bool first_element_ = true;
    std::string text_;
};

// Answers with a list that is made in slices (loop/slices.hpp). `step` adds at most one item, or looks at one record.
// `step` returns false at the end of the page, after it has set the cursor of the next page, if there is one. Records
// may change between two steps, so `step` must hold names and numbers, not pointers.
using ListStep = std::function<bool(Listing& page, json& next_cursor)>;
void reply_list(Exchange& exchange, const Page& page, ListStep step);
// Answers with a list of `count` items. `item` returns the item with this index; null if it was removed meanwhile.
void reply_list(Exchange& exchange, std::size_t count, std::function<json(std::size_t)> item);

// Returns the request's body as an object; an empty body is an empty object.
Result<json> body_of(const Exchange& exchange);
void reply_json(Exchange& exchange, int status, json body);  // answers with `body`, to which it adds schema_version

}  // namespace rtrain::head
