// The process of an object store for tests.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/catch.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::storage {

// A server of a kind: server.py in the folder of that kind in tests/, with a bucket `runs`. It ends with its standard
// input.
class BucketServer {
  public:
    explicit BucketServer(const std::string& kind, std::vector<std::string> options = {}) {
        const char* given = std::getenv("RTRAIN_TEST_PYTHON");
        const std::string python = given != nullptr ? given : test::source_directory() + "/.venv/bin/python";
        std::vector<std::string> words{python, test::source_directory() + "/tests/" + kind + "/server.py", "--bucket",
                                       "runs"};
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
        INFO("are the packages of tests in the environment of " << python << "? scripts/bootstrap puts them there");
        REQUIRE(read == 1);
        const bool tls = std::find(words.begin(), words.end(), "--tls") != words.end();
        endpoint = (tls ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(port);
    }
    ~BucketServer() { stop(); }
    BucketServer(const BucketServer&) = delete;

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

}  // namespace rtrain::storage
