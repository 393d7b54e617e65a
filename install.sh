#!/bin/sh
# Installs Stoa. Everything is inside main(), called on the last line, so that a script cut off in transit does nothing.
set -eu

usage() {
  cat <<'USAGE'
Usage: install.sh [--service [--domain NAME]] [--print-service] [--uninstall] [--help]

Installs the `stoa` command. Inside a checkout it is built from source; otherwise a release for this platform is
fetched, and installed only if its SHA-256 is in the release's checksums.txt and, where a release key is known, that
list is signed with it and names the expected version. A service that runs is upgraded, and its calls go on; otherwise
nothing is started.

  --service        also write a hardened systemd unit (needs root)
  --domain NAME    with --service: the name of this server, for https with a certificate of its own at port 443
  --print-service  print that unit and do nothing else
  --uninstall      remove the command and the unit; data stays

Environment:
  STOA_BASE_URL     where releases are: an https address or a local folder
  STOA_VERSION      the release to install, a folder below STOA_BASE_URL (default: STOA_BASE_URL itself, never one that
                    is older than what is installed)
  STOA_RELEASE_KEY  minisign public key that the release must be signed with (default: the one in this file, if any)
  STOA_INSTALL_DIR  where the command goes (default: /usr/local/bin for root, ~/.local/bin otherwise)
USAGE
}

say() { printf '%s\n' "$*"; }
die() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# The public key of this release, in minisign's format; written here when a release is signed.
release_key=''
# The version that the signature covers; empty for a release without one.
signed_version=

unit_dir=/etc/systemd/system
data_dir=/var/lib/stoa
settings_dir=/etc/stoa

platform() {
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) die "there is no release for $(uname -s)" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) arch=x64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) die "there is no release for $(uname -m)" ;;
  esac
  libc=
  # Debian has a package that brings musl beside glibc: only where glibc is not is musl the system's own.
  if [ "$os" = linux ] && ls /lib/ld-musl-* >/dev/null 2>&1 && ! getconf GNU_LIBC_VERSION >/dev/null 2>&1; then
    libc=-musl
  fi
  printf '%s-%s%s' "$os" "$arch" "$libc"
}

# fetch SOURCE FILE: from a folder, or by https; plain http only from this machine itself.
fetch() {
  case $1 in
    https://* | http://127.0.0.1:* | http://localhost:*)
      if have curl; then
        curl --fail --silent --show-error --location --proto-redir =https --connect-timeout 20 --output "$2" "$1"
      elif have wget; then
        wget --quiet --timeout=20 --output-document="$2" "$1"
      else
        die "neither curl nor wget is here"
      fi
      ;;
    http://*) die "$1 is not encrypted; use https" ;;
    *) cp "${1#file://}" "$2" ;;
  esac
}

sha256() {
  if have sha256sum; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif have shasum; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  elif have openssl; then
    openssl dgst -sha256 -r "$1" | cut -d ' ' -f 1
  else
    die "no tool to compute a SHA-256 is here (sha256sum, shasum or openssl)"
  fi
}

# Whatever cannot be verified is not installed: no list, no entry, two entries and another sum all end here.
verify() {
  expected=$(awk -v name="$2" '$2 == name || $2 == "*" name { print $1 }' "$3")
  case $expected in *[!0-9a-f]*) expected= ;; esac
  [ ${#expected} -eq 64 ] || die "checksums.txt names no single SHA-256 of $2; nothing was installed"
  actual=$(sha256 "$1")
  [ "$actual" = "$expected" ] || die "the SHA-256 of $2 is $actual, but checksums.txt says $expected; nothing was installed"
}

# bytes FILE SKIP COUNT: that part of a file.
bytes() { dd if="$1" bs=1 skip="$2" count="$3" 2>/dev/null; }

# verify_signature FOLDER KEY: that checksums.txt is signed with the release key, as minisign does it: Ed25519 over BLAKE2b.
# A signature that cannot be checked is no signature: nothing is installed.
verify_signature() {
  case $(openssl version 2>/dev/null) in
    "OpenSSL "[3-9].*) ;;
    *)
      have minisign || die "the signature cannot be checked without OpenSSL 3 or minisign; nothing was installed"
      minisign -Vqm "$1/checksums.txt" -P "$2" >/dev/null 2>&1 ||
        die "checksums.txt is not signed with the release key; nothing was installed"
      say "checksums.txt is signed with the release key"
      return
      ;;
  esac
  refused="is not signed with the release key; nothing was installed"
  printf '%s' "$2" | openssl base64 -d -A >"$1/key"
  sed -n 2p "$1/checksums.txt.minisig" | openssl base64 -d -A >"$1/signed"
  [ "$(wc -c <"$1/key")" -eq 42 ] || die "the release key is no minisign public key; nothing was installed"
  [ "$(wc -c <"$1/signed")" -eq 74 ] || die "checksums.txt.minisig is no signature: checksums.txt $refused"
  [ "$(bytes "$1/signed" 0 2)" = ED ] || die "checksums.txt.minisig is of an unknown kind: checksums.txt $refused"
  # What comes before the 32 bytes of an Ed25519 key in DER.
  { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && bytes "$1/key" 10 32; } >"$1/key.der"
  bytes "$1/signed" 10 64 >"$1/signature"
  openssl dgst -blake2b512 -binary "$1/checksums.txt" >"$1/digest"
  openssl pkeyutl -verify -pubin -keyform DER -inkey "$1/key.der" -rawin -in "$1/digest" -sigfile "$1/signature" \
    >/dev/null 2>&1 || die "checksums.txt $refused"
  say "checksums.txt is signed with the release key"
}

# verify_version FOLDER: that the signed list is of the version that was asked for, so that an old release cannot pass for a
# newer one. The first line of the list is "# stoa VERSION".
verify_version() {
  signed_version=$(sed -n '1s/^# stoa \([0-9A-Za-z.+-]*\)$/\1/p' "$1/checksums.txt")
  [ -n "$signed_version" ] || die "checksums.txt names no version; nothing was installed"
  if [ -n "${STOA_VERSION:-}" ]; then
    wanted=${STOA_VERSION#v}
    [ "$wanted" = "$signed_version" ] || [ "$wanted" = "${signed_version%%+*}" ] ||
      die "STOA_VERSION is $STOA_VERSION, but the signed release is $signed_version; nothing was installed"
    return
  fi
  installed=$("$(install_dir)/stoa" version 2>/dev/null | cut -d ' ' -f 2) || installed=
  [ -n "$installed" ] && [ "${installed%%+*}" != "${signed_version%%+*}" ] || return 0
  newest=$(printf '%s\n%s\n' "${installed%%+*}" "${signed_version%%+*}" | sort -V | tail -n 1)
  [ "$newest" != "${installed%%+*}" ] ||
    die "the release is $signed_version, older than the installed $installed: set STOA_VERSION=$signed_version to go back; nothing was installed"
}

# Prints the checkout this script stands in (or, when it is read from a pipe, the current directory), if it is one.
checkout() {
  here=.
  if [ -f "$0" ]; then here=$(dirname "$0"); fi
  here=$(CDPATH='' cd -- "$here" && pwd)
  if [ -x "$here/bin/build" ] && grep -q '"name": "stoa"' "$here/package.json" 2>/dev/null; then printf '%s' "$here"; fi
}

# obtain FOLDER: puts a binary that may be trusted there, as "stoa".
obtain() {
  root=$(checkout)
  if [ -z "${STOA_BASE_URL:-}" ] && [ -n "$root" ]; then
    say "building from $root"
    "$root/bin/build"
    cp "$root/dist/stoa" "$1/stoa"
    return
  fi
  [ -n "${STOA_BASE_URL:-}" ] || die "set STOA_BASE_URL to where the releases are, or run this inside a checkout"
  base=${STOA_BASE_URL%/}${STOA_VERSION:+/$STOA_VERSION}
  name=stoa-$(platform)
  say "fetching $base/$name"
  fetch "$base/checksums.txt" "$1/checksums.txt" || die "$base/checksums.txt cannot be read; nothing was installed"
  key=${STOA_RELEASE_KEY:-$release_key}
  if [ -n "$key" ]; then
    fetch "$base/checksums.txt.minisig" "$1/checksums.txt.minisig" ||
      die "$base/checksums.txt.minisig cannot be read: the release is not signed; nothing was installed"
    verify_signature "$1" "$key"
    verify_version "$1"
  fi
  fetch "$base/$name" "$1/stoa" || die "$base/$name cannot be read; nothing was installed"
  verify "$1/stoa" "$name" "$1/checksums.txt"
}

install_dir() {
  if [ -n "${STOA_INSTALL_DIR:-}" ]; then
    printf '%s' "$STOA_INSTALL_DIR"
  elif [ "$(id -u)" = 0 ]; then
    printf '/usr/local/bin'
  else
    printf '%s/.local/bin' "$HOME"
  fi
}

# What a musl system may lack; Alpine does not bring it.
missing() {
  case $(platform) in *-musl) printf '. Is libstdc++ installed (apk add libstdc++)?' ;; esac
}

# keep_signature FOLDER TARGET: what `stoa version --verify` needs; nothing for a release without a signature.
keep_signature() {
  rm -f "$2/checksums.txt" "$2/checksums.txt.minisig" "$2/release.pub"
  [ -n "$signed_version" ] || return 0
  mkdir -p "$2"
  cp "$1/checksums.txt" "$1/checksums.txt.minisig" "$2/"
  printf '%s\n' "$key" >"$2/release.pub"
  chmod 644 "$2/checksums.txt" "$2/checksums.txt.minisig" "$2/release.pub"
}

install_binary() {
  dir=$(install_dir)
  mkdir -p "$dir"
  dir=$(CDPATH='' cd -- "$dir" && pwd)
  work=$(mktemp -d)
  trap 'rm -rf "$work" "$dir/.stoa.$$"' EXIT INT TERM HUP
  obtain "$work"
  chmod 755 "$work/stoa"
  version=$("$work/stoa" version) || die "the binary does not run on this machine; nothing was installed$(missing)"
  if [ -n "$signed_version" ] && [ "$(printf '%s' "$version" | cut -d ' ' -f 2)" != "$signed_version" ]; then
    die "the binary calls itself $version, but the signed release is $signed_version; nothing was installed"
  fi
  # In the same folder first: only then is the last step a rename, which a running server and a power cut both survive.
  cp "$work/stoa" "$dir/.stoa.$$"
  mv -f "$dir/.stoa.$$" "$dir/stoa"
  keep_signature "$work" "$dir/../share/stoa"
  say "installed $version as $dir/stoa"
  case ":$PATH:" in *":$dir:"*) ;; *) say "$dir is not in your PATH" ;; esac
}

# No MemoryDenyWriteExecute: a JavaScript engine writes the code it runs. AF_NETLINK lists this machine's addresses.
# NotifyAccess: during an upgrade, both processes of the service tell systemd which of them is the main one.
# KillMode: the main process ends the others itself, after their recordings are complete.
# ExecStop: waits for the main process, because systemd only waits for processes that it started.
# TimeoutStartSec: leaves time for a reload that migrates the data.
print_service() {
  cat <<UNIT
[Unit]
Description=Stoa, real-time communications
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
User=stoa
Group=stoa
Environment=DATA_DIR=$data_dir
EnvironmentFile=-/etc/stoa/environment
ExecStartPre=$1 config check
ExecStart=$1 serve
ExecReload=$1 upgrade
ExecStop=-/bin/sh -c 'kill \$MAINPID && while kill -0 \$MAINPID; do sleep 0.1; done 2>/dev/null'
NotifyAccess=all
KillMode=mixed
TimeoutStartSec=12min
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
TimeoutStopSec=45
LimitNOFILE=1048576
LimitNICE=30
LimitCORE=0
MemoryHigh=75%
MemoryMax=85%
OOMPolicy=continue
StateDirectory=stoa
StateDirectoryMode=0700
UMask=0077
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=yes
LockPersonality=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
UNIT
}

install_service() {
  [ "$(id -u)" = 0 ] || die "--service needs root"
  [ -d "$unit_dir" ] || die "there is no $unit_dir: is this systemd?"
  id stoa >/dev/null 2>&1 || useradd --system --user-group --home-dir "$data_dir" --shell /usr/sbin/nologin stoa
  print_service "$(install_dir)/stoa" >"$unit_dir/.stoa.service.$$"
  mv -f "$unit_dir/.stoa.service.$$" "$unit_dir/stoa.service"
  if [ -n "$domain" ]; then write_domain; fi
  if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
  say "wrote $unit_dir/stoa.service; settings go into /etc/stoa/environment, one NAME=value a line"
  if ! systemctl is-active --quiet stoa 2>/dev/null; then say "start it with: systemctl enable --now stoa"; fi
}

# upgrade_service: lets the running service upgrade to the installed program, if the service runs from this folder.
upgrade_service() {
  if [ "$(id -u)" != 0 ] || ! [ -d /run/systemd/system ] || ! systemctl is-active --quiet stoa; then return 0; fi
  grep -q "^ExecStart=$dir/stoa " "$unit_dir/stoa.service" 2>/dev/null || return 0
  if ! grep -q '^ExecReload=' "$unit_dir/stoa.service"; then
    say "the service still runs the earlier version; this ends its calls: systemctl restart stoa"
    return
  fi
  say "upgrading the running service; its calls go on"
  systemctl reload stoa ||
    die "the service still runs the earlier version: journalctl -u stoa says why, and systemctl restart stoa ends its calls"
  say "the service runs $version"
}

# Other settings of an earlier installation stay as they are, and so do the file's owner and mode: it holds secrets.
write_domain() {
  mkdir -p "$settings_dir"
  if [ ! -e "$settings_dir/environment" ]; then (umask 077 && : >"$settings_dir/environment"); fi
  cp -p "$settings_dir/environment" "$settings_dir/.environment.$$"
  grep -v '^DOMAIN=' "$settings_dir/environment" >"$settings_dir/.environment.$$" || true
  printf 'DOMAIN=%s\n' "$domain" >>"$settings_dir/.environment.$$"
  mv -f "$settings_dir/.environment.$$" "$settings_dir/environment"
  say "wrote DOMAIN=$domain into $settings_dir/environment"
}

uninstall() {
  dir=$(install_dir)
  if [ -f "$unit_dir/stoa.service" ] && [ "$(id -u)" = 0 ]; then
    if [ -d /run/systemd/system ]; then systemctl disable --now stoa || true; fi
    rm -f "$unit_dir/stoa.service"
    say "removed $unit_dir/stoa.service; data stays in $data_dir"
  fi
  [ -e "$dir/stoa" ] || die "there is no $dir/stoa"
  rm -f "$dir/stoa"
  signed_version=
  keep_signature '' "$dir/../share/stoa"
  rmdir "$dir/../share/stoa" 2>/dev/null || true
  say "removed $dir/stoa"
}

main() {
  service=
  domain=
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) usage && exit 0 ;;
      --print-service) print_service "$(install_dir)/stoa" && exit 0 ;;
      --uninstall) uninstall && exit 0 ;;
      --service) service=yes ;;
      --domain)
        [ $# -gt 1 ] || die "--domain needs a name, such as rtc.example.com"
        domain=$2
        shift
        ;;
      --domain=*) domain=${1#--domain=} ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done
  if [ -n "$domain" ]; then
    [ -n "$service" ] || die "--domain needs --service"
    case $domain in *[!A-Za-z0-9.-]* | .* | *. | *..*) die "$domain is no domain name" ;; *.*) ;; *) die "$domain is no domain name" ;; esac
    # An address ends in a number, a name never does.
    case ${domain##*.} in [A-Za-z]*) ;; *) die "$domain is an address, and no domain name" ;; esac
  fi
  install_binary
  if [ -n "$service" ]; then install_service; elif ! [ -e "$unit_dir/stoa.service" ]; then say "next: stoa dev, or stoa serve"; fi
  upgrade_service
}

main "$@"
