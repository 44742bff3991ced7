#!/usr/bin/env bash
# Makes an image with Python from Debian's packages, for the build of the Dockerfile where no image registry is reached.
#
#   deploy/base_image.sh NAME [SUITE]     NAME such as localhost/python:debian; SUITE (default: bookworm) has Python 3.11 or later
#
# Needs root, debootstrap and podman or buildah (Debian: apt-get install debootstrap podman). Options of these programs, such
# as where they keep images: IMAGE_TOOL_ARGS. Where Debian's packages are: DEBIAN_MIRROR.
set -euo pipefail

name=${1:?usage: deploy/base_image.sh NAME [SUITE]}
suite=${2:-bookworm}
read -ra arguments <<<"${IMAGE_TOOL_ARGS:-}"
tool=""
for each in podman buildah; do
  if command -v "$each" >/dev/null; then tool=$each; break; fi
done
[ -n "$tool" ] && command -v debootstrap >/dev/null ||
  { echo "base_image.sh: needs debootstrap and podman or buildah (Debian: apt-get install debootstrap podman)" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,python-is-python3,ca-certificates \
  "$suite" "$work/root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; exit 1; }
# As in the images of Python itself: an installer beside the interpreter, which the Dockerfile takes out again.
chroot "$work/root" sh -c 'python -m venv /tmp/env && cp -r /tmp/env/lib/python3*/site-packages/pip* \
  "$(python -c "import site; print(site.getsitepackages()[0])")" && rm -r /tmp/env /usr/lib/python3*/EXTERNALLY-MANAGED'
rm -rf "$work/root"/var/cache/apt/archives/*.deb "$work/root"/var/lib/apt/lists/* "$work/root"/var/log/*.log

tar --create --directory "$work/root" --numeric-owner --file "$work/root.tar" .
if [ "$tool" = podman ]; then
  podman "${arguments[@]}" import --quiet "$work/root.tar" "$name" >/dev/null
else
  container=$(buildah "${arguments[@]}" from scratch)
  buildah "${arguments[@]}" add --quiet "$container" "$work/root.tar" / >/dev/null
  buildah "${arguments[@]}" commit --quiet --rm "$container" "$name" >/dev/null
fi
echo "$name"
