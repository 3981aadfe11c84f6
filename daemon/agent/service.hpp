// The agent at work: one loop around the machine. Inputs are fed one after the other; each step's outputs are performed
// in order; what an output brings about comes back as an input.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/agent/delivery/log_shipper.hpp"
#include "daemon/agent/delivery/undelivered.hpp"
#include "daemon/agent/disk/journal.hpp"
#include "daemon/agent/disk/start_state.hpp"
#include "daemon/agent/hardware/cgroup.hpp"
#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/agent/hardware/ports.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/peers/group_links.hpp"
#include "daemon/agent/peers/identity.hpp"
#include "daemon/agent/preparation/preparation.hpp"
#include "daemon/agent/worker_link/worker_server.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

struct WorkerPlace;
class Service {
  public:
    static Result<std::unique_ptr<Service>> open(const AgentOptions& options, DirectoryLock lock);
    ~Service();
    Status run(const std::function<Status()>& ready);  // until SIGTERM or SIGINT

  private:
    struct Held {  // what an attempt needs beside the machine's state
        Gear gear;
        protocol::Launch launch;
        Beginning begin;
        std::uint32_t number = 0;
        std::int64_t staged_bytes = 0;     // of the last checkpoint, on this node
        std::shared_ptr<Journal> journal;  // null: no metrics yet
        bool journal_scheduled = false;
        std::string journal_trouble;  // said already
        bool killed = false;          // some worker died of a signal: strays are looked for
    };

    Service(AgentOptions options, Identity identity, DirectoryLock lock, Outbox outbox);
    Status start();
    void start_parts(const std::string& program);
    void fill_state();
    void resume();
    void adopt(const AttemptImage& image);
    void ship_rest(const AttemptImage& image);

    // service.cpp: the loop and the connection
    void feed(Input input);
    void hear(Input input);
    void refuse_foreign_stage(WorkerSaid& said);
    void set_timer();
    void obey(protocol::FromHead message);
    void clear(const protocol::Clear& order, std::int64_t until_ms);
    void refuse_revoked(const std::vector<std::string>& serials);
    void connect();
    void ask_whether_turned_away();
    void connect_later();
    void lost_head(const std::string& why);
    void send(const protocol::FromAgent& message);
    void renew_certificate();
    void end_workers();
    NodeFacts facts() const;
    // `then` gets what `work` returned, on the loop; work that threw: its trouble. At `place`, a storage path: what
    // hangs there stops no work of other places.
    template <class Work, class Then>
    void offload_at(const std::string& place, Work work, Then then);
    template <class Work, class Failed, class Then>  // answers that cannot hold an Error: `failed` makes one of it
    void offload_at(const std::string& place, Work work, Failed failed, Then then) {
        loop_.offload_at(place, std::move(work), std::move(failed), std::move(then));
    }
    template <class Work, class... Then>
    void offload(Work work, Then... then) {
        offload_at("", std::move(work), std::move(then)...);
    }

    // service_perform.cpp, service_workers.cpp: outputs
    void perform(Output output);
    void on(const ToHead& out);
    void on(const KeepNews& out);
    void on(const DropNews& out);
    void on(const CloseHead& out);
    void on(SendHeartbeat& out);
    void on(const ResendLogs& out);
    void on(const LogsAcknowledged& out);
    void on(const StartPreparation& out);
    void on(const KeepAttempt& out);
    void on(const FetchCheckpoint& out);
    void on(const StartWorkers& out);
    void on(const SignalWorker& out);
    void on(const DumpStacks& out);
    void on(const WelcomeWorker& out);
    std::optional<worker::Welcome> welcome_of(AttemptKey key, std::uint32_t rank);
    void on(const ToWorker& out);
    void on(const MakeStage& out);
    void on(const ListStaged& out);
    void on(const DropStaged& out);
    void on(const Upload& out);
    void on(const WriteManifest& out);
    void on(const DropUncommitted& out);
    void on(const JournalMetrics& out);
    void on(const DialCoordinator& out);
    void on(const ToGroup& out);
    void on(const FinishLogs& out);
    void on(const WriteEnd& out);
    void on(const CloseAttempt& out);
    void on(const ForgetAttempt& out);
    void on(const RemoveCheckpoint& out);
    void on(const WriteResultFile& out);

    void sample_gpus();
    void remove_what_is_unused();
    void measure_scratch();
    void await_probes(const Gear& gear, const ProbeWait& wait);
    void look_for_commit(AttemptKey key, const AttemptImage& image);
    void begin_with(AttemptKey key, Beginning begin, std::string why);
    void set_up(const Gear& gear);
    void set_up_failed(const Gear& gear, const std::string& why);
    void finish_preparation(const Gear& gear);
    void prepared(const Gear& gear, const storage::ClaimAnswer& claimed);
    Status listen_to_workers();
    void admit(AttemptKey key, const Held& one);
    Status start_worker(const Held& held, const protocol::LaunchWorker& worker);
    WorkerPlace place_of(const Held& held, const WorkerStart& start) const;
    std::string context_json(const Held& held, std::uint32_t rank) const;
    void flush_journal(AttemptKey key);
    void flush_journal_in(AttemptKey key, std::int64_t ms);
    Held* held(AttemptKey key);

    // service_rest.cpp: what storage did not take
    void keep_rest(AttemptKey key, Rest rest);
    void leave_behind(AttemptKey key, Rest rest, const std::string& why);
    void find_rest(const AttemptImage& image);
    void deliver_rest_in(AttemptKey key, std::int64_t ms);
    void deliver_rests();
    void deliver_rest(AttemptKey key);
    void rest_stays(AttemptKey key, Rest& rest, const std::string& why);
    void rest_is_gone(AttemptKey key);
    void let_go(AttemptKey key);
    std::string hold_rests(const protocol::Clear& order);
    void release_rests(const protocol::Clear& order, bool removed);

    AgentOptions options_;
    Identity identity_;
    DirectoryLock lock_;
    NodeFiles files_;
    Inventory inventory_;
    std::string socket_path_, worker_library_;
    std::map<std::string, std::string> inherited_;

    net::Loop loop_;
    AgentState state_;
    Outbox outbox_;
    std::deque<Input> inputs_;
    bool stepping_ = false;
    net::Loop::TimerId timer_ = 0;
    Time timer_at_;
    std::shared_ptr<net::Socket> head_;
    std::int64_t reconnect_ms_ = 100;
    std::uint64_t connection_ = 0;
    Ports ports_;
    std::map<AttemptKey, Held> held_;
    std::map<AttemptKey, Rest> rests_;
    std::unique_ptr<GroupLinks> links_;
    std::unique_ptr<WorkerServer> workers_;
    std::unique_ptr<Launcher> launcher_;
    std::unique_ptr<LogShipper> logs_;
    std::unique_ptr<SetupRunner> setups_;
    std::shared_ptr<storage::Store> on_head_;
    std::optional<Cgroups> cgroups_;
    std::vector<protocol::GpuPulse> gpus_;  // as last sampled
    bool sampling_gpus_ = false, measuring_scratch_ = false;
    std::set<std::string> looking_at_rest_;  // storage paths
};

// The place of what is short and waited for: on the same storage, with threads that uploads and copies cannot fill.
inline std::string apart_from_uploads(const std::string& storage_path) { return "short " + storage_path; }

template <class Work, class Then>
void Service::offload_at(const std::string& place, Work work, Then then) {
    using Answer = decltype(work());
    const auto failed = [](const Error& error) -> Answer {
        if constexpr (std::is_constructible_v<Answer, Error>)
            return error;
        else
            return Trouble{error.message, false};
    };
    loop_.offload_at(place, std::move(work), failed, std::move(then));
}

}  // namespace rtrain::agent
