// Performs effects of the core: sends orders to nodes, which are made from the state at the decision and sent once that
// is durable (events/orders.hpp). Also writes result.json of a run at cluster://.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/head/events/orders.hpp"
#include "daemon/head/files/submissions.hpp"
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {

class OrderSender {
  public:
    OrderSender(net::Background background, const HeadOptions& options, const View& view, Sessions& sessions,
                const Submissions& submissions, TokenBook& tokens)
        : background_(background),
          options_(options),
          view_(view),
          sessions_(sessions),
          submissions_(submissions),
          tokens_(tokens) {}

    // Returns functions that perform the effects. The orders are made now, from the present state; the functions are
    // called once the changes are durable.
    std::vector<std::function<void()>> orders(const std::vector<Effect>& effects);

  private:
    struct Launching {  // data that the orders to all nodes of one gang share
        std::optional<RunId> run;
        std::map<std::string, std::string> secrets;
        std::string token;
    };
    std::function<void()> order(const Effect& effect, Launching& launching);
    void deliver(const std::string& node, protocol::FromHead message, const std::string& code_key);
    void write_result(const Effect& effect);
    void say_ended(const Run& run);
    // Writes a result.json below the storage root. Logs an error if that fails.
    void write_own_result(const std::string& run_name, const std::string& text);
    bool has_been_on(const Run& run, const NodeId& node) const;

    const net::Background background_;
    const HeadOptions& options_;
    const View& view_;
    Sessions& sessions_;
    const Submissions& submissions_;
    TokenBook& tokens_;
};

}  // namespace rtrain::head
