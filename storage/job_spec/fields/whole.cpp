// Checks a job as a whole: defaults that depend on each other, and contradictions.

#include <algorithm>
#include <set>

#include "storage/job_spec/fields/rules.hpp"

namespace rtrain::spec {
namespace {

const Value& at(const Value& root, std::string_view path) {
    static const Value nothing;
    const Value* value = &root;
    while (value != nullptr && !path.empty()) {
        const std::size_t dot = std::min(path.find('.'), path.size());
        value = value->find(path.substr(0, dot));
        path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return value == nullptr ? nothing : *value;
}

bool fine(const Reading& reading, std::initializer_list<std::string_view> paths) {
    return std::none_of(paths.begin(), paths.end(),
                        [&](std::string_view path) { return reading.unusable.contains(path); });
}

// Completes the resources of a worker. `use_gpu` means one GPU unless GPU is given. By default a worker without a GPU
// has one CPU, and a worker with a GPU has none.
void complete_resources(Reading& reading, const Value& root) {
    Job& job = reading.job;
    if (!fine(reading, {"scaling.use_gpu", "scaling.resources_per_worker", "scaling.accelerator_type"})) return;
    const Value& given = at(root, "scaling.resources_per_worker");
    const Value* gpu = given.find(gpu_key);
    Resources& resources = job.resources_per_worker;
    if (job.use_gpu && gpu != nullptr && amount_of(resources, gpu_key).ticks == 0)
        return reading.problem("scaling.resources_per_worker.GPU", *gpu, "0 GPUs contradict use_gpu: true",
                               "remove one of the two");
    if (job.use_gpu && gpu == nullptr) resources[std::string(gpu_key)] = units(1);
    if (given.find(cpu_key) == nullptr && amount_of(resources, gpu_key).ticks == 0)
        resources[std::string(cpu_key)] = units(1);
    if (job.accelerator_type) resources.try_emplace("accelerator_type:" + *job.accelerator_type, Amount{1});
}

void check_secrets(Reading& reading, const Value& root) {
    if (!fine(reading, {"secrets", "env"})) return;
    const Value& list = at(root, "secrets");
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
        const std::string& name = list.items[i].text;
        if (reading.job.env.contains(name))
            reading.problem(below("secrets", i), list.items[i],
                            name + " is in env as well, where everybody can read it", "remove it from env");
        if (!seen.insert(name).second)
            reading.problem(below("secrets", i), list.items[i], name + " is given twice", "");
    }
}

void check_nodes(Reading& reading, const Value& root) {
    if (!fine(reading, {"scaling.nodes", "scaling.exclude_nodes"})) return;
    const Value& excluded = at(root, "scaling.exclude_nodes");
    const std::set<std::string_view> named(reading.job.nodes.begin(), reading.job.nodes.end());
    for (std::size_t i = 0; i < excluded.items.size(); ++i)
        if (named.contains(excluded.items[i].text))
            reading.problem(below("scaling.exclude_nodes", i), excluded.items[i],
                            excluded.items[i].text + " is in nodes as well", "remove it from one of the two");
}

void check_entrypoint(Reading& reading, const Value& root) {
    if (!fine(reading, {"entrypoint"})) return;
    if (reading.job.entrypoint.front().empty())
        reading.problem("entrypoint", at(root, "entrypoint"), "the program's name is empty", "");
}

void check_driver(Reading& reading, const Value& root) {
    if (!fine(reading, {"driver", "scaling.workers"}) || !reading.job.driver) return;
    if (reading.job.workers != 1 || reading.job.workers_max != 1)
        reading.problem("driver", at(root, "driver"), "a driver is one worker, and scaling.workers says more",
                        "remove one of the two");
}

void check_backend(Reading& reading, const Value& root) {
    if (!fine(reading, {"backend.name", "scaling.resources_per_worker", "scaling.use_gpu"})) return;
    if (reading.job.backend == "nccl" && amount_of(reading.job.resources_per_worker, gpu_key).ticks == 0)
        reading.problem("backend.name", at(root, "backend.name"), "nccl needs a GPU for each worker",
                        "set scaling.use_gpu: true, or use gloo");
}

void check_worker_selectors(Reading& reading, const Value& root) {
    const Job& job = reading.job;
    const std::size_t given = job.worker_selectors.size();
    if (given == 0 || reading.from == JsonFrom::record ||
        !fine(reading, {"scaling.workers", "scaling.worker_selectors"}))
        return;
    if (given == std::max(job.workers, job.workers_max)) return;
    reading.problem("scaling.worker_selectors", at(root, "scaling.worker_selectors"),
                    "has " + std::to_string(given) + " selectors for " + std::to_string(job.workers) +
                        (job.workers == job.workers_max ? "" : ".." + std::to_string(job.workers_max)) + " workers",
                    "give one for each worker of the largest size; a smaller size takes the first ones");
}

// Limits the size of the demands, because each worker's bundle has its own copy of the amounts and of the selector.
void check_demand(Reading& reading, const Value& root) {
    if (reading.from == JsonFrom::record || !fine(reading, {"scaling.workers"})) return;
    const std::size_t workers = std::max(reading.job.workers, reading.job.workers_max);
    if (demand_bytes(reading.job) * workers <= demand_bytes_most) return;
    reading.problem("scaling.workers", at(root, "scaling.workers"),
                    std::to_string(workers) + " workers with " + std::to_string(demand_bytes(reading.job)) +
                        " bytes of amounts and labels each are more than " + std::to_string(demand_bytes_most) +
                        " bytes",
                    "shorten scaling.label_selector or scaling.resources_per_worker: one label can stand for a list");
}

}  // namespace

std::size_t demand_bytes(const Resources& amounts, const LabelSelector& selector) {
    constexpr std::size_t of_entry = 64;  // bytes of an entry, beside those of its text
    std::size_t bytes = of_entry;
    for (const auto& [name, amount] : amounts) bytes += of_entry + name.size();
    for (const LabelCondition& condition : selector) {
        bytes += of_entry + condition.key.size();
        for (const std::string& value : condition.values) bytes += of_entry + value.size();
    }
    return bytes;
}

std::size_t demand_bytes(const Job& job) {
    std::size_t longest = 0;
    for (const LabelSelector& own : job.worker_selectors) longest = std::max(longest, demand_bytes({}, own));
    return demand_bytes(job.resources_per_worker, job.label_selector) + longest;
}

void check_whole(Reading& reading, const Value& root) {
    complete_resources(reading, root);
    check_secrets(reading, root);
    check_nodes(reading, root);
    check_entrypoint(reading, root);
    check_driver(reading, root);
    check_backend(reading, root);
    check_worker_selectors(reading, root);
    check_demand(reading, root);
}

}  // namespace rtrain::spec
