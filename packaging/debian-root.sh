# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by packaging/fresh-machine and packaging/test-packages: a minimal Debian root made by
# debootstrap (mirror, proxy and options come from this system's apt) and steps that run inside it.
# The caller sets: suite, root ("" for a new directory in $TMPDIR), keep (yes or no).

program=$(basename "$0")
say() { printf '%s %s: %s\n' "$(date +%H:%M:%S)" "$program" "$*"; }
stop() { local status=$1; shift; echo "$program: $*" >&2; exit "$status"; }

# checkMachine TOOL...: what a root needs, and what else the caller does.
checkMachine() {
    [ "$(id -u)" -eq 0 ] || stop 3 "debootstrap and chroot need root; run it as root"
    local tool
    for tool in debootstrap unshare chroot apt-get apt-config "$@"; do
        command -v "$tool" >/dev/null || stop 3 "no $tool here (packages: packaging/setup)"
    done
    unshare --mount --pid --fork true 2>/dev/null || stop 3 "no namespaces here (unshare fails)"
    [ -z "$root" ] || [ ! -e "$root" ] || stop 2 "$root exists; name a directory that does not"
}

# Lines "URI release component" of this system's apt for the wanted release.
aptSources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
        awk -v suite="$suite" '$2 ~ "^" suite "(-updates|-security)?$"' | sort -u
}

# Names root and logs, finds the mirror, and sees to it that both go at the end.
prepareRoot() {
    local protocol proxy
    sources=$(aptSources)
    mirror=$(awk -v suite="$suite" '$2 == suite && $3 == "main" {print $1; exit}' <<<"$sources")
    [ -n "$mirror" ] ||
        stop 3 "this system's apt has no source of $suite main (apt-get indextargets)"
    for protocol in http https; do
        proxy=$(apt-config dump --format '%v%n' "Acquire::$protocol::Proxy")
        [ -z "$proxy" ] || export "${protocol}_proxy=$proxy"
    done
    [ -n "$root" ] || root=$(mktemp -d -u "${TMPDIR:-/tmp}/piper-fresh-XXXXXX")
    logs=$(mktemp -d "${TMPDIR:-/tmp}/piper-fresh-logs-XXXXXX")
    mkdir -p "$(dirname "$root")"
    root=$(cd "$(dirname "$root")" && pwd)/$(basename "$root")
    summary=() failed=no
    trap cleanUp EXIT
    trap 'exit 130' INT TERM
    say "root $root"
}

makeRoot() {
    debootstrap --variant=minbase "$suite" "$root" "$mirror"
}

configureRoot() {
    rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*
    awk '{print "deb", $1, $2, $3}' <<<"$sources" >"$root/etc/apt/sources.list"
    # Proxy, validity and index choices of this system; nothing that names a file of it.
    apt-config dump |
        grep -E '^Acquire::(https?::|Check-|Retries|IndexTargets::deb::DEP-11[^:]*::DefaultEnabled)' \
            >"$root/etc/apt/apt.conf.d/99system" || true
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"  # no service starts by itself
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -L /etc/hosts "$root/etc/hosts"
}

# insideAt DIRECTORY command...: runs it inside the root, with /dev nodes of its own; no directory of
# this machine is mounted. Mounts and every process left behind end with its namespaces.
insideAt() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child --propagation private bash -c '
        set -e
        root=$1 directory=$2; shift 2
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sysfs "$root/sys" || true
        mkdir -p "$root/dev/pts" "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
        ln -sf pts/ptmx "$root/dev/ptmx"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        cd "$root"
        exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            bash -c "cd \"\$1\" && shift && exec \"\$@\"" inside "$directory" "$@"
    ' inside "$root" "$@" </dev/null
}

# step NAME command...: runs it with a log, notes the seconds, shows the end of the log on failure.
step() {
    local name=$1 began=$SECONDS status=0
    shift
    say "$name ..."
    "$@" >"$logs/$name.log" 2>&1 || status=$?
    summary+=("$(printf '%-18s %5d s  %s' "$name" $((SECONDS - began)) \
        "$([ $status -eq 0 ] && echo passed || echo "FAILED (exit status $status)")")")
    if [ $status -ne 0 ]; then
        tail -n 40 "$logs/$name.log"
        failed=yes
    fi
    return $status
}

cleanUp() {
    local status=$?
    trap - EXIT INT TERM
    if [ "$keep" = yes ]; then
        say "kept: root $root, logs $logs"
    else
        # The namespaces took every mount with them; one-file-system is the belt to these braces.
        if grep -q " $root/" /proc/self/mountinfo; then
            say "something is still mounted under $root: left in place"
            exit 3
        fi
        rm -rf --one-file-system "$root" "$logs"
    fi
    exit $status
}

# printSummary WHAT: the root, what was tried in it, and the steps.
printSummary() {
    echo
    echo "fresh Debian $(cat "$root/etc/debian_version") ($suite), $1, $(nproc) cores," \
        "$(du -xsm "$root" | cut -f1) MB on disk"
    printf '  %s\n' "${summary[@]}"
}
