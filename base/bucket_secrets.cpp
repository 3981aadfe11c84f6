#include "base/bucket_secrets.hpp"

#include <algorithm>
#include <array>

namespace rtrain {
namespace {

const std::array<BucketSecrets, 3>& known_kinds() {
    static const std::array<BucketSecrets, 3> kinds{
        BucketSecrets{.kind = "S3",
                      .schemes = {"s3://"},
                      .sets = {{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}},
                      .further = {"AWS_SESSION_TOKEN"},
                      .settings = {{"AWS_REGION", "AWS_DEFAULT_REGION"}, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}},
                      .endpoints = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
                      .agents_own = {},
                      .texts = {}},
        BucketSecrets{.kind = "Google Cloud Storage",
                      .schemes = {"gs://"},
                      .sets = {{"GOOGLE_SERVICE_ACCOUNT_KEY"},
                               {"GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY"},
                               {"GOOGLE_OAUTH_ACCESS_TOKEN"}},
                      .further = {},
                      .settings = {{"STORAGE_EMULATOR_HOST"}},
                      .endpoints = {"STORAGE_EMULATOR_HOST"},
                      .agents_own = {"GOOGLE_APPLICATION_CREDENTIALS"},
                      .texts = {"GOOGLE_SERVICE_ACCOUNT_KEY"}},
        BucketSecrets{.kind = "Azure Blob Storage",
                      .schemes = {"az://", "abfs://", "abfss://"},
                      .sets = {{"AZURE_STORAGE_KEY"},
                               {"AZURE_STORAGE_SAS_TOKEN"},
                               {"AZURE_STORAGE_CONNECTION_STRING"},
                               {"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"}},
                      .further = {},
                      .settings = {{"AZURE_STORAGE_ACCOUNT"}, {"AZURE_STORAGE_SERVICE_ENDPOINT"}},
                      .endpoints = {"AZURE_STORAGE_SERVICE_ENDPOINT"},
                      .agents_own = {"AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME",
                                     "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"},
                      .texts = {}}};
    return kinds;
}

}  // namespace

const BucketSecrets* bucket_secrets(std::string_view storage_path) {
    for (const BucketSecrets& kind : known_kinds())
        for (const std::string_view scheme : kind.schemes)
            if (storage_path.starts_with(scheme)) return &kind;
    return nullptr;
}

VariableNames sent_variables(const BucketSecrets& kind) {
    VariableNames names = kind.further;
    for (const auto* groups : {&kind.sets, &kind.settings})
        for (const VariableNames& group : *groups) names.insert(names.end(), group.begin(), group.end());
    return names;
}

std::string secrets_text(const BucketSecrets& kind) {
    std::string text;
    for (const VariableNames& set : kind.sets) {
        text += text.empty() ? "[" : " or [";
        for (const std::string_view name : set)
            text += std::string(name == set.front() ? "" : ", ") + std::string(name);
        text += "]";
    }
    return text;
}

}  // namespace rtrain
