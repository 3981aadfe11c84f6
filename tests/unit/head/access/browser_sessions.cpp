// Browser sessions: their end, their bound, their stored form, and forged requests that a foreign page may cause.
#include "daemon/head/access/browser_sessions.hpp"

#include "daemon/head/access/browser_requests.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

constexpr std::int64_t hour_ms = 3'600'000;

struct Story {
    TokenBook tokens;
    BrowserSessions sessions;
    FreshToken ann = make_token({.role = Role::user, .user = "ann"});

    Story() { tokens.open({ann.row}, "key"); }
    BrowserSessions::Settings begin(const std::string& secret, std::int64_t now = 0) {
        return sessions.begin(secret, ann.row, tokens, now).value();
    }
    std::string who(const std::string& secret, std::int64_t now = 0) const {
        const auto caller = sessions.caller_of(secret, tokens, now);
        return caller ? caller->user : "nobody";
    }
};

net::Request from_browser(const std::map<std::string, std::string>& headers) {
    net::Request request;
    request.method = "POST";
    for (const auto& [name, value] : headers) request.headers[name] = value;
    return request;
}

bool allows(const BrowserRequests& browser, const std::map<std::string, std::string>& headers) {
    return browser.own_change(from_browser(headers), "secret").ok();
}

}  // namespace

TEST_CASE("a session is its token's user with its role, and what is kept of it opens nothing") {
    Story story;
    const auto saved = story.begin("secret");
    const Caller caller = story.sessions.caller_of("secret", story.tokens, 5).value();
    CHECK(caller.user == "ann");
    CHECK(caller.role == Role::user);
    CHECK(caller.token_id == story.ann.row.id);
    CHECK(caller.session == security::sha256_hex("secret"));
    CHECK(story.tokens.last_used(story.ann.row.id) == 5);
    REQUIRE(saved.size() == 1);
    CHECK((saved.begin()->first + saved.begin()->second).find("secret\"") == std::string::npos);
    CHECK(story.who(caller.session) == "nobody");  // the stored hash is no secret
    CHECK(story.who("") == "nobody");
}

TEST_CASE("a session ends after 12 hours without use, each use begins them anew") {
    Story story;
    story.begin("secret");
    CHECK(story.who("secret", 12 * hour_ms - 1) == "ann");
    CHECK(story.who("secret", 24 * hour_ms - 2) == "ann");
    CHECK(story.who("secret", 36 * hour_ms - 2) == "nobody");
    CHECK_FALSE(story.sessions.lives(security::sha256_hex("secret"), 36 * hour_ms - 2));
}

TEST_CASE("a session ends with its token: revoked, expired, or replaced under the same id") {
    const auto ended_by = [](const std::function<void(state::TokenRow&)>& change) {
        Story story;
        story.begin("secret");
        state::TokenRow row = story.ann.row;
        change(row);
        story.tokens.set(row);
        return story.who("secret", 10) == "nobody";
    };
    CHECK_FALSE(ended_by([](state::TokenRow&) {}));
    CHECK(ended_by([](state::TokenRow& row) { row.revoked = true; }));
    CHECK(ended_by([](state::TokenRow& row) { row.expires_wall_ms = 10; }));
    CHECK(ended_by([](state::TokenRow& row) { row.secret_hash = security::sha256_hex("another"); }));
}

TEST_CASE("a session survives the head's restart; one that has ended, and what is no session, is erased") {
    Story story;
    auto saved = story.begin("kept");
    saved.merge(story.begin("idle", -12 * hour_ms));
    saved[std::string(BrowserSessions::prefix) + "broken"] = "{";
    for (const auto& [key, value] : story.begin("signed out")) saved[key] = value;
    for (const auto& [key, value] : story.sessions.end(security::sha256_hex("signed out"))) {
        CHECK(value.empty());
        saved[key] = value;
    }
    BrowserSessions restarted;
    CHECK(restarted.open(saved, story.tokens, 0).size() == 3);
    CHECK(restarted.count() == 1);
    CHECK(restarted.caller_of("kept", story.tokens, 0).ok());
    CHECK_FALSE(restarted.caller_of("signed out", story.tokens, 0).ok());
}

TEST_CASE("uses are saved each ten minutes, not each time") {
    Story story;
    story.begin("secret");
    const auto changes = [&] {
        BrowserSessions::Settings settings;
        story.sessions.add_changes(settings);
        return settings.size();
    };
    CHECK(story.who("secret", 1'000) == "ann");
    CHECK(changes() == 0);
    CHECK(story.who("secret", session_saved_each_ms) == "ann");
    CHECK(changes() == 1);
    CHECK(changes() == 0);
}

TEST_CASE("a user has so many sessions, and the one that was unused for longest ends for a new one") {
    Story story;
    for (std::size_t i = 0; i < sessions_per_user_most; ++i)
        story.begin("s" + std::to_string(i), static_cast<std::int64_t>(i));
    CHECK(story.who("s0", 100) == "ann");
    const auto settings = story.begin("new", 101);
    CHECK(settings.size() == 2);
    CHECK(story.who("s1", 102) == "nobody");
    CHECK(story.who("s0", 102) == "ann");
    CHECK(story.sessions.count() == sessions_per_user_most);
}

TEST_CASE("all users together have so many sessions, and then nobody signs in before one has ended") {
    TokenBook tokens;
    BrowserSessions sessions;
    std::vector<state::TokenRow> rows;
    for (std::size_t i = 0; i <= sessions_most / sessions_per_user_most; ++i)
        rows.push_back(make_token({.role = Role::viewer, .user = "u" + std::to_string(i)}).row);
    tokens.open(rows, "key");
    for (std::size_t i = 0; i < sessions_most; ++i)
        REQUIRE(sessions.begin("s" + std::to_string(i), rows[i / sessions_per_user_most], tokens, 0).ok());
    CHECK(sessions.begin("one more", rows.back(), tokens, 1).error().code == ErrorCode::full);
    CHECK(sessions.begin("later", rows.back(), tokens, 12 * hour_ms).ok());
    CHECK(sessions.count() == 1);
}

TEST_CASE("sign-ins of a party: ten at once, then one in six seconds") {
    SignInRate rate;
    for (int i = 0; i < 10; ++i) CHECK(rate.take("address 10.0.0.7", 0));
    CHECK_FALSE(rate.take("address 10.0.0.7", 0));
    CHECK(rate.take("address 10.0.0.8", 0));
    CHECK(rate.take("address 10.0.0.7", 6'000));
    CHECK_FALSE(rate.take("address 10.0.0.7", 6'000));
    int taken = 0;  // many new addresses finally share one rate
    for (int i = 0; i < 5'000; ++i) taken += rate.take("address " + std::to_string(i), 6'000);
    CHECK(taken <= static_cast<int>(SignInRate::parties_most + SignInRate::burst));
}

TEST_CASE("a flood of sign-ins from many addresses keeps nobody else out for more than a second") {
    SignInRate rate;
    std::int64_t now = 0;
    for (int i = 0; i < 10; ++i) CHECK(rate.take("address guesses", now));
    for (int round = 0; round < 5; ++round) {
        now += 1'500;  // no address has all of its attempts back
        for (int i = 0; i < 5'000; ++i) (void)rate.take("address " + std::to_string(i), now);
        CHECK_FALSE(rate.take("address of a person", now));
        now += 1'000;
        CHECK(rate.take("address of a person", now));
    }
    CHECK(rate.take("address guesses", now));  // it still has its own entry and rate
    CHECK(rate.take("address guesses", now));
    CHECK_FALSE(rate.take("address guesses", now));
}

TEST_CASE("the addresses of an IPv6 network are one party that signs in, however they are written") {
    CHECK(sign_in_party("10.0.0.7:41234") == sign_in_party("10.0.0.7:9"));
    CHECK(sign_in_party("10.0.0.7:41234") != sign_in_party("10.0.0.8:41234"));
    CHECK(sign_in_party("[2001:db8::1]:1") == sign_in_party("[2001:db8::2:3]:1"));
    CHECK(sign_in_party("[2001:db8:0:0:a:b:c:d]:1") == sign_in_party("[2001:db8::1]:1"));
    CHECK(sign_in_party("[2001:db8:0:1::1]:1") != sign_in_party("[2001:db8::1]:1"));
    CHECK(sign_in_party("[::ffff:10.0.0.7]:1") != sign_in_party("[::ffff:10.0.0.8]:1"));
}

TEST_CASE("the head's own page may change something, with its origin and the CSRF token of its session") {
    const BrowserRequests browser("c1", {"Gpu-Head"});
    const std::string csrf = csrf_token_of("secret");
    for (const char* host :
         {"10.0.0.7:7433", "[::1]:7433", "localhost:1", "gpu-head:7433", "GPU-HEAD", "gpu-head.:7433", "rtrain-head"})
        CHECK(allows(browser, {{"host", host}, {"origin", "https://" + std::string(host)}, {csrf_header, csrf}}));
    const std::map<std::string, std::string> good = {
        {"host", "10.0.0.7:7433"}, {"origin", "https://10.0.0.7:7433"}, {csrf_header, csrf}};
    const auto with = [&](const char* name, const std::string& value) {
        auto headers = good;
        headers[name] = value;
        return headers;
    };
    CHECK(allows(browser, with("sec-fetch-site", "same-origin")));
    for (const char* site : {"cross-site", "same-site"}) CHECK_FALSE(allows(browser, with("sec-fetch-site", site)));
    for (const char* origin : {"", "null", "https://10.0.0.7", "http://10.0.0.7:7433",
                               "https://10.0.0.7:7433.evil.example", "https://evil.example"})
        CHECK_FALSE(allows(browser, with("origin", origin)));
    for (const std::string& token : {std::string(), std::string("x"), csrf_token_of("another"), csrf + "0"})
        CHECK_FALSE(allows(browser, with(csrf_header, token)));
}

TEST_CASE("a name that is not the head's own is a stranger's, whatever its page says (DNS rebinding)") {
    const BrowserRequests browser("c1", {"gpu-head"});
    for (const char* host :
         {"", "evil.example:7433", "gpu-head.evil.example", "10.0.0.7.evil.example:7433", "localhost.evil.example",
          "gpu-head:7433:7433", "gpu-head:", "[::1", "[::1]x", "evil.example@10.0.0.7", "0x7f000001.evil.example"})
        CHECK_FALSE(allows(
            browser,
            {{"host", host}, {"origin", "https://" + std::string(host)}, {csrf_header, csrf_token_of("secret")}}));
}

TEST_CASE("the cookie is the cluster's own, and is read among others") {
    const BrowserRequests browser("c1", {});
    const auto secret = [&](const char* cookies) { return browser.secret_of(from_browser({{"cookie", cookies}})); };
    CHECK(secret("__Host-rtrain-c1=s") == "s");
    CHECK(secret("a=b; __Host-rtrain-c1=s; c=d") == "s");
    for (const char* none : {"", "rtrain-c1=s", "__Host-rtrain-c2=s", "x__Host-rtrain-c1=s", "__Host-rtrain-c1"})
        CHECK(secret(none).empty());
    const std::string set = browser.cookie("s");
    for (const char* part : {"__Host-rtrain-c1=s;", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Strict"})
        CHECK(set.find(part) != std::string::npos);
    CHECK(set.find("Domain") == std::string::npos);
    CHECK(browser.cookie("").find("Max-Age=0") != std::string::npos);
}
