// The variables from which a job's own credentials for an object store are taken, for each kind of store. The head
// sends them to the agents that open the run's storage path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain {

using VariableNames = std::vector<std::string_view>;
struct BucketSecrets {
    std::string_view kind;  // "S3", for messages
    VariableNames schemes;  // "s3://"
    // A job that names all variables of one of these sets among its `secrets` brings its own credentials.
    std::vector<VariableNames> sets;
    VariableNames further;  // credentials that go with a set
    // Settings that replace those of the agent beside a job's own credentials, each group as a whole.
    std::vector<VariableNames> settings;
    VariableNames endpoints;   // variables among the settings that name a server, the one that counts first
    VariableNames agents_own;  // credentials of the agent, which are hidden from a run with its own
    VariableNames texts;       // variables that may contain spaces and line ends
};

// Returns nullptr if the storage path is not in an object store.
const BucketSecrets* bucket_secrets(std::string_view storage_path);
// Returns every variable that is sent to an agent.
VariableNames sent_variables(const BucketSecrets&);
std::string secrets_text(const BucketSecrets&);  // the sets, for messages: "[A, B] or [C]"

}  // namespace rtrain
