#!/usr/bin/env bash
# Installs this checkout of admc, with the dependencies of its lock file, apart from what the job has installed.
# Reads ADMC (the checkout), PYTHON and RUNNER_TEMP; `check.sh` finds the command there.
set -euo pipefail

# Isolated (`-I`): the working directory is the checkout of a change, and a `pip.py` in it is no module of ours.
"$PYTHON" -I -m venv "$RUNNER_TEMP/admc"
pip=("$RUNNER_TEMP/admc/bin/python" -I -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" --require-hashes -r "$ADMC/requirements.lock"
# A copy: a build writes beside the sources, and the checkout of an action is shared by the jobs of a machine.
rm -rf "$RUNNER_TEMP/admc-source"
cp -R "$ADMC" "$RUNNER_TEMP/admc-source"
"${pip[@]}" --no-deps --no-build-isolation "$RUNNER_TEMP/admc-source"
