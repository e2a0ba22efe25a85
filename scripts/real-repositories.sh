#!/usr/bin/env bash
# Builds the repositories of `make test-repositories` from published packages, and prints the folder they are in.
#
#   scripts/real-repositories.sh [NAME…]     all of them, or those named
#
# Each version of a package is one commit, tagged by version, with fixed author and date; packages are pinned, and every
# result is held against a pinned commit id. Needs git, cargo, npm, pip and (for git-lfs) apt-get. What is finished
# stays in a cache folder named after this script's content, so that running again, or after an interruption, makes
# only what is missing.
set -euo pipefail
umask 022

self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
version=$(sha256sum "$self" | cut -c1-12)
cache=${TASKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/taskyard}
root=$cache/real-repositories-$version
all=(crate npm files submodules binaries lfs monorepo)

# Versions of each package, oldest first.
ITERTOOLS=(0.5.0 0.6.0 0.7.0 0.7.11 0.8.0 0.8.2 0.9.0 0.10.0 0.10.1 0.10.3 0.10.5 0.11.0 0.12.0 0.12.1 0.13.0 0.14.0)
LODASH=(3.0.0 3.5.0 3.10.1 4.0.0 4.3.0 4.6.1 4.9.0 4.12.0 4.13.1 4.15.0 4.16.6 4.17.0 4.17.4 4.17.11 4.17.15 4.17.20 4.17.21)
ICONS=(5.14.0 5.15.0)
ICON_FILES=20000
IDNA=(2.8 2.10 3.4 3.7)
URLLIB3=(1.25.11 1.26.0 1.26.20 2.2.3)
REQUESTS=(2.25.1 2.31.0 2.32.3)
NUMPY=(1.26.3 1.26.4)
PARSER=(7.20.0 7.21.0 7.22.0)
TYPES=(7.20.0 7.21.0 7.22.0)
CODE_FRAME=(7.18.6 7.21.4 7.22.5)

# The commit that `main` of each must end at.
declare -A EXPECTED=(
	[crate]=11f49352135b188ea920ce88aa445b24479b1ba8
	[npm]=bf187a5a2651593dbe63e3aec2cead9e89a096e5
	[files]=8755ea63537aa3846e8bc6772efc422295620b4f
	[submodules]=f261d2636a8056303535f7aed05514a8984a43f3
	[binaries]=5b4978d975b6af339eed7b71a096367bc38a494a
	[lfs]=f57364eca70453c137fcd5080ab23790b8c2a487
	[monorepo]=61da6edc97ac84b4479f7cc64330b20b609a460a
)

say() { echo "real-repositories: $*" >&2; }
fail() { say "$*"; exit 1; }

# Nothing of the machine's own configuration takes part.
export GIT_CONFIG_GLOBAL=$root/gitconfig GIT_CONFIG_NOSYSTEM=1 LC_ALL=C.UTF-8
export GIT_AUTHOR_NAME=Publisher GIT_AUTHOR_EMAIL=publisher@example.invalid
export GIT_COMMITTER_NAME=Publisher GIT_COMMITTER_EMAIL=publisher@example.invalid

# --- Packages -------------------------------------------------------------------------------------------------------

# crate NAME VERSION…: unpacked to $work/crates/NAME-VERSION.
crate() {
	local name=$1 version dir=$work/packages sync=() first=
	shift
	for version; do
		mkdir -p "$dir/$version/src"
		: >"$dir/$version/src/lib.rs"
		printf '[package]\nname = "holder"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' \
			"$name" "$version" >"$dir/$version/Cargo.toml"
		if [ -z "$first" ]; then first=$dir/$version/Cargo.toml; else sync+=(-s "$dir/$version/Cargo.toml"); fi
	done
	cargo vendor --quiet --versioned-dirs --manifest-path "$first" "${sync[@]}" "$work/crates" >/dev/null
}

# npm NAME VERSION…: unpacked to $work/npm/VERSION.
npm_package() {
	local name=$1 version
	shift
	mkdir -p "$work/tarballs"
	npm pack --silent --pack-destination "$work/tarballs" "${@/#/$name@}" >/dev/null
	for version; do
		mkdir -p "$work/npm/$name/$version"
		local file=${name#@}
		tar -xzf "$work/tarballs/${file/\//-}-$version.tgz" -C "$work/npm/$name/$version" --strip-components=1 --no-same-owner
	done
}

# wheel NAME VERSION…: unpacked to $work/wheels/NAME/VERSION.
wheel() {
	local name=$1 version
	shift
	for version; do
		mkdir -p "$work/wheels/$name/$version"
		python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
			--implementation cp --platform manylinux2014_x86_64 --platform any -d "$work/wheels/$name" "$name==$version"
		python3 -m zipfile -e "$work/wheels/$name/$name-$version"-*.whl "$work/wheels/$name/$version"
		rm "$work/wheels/$name/$name-$version"-*.whl
	done
}

# --- Repositories ---------------------------------------------------------------------------------------------------

start() { # REPOSITORY
	git init -q -b main "$1"
	git -C "$1" config gc.auto 0
}

# Makes the files of REPOSITORY those of FOLDER.
replace() { # REPOSITORY FOLDER
	find "$1" -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +
	cp -R "$2/." "$1"
	chmod -R u=rwX,go=rX "$1"
}

# Commits everything; each commit of a repository is a day later than the one before.
commit() { # REPOSITORY TAG
	local days date
	days=$(git -C "$1" rev-list --count --all)
	date="$((1500000000 + days * 86400)) +0000"
	git -C "$1" add -A -f
	GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git -C "$1" commit -q -m "Version $2"
	git -C "$1" tag "$2"
}

pack() { git -C "$1" repack -adq; }

build_crate() {
	crate itertools "${ITERTOOLS[@]}"
	start "$made/itertools"
	for version in "${ITERTOOLS[@]}"; do
		# What depends on the version of cargo rather than on the package.
		rm -f "$work/crates/itertools-$version"/{.cargo-checksum.json,.cargo_vcs_info.json,Cargo.toml.orig,Cargo.lock}
		replace "$made/itertools" "$work/crates/itertools-$version"
		commit "$made/itertools" "$version"
	done
	pack "$made/itertools"
}

build_npm() {
	npm_package lodash "${LODASH[@]}"
	start "$made/lodash"
	for version in "${LODASH[@]}"; do
		replace "$made/lodash" "$work/npm/lodash/$version"
		commit "$made/lodash" "$version"
	done
	pack "$made/lodash"
}

build_files() {
	npm_package @mui/icons-material "${ICONS[@]}"
	start "$made/icons"
	for version in "${ICONS[@]}"; do
		local from=$work/npm/@mui/icons-material/$version
		(cd "$from" && find . -type f | sort | tail -n "+$((ICON_FILES + 1))" | tr '\n' '\0' | xargs -0 rm -f && find . -type d -empty -delete)
		replace "$made/icons" "$from"
		commit "$made/icons" "$version"
	done
	[ "$(git -C "$made/icons" ls-files | wc -l)" = "$ICON_FILES" ] || fail "files: not $ICON_FILES files"
	pack "$made/icons"
}

# requests holds urllib3 holds idna, each a submodule; a second submodule's name isn't plain.
build_submodules() {
	wheel idna "${IDNA[@]}"
	wheel urllib3 "${URLLIB3[@]}"
	wheel requests "${REQUESTS[@]}"
	start "$made/idna"
	for version in "${IDNA[@]}"; do
		replace "$made/idna" "$work/wheels/idna/$version"
		commit "$made/idna" "$version"
	done
	start "$made/urllib3"
	for version in "${URLLIB3[@]}"; do
		hold "$made/urllib3" "$work/wheels/urllib3/$version" "../idna contrib/idna ${IDNA[-1]}"
		commit "$made/urllib3" "$version"
	done
	start "$made/requests"
	for version in "${REQUESTS[@]}"; do
		hold "$made/requests" "$work/wheels/requests/$version" \
			"../urllib3 vendor/urllib3 ${URLLIB3[-1]}" "../idna vendor/größe_und_maß ${IDNA[0]}"
		commit "$made/requests" "$version"
	done
	for name in idna urllib3 requests; do pack "$made/$name"; done
}

# Like replace, with submodules as `URL PATH TAG`.
hold() { # REPOSITORY FOLDER SUBMODULE…
	local repository=$1 folder=$2 url path tag
	shift 2
	# Their entries as well as their folders, so that each version declares them anew.
	git -C "$repository" rm -rqf --cached --ignore-unmatch . >/dev/null
	rm -rf "$repository/.git/modules"
	git -C "$repository" config --remove-section submodule 2>/dev/null || true
	replace "$repository" "$folder"
	: >"$repository/.gitmodules"
	for held; do
		read -r url path tag <<<"$held"
		git -C "$repository" -c protocol.file.allow=always submodule --quiet add --force "$url" "$path"
		git -C "$repository/$path" checkout -q "$tag"
	done
}

binaries_of() { # REPOSITORY VERSION
	local keep=$work/keep
	rm -rf "$keep"
	mkdir -p "$keep/numpy"
	cp -R "$work/wheels/numpy/$2/numpy.libs" "$keep"
	cp -R "$work/wheels/numpy/$2/numpy/core" "$work/wheels/numpy/$2/numpy/fft" "$keep/numpy"
	replace "$1" "$keep"
}

build_binaries() {
	wheel numpy "${NUMPY[@]}"
	start "$made/numpy"
	for version in "${NUMPY[@]}"; do
		binaries_of "$made/numpy" "$version"
		commit "$made/numpy" "$version"
	done
	pack "$made/numpy"
}

build_lfs() {
	lfs_program
	export PATH=$made/bin:$PATH
	wheel numpy "${NUMPY[@]}"
	start "$made/numpy"
	git -C "$made/numpy" lfs install --local --skip-repo >/dev/null
	for version in "${NUMPY[@]}"; do
		binaries_of "$made/numpy" "$version"
		printf '*.so filter=lfs diff=lfs merge=lfs -text\n*.so.* filter=lfs diff=lfs merge=lfs -text\n' >"$made/numpy/.gitattributes"
		commit "$made/numpy" "$version"
	done
	pack "$made/numpy"
}

# git-lfs out of its Debian package, without installing it.
lfs_program() {
	mkdir -p "$work/deb" "$made/bin"
	local fetch=(apt-get -qq -o APT::Sandbox::User=root download git-lfs)
	(cd "$work/deb" && { "${fetch[@]}" 2>/dev/null || { apt-get -qq update && "${fetch[@]}"; }; }) >&2
	dpkg-deb -x "$work"/deb/git-lfs_*.deb "$work/deb/out"
	cp "$work/deb/out/usr/bin/git-lfs" "$made/bin"
}

# Workspaces of three packages with links, line ends of all kinds, a filter, modes, and names that aren't plain.
build_monorepo() {
	npm_package @babel/parser "${PARSER[@]}"
	npm_package @babel/types "${TYPES[@]}"
	npm_package @babel/code-frame "${CODE_FRAME[@]}"
	local repo=$made/monorepo tree=$work/monorepo turn name version
	start "$repo"
	git -C "$repo" config filter.rot13.clean 'tr A-Za-z N-ZA-Mn-za-m'
	git -C "$repo" config filter.rot13.smudge 'tr A-Za-z N-ZA-Mn-za-m'
	git -C "$repo" config filter.rot13.required true
	for turn in 0 1 2; do
		rm -rf "$tree"
		mkdir -p "$tree/packages" "$tree/bin" "$tree/dokumente" "$tree/windows" "$tree/links" "$tree/secrets"
		for package in "parser ${PARSER[$turn]}" "types ${TYPES[$turn]}" "code-frame ${CODE_FRAME[$turn]}"; do
			read -r name version <<<"$package"
			cp -R "$work/npm/@babel/$name/$version" "$tree/packages/$name"
			cp -f "$tree/packages/$name/LICENSE" "$tree/LICENSE"
			ln -sf ../../LICENSE "$tree/packages/$name/LICENSE"
			ln -s "../packages/$name" "$tree/links/$name"
		done
		ln -s nowhere "$tree/links/dangling"
		printf '{\n  "name": "monorepo",\n  "version": "%s.0.0",\n  "private": true,\n  "workspaces": ["packages/*"]\n}\n' "$turn" >"$tree/package.json"
		printf '* text=auto\n*.bat text eol=crlf\n*.sh text eol=lf\nwindows/** -text\nsecrets/* filter=rot13\n*.map -diff\nVERSION ident\n' \
			>"$tree/.gitattributes"
		printf '@echo off\r\necho %s\r\n' "$turn" >"$tree/bin/run.bat"
		printf '#!/bin/sh\necho %s\n' "$turn" >"$tree/bin/run.sh"
		printf '#!/bin/sh\n# Größe\necho hidden\n' >"$tree/bin/prüfen"
		chmod +x "$tree/bin/run.sh" "$tree/bin/prüfen"
		printf '$Id$\n%s\n' "$turn" >"$tree/VERSION"
		for line in 1 2 3 4 5 6 7 8 9; do printf 'Zeile %s\r\n' "$line"; done >"$tree/windows/crlf.txt"
		printf 'mixed\r\nline ends\nof version %s\r\n' "$turn" >"$tree/windows/mixed.txt"
		printf 'Hello, secret %s\n' "$turn" >"$tree/secrets/key"
		printf 'Größe %s\n' "$turn" >"$tree/dokumente/Übersicht é x.md"
		printf '日本語\n' >"$tree/dokumente/日本語.txt"
		printf 'decomposed\n' >"$tree/dokumente/e"$'\u0301'".txt"
		printf 'tab\n' >"$tree/dokumente/tab"$'\t'"here"
		printf 'quote\n' >"$tree/dokumente/a\"b"
		printf 'arrow\n' >"$tree/dokumente/alt => neu.txt"
		printf 'dash\n' >"$tree/-n"
		# A link isn't to be made a plain file.
		find "$repo" -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +
		cp -R "$tree/." "$repo"
		find "$repo" -path "$repo/.git" -prune -o ! -type l -exec chmod u=rwX,go=rX {} +
		commit "$repo" "v$turn"
	done
	pack "$repo"
}

# --- Main -----------------------------------------------------------------------------------------------------------

main_of() {
	case $1 in
	crate) echo itertools ;;
	npm) echo lodash ;;
	files) echo icons ;;
	submodules) echo requests ;;
	binaries | lfs) echo numpy ;;
	monorepo) echo monorepo ;;
	*) return 1 ;;
	esac
}

build() { # NAME
	[ -d "$root/$1" ] && return
	say "building $1"
	made=$root/.building work=$root/.work
	rm -rf "$made" "$work"
	mkdir -p "$made" "$work"
	"build_$1"
	local found
	found=$(git -C "$made/$(main_of "$1")" rev-parse main)
	if [ "$found" != "${EXPECTED[$1]}" ]; then
		fail "$1 ends at $found, not at ${EXPECTED[$1]}: a package isn't what it was, or this script makes something else of it"
	fi
	mv "$made" "$root/$1"
	rm -rf "$work"
}

main() {
	[ $# -gt 0 ] || set -- "${all[@]}"
	for name; do main_of "$name" >/dev/null || fail "there is no repository $name (there are: ${all[*]})"; done
	mkdir -p "$root"
	: >>"$root/gitconfig"
	# One at a time; another run waits and then finds everything made.
	exec 9>"$root/.lock"
	flock 9
	# Each in a shell of its own: what one sets doesn't reach the next.
	for name; do (build "$name" 9>&-); done
	echo "$root"
}

main "$@"
