// PURE: which nodes are lost. A broken connection alone is no death, silence for node_timeout is. A machine that is
// gone is known sooner: when a node was silent for `doubt_ms`, the head and two neighbours dial its agent's port, and
// when neither a connection nor its refusal comes to any of them for `dial_ms`, the machine is lost. A killed agent's
// machine refuses; a node that is cut off from the head alone answers its neighbours: for both node_timeout decides.
//   heard ─ silent for doubt_ms ─► doubted ─┬─ heard: forgotten
//                                           ├─ one was answered, or an answer is missing: doubted anew a moment later
//                                           └─ nobody was: lost
// The head dials a node when it registers. A port that never answered the head says nothing (NAT, a firewall).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rtrain::head {

struct LeaseRules {
    std::int64_t node_timeout_ms = 10'000;
    std::int64_t doubt_ms = 1'500, dial_ms = 1'500;
    std::size_t neighbours = 2;
};

inline constexpr const char* dialled_by_head = "";  // no node is called so
struct LeaseDial {                                  // to be performed, and answered with Leases::dialled
    std::uint64_t id = 0;
    std::string by, node;  // `by`: a node, or the head
    bool operator==(const LeaseDial&) const = default;
};
struct LeaseLost {
    std::string node, why;
    std::int64_t silent_ms = 0;
    bool operator==(const LeaseLost&) const = default;
};
struct LeaseSteps {
    std::vector<LeaseDial> dial;
    std::vector<LeaseLost> lost;
};

class Leases {
  public:
    explicit Leases(LeaseRules rules) : rules_(rules) {}

    void known(const std::string& node, std::int64_t now);  // in the records of a head that starts
    void heard(const std::string& node, std::int64_t now);
    // Its agent's port is to be dialled by the head. `dials`: it can dial others, and be dialled; a simulated node
    // cannot.
    LeaseSteps registered(const std::string& node, std::int64_t now, bool dials);
    void connected(const std::string& node, bool is);
    void forget(const std::string& node) { leases_.erase(node); }
    void held_up(std::int64_t ms);  // the head was, and heard nobody: that is no silence of theirs
    // An answer to a dial: by whom, and whether anything answered there. Late and unknown ones change nothing.
    void dialled(std::uint64_t id, const std::string& by, bool answered);
    LeaseSteps check(std::int64_t now);  // whoever is told lost here is forgotten until it is heard again
    std::int64_t heard_ms(const std::string& node) const;

  private:
    struct Doubt {
        std::set<std::string> asked, silent;  // who dials, who got no answer
        bool answered = false;
        std::int64_t since = 0;
    };
    struct Lease {
        std::int64_t heard = 0;
        bool connected = false, dials = false;
        bool proven = false;  // its port has answered the head
        bool lost = false;
        std::uint64_t dial = 0;  // the id of what is under way: a proof, or a doubt
        std::optional<Doubt> doubt;
    };
    void begin_doubt(const std::string& node, Lease& lease, std::int64_t now, LeaseSteps& steps);
    void judge(const std::string& node, Lease& lease, std::int64_t now, LeaseSteps& steps);
    std::vector<std::string> neighbours_of(const std::string& node, std::int64_t now) const;

    LeaseRules rules_;
    std::map<std::string, Lease> leases_;
    std::uint64_t next_dial_ = 1;
};

}  // namespace rtrain::head
