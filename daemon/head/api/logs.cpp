// Answers with the logs of a run: the lines that were written so far as JSON lines, or a stream (log_follow.cpp).
#include <memory>
#include <utility>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/api/log_follow.hpp"
#include "daemon/head/logs/log_answers.hpp"
#include "daemon/head/logs/log_merge.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t retry_after_s = 2;

// Returns an answer with the present lines. They are read as fast as the client receives them, so the answer needs no
// file and little memory.
net::Response lines_answer(const Exchange& exchange, const std::string& directory, std::shared_ptr<LogMerge> lines,
                           LogAnswers::Place place) {
    net::Response answer{.status = 200, .content_type = "application/jsonl", .place = directory};
    answer.pieces = [lines = std::move(lines), place = std::move(place)] { return lines->next(); };
    answer.permitted = exchange.permitted;
    return answer;
}

}  // namespace

void get_logs(Exchange& exchange, const LogIntake& intake, LogAnswers& answers, const state::SqliteJournal& journal,
              Feeds& feeds) {
    const auto run = find_run(exchange.view, exchange.variables["run"]);
    if (!run) return refuse(exchange, run.error());
    const auto question = log_question(exchange.view.cluster, *run,
                                       {.rank = exchange.query("rank"),
                                        .attempt = exchange.query("attempt"),
                                        .stream = exchange.query("stream"),
                                        .since_ms = exchange.query("since_ms"),
                                        .tail = exchange.query("tail")},
                                       wall_ms());
    if (!question) return refuse(exchange, question.error());
    if (exchange.asked("follow"))
        return follow_logs(exchange, intake, journal, feeds, {.run = *run, .question = *question});
    auto place =
        answers.enter(exchange.caller.user, is_admin(exchange.caller) ? LogAnswers::Who::admin : LogAnswers::Who::user);
    if (!place)
        return refuse_for_now(exchange,
                              {ErrorCode::full, "too many answers with logs are under way, yours or everybody's",
                               "ask again in some seconds"},
                              retry_after_s);
    const bool position = exchange.asked("position");
    const Unfinished last = position ? Unfinished::wait : Unfinished::take;
    on_pool_at(
        intake.directory(), exchange,
        [directory = intake.directory(), run = *run, question = *question,
         last]() -> Result<std::shared_ptr<LogMerge>> {
            auto files = list_logs(directory, run);
            if (!files) return files.error();
            return std::make_shared<LogMerge>(std::move(*files), question, last);
        },
        [directory = intake.directory(), run = *run, position, place = std::move(place)](
            Exchange& kept, Result<std::shared_ptr<LogMerge>> lines) mutable {
            if (!lines) return refuse(kept, lines.error());
            if (!place->hold((*lines)->memory()))
                return refuse_for_now(kept,
                                      {ErrorCode::full, "answers with logs need too much memory, yours or everybody's",
                                       "ask again in some seconds, or for fewer ranks or attempts"},
                                      retry_after_s);
            const std::string behind = position ? position_text(run, (*lines)->end()) : "";
            net::Response answer = lines_answer(kept, directory, std::move(*lines), std::move(place));
            if (!behind.empty()) answer.headers["x-rtrain-logs-position"] = behind;
            kept.responder->send(std::move(answer));
        });
}

}  // namespace rtrain::head
