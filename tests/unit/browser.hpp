// A browser that is signed in at a head: its cookie, its CSRF token, and the headers that a browser sends.
#pragma once

#include <map>
#include <string>

#include "base/json_text.hpp"
#include "daemon/head/access/browser_requests.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/head_fixture.hpp"

namespace rtrain::test {

class Browser {
  public:
    Browser(const HeadUnderTest& head, const std::string& token) : endpoint_(head.endpoint("")) {
        net::Client client(endpoint_);
        auto headers = this->headers();
        headers["content-type"] = "application/json";
        const auto signed_in = client.call(
            {.method = "POST", .target = "/v1/session", .body = json_text(json{{"token", token}}), .headers = headers});
        REQUIRE((signed_in ? "" : signed_in.error().message) == std::string());
        INFO(signed_in->body);
        REQUIRE(signed_in->status == 201);
        set_cookie = signed_in->headers.at("set-cookie");
        cookie = set_cookie.substr(0, set_cookie.find(';'));
        csrf = parse_json(signed_in->body).at("csrf");
    }

    void moved_to(const HeadUnderTest& head) { endpoint_ = head.endpoint(""); }

    std::map<std::string, std::string> headers() const {
        const std::string host = endpoint_.host + ":" + std::to_string(endpoint_.port);
        std::map<std::string, std::string> out = {{"origin", "https://" + host}, {"sec-fetch-site", "same-origin"}};
        if (!cookie.empty()) out["cookie"] = cookie;
        if (!csrf.empty()) out[head::csrf_header] = csrf;
        return out;
    }
    net::Response answer(const std::string& method, const std::string& target,
                         const std::map<std::string, std::string>& headers, const std::string& body = "") const {
        net::Client client(endpoint_);
        const auto response = client.call({.method = method, .target = target, .body = body, .headers = headers});
        REQUIRE((response ? "" : response.error().message) == std::string());
        return *response;
    }
    net::Response answer(const std::string& method, const std::string& target) const {
        return answer(method, target, headers());
    }
    Answer call(const std::string& method, const std::string& target, const json& body = nullptr) const {
        const auto response = answer(method, target, headers(), body.is_null() ? "" : json_text(body));
        return {response.status, parse_json(response.body), response.body};
    }

    std::string set_cookie, cookie, csrf;

  private:
    net::Endpoint endpoint_;
};

}  // namespace rtrain::test
