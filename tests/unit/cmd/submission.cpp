// Secrets are read from the environment of the submitting user.
#include "cmd/client/submission.hpp"

#include <cstdlib>

#include "tests/unit/catch.hpp"

using namespace rtrain;

TEST_CASE("a secret that is not set, or is not UTF-8, is refused by its name before anything is sent") {
    spec::Job job;
    job.secrets = {"RTRAIN_TEST_SECRET"};
    ::unsetenv("RTRAIN_TEST_SECRET");
    CHECK(cmd::secrets_are_set(job).error().message.find("RTRAIN_TEST_SECRET is not set") != std::string::npos);
    ::setenv("RTRAIN_TEST_SECRET", "caf\xe9", 1);
    CHECK(cmd::secrets_are_set(job).error().message.find("RTRAIN_TEST_SECRET in your environment is not UTF-8") !=
          std::string::npos);
    ::setenv("RTRAIN_TEST_SECRET", "caf\xc3\xa9", 1);
    CHECK(cmd::secrets_are_set(job));
    ::unsetenv("RTRAIN_TEST_SECRET");
}
