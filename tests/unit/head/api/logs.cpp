// The route of logs: answers are made while they are sent, with a bound on their number, and a follower can continue
// where another one ended.
#include <filesystem>

#include "base/json_text.hpp"
#include "daemon/head/logs/log_answers.hpp"
#include "daemon/head/logs/log_position.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

constexpr std::size_t megabytes = 24;  // output of one rank; exceeds the limit of a follower plus the socket buffers

struct ChattyRun {
    TemporaryFolder folder;
    HeadUnderTest head{{.data_dir = folder.path}};
    HandMadeAgent agent{join(head, "n1"), "n1"};
    protocol::AttemptRef attempt;
    std::map<std::uint32_t, std::uint64_t> bytes;  // by rank
    std::map<std::uint32_t, int> lines;

    explicit ChattyRun(int workers) {
        agent.register_node();
        REQUIRE(head.call("POST", "/v1/runs", {{"job", job("chatty", workers)}}).status == 201);
        attempt = start_attempt(agent, static_cast<std::uint32_t>(workers));
    }

    void print(std::uint32_t rank, const std::string& text) {
        agent.say(protocol::LogChunk{
            .attempt = attempt, .rank = rank, .stream = "out", .offset = bytes[rank], .bytes = text, .wall_ms = 1});
        bytes[rank] += text.size();
        CHECK(agent.expect<protocol::LogAck>().offset == bytes[rank]);
    }
    void complete_logs(std::uint32_t rank) {
        for (const char* stream : {"out", "err"})
            agent.say(protocol::LogChunk{.attempt = attempt,
                                         .rank = rank,
                                         .stream = stream,
                                         .offset = stream == std::string("out") ? bytes[rank] : 0,
                                         .last = true});
    }
    // Lines "RANK NUMBER xxx...", a megabyte of them.
    void print_a_megabyte(std::uint32_t rank) {
        std::string text;
        while (text.size() < 1u << 20) text += next_line(rank) + std::string(900, 'x') + "\n";
        print(rank, text);
    }
    std::string next_line(std::uint32_t rank) {
        return std::to_string(rank) + " " + std::to_string(lines[rank]++) + " ";
    }

    net::Response get(const std::string& query) const {
        net::Client client(head.endpoint(head.admin));
        auto answer = client.call({.target = "/v1/runs/chatty/logs?" + query});
        REQUIRE(answer.ok());
        return std::move(*answer);
    }
};

// Returns "RANK NUMBER" for each line of an answer or a stream; an id becomes "id".
std::vector<std::string> shown(const std::string& text, std::string* last_id = nullptr) {
    std::vector<std::string> out;
    std::string id;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string row = text.substr(at, end - at);
        at = end + 1;
        if (row.starts_with("id: ")) id = row.substr(4);
        if (row.starts_with("data: ")) row = row.substr(6);
        const json line = parse_json(row);
        if (!line.is_object() || !line.contains("line")) continue;
        const std::string words = line["line"];
        out.push_back(words.substr(0, words.find(' ', words.find(' ') + 1)));
        if (last_id && !id.empty()) *last_id = std::exchange(id, "");
    }
    return out;
}

// Returns the lines that a follower gets until it has `count` of them, or the stream ends.
std::string followed(const HeadUnderTest& head, const std::string& query, std::size_t count) {
    net::Client client(head.endpoint(head.admin));
    std::string text;
    (void)client.call({.target = "/v1/runs/chatty/logs?follow=true&" + query, .on_piece = [&](std::string_view piece) {
                           text += piece;
                           return shown(text).size() < count;
                       }});
    return text;
}

}  // namespace

TEST_CASE("answers with logs leave no file on the head's disk, and are so many at a time") {
    ChattyRun run(1);
    for (std::size_t i = 0; i < megabytes; ++i) run.print_a_megabyte(0);
    const std::string ana = run.head.make_token("admin", "ana");
    std::mutex guard;
    std::condition_variable changed;
    std::size_t begun = 0;
    bool go_on = false;
    std::vector<std::thread> readers;
    const auto read_slowly = [&] {
        net::Client client(run.head.endpoint(ana));
        (void)client.call({.target = "/v1/runs/chatty/logs", .on_piece = [&, first = true](std::string_view) mutable {
                               std::unique_lock lock(guard);
                               if (std::exchange(first, false)) ++begun;
                               changed.notify_all();
                               changed.wait_for(lock, patience, [&] { return go_on; });
                               return false;  // closes with most of the answer unread
                           }});
    };
    for (std::size_t i = 0; i < head::LogAnswers::of_user_most; ++i) readers.emplace_back(read_slowly);
    {
        std::unique_lock lock(guard);
        CHECK(changed.wait_for(lock, patience, [&] { return begun == head::LogAnswers::of_user_most; }));
    }
    std::uintmax_t on_disk = 0;
    for (const auto& file : std::filesystem::directory_iterator(run.folder.path + "/tmp")) on_disk += file.file_size();
    CHECK(on_disk == 0);
    net::Client client(run.head.endpoint(ana));
    const auto refused = client.call({.target = "/v1/runs/chatty/logs?tail=1"});
    REQUIRE(refused.ok());
    CHECK(refused->status == 429);
    CHECK(refused->headers.contains("retry-after"));
    CHECK(run.get("tail=1").status == 200);  // another user
    {
        const std::lock_guard lock(guard);
        go_on = true;
    }
    changed.notify_all();
    for (std::thread& reader : readers) reader.join();
    CHECK(eventually([&] { return client.call({.target = "/v1/runs/chatty/logs?tail=1"})->status == 200; }));
}

TEST_CASE("the last lines and a stream from there on are all lines, each once, however much there was before") {
    ChattyRun run(2);
    for (std::size_t i = 0; i < 10; ++i) run.print_a_megabyte(0);
    run.print(1, run.next_line(1) + "\n");
    run.print(1, run.next_line(1));  // without its newline
    const net::Response last = run.get("tail=3&position=true");
    const std::string position = last.headers.at("x-rtrain-logs-position");
    std::vector<std::string> all = shown(last.body);
    REQUIRE(all.size() == 3);
    CHECK(std::count(all.begin(), all.end(), "1 1") == 0);
    const int known = run.lines[0];
    run.print(1, "end\n");
    run.print(0, run.next_line(0) + "\n");
    for (int i = 0; i < 2; ++i) run.print(0, run.next_line(0) + "\n");
    std::string id;
    std::vector<std::string> came = shown(followed(run.head, "after=" + position, 4), &id);
    std::sort(came.begin(), came.end());
    std::vector<std::string> expected = {"1 1"};
    for (int i = 0; i < 3; ++i) expected.push_back("0 " + std::to_string(known + i));
    std::sort(expected.begin(), expected.end());
    CHECK(came == expected);
    REQUIRE(!id.empty());

    run.print(0, run.next_line(0) + "\n");
    CHECK(shown(followed(run.head, "after=" + id, 1)) == std::vector<std::string>{"0 " + std::to_string(known + 3)});
    CHECK(run.get("follow=true&after=nonsense").status == 400);
}

TEST_CASE("a rank that prints a flood of short lines is followed to its end") {
    ChattyRun run(1);
    constexpr int count = 100'000;
    std::string text;
    for (int i = 0; i < count; ++i) text += "0 " + std::to_string(i) + " \n";
    run.print(0, text);
    run.complete_logs(0);
    end_well(run.agent, run.attempt, 1);
    net::Client client(run.head.endpoint(run.head.admin));
    const auto answer = client.call({.target = "/v1/runs/chatty/logs?follow=true"});
    REQUIRE(answer.ok());
    const std::vector<std::string> came = shown(answer->body);
    REQUIRE(came.size() == count);
    CHECK(came.back() == "0 " + std::to_string(count - 1));
    CHECK(answer->body.find("event: end") != std::string::npos);
}

TEST_CASE("a follower waits for the lines of ranks that ran, also where the run's end comes before the first of them") {
    ChattyRun run(2);
    end_well(run.agent, run.attempt, 2);
    REQUIRE(eventually([&] { return run.head.call("GET", "/v1/runs/chatty").body["state"] == "SUCCEEDED"; }));
    const auto ended = std::chrono::steady_clock::now();
    std::string text;
    std::thread follower([&] { text = followed(run.head, "", 3); });
    const std::string setup = run.get("follow=true&stream=setup").body;  // no setup lines exist
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        const std::string line = run.next_line(rank) + "\n";
        run.agent.say(
            protocol::LogChunk{.attempt = run.attempt, .rank = rank, .stream = "out", .bytes = line, .wall_ms = 1});
        run.bytes[rank] = line.size();
        run.complete_logs(rank);
    }
    follower.join();
    CHECK(setup.find("event: end") != std::string::npos);
    CHECK(text.find("event: end") != std::string::npos);
    std::vector<std::string> came = shown(text);
    std::sort(came.begin(), came.end());
    // Five seconds after its end the run counts as over for followers, on a machine of any speed.
    if (std::chrono::steady_clock::now() - ended < std::chrono::seconds(4))
        CHECK(came == std::vector<std::string>{"0 0", "1 0"});
}

TEST_CASE("names in a client's position that are no files are not kept") {
    ChattyRun run(1);
    run.print(0, run.next_line(0) + "\n");
    const RunId id{run.attempt.run};
    head::LogPosition forged;
    for (std::uint32_t rank = 1; rank < 1'000; ++rank)
        forged[{.run = id, .attempt = 1, .rank = rank, .stream = "err"}] = 1;
    std::string last;
    CHECK(shown(followed(run.head, "after=" + head::position_text(id, forged), 1), &last).size() == 1);
    const auto position = head::position_of(last, id);
    REQUIRE(position);
    CHECK(position->size() == 1);
    CHECK(position->begin()->first.stream == "out");
}

namespace {

std::size_t count_of(const std::string& text, const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos; at += words.size()) ++count;
    return count;
}

}  // namespace

TEST_CASE("a follower that asks for states gets the newest one of a line without an end, ten a second at most") {
    ChattyRun run(1);
    run.print(0, "begun\n");
    const auto begun = std::chrono::steady_clock::now();
    std::string text;
    std::thread follower([&] {
        net::Client client(run.head.endpoint(run.head.admin));
        (void)client.call(
            {.target = "/v1/runs/chatty/logs?follow=true&states_ms=1", .on_piece = [&](std::string_view piece) {
                 text += piece;
                 return text.find("\"state\":\" 200%\"") == std::string::npos;
             }});
    });
    std::string line;
    for (int percent = 1; percent <= 200; ++percent) {
        line += "\r " + std::to_string(percent) + "%";
        run.print(0, "\r " + std::to_string(percent) + "%");
    }
    follower.join();  // the last state is sent although no output follows it
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
    CHECK(count_of(text, "event: state") >= 1);
    CHECK(count_of(text, "event: state") <= static_cast<std::size_t>(ms.count() / 100 + 2));
    CHECK(count_of(text, "\"line\"") == 1);

    run.print(0, "\n");
    const std::string ended = followed(run.head, "states_ms=100&tail=1", 1);
    CHECK(ended.find("\"state\":\" 200%\"") != std::string::npos);
    CHECK(ended.find("goes_on") == std::string::npos);
    const json last = parse_json(run.get("tail=1").body);
    CHECK(last["line"] == line);  // the output, byte for byte
    CHECK_FALSE(last.contains("state"));
    CHECK(followed(run.head, "tail=1", 1).find("state") == std::string::npos);  // in the form for older clients
}

TEST_CASE("a line of megabytes that is written over comes in pieces, each of which says that it goes on") {
    ChattyRun run(1);
    std::string bar;
    while (bar.size() < 300'000) bar += "\r" + std::to_string(bar.size()) + std::string(80, '#');
    run.print(0, bar);
    std::string text;
    net::Client client(run.head.endpoint(run.head.admin));
    (void)client.call(
        {.target = "/v1/runs/chatty/logs?follow=true&states_ms=100", .on_piece = [&](std::string_view piece) {
             text += piece;
             return text.find("event: state") == std::string::npos;
         }});
    CHECK(count_of(text, "\"goes_on\":true") == 4);  // 64 KiB each
    CHECK(text.size() < 4'000);
}
