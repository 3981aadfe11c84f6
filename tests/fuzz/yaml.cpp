// Fuzzes job specs and queues in YAML, with --set and variables.
#include "storage/job_spec/fields/queues.hpp"
#include "storage/job_spec/job.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input = fuzz::text_of(data, size);
    const std::uint8_t choice = fuzz::take_choice(input);
    spec::ReadOptions options{.environment = {{"HOME", "/root"}, {"N", "3"}}};
    if (choice & 1) {
        const std::size_t line = std::min(input.find('\n'), input.size());
        options.sets.emplace_back(input.substr(0, line));
        input.remove_prefix(line);
    }
    const std::string text(input);
    const spec::ReadAnswer read = spec::read_job(text, options);
    fuzz::promise(read.job.has_value() == read.problems.empty(), "a job, or its problems");
    for (const Problem& problem : read.problems) (void)spec::problem_text(problem, "job.yaml", text);
    if (read.job) {
        const spec::ReadAnswer again = spec::job_from_json(spec::to_json(*read.job));
        fuzz::promise(again.job == read.job, "a job's canonical JSON is the job");
    }
    if (choice & 2) (void)spec::read_queues(text);
    if (choice & 4) (void)spec::strict_yaml(text);
    return 0;
}
