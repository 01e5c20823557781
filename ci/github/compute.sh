#!/usr/bin/env bash
# Computes the differences of a pull request from git's objects, without any file of it in the working tree.
# Reads COMMIT (its newest commit), PROGRAMS (a path on each line), GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_OUTPUT,
# RUNNER_TEMP, and TOKEN for a private repository. Writes `found=false` where no open pull request has this commit as its
# newest one.
set -euo pipefail

admc="${ADMC_COMMAND:-$RUNNER_TEMP/admc/bin/admc}"
folder=$(mktemp -d "$RUNNER_TEMP/admc-differences.XXXXXX")
if ! [[ $COMMIT =~ ^[0-9a-f]{40}$ ]]; then
  echo '::error::COMMIT is not the full id of a commit'
  exit 1
fi
if [ -n "${TOKEN:-}" ]; then
  # In the environment: arguments of a process can be read by others of the machine.
  GIT_CONFIG_VALUE_0="Authorization: Basic $(printf 'x-access-token:%s' "$TOKEN" | base64 -w0)"
  export GIT_CONFIG_VALUE_0 GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.${GITHUB_SERVER_URL:-https://github.com}/.extraheader"
fi

nothing() {
  echo "$1"
  echo 'found=false' >> "$GITHUB_OUTPUT"
  exit 0
}

# The host keeps the newest commit of each pull request as a reference, those from forks and closed ones included.
heads=$(git ls-remote origin 'refs/pull/*/head')
numbers=$(awk -v commit="$COMMIT" '$1 == commit { split($2, part, "/"); print part[3] }' <<< "$heads" | sort -rn)
merge=''
if [ -n "$numbers" ]; then
  # shellcheck disable=SC2086 # numbers alone
  numbers=$(python3 "$(dirname "$0")/open_pull_requests.py" "$COMMIT" $numbers)
fi
for number in $numbers; do
  # The merge of BASE and of the pull request, as the other workflow has it. It is read, and never checked out. A pull
  # request with conflicts has none.
  if git fetch --quiet --no-tags --depth=2 origin "+refs/pull/$number/merge:refs/admc/merge" \
    && [ "$(git rev-parse --verify --quiet 'refs/admc/merge^2')" = "$COMMIT" ]; then
    merge=$(git rev-parse 'refs/admc/merge^{commit}')
    break
  fi
done
if [ -z "$merge" ]; then nothing "no open pull request that can be merged has $COMMIT as its newest commit"; fi

# Nothing of a proposed program needs the token.
unset TOKEN GIT_CONFIG_VALUE_0 GIT_CONFIG_COUNT GIT_CONFIG_KEY_0

# A runner takes commands from the log, and messages have lines of the proposed program.
end="admc-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf '::stop-commands::%s\n' "$end"
at=0
while IFS= read -r program; do
  program=${program%$'\r'}
  if [ -z "$program" ]; then continue; fi
  at=$((at + 1))
  # A breached gate is another exit code with a difference, and errors of HEAD have none: the other workflow shows both.
  if ! "$admc" diff --format json -o "$folder/$at.json" -- "$merge^1:$program" "$merge:$program"; then
    echo "$program: the exit code is not 0"
  fi
done <<< "$PROGRAMS"
printf '\n::%s::\n' "$end"
if [ -z "$(ls "$folder")" ]; then nothing 'there is no difference to comment on'; fi
printf 'found=true\nfolder=%s\n' "$folder" >> "$GITHUB_OUTPUT"
