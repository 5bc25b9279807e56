#!/bin/sh
# Builds docket and the demo, and runs it. `make demo` calls this.
#
#   make demo SEED=7    the same order of calls and the same cuts again
#   make demo KEEP=1    keeps the folder with ledger, export and copies
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}

need() {
	command -v "$1" >/dev/null 2>&1 && return
	echo "demo: $1 is not installed (or not in PATH). The demo needs Go 1.26 or newer, make and git${2:+; $2}." >&2
	exit 1
}
need "$go" "Go is at https://go.dev/dl/"
need make
need git

# Here, in the module, an older Go may fetch a newer one by itself.
version=$("$go" env GOVERSION 2>/dev/null) || version=
number=${version#go}
major=${number%%.*}
minor=${number#*.}
minor=${minor%%[!0-9]*}
case $major.$minor in
1.2[6-9] | 1.[3-9][0-9] | [2-9].*) ;;
*)
	# Outside the module nothing depends on what its go.mod asks for.
	found=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null) || found=unknown
	echo "demo: this is Go ${found#go}, which is too old: the demo needs Go 1.26 or newer, from https://go.dev/dl/." >&2
	exit 1
	;;
esac

log=$(mktemp)
ticker=
cleanup() {
	[ -z "$ticker" ] || kill "$ticker" 2>/dev/null || :
	rm -f "$log"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# build TITLE COMMAND…: one line when it begins, one every ten seconds with
# what is compiled just then, and all its output where it fails.
build() {
	printf '%s\n' "$1"
	shift
	: >"$log"
	(
		passed=0
		# The sleep outlives this loop by seconds, and must not keep a pipe open.
		while sleep 10 >/dev/null 2>&1 </dev/null; do
			passed=$((passed + 10))
			printf '   %3d s  %s\n' "$passed" "$(tail -n 1 "$log")"
		done
	) &
	ticker=$!
	if "$@" >"$log" 2>&1; then
		kill "$ticker" 2>/dev/null || :
		wait "$ticker" 2>/dev/null || :
		ticker=
		return
	fi
	cat "$log" >&2
	echo "demo: that did not build" >&2
	exit 1
}

build "Building docket and docketd" make --no-print-directory GOFLAGS="${GOFLAGS:-} -v" build
# The flags are those of docket's own build, so that what both need is
# compiled once.
build "Building the agents, with the vendors' SDKs (minutes the first time, seconds after that)" \
	env CGO_ENABLED=0 "$go" -C demo build -v -trimpath -o bin/demo .

set -- -bin bin -cases testdata/billing/cases.json
[ -z "${SEED:-}" ] || set -- "$@" -seed "$SEED"
[ -z "${KEEP:-}" ] || set -- "$@" -keep
demo/bin/demo "$@"
