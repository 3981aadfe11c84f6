// Formats an effect as one line of text: verb, node, subject.
#include "tests/transcripts/effect_text.hpp"

namespace rtrain::transcripts {
namespace {

struct Text {
    const Cluster& cluster;

    std::string name(RunId run) const {
        const auto entry = cluster.runs.find(run);
        return entry == cluster.runs.end() ? "run " + std::to_string(run.value) : entry->second.name;
    }
    std::string name(AttemptId id) const { return name(id.run) + " attempt " + std::to_string(id.number); }

    std::string operator()(const PrepareNode& effect) const {
        return "prepare " + effect.node.value + " for " + name(effect.attempt) + (effect.claim ? ", claim" : "");
    }
    std::string operator()(const LaunchWorkers& effect) const {
        return "launch " + name(effect.attempt) + " on " + effect.node.value;
    }
    std::string operator()(const StopAttempt& effect) const {
        return "stop " + name(effect.attempt) + " on " + effect.node.value + (effect.at_once ? " at once" : "") + ": " +
               to_text(effect.why);
    }
    std::string operator()(const RequestCheckpoint& effect) const {
        std::string text =
            "ask " + name(effect.attempt) + " on " + effect.node.value + " for a checkpoint (" + to_text(effect.reason);
        if (effect.workers > 0) text += " to " + std::to_string(effect.workers) + " workers";
        if (effect.left) text += ", " + std::to_string(effect.left->ms / 1000) + " s left";
        return text + ")";
    }
    std::string operator()(const DeleteCheckpoint& effect) const {
        return "delete " + effect.directory + " of " + name(effect.run) + " by " + effect.node.value;
    }
    std::string operator()(const WriteResult& effect) const {
        return "write result of " + name(effect.run) + " by " + effect.node.value;
    }
};

}  // namespace

std::string text_of(const Cluster& cluster, const Effect& effect) { return std::visit(Text{cluster}, effect); }

}  // namespace rtrain::transcripts
