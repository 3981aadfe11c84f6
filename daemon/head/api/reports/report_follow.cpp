// See report_follow.hpp. Rows are read and made text beside the loop, one batch at a time, as fast as the client
// receives them.
#include "daemon/head/api/reports/report_follow.hpp"

#include <cstdio>
#include <optional>
#include <utility>

#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t rows_at_once = 500;
// bytes of one batch; the server ends a stream with more than 4 MiB of unsent text
constexpr std::size_t bytes_at_once = 1 << 20;

struct Batch {
    std::string text;
    std::uint64_t after = 0;
    bool more = false;
};

Result<Batch> next_batch(const state::SqliteJournal& journal, const ReportFollowing& following) try {
    const auto page = journal.metrics(following.run, following.after, {.rows = rows_at_once, .bytes = bytes_at_once});
    Batch batch{.text = "", .after = following.after, .more = page.more};
    for (const state::MetricRow& row : page.rows) {
        batch.after = row.position;
        batch.text +=
            sse(metric_text(row, following.question.ranks, following.question.key), std::to_string(batch.after));
    }
    return batch;
} catch (const state::ReadFailed& failed) { return failed.error; }

class ReportFollower : public std::enable_shared_from_this<ReportFollower> {
  public:
    ReportFollower(const Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds,
                   ReportFollowing following)
        : view_(exchange.view),
          durability_(exchange.durability),
          background_(exchange.background),
          place_(reading_place(exchange.caller)),
          journal_(journal),
          feeds_(feeds),
          following_(std::move(following)) {}

    Feeds::Pumped pump(net::Stream& to) {
        if (reading_) return Feeds::Pumped::goes_on;
        if (to.waiting() > bytes_at_once) return Feeds::Pumped::again;
        bool more = false;
        if (const auto batch = std::exchange(batch_, std::nullopt)) {
            if (!*batch) return Feeds::Pumped::ended;
            following_.after = (*batch)->after;
            more = (*batch)->more;
            if (!(*batch)->text.empty() && !to.write(std::string((*batch)->text))) return Feeds::Pumped::ended;
            if (ended_before_ && !more) {
                to.write(sse("{}", "", "end"));
                return Feeds::Pumped::ended;
            }
        }
        const auto run = view_.cluster.runs.find(following_.run);
        const bool ended = run == view_.cluster.runs.end() || durability_.ended_for_good(run->second);
        if (more || ended || seen_news_ != feeds_.news()) begin(ended);
        return Feeds::Pumped::goes_on;
    }
    void on_ready(Feeds::Ready ready) { ready_ = std::move(ready); }

  private:
    void begin(bool ended) {
        reading_ = true;
        ended_before_ = ended;
        seen_news_ = feeds_.news();
        const auto done = [self = shared_from_this()](Result<Batch> batch) {
            self->reading_ = false;
            if (!batch)
                std::fprintf(stderr, "rtrain head: a stream of reports ends: %s\n", batch.error().message.c_str());
            self->batch_ = std::move(batch);
            self->ready_();
        };
        background_.offload_at(
            place_, [this, self = shared_from_this()] { return next_batch(journal_, following_); },
            [](const Error& error) { return error; }, done);
    }

    const View& view_;
    const Durability durability_;
    const net::Background background_;
    const std::string place_;
    const state::SqliteJournal& journal_;
    Feeds& feeds_;
    ReportFollowing following_;               // changes only while no batch is being read
    std::optional<Result<Batch>> batch_;      // the batch that was read and not sent yet
    std::optional<std::uint64_t> seen_news_;  // value of Feeds::news() at the begin of the last reading
    bool reading_ = false;
    bool ended_before_ = false;  // true if the run had ended at the begin of the last reading
    Feeds::Ready ready_;
};

}  // namespace

void follow_reports(Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds, ReportFollowing following) {
    auto stream = exchange.responder->stream("text/event-stream");
    if (!stream) return;
    const auto follower = std::make_shared<ReportFollower>(exchange, journal, feeds, std::move(following));
    follower->on_ready(
        feeds.add(std::move(stream), [follower](net::Stream& to) { return follower->pump(to); }, exchange.permitted));
}

}  // namespace rtrain::head
