// The script that the Job's pod runs. The script is equal for all jobs: names are passed to it as variables, so it
// needs no quoting.
#pragma once

namespace rtrain::cmd {

// Reads these variables: RUN_NAME, JOB_UID, NAMESPACE, and WORKER_SET, WORKER_REPLICAS, SHUTDOWN, which may be empty.
inline constexpr const char* job_script = R"sh(set -eu
umask 077
api=https://kubernetes.default.svc/apis/apps/v1/namespaces/$NAMESPACE/statefulsets/$WORKER_SET/scale
account=/var/run/secrets/kubernetes.io/serviceaccount
scale() {  # the token is in a file: not among the arguments of a process
  printf 'Authorization: Bearer %s\n' "$(cat "$account/token")" > /tmp/authorization
  curl -fsS --retry 5 --retry-connrefused -o /dev/null --cacert "$account/ca.crt" -H @/tmp/authorization \
    -X PATCH -H 'Content-Type: application/merge-patch+json' -d "{\"spec\":{\"replicas\":$1}}" "$api"
}
if [ -e /job/code.tar.zst ]; then
  mkdir /tmp/code
  tar -C /tmp/code --zstd -xf /job/code.tar.zst
fi
if [ -n "$WORKER_REPLICAS" ]; then scale "$WORKER_REPLICAS"; fi
rtrain submit /job/job.yaml --follow --propagate-exit --once "$JOB_UID" &
follower=$!
# The deadline, a deletion, or Kueue that takes the room back. A pod after this one goes on from the checkpoint.
stop() {
  rtrain stop "$RUN_NAME" --checkpoint --deadline 90s || true
  kill "$follower" 2>/dev/null || true
  exit 143
}
trap stop TERM
code=0
wait "$follower" || code=$?
if [ -n "$SHUTDOWN" ]; then
  rtrain runs stored "$RUN_NAME" --timeout 30m &
  wait $!
  scale 0
fi
exit "$code"
)sh";

}  // namespace rtrain::cmd
