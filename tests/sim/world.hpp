// The simulated world: a head, nodes with their agents and processes, the network between them, storage, users, and an
// oracle that sees everything. All of it happens in one queue of inputs.
#pragma once

#include <memory>
#include <set>

#include "daemon/protocol/messages.hpp"
#include "tests/sim/clockwork.hpp"
#include "tests/sim/memory_store.hpp"
#include "tests/sim/oracle.hpp"

namespace rtrain::sim {

class SimHead;
class SimNode;
class Users;

struct Settings {  // chosen by the seed
    int nodes = 3;
    std::int64_t cpus = 2;
    std::uint32_t gpus = 0;
    int runs = 3;
    std::int64_t chaos_ms = 40'000;  // Faults happen until this time.
    std::int64_t latency_ms = 5;
    int faults = 6;
    bool repeats = true;  // True if messages may arrive twice.
    Queues queues;        // Without rules if none are configured.
    int helpers = 0;      // The number of runs that may yield.
};
Settings choose_settings(Dice& dice);
enum class Budgets { none, some };  // some: queues have budgets of GPU time, which another dice chooses
enum class Helpers { none, some };  // some: runs and sessions have helpers that may yield
struct Load {                       // parts of a seed's load beside its runs
    Budgets budgets = Budgets::none;
    Helpers helpers = Helpers::none;
};

class World {
  public:
    World(std::uint64_t seed, bool print, Load load = {});
    ~World();
    void run();  // Throws Violation.

    Dice dice;
    Trace trace;
    Clockwork clockwork;
    Settings settings;
    MemoryStore store;
    Oracle oracle;
    bool slow_disk = false, storage_full = false;
    bool healed = false;  // True once no fault happens any more.

    std::unique_ptr<SimHead> head;
    std::map<std::string, std::unique_ptr<SimNode>> nodes;
    std::unique_ptr<Users> users;

    Time now() const { return clockwork.now; }
    void after(std::int64_t ms, std::function<void()> what) { clockwork.after(ms, std::move(what)); }
    void say(const std::string& who, const std::string& what) { trace.line(now(), who, what); }
    // Some uploads take longer than an agent waits for one that does not advance.
    std::int64_t upload_ms() { return dice.one_in(100) ? dice.between(61'000, 240'000) : disk_ms(); }
    std::int64_t disk_ms() { return slow_disk ? dice.between(100, 3'000) : dice.between(1, 12); }

    // Between head and agents: at most one connection for each node. Its messages arrive in order, or are lost with it.
    bool dial_head(const std::string& node);
    void to_head(const std::string& node, std::uint64_t connection, protocol::FromAgent message);
    void to_agent(const std::string& node, std::uint64_t connection, protocol::FromHead message);
    void cut(const std::string& node);  // Both ends notice it later.
    std::uint64_t connection_of(const std::string& node) const;
    void partition(const std::string& node, std::int64_t ms);
    bool partitioned(const std::string& node) const { return partitioned_.contains(node); }
    void cut_from_head(const std::string& node, std::int64_t ms);  // Other nodes still reach it.
    // True if any node but the head gets an answer from the machine.
    bool machine_answers(const std::string& node) const;
    bool head_reaches(const std::string& node) const;
    void answers_anew(const std::string& node) { answers_since_[node] = now(); }
    Time answers_since(const std::string& node) { return answers_since_[node]; }

  private:
    struct Connection {
        std::uint64_t id = 0;
        bool open = false;
        Time last_up, last_down;
    };
    void plan_faults();
    void one_fault();
    void drain_or_undrain(const std::string& name);
    void leave(const std::string& name);
    void act_on_some_run();
    void heal();
    bool quiet() const;
    Time arrival(Time& last);

    std::map<std::string, Connection> connections_;
    std::set<std::string> partitioned_, cut_from_head_;
    std::map<std::string, Time> answers_since_;
    std::uint64_t next_connection_ = 1;
};

}  // namespace rtrain::sim
