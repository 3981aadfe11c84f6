// The state that one rank shares with its agent: the parts of a session, and every step in which several parts work
// together. It takes no lock, starts no thread, and waits for the agent in dial() only. Its owner (AgentLoop)
// holds the lock whenever it calls a function here.
// Invariant: a report's frame leaves the kept reports only after the agent has acknowledged it. So a restarted agent
// receives it again with the same index, and nothing is lost or counted twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/worker/connection.hpp"
#include "runtime/worker/rank/broadcasts.hpp"
#include "runtime/worker/rank/checkpoints.hpp"
#include "runtime/worker/rank/directories.hpp"
#include "runtime/worker/rank/place.hpp"
#include "runtime/worker/rank/report_rounds.hpp"
#include "runtime/worker/rank/requests.hpp"
#include "runtime/worker/rank/shared_rounds.hpp"

namespace rtrain::worker {

class AgentClient {
  public:
    AgentClient(Settings settings, std::int64_t process)
        : place_(std::move(settings), process), reports_(Clock::now()) {}

    // ---- the parts that a call uses alone
    const RankPlace& place() const { return place_; }
    Connection& connection() { return connection_; }
    ReportRounds& reports() { return reports_; }
    SharedRounds& rounds() { return rounds_; }
    Checkpoints& checkpoints() { return checkpoints_; }
    StagingDirectories& directories() { return directories_; }
    Broadcasts& broadcasts() { return broadcasts_; }
    AgentRequests& requests() { return requests_; }
    const std::string& context_json() const { return context_json_; }

    // ---- the connection
    void dial(Place place);  // tries once; connection().fault() is why it failed. Waits 5 s only if not detached.
    bool may_dial() const { return connection_.refused().empty() && place_.is_own(); }
    bool is_attached();       // true if the connection stands. Reports its end to the other ranks once.
    void end_silent_agent();  // ends the connection to an agent that shows no activity
    void read_socket();
    void read_report_memory();  // and the socket, if messages were sent to it
    void send_heartbeat(Heartbeat heartbeat);

    // ---- one report: begin, wait until it is released, end
    std::uint64_t begin_report(Report& report);  // sets the number of the report, and returns it
    bool is_released(std::uint64_t index);       // true: all ranks have arrived
    struct Passed {
        bool has_files_of_all = false;  // without an agent: the files of all ranks are staged
        std::string freed{};            // a directory that no agent is to store; empty: none
    };
    Passed pass_report(const Report& report);  // The ranks have passed it.
    void prepare_next_files();                 // after a report with files

    // ---- staging directories and broadcasts
    void request_directory();                 // the agent answers with Staged
    std::optional<std::string> take_spare();  // nullopt if the agent is connected, or if there is no spare
    void begin_broadcast(std::optional<std::string> data);

  private:
    std::string dial_and_wait(Place place);
    std::string dial_further(Place place);
    std::string greet(Place place);
    bool take_welcome(Place place);
    void on_message(FromAgent message);
    void on_message(const Welcome& welcome);
    void on_message(const ReportMemoryOffer& offer);
    void arrive_anew();
    void post_or_send(const Report& report);
    void send_due();
    void request_spares();
    std::string passed_detached(const Report& report, bool has_files_of_all);

    RankPlace place_;
    Connection connection_;
    SharedRounds rounds_;
    ReportRounds reports_;
    Broadcasts broadcasts_;
    Checkpoints checkpoints_;
    StagingDirectories directories_;
    AgentRequests requests_;
    std::string context_json_ = "{}";
    bool has_counts_ = false;  // true: the numbers of the next report and broadcast are valid in this process
};

}  // namespace rtrain::worker
