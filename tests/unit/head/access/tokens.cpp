// Wrong, used, expired and revoked tokens are refused, each with its reason.
#include "daemon/head/access/tokens.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/head/access/dropped_tokens.hpp"
#include "daemon/security/security.hpp"
#include "storage/state/journal.hpp"
#include "tests/unit/head_fixture.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

net::Request with_token(const std::string& text) {
    net::Request request;
    request.headers["authorization"] = "Bearer " + text;
    return request;
}

struct Book {
    explicit Book(const TokenWish& wish) : fresh(make_token(wish)) { book.open({fresh.row}, "key of this head"); }
    FreshToken fresh;
    TokenBook book;
};

std::string refusal(const TokenBook& book, const std::string& text, std::int64_t now = 0) {
    const auto caller = book.authenticate(with_token(text), now);
    return caller ? "came in" : caller.error().message;
}

}  // namespace

TEST_CASE("a token opens with its own role and user, and only its hash is kept") {
    const Book given({.role = Role::viewer, .user = "eve"});
    const Caller caller = given.book.authenticate(with_token(given.fresh.text), 0).value();
    CHECK(caller.role == Role::viewer);
    CHECK(caller.user == "eve");
    CHECK(given.fresh.text.find(given.fresh.row.secret_hash) == std::string::npos);
}

TEST_CASE("what is wrong with a token is said, but not whether its id exists") {
    Book given({.role = Role::user, .user = "ann", .expires_wall_ms = 1'000});
    CHECK(refusal(given.book, given.fresh.text, 999) == "came in");
    CHECK(refusal(given.book, given.fresh.text, 1'000).find("has expired") != std::string::npos);
    std::string wrong = given.fresh.text;
    wrong.back() = wrong.back() == '0' ? '1' : '0';
    const Book other({.role = Role::user, .user = "ann"});
    CHECK(refusal(given.book, wrong) == refusal(given.book, other.fresh.text));
    state::TokenRow row = given.fresh.row;
    row.revoked = true;
    given.book.set(row);
    CHECK(refusal(given.book, given.fresh.text).find("was revoked") != std::string::npos);
    CHECK(refusal(given.book, "garbage").find("malformed") != std::string::npos);
    CHECK(given.book.authenticate(net::Request{}, 0).error().code == ErrorCode::unauthorised);
}

TEST_CASE("a join token joins once and opens nothing else") {
    Book given({.role = Role::node, .uses_left = 1, .ca_fingerprint = std::string(64, 'a')});
    CHECK(given.book.authenticate(with_token(given.fresh.text), 0).value().role == Role::joiner);
    state::TokenRow row = given.book.check_join_token(given.fresh.text, 0).value();
    row.uses_left = 0;
    given.book.set(row);
    CHECK(given.book.check_join_token(given.fresh.text, 0).error().message.find("used already") != std::string::npos);
}

TEST_CASE("a run's token acts for its user while the run lives, also after a restart of the head") {
    Book given({.role = Role::admin, .user = "root"});
    const std::string text = given.book.run_token(RunId{4}, "ann");
    CHECK(given.book.authenticate(with_token(text), 0).value().user == "ann");
    TokenBook restarted;
    restarted.open({}, "key of this head");
    CHECK(restarted.run_token(RunId{4}, "ann") == text);
    const std::string key = "key of this head",
                      earlier = security::sha256_hex(key + security::sha256_hex(key + "run-4"));
    CHECK(restarted.authenticate(with_token("rtu1.run-4." + earlier), 0).value().user == "ann");
    CHECK(refusal(restarted, "rtu1.run-4." + std::string(64, 'a')).find("no longer valid") != std::string::npos);
    given.book.forget_run(RunId{4});
    CHECK(refusal(given.book, text).find("no longer valid") != std::string::npos);
}

TEST_CASE("a run's channel is the same after a restart, and differs by run, submission and head") {
    TokenBook book, restarted, other;
    book.open({}, "key of this head");
    restarted.open({}, "key of this head");
    other.open({}, "key of another head");
    const std::string text = book.run_channel(RunId{4}, "key-1").value();
    CHECK(restarted.run_channel(RunId{4}, "key-1").value() == text);
    CHECK(book.run_channel(RunId{5}, "key-1").value() != text);
    CHECK(book.run_channel(RunId{4}, "key-2").value() != text);
    CHECK(other.run_channel(RunId{4}, "key-1").value() != text);
}

TEST_CASE("a certificate names its node; any other name is nobody") {
    const TokenBook book;
    net::Request request;
    request.peer.certificate_name = "node:n1";
    CHECK(book.authenticate(request, 0).value().node == "n1");
    for (const char* name : {"rtrain-head", security::channel_name}) {
        request.peer.certificate_name = name;
        CHECK_FALSE(book.authenticate(request, 0).ok());
    }
}

TEST_CASE("the last admin token that opens is not revoked, and the refusal says what to do first") {
    const test::TemporaryFolder folder;
    test::HeadUnderTest head({.data_dir = folder.path});
    const std::string first = security::parse_token(head.admin)->id;
    const auto revoke = [&](const std::string& id) { return head.call("DELETE", "/v1/tokens/" + id); };
    const test::Answer passing =
        head.call("POST", "/v1/tokens", {{"role", "admin"}, {"user", "ann"}, {"expires_ms", 1}});
    REQUIRE(passing.status == 201);
    CHECK(revoke(security::parse_token(head.make_token("user", "bob"))->id).status == 200);
    REQUIRE(test::eventually([&] {  // an expired token is refused
        return head.call_as(passing.body["token"], "GET", "/v1/status").status == 401;
    }));
    const test::Answer last = revoke(first);
    CHECK(last.status == 409);
    CHECK(last.body["next"].get<std::string>().find("rtrain token create --role admin") != std::string::npos);
    CHECK(head.call("GET", "/v1/tokens").status == 200);

    const std::string other = head.make_token("admin", "ann");
    CHECK(revoke(first).status == 200);
    CHECK(head.call("GET", "/v1/tokens").status == 401);
    CHECK(head.call_as(other, "GET", "/v1/tokens").status == 200);
    head.admin = other;  // the destructor stops the head with it
}

TEST_CASE("a head whose admin tokens have all expired or were revoked makes one at its next start") {
    const test::TemporaryFolder folder;
    { const test::HeadUnderTest head({.data_dir = folder.path}); }
    {
        const auto journal = state::SqliteJournal::open(folder.path).value();
        for (state::TokenRow row : journal->tokens()) {
            row.revoked = row.role == "admin";
            REQUIRE(journal->save_token(row).ok());
        }
    }
    const test::HeadUnderTest again({.data_dir = folder.path});
    REQUIRE_FALSE(again.started.admin_token.empty());
    CHECK(again.call("GET", "/v1/tokens").status == 200);
}

TEST_CASE("a person's token lasts 90 days unless another time, or never, is asked for; the first admin's has no end") {
    const test::TemporaryFolder folder;
    const test::HeadUnderTest head({.data_dir = folder.path});
    const auto made = [&](const test::json& fields) {
        test::json body = {{"role", "user"}, {"user", "ann"}};
        body.update(fields);
        return head.call("POST", "/v1/tokens", body);
    };
    const auto row_of = [](const test::Answer& answer) {
        return answer.body["expires"].is_null() ? std::string("never") : answer.body["expires"].get<std::string>();
    };
    const std::string today = made({{"expires_ms", 1'000}}).body["created"],
                      in_90_days = row_of(made(test::json::object()));
    CHECK((in_90_days != "never" && in_90_days > today));
    CHECK(row_of(made({{"expires_ms", 89LL * 86'400'000}})) < in_90_days);
    CHECK(row_of(made({{"expires_ms", 91LL * 86'400'000}})) > in_90_days);
    CHECK(row_of(made({{"expires_ms", 0}})) == "never");
    CHECK(made({{"expires_ms", -1}}).status == 400);
    CHECK(made({{"role", "node"}, {"expires_ms", 0}}).status == 400);
    const test::json own = head.call("GET", "/v1/status").body["token"];
    CHECK((own["role"] == "admin" && own["expires"].is_null()));
    CHECK(head.call_as(made(test::json::object()).body["token"], "GET", "/v1/status").body["token"]["expires"] > today);
}

TEST_CASE("on the head's machine an admin token is made without one, whether the head runs or not") {
    const test::TemporaryFolder folder;
    CHECK(drop_admin_token(folder.path, "ann", 0).error().code == ErrorCode::not_found);  // not a head's directory
    DroppedToken before;
    {
        const test::HeadUnderTest head({.data_dir = folder.path});
        const auto made = drop_admin_token(folder.path, "ann", 0).value();
        REQUIRE(test::eventually([&] { return head.call_as(made.text, "GET", "/v1/tokens").status == 200; }));
        CHECK_FALSE(std::filesystem::exists(made.file));
        const nlohmann::json rows = head.call("GET", "/v1/audit").body["items"];
        REQUIRE(rows.size() == 2);  // the first row is the head's own, for its first token
        CHECK(rows[1]["action"] == "rtrain token create --data");
        CHECK(rows[1]["target"] == "id=" + made.id + " role=admin user=ann");
    }
    before = drop_admin_token(folder.path, "ann", 0).value();
    std::ofstream(folder.path + "/new-tokens/odd.json") << "[1]";
    test::HeadUnderTest again({.data_dir = folder.path});
    CHECK(again.call_as(before.text, "GET", "/v1/tokens").status == 200);
    CHECK(again.call_as(before.text, "POST", "/v1/head/stop").status == 202);
    CHECK(again.outcome().ok());
}

TEST_CASE("an admin token made on the head's machine has a name that the API would take, and errors say what is so") {
    const test::TemporaryFolder folder;
    const std::string data = folder.path + "/data";
    std::filesystem::create_directory(data);
    std::ofstream(data + "/ca.key") << "key";
    for (const std::string& name :
         {std::string("no blanks"), std::string("a/b"), std::string("\xff"), std::string(), std::string(256, 'a')}) {
        const auto made = drop_admin_token(data, name, 0);
        REQUIRE_FALSE(made);
        CHECK(made.error().code == ErrorCode::usage);
    }
    CHECK_FALSE(std::filesystem::exists(data + "/new-tokens"));
    if (::geteuid() != 0) return;  // needs another user
    std::filesystem::permissions(data, std::filesystem::perms(0700));
    std::filesystem::permissions(folder.path, std::filesystem::perms(0755));
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setuid(65534) != 0) ::_exit(2);
        const auto made = drop_admin_token(data, "ann", 0);
        ::_exit(!made && made.error().code == ErrorCode::unauthorised &&
                        made.error().next.find("as root") != std::string::npos
                    ? 0
                    : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}
