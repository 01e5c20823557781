#!/usr/bin/env bash
# Posts the differences in FOLDER as one comment on the pull request whose newest commit is COMMIT.
# Reads RUN (the run that is commented on), GITHUB_TOKEN, GITHUB_REPOSITORY and RUNNER_TEMP.
set -euo pipefail

admc="${ADMC_COMMAND:-$RUNNER_TEMP/admc/bin/admc}"
cd "$FOLDER"
# In the order of the programs: 2.json before 10.json.
mapfile -t differences < <(printf '%s\n' *.json | sort -n)
"$admc" comment github --commit "$COMMIT" --run "$RUN" --quiet-if-same -- "${differences[@]}"
