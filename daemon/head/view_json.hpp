// Records as people see them: the JSON of docs/http-api.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/head/log_lines.hpp"
#include "daemon/head/routes.hpp"
#include "scheduler/explain/explain.hpp"

namespace rtrain::head {

using nlohmann::json;

json time_json(const Head& head, Time time);  // null when it has not come yet
json wall_json(std::int64_t wall);            // null for 0
json resources_json(const Resources& resources);
std::string lines_setting(const std::string& submit_key);  // where the fields of its job file stand
json explanation_json(const Head& head, const Run& run, const Explanation& why);
std::string needs_text(const RunSpec& spec);  // "2 x {CPU: 1}"
std::string cause_text(const ExitCause& cause);

json run_json(const Head& head, const Run& run);
json full_run_json(const Head& head, const Run& run);         // with `job`
json attempt_json(const Head& head, const Attempt& attempt);  // without `workers`
json worker_json(const Attempt& attempt, std::uint32_t rank);
json checkpoint_json(const Head& head, const Run& run, const Checkpoint& checkpoint);
json node_json(const Head& head, const Node& node, const Ledger& ledger);
json event_json(const Head& head, const state::EventRow& row);
// None: rank 0's as "metrics"; one rank: its own; several: "metrics_by_rank".
struct RankChoice {
    bool all = false;
    NumberRanges ranks;
};
json metric_json(const state::MetricRow& row, const RankChoice& choice = {}, const std::string& key = "");
json metrics_of(const state::MetricRow& row, std::uint32_t rank);
json token_json(const state::TokenRow& row);
json answer_json(const PlacementAnswer& answer);

json parsed_or_null(const std::string& text);
std::string text_of(const json& value);  // what is no UTF-8 is shown with replacement characters

std::vector<const Attempt*> attempts_of(const Cluster& cluster, RunId run);
std::vector<const Checkpoint*> checkpoints_of(const Cluster& cluster, RunId run);  // by sequence

// A list with its cursor: `offset` in the whole list. `limit` is 1 to 1000, 100 when left out.
struct Page {
    std::size_t offset = 0, limit = 100;
};
Result<Page> page_of(const Ask& ask);
// Where a stream or a list goes on: Last-Event-ID, else ?after=, else the beginning.
std::uint64_t after_of(const Ask& ask);
// The items of one page, as text.
class Listing {
  public:
    explicit Listing(std::size_t limit) : limit_(limit) {}
    void add(const json& item);
    // An item in pieces: `start` without `array`, its last name; then the array's elements one by one.
    void begin(const json& start, const std::string& array);
    void add_element(const json& element);
    void end();
    bool full() const { return count_ >= limit_ || text_.size() >= bytes_most; }
    std::string finish(const json& next_cursor) &&;

    static constexpr std::size_t bytes_most = 8u << 20;  // the page then ends before `limit`

  private:
    const std::size_t limit_;
    std::size_t count_ = 0;
    bool first_element_ = true;
    std::string text_;
};

// Answers with a list that is made in slices (slices.hpp). `step` adds an item at most, or looks at one record; it
// returns false when the page has ended, and has set the cursor of the next one then, if there is one. Between two
// steps records come and go: it keeps names and numbers, and no pointers.
using ListStep = std::function<bool(Listing& page, json& next_cursor)>;
void reply_list(Ask& ask, const Page& page, ListStep step);
// The same for a list of `count` items, of which `item` makes one; null: it has gone meanwhile.
void reply_list(Ask& ask, std::size_t count, std::function<json(std::size_t)> item);

// The request's body as an object; an empty body is an empty object.
Result<json> body_of(const Ask& ask);
void reply_json(Ask& ask, int status, json body);  // adds schema_version

}  // namespace rtrain::head
