// An S3 server for tests: tests/s3/server.py, started at its first use and ended with its standard input.
// RTRAIN_TEST_S3=http://host:port names another server, whose key is in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "storage/uri/objects/store.hpp"
#include "storage/uri/s3/s3.hpp"
#include "storage/uri/s3/service.hpp"
#include "storage/uri/s3/settings.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::storage {

class S3Server {
  public:
    explicit S3Server(std::vector<std::string> options = {}) {
        const char* given = std::getenv("RTRAIN_TEST_PYTHON");
        const std::string python = given != nullptr ? given : test::source_directory() + "/.venv/bin/python";
        std::vector<std::string> words{python, test::source_directory() + "/tests/s3/server.py", "--bucket", "runs"};
        words.insert(words.end(), options.begin(), options.end());
        int to[2], from[2];
        REQUIRE(::pipe2(to, O_CLOEXEC) == 0);
        REQUIRE(::pipe2(from, O_CLOEXEC) == 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::dup2(to[0], 0);
            ::dup2(from[1], 1);
            std::vector<char*> arguments;
            for (std::string& word : words) arguments.push_back(word.data());
            arguments.push_back(nullptr);
            ::execv(arguments[0], arguments.data());
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        input_ = to[1];
        std::FILE* lines = ::fdopen(from[0], "r");
        int port = 0;
        const int read = std::fscanf(lines, "%d", &port);
        std::fclose(lines);
        INFO("is moto in the environment of " << python << "? scripts/bootstrap puts it there");
        REQUIRE(read == 1);
        const bool tls = std::find(words.begin(), words.end(), "--tls") != words.end();
        endpoint = (tls ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(port);
    }
    ~S3Server() { stop(); }
    S3Server(const S3Server&) = delete;

    void halt() { ::kill(process_, SIGSTOP); }
    void stop() {
        if (process_ <= 0) return;
        ::close(input_);
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = 0;
    }

    std::string endpoint;

  private:
    pid_t process_ = 0;
    int input_ = -1;
};

using Named = std::map<std::string, std::string>;
inline objects::Variables variables_of(Named values) {
    return [values = std::move(values)](const std::string& name) {
        const auto entry = values.find(name);
        return entry == values.end() ? std::string{} : entry->second;
    };
}
inline Named keys_for(const std::string& endpoint) {
    return {{"AWS_ENDPOINT_URL", endpoint},
            {"AWS_ACCESS_KEY_ID", "rtrain-test-key"},
            {"AWS_SECRET_ACCESS_KEY", "rtrain-test-secret"},
            {"HOME", "/nonexistent"}};
}

// Returns the one server of all tests of the program.
inline const Named& shared_s3() {
    static const Named values = [] {
        if (const char* given = std::getenv("RTRAIN_TEST_S3"); given != nullptr) {
            Named own = keys_for(given);
            for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CA_BUNDLE"})
                if (const char* value = std::getenv(name); value != nullptr) own[name] = value;
            auto client = s3::open_client("runs", variables_of(own));
            REQUIRE(client.ok());
            REQUIRE((*client)->send({.method = "PUT", .doing = "making"}).ok());
            return own;
        }
        static S3Server server;
        return keys_for(server.endpoint);
    }();
    return values;
}

inline std::unique_ptr<Store> s3_store(const std::string& root, const Named& values) {
    auto store = open_s3_store(root, variables_of(values));
    // Without Catch's assertions, which are for one thread: some tests open stores in several threads.
    if (!store.ok()) throw std::runtime_error("no store at " + root + ": " + store.error().message);
    return std::move(store).value();
}

}  // namespace rtrain::storage
