// Two command lines for the help of each verb.
#include <array>
#include <sstream>

#include "cmd/dispatch/dispatch.hpp"

namespace rtrain::cmd {
namespace {

struct Examples {
    std::string_view words;  // words of the verb: "head start"
    const char* lines = "";
};

constexpr std::array examples{
    Examples{"up",
             "rtrain up --nodes 2\n"
             "rtrain up --nodes 2 --fake-gpus 4xA100 --data /tmp/trial"},
    Examples{"down",
             "rtrain down\n"
             "rtrain down --keep-runs"},
    Examples{"head start",
             "rtrain head start --host 0.0.0.0 --detach\n"
             "rtrain head start --port 7500 --data /srv/rtrain --queues queues.yaml"},
    Examples{"head stop",
             "rtrain head stop\n"
             "rtrain head stop --data /srv/rtrain"},
    Examples{"head status",
             "rtrain head status\n"
             "rtrain head status --data /srv/rtrain -o json"},
    Examples{"head verify",
             "rtrain head verify\n"
             "rtrain head verify --data /srv/rtrain"},
    Examples{"head restore-backup",
             "rtrain head restore-backup state.db --dry-run\n"
             "rtrain head restore-backup state.db --data /srv/rtrain"},
    Examples{"head backup",
             "rtrain head backup cluster.rtb --key-file backup.key\n"
             "rtrain head backup /backups --incremental --keep 14 --key-file backup.key"},
    Examples{"head restore",
             "rtrain head restore cluster.rtb --dry-run --key-file backup.key\n"
             "rtrain head restore cluster.rtb --data /srv/rtrain --key-file backup.key"},
    Examples{"head install",
             "rtrain head install --host 0.0.0.0\n"
             "rtrain head install --user --dry-run"},
    Examples{"queue list",
             "rtrain queue list\n"
             "rtrain queue list -o json"},
    Examples{"queue set",
             "rtrain queue set vision --quota GPU=8,memory=2Ti --share 2\n"
             "rtrain queue set night --parent lab --borrow yes --user-gpus 4\n"
             "rtrain queue set lab --gpu-hours 5000 --user-gpu-hours 500 --budget-window 30d"},
    Examples{"queue remove",
             "rtrain queue remove night\n"
             "rtrain queue remove night --yes"},
    Examples{"queue apply",
             "rtrain queue apply queues.yaml --dry-run\n"
             "rtrain queue apply queues.yaml"},
    Examples{"report",
             "rtrain report --month 2026-11\n"
             "rtrain report --month 2026-11 --by queue --csv"},
    Examples{"status",
             "rtrain status\n"
             "rtrain status --watch --interval 5s"},
    Examples{"dashboard",
             "rtrain dashboard\n"
             "rtrain dashboard --no-open"},
    Examples{"node join",
             "rtrain node join 10.0.0.1:7433 --token-file token --detach\n"
             "rtrain node join 10.0.0.1:7433 --token-file - --name gpu-7 --label rack=3"},
    Examples{"node leave",
             "rtrain node leave gpu-7 --dry-run\n"
             "rtrain node leave gpu-7"},
    Examples{"node stop",
             "rtrain node stop\n"
             "rtrain node stop gpu-7"},
    Examples{"node drain",
             "rtrain node drain gpu-7 --deadline 30m --reason 'new disk'\n"
             "rtrain node drain gpu-7"},
    Examples{"node quarantine",
             "rtrain node quarantine gpu-7 --reason 'odd ECC errors'\n"
             "rtrain node quarantine gpu-7"},
    Examples{"node undrain",
             "rtrain node undrain gpu-7\n"
             "rtrain node undrain gpu-7 --context lab"},
    Examples{"node install",
             "rtrain node install 10.0.0.1:7433 --token-file token\n"
             "rtrain node install 10.0.0.1:7433 --token-file token --user --dry-run"},
    Examples{"node simulate",
             "rtrain node simulate 127.0.0.1:7433 --token-file token --count 100 --fake-gpus 8xA100\n"
             "rtrain node simulate 127.0.0.1:7433 --token-file token --count 20 --cpus 64 --run-seconds 60"},
    Examples{"nodes",
             "rtrain nodes\n"
             "rtrain nodes --watch -o wide"},
    Examples{"token create",
             "rtrain token create --role node --uses 4\n"
             "rtrain token create --user ada --expires 30d"},
    Examples{"token list",
             "rtrain token list\n"
             "rtrain token list -o json"},
    Examples{"token revoke",
             "rtrain token revoke 7f3a --dry-run\n"
             "rtrain token revoke 7f3a"},
    Examples{"access quota",
             "rtrain access quota ada\n"
             "rtrain access quota ada --files 200GiB --storage 2TiB"},
    Examples{"audit",
             "rtrain audit\n"
             "rtrain audit -o json"},
    Examples{"audit verify",
             "rtrain audit verify\n"
             "rtrain audit verify --data /srv/rtrain"},
    Examples{"context list",
             "rtrain context list\n"
             "rtrain context list -o json"},
    Examples{"context use",
             "rtrain context use lab\n"
             "rtrain context use local"},
    Examples{"context show",
             "rtrain context show\n"
             "rtrain context show lab"},
    Examples{"context add",
             "rtrain context add lab --address 10.0.0.1:7433 --token rt1.x --ca ca.pem\n"
             "rtrain context add lab --address 10.0.0.1:7433 --token rt1.x --ca-fingerprint 3b7c --use"},
    Examples{"context move",
             "rtrain context move lab 10.0.0.2:7433\n"
             "rtrain context move local 127.0.0.1:7500"},
    Examples{"context remove",
             "rtrain context remove lab\n"
             "rtrain context remove lab --yes"},
    Examples{"config show",
             "rtrain config show\n"
             "rtrain config show --origin"},
    Examples{"run",
             "rtrain run -n 4 train.py --lr 0.1\n"
             "rtrain run -n 2x8 --gpus 1 python -m pkg.train"},
    Examples{"submit",
             "rtrain submit job.yaml --follow\n"
             "rtrain submit job.yaml --set scaling.workers=8 --array 1-8%2"},
    Examples{"plan",
             "rtrain plan job.yaml\n"
             "rtrain plan job.yaml --set scaling.workers=16"},
    Examples{"runs",
             "rtrain runs\n"
             "rtrain runs -o json"},
    Examples{"runs rm",
             "rtrain runs rm digits --dry-run\n"
             "rtrain runs rm digits --files"},
    Examples{"runs stored",
             "rtrain runs stored digits\n"
             "rtrain runs stored digits --timeout 5m"},
    Examples{"queue",
             "rtrain queue\n"
             "rtrain queue -o json"},
    Examples{"stop",
             "rtrain stop digits\n"
             "rtrain stop digits --checkpoint --deadline 10m --wait"},
    Examples{"resize",
             "rtrain resize digits 8\n"
             "rtrain resize digits 4 --wait --timeout 30m"},
    Examples{"priority",
             "rtrain priority digits 80\n"
             "rtrain priority digits 10 --context lab"},
    Examples{"stack",
             "rtrain stack digits\n"
             "rtrain stack digits --rank 0,3-5"},
    Examples{"describe",
             "rtrain describe digits\n"
             "rtrain describe gpu-7"},
    Examples{"explain",
             "rtrain explain digits\n"
             "rtrain explain digits -o json"},
    Examples{"logs",
             "rtrain logs digits --follow\n"
             "rtrain logs digits --rank failed --tail 50"},
    Examples{"events",
             "rtrain events --follow\n"
             "rtrain events --run digits --tail 20"},
    Examples{"metrics",
             "rtrain metrics digits --key loss --tail 10\n"
             "rtrain metrics digits --rank all --watch"},
    Examples{"validate",
             "rtrain validate job.yaml\n"
             "rtrain validate job.yaml --set scaling.workers=8"},
    Examples{"checkpoints ask",
             "rtrain checkpoints ask digits\n"
             "rtrain checkpoints ask digits --wait --timeout 10m"},
    Examples{"checkpoints list",
             "rtrain checkpoints list digits\n"
             "rtrain checkpoints list s3://bucket/runs/digits"},
    Examples{"checkpoints inspect",
             "rtrain checkpoints inspect digits\n"
             "rtrain checkpoints inspect s3://bucket/runs/digits@checkpoint_000004"},
    Examples{"checkpoints verify",
             "rtrain checkpoints verify digits\n"
             "rtrain checkpoints verify /shared/runs/digits@checkpoint_000004"},
    Examples{"restore",
             "rtrain restore digits --follow\n"
             "rtrain restore s3://bucket/runs/digits --set scaling.workers=4"},
    Examples{"storage list",
             "rtrain storage list cluster://digits\n"
             "rtrain storage list s3://bucket/runs"},
    Examples{"storage get",
             "rtrain storage get cluster://digits/result.json result.json\n"
             "rtrain storage get s3://bucket/runs/digits here --only '*.pt'"},
    Examples{"storage gc",
             "rtrain storage gc /shared/runs --dry-run\n"
             "rtrain storage gc s3://bucket/runs"},
    Examples{"doctor",
             "rtrain doctor\n"
             "rtrain doctor --cluster"},
    Examples{"schema",
             "rtrain schema\n"
             "rtrain schema > job.schema.json"},
    Examples{"completion",
             "source <(rtrain completion bash)\n"
             "source <(rtrain completion zsh)\n"
             "rtrain completion fish | source"},
    Examples{"slurm submit",
             "rtrain slurm submit job.yaml --sbatch=--partition=gpu\n"
             "rtrain slurm submit job.yaml --print"},
    Examples{"kubernetes render",
             "rtrain kubernetes render job.yaml --image IMAGE | kubectl apply -f -\n"
             "rtrain kubernetes render job.yaml --image IMAGE --worker-set rtrain=4 > job.k8s.yaml"},
    Examples{"help",
             "rtrain help\n"
             "rtrain help head start"},
    Examples{"version",
             "rtrain version\n"
             "rtrain version -o json"},
};

}  // namespace

std::vector<std::string> examples_of(std::string_view words) {
    std::vector<std::string> lines;
    for (const Examples& own : examples) {
        if (own.words != words) continue;
        std::istringstream text(own.lines);
        for (std::string line; std::getline(text, line);) lines.push_back(line);
    }
    return lines;
}

}  // namespace rtrain::cmd
