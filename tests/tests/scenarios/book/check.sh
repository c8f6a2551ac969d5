# Stand-ins for what a block of the book needs a cluster, a daemon or hours for. Each checks what can be
# checked here, so that a wrong option, target, value or path fails the block. A command that is not here
# and not in $PATH fails too.
#
# From the environment: SANDGATE_BIN, TOOLS (helm, kustomize), KUBERNETES (its version), REPOSITORY. The
# folder is a copy of what the blocks name.
set -euo pipefail

# What `make demo` prints for another terminal.
export SANDGATE_GATEWAY=http://127.0.0.1:7788 SANDGATE_ADMIN=http://127.0.0.1:9901

fail() {
  echo "$*" >&2
  exit 1
}

command_not_found_handle() {
  fail "no check for the command $1: see book/check.sh"
}

# Every option and value up to `--` is parsed as in earnest; --help keeps the command from doing anything.
sandgate() {
  local before=()
  while [[ $# -gt 0 && $1 != -- ]]; do
    before+=("$1")
    shift
  done
  "$SANDGATE_BIN" "${before[@]}" --help >/dev/null || fail "sandgate ${before[*]}: refused"
}

make() {
  command make --silent --dry-run --directory "$REPOSITORY" "$@" >/dev/null || fail "make $*: no such target"
  # A script waits for this line of `make demo`.
  [[ $1 != demo ]] || echo ready
}

# Nothing here takes time: what a block waits for is there soon.
sleep() {
  command sleep 0.05
}

# Renders what would be installed, with the values of the block.
helm() {
  local action=$1 name chart kept=()
  shift
  case $action in
    install | upgrade) ;;
    test | uninstall) return 0 ;;
    *) fail "helm $action: not checked" ;;
  esac
  name=$1 chart=$2
  shift 2
  for word in "$@"; do
    [[ $word == --reuse-values || $word == --install ]] || kept+=("$word")
  done
  HOME=/nonexistent "$TOOLS/helm" template "$name" "$chart" --kube-version "$KUBERNETES" "${kept[@]}" \
    >/dev/null || fail "helm $action $name: refused"
}

# What is applied has to be there: a file, standard input, or a folder that Kustomize can build.
kubectl() {
  local words=() word
  while [[ $# -gt 0 ]]; do
    case $1 in
      -f | --filename)
        if [[ $2 == - ]]; then
          [[ -n $(cat) ]] || fail "kubectl: nothing on standard input"
        else
          [[ -s $2 ]] || fail "kubectl: no file $2"
        fi
        shift
        ;;
      -k | --kustomize)
        "$TOOLS/kustomize" build "$2" >/dev/null || fail "kubectl: no Kustomize folder $2"
        shift
        ;;
      --from-file=*)
        word=${1#--from-file=}
        [[ -s ${word#*=} ]] || fail "kubectl: no file ${word#*=}"
        ;;
      -n | --namespace | -l | --selector | -o | --output) shift ;;
      -*) ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  case ${words[0]} in
    get) echo "type: stand-in" ;;
    apply | create | label | patch | scale | rollout | port-forward | logs | delete | debug | describe | exec) ;;
    *) fail "kubectl ${words[0]}: not checked" ;;
  esac
}

# Programs that need what is not here: a sandbox to ask, a daemon, a registry, another machine. Their options
# are not checked.
for program in curl docker skopeo ctr kind kill openssl python3 systemctl journalctl jq pip; do
  eval "$program() { cat >/dev/null <&0 || true; }"
done
