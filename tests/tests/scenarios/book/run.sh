# What a block of the book is run with: the programs of this test, and its ports in place of the usual ones.
#
# From the environment: SANDGATE_BIN, SANDGATE_ENVOY, SANDGATE_MODULE, REPOSITORY, GATEWAY_PORT, ADMIN_PORT.
set -euo pipefail

sandgate() {
  if [[ $1 == run ]]; then
    exec "$SANDGATE_BIN" "$@" --port "$GATEWAY_PORT" --admin-port "$ADMIN_PORT"
  fi
  "$SANDGATE_BIN" "$@"
}

# `make run` ends with the command that it has built, as the scenario
# `newcomer::make_run_builds_once_and_starts_what_it_built` shows. That command is started here, without a build.
make() {
  local line
  line=$(command make --silent --dry-run --directory "$REPOSITORY" "$@" | tail -n 1)
  [[ $1 != run ]] || eval "sandgate ${line#*/sandgate }"
}

# An answer that is not good fails the block.
curl() {
  command curl --silent --show-error --fail-with-body --max-time 5 "$@"
}
