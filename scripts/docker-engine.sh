#!/usr/bin/env bash
# Makes a Docker engine answer: does nothing when one does, else starts dockerd in the background, after installing
# it (Debian's docker.io) when missing. For CI and for throw-away machines; needs root. Prints what it did, and exits 1
# with the end of dockerd's log when no engine can be had. Who wants to stop what it started names a file in
# DOCKERD_PIDFILE.
set -euo pipefail

log=${DOCKERD_LOG:-/tmp/shapeserver-dockerd.log}
answers() { docker version --format '{{.Server.Version}}' 2>/dev/null; }

if v=$(answers); then
  echo "docker-engine: engine $v answers"
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "docker-engine: no engine answers, and only root can start one" >&2
  exit 1
fi
if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
  echo "docker-engine: installing docker.io"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends docker.io iptables >/dev/null
fi

# The engine's defaults first; then what a sandbox without overlayfs or without netfilter still allows. The ports of
# containers are published by the userland proxy in the last case too.
for flags in "" "--storage-driver=vfs" "--iptables=false" "--storage-driver=vfs --iptables=false"; do
  # shellcheck disable=SC2086 # flags are words
  setsid nohup dockerd $flags >"$log" 2>&1 </dev/null &
  pid=$!
  for _ in $(seq 1 60); do
    if v=$(answers); then
      [ -z "${DOCKERD_PIDFILE:-}" ] || echo "$pid" >"$DOCKERD_PIDFILE"
      echo "docker-engine: started engine $v (dockerd $flags, pid $pid, log $log)"
      exit 0
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.5
  done
  kill "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
done
echo "docker-engine: dockerd does not start; its log ends:" >&2
tail -n 20 "$log" >&2
exit 1
