// Effects of the core as orders to nodes: their content, time, receivers, and secrets.
#include "daemon/head/sessions/order_sender.hpp"

#include <algorithm>
#include <filesystem>

#include "base/json_text.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/events/news.hpp"
#include "tests/unit/head_core.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

constexpr const char* own_credentials = R"({"AWS_ACCESS_KEY_ID":"id","AWS_SECRET_ACCESS_KEY":"key"})";

// A node's connection without a network. It records the head's messages, and passes the node's messages as frames.
class Connection {
  public:
    Connection(Sessions& sessions, const std::string& node) : node_(node), socket_(std::make_shared<Socket>()) {
        sessions.accept({}, std::make_shared<Responder>(socket_), node);
    }
    void send(const protocol::FromAgent& message) { socket_->events.read(protocol::encode(message))(); }
    void register_node(const std::vector<protocol::AttemptRef>& held = {}) {
        send(protocol::Hello{.node = node_, .program_version = "test", .boot_id = "b"});
        send(protocol::Register{.address = "10.0.0.1", .port = 7434, .total = {{"CPU", units(1)}}, .held = held});
    }
    void hang_up() { socket_->events.on_closed("the cable was pulled"); }
    void on_sent(std::function<void(const protocol::FromHead&)> task) { socket_->on_sent = std::move(task); }
    bool closed() const { return socket_->closed; }
    void forget_sent() { socket_->sent.clear(); }

    template <class Message>
    std::vector<Message> sent() const {
        std::vector<Message> out;
        for (const protocol::FromHead& message : socket_->sent)
            if (const auto* one = std::get_if<Message>(&message)) out.push_back(*one);
        return out;
    }

  private:
    struct Socket final : net::Socket {
        bool send(std::string text) override {
            if (closed) return false;
            sent.push_back(protocol::decode_from_head(text).value());
            if (on_sent) on_sent(sent.back());
            return true;
        }
        std::size_t waiting() const override { return 0; }
        void close(std::string) override { closed = true; }
        const net::Peer& peer() const override { return peer_; }

        net::SocketEvents events;
        std::vector<protocol::FromHead> sent;
        std::function<void(const protocol::FromHead&)> on_sent;
        bool closed = false;

      private:
        net::Peer peer_;
    };
    struct Responder final : net::Responder {
        explicit Responder(std::shared_ptr<Socket> given) : socket(std::move(given)) {}
        void send(net::Response) override { FAIL("a socket was asked for"); }
        std::shared_ptr<net::Stream> stream(std::string) override { return nullptr; }
        std::shared_ptr<net::Socket> accept_socket(net::SocketEvents events) override {
            socket->events = std::move(events);
            return socket;
        }
        bool wants_socket() const override { return true; }
        std::shared_ptr<Socket> socket;
    };

    std::string node_;
    std::shared_ptr<Socket> socket_;
};

const net::DialPort dial_none = [](const std::string&, std::uint16_t, std::int64_t, const auto& done) {
    done(net::PortAnswer::not_dialled);
};

// Sessions and orders, joined to the event loop as in parts.cpp.
struct SenderStory : test::HeadCore {
    Feeds feeds{loop};
    TokenBook tokens;
    Submissions submissions{options, view, events, bytes};
    Revocations revocations{loop, *journal, tokens, [](const std::vector<std::string>&) {}};
    NewsInbox news{events, view, reports, metrics};
    LogIntake logs{
        {loop, events, feeds, options, bytes,
         [this](const std::string& node, const protocol::FromHead& message) { sessions.send(node, message); }}};
    ChartHistory history{loop, options.data_dir};
    Sessions sessions{
        {loop, events, events, view, waits, options, metrics, tokens, revocations, news, logs, history, dial_none}};
    OrderSender sender{loop, options, view, sessions, submissions, tokens};

    SenderStory() {
        EventLoop::Steps steps = no_steps();
        steps.orders = [this](const std::vector<Effect>& effects) { return sender.orders(effects); };
        events.connect(std::move(steps));
        tokens.open({}, "the key of this head");
    }
    std::unique_ptr<Connection> connected(const std::string& node, const std::vector<protocol::AttemptRef>& held = {}) {
        auto connection = std::make_unique<Connection>(sessions, node);
        connection->register_node(held);
        events.settle();
        return connection;
    }
    const Attempt& attempt(RunId run) const { return view.cluster.attempts.at({run, 1}); }
    const Run& run(RunId id) const { return view.cluster.runs.at(id); }
    RunId submitted(const RunSubmitted& event) { return happens(event).created.value(); }
    PrepareNode prepare(RunId run, const std::string& node) const {
        return {.attempt = attempt(run).id, .incarnation = attempt(run).incarnation, .node = {node}, .claim = true};
    }
};

using Prepares = std::vector<protocol::Prepare>;

RunSubmitted s3_submission(const stories::Job& job) {
    RunSubmitted event = stories::submission(job);
    event.storage_path = "s3://bucket/runs";
    event.job_json = R"({"secrets":["AWS_ACCESS_KEY_ID","AWS_SECRET_ACCESS_KEY"]})";
    return event;
}

std::string summary_of(const std::string& result) {
    const auto fields = parse_json(result);
    return fields.at("name").get<std::string>() + " in " + std::to_string(fields.at("attempt_list").size()) +
           " attempts";
}

}  // namespace

TEST_CASE("an order goes out when the records that it was made of are on disk") {
    SenderStory story;
    const auto node = story.connected("n1");
    std::vector<std::string> on_disk;
    node->on_sent([&](const protocol::FromHead& message) {
        if (!std::holds_alternative<protocol::Prepare>(message)) return;
        for (const state::EventRow& row : story.journal->events(EventId{0}, 100)) on_disk.push_back(row.kind);
    });
    {
        const test::HeldJournal held(story.folder.path);
        story.events.take(stories::submission({.name = "job"}));
        REQUIRE(test::run_until(story.loop, [&] { return story.view.cluster.runs.size() == 1; }));
        CHECK(story.attempt(RunId{1}).state == AttemptState::placed);
        CHECK(node->sent<protocol::Prepare>().empty());
    }
    REQUIRE(test::run_until(story.loop, [&] { return !node->sent<protocol::Prepare>().empty(); }));
    CHECK(std::count(on_disk.begin(), on_disk.end(), "RunSubmitted") == 1);
    CHECK(node->sent<protocol::Prepare>().front().attempt == reference(story.attempt(RunId{1})));
}

TEST_CASE("an order for a node that is away is dropped, and said again when the node registers") {
    SenderStory story;
    story.connected("n1")->hang_up();
    const RunId run = story.submitted(stories::submission({.name = "job"}));
    CHECK(story.attempt(run).workers.front().seat.node == NodeId{"n1"});  // its lease has not expired
    CHECK(story.sender.orders({story.prepare(run, "n1")}).empty());
    const auto back = story.connected("n1");
    const Prepares prepares = back->sent<protocol::Prepare>();
    REQUIRE(prepares.size() == 1);
    CHECK(prepares[0].attempt == reference(story.attempt(run)));
}

TEST_CASE("an order that waits for the disk goes to the node's newest connection, and nowhere when it is away") {
    SenderStory story;
    const auto before = story.connected("n1");
    const RunId run = story.submitted(stories::submission({.name = "job"}));
    const auto orders = story.sender.orders({story.prepare(run, "n1")});
    REQUIRE(orders.size() == 1);
    const auto after = story.connected("n1", {reference(story.attempt(run))});
    CHECK(before->closed());
    before->hang_up();  // late: the node has another connection
    before->forget_sent();
    after->forget_sent();
    orders[0]();
    CHECK(before->sent<protocol::Prepare>().empty());
    CHECK(after->sent<protocol::Prepare>().size() == 1);
    after->hang_up();
    orders[0]();
    CHECK(after->sent<protocol::Prepare>().size() == 1);
}

TEST_CASE("a node that has not registered on its new connection gets no order there") {
    SenderStory story;
    const auto before = story.connected("n1");
    const RunId run = story.submitted(stories::submission({.name = "job"}));
    const auto orders = story.sender.orders({story.prepare(run, "n1")});
    const Connection unregistered(story.sessions, "n1");
    for (const auto& order : orders) order();
    CHECK(unregistered.sent<protocol::Prepare>().empty());
}

TEST_CASE("a start that was overtaken by the attempt's end is not sent") {
    SenderStory story;
    const auto node = story.connected("n1");
    const RunId run = story.submitted(stories::submission({.name = "job"}));
    const auto orders = story.sender.orders({story.prepare(run, "n1")});
    REQUIRE(orders.size() == 1);
    story.happens(RunStopAsked{.run = run, .by = "ana", .wall_ms = 1});
    CHECK(node->sent<protocol::Stop>().size() == 1);
    node->forget_sent();
    orders[0]();
    CHECK(node->sent<protocol::Prepare>().empty());
}

TEST_CASE("all nodes of a gang are given the same secrets and one token, which acts as the run's user") {
    SenderStory story;
    const auto first = story.connected("n1"), second = story.connected("n2");
    RunSubmitted event = stories::submission({.name = "job", .workers = 2, .submit_key = "key-1"});
    REQUIRE(story.submissions.save("key-1", {.code_sha256 = "c0de", .secrets_json = R"({"PASSWORD":"x"})"}).ok());
    const RunId run = story.submitted(event);
    for (const auto* node : {&first, &second}) {
        const Prepares prepares = (*node)->sent<protocol::Prepare>();
        REQUIRE(prepares.size() == 1);
        CHECK(prepares[0].code_sha256 == "c0de");
        CHECK(prepares[0].access.secrets.empty());
    }
    for (const char* node : {"n1", "n2"})
        story.happens(NodePrepared{.attempt = story.attempt(run).id,
                                   .incarnation = story.attempt(run).incarnation,
                                   .node = {node},
                                   .claimed_number = story.attempt(run).workers[0].seat.node == NodeId{node} ? 1u : 0u,
                                   .from = "",
                                   .master_address = "10.0.0.1",
                                   .master_port = 20'000,
                                   .earlier = {}});
    const auto of_first = first->sent<protocol::Launch>(), of_second = second->sent<protocol::Launch>();
    REQUIRE(of_first.size() == 1);
    REQUIRE(of_second.size() == 1);
    const std::string channel = story.tokens.run_channel(run, "key-1").value();
    CHECK(of_first[0].secrets == std::map<std::string, std::string>{{"PASSWORD", "x"}, {"RTRAIN_CHANNEL", channel}});
    CHECK(of_second[0].secrets == of_first[0].secrets);
    CHECK(of_second[0].token == of_first[0].token);
    net::Request request;
    request.headers["authorization"] = "Bearer " + of_first[0].token;
    const auto caller = story.tokens.authenticate(request, 0);
    REQUIRE(caller.ok());
    CHECK(caller->user == "ana");
    CHECK(caller->run == "run-1");
}

TEST_CASE("a node that stands in for others, and never had the run, is not given its storage credentials") {
    SenderStory story;
    const auto owner = story.connected("n1"), other = story.connected("n2");
    RunSubmitted event = s3_submission({.name = "job", .submit_key = "key-1"});
    REQUIRE(story.submissions.save("key-1", {.code_sha256 = "", .secrets_json = own_credentials}).ok());
    const RunId run = story.submitted(event);
    REQUIRE(story.attempt(run).workers[0].seat.node == NodeId{"n1"});
    for (const char* node : {"n1", "n2"})
        for (const auto& order :
             story.sender.orders({DeleteCheckpoint{.run = run, .directory = "checkpoint_000001-a001", .node = {node}}}))
            order();
    const auto own = owner->sent<protocol::Delete>(), foreign = other->sent<protocol::Delete>();
    REQUIRE(own.size() == 1);
    REQUIRE(foreign.size() == 1);
    CHECK(own[0].access.own);
    CHECK(own[0].access.secrets.at("AWS_SECRET_ACCESS_KEY") == "key");
    CHECK(foreign[0].access.own);
    CHECK(foreign[0].access.secrets.empty());
}

TEST_CASE("a stop of an attempt that the head has no record of goes by the agent's own name for it") {
    SenderStory story;
    const protocol::AttemptRef held{.run = 9, .incarnation = 3, .number = 2};
    const auto node = story.connected("n1", {held});
    const auto stops = node->sent<protocol::Stop>();  // the core ends attempts that it has no record of
    REQUIRE(stops.size() == 1);
    CHECK(stops[0].attempt == held);
    CHECK(stops[0].end_as.empty());
}

TEST_CASE("the head writes the result of a run at cluster:// itself; another run's goes to the node that is named") {
    SenderStory story;
    const auto node = story.connected("n1");
    RunSubmitted own = stories::submission({.name = "own"}), elsewhere = stories::submission({.name = "elsewhere"});
    own.storage_path = "cluster://";
    const RunId first = story.submitted(own), second = story.submitted(elsewhere);
    const std::string file = story.options.storage_root + "/own/result.json";
    const auto orders =
        story.sender.orders({WriteResult{.run = first, .node = {"n1"}}, WriteResult{.run = second, .node = {"n1"}}});
    REQUIRE(orders.size() == 2);
    CHECK_FALSE(std::filesystem::exists(file));
    for (const auto& order : orders) order();
    const auto results = node->sent<protocol::Result_>();
    REQUIRE(results.size() == 1);
    CHECK(results[0].run_name == "elsewhere");
    CHECK(summary_of(results[0].result_json) == "elsewhere in 0 attempts");
    REQUIRE(test::run_until(story.loop, [&] { return std::filesystem::exists(file); }));
    CHECK(summary_of(read_file(file).value()) == "own in 1 attempts");
}

TEST_CASE("a result whose run was removed before it is durable is not written") {
    SenderStory story;
    const auto node = story.connected("n1");
    // It has no room and stays queued.
    const RunId run = story.submitted(stories::submission({.name = "job", .cpus = 64}));
    story.happens(RunStopAsked{.run = run, .by = "ana", .wall_ms = 1});
    REQUIRE(terminal(story.run(run).state));
    const auto orders = story.sender.orders({WriteResult{.run = run, .node = {"n1"}}});
    REQUIRE(orders.size() == 1);
    story.happens(RunRemoved{run});
    node->forget_sent();
    orders[0]();
    CHECK(node->sent<protocol::Result_>().empty());
}
